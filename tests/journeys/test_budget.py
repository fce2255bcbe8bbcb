"""`weft train --budget`: from the starter corpus to a model, start to exit, within the time that was given."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.command_line import Weft
from tests.conftest import TINY_RECIPE

from weft.data import starter

STARTS = 6
"""The budget, in starts of a process: a busy machine takes longer for all that comes before the first step."""
PAIRS = 1_000
"""Training pairs, so few that most of the budget is left for training."""

SETTINGS = ["tokenizer={source_size=600, target_size=600}", 'training.validate_every="200 steps"']


@pytest.mark.timeout(180)
def test_a_run_with_a_budget_uses_it_and_says_how_it_came_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weft: Weft
) -> None:
    starter.write(tmp_path)
    for name, kept in (("train.tsv", PAIRS), ("valid.tsv", 100)):
        lines = (tmp_path / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (tmp_path / name).write_text("".join(lines[: 1 + kept]), encoding="utf-8")
    (tmp_path / "tiny.toml").write_text(TINY_RECIPE, encoding="utf-8")
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import weft.runs.train"], check=True)
    budget = max(10, round(STARTS * (time.monotonic() - began)))
    command = [sys.executable, "-m", "weft", "train", "tiny.toml", "--run", "run", "--budget", f"{budget}s"]
    command += [word for setting in SETTINGS for word in ("--set", setting)]
    began = time.monotonic()
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    passed = time.monotonic() - began
    assert (answer.returncode, answer.stdout) == (0, ""), answer.stderr
    assert answer.stderr.splitlines()[-1].startswith(f"budget {budget}s, used ")

    recorded = json.loads((tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert recorded["budget_seconds"] == budget
    assert 0.3 * budget < recorded["used_seconds"] < passed < 3 * budget  # the machine may be busy with other work
    recipe = (tmp_path / "run" / "config.toml").read_text(encoding="utf-8")
    assert f"steps = {recorded['step']}  # measured\n" in recipe

    monkeypatch.chdir(tmp_path)
    exit_code, _, error = weft(*command[3:])
    assert exit_code == 0 and "is finished" in error
