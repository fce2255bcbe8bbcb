"""The keys of [training] that configure a loss (losses.py); a task inherits those of its own loss."""

from collections.abc import Iterator

from pydantic import Field

from weft.config import FieldProblem
from weft.training.config import UpdateConfig


class TokenLossConfig(UpdateConfig):
    """Cross-entropy over a vocabulary."""

    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """Share of the probability spread evenly over the vocabulary."""
    z_loss: float = Field(default=0.0, ge=0, le=10)
    """Weight of the squared log-sum-exp of the logits, which keeps them from drifting. 0: off."""


class GuidedLossConfig(TokenLossConfig):
    """Cross-entropy that is guided by more than the labels: by a second pass over the batch, by teachers."""

    r_drop: float = Field(default=0.0, ge=0, le=1000)
    """Weight of the divergence between two passes with different dropout (R-Drop). 0: one pass."""
    teachers: tuple[str, ...] = ()
    """Model or run folders whose averaged word-level distributions the model learns from, in addition to the
    references."""
    distill_weight: float = Field(default=0.5, gt=0, le=1)
    """Share of the loss that comes from the teachers."""
    distill_temperature: float = Field(default=1.0, gt=0, le=1000)
    """Temperature that divides the logits of teachers and model in distillation."""

    @property
    def passes(self) -> int:
        """Forward passes over each batch in an update."""
        return 2 if self.r_drop else 1

    def misfits(self) -> Iterator[FieldProblem]:
        yield from super().misfits()
        for key in ("distill_weight", "distill_temperature"):
            if not self.teachers and getattr(self, key) != type(self).model_fields[key].default:
                yield FieldProblem(key, "has no effect without teachers")
        for key in ("z_loss", "label_smoothing"):
            is_set = getattr(self, key) not in (0.0, type(self).model_fields[key].default)
            if is_set and self.teachers and self.distill_weight == 1:
                what = "has no effect with distill_weight = 1, which leaves out the loss against the labels"
                yield FieldProblem(key, what)
