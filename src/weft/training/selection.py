"""Choosing the best weights: which validation is the best so far, and when a run has searched long enough.

A Selection decides by the recipe and by Progress, in which it leaves what it decided. So a resumed run decides as an
uninterrupted one would.
"""

import math
from collections.abc import Sequence

from weft.config.keys import near
from weft.errors import UsageError, counted
from weft.training.config import TrainingConfig
from weft.training.metric import Metric
from weft.training.progress import Progress, Validated
from weft.training.task import Evaluation


class Selection:
    """The recipe's way to choose weights among those that were validated."""

    def __init__(self, metrics: Sequence[Metric], config: TrainingConfig) -> None:
        """Raises UsageError where training.select_by is not among the metrics."""
        self.metric, self.config = find_metric(metrics, config.select_by), config

    def value(self, evaluation: Evaluation) -> float:
        """The number that decides."""
        return evaluation.metrics[self.metric.key]

    def is_better(self, evaluation: Evaluation, progress: Progress) -> bool:
        """Whether a validation beats the best so far; of equal values the one with the lower loss does. Any value beats
        NaN, and weights whose loss was NaN."""
        best, loss = progress.best_value, progress.best_loss
        if best is None or math.isnan(best) or (loss is not None and math.isnan(loss)):
            return True
        return self.standing(self.value(evaluation), loss_of(evaluation)) > self.standing(best, loss)

    def standing(self, value: float, loss: float | None) -> tuple[float, float]:
        """What validations are sorted by, the best last: the metric, then the loss."""
        return value if self.metric.better == "max" else -value, -math.inf if loss is None else -loss

    def rank(self, evaluation: Evaluation, progress: Progress, *, costs_patience: bool) -> bool:
        """Note a validation of the current step; returns whether it is the best so far."""
        is_best = self.is_better(evaluation, progress)
        if is_best:
            self.note_best(evaluation, progress)
        progress.validations_since_best = 0 if is_best else progress.validations_since_best + costs_patience
        progress.kept.append((progress.step, self.value(evaluation), loss_of(evaluation)))
        return is_best

    def note_best(self, evaluation: Evaluation, progress: Progress) -> None:
        progress.best_value, progress.best_step = self.value(evaluation), progress.step
        progress.best_loss = loss_of(evaluation)

    # Patience

    def has_lost_patience(self, progress: Progress) -> bool:
        return progress.validations_since_best >= (self.config.patience or math.inf)

    def is_exhausted(self, progress: Progress) -> bool:
        """Whether patience has run out, and with plateau-trials the last trial."""
        return self.config.exhausted(progress.validations_since_best, progress.trials_lost) is not None

    def why_exhausted(self, progress: Progress, total_steps: int) -> str:
        config, bad = self.config, progress.validations_since_best
        lost = f" ({progress.trials_lost + 1} of {config.trials})" if config.schedule == "plateau-trials" else ""
        return (
            f"patience has run out{lost}: no better {self.metric.name} in {counted(bad, 'validation')}; "
            f"training ends at step {progress.step:,} of {total_steps:,}"
        )

    # Learning rates that depend on validations

    def lower_rate_on_plateau(self, progress: Progress, *, is_best: bool) -> bool:
        """With schedule = "plateau", lower the rate after too many validations without improvement; returns whether it
        is lower now."""
        progress.bad_validations = 0 if is_best else progress.bad_validations + 1
        if progress.bad_validations <= self.config.plateau_patience:
            return False
        progress.bad_validations, before = 0, progress.rate_scale
        self.lower_rate(progress)
        return progress.rate_scale < before  # else it is min_learning_rate already

    def lower_rate(self, progress: Progress) -> None:
        least = min(progress.rate_scale, self.config.min_learning_rate / self.config.learning_rate)
        progress.rate_scale = max(least, self.config.plateau_factor * progress.rate_scale)

    # Checkpoints to keep

    def wanted(self, progress: Progress) -> list[Validated]:
        """The validated checkpoints to keep for their own sake or for an average."""
        best, share, validated = progress.best_value, self.config.keep_within, progress.kept
        wanted = set(self.steps_to_average(validated))
        if best is not None and share is not None:
            wanted |= {step for step, value, _ in validated if abs(value - best) <= share * abs(best)}
        return [entry for entry in validated if entry[0] in wanted]

    def steps_to_average(self, validated: list[Validated]) -> list[int]:
        """The checkpoints that `average_last` or `average_best` would average now."""
        ranked = sorted(
            (e for e in validated if not math.isnan(e[1])), key=lambda e: self.standing(*e[1:]), reverse=True
        )
        last = validated[max(0, len(validated) - self.config.average_last) :]
        return sorted(step for step, *_ in ranked[: self.config.average_best] or last)


def loss_of(evaluation: Evaluation) -> float | None:
    """The validation loss, which decides between equal values of the metric; None for a task without one."""
    return evaluation.metrics.get("valid_loss")


def find_metric(metrics: Sequence[Metric], name: str | None) -> Metric:
    """The metric of this name, the first one for None.

    Raises UsageError, with the near match, for a metric that the task does not measure.
    """
    names = [metric.name for metric in metrics]
    if name is None:
        return metrics[0]
    if name not in names:
        hint = f"; did you mean {match[0]}?" if (match := near(name, names)) else ""
        raise UsageError(f"training.select_by = {name!r} is not measured by this task, only {', '.join(names)}{hint}")
    return metrics[names.index(name)]
