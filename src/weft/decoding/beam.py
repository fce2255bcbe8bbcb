"""Beam search over a batch (Sutskever et al. 2014, section 3.2).

At every step each open hypothesis is extended by every piece. Of the 2k best extensions of a sentence, those that end
with </s> and are among the first k are finished; the k best of the others stay open. Finished hypotheses are never
extended. A sentence leaves the batch as soon as no open hypothesis can still win.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from weft.decoding.coverage import Coverage
from weft.decoding.largest import largest
from weft.decoding.length import PLAIN_SUM, Scoring
from weft.decoding.step import Hypothesis, Searching, StepFunction, refuse_nan, shared_beginning, to_the_end

Stopping = Literal["exact", "first-k"]


def beam_steps(
    step_function: StepFunction,
    max_lengths: Int[Tensor, " sentences"],
    source_lengths: Int[Tensor, " sentences"],
    *,
    beam_size: int,
    begin_id: int,
    end_id: int,
    scoring: Scoring = PLAIN_SUM,
    stopping: Stopping = "exact",
    patience: float = 1.0,
    coverage: Coverage | None = None,
    best: int = 1,
) -> Searching[list[list[Hypothesis]]]:
    """The `best` highest-scoring finished hypotheses of each sentence, never more than beam_size, best first.

    `step_function` holds beam_size rows a sentence. `max_lengths` counts pieces without </s>; a hypothesis that reaches
    it can only end. `exact` stops a sentence when its `best`-th finished score is at least the bound on every open one
    (see length.py), `first-k` when patience * beam_size hypotheses are finished (Kasai et al. 2022). Raises WeftError
    where the model answers NaN.
    """
    best = min(best, beam_size)
    wanted = patience * beam_size
    beams = Beams.begin(max_lengths, source_lengths, beam_size, begin_id)
    if coverage is not None:
        beams.coverage = coverage.at_first(beam_size)
    found: dict[int, list[Hypothesis]] = {}
    while len(beams.sentence):
        log_probs = step_function.step(beams.newest.flatten()).unflatten(0, (-1, beam_size))
        if coverage is not None:
            beams.coverage = beams.coverage + coverage.newest(beam_size)
        extended, parent = extend(beams, log_probs, end_id, scoring, coverage)
        is_done = is_settled(extended, stopping, best, wanted, scoring)
        for index in is_done.nonzero().squeeze(1).tolist():
            found[int(extended.sentence[index])] = extended.finished_hypotheses(index, best)
        still_open = (~is_done).nonzero().squeeze(1)
        rows = (torch.arange(len(is_done), device=parent.device)[:, None] * beam_size + parent)[still_open]
        step_function.reorder(rows.flatten())
        beams = extended if len(still_open) == len(is_done) else extended.select(still_open)
        yield beams
    return [found[sentence] for sentence in range(len(max_lengths))]


beam_search = to_the_end(beam_steps)


@dataclass
class Beams:
    """The open and the finished hypotheses of all sentences still in the batch.

    An unused place of a beam, open or finished, has log_prob and score -inf.
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
    coverage: Float[Tensor, "sentences beam source"]
    """Attention that each source token has received so far (coverage.py); of size 0 without a coverage penalty."""

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
            coverage=nowhere.new_empty(sentences, beam_size, 0),
        )

    def select(self, indices: Tensor) -> "Beams":
        return Beams(**{name: getattr(self, name)[indices] for name in self.__dataclass_fields__})

    def finished_hypotheses(self, index: int, best: int) -> list[Hypothesis]:
        """The finished hypotheses of the sentence at this index of the batch, best first."""
        lengths = self.finished_length[index].tolist()
        log_probs = self.finished_log_prob[index].tolist()
        scores = self.finished_score[index].tolist()
        return [
            Hypothesis(tuple(self.finished[index, place, : lengths[place]].tolist()), log_probs[place], scores[place])
            for place in range(min(best, len(scores)))
            if scores[place] > -torch.inf
        ]

    def beginning(self, sentence: int) -> tuple[int, ...]:
        """The pieces that all open hypotheses of a sentence share with the best finished one. One of these will be the
        best answer."""
        if not (places := (self.sentence == sentence).nonzero().flatten().tolist()):
            return ()
        index = places[0]
        still_open = self.written[index][self.log_prob[index] > -torch.inf].tolist()
        finished = [hypothesis.tokens for hypothesis in self.finished_hypotheses(index, 1)]
        return shared_beginning([*still_open, *finished])


