"""Beam search over a batch (Sutskever et al. 2014, section 3.2).

At every step each open hypothesis is extended by every piece. Of the 2k best extensions of a sentence, those that end
with </s> and stand among the first k are finished; the k best of the others stay open. Finished hypotheses are never
extended. A sentence leaves the batch as soon as no open hypothesis can still win.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from weft.decoding.length import LENGTH_PENALTIES
from weft.decoding.step import Hypothesis, StepFunction, refuse_nan

Stopping = Literal["exact", "first-k"]
Divisor = Callable[[Tensor, Tensor], Tensor]  # a length penalty whose power is set


def beam_search(
    step_function: StepFunction,
    max_lengths: Int[Tensor, " sentences"],
    source_lengths: Int[Tensor, " sentences"],
    *,
    beam_size: int,
    begin_id: int,
    end_id: int,
    length_penalty: str = "none",
    length_power: float = 1.0,
    stopping: Stopping = "exact",
    best: int = 1,
) -> list[list[Hypothesis]]:
    """The `best` highest-scoring finished hypotheses of each sentence, never more than beam_size, best first.

    `step_function` holds beam_size rows a sentence. `max_lengths` counts pieces without </s>; a hypothesis that reaches
    it can only end. `exact` stops a sentence when its `best`-th finished score is at least the bound on every open one
    (see length.py), `first-k` when beam_size hypotheses are finished. Raises WeftError where the model answers NaN.
    """
    penalty = LENGTH_PENALTIES[length_penalty]
    best = min(best, beam_size)

    def divisor(length: Tensor, source_length: Tensor) -> Tensor:
        return penalty(length, source_length, length_power)

    beams = Beams.begin(max_lengths, source_lengths, beam_size, begin_id)
    found: dict[int, list[Hypothesis]] = {}
    while len(beams.sentence):
        log_probs = step_function.step(beams.newest.flatten()).unflatten(0, (-1, beam_size))
        extended, parent = extend(beams, log_probs, end_id, divisor)
        is_done = is_settled(extended, stopping, best, divisor)
        for index in is_done.nonzero().squeeze(1).tolist():
            found[int(extended.sentence[index])] = extended.finished_hypotheses(index, best)
        still_open = (~is_done).nonzero().squeeze(1)
        rows = (torch.arange(len(is_done), device=parent.device)[:, None] * beam_size + parent)[still_open]
        step_function.reorder(rows.flatten())
        beams = extended if len(still_open) == len(is_done) else extended.select(still_open)
    return [found[sentence] for sentence in range(len(max_lengths))]


@dataclass
class Beams:
    """The open and the finished hypotheses of all sentences still in the batch.

    An unused place, open or finished, has log_prob and score -inf.
    """

    sentence: Int[Tensor, " sentences"]
    max_length: Int[Tensor, " sentences"]
    source_length: Int[Tensor, " sentences"]
    newest: Int[Tensor, "sentences beam"]
    log_prob: Float[Tensor, "sentences beam"]
    written: Int[Tensor, "sentences beam time"]
    finished_score: Float[Tensor, "sentences beam"]
    finished_log_prob: Float[Tensor, "sentences beam"]
    finished: Int[Tensor, "sentences beam finished_time"]
    finished_length: Int[Tensor, "sentences beam"]
    finished_count: Int[Tensor, " sentences"]

    @classmethod
    def begin(cls, max_lengths: Tensor, source_lengths: Tensor, beam_size: int, begin_id: int) -> "Beams":
        sentences = len(max_lengths)
        device = max_lengths.device
        nowhere = torch.full((sentences, beam_size), -torch.inf, device=device)
        none_written = torch.empty(sentences, beam_size, 0, dtype=torch.long, device=device)
        log_prob = nowhere.clone()
        log_prob[:, 0] = 0.0  # all rows are the same at first, so only one of them is extended
        return cls(
            sentence=torch.arange(sentences, device=device),
            max_length=max_lengths,
            source_length=source_lengths,
            newest=torch.full((sentences, beam_size), begin_id, device=device),
            log_prob=log_prob,
            written=none_written,
            finished_score=nowhere,
            finished_log_prob=nowhere.clone(),
            finished=none_written.clone(),
            finished_length=torch.zeros(sentences, beam_size, dtype=torch.long, device=device),
            finished_count=torch.zeros(sentences, dtype=torch.long, device=device),
        )

    def select(self, indices: Tensor) -> "Beams":
        return Beams(**{name: getattr(self, name)[indices] for name in self.__dataclass_fields__})

    def finished_hypotheses(self, index: int, best: int) -> list[Hypothesis]:
        """The finished hypotheses of the sentence at this place in the batch, best first."""
        lengths = self.finished_length[index].tolist()
        log_probs = self.finished_log_prob[index].tolist()
        scores = self.finished_score[index].tolist()
        return [
            Hypothesis(tuple(self.finished[index, place, : lengths[place]].tolist()), log_probs[place], scores[place])
            for place in range(min(best, len(scores)))
            if scores[place] > -torch.inf
        ]


def extend(
    beams: Beams, log_probs: Float[Tensor, "sentences beam vocab"], end_id: int, divisor: Divisor
) -> tuple[Beams, Int[Tensor, "sentences beam"]]:
    """One step of all sentences; also which place in its beam each new open hypothesis came from."""
    _, beam_size, vocab_size = log_probs.shape
    time = beams.written.size(2)
    must_end = time >= beams.max_length
    if must_end.any():
        goes_on = torch.arange(vocab_size, device=log_probs.device) != end_id
        log_probs = log_probs.masked_fill(must_end[:, None, None] & goes_on, -torch.inf)
    candidates = (beams.log_prob[:, :, None] + log_probs).flatten(1)  # (sentences, beam * vocab)
    log_prob, flat = candidates.topk(min(2 * beam_size, candidates.size(1)), dim=1)
    refuse_nan(log_prob)
    parent, token = flat // vocab_size, flat % vocab_size
    ends = token == end_id

    newly_finished = log_prob.masked_fill(~ends, -torch.inf)[:, :beam_size]
    beams = keep_finished(beams, newly_finished, parent[:, :beam_size], time, divisor)

    # The k best that do not end, in order: ended ones sort behind all others by their -inf.
    log_prob, place = log_prob.masked_fill(ends, -torch.inf).topk(beam_size, dim=1)
    parent, token = parent.gather(1, place), token.gather(1, place)
    history = beams.written.gather(1, parent[:, :, None].expand(-1, -1, time))
    beams.newest, beams.log_prob = token, log_prob
    beams.written = torch.cat([history, token[:, :, None]], dim=2)
    return beams, parent


def keep_finished(
    beams: Beams,
    log_prob: Float[Tensor, "sentences beam"],
    parent: Int[Tensor, "sentences beam"],
    time: int,
    divisor: Divisor,
) -> Beams:
    """Merge the hypotheses that just ended (-inf where none did) into the beam_size best finished ones."""
    has_ended = log_prob > -torch.inf
    if not has_ended.any():
        return beams
    beam_size = log_prob.size(1)
    length = torch.full_like(parent, time)
    score = log_prob / divisor(length + 1, beams.source_length[:, None])  # </s> counts
    ended = beams.written.gather(1, parent[:, :, None].expand(-1, -1, time))
    padding = (0, time - beams.finished.size(2))

    beams.finished_score, place = torch.cat([beams.finished_score, score], dim=1).topk(beam_size, dim=1)
    beams.finished_log_prob = torch.cat([beams.finished_log_prob, log_prob], dim=1).gather(1, place)
    beams.finished_length = torch.cat([beams.finished_length, length], dim=1).gather(1, place)
    everything = torch.cat([torch.nn.functional.pad(beams.finished, padding), ended], dim=1)
    beams.finished = everything.gather(1, place[:, :, None].expand(-1, -1, time))
    beams.finished_count = beams.finished_count + has_ended.sum(1)
    return beams


def is_settled(beams: Beams, stopping: Stopping, best: int, divisor: Divisor) -> Bool[Tensor, " sentences"]:
    """True where no open hypothesis can change the answer."""
    nothing_open = beams.log_prob[:, 0] == -torch.inf
    if stopping == "first-k":
        return nothing_open | (beams.finished_count >= beams.log_prob.size(1))
    bound = beams.log_prob[:, 0] / divisor(beams.max_length + 1, beams.source_length)
    return nothing_open | (beams.finished_score[:, best - 1] >= bound)
