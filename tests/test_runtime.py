"""The machine as the process may use it: cores, quotas, threads."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from weft import runtime
from weft.runtime import Cancelled, choose_threads, cpu_quota, map_in_threads, usable_cores


def control_groups(root: Path, quotas: dict[str, str], member: str = "0::/jobs/mine\n") -> tuple[Path, Path]:
    """A membership file and a hierarchy, as Linux shows them, with these cpu.max files."""
    for group, quota in quotas.items():
        (root / "hierarchy" / group).mkdir(parents=True, exist_ok=True)
        (root / "hierarchy" / group / "cpu.max").write_text(quota, encoding="ascii")
    (root / "cgroup").write_text(member, encoding="ascii")
    return root / "cgroup", root / "hierarchy"


@pytest.mark.parametrize(
    ("quotas", "cores"),
    [
        ({"jobs/mine": "200000 100000\n"}, 2),
        ({"jobs/mine": "150000 100000\n"}, 2),  # a core and a half
        ({"jobs/mine": "5000 100000\n"}, 1),
        ({"jobs/mine": "max 100000\n"}, None),
        ({"jobs/mine": "400000 100000\n", "jobs": "300000 100000\n"}, 3),  # the parent grants less
        ({"jobs/mine": "max 100000\n", ".": "200000 100000\n"}, 2),  # a container sees its own group as the root
        ({}, None),
        ({"jobs/mine": "nonsense"}, None),
    ],
)
def test_a_quota_is_the_least_that_the_group_and_those_above_it_grant(
    tmp_path: Path, quotas: dict[str, str], cores: int | None
) -> None:
    assert cpu_quota(*control_groups(tmp_path, quotas)) == cores


def test_without_control_groups_nothing_limits(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path / "none", tmp_path) is None
    assert cpu_quota(*control_groups(tmp_path, {}, member="4:memory:/old\n1:cpu:/old\n0::/\n")) is None
    assert cpu_quota(*control_groups(tmp_path, {}, member="nonsense\n")) is None


@pytest.mark.parametrize(
    ("quotas", "cores"),
    [
        ({"cpu/jobs/mine": "150000"}, 2),
        ({"cpu/jobs/mine": "-1"}, None),
        ({"cpu/jobs/mine": "400000", "cpu/jobs": "300000", "cpu": "-1"}, 3),  # the parent grants less
        ({"cpu": "100000"}, 1),  # a container sees its own group as the root
        ({"cpu/jobs/other": "100000", "memory/jobs/mine": "100000"}, None),
    ],
)
@pytest.mark.parametrize("controllers", ["cpu", "cpu,cpuacct", "cpuacct,cpu"])
def test_the_older_control_groups_have_a_hierarchy_for_each_controller(
    tmp_path: Path, quotas: dict[str, str], cores: int | None, controllers: str
) -> None:
    for group, quota in quotas.items():
        folder = tmp_path / "hierarchy" / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.cfs_quota_us").write_text(f"{quota}\n", encoding="ascii")
        (folder / "cpu.cfs_period_us").write_text("100000\n", encoding="ascii")
    (tmp_path / "cgroup").write_text(f"4:memory:/jobs/mine\n1:{controllers}:/jobs/mine\n0::/\n", encoding="ascii")
    assert cpu_quota(tmp_path / "cgroup", tmp_path / "hierarchy") == cores


def test_threads_are_torchs_choice_but_no_more_than_the_cores_that_may_be_used(monkeypatch) -> None:
    assert 1 <= choose_threads() <= usable_cores() <= (os.cpu_count() or 1)
    monkeypatch.setattr(runtime, "TORCH_THREADS", 1)
    assert choose_threads() == 1  # who asked for fewer gets fewer
    monkeypatch.setattr(runtime, "TORCH_THREADS", usable_cores() + 7)
    assert choose_threads() == usable_cores()


def test_what_a_run_sets_does_not_become_the_choice_of_the_next() -> None:
    before, chosen = torch.get_num_threads(), choose_threads()
    try:
        for other in (max(1, before - 1), before + 1):
            torch.set_num_threads(other)
            assert choose_threads() == chosen
    finally:
        torch.set_num_threads(before)


# Side by side


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_answers_come_in_the_order_of_the_questions(workers: int) -> None:
    def square(number: int, check_cancelled: object) -> int:
        time.sleep(0.001 * (20 - number))
        return number * number

    assert list(map_in_threads(square, range(20), workers)) == [number * number for number in range(20)]
    assert list(map_in_threads(square, [], workers)) == []


def test_workers_share_out_the_threads() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        counted = list(map_in_threads(lambda *_: (torch.get_num_threads(), threading.get_ident()), range(9), 2))
        assert {threads for threads, _ in counted} == {2}
        assert threading.get_ident() not in {worker for _, worker in counted}
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("end", ["error", "close"])
def test_work_that_is_wanted_no_more_ends_soon_and_the_rest_never_begins(end: str) -> None:
    two_more, ended = threading.Barrier(3, timeout=10), []

    def work(number: int, check_cancelled: Callable[[], None]) -> int:
        if number == 0:
            return 0
        if number <= 2:
            two_more.wait()
        if number == 1 and end == "error":
            raise ZeroDivisionError
        try:
            while True:
                check_cancelled()
                time.sleep(0.001)
        except Cancelled:
            ended.append(number)
            raise

    answers = map_in_threads(work, range(100), 2)
    assert next(answers) == 0
    two_more.wait()
    if end == "error":
        with pytest.raises(ZeroDivisionError):
            next(answers)
    else:
        answers.close()
    assert 2 in ended and max(ended) <= 4


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch comes without oneDNN here")
@pytest.mark.parametrize(("given", "missed"), [(None, 0), ("1000", 1200)])
def test_no_program_of_an_epoch_is_written_again_unless_the_environment_says_so(given: str | None, missed: int) -> None:
    """oneDNN keeps 1,024 by itself, and says at this level of its reports whether it found one."""
    products = """
import torch
from weft.runtime import keep_programs
keep_programs()
weight = torch.ones(8, 8)
for epoch in range(2):
    print("epoch", flush=True)
    for rows in range(1, 1201):
        torch.ops.mkldnn._linear_pointwise(torch.ones(rows, 8), weight, None, "none", [], "")
"""
    world = {name: value for name, value in os.environ.items() if not name.startswith("ONEDNN_")}
    if given is not None:
        world["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] = given
    ran = subprocess.run(
        [sys.executable, "-c", products],
        env={**world, "ONEDNN_VERBOSE": "2", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    _, first, second = ran.stdout.split("epoch\n")
    assert (first.count("cache_miss"), second.count("cache_miss")) == (1200, missed)
