"""Rules about what a search may write, as a step function around another.

Each rule changes the log-probabilities of the next piece, given what its row has written. A forbidden piece gets -inf;
nothing is renormalized, so sums stay the model's own unless a rule penalizes. A demanded piece is allowed even where a
rule forbids it, at the price that the model gives it.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from weft.decoding.step import LEAST, StepFunction


@runtime_checkable
class Rule(Protocol):
    forbids: bool
    """Whether it sets pieces to -inf and leaves the others as they are."""

    def apply(
        self,
        log_probs: Float[Tensor, "rows vocab"],
        written: Int[Tensor, "rows time"],
        sentences: Int[Tensor, " rows"],
    ) -> Float[Tensor, "rows vocab"]:
        """Return the log-probabilities of the next piece under this rule.

        `written` is without <s>; `sentences` holds the sentence that each row belongs to.
        """
        ...


class Ruled:
    """A step function that applies rules in order, those that forbid after the others, and a prefix last.

    No rule forbids the prefix. `priced` is the newest answer before anything was forbidden: the price of a demanded
    piece.
    """

    priced: Float[Tensor, "rows vocab"]

    def __init__(
        self,
        step_function: StepFunction,
        rules: Sequence[Rule],
        sentences: int,
        rows_per_sentence: int,
        prefix: "Prefix | None" = None,
    ):
        self.inner = step_function
        self.rules, self.prefix = rules, prefix
        self.sentences = torch.arange(sentences).repeat_interleave(rows_per_sentence)
        self.written: Int[Tensor, "rows time"] | None = None  # None before <s> was given

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        self.priced = log_probs = self.inner.step(tokens)
        if self.written is None:
            self.sentences = self.sentences.to(tokens.device)
            self.written = tokens.new_empty(len(tokens), 0)
        else:
            self.written = torch.cat([self.written, tokens[:, None]], dim=1)
        for rule in self.rules:
            log_probs = rule.apply(log_probs, self.written, self.sentences)
            if not rule.forbids:
                self.priced = log_probs
        if self.prefix is not None:
            log_probs = self.prefix.apply(log_probs, self.priced, self.written.size(1), self.sentences)
        return log_probs

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        self.inner.reorder(rows)
        self.sentences = self.sentences[rows]
        if self.written is not None:
            self.written = self.written[rows]


class MinimumLength:
    """Forbid </s> until a hypothesis has `lengths` pieces, unless nothing else could follow."""

    forbids = True

    def __init__(self, lengths: Int[Tensor, " sentences"], end_id: int) -> None:
        self.lengths, self.end_id = lengths, end_id

    def apply(self, log_probs: Tensor, written: Tensor, sentences: Tensor) -> Tensor:
        is_short = written.size(1) < self.lengths[sentences]
        without_end = log_probs.clone()
        without_end[:, self.end_id] = -torch.inf
        continues = is_short & (without_end > -torch.inf).any(1)
        return torch.where(continues[:, None], without_end, log_probs)


class NoRepeatedNgram:
    """Forbid pieces that would repeat an n-gram (Paulus et al. 2018, section 2.5); </s> is always allowed."""

    forbids = True

    def __init__(self, n: int, end_id: int) -> None:
        self.n, self.end_id = n, end_id

    def apply(self, log_probs: Tensor, written: Tensor, sentences: Tensor) -> Tensor:
        time = written.size(1)
        if time < self.n:
            return log_probs
        ngrams = written.unfold(1, self.n, 1)  # (rows, time - n + 1, n)
        beginning = written[:, time - self.n + 1 :]  # the n - 1 pieces that the next one completes
        was_here = (ngrams[:, :, :-1] == beginning[:, None]).all(-1)  # (rows, ngrams)
        forbidden = torch.zeros_like(log_probs, dtype=torch.bool)
        row, place = was_here.nonzero(as_tuple=True)
        forbidden[row, ngrams[row, place, -1]] = True
        forbidden[:, self.end_id] = False
        return log_probs.masked_fill(forbidden, -torch.inf)


class RepetitionPenalty:
    """Multiply the log-probability of every piece that a hypothesis already contains by `factor`, 1 or more.

    After Keskar et al. 2019, section 4.1, who divide logits. Sums are then not the model's own.
    """

    forbids = False

    def __init__(self, factor: float, end_id: int) -> None:
        self.factor, self.end_id = factor, end_id

    def apply(self, log_probs: Tensor, written: Tensor, sentences: Tensor) -> Tensor:
        was_written = torch.zeros_like(log_probs, dtype=torch.bool).scatter_(1, written, True)
        was_written[:, self.end_id] = False
        return torch.where(was_written, log_probs * self.factor, log_probs)


class Prefix:
    """Make every hypothesis of a sentence begin with the pieces given for it; its log-probability includes theirs."""

    def __init__(self, prefixes: Sequence[Sequence[int]], device: torch.device | None = None) -> None:
        longest = max(map(len, prefixes), default=0)
        rows = [[*prefix, *[0] * (longest - len(prefix))] for prefix in prefixes]
        self.tokens = torch.tensor(rows, dtype=torch.long, device=device).view(len(prefixes), longest)
        self.lengths = torch.tensor([len(prefix) for prefix in prefixes], dtype=torch.long, device=device)

    def apply(
        self,
        log_probs: Float[Tensor, "rows vocab"],
        priced: Float[Tensor, "rows vocab"],
        time: int,
        sentences: Int[Tensor, " rows"],
    ) -> Float[Tensor, "rows vocab"]:
        """The log-probabilities after `time` pieces; a piece of the prefix has that of `priced`."""
        if time >= self.tokens.size(1):
            return log_probs
        token = self.tokens[sentences, time][:, None]  # (rows, 1)
        only = torch.full_like(log_probs, -torch.inf)
        only.scatter_(1, token, priced.gather(1, token).clamp(min=LEAST))
        return torch.where((time < self.lengths[sentences])[:, None], only, log_probs)
