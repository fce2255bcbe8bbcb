"""The one thing that search asks of a model: what comes next, and to follow when rows are reordered.

A search runs several hypotheses (rows) for each sentence at once. Anything that can answer `step` and `reorder` can be
searched: a Transformer, an ensemble, an exported session, a table of probabilities in a test.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

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


def refuse_nan(log_prob: Float[Tensor, "*hypotheses"]) -> None:
    """Raise WeftError where a model's answer is no number: no comparison with it would hold, and a search never end."""
    if log_prob.isnan().any():
        raise WeftError("the model answers NaN for a probability; its weights are damaged or its training diverged")
