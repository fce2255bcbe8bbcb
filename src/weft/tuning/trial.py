"""A trial's folder: what it trains, whose it is, and what came of it.

    trial.toml          the settings, the seed, and whether it searches or confirms
    lock                held by the worker that is at it; the kernel frees it when the process dies
    run/                the run, as `weft train` makes it
    rung-1.json ...     with halving: what was measured at a rung
    result.json         what came of it
    hypotheses.json     of translation: what the model wrote for all of valid, for each decoding

Files are replaced in one step and sealed with their own sha256, so that one that was torn is noticed; its trial is then
done again.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from weft.config.toml import read_toml, write_key, write_value
from weft.errors import RunError
from weft.files import sha256, try_lock, write_atomically

SEAL = "# sha256 "
HYPOTHESES = "hypotheses.json"
Phase = Literal["search", "confirm"]
State = Literal["done", "failed", "stopped"]


@dataclass(frozen=True)
class Spec:
    """What a trial trains."""

    settings: Mapping[str, Any]
    """Keys of the recipe that differ from the study's base."""
    seed: int
    phase: Phase = "search"
    arm: str | None = None
    """The arm of a point that a sampler drew."""


@dataclass(frozen=True)
class Result:
    """What came of a trial."""

    number: int
    settings: Mapping[str, Any]
    seed: int
    phase: Phase
    arm: str | None
    state: State
    why: str = ""
    """Why it failed, or at which rung it was stopped."""
    step: int = 0
    steps: int = 0
    """Steps taken, and those of the whole schedule."""
    best_step: int | None = None
    target_tokens: int = 0
    """Seen in these steps, </s> counted, padding not."""
    parameters: int = 0
    seconds: float = 0.0
    """Seconds of training with its validations, over all sittings, up to the last checkpoint."""
    target_tokens_per_second: float | None = None
    """Median over training; other trials ran beside it."""
    rungs: tuple[float, ...] = ()
    """The value of the study's metric at each rung that it came to."""
    measured: tuple[Mapping[str, Any], ...] = ()
    """For each decoding: `decoding`, the keys that differ from the base; `choose` and `confirm`, the figures of the
    two halves of valid by metric; `seconds` of the search for all of valid."""
    signatures: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    hypotheses: str = ""
    """sha256 of the file of the hypotheses, if there is one."""

    def value(self, name: str, half: str = "choose", decoding: Mapping[str, Any] | None = None) -> float | None:
        """A figure of one half of valid with one decoding; None if it was not measured."""
        for entry in self.measured:
            if entry["decoding"] == dict(decoding or {}):
                return entry[half].get(name)
        return None


class Trial:
    """One trial's folder."""

    def __init__(self, path: Path) -> None:
        self.path, self.run = path, path / "run"
        self.number = int(path.name)

    def spec(self) -> Spec | None:
        """What it trains; None if trial.toml is missing or damaged."""
        text = read_sealed(self.path / "trial.toml")
        return None if text is None else Spec(**tupled(read_toml(text)))

    def result(self) -> Result | None:
        """What came of it; None if nothing has yet, or what has is damaged."""
        content = read_sealed_json(self.path / "result.json")
        if content is None:
            return None
        hypotheses = self.path / HYPOTHESES
        if content["hypotheses"] and not (hypotheses.is_file() and sha256(hypotheses) == content["hypotheses"]):
            return None
        return Result(**tupled(content))

    def is_damaged(self) -> bool:
        """Whether there is a result that cannot be used."""
        return (self.path / "result.json").exists() and self.result() is None

    def write(self, result: Result) -> None:
        write_sealed_json(self.path / "result.json", asdict(result))

    def hypotheses(self, decoding: Mapping[str, Any] | None = None) -> list[str]:
        """What the model wrote for all of valid, with the decoding that differs from the base in these keys."""
        for entry in json.loads((self.path / HYPOTHESES).read_text(encoding="utf-8")):
            if entry["decoding"] == dict(decoding or {}):
                return entry["hypotheses"]
        raise KeyError(f"trial {self.number} has no decoding {decoding}")

    def rung(self, number: int) -> dict[str, Any] | None:
        """What was measured at this rung, counted from 1: `value`, `step`, `target_tokens`."""
        return read_sealed_json(self.path / f"rung-{number}.json")

    def write_rung(self, number: int, content: Mapping[str, Any]) -> None:
        write_sealed_json(self.path / f"rung-{number}.json", content)

    @contextmanager
    def claimed(self) -> Iterator[bool]:
        """Lock the trial while the block runs, if no other process holds it; yields whether it is locked."""
        try:
            lock = open(self.path / "lock", "a")  # noqa: SIM115 (held open as long as the lock is)
        except FileNotFoundError:  # another process has removed a damaged trial
            yield False
            return
        with lock:
            yield lock_or_refuse(lock, self.path)


def lock_or_refuse(lock: Any, folder: Path) -> bool:
    """Whether this process holds the lock now. Raises RunError where the file system has no locks."""
    try:
        return try_lock(lock)
    except OSError as error:
        raise RunError(
            f"{folder} cannot be locked: {error.strerror}. Workers take trials by flock, which this file system does "
            "not offer; put the study on a local disk or on NFS version 4: --study DIR"
        ) from None


def make_trial(path: Path, spec: Spec) -> Trial:
    """Make the folder of a trial in one step."""
    staged = path.with_name(f".{path.name}.{os.getpid()}.partial")
    staged.mkdir(exist_ok=True)
    write_spec(staged, spec)
    os.rename(staged, path)
    return Trial(path)


def write_spec(folder: Path, spec: Spec) -> None:
    plain = {key: value for key, value in asdict(spec).items() if value is not None and key != "settings"}
    lines = [f"{key} = {write_value(value)}\n" for key, value in plain.items()]
    lines += ["\n[settings]\n", *(f"{write_key(key)} = {write_value(value)}\n" for key, value in spec.settings.items())]
    write_sealed(folder / "trial.toml", "".join(lines))


# Sealed files


def write_sealed(path: Path, text: str) -> None:
    write_atomically(path, f"{text}{SEAL}{digest(text)}\n")


def read_sealed(path: Path) -> str | None:
    """The text; None if it is not what was written."""
    try:
        text, seal = path.read_text(encoding="utf-8").rsplit(SEAL, 1)
    except (OSError, ValueError):
        return None
    return text if seal == f"{digest(text)}\n" else None


def write_sealed_json(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, ensure_ascii=False)
    write_atomically(path, f'{{"sha256": "{digest(text)}", "content": {text}}}\n')


def read_sealed_json(path: Path) -> dict[str, Any] | None:
    """The content; None if it is not what was written."""
    try:
        sealed = json.loads(path.read_text(encoding="utf-8"))
        content = sealed["content"]
        return content if digest(json.dumps(content, ensure_ascii=False)) == sealed["sha256"] else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def tupled(value: Any) -> Any:
    """Lists as tuples, as a recipe has them."""
    if isinstance(value, dict):
        return {key: tupled(inner) for key, inner in value.items()}
    return tuple(map(tupled, value)) if isinstance(value, list) else value


def first_lines(why: str) -> str:
    """The first line of an error, and the second, which has the first problem of a recipe."""
    return " ".join(line.strip() for line in why.splitlines()[:2])
