"""Which key makes the difference: parts of one recipe taken away or added, and the way from one recipe to another.

An ablation is an ordinary study whose arms are the changes.
"""

import math
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from weft.config import Resolved, check_value, differences, leaves
from weft.config.keys import all_keys, choices_in
from weft.config.toml import write_key, write_value
from weft.errors import Problem, RecipeError, UsageError, WeftError
from weft.files import write_atomically
from weft.metrics.verdicts import judge_pairs, noise_of
from weft.preparing.corpora import find_recipe
from weft.training.task import Listener
from weft.tuning.cells import Cell
from weft.tuning.judging import measured, options, sentences_of
from weft.tuning.opening import open_study
from weft.tuning.settings import DECIDED, OF_VALIDATION
from weft.tuning.study import FACTS, Study

Arms = dict[str, dict[str, Any]]
AS_IT_IS = "as it is"
SAME_DATA = ("data.train", *OF_VALIDATION)
"""Keys in which recipes that are compared may not differ, because a study has one training and one validation set."""
OFF = (False, 0, 0.0, "none")
"""Values that switch a key off."""
OFF_AT_ONE = ("decoding.beam_size", "decoding.repetition_penalty", "decoding.top_p", "training.accumulate")
"""Keys of factors and numbers of which 1 changes nothing."""


def changes_of(base: Resolved[Any], without: Sequence[str], added: Sequence[tuple[str, Any]]) -> Arms:
    """The arms of an ablation: the recipe as it is, without each key, and with each value."""
    arms: Arms = {AS_IT_IS: {}}
    arms |= {f"without {key}": {key: value_off(base, key)} for key in without}
    arms |= {f"{key} = {write_value(value)}": {key: value} for key, value in added}
    return arms


def value_off(base: Resolved[Any], key: str) -> Any:
    """The value that switches a key of the recipe off. Raises UsageError if there is none or it is off already."""
    model, now = type(base.recipe), leaves(base.recipe).get(key)
    field = all_keys(model).get(key)
    choices = [] if field is None else choices_in(field.annotation)
    for value in (*OFF, 1) if key in OFF_AT_ONE else OFF:
        if value == "none" and value not in choices:
            continue  # a text, such as the name of a model
        if isinstance(value, bool) == isinstance(now, bool) and not check_value(model, key, value):
            if now == value:
                raise UsageError(f"--without {key}: it is already off ({write_value(now)})")
            return value
    problems = check_value(model, key, now)
    why = problems[0] if problems else f"no value turns this key off; try --with {key}=VALUE"
    raise UsageError(f"--without {key}: {why}")


def changes_between(old: Resolved[Any], new: Resolved[Any]) -> dict[str, tuple[Any, Any]]:
    """Key -> (old value, new value) of the keys in which two recipes differ; the length of training and the seed aside,
    which a study decides itself. Raises UsageError for recipes of different data, and for equal ones."""
    found = {one.key: (one.old, one.new) for one in differences(old, new) if one.key not in DECIDED}
    if data := [key for key in found if key in SAME_DATA]:
        raise UsageError(f"the recipes differ in {', '.join(data)}; only recipes of the same data can be compared")
    if missing := [key for key, values in found.items() if None in values]:
        raise UsageError(f"{', '.join(missing)}: one recipe leaves it open; set it in both")
    if not found:
        raise UsageError("the recipes are the same, up to the seed and the length of training")
    return found


def arms_between(names: tuple[str, str], changes: Mapping[str, tuple[Any, Any]]) -> Arms:
    """The first recipe, the second one, each change alone in the first, and each change undone in the second; of two
    changes each is the other one undone."""
    new = {key: value for key, (_, value) in changes.items()}
    arms: Arms = {names[0]: {}, names[1]: new}
    if len(changes) > 1:
        for key, (old, value) in changes.items():
            arms[f"{names[0]}, {key} = {write_value(value)}"] = {key: value}
            if len(changes) > 2:
                arms[f"{names[1]}, {key} = {write_value(old)}"] = {**new, key: old}
    return arms


