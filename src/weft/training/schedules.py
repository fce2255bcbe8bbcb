"""The learning rate as a function of the step, and of nothing else: a resumed run needs no scheduler state.

Steps count updates from 1. `peak` is training.learning_rate.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

ONE_CYCLE_START, ONE_CYCLE_END = 1 / 25, 1 / 10_000  # shares of the peak


@dataclass(frozen=True)
class Horizon:
    """What a schedule needs to know of the run: steps in all, steps of warm-up, and the model's width."""

    total_steps: int
    warmup_steps: int
    model_dim: int


def constant(step: int, peak: float, horizon: Horizon) -> float:
    """The peak after a linear warm-up."""
    return peak * min(1.0, step / max(1, horizon.warmup_steps))


def onecycle(step: int, peak: float, horizon: Horizon) -> float:
    """From peak / 25 up to the peak, then down to peak / 10,000, both along half a cosine (Smith and Topin 2017)."""
    if step <= horizon.warmup_steps:
        return along_cosine(peak * ONE_CYCLE_START, peak, step / horizon.warmup_steps)
    share = (step - horizon.warmup_steps) / max(1, horizon.total_steps - horizon.warmup_steps)
    return along_cosine(peak, peak * ONE_CYCLE_END, min(1.0, share))


def noam(step: int, factor: float, horizon: Horizon) -> float:
    """factor * model_dim^-0.5 * min(step^-0.5, step * warmup^-1.5) (Vaswani et al. 2017, equation 3)."""
    return factor * horizon.model_dim**-0.5 * min(step**-0.5, step * max(1, horizon.warmup_steps) ** -1.5)


def along_cosine(begin: float, end: float, share: float) -> float:
    return end + (begin - end) * (1 + math.cos(math.pi * share)) / 2


SCHEDULES: dict[str, Callable[[int, float, Horizon], float]] = {
    "constant": constant,
    "onecycle": onecycle,
    "noam": noam,
}
