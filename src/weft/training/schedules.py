"""The learning rate as a function of the step alone, so that a resumed run needs no scheduler state.

Steps count updates from 1. `peak` is training.learning_rate. Two schedules are lowered by what validations find; as a
function of the step they are constant, and `Progress.rate_scale` holds the factor.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

ONE_CYCLE_START, ONE_CYCLE_END = 1 / 25, 1 / 10_000  # shares of the peak


@dataclass(frozen=True)
class Horizon:
    """What a schedule depends on: the total and warmup steps, the model's width, and the final share of the peak."""

    total_steps: int
    warmup_steps: int
    width: int
    final_share: float = 0.0


def constant(step: int, peak: float, horizon: Horizon) -> float:
    """The peak after a linear warm-up."""
    return peak * min(1.0, step / max(1, horizon.warmup_steps))


def onecycle(step: int, peak: float, horizon: Horizon) -> float:
    """Up from peak / 25 to the peak, then down to peak / 10,000, both along half a cosine (Smith and Topin 2017)."""
    if step <= horizon.warmup_steps:
        return along_cosine(peak * ONE_CYCLE_START, peak, step / horizon.warmup_steps)
    share = (step - horizon.warmup_steps) / max(1, horizon.total_steps - horizon.warmup_steps)
    return along_cosine(peak, peak * ONE_CYCLE_END, min(1.0, share))


def noam(step: int, factor: float, horizon: Horizon) -> float:
    """factor * width^-0.5 * min(step^-0.5, step * warmup^-1.5) (Vaswani et al. 2017, equation 3)."""
    return factor * horizon.width**-0.5 * min(step**-0.5, step * max(1, horizon.warmup_steps) ** -1.5)


def inverse_sqrt(step: int, peak: float, horizon: Horizon) -> float:
    """Up linearly to the peak, then peak * sqrt(warmup / step): Noam's curve, given by its highest point."""
    warmup = max(1, horizon.warmup_steps)
    return peak * min(step / warmup, math.sqrt(warmup / step))


def cosine(step: int, peak: float, horizon: Horizon) -> float:
    """Up linearly to the peak, then along half a cosine to final_share * peak (Loshchilov and Hutter 2017)."""
    if step <= horizon.warmup_steps:
        return constant(step, peak, horizon)
    return along_cosine(peak, peak * horizon.final_share, share_of_fall(step, horizon))


def linear(step: int, peak: float, horizon: Horizon) -> float:
    """Up linearly to the peak, then linearly to final_share * peak."""
    if step <= horizon.warmup_steps:
        return constant(step, peak, horizon)
    return peak * (1 - (1 - horizon.final_share) * share_of_fall(step, horizon))


def share_of_fall(step: int, horizon: Horizon) -> float:
    """Share of the decay behind a step: 0 at the end of the warmup, 1 one step after the last, so that no update has a
    rate of 0. It stays 1 after that, since a trial may take more steps than the run has."""
    return min(1.0, (step - horizon.warmup_steps) / max(1, horizon.total_steps + 1 - horizon.warmup_steps))


def along_cosine(begin: float, end: float, share: float) -> float:
    return end + (begin - end) * (1 + math.cos(math.pi * share)) / 2


def highest_rate(schedule: str, peak: float, horizon: Horizon) -> tuple[int, float]:
    """The step at which the learning rate is highest, and that rate: every schedule rises until its warmup ends."""
    step = max(1, min(horizon.warmup_steps, horizon.total_steps))
    return step, SCHEDULES[schedule](step, peak, horizon)


SCHEDULES: dict[str, Callable[[int, float, Horizon], float]] = {
    "constant": constant,
    "onecycle": onecycle,
    "noam": noam,
    "inverse-sqrt": inverse_sqrt,
    "cosine": cosine,
    "linear": linear,
    "plateau": constant,
    "plateau-trials": constant,
}

SCHEDULE_KEYS = {
    "final_share": ("cosine", "linear"),
    "plateau_factor": ("plateau", "plateau-trials"),
    "plateau_patience": ("plateau",),
    "min_learning_rate": ("plateau", "plateau-trials"),
    "trials": ("plateau-trials",),
}
"""Settings that not every schedule has -> the schedules that have it."""