# The study


MADE = "# Written by weft ablate; weft tune works on it, too.\n"


@dataclass
class Ablation:
    """An ablation as the file of a study."""

    file: Path
    folder: Path | None
    data: Path | None
    settings: Mapping[str, Any]
    """Everything of the study but its arms."""
    arms: Arms
    changes: Mapping[str, tuple[Any, Any]]
    """Key -> its values in the two recipes; empty with one recipe."""

    @classmethod
    def of(
        cls,
        recipes: Sequence[Path],
        without: Sequence[str],
        added: Sequence[str],
        *,
        seeds: int,
        steps: int | None,
        margin: float | None,
        folder: Path | None,
        data: Path | None,
    ) -> Self:
        """The ablation of one recipe, or of two. Raises UsageError or RecipeError for what cannot be compared."""
        base = resolved_in(recipes[0], data)
        names, changes = (recipes[0].stem, recipes[-1].stem), dict[str, tuple[Any, Any]]()
        if len(recipes) == 2:
            names = names if names[0] != names[1] else ("first", "second")
            changes = changes_between(base, resolved_in(recipes[1], data))
            arms = arms_between(names, changes)
        else:
            arms = changes_of(base, without, [value_with(recipes[0], data, text) for text in added])
        place = Path("studies") / ("-to-".join(names) if len(recipes) == 2 else f"{names[0]}-ablation")
        if folder is not None:
            place = folder.resolve()  # two ablations of one recipe have a file each, as they have a folder
        file = place.parent / f"{place.name}.toml"
        settings = {
            "base": os.path.relpath(recipes[0], file.parent),
            "seeds": list(range(1, seeds + 1)),
            **({"margin": margin} if margin is not None else {}),
            **({} if steps is None else {"budget.steps": steps}),
            "baseline.arm": next(iter(arms)),
        }
        return cls(file, folder, data, settings, arms, changes)

    def open(self, workers: int, listener: Listener, *, ends_alone: bool = False) -> Study:
        """Write the study's file and open its folder, with the arms that earlier calls have added; with `ends_alone`
        only the two recipes are wanted beside them."""
        wanted = dict(list(self.arms.items())[:2]) if ends_alone else self.arms
        self.arms = {**wanted, **{name: keys for name, keys in self._known().items() if name not in wanted}}
        before = self.file.read_bytes() if self.file.is_file() else None
        self._write()
        try:
            return open_study(self.file, folder=self.folder, data=self.data, workers=workers, listener=listener)
        except WeftError:
            if before is None:
                self.file.unlink(missing_ok=True)
            else:  # the study that is there keeps its file
                write_atomically(self.file, before.decode())
            raise

    def _known(self) -> Arms:
        place = self.folder or self.file.with_suffix("")
        known = open_study(place).config.arms if (place / FACTS).is_file() else {}
        return {name: dict(keys) for name, keys in known.items()}

    def _write(self) -> None:
        lines = [f"{key} = {write_value(value)}" for key, value in self.settings.items()]
        lines += ["", "[arms]", *(f"{write_key(name)} = {write_value(keys)}" for name, keys in self.arms.items())]
        text = MADE + "\n".join(lines) + "\n"
        if self.file.is_file() and not self.file.read_bytes().startswith(MADE.encode()):
            raise UsageError(f"{self.file} was not written by weft ablate; choose another folder: --study DIR")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.file, text)

    def bisect(self, study: Study, train: Callable[[Study], None], listener: Listener) -> str:
        """Find the key that makes the difference of two trained recipes, and say so. `train` trains what is missing."""
        first, second = list(self.arms)[:2]
        cells = [cell_of_arm(study, arm) for arm in (first, second)]
        if failed := [str(cell.arm) for cell in cells if study.has_failed(cell)]:
            why = f"weft tune {shlex.quote(str(study.folder))} says why"
            return f"a run of {' and '.join(failed)} failed, so nothing is bisected; {why}"
        ends = [measured(study, cell) for cell in cells]
        # Judged by themselves: with the mixtures, Holm's adjustment would let a repeated call come to another verdict.
        pair = [end for end in ends if end is not None]
        sentences = sentences_of(study, pair)
        judged = (
            judge_pairs([(pair[0], pair[1])], noise_of(pair), **options(study), sentences=sentences) if pair[1:] else []
        )
        if not judged or judged[0].kind not in ("better", "worse"):
            return f"{first} and {second}: the runs cannot tell them apart, so there is nothing to bisect"

        def value_of(keys: Sequence[str]) -> float:
            name = f"with {', '.join(keys)}"
            listener.on_message(f"{first} {name} as in {second}")
            self.arms[name] = {key: self.changes[key][1] for key in keys}
            self._write()
            mixed = open_study(self.file, folder=self.folder, data=self.data)
            train(mixed)
            if (value := mixed.place_of(cell_of_arm(mixed, name))) == -math.inf:
                why = f"weft tune {shlex.quote(str(mixed.folder))} says why"
                raise UsageError(f"{first} {name} as in {second} cannot be measured; {why}")
            return value

        found = bisect(list(self.changes), value_of, (study.place_of(cells[0]), study.place_of(cells[1])))
        made = f"{found.runs} mixed recipes, {len(study.config.seeds)} seeds each"
        if found.key is None:
            return f"no single key makes the difference of {first} and {second}; several do together ({made})"
        return f"{found.key} alone makes {found.share:.0%} of the difference of {first} and {second} ({made})"


