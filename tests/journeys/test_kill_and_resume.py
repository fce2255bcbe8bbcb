"""A run that is killed at random moments, and rerun each time, ends exactly as one that was left alone.

`make test-slow` runs the version with twenty kills.
"""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

from weft.data.starter import generate
from weft.tasks.model_folder import check_manifest

RECIPE = """
[data]
source = "zh"
target = "en"
train = ["train.tsv"]
valid = ["valid.tsv"]
[tokenizer]
source_size = 500
target_size = 500
[model]
model_dim = 32
num_heads = 4
encoder_layers = 1
decoder_layers = 1
ff_dim = 64
[training]
batch_tokens = 256
epochs = 4
log_every = 3
validate_every = "20 steps"
checkpoint_every = "4 steps"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    corpus = generate()
    for name, pairs in (("train", corpus.train[:400]), ("valid", corpus.valid[:8])):
        lines = ["zh\ten", *("\t".join(pair) for pair in pairs)]
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "tiny.toml").write_text(RECIPE)
    return tmp_path


def start(folder: Path, run: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "weft", "train", str(folder / "tiny.toml"), "--run", str(folder / run)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(folder: Path, run: str) -> None:
    process = start(folder, run)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors


def without_clock(path: Path) -> list[dict]:
    """The lines of metrics.jsonl but for what a clock says."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{k: v for k, v in row.items() if k not in ("seconds", "target_tokens_per_second")} for row in rows]


def assert_visible_checkpoints_are_whole(run: Path) -> None:
    for checkpoint in (run / "checkpoints").glob("step-*"):
        check_manifest(checkpoint)
        load_file(checkpoint / "training.safetensors")
        json.loads((checkpoint / "training.json").read_text(encoding="utf-8"))
    if (run / "run.json").exists():
        status = json.loads((run / "run.json").read_text(encoding="utf-8"))
        assert all((run / status[name]).is_dir() for name in ("last", "best") if status[name])


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_run_killed_at_random_moments_ends_bit_for_bit_like_one_left_alone(folder: Path, kills: int) -> None:
    begin = time.monotonic()
    finish(folder, "whole")
    duration = time.monotonic() - begin

    moments = random.Random(20)
    killed = runs = 0
    while killed < kills:
        runs += 1
        killed += kill_again_and_again(folder, f"killed-{runs}", moments, duration, most=kills - killed)
        finish(folder, f"killed-{runs}")
        assert_same_run(folder / f"killed-{runs}", folder / "whole")


def kill_again_and_again(folder: Path, run: str, moments: random.Random, duration: float, most: int) -> int:
    """Begin or go on with a run and kill it at a random moment of its whole length, until it once comes to its end."""
    for kills in range(most):
        process = start(folder, run)
        try:
            process.wait(timeout=moments.uniform(0.05, 1.1) * duration)
        except subprocess.TimeoutExpired:
            process.kill()
        _, errors = process.communicate()
        assert_visible_checkpoints_are_whole(folder / run)
        if process.returncode != -signal.SIGKILL:
            assert process.returncode == 0, errors
            return kills
    return most


def assert_same_run(run: Path, whole: Path) -> None:
    assert without_clock(run / "metrics.jsonl") == without_clock(whole / "metrics.jsonl")
    assert (run / "samples.jsonl").read_bytes() == (whole / "samples.jsonl").read_bytes()
    for name in (
        "config.toml",
        "manifest.json",
        "model.safetensors",
        "tokenizer.source.model",
        "tokenizer.target.model",
    ):
        assert (run / name).read_bytes() == (whole / name).read_bytes()
    assert {path.name for path in (run / "checkpoints").iterdir()} == {
        path.name for path in (whole / "checkpoints").iterdir()
    }
