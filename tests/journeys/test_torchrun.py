"""`torchrun ... -m -- weft train`: two processes on a CPU are one run; stopped, bereft of one of them, gone on with.

What the two do is tested more closely in tests/training/test_distributed.py; bench/reliability/r8_processes.py and
r9_lost_process.py take longer.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors.torch import load_file
from tests.watching import Watcher, rows, status

from weft.errors import Stopped
from weft.runs.train import train

COMMAND = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "--", "weft"]

PLAIN = [
    *("model.dropout=0", "model.layer_dropout=0.3", "model.encoder_layers=2", "data.max_length=12"),
    *("training.optimizer=sgd", "training.momentum=0", "training.learning_rate=0.1"),
    *("training.log_every=1", "training.threads=1"),
]
"""Without dropout two processes take the steps of one. (Adam is none to compare with: it makes whole steps of gradients
that are rounding noise alone, such as those of the biases of attention's keys, which its soft-max takes out again.)"""

ENDLESS = [
    "training.epochs=5000",
    "training.log_every=1",
    'training.validate_every="5000 epochs"',
    "training.threads=1",
]


@contextmanager
def torchrun(recipe: Path, run: Path, *settings: str) -> Iterator[subprocess.Popen[str]]:
    options = [word for setting in settings for word in ("--set", setting)]
    command = [*COMMAND, "train", str(recipe), "--run", str(run), *options]
    world = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    with subprocess.Popen(command, env=world, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()  # where it is still there, it ends what it has started


def wait_for_a_step(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    while not (line := process.stderr.readline()).startswith("step 1/"):
        assert line, "the command ended before its first step"


def workers(process: subprocess.Popen[str]) -> list[int]:
    """The processes that torchrun has started, by their rank."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
    ranks = {}
    for child in children:
        environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        ranks.update({int(entry[5:]): int(child) for entry in environment if entry.startswith(b"RANK=")})
    return [ranks[rank] for rank in sorted(ranks)]


RECURRENT = (
    'model={kind="recurrent", embedding_dim=16, hidden_dim=16, encoder_layers=2, copying=true, coverage=1.0, '
    "weight_drop=0.5}"
)
OF_A_TRANSFORMER = "model.layer_dropout=0.3"


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_two_processes_are_one_run(tiny_run: Path, tmp_path: Path, kind: str) -> None:
    one, two, recipe = tmp_path / "one", tmp_path / "two", tiny_run / "tiny.toml"
    settings = PLAIN if kind == "transformer" else [RECURRENT, *(s for s in PLAIN if s != OF_A_TRANSFORMER)]
    train(recipe, run=one, overrides=settings)
    with torchrun(recipe, two, *settings) as process:
        out, said = process.communicate(timeout=100)
    assert process.returncode == 0, said
    assert out == "" and said.count("fp32 on cpu, 2 processes") == 1 and said.count("try it: weft translate") == 1

    mine, its = (load_file(run / "model.safetensors") for run in (one, two))
    assert max(float((mine[key] - its[key]).abs().max()) for key in mine) < 1e-6
    exact = {"step", "epoch", "valid_bleu"}
    for ours, theirs in zip(rows(one), rows(two), strict=True):
        for key in ours.keys() - {"seconds", "target_tokens_per_second", "padding_share"}:  # each pads its own part
            assert theirs[key] == (ours[key] if key in exact else pytest.approx(ours[key], abs=1e-5)), key
    files = [{str(path.relative_to(run)) for path in run.rglob("*")} for run in (one, two)]
    assert files[0] == files[1] - {"report.html"}  # which the command writes, and not the function


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_when_one_of_them_dies_the_other_ends_with_a_message(tiny_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with torchrun(tiny_run / "tiny.toml", run, *ENDLESS, 'training.checkpoint_every="1 step"') as process:
        wait_for_a_step(process)
        while not status(run).last:  # the checkpoint follows the line
            time.sleep(0.05)
        os.kill(workers(process)[1], signal.SIGKILL)
        began = time.monotonic()
        _, said = process.communicate(timeout=100)
    assert time.monotonic() - began < 60
    assert process.returncode == 1
    assert said.count("weft: process 0 of 2 (counted from 0) has lost touch with another one") == 1
    assert "bug in weft" not in said
    assert status(run).last >= 1


def test_a_signal_to_torchrun_stops_both_at_one_step_and_one_process_goes_on(tiny_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with torchrun(tiny_run / "tiny.toml", run, *ENDLESS) as process:
        wait_for_a_step(process)
        process.terminate()
        _, said = process.communicate(timeout=100)
    stopped = status(run).last
    assert stopped >= 1
    assert said.count("weft: ") == said.count(f"weft: stopped at step {stopped} and saved; the same command") == 1

    watcher = Watcher(signal_at=stopped + 1)
    with pytest.raises(Stopped, match=f"stopped at step {stopped + 1} and saved"):
        train(tiny_run / "tiny.toml", run=run, overrides=ENDLESS, listener=watcher)
    assert f"continuing from step {stopped} of 10000" in watcher.messages
