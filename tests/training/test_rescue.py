"""What tells that memory ran out, and that a run diverges; what the Trainer makes of it is in test_trainer.py."""

import math
import random
import re

import pytest
import torch

from weft.errors import WeftError, is_out_of_memory
from weft.training.progress import JUDGED_OVER, LossLevel
from weft.training.rescue import (
    FALLBACK_FACTOR,
    MOST_FALLBACKS,
    explaining_out_of_memory,
    is_much_worse,
)

# Memory


def test_what_torch_says_when_it_has_no_memory_is_understood() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50)
    assert is_out_of_memory(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."),
        MemoryError(),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("MPS backend out of memory (MPS allocated: 9.0 GB)"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: not enough memory: you tried to ..."),
    ],
    ids=str,
)
def test_so_is_what_it_says_elsewhere(error: Exception) -> None:
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [RuntimeError("mat1 and mat2 shapes cannot be multiplied"), ValueError("out of memory"), KeyError("memory")],
    ids=str,
)
def test_other_errors_are_others(error: Exception) -> None:
    assert not is_out_of_memory(error)
    with pytest.raises(type(error), match=re.escape(str(error))), explaining_out_of_memory():
        raise error


def test_memory_that_nothing_helps_against_is_one_clear_error() -> None:
    said = "memory ran out where smaller training batches do not help"
    with pytest.raises(WeftError, match=said), explaining_out_of_memory():
        raise MemoryError


# The level of the training loss


def level_of(losses: list[float], level: LossLevel | None = None, each: int = 1) -> LossLevel:
    """After these losses a token, in updates of seven tokens, so many of each."""
    level = level or LossLevel()
    for loss in [loss for loss in losses for _ in range(each)]:
        level.add(torch.tensor(7 * loss, dtype=torch.float64), 7)
    return level


def test_the_level_is_the_mean_over_fifty_updates_and_the_lowest_of_them() -> None:
    numbers = random.Random(1)
    losses = [numbers.uniform(0, 9) for _ in range(4 * JUDGED_OVER + 3)]
    means = [sum(losses[place : place + JUDGED_OVER]) / JUDGED_OVER for place in range(0, 4 * JUDGED_OVER, JUDGED_OVER)]
    level = level_of(losses)
    assert level.newest == pytest.approx(means[-1]) and level.lowest == pytest.approx(min(means))
    assert level.updates == 3 and float(level.total) == pytest.approx(7 * sum(losses[-3:]))


def test_a_level_that_is_read_on_the_way_ends_the_same_bit_for_bit() -> None:
    numbers = random.Random(2)
    losses = [numbers.uniform(0, 9) for _ in range(3 * JUDGED_OVER)]
    straight, stopped = level_of(losses), level_of(losses[:70])
    stopped.read()
    assert level_of(losses[70:], LossLevel(**vars(stopped))) == straight


def test_it_has_risen_when_the_newest_mean_is_more_above_the_lowest_than_allowed() -> None:
    level = level_of([3.0] * JUDGED_OVER)
    assert not level.has_risen(1.0)
    level_of([4.0] * JUDGED_OVER, level)
    assert not level.has_risen(1.0)
    level_of([4.1] * JUDGED_OVER, level)
    assert level.has_risen(1.0) and not level.has_risen(math.inf)


def test_a_level_that_a_validation_has_accepted_has_risen_but_calls_for_no_other_until_it_rises_further() -> None:
    level = level_of([3.0, 4.1], each=JUDGED_OVER)
    assert level.has_risen(1.0) and level.calls_for_validation(1.0)
    level.accept()
    assert level.has_risen(1.0) and not level.calls_for_validation(1.0)
    level_of([5.2] * JUDGED_OVER, level)
    assert level.calls_for_validation(1.0)


def test_training_that_goes_on_from_a_level_is_judged_by_its_lowest_mean() -> None:
    level = level_of([3.0, 2.0, 9.0], each=JUDGED_OVER)
    level.accept()
    again = level_of([3.1] * JUDGED_OVER, level.restarted())
    assert again.has_risen(1.0) and again.calls_for_validation(1.0) and again.updates == 0
    before_the_first = level_of([3.1] * JUDGED_OVER, LossLevel().restarted(level.lowest))
    assert before_the_first.has_risen(1.0)


@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_run_never_rises_by_a_nat(seed: int) -> None:
    """Losses fall from ln 8,000 while the rate warms up, single batches are off by up to a nat, and at the highest rate
    all are worse by half a nat for a while."""
    numbers = random.Random(seed)
    level = LossLevel()
    for step in range(3000):
        bump = 0.5 * math.exp(-(((step - 400) / 100) ** 2))
        loss = 2.0 + 7.0 * math.exp(-step / 200) + bump + min(1.0, max(-1.0, numbers.gauss(0, 0.5)))
        level_of([loss], level)
        assert not level.has_risen(1.0) and not level.calls_for_validation(1.0)


@pytest.mark.parametrize(
    ("valid_loss", "best", "is_worse"),
    [
        (3.5, 2.5, False),
        (3.6, 2.5, True),
        (math.nan, 2.5, True),
        (math.inf, 2.5, True),
        (9.0, None, False),
        (math.nan, None, False),
        (9.0, math.nan, False),
    ],
)
def test_a_validation_is_much_worse_than_that_of_weights_one_could_go_back_to(
    valid_loss: float, best: float | None, is_worse: bool
) -> None:
    assert is_much_worse(valid_loss, best, 1.0) == is_worse


def test_a_sixteenth_of_the_rate_is_left_in_the_end() -> None:
    assert FALLBACK_FACTOR**MOST_FALLBACKS == 1 / 16
