"""Reads what a run folder holds: run.json, metrics.jsonl, samples.jsonl, scores.json, details.json, doctor.json,
config.toml and the prepared corpus."""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from weft.config.toml import read_toml
from weft.data.bins import binned
from weft.data.store import open_store
from weft.errors import CorpusError, RunError, shown

Line = dict[str, Any]  # one line of a .jsonl file


@dataclass(frozen=True)
class Run:
    """The contents of a run folder. Any part may be empty, since a report can be asked for at any time."""

    name: str
    state: Line
    """run.json: `last`, `best`, `finished`."""
    steps: Sequence[Line]
    """The lines of metrics.jsonl with a training loss."""
    validations: Sequence[Line]
    """The lines of metrics.jsonl with results of a validation (valid_NAME)."""
    samples: Sequence[Line]
    """The lines of samples.jsonl, one for each validation."""
    evaluations: Sequence[Line]
    """The entries of scores.json."""
    doctor: Line
    """doctor.json: what the quick checks of the corpus found when the run began, or `weft doctor` later."""
    account: Line
    """corpus/account.json: how many pairs each cleaning rule removed."""
    machine: Line
    """What training.json of the last checkpoint says of the machine."""
    data: Line
    """What it says of the data: part (train, valid) -> name -> sha256 of each file."""
    recipe: str
    """The text of config.toml, empty before the first checkpoint."""
    details: Line = field(default_factory=dict)
    """details.json: what was measured of the best weights besides their scores."""
    histograms: Sequence[Line] = ()
    """Histograms of the prepared corpus: lengths of the texts, occurrences of the pieces; empty without a corpus."""

    def setting(self, table: str, key: str) -> str:
        """A value of the recipe as text, empty where the recipe does not have it."""
        found = self.values.get(table, {}) if table else self.values
        return str(found.get(key, "")) if isinstance(found, Mapping) else ""

    @cached_property
    def values(self) -> Mapping[str, Any]:
        try:
            return read_toml(self.recipe)
        except tomllib.TOMLDecodeError:
            return {}


def read_run(folder: Path) -> Run:
    """Raises RunError for what is not a run folder, and for a file that is damaged by more than a torn last line."""
    log = folder / "metrics.jsonl"
    if not log.is_file() and not (folder / "run.json").is_file():  # which stands there before the first line of the log
        reason = "it has no metrics.jsonl" if folder.is_dir() else "there is no such folder"
        raise RunError(f"{folder} is not a run: {reason}; expected a folder that `weft train` wrote, such as runs/NAME")
    state = read_json(folder / "run.json", dict, {})
    training = read_json(folder / str(state.get("last")) / "training.json", dict, {})
    metrics = read_lines(log) if log.is_file() else []
    return Run(
        name=folder.resolve().name,
        state=state,
        steps=[line for line in metrics if "loss" in line],
        validations=[line for line in metrics if any(key.startswith("valid_") for key in line)],
        samples=read_lines(folder / "samples.jsonl") if (folder / "samples.jsonl").is_file() else [],
        evaluations=read_json(folder / "scores.json", list, []) if state.get("finished", True) else [],
        doctor=read_json(folder / "doctor.json", dict, {}),
        details=read_json(folder / "details.json", dict, {}) if state.get("finished", True) else {},
        histograms=read_histograms(folder / "corpus"),
        account=read_json(folder / "corpus" / "account.json", dict, {}),
        machine=training.get("machine", {}),
        data=training.get("data", {}),
        recipe=read_recipe(folder, state),
    )


FREQUENCIES = (9, 99, 999, 9_999)
TEXTS = ("source", "target", "text")
"""The columns of a corpus that hold pieces of a text."""


def read_histograms(corpus: Path) -> list[Line]:
    """The limits of the bins and the counts of each column: of the lengths, and of the occurrences of the ids."""
    try:
        columns = {name: of for name, of in open_store(corpus).columns.items() if name in TEXTS}
    except CorpusError:  # there is none, or it has changed since
        return []
    limits, counts = binned([sentences.lengths for sentences in columns.values()])
    frequencies = binned([occurrences(sentences.ids) for sentences in columns.values()], FREQUENCIES)
    return [
        {"limits": limits, "counts": dict(zip(columns, counts, strict=True))}
        for limits, counts in ((limits, counts), frequencies)
    ]


def occurrences(ids: np.ndarray) -> np.ndarray:
    """How often each id occurs that does; in parts, because counting copies the ids."""
    counts = np.zeros(int(ids.max(initial=0)) + 1, np.int64)
    for begin in range(0, len(ids), 1 << 22):
        counts += np.bincount(ids[begin : begin + (1 << 22)], minlength=len(counts))
    return counts[counts > 0]


@contextmanager
def needing_weft_json(what: object) -> Iterator[None]:
    """Raise RunError where JSON that is read has another shape than weft writes."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise RunError(
            f"{what}: a JSON file of a run does not hold what weft writes there "
            f"({type(error).__name__}: {shown(str(error), 200)})"
        ) from error


def read_lines(path: Path) -> list[Line]:
    """The objects of a .jsonl file, without a last line that a killed writer tore."""
    try:
        *whole, last = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from error
    lines = []
    for number, raw in enumerate([*whole, last], start=1):
        if not raw.strip():
            continue
        try:
            line = json.loads(raw.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            if number > len(whole):
                break
            raise RunError(f"{path}, line {number} is not JSON; remove the line") from error
        if not isinstance(line, dict):
            raise RunError(f"{path}, line {number} is not a JSON object; remove the line")
        lines.append(line)
    return lines


def read_json(path: Path, kind: type, missing: Any) -> Any:
    """The content of a JSON file, which must be of this kind; `missing` without the file."""
    try:
        if not path.is_file():
            return missing
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:  # training may remove a checkpoint at any time
        return missing
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is not JSON; without the file the rest can be read") from error
    if not isinstance(value, kind):
        expected = "an object" if kind is dict else "a list"
        raise RunError(f"{path} does not hold {expected}; without the file the rest can be read")
    return value


def read_recipe(folder: Path, state: Line) -> str:
    """The resolved recipe, which lies in the folder of a finished run, before that in its checkpoints.

    The recipe and the scores in the folder of a run that was finished and now trains further are outdated: they are
    not read.
    """
    checkpoints = [folder / str(state[name]) for name in ("best", "last") if state.get(name)]
    folders = [folder, *checkpoints] if state.get("finished", True) else checkpoints[::-1]
    for place in folders:
        with suppress(OSError):  # training may remove a checkpoint at any time
            return (place / "config.toml").read_text(encoding="utf-8", errors="replace")
    return ""
