"""The machine as the process may use it: cores, quotas, threads."""

import os
from pathlib import Path

import pytest
import torch

from weft import runtime
from weft.runtime import choose_threads, cpu_quota, usable_cores


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
    assert cpu_quota(*control_groups(tmp_path, {}, member="4:cpu:/old\n")) is None


def test_threads_are_torchs_choice_but_no_more_than_the_cores_that_may_be_used(monkeypatch) -> None:
    assert 1 <= choose_threads() <= usable_cores() <= (os.cpu_count() or 1)
    monkeypatch.setattr(runtime, "TORCH_THREADS", 1)
    assert choose_threads() == 1  # who asked for fewer gets fewer
    monkeypatch.setattr(runtime, "TORCH_THREADS", usable_cores() + 7)
    assert choose_threads() == usable_cores()


def test_what_a_run_sets_does_not_become_the_choice_of_the_next() -> None:
    before, chosen = torch.get_num_threads(), choose_threads()
    try:
        torch.set_num_threads(max(1, before - 1))
        assert choose_threads() == chosen
    finally:
        torch.set_num_threads(before)
