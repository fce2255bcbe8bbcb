"""Ablations: which values switch a key off, and a bisection that finds a planted key."""

import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from weft.errors import UsageError
from weft.tuning.ablation import arms_between, bisect, changes_of, resolved_in

KEYS = [f"key-{number}" for number in range(12)]


@pytest.mark.parametrize("planted", KEYS)
def test_bisect_names_a_planted_key_among_12_in_at_most_5_runs(planted: str) -> None:
    draw = random.Random(planted)

    def value_of(changed: Sequence[str]) -> float:
        return 20 - 1.0 * (planted in changed) + draw.gauss(0, 0.1)

    found = bisect(KEYS, value_of, (value_of([]), value_of(KEYS)))
    assert (found.key, found.runs <= 5) == (planted, True)
    assert found.share == pytest.approx(1, abs=0.5)


def test_two_keys_that_only_harm_together_are_not_blamed_on_one() -> None:
    def value_of(changed: Sequence[str]) -> float:
        return 20 - 1.0 * ({"key-2", "key-9"} <= set(changed))

    assert bisect(KEYS, value_of, (20, 19)).key is None


def test_of_two_changes_each_recipe_between_is_one_arm() -> None:
    changes = {"a": (0, 1), "b": (0, 1), "c": (0, 1)}
    assert [*arms_between(("old", "new"), {"a": (0, 1), "b": (0, 1)}).values()] == [
        {},
        {"a": 1, "b": 1},
        {"a": 1},
        {"b": 1},
    ]
    assert len({str(sorted(arm.items())) for arm in arms_between(("old", "new"), changes).values()}) == 8


def test_one_key_needs_no_run_beyond_the_two_ends() -> None:
    found = bisect(["key"], lambda changed: math.nan, (20, 19))
    assert (found.key, found.share, found.runs) == ("key", 1.0, 0)


def test_a_key_is_switched_off_by_what_means_off_for_it_and_values_of_one_key_are_an_arm_each(tiny_run: Path) -> None:
    base = resolved_in(tiny_run / "tiny.toml", tiny_run)
    arms = changes_of(base, [], [("model.dropout", 0.2), ("model.dropout", 0.3)])
    assert [*arms.values()][-2:] == [{"model.dropout": 0.2}, {"model.dropout": 0.3}]
    # 1.0 clips, 1 is the most impatient, and "none" would be the name of a model
    for key in ("training.clip_norm", "training.patience", "training.init"):
        with pytest.raises(UsageError, match=f"--without {key}"):
            changes_of(base, [key], [])
