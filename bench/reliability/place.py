"""Where the reliability tests take place: a small corpus, a recipe for it, runs of `weft train`, and how two compare.

The model is a Transformer like any other, only so small that a run takes seconds; checkpoints come every three steps,
so that most moments are near one.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.pairs import write_pairs
from safetensors import SafetensorError

from weft.data.starter import load
from weft.errors import WeftError
from weft.folders.manifest import MANIFEST, check_manifest
from weft.training.run_folder import RunFolder

RECIPE = """\
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
log_every = 1
validate_every = "20 steps"
checkpoint_every = "3 steps"
"""

DATA_ROOT = "WEFT_DATA"

LONGEST_RUN = 300.0
"""Seconds after which a run counts as stuck."""

CLOCKS = ("seconds", "target_tokens_per_second")

ENDS_EQUAL = ("config.toml", MANIFEST, "model.safetensors")
"""Files of a finished run in which no clock can be seen; the manifest has the digests of all others. Beside them its
logs, and the state of its last checkpoint."""


@contextmanager
def place(pairs: int = 400) -> Iterator[Path]:
    """A temporary folder with the recipe (tiny.toml) and its corpus, which is found there wherever others lie."""
    elsewhere = os.environ.pop(DATA_ROOT, None)
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield furnish(Path(folder), pairs)
    finally:
        if elsewhere is not None:
            os.environ[DATA_ROOT] = elsewhere


def furnish(folder: Path, pairs: int = 400) -> Path:
    """Put the recipe and its corpus into a folder."""
    corpus = load()
    for name, part in (("train", corpus["train"][:pairs]), ("valid", corpus["valid"][:8])):
        write_pairs(folder / f"{name}.tsv", part)
    (folder / "tiny.toml").write_text(RECIPE, encoding="utf-8")
    return folder


def start(folder: Path, run: str, *settings: str, **process: Any) -> subprocess.Popen[str]:
    """`weft train` in a process of its own; `settings` are KEY=VALUE, `process` is for Popen."""
    options = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-m", "weft", "train", str(folder / "tiny.toml"), "--run", str(folder / run), *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **process)


def finish(folder: Path, run: str, *settings: str, **process: Any) -> str:
    """Let it come to its end, and return what it said; raises SystemExit where it fails or gets stuck."""
    return said_by(start(folder, run, *settings, **process), run)


def said_by(running: subprocess.Popen[str], run: str, end: Callable[[Any], None] = subprocess.Popen.kill) -> str:
    """Wait for a training and return what it said; `end` ends one that is stuck. Raises SystemExit as `finish`."""
    with running:
        try:
            _, said = running.communicate(timeout=LONGEST_RUN)
        except subprocess.TimeoutExpired:
            end(running)
            raise SystemExit(f"{run} was stuck for {LONGEST_RUN:.0f} s") from None
    if running.returncode:
        raise SystemExit(f"{run} ended with {running.returncode}: {said}")
    return said


def wait_for(is_true: Callable[[], bool], running: subprocess.Popen[str], seconds: float = 60.0) -> bool:
    """Whether it came true while the process was running."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and running.poll() is None:
        if is_true():
            return True
        time.sleep(0.002)
    return False


def last_step(run: Path) -> int:
    """Of the last checkpoint; -1 before the first."""
    status = RunFolder(run).status()
    return -1 if status is None else status.last


def broken_checkpoints(run: Path) -> list[str]:
    """What is wrong with the checkpoints that can be seen, and with those that run.json names."""
    folder, problems = RunFolder(run), []
    for checkpoint in (run / "checkpoints").glob("step-*"):
        try:
            check_manifest(checkpoint)
            folder.load(int(checkpoint.name.removeprefix("step-")))
        except (WeftError, OSError, SafetensorError) as error:
            problems.append(str(error))
    try:
        status = folder.status()
        named = [] if status is None else [status.last, status.best]
        problems += [
            f"step-{step} is gone" for step in named if step is not None and not folder.checkpoint(step).is_dir()
        ]
    except WeftError as error:
        problems.append(str(error))
    return problems


def orphans(run: Path) -> list[str]:
    """What a killed process left half written."""
    return [path.name for path in [*run.glob(".*"), *(run / "checkpoints").glob(".*")]]


def differences(run: Path, other: Path) -> list[str]:
    """The files in which two finished runs differ, but for what a clock says; none where they are the same run."""
    found = [name for name in ENDS_EQUAL if (run / name).read_bytes() != (other / name).read_bytes()]
    logs = ("metrics.jsonl", "samples.jsonl", "skipped.jsonl")
    found += [name for name in logs if without_clock(run / name) != without_clock(other / name)]
    checkpoints = [{path.name for path in (each / "checkpoints").iterdir()} for each in (run, other)]
    if checkpoints[0] != checkpoints[1]:
        return [*found, "the checkpoints that are kept"]
    tensors = [f"checkpoints/{name}/training.safetensors" for name in sorted(checkpoints[0])]
    return found + [name for name in tensors if (run / name).read_bytes() != (other / name).read_bytes()]


def without_clock(path: Path) -> list[dict[str, Any]]:
    """The lines of a log but for what a clock says; none where there is no such log."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [{key: value for key, value in json.loads(line).items() if key not in CLOCKS} for line in lines]


def seconds_of(pid: int) -> float:
    """Of the processors, that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        ticks = file.read().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def seconds_of_children() -> float:
    """Of the processors, that the ended children of this process have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def open_files(pid: int) -> int:
    """Files, pipes and sockets that a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_bytes(pid: int) -> int:
    """Memory of a process that lies in the machine's."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def one_message(said: str, expected: Sequence[str]) -> bool:
    """Whether a failed command ended with one error that says all of this, and with no trace."""
    is_one = said.count("weft: ") == 1 and "Traceback" not in said and "bug in weft" not in said
    return is_one and all(fragment in said[said.index("weft: ") :] for fragment in expected)
