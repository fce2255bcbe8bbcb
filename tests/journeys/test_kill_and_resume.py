"""A run that is killed at random moments, and rerun each time, ends exactly as one that was left alone.

`make test-slow` runs the version with twenty kills, `python -m bench.reliability.r1_kills` the one with fifty.
"""

from pathlib import Path

import pytest
from bench.reliability.place import furnish
from bench.reliability.r1_kills import kill_runs


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("kills", "seed"), [(2, 83), pytest.param(20, 20, marks=pytest.mark.slow)])
def test_a_run_killed_at_random_moments_ends_bit_for_bit_like_one_left_alone(
    tmp_path: Path, kills: int, seed: int
) -> None:
    figures = kill_runs(furnish(tmp_path, 60), kills, seed)  # of 2 kills, both are in the half that trains
    assert figures["kills"] == kills
    assert {name: figures[name] for name in ("corrupt", "stuck", "different", "left")} == {
        "corrupt": 0,
        "stuck": 0,
        "different": 0,
        "left": 0,
    }
