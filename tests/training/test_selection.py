import math
from dataclasses import asdict
from typing import Any

import pytest

from weft.training.config import TrainingConfig
from weft.training.metric import Metric
from weft.training.progress import Progress
from weft.training.selection import Selection
from weft.training.task import Evaluation

METRICS = (Metric("bleu", "max", "BLEU"), Metric("ter", "min", "TER"), Metric("loss", "min", "loss"))
NOT_A_NUMBER = math.nan


def ranked(
    found: list[tuple[float, float | None]], by: str = "bleu", **settings: Any
) -> tuple[list[int], Progress, Selection]:
    """The numbers, from 1, of the validations of (metric, loss) that were the best so far."""
    selection, progress, best = Selection(METRICS, TrainingConfig(select_by=by, **settings)), Progress(), []
    for progress.step, (value, loss) in enumerate(found, start=1):
        losses = {} if loss is None else {"valid_loss": loss}
        evaluation = Evaluation(metrics={f"valid_{by}": value, **losses}, samples=[])
        if is_best := selection.rank(evaluation, progress, costs_patience=True):
            best.append(progress.step)
        selection.lower_rate_on_plateau(progress, is_best=is_best)
    return best, progress, selection


@pytest.mark.parametrize(
    ("found", "by", "best"),
    [
        ([(0.0, 5.0), (0.0, 4.0), (0.0, 3.0), (0.0, 2.0)], "bleu", [1, 2, 3, 4]),
        ([(0.0, 5.0), (0.0, 6.0), (0.0, 5.0), (0.0, 4.9)], "bleu", [1, 4]),
        ([(0.0, 5.0), (3.0, 6.0), (0.0, 4.0), (3.0, 5.5)], "bleu", [1, 2, 4]),
        ([(90.0, 5.0), (90.0, 4.0), (80.0, 9.0), (80.0, 9.0)], "ter", [1, 2, 3]),
        ([(2.0, 2.0), (2.0, 2.0), (1.0, 1.0)], "loss", [1, 3]),
        ([(0.0, 5.0), (0.0, NOT_A_NUMBER), (0.0, 4.0)], "bleu", [1, 3]),
        ([(0.0, NOT_A_NUMBER), (0.0, 5.0), (0.0, 6.0)], "bleu", [1, 2]),
        ([(1.0, None), (1.0, None), (2.0, None)], "bleu", [1, 3]),
    ],
    ids=["falling", "rising", "the metric first", "least is best", "the loss alone", "nan", "after nan", "no loss"],
)
def test_of_equal_values_the_one_with_the_lower_loss_is_the_best(
    found: list[tuple[float, float | None]], by: str, best: list[int]
) -> None:
    assert ranked(found, by)[0] == best


FALLING: list[tuple[float, float | None]] = [(0.0, 5.0), (0.0, 4.0), (0.0, 3.0), (0.0, 2.0)]


def test_a_falling_loss_keeps_patience_and_the_rate_while_the_metric_is_still_zero() -> None:
    settings: dict[str, Any] = {"patience": 1, "schedule": "plateau", "plateau_patience": 0}
    _, progress, selection = ranked(FALLING, **settings)
    assert not selection.is_exhausted(progress) and progress.rate_scale == 1.0
    _, progress, selection = ranked([*FALLING, (0.0, 2.5)], **settings)
    assert selection.is_exhausted(progress) and progress.rate_scale < 1.0


def test_the_best_to_average_are_those_with_the_lower_loss_where_the_metric_is_equal() -> None:
    for found, steps in ((FALLING, [3, 4]), (FALLING[::-1], [1, 2]), ([*FALLING, (1.0, 9.0)], [4, 5])):
        _, progress, selection = ranked(found, average_best=2)
        assert selection.steps_to_average(progress.kept) == steps


def test_the_values_kept_by_a_checkpoint_without_losses_are_read() -> None:
    older = {**asdict(Progress(step=3)), "kept": [[1, 0.5], [2, 0.25]]}
    assert Progress.from_json(older).kept == [(1, 0.5, None), (2, 0.25, None)]