def value_with(recipe: Path, data: Path | None, text: str) -> tuple[str, Any]:
    """The key and the value of `--with KEY=VALUE`. Raises RecipeError for what the recipe cannot have, and UsageError
    for a table of keys."""
    key = text.partition("=")[0].strip()
    try:
        values = leaves(resolved_in(recipe, data, [text]).recipe)
    except RecipeError as error:
        problems = [Problem(one.where.replace("--set", "--with", 1), one.what) for one in error.problems]
        raise RecipeError(error.subject, problems) from None
    if key not in values:
        raise UsageError(f"--with {key}: is a table of keys; give one of them, such as --with {key}.KEY=VALUE")
    return key, values[key]


def resolved_in(recipe: Path, data: Path | None, overrides: Sequence[str] = ()) -> Resolved[Any]:
    return find_recipe(recipe, run=recipe.parent, data=data, overrides=overrides)[0]  # a run's as it was trained


def cell_of_arm(study: Study, arm: str) -> Cell:
    return next(cell for cell in study.cells() if cell.arm == arm)


# Bisection


@dataclass(frozen=True)
class Bisection:
    """What a bisection has found."""

    key: str | None
    """The key that alone makes the difference; None if no single key does."""
    share: float
    """The part of the difference that it makes alone."""
    runs: int
    """The mixed recipes that were measured, the two ends aside."""


def bisect(keys: Sequence[str], value_of: Callable[[Sequence[str]], float], ends: tuple[float, float]) -> Bisection:
    """Find the one key that makes the difference between two recipes.

    `value_of(keys)` measures the first recipe with these keys changed; `ends` are the values with none and with all of
    them. Each measurement halves the suspects: a mixture that is nearer to the second recipe has the key. The last
    suspect is measured alone, so that a difference made by several keys together is not blamed on one.
    """
    none, everything = ends
    suspects, runs = list(keys), 0
    share = 1.0  # of all keys together
    while len(suspects) > 1:
        half = suspects[: len(suspects) // 2]
        of_half = (value_of(half) - none) / (everything - none)
        runs += 1
        suspects, share = (half, of_half) if of_half > 0.5 else (suspects[len(half) :], float("nan"))
    if share != share:  # the last suspect was never measured alone
        share, runs = (value_of(suspects) - none) / (everything - none), runs + 1
    return Bisection(suspects[0] if share > 0.5 else None, share, runs)
