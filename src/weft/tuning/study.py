"""A study is a folder, and the folder is the truth: any number of processes that are given it work on it together
(opening.py makes it).

    study.toml  base.toml  facts.json   the study; its recipe with everything resolved once; what was found then
    kept/                               copies of the three
    corpus/                             the training data as ids, which trials share where they may
    lock                                held while trials are added
    trials/0007/                        see trial.py

There is no database and no server. Trials of a grid are enumerated; a sampler is asked for the next point under the
study's lock, and told everything that the folder holds.
"""

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from weft.config import Resolved, changed, check_value, leaves, parse_rendered, render
from weft.errors import RunError
from weft.folders.finding import OPENED
from weft.runs.train import Silent
from weft.tasks import TASKS
from weft.training.metric import Metric
from weft.tuning.cells import Cell, Direction, cell_of, edges, grid, identity
from weft.tuning.lengths import Length
from weft.tuning.settings import OF_VALIDATIONS, StudyConfig, is_of_decoding, metric_of
from weft.tuning.trial import Phase, Result, Spec, Trial, lock_or_refuse, make_trial, read_sealed, write_spec
from weft.tuning.wanted import wanted

STUDY, BASE, FACTS = "study.toml", "base.toml", "facts.json"
HALVES = {"choose": 0, "confirm": 1}
"""Half of valid -> its first item; a half has every other one."""


@dataclass(frozen=True)
class Facts:
    """What was found when the study was made."""

    data_root: str
    recipe_sha256: str
    """Digest of the recipe file that base.toml was made from."""
    files: Mapping[str, Mapping[str, str]]
    """Part -> name -> sha256 of the files of training and validation."""
    length: Length
    valid: int
    """Items to validate on, both halves together."""


