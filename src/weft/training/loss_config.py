"""The keys of [training] that belong to a loss (losses.py); a task inherits those of its own."""

from collections.abc import Iterator

from pydantic import Field

from weft.config import FieldProblem
from weft.training.config import UpdateConfig


class TokenLossConfig(UpdateConfig):
    """Cross-entropy over a vocabulary."""

    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """Share of the probability that is spread over the whole vocabulary."""
    z_loss: float = Field(default=0.0, ge=0, le=10)
    """Weight of the squared logarithm of the sum of exp(logits), which keeps logits from drifting away (0: none)."""


class GuidedLossConfig(TokenLossConfig):
    """Cross-entropy that is guided by more than the labels: by a second pass over the batch, by teachers."""

    r_drop: float = Field(default=0.0, ge=0, le=1000)
    """Weight of the divergence between two passes over each batch with different dropout (0: one pass)."""
    teachers: tuple[str, ...] = ()
    """Model or run folders whose word-by-word distributions, averaged, the model learns from beside the references."""
    distill_weight: float = Field(default=0.5, gt=0, le=1)
    """Share of the loss that comes from the teachers."""
    distill_temperature: float = Field(default=1.0, gt=0, le=1000)
    """What logits are divided by, the teachers' and the model's, where the model learns from teachers."""

    @property
    def passes(self) -> int:
        """Forward passes over each batch in an update."""
        return 2 if self.r_drop else 1

    def misfits(self) -> Iterator[FieldProblem]:
        yield from super().misfits()
        for key in ("distill_weight", "distill_temperature"):
            if not self.teachers and getattr(self, key) != type(self).model_fields[key].default:
                yield FieldProblem(key, "is only used with teachers")
        for key in ("z_loss", "label_smoothing"):
            is_set = getattr(self, key) not in (0.0, type(self).model_fields[key].default)
            if is_set and self.teachers and self.distill_weight == 1:
                what = "belongs to the loss against the labels, of which distill_weight = 1 leaves none"
                yield FieldProblem(key, what)
