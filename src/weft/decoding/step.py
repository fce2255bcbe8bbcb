"""The interface that a search asks of a model: the next piece's log-probabilities, and reordering of rows.

A search runs several hypotheses (rows) for each sentence at once. Anything with `step` and `reorder` can be searched: a
Transformer, an ensemble, an exported session, a table of probabilities in a test.

Every search is a generator that pauses after each step (`Searching`), so that its caller can read what is already
certain, or stop. `to_the_end` makes it a function that returns the answers.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import takewhile
from typing import ParamSpec, Protocol, TypeVar, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor

from weft.errors import WeftError

LEAST = -1e4
"""The log-probability of a demanded piece to which the model gives probability 0."""


@runtime_checkable
class StepFunction(Protocol):
    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Take the newest token of every row (at first <s>), return the log-probabilities of the one that follows."""
        ...

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Let row i continue what row rows[i] was.

        Rows of one sentence are adjacent and stay with it; all rows of a sentence can be left out.
        """
        ...


@runtime_checkable
class AttendingStepFunction(StepFunction, Protocol):
    """A step function that also returns its attention to the source."""

    def source_mask(self) -> Bool[Tensor, "sentences source"]:
        """True at the source tokens of each sentence, False at padding."""
        ...

    def source_attention(self) -> Float[Tensor, "rows source"]:
        """Attention of each row to each source token in the last step; sums to 1."""
        ...


@dataclass(frozen=True)
class Hypothesis:
    """A finished target sentence as ids without <s> and </s>; log_prob sums over its pieces and </s>, in nats."""

    tokens: tuple[int, ...]
    log_prob: float
    score: float


@runtime_checkable
class Certain(Protocol):
    """What a search knows before it ends."""

    def beginning(self, sentence: int) -> tuple[int, ...]:
        """Pieces with which the best answer of a sentence will begin; none once the sentence has left the search."""
        ...


Parameters = ParamSpec("Parameters")
Answers = TypeVar("Answers")

Searching = Generator[Certain | None, None, Answers]
"""A search that pauses after each step and finally returns its answers; it yields None if nothing is certain yet."""


def to_the_end(
    steps: Callable[Parameters, Searching[Answers]], after_step: Callable[[], None] = lambda: None
) -> Callable[Parameters, Answers]:
    """A function that takes all steps of a search and returns its answers. `after_step` is called after every step; an
    exception that it raises ends the search."""

    @wraps(steps)
    def search(*arguments: Parameters.args, **settings: Parameters.kwargs) -> Answers:
        searching = steps(*arguments, **settings)
        while True:
            try:
                next(searching)
            except StopIteration as end:
                return end.value
            after_step()

    return search


@dataclass(frozen=True)
class Written:
    """What greedy search and sampling have written: a sentence's only hypothesis, or its samples, do not change."""

    sentences: Int[Tensor, " rows"]
    written: Int[Tensor, "rows time"]

    def beginning(self, sentence: int) -> tuple[int, ...]:
        return shared_beginning(self.written[self.sentences == sentence].tolist())


def shared_beginning(hypotheses: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The pieces that all of them begin with."""
    together = zip(*hypotheses, strict=False)
    return tuple(pieces[0] for pieces in takewhile(lambda pieces: len(set(pieces)) == 1, together))


def refuse_nan(log_prob: Float[Tensor, "*hypotheses"]) -> None:
    """Raise WeftError if a log-probability is NaN: no comparison with it holds, so the search would never end."""
    if log_prob.isnan().any():
        raise WeftError("the model returned NaN for a probability; its weights are damaged or its training diverged")
