"""The learning rate at steps where it can be worked out by hand, and beside torch's own schedules."""

from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler

from weft.training.config import TrainingConfig
from weft.training.schedules import (
    SCHEDULE_KEYS,
    SCHEDULES,
    Horizon,
    constant,
    cosine,
    highest_rate,
    inverse_sqrt,
    linear,
    noam,
    onecycle,
)

HORIZON = Horizon(total_steps=1000, warmup_steps=100, width=512)


def test_one_cycle_is_torchs_with_a_step_0_before_the_first_update() -> None:
    peak, weight = 1.5e-3, torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([weight], lr=1.0)
    # torch's rise ends at step pct_start * total - 1 and its fall at step total - 1, counted from 0.
    oracle = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        max_lr=peak,
        total_steps=HORIZON.total_steps + 1,
        pct_start=(HORIZON.warmup_steps + 1) / (HORIZON.total_steps + 1),
        div_factor=25,
        final_div_factor=10_000 / 25,
        cycle_momentum=False,
    )
    for step in range(HORIZON.total_steps + 1):
        assert onecycle(step, peak, HORIZON) == pytest.approx(oracle.get_last_lr()[0], rel=1e-9)
        optimizer.step()
        if step < HORIZON.total_steps:
            oracle.step()
    assert onecycle(HORIZON.total_steps + 1, peak, HORIZON) == pytest.approx(peak / 10_000)


def test_noam_is_equation_3_at_three_steps() -> None:
    horizon = Horizon(total_steps=100_000, warmup_steps=4000, width=512)
    root = 512**-0.5
    assert noam(1, 1.0, horizon) == pytest.approx(root * 4000**-1.5)
    assert noam(4000, 1.0, horizon) == pytest.approx(root * 4000**-0.5)  # 0.0007, the peak
    assert noam(16_000, 2.0, horizon) == pytest.approx(2 * root / 126.49110640673517)


def test_inverse_square_root_is_noam_named_by_its_peak() -> None:
    factor = 3.0 * (HORIZON.width * HORIZON.warmup_steps) ** 0.5
    for step in range(1, 1001):
        assert inverse_sqrt(step, 3.0, HORIZON) == pytest.approx(noam(step, factor, HORIZON))
    assert [inverse_sqrt(step, 3.0, HORIZON) for step in (50, 100, 400, 900)] == pytest.approx([1.5, 3.0, 1.5, 1.0])


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
@pytest.mark.parametrize(
    ("schedule", "make_oracle"),
    [
        (linear, lambda optimizer, share, steps: LinearLR(optimizer, 1.0, share, total_iters=steps)),
        (cosine, lambda optimizer, share, steps: CosineAnnealingLR(optimizer, T_max=steps, eta_min=2.0 * share)),
    ],
    ids=["linear", "cosine"],
)
def test_linear_and_cosine_rise_in_a_line_and_fall_as_torchs_do(
    schedule: Callable[[int, float, Horizon], float],
    make_oracle: Callable[[torch.optim.Optimizer, float, int], LRScheduler],
    share: float,
) -> None:
    horizon = replace(HORIZON, final_share=share)
    assert [schedule(step, 2.0, horizon) for step in (1, 50, 100)] == pytest.approx([0.02, 1.0, 2.0])
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    oracle = make_oracle(optimizer, share, 901)
    for step in range(100, 1002):
        assert schedule(step, 2.0, horizon) == pytest.approx(oracle.get_last_lr()[0], rel=1e-9, abs=1e-12)
        optimizer.step()
        oracle.step()
    assert schedule(1001, 2.0, horizon) == pytest.approx(2.0 * share, abs=1e-12)  # reached behind the last step


def test_constant_rises_in_a_line_and_stays() -> None:
    assert [constant(step, 2.0, HORIZON) for step in (1, 50, 100, 101, 1000)] == [0.02, 1.0, 2.0, 2.0, 2.0]


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize(("total", "warmup"), [(1, 1), (2, 1), (3, 10), (10, 10)])
def test_the_shortest_runs_have_a_positive_rate_at_every_step(name: str, total: int, warmup: int) -> None:
    horizon = Horizon(total_steps=total, warmup_steps=warmup, width=16)
    assert all(0 < SCHEDULES[name](step, 1.0, horizon) <= 1 for step in range(1, total + 1))


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("warmup", [4, 45, 46, 60])
def test_beyond_the_end_of_a_run_no_rate_is_negative_or_rises_again(name: str, warmup: int) -> None:
    horizon = Horizon(total_steps=45, warmup_steps=warmup, width=16)
    rates = [SCHEDULES[name](step, 1.0, horizon) for step in range(max(45, warmup), 400)]
    assert min(rates) >= 0 and rates == sorted(rates, reverse=True)


@pytest.mark.parametrize(
    ("warmup", "steps"), [(0.08, 160), (0.5, 1000), (1, 1), (400, 400), (0, 1), (0.0001, 1), (1e9, 1_000_000_000)]
)
def test_warm_up_is_a_share_of_all_steps_below_1_and_a_number_of_steps_from_there_on(warmup: float, steps: int) -> None:
    horizon = TrainingConfig(epochs=20, warmup=warmup).horizon(steps_per_epoch=100, width=256)
    assert horizon == Horizon(total_steps=2000, warmup_steps=steps, width=256)


def test_the_final_share_of_a_recipe_reaches_its_schedule() -> None:
    assert TrainingConfig(schedule="linear", final_share=0.2).horizon(100, width=256).final_share == 0.2


def test_a_recipe_can_choose_every_schedule_and_no_other() -> None:
    choices = set(get_args(TrainingConfig.model_fields["schedule"].annotation))
    assert choices == SCHEDULES.keys()
    assert {name for names in SCHEDULE_KEYS.values() for name in names} <= choices
    assert SCHEDULE_KEYS.keys() <= TrainingConfig.model_fields.keys()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("warmup", [1, 7, 100, 5000])
def test_the_highest_rate_is_the_highest_of_all_steps(schedule: str, warmup: int) -> None:
    horizon = Horizon(total_steps=1000, warmup_steps=warmup, width=256)
    rates = [SCHEDULES[schedule](step, 0.5, horizon) for step in range(1, 1001)]
    step, rate = highest_rate(schedule, 0.5, horizon)
    assert rate == max(rates) == rates[step - 1]
