"""The one thing that search asks of a model: what comes next, and to follow when rows are reordered.

A search runs several hypotheses (rows) for each sentence at once. Anything that can answer `step` and `reorder` can be
searched: a Transformer, an ensemble, an exported session, a table of probabilities in a test.

Every search is written as a generator that pauses after each step (`Searching`), so that somebody may look at what is
certain by then, or stop. `to_the_end` makes it a function that only answers.
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
"""The log-probability of a piece that is demanded though the model holds it impossible."""


@runtime_checkable
class StepFunction(Protocol):
    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Take the newest token of every row (at first <s>) and give the log-probabilities of the one that follows."""
        ...

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Make row i go on from what row rows[i] was.

        Rows of one sentence stand side by side and stay with it; all rows of a sentence can be left out.
        """
        ...


@runtime_checkable
class AttendingStepFunction(StepFunction, Protocol):
    """One that also tells where it looks in the source."""

    def source_mask(self) -> Bool[Tensor, "sentences source"]:
        """Which source tokens of each sentence are no padding."""
        ...

    def source_attention(self) -> Float[Tensor, "rows source"]:
        """How much of its attention each row gave to each source token in the last step; the sum is 1."""
        ...


@dataclass(frozen=True)
class Hypothesis:
    """A finished target sentence as ids without <s> and </s>; log_prob sums over its pieces and </s>, in nats."""

    tokens: tuple[int, ...]
    log_prob: float
    score: float


@runtime_checkable
class Certain(Protocol):
    """What a search that goes on knows already."""

    def beginning(self, sentence: int) -> tuple[int, ...]:
        """Pieces that the best answer of a sentence will begin with, whatever is found; none once it is settled."""
        ...


Parameters = ParamSpec("Parameters")
Answers = TypeVar("Answers")

Searching = Generator[Certain | None, None, Answers]
"""A search that pauses after each step and at last returns its answers; None where nothing is certain before."""


def to_the_end(
    steps: Callable[Parameters, Searching[Answers]], after_step: Callable[[], None] = lambda: None
) -> Callable[Parameters, Answers]:
    """The function that takes all steps of a search at once and returns its answers; what `after_step` raises after one
    of them ends it."""

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
    """Certain where every row is a sentence's only hypothesis, or one of its samples."""

    sentences: Int[Tensor, " rows"]
    written: Int[Tensor, "rows time"]

    def beginning(self, sentence: int) -> tuple[int, ...]:
        return shared_beginning(self.written[self.sentences == sentence].tolist())


def shared_beginning(hypotheses: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The pieces that all of them begin with."""
    together = zip(*hypotheses, strict=False)
    return tuple(pieces[0] for pieces in takewhile(lambda pieces: len(set(pieces)) == 1, together))


def refuse_nan(log_prob: Float[Tensor, "*hypotheses"]) -> None:
    """Raise WeftError where a model's answer is no number: no comparison with it would hold, and a search never end."""
    if log_prob.isnan().any():
        raise WeftError("the model answers NaN for a probability; its weights are damaged or its training diverged")