def extend(
    beams: Beams,
    log_probs: Float[Tensor, "sentences beam vocab"],
    end_id: int,
    scoring: Scoring,
    coverage: Coverage | None = None,
    handicap: Float[Tensor, "sentences vocab"] | None = None,
) -> tuple[Beams, Int[Tensor, "sentences beam"]]:
    """Extend all sentences by one step. Return the beams, and from which place of its beam each open hypothesis came.

    A `handicap` is subtracted from a piece when extensions are compared, but not from their sums (diverse.py).
    """
    _, beam_size, vocab_size = log_probs.shape
    time = beams.written.size(2)
    must_end = time >= beams.max_length
    if must_end.any():
        continues = torch.arange(vocab_size, device=log_probs.device) != end_id
        log_probs = log_probs.masked_fill(must_end[:, None, None] & continues, -torch.inf)
    sums = (beams.log_prob[:, :, None] + log_probs).flatten(1)  # (sentences, beam * vocab)
    compared = sums if handicap is None else sums - handicap.repeat(1, beam_size)
    rank, flat = largest(compared, min(2 * beam_size, compared.size(1)))
    refuse_nan(rank)
    log_prob = rank if handicap is None else sums.gather(1, flat)
    parent, token = flat // vocab_size, flat % vocab_size
    ends = token == end_id

    newly_finished = log_prob.masked_fill(~ends, -torch.inf)[:, :beam_size]
    beams = keep_finished(beams, newly_finished, parent[:, :beam_size], time, scoring, coverage)

    # The k best that do not end, in order: ended ones sort behind all others by their -inf.
    rank, place = rank.masked_fill(ends, -torch.inf).topk(beam_size, dim=1)
    log_prob = rank if handicap is None else log_prob.masked_fill(ends, -torch.inf).gather(1, place)
    parent, token = parent.gather(1, place), token.gather(1, place)
    beams.written = torch.cat([gather_beams(beams.written, parent), token[:, :, None]], dim=2)
    beams.coverage = gather_beams(beams.coverage, parent)
    beams.newest, beams.log_prob = token, log_prob
    return beams, parent


def keep_finished(
    beams: Beams,
    log_prob: Float[Tensor, "sentences beam"],
    parent: Int[Tensor, "sentences beam"],
    time: int,
    scoring: Scoring,
    coverage: Coverage | None,
) -> Beams:
    """Merge the hypotheses that just ended (-inf where none did) into the beam_size best finished ones."""
    has_ended = log_prob > -torch.inf
    if not has_ended.any():
        return beams
    beam_size = log_prob.size(1)
    length = torch.full_like(parent, time)
    score = scoring(log_prob, length + 1, beams.source_length[:, None])  # </s> counts
    if coverage is not None:
        score = score + coverage.score(gather_beams(beams.coverage, parent))
    ended = gather_beams(beams.written, parent)
    padding = (0, time - beams.finished.size(2))

    beams.finished_score, place = torch.cat([beams.finished_score, score], dim=1).topk(beam_size, dim=1)
    beams.finished_log_prob = torch.cat([beams.finished_log_prob, log_prob], dim=1).gather(1, place)
    beams.finished_length = torch.cat([beams.finished_length, length], dim=1).gather(1, place)
    everything = torch.cat([torch.nn.functional.pad(beams.finished, padding), ended], dim=1)
    beams.finished = gather_beams(everything, place)
    beams.finished_count = beams.finished_count + has_ended.sum(1)
    return beams


def gather_beams(
    x: Shaped[Tensor, "sentences beam rest"], parent: Int[Tensor, "sentences new_beam"]
) -> Shaped[Tensor, "sentences new_beam rest"]:
    """Select, for each new beam, the entry of the beam it came from."""
    return x.gather(1, parent[:, :, None].expand(-1, -1, x.size(2)))


def is_settled(
    beams: Beams, stopping: Stopping, best: int, wanted: float, scoring: Scoring
) -> Bool[Tensor, " sentences"]:
    """True where no open hypothesis can change the answer, or for `first-k` where enough are finished.

    The bound also holds with a coverage penalty, which is never positive.
    """
    nothing_open = (beams.log_prob == -torch.inf).all(1)
    if stopping == "first-k":
        return nothing_open | (beams.finished_count >= wanted)
    bound = scoring(beams.log_prob.amax(1), beams.max_length + 1, beams.source_length)
    return nothing_open | (beams.finished_score[:, best - 1] >= bound)