class Study:
    """An open study."""

    def __init__(self, folder: Path, config: Resolved[StudyConfig], base: Resolved[Any], facts: Facts) -> None:
        self.folder, self.resolved, self.base, self.facts = folder, config, base, facts
        self.trials_folder, self.corpus = folder / "trials", folder / "corpus"
        self._results: dict[int, Result] = {}

    @property
    def config(self) -> StudyConfig:
        return self.resolved.recipe

    @cached_property
    def metric(self) -> Metric:
        """What trials are compared by."""
        return metric_of(self.config, self.base.recipe)

    @cached_property
    def searches(self) -> bool:
        """Whether valid is searched after training, with each decoding: for metrics that validations do not give."""
        return hasattr(self.base.recipe, "decoding") and self.metric.name not in OF_VALIDATIONS

    @property
    def direction(self) -> Direction:
        """The direction of the metric, as Optuna calls it."""
        return "maximize" if self.metric.better == "max" else "minimize"

    @property
    def data_root(self) -> Path:
        return Path(self.facts.data_root)

    @property
    def test_files_opened(self) -> int:
        """Files, beside those of the study, on which a verb such as `weft evaluate` measured models of its trials."""
        log = self.folder / OPENED
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
        opened = {line[:64] for line in lines if len(line) > 64}  # a digest and a name, if the line is whole
        return len(opened.difference(*(files.values() for files in self.facts.files.values())))

    @cached_property
    def files(self) -> Any:
        """The files of train and valid."""
        return self.check_files()

    def check_files(self) -> Any:
        """Read the files of train and valid. Raises RunError if they are not those of the study's beginning."""
        found = TASKS[self.base.recipe.task].read(self.base.recipe, self.data_root, Silent())
        if found.sha256 != self.facts.files:
            raise RunError(
                f"the files of {self.folder} in {self.data_root} have changed since the study began; put the old ones "
                "back, or begin another study: --study DIR"
            )
        return found

    def valid(self, half: str) -> Any:
        """One half of the validation data: "choose", by which points are chosen, or "confirm"."""
        return self.files.valid.every(2, HALVES[half])

    # Trials

    def trials(self) -> list[Trial]:
        return [Trial(path) for path in sorted(self.trials_folder.iterdir()) if path.name.isdecimal()]

    def path_of(self, number: int) -> Path:
        """The folder of the trial of this number."""
        return self.trials_folder / f"{number:04}"

    def result(self, trial: Trial) -> Result | None:
        """What came of a trial; read once."""
        if trial.number not in self._results and (result := trial.result()) is not None and self._is_whole(result):
            self._results[trial.number] = result
        return self._results.get(trial.number)

    def _is_whole(self, result: Result) -> bool:
        """Whether a trained model was searched with every decoding that the study has; arms may be added later."""
        if result.state != "done" or not self.searches:
            return True
        spec = Spec(result.settings, result.seed, result.phase, result.arm)
        measured = [entry["decoding"] for entry in result.measured]
        return bool(result.hypotheses) and all(decoding in measured for decoding in self.decodings(spec))

    def read_again(self) -> None:
        """Take over what another process has added to the study's file meanwhile."""
        text = read_sealed(self.folder / STUDY)
        if text is not None and text != render(self.resolved):
            self.resolved = parse_rendered(text, StudyConfig, self.folder / STUDY)
            self._results.clear()

    def results(self) -> list[Result]:
        """What came of all trials so far."""
        return [result for trial in self.trials() if (result := self.result(trial)) is not None]

    def results_of(self, cell: Cell, phase: str = "search") -> list[Result]:
        """What came of the trials of a cell so far."""
        settings = identity(cell.settings)
        return [one for one in self.results() if one.phase == phase and identity(one.settings) == settings]

    def recipe_of(self, spec: Spec) -> Resolved[Any]:
        """The base with what a trial changes. Raises RecipeError if it does not fit together."""
        return changed(self.base, {**spec.settings, "seed": spec.seed}, "study")

    def decodings(self, spec: Spec) -> list[dict[str, Any]]:
        """The decodings to measure on this trial's model; an empty one is the recipe's own."""
        found = [cell.decoding for cell in self.cells() if identity(cell.settings) == identity(spec.settings)]
        return [*{identity(decoding): decoding for decoding in found or [{}]}.values()]

    def cells(self) -> list[Cell]:
        """All cells: those of the grid, or those of the points that were drawn."""
        if self.config.sampler == "grid":
            return grid(self.config)
        found: dict[str, Cell] = {}
        for trial in self.trials():
            spec = trial.spec()
            if spec is not None and spec.phase == "search":
                of_arm = {} if spec.arm is None else self.config.arms[spec.arm]
                cell = cell_of(self.config, spec.arm, {**of_arm, **spec.settings})
                found.setdefault(identity(cell.settings), cell)
        return [*found.values()]

    def values(self, cell: Cell, half: str = "choose", phase: str = "search") -> dict[int, float]:
        """Seed -> the metric's figure of this cell."""
        results = self.results_of(cell, phase)
        found = {result.seed: result.value(self.metric.name, half, cell.decoding) for result in results}
        return {seed: value for seed, value in found.items() if value is not None}

    def standing(self, values: Mapping[int, float]) -> float:
        """The mean, such that more is better; -inf for no values and for NaN."""
        figures = [float("nan") if value is None else value for value in values.values()]  # as metrics.jsonl writes NaN
        mean = sum(figures) / len(figures) if figures else float("nan")
        return -float("inf") if mean != mean else mean if self.metric.better == "max" else -mean

    @property
    def validated(self) -> str:
        """The figure of validations that stands for the metric: they measure no sacreBLEU."""
        return "bleu" if self.metric.name == "sacrebleu" else self.metric.name

    def has_failed(self, cell: Cell, phase: Phase = "search") -> bool:
        """Whether a run of the phase failed, with any seed."""
        return any(result.state == "failed" for result in self.results_of(cell, phase))

    def place_of(self, cell: Cell) -> float:
        """`standing` by the values of the search; -inf for a cell of which a run failed."""
        return -float("inf") if self.has_failed(cell) else self.standing(self.values(cell))

    def best(self) -> Cell | None:
        """The cell with the best mean on the half of valid by which is chosen, of those of which no run failed; None if
        none has a value."""
        standings = [(self.place_of(cell), cell) for cell in self.cells()]
        known = [(standing, cell) for standing, cell in standings if standing > -float("inf")]
        return max(known, key=lambda entry: entry[0])[1] if known else None

    def baseline(self) -> Cell | None:
        """The cell that others are compared with: the one the study names, else the one with the recipe's own values,
        else the first; of cells that differ in nuisance keys alone, the best."""
        config, own, cells = self.config, leaves(self.base.recipe), self.cells()
        wanted = {
            **{key: own[key] for key in config.space if key in own},
            **({"arm": next(iter(config.arms))} if config.arms else {}),
            **config.baseline,
        }
        if not config.baseline and cells and not any(cell.names == wanted for cell in cells):
            wanted = cells[0].names
        return max((cell for cell in cells if cell.names == wanted), key=self.place_of, default=None)

    # Adding trials

    def extend(self) -> bool:
        """Add the trials that are wanted and not there yet; returns whether any was added. Call it under the lock."""
        known: set[str] = set()
        for trial in self.trials():
            spec = trial.spec() or self._mended(trial)
            if spec is not None:
                known.add(identity(asdict(spec)))
        missing = [spec for spec in wanted(self) if identity(asdict(spec)) not in known]
        for spec in missing:
            taken = {trial.number for trial in self.trials()}
            number = next(number for number in range(len(taken) + 1) if number not in taken)
            make_trial(self.path_of(number), spec)
        return bool(missing)

    def _mended(self, trial: Trial) -> Spec | None:
        """What a trial without a whole trial.toml trains, if its result tells; otherwise its folder is removed, unless
        a worker is at it."""
        if (result := trial.result()) is not None:
            spec = Spec(result.settings, result.seed, result.phase, result.arm)
            write_spec(trial.path, spec)
            return spec
        with trial.claimed() as is_mine:
            if is_mine:
                shutil.rmtree(trial.path)
        return None

    def cost_of(self, cell: Cell) -> float:
        """The mean of the study's cost over the trials of a cell, NaN if none is done; of a search, if decoding keys
        vary, its seconds."""
        by_search = any(map(is_of_decoding, self.config.keys)) and self.config.cost == "seconds"
        found = [
            entry["seconds"] if by_search else getattr(result, self.config.cost or "seconds")
            for result in self.results_of(cell)
            for entry in result.measured
            if entry["decoding"] == cell.decoding
        ]
        return sum(found) / len(found) if found else float("nan")

    def result_of(self, spec: Spec) -> Result | None:
        for result in self.results():
            if identity(asdict(Spec(result.settings, result.seed, result.phase, result.arm))) == identity(asdict(spec)):
                return result
        return None

    def edges(self) -> list[tuple[str, Any]]:
        """The keys whose best value is at the edge of what was tried, and better than any other, with the next value
        beyond it, unless no recipe may have that."""
        best, cells = self.best(), self.cells()
        if best is None:
            return []
        standing = {id(cell): self.place_of(cell) for cell in cells}
        top = max(standing.values())
        at_edge = edges(self.config, best, {key: [cell.values[key] for cell in cells] for key in self.config.varied})
        return [
            (key, value)
            for key, value in at_edge
            if not check_value(type(self.base.recipe), key, value)
            and all(standing[id(cell)] < top for cell in cells if cell.values[key] != best.values[key])
        ]


@contextmanager
def holding_lock(folder: Path) -> Iterator[None]:
    """Hold a study's lock while the block runs; waits for other processes. Makes the folder if it is missing."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = open(folder / "lock", "a")  # noqa: SIM115 (held open as long as the lock is)
        except FileNotFoundError:
            continue  # the process that held it has failed and removed the folder
        except OSError as error:
            raise RunError(f"{folder} cannot be written: {error.strerror}") from None
        with lock:
            if lock_or_refuse(lock, folder):
                yield
                return
        time.sleep(0.05)
