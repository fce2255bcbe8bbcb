"""Whatever happens to a run, it goes on, or says why not: the reliability tests of bench/reliability, in small.

Those that take more than some seconds are slow ones; `make bench-reliability` runs all of them in full.
"""

from pathlib import Path

import pytest
from bench.reliability import r5_memory
from bench.reliability.place import differences, finish, furnish
from bench.reliability.r2_resume import CASES, resume
from bench.reliability.r3_signals import stop_again_and_again
from bench.reliability.r4_disk import (
    Outcome,
    full_disk,
    limit_files,
    lost_permission,
    no_more_limit,
    read_only_disk,
    spoil,
)
from bench.reliability.r5_bad_numbers import MOST, SPOILED, every_step, some_steps
from bench.reliability.r5_divergence import healthy, too_high
from bench.reliability.r7_changes import CHANGES, begin, go_on, refuse
from bench.reliability.r11_soak import soak


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recipe and its corpus."""
    return furnish(tmp_path)


def test_steps_with_bad_numbers_are_left_out_and_their_pairs_named(folder: Path) -> None:
    figures = some_steps(folder)
    assert figures["skipped"] == figures["spoiled"] == len(SPOILED)
    assert figures["named"] >= len(SPOILED) and figures["wrongly"] == 0
    assert figures["finite"]


def test_too_many_bad_steps_in_a_row_end_the_run_with_its_checkpoint_whole(folder: Path) -> None:
    assert every_step(folder) == {"ends_after": MOST, "whole": True}


def test_a_run_that_runs_out_of_memory_ends_like_one_that_does_not(folder: Path) -> None:
    figures = r5_memory.run_out(folder)
    assert figures["parts"] > 1 and figures["said"] == figures["parts"].bit_length() - 1
    assert figures["difference"] < r5_memory.TOLERANCE and figures["resumes"]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped within its first epoch; left as it is."""
    folder = furnish(tmp_path_factory.mktemp("stopped"))
    (folder / "stopped").mkdir()
    begin(folder, folder / "stopped")
    return folder / "stopped"


@pytest.mark.parametrize("change", CHANGES)
def test_a_run_does_not_go_on_after_a_change_that_would_make_it_another_one(stopped: Path, change: str) -> None:
    assert refuse(stopped, change) == ""


@pytest.mark.slow
def test_unchanged_it_goes_on(folder: Path) -> None:
    (folder / "stopped").mkdir()
    begin(folder, folder / "stopped")
    assert go_on(folder, folder / "stopped") == []


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_run_with_breaks_is_one_without(folder: Path, case: str) -> None:
    assert resume(folder, case, breaks=[2, 17]) == []


@pytest.mark.slow
def test_a_signal_stops_a_run_at_the_end_of_its_step(folder: Path) -> None:
    figures = stop_again_and_again(folder, rounds=1)
    assert figures["stopped"] == figures["signals"] == 4
    assert figures["most_steps"] <= 2 and figures["corrupt"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("way", [full_disk, read_only_disk, lost_permission])
def test_a_run_that_could_not_be_written_goes_on_when_it_can(folder: Path, way) -> None:
    finish(folder, "whole")
    outcome: Outcome = way(folder)
    how, problems = outcome
    if problems is None:
        pytest.skip(how)
    assert problems == []


@pytest.mark.slow
def test_so_does_one_whose_files_may_grow_no_more(folder: Path) -> None:
    finish(folder, "whole")
    assert spoil(folder, "limited", limit_files, no_more_limit, "File too large") == []


@pytest.mark.slow
def test_a_run_that_diverges_finds_back_and_a_healthy_one_is_left_alone(folder: Path) -> None:
    figures = too_high(folder)
    assert figures["fallbacks"] > 0 and figures["with_it"] < figures["without_it"]
    assert healthy(folder, epochs=12)["false_alarms"] == 0


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run(folder: Path) -> None:
    for name in ("one", "two"):
        finish(folder, name)
    assert differences(folder / "one", folder / "two") == []


@pytest.mark.slow
def test_a_long_run_leaves_no_file_open(folder: Path) -> None:
    figures = soak(folder, seconds=20)
    assert figures["least_files"] == figures["most_files"] and figures["exit_code"] == 3
