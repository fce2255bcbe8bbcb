"""Choosing the best weights: which metric decides."""

from collections.abc import Sequence

from weft.config.keys import near
from weft.errors import UsageError
from weft.training.metric import Metric


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
