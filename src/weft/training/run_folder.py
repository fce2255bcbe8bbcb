"""A run's folder on disk: what is in it, how it is written so that a crash at any moment leaves it whole, and who may
write.

    checkpoints/step-N/   a complete model folder, training.safetensors and training.json
    corpus/               the pairs to train on, as ids
    run.json              names `last` and `best`
    doctor.json           what the corpus looked like when the run began
    metrics.jsonl samples.jsonl skipped.jsonl

A checkpoint holds everything that the rest of a run depends on. Its model folder has the weights that were validated.
training.safetensors has the optimizer's state, and the weights that training continues with if those are others.
training.json has the recipe as it was given, the sha256 of the data and of the batches, and the `Progress` of
progress.py: step, place in the data, scale of the learning rate, early stopping.

A checkpoint is staged under a temporary name, synced to disk, and renamed into place. A folder named `step-N` is
therefore always whole, and anything else in checkpoints/ was left by a killed process.
"""

import contextlib
import functools
import hashlib
import json
import math
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from weft.errors import ModelError, Problem, RunError
from weft.files import sha256, staged_folder, sync, try_lock, write_atomically
from weft.training.distributed import ALONE, Ranks

TENSORS, STATE = "training.safetensors", "training.json"
SKIPPED = "skipped.jsonl"
LOGS = ("metrics.jsonl", "samples.jsonl", SKIPPED)
DIAGNOSIS = "doctor.json"
DETAILS = "details.json"
STEP = re.compile(r"step-\d+")
"""The name of a checkpoint."""
WRECK = re.compile(r"\.step-\d+\.(\d+|removed)|\.[a-z0-9_]{8}")
"""What a killed process can leave among the checkpoints: one half written or half removed, a temporary folder."""
BEGUN = re.compile(r"lock|checkpoints|corpus|doctor\.json|tensorboard|(metrics|samples|skipped)\.jsonl|\..*\.partial")
"""What a run that was killed before its first checkpoint can leave, and its prepared corpus."""
PREPARED = re.compile(r"[a-z]+\.(ids|offsets)|lines|account\.json|manifest\.json|tokenizer\..*")
"""What is in a prepared corpus, which is replaced as a whole."""


def beside(run: Path, ending: str) -> Path:
    """The path of another run beside this one, named like it with an ending."""
    named = run if run.name not in ("", "..") else run.resolve()  # beside "." and "..", which lack a name, is inside
    return Path(f"{named}-{ending}")


def option_beside(run: Path) -> str:
    """The option that names a new run beside this one, quoted for a shell."""
    return shlex.join(["--run", str(beside(run, "2"))])


