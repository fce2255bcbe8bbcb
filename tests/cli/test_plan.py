"""`weft plan`: the plan as a table or as JSON on standard output, everything else on standard error."""

import json
from pathlib import Path

import pytest
from tests.command_line import Weft


@pytest.fixture
def plan(weft: Weft, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Weft:
    """`weft plan` of tiny.toml in an empty folder, with the shortest of trials."""
    monkeypatch.chdir(tmp_path)

    def plan(*arguments: str) -> tuple[int, str, str]:
        quickly = () if "--no-trial" in arguments else ("--seconds", "0")
        return weft("plan", str(tiny_run / "tiny.toml"), *quickly, *arguments)

    return plan


def test_the_table_has_work_cost_memory_and_time(plan: Weft, tmp_path: Path) -> None:
    exit_code, out, error = plan()
    assert exit_code == 0
    assert out.startswith("run          runs/tiny\npairs        42 for training, 5 for validation\n")
    assert "steps        2 = 2 an epoch x 1 epoch\n" in out
    assert "\nall                  14,176 " in out
    assert "\ntime " in out and "\nend " in out
    assert "training pairs" in error and "training pairs" not in out
    assert list(tmp_path.iterdir()) == []


def test_without_a_trial_nothing_is_timed(plan: Weft) -> None:
    exit_code, out, _ = plan("--no-trial", "--set", "training.epochs=7")
    assert exit_code == 0
    assert "14 = 2 an epoch x 7 epochs\n" in out and "\nmemory " in out
    assert "\ntime " not in out


def test_a_trial_that_is_not_made_takes_no_time(plan: Weft) -> None:
    exit_code, _, error = plan("--no-trial", "--seconds", "5")
    assert exit_code == 2 and "--no-trial cannot be combined with --seconds" in error


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1"])
def test_a_trial_takes_a_number_of_seconds(plan: Weft, seconds: str) -> None:
    exit_code, out, error = plan("--seconds", seconds)
    assert (exit_code, out) == (2, "") and "--seconds" in error


def test_json_stands_on_stdout_instead_of_the_table_or_in_a_file_beside_it(plan: Weft, tmp_path: Path) -> None:
    exit_code, out, _ = plan("--json", "-", "--no-trial")
    assert exit_code == 0
    read = json.loads(out)
    assert (read["steps"], read["trial"], read["memory"]["parameters"]) == (2, None, 4 * 14176)

    exit_code, out, _ = plan("--json", "plan.json")
    assert exit_code == 0 and out.startswith("run ")
    assert json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))["seconds"].keys() == {
        *("preparation", "steps", "validations", "checkpoints", "ending")
    }


def test_a_broken_recipe_is_refused_with_all_its_problems(plan: Weft) -> None:
    exit_code, out, error = plan("--set", "model.num_heads=3", "--set", "training.epochs=0")
    assert (exit_code, out) == (2, "")
    assert "has 2 problems" in error
