"""Rules about what may be written: a step function that obeys them, for any search.

Each rule changes the log-probabilities of the next piece, given what its row has written. A piece that must not come
gets -inf; nothing is renormalized, so a sum stays the model's own unless a rule says otherwise. A piece that is
demanded wins over what forbids it, at its own price.
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
    """Whether it takes pieces away and leaves what others cost as it is."""

    def apply(
        self,
        log_probs: Float[Tensor, "rows vocab"],
        written: Int[Tensor, "rows time"],
        sentences: Int[Tensor, " rows"],
    ) -> Float[Tensor, "rows vocab"]:
        """Those of the next piece; `written` holds no <s>, `sentences` says whose hypothesis each row is."""
        ...


class Ruled:
    """A step function whose answers obey rules, in their order, those that forbid behind the others; and last of all a
    prefix, which no rule forbids.

    `priced` is the newest answer before anything was forbidden: what a piece costs that is demanded.
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
    """No </s> before a sentence has so many pieces, unless nothing else could follow."""

    forbids = True

    def __init__(self, lengths: Int[Tensor, " sentences"], end_id: int) -> None:
        self.lengths, self.end_id = lengths, end_id

    def apply(self, log_probs: Tensor, written: Tensor, sentences: Tensor) -> Tensor:
        is_short = written.size(1) < self.lengths[sentences]
        without_end = log_probs.clone()
        without_end[:, self.end_id] = -torch.inf
        goes_on = is_short & (without_end > -torch.inf).any(1)
        return torch.where(goes_on[:, None], without_end, log_probs)


class NoRepeatedNgram:
    """No n pieces in a row stand twice in a hypothesis (Paulus et al. 2018, section 2.5); </s> may always come."""

    forbids = True

    def __init__(self, n: int, end_id: int) -> None:
        self.n, self.end_id = n, end_id

    def apply(self, log_probs: Tensor, written: Tensor, sentences: Tensor) -> Tensor:
        time = written.size(1)
        if time < self.n:
            return log_probs
        ngrams = written.unfold(1, self.n, 1)  # (rows, time - n + 1, n)
        beginning = written[:, time - self.n + 1 :]  # what the next piece would complete
        was_here = (ngrams[:, :, :-1] == beginning[:, None]).all(-1)  # (rows, ngrams)
        forbidden = torch.zeros_like(log_probs, dtype=torch.bool)
        row, place = was_here.nonzero(as_tuple=True)
        forbidden[row, ngrams[row, place, -1]] = True
        forbidden[:, self.end_id] = False
        return log_probs.masked_fill(forbidden, -torch.inf)


class RepetitionPenalty:
    """Every piece that was written already has its log-probability multiplied by `factor`, 1 or more (after Keskar et
    al. 2019, section 4.1, who divide logits). Sums are then not the model's own."""

    forbids = False

    def __init__(self, factor: float, end_id: int) -> None:
        self.factor, self.end_id = factor, end_id

    def apply(self, log_probs: Tensor, written: Tensor, sentences: Tensor) -> Tensor:
        was_written = torch.zeros_like(log_probs, dtype=torch.bool).scatter_(1, written, True)
        was_written[:, self.end_id] = False
        return torch.where(was_written, log_probs * self.factor, log_probs)


class Prefix:
    """Every hypothesis of a sentence begins with the pieces given for it; its log-probability counts them."""

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
        """The log-probabilities after `time` pieces; one of the prefix costs what it does in `priced`."""
        if time >= self.tokens.size(1):
            return log_probs
        token = self.tokens[sentences, time][:, None]  # (rows, 1)
        only = torch.full_like(log_probs, -torch.inf)
        only.scatter_(1, token, priced.gather(1, token).clamp(min=LEAST))
        return torch.where((time < self.lengths[sentences])[:, None], only, log_probs)