@dataclass(frozen=True)
class RunStatus:
    """run.json: which checkpoint is the last, which the best, and whether the run is finished.

    {"last": "checkpoints/step-1200", "best": "checkpoints/step-1000", "finished": false}
    """

    last: int
    best: int | None = None
    finished: bool = False

    def to_json(self) -> str:
        best = None if self.best is None else f"checkpoints/step-{self.best}"
        state = {"last": f"checkpoints/step-{self.last}", "best": best, "finished": self.finished}
        return json.dumps(state, indent=1) + "\n"

    @classmethod
    def read(cls, path: Path) -> "RunStatus":
        """Raises RunError if the file is damaged."""
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            last, best = state["last"], state["best"]
            return cls(step_number(last), None if best is None else step_number(best), bool(state["finished"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise RunError(f"{path} is damaged; restore it, or start a new run in another folder (--run)") from None


def step_number(name: str) -> int:
    """checkpoints/step-1200 -> 1200; ValueError for any other text."""
    return int(name.removeprefix("checkpoints/step-"))


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def by_first_rank(
    method: Callable[Concatenate["RunFolder", Arguments], Result],
) -> Callable[Concatenate["RunFolder", Arguments], Result]:
    """Call the method on the first rank only, and return its result on every rank."""

    @functools.wraps(method)
    def from_first(self: "RunFolder", *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        return self.ranks.from_first(lambda: method(self, *arguments, **named))

    return from_first


class RunFolder:
    """One training run on disk. Of several processes only the first one needs to see that disk."""

    def __init__(self, path: Path, ranks: Ranks = ALONE) -> None:
        self.path, self.ranks = path, ranks
        self.checkpoints = path / "checkpoints"
        self.corpus = path / "corpus"

    @contextlib.contextmanager
    def locked(self, *, to_prepare: bool = False) -> Iterator[None]:
        """Lock the folder while the block runs. Raises RunError if another process holds the lock.

        Also refuses a folder that holds anything but a run, since training would replace files in it. If the block ends
        before the first checkpoint, everything made for it is removed, except for the corpus if the block is
        `to_prepare` it.
        """
        with contextlib.ExitStack() as stack:
            self.ranks.from_first(stack.enter_context, self._locked(to_prepare))
            yield

    @contextlib.contextmanager
    def _locked(self, to_prepare: bool) -> Iterator[None]:
        with self._reporting_read_errors():
            self.refuse_other_folders()
            made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
            has_corpus, has_diagnosis = self.corpus.exists(), (self.path / DIAGNOSIS).exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = open(self.path / "lock", "a")  # noqa: SIM115 (held open as long as the lock is)
        except FileNotFoundError:
            raise self._taken() from None  # the process that held it has just ended and removed the folder
        except OSError as error:
            raise RunError(f"the run folder {self.path} cannot be written: {error.strerror}") from None
        with lock:
            try:
                is_alone = try_lock(lock)
            except OSError as error:
                raise RunError(f"the run folder {self.path} cannot be locked: {error.strerror}") from None
            if not is_alone:
                raise self._taken()
            os.utime(self.path / "lock")  # a sign of life, long before the next line of a log
            try:
                self.checkpoints.mkdir(exist_ok=True)
                yield
            finally:
                if not (self.path / "run.json").exists():
                    if not has_corpus and not to_prepare:
                        shutil.rmtree(self.corpus, ignore_errors=True)
                    if not has_diagnosis:
                        (self.path / DIAGNOSIS).unlink(missing_ok=True)
                    self._vanish(made)

    def _taken(self) -> RunError:
        return RunError(f"another process works in {self.path}; wait for it, or choose another --run")

    def refuse_other_folders(self) -> None:
        """Raises RunError for a folder in which training would replace files that are not a run's."""
        with self._reporting_read_errors():
            if self.corpus.is_dir() and (others := [n for n in os.listdir(self.corpus) if not PREPARED.fullmatch(n)]):
                raise RunError(
                    f"{self.corpus} is not a prepared corpus: it holds {', '.join(sorted(others)[:5])}, which "
                    "would be lost; choose a new folder with --run"
                )
            if self.path.exists() and not self.path.is_dir():
                raise RunError(f"the run folder {self.path} cannot be written: it is a file; choose another --run")
            if not self.path.is_dir() or (self.path / "run.json").exists():
                return
            try:
                others = sorted(name for name in os.listdir(self.path) if not BEGUN.fullmatch(name))
                checkpoints = sorted(os.listdir(self.checkpoints)) if self.checkpoints.is_dir() else []
            except FileNotFoundError:  # another process has just removed it
                return
            if others:
                raise RunError(
                    f"{self.path} is not a run: it holds {', '.join(others[:5])}; choose a new folder with --run"
                )
            self._refuse_lost_checkpoints(checkpoints)

    def _refuse_lost_checkpoints(self, names: list[str]) -> None:
        """Without run.json, which names the last checkpoint, replace none but the one that every run begins with."""
        lost = [name for name in names if name != "step-0" and not WRECK.fullmatch(name)]
        if not lost:
            return
        steps = [int(name.removeprefix("step-")) for name in lost if STEP.fullmatch(name)]
        raise RunError(
            f"{self.checkpoints} holds {', '.join(lost[:5])}, but there is no run.json, which says where the run "
            f"stands; put it back, or {self.advise_new_run(max(steps, default=None))}"
        )

    def advise_new_run(self, step: int | None = None) -> str:
        """Describe how to start a new run beside this one, from the weights of checkpoint `step` if it is given."""
        advice = f"start a new run: {option_beside(self.path)}"
        if step is None:
            return advice
        return f"{advice}, from its weights with {shlex.join(['--set', f'training.init={self.checkpoint(step)}'])}"

    def _vanish(self, made: list[Path]) -> None:
        """Remove the folder for checkpoints, the lock and these folders, innermost first, if they are empty.

        The folder for checkpoints goes first, while the lock still keeps other processes out.
        """
        with contextlib.suppress(OSError):
            self.checkpoints.rmdir()
        (self.path / "lock").unlink(missing_ok=True)
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()

    @by_first_rank
    def status(self) -> RunStatus | None:
        """The content of run.json; None in a run without a checkpoint."""
        path = self.path / "run.json"
        with self._reporting_read_errors():
            return RunStatus.read(path) if path.exists() else None

    @contextlib.contextmanager
    def _reporting_read_errors(self) -> Iterator[None]:
        """Turn an error in reading the folder, such as a lack of permission, into a RunError."""
        try:
            yield
        except OSError as error:
            raise RunError(f"the run folder {self.path} cannot be read: {error.strerror}") from None

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"step-{step}"

    @by_first_rank
    def save(
        self,
        step: int,
        write_model: Callable[[Path], None],
        tensors: dict[str, Tensor],
        state: dict[str, Any],
        *,
        best: int | None,
        keep: Iterable[int] = (),
    ) -> None:
        """Commit a checkpoint, name it the last one, and remove all that are neither last nor best nor to be kept.

        Raises WeftError if the disk is full or the folder can no longer be written.
        """
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        with reporting_write_errors(self.path):
            for name in LOGS:
                if (self.path / name).exists():
                    sync(self.path / name)
            with committed_folder(self.checkpoint(step)) as folder:
                write_model(folder)
                save_file(tensors, folder / TENSORS)
                sealed = {**state, "sha256": {TENSORS: sha256(folder / TENSORS), STATE: digest_of(state)}}
                (folder / STATE).write_text(json.dumps(sealed, indent=1), encoding="utf-8")
            self.write_status(RunStatus(last=step, best=best))
            self.sweep(keep={step, best, *keep})

    @by_first_rank
    def write_status(self, status: RunStatus) -> None:
        write_atomically(self.path / "run.json", status.to_json())

    @by_first_rank
    def load(self, step: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The tensors and the state that `save` was given. Raises ModelError if they were changed or damaged."""
        folder = self.checkpoint(step)
        try:
            tensors, state = load_file(folder / TENSORS), json.loads((folder / STATE).read_text(encoding="utf-8"))
            if not isinstance(state, dict):
                raise ValueError("training.json does not hold an object")
            seals = state.pop("sha256")
            found = {TENSORS: sha256(folder / TENSORS), STATE: digest_of(state)}
            seals.setdefault(STATE, found[STATE])  # older checkpoints sealed only the tensors
            changed = [name for name in found if seals[name] != found[name]]
        except (OSError, ValueError, KeyError, AttributeError, RecursionError, SafetensorError) as error:
            raise ModelError(folder, [Problem(f"{TENSORS} or {STATE}", f"cannot be read: {error}")]) from None
        if changed:
            what = f"was changed or damaged: its sha256 is not that in {STATE}"
            raise ModelError(folder, [Problem(name, what) for name in changed])
        return tensors, state

    @by_first_rank
    def sweep(self, keep: set[int | None]) -> None:
        """Remove all checkpoints except those to keep, and what killed processes left half written.

        Removing a folder takes many steps, so it is renamed first: a folder named step-N is always whole.
        """
        kept = {f"step-{step}" for step in keep}
        for folder in list(self.checkpoints.iterdir()):
            if STEP.fullmatch(folder.name) and folder.name not in kept:
                hidden = folder.with_name(f".{folder.name}.removed")
                shutil.rmtree(hidden, ignore_errors=True)
                folder = folder.rename(hidden)
            if WRECK.fullmatch(folder.name):
                shutil.rmtree(folder, ignore_errors=True)
        for wreck in self.path.glob(".*.partial"):
            if wreck.is_dir():
                shutil.rmtree(wreck, ignore_errors=True)
            else:
                wreck.unlink(missing_ok=True)

    @by_first_rank
    def append(self, name: str, row: dict[str, Any]) -> None:
        """Append a line to one of the LOGS. Numbers that JSON cannot hold (NaN, infinity) are null."""
        known = {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in row.items()}
        try:
            with open(self.path / name, "a", encoding="utf-8") as file:
                file.write(json.dumps(known, ensure_ascii=False) + "\n")
        except OSError as error:
            raise RunError(
                f"{self.path / name} could not be written: {error.strerror}; the last checkpoint is intact"
            ) from error

    @by_first_rank
    def clear(self) -> None:
        """Remove what a run without a checkpoint may have left."""
        with reporting_write_errors(self.path):
            self.sweep(keep=set())
            for name in (*LOGS, DIAGNOSIS):
                (self.path / name).unlink(missing_ok=True)

    @by_first_rank
    def cut_logs(self, step: int) -> None:
        """Remove the lines after this step, which the run will write again, and a torn last line."""
        for name in LOGS:
            path = self.path / name
            if path.exists():
                kept = [line for line in path.read_bytes().split(b"\n") if line and step_of(line) <= step]
                write_atomically(path, b"".join(line + b"\n" for line in kept).decode("utf-8"))


def training_state(folder: Path) -> dict[str, Any]:
    """training.json of a checkpoint, or of the last checkpoint of a run. Raises OSError, ValueError or RunError where
    the folder is neither."""
    if (folder / "run.json").exists():
        folder = RunFolder(folder).checkpoint(RunStatus.read(folder / "run.json").last)
    return json.loads((folder / STATE).read_text(encoding="utf-8"))


def digest_of(state: dict[str, Any]) -> str:
    """sha256 of the content of a checkpoint's JSON, independent of order and white space."""
    plain = json.loads(json.dumps(state))  # as it is read back: keys of numbers are strings
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def step_of(line: bytes) -> float:
    """The step of a log line; infinite for a torn line."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return float("inf")


@contextlib.contextmanager
def committed_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `target` if the block succeeds (`staged_folder`). Raises RunError if it
    cannot be written."""
    with reporting_write_errors(target), staged_folder(target) as staged:
        yield staged


@contextlib.contextmanager
def reporting_write_errors(target: Path) -> Iterator[None]:
    """Turn an error in writing, such as a full disk, into a RunError that names the target."""
    try:
        yield
    except (OSError, SafetensorError) as error:  # safetensors has its own error for a full disk
        reason = getattr(error, "strerror", None) or error
        raise RunError(
            f"{target} could not be written: {reason}; what was saved before is intact, and the same command "
            "tries again"
        ) from error


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state as named tensors, to be stored without pickle."""
    return {
        f"optimizer.{index}.{name}": value if isinstance(value, Tensor) else torch.tensor(value)
        for index, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Load the state that `optimizer_tensors` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            _, index, name = key.split(".", 2)
            state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def weight_tensors(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights as named tensors, for a checkpoint whose model folder holds others than those training continues with."""
    return {f"weights.{name}": tensor for name, tensor in weights.items()}


def weights_in(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights that `weight_tensors` was given; empty if the checkpoint's model folder holds the weights."""
    return {name.removeprefix("weights."): tensor for name, tensor in tensors.items() if name.startswith("weights.")}
