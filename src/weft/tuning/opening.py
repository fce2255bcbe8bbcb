"""Opening a study: the folder of a new one is made, the facts last; an old one may have got more to do."""

import json
import shlex
import shutil
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from weft.config import Resolved, changed, differences, parse_rendered, render
from weft.errors import CorpusError, Problem, RecipeError, RunError, UsageError
from weft.files import sha256
from weft.folders.finding import OPENED
from weft.folders.recipes import RECIPES
from weft.preparing.corpora import find_recipe
from weft.runs.train import Silent
from weft.tasks import TASKS
from weft.training.run_folder import beside
from weft.training.task import Listener
from weft.tuning.cells import distinct, grid, identity
from weft.tuning.lengths import Length, freeze
from weft.tuning.settings import MAY_GROW, StudyConfig, check_against, metric_of, read_study
from weft.tuning.study import BASE, FACTS, STUDY, Facts, Study, holding_lock
from weft.tuning.trial import Spec, read_sealed, tupled, write_sealed


def open_study(
    given: str | Path,
    *,
    folder: str | Path | None = None,
    data: str | Path | None = None,
    workers: int = 1,
    listener: Listener | None = None,
) -> Study:
    """Open the study of a file (in studies/NAME unless a folder is given), which is made if it is not there; or the one
    in an existing folder.

    Processes that open one new study at the same time make it once. Raises UsageError or RecipeError for a study that
    cannot be, and RunError if the folder holds another study.
    """
    given, listener = Path(given), listener or Silent()
    if given.is_dir() and folder is not None:
        raise UsageError(f"{given} is the folder of a study; --study goes with the file of one")
    config = None if given.is_dir() else read_study(given)
    place = given if config is None else Path(folder or Path("studies") / given.stem)
    refuse_other_folder(place, config)
    base = None
    if config is not None and not is_study(place):
        base = read_base(config.recipe, given, place, data)
    is_new = not place.exists()
    with holding_lock(place):
        if config is not None and not is_study(place):
            try:
                assert base is not None
                make(place, config, given, *base, workers, listener)
            except BaseException:
                remove_begun(place, is_new)
                raise
        study = load(place, listener)
        if config is not None:
            recipe = given.parent / config.recipe.base
            if data is None and recipe.is_file():
                root = find_recipe(recipe, run=place, data=None, overrides=())[1].resolve()
                if has_same_data(study, root) and not study.data_root.exists():
                    data = root
            grow(study, config, given)
        if data is not None and Path(data).resolve() != study.data_root:
            study.facts = replace(study.facts, data_root=str(Path(data).resolve()))
            study.check_files()
            keep_facts(study)
    return study


def is_study(place: Path) -> bool:
    """Whether a folder holds a whole study: its facts are written last, first as a copy."""
    return (place / FACTS).exists() or read_sealed(place / "kept" / FACTS) is not None


def read_base(
    config: StudyConfig, given: Path, place: Path, data: str | Path | None
) -> tuple[Resolved[Any], Path, str]:
    """The recipe of a new study, its data root and the sha256 of its file."""
    recipe = given.parent / config.base
    resolved, root, _ = find_recipe(recipe, run=place, data=data, overrides=())
    check_against(config, resolved.recipe, given)
    resolved = changed(resolved, dict(config.fixed), "study")
    if resolved.recipe.model.is_counted:
        raise UsageError(
            f'a model of kind "{resolved.recipe.model.kind}" is counted in seconds; there is nothing to tune'
        )
    return resolved, root.resolve(), sha256(recipe)


def refuse_other_folder(place: Path, config: Any) -> None:
    """Raise UsageError for a folder with anything but a study."""
    if is_study(place):
        return
    if config is None:
        raise UsageError(f"{place} is not a study: it has no {FACTS}; give the file of a study")
    others = {path.name for path in place.iterdir() if path.name[0] != "."} if place.is_dir() else set()
    if place.exists() and (not place.is_dir() or others - BEGUN or (others and "lock" not in others)):
        raise UsageError(f"{place} is not a study; choose another folder: --study DIR")


BEGUN = {STUDY, BASE, "kept", "corpus", "lock", "trials", OPENED, "train.tsv", "train.jsonl", "train.txt"}
"""What a process that was killed while it made a study can leave."""


def make(
    place: Path,
    config: Resolved[StudyConfig],
    given: Path,
    base: Resolved[Any],
    root: Path,
    digest: str,
    workers: int,
    listener: Listener,
) -> None:
    """Resolve the base once, prepare its corpus, and enumerate the first trials."""
    remove_begun(place, is_new=False)
    frozen, files, length = freeze(base, config.recipe, root, place, workers, listener)
    facts = Facts(str(root), digest, files.sha256, length, len(files.valid))
    study = Study(place, config, frozen, facts)
    if len(files.valid) < 2:
        raise UsageError(
            "a study needs at least two validation items: it chooses on one half and confirms on the other"
        )
    study.trials_folder.mkdir()
    refuse_if_no_point_fits(study, listener)
    refuse_what_cannot_be_compared(study, given)
    for name, text in ((STUDY, render(config)), (BASE, render(frozen))):
        keep(place, name, text)
    study.extend()
    keep_facts(study)  # last: now it is a study


def refuse_if_no_point_fits(study: Study, listener: Listener) -> None:
    """Raise RecipeError if no point of a grid makes a recipe that fits together; some may."""
    if study.config.sampler != "grid":
        return
    points, errors = distinct(grid(study.config)), list[RecipeError]()
    for settings in points:
        try:
            study.recipe_of(Spec(settings, study.config.seeds[0]))
        except RecipeError as error:
            errors.append(error)
    if len(errors) == len(points):
        raise errors[0]
    if errors:
        listener.on_message(f"{len(errors)} of {len(points)} points cannot be trained and will be reported as failed")


def refuse_what_cannot_be_compared(study: Study, given: Path) -> None:
    """Raise RecipeError for decodings of a grid that no search can have, and for a baseline and claims that do not name
    its cells: both would be met after the training."""
    if study.config.sampler != "grid":
        return
    cells, seed = study.cells(), study.config.seeds[0]
    for cell in (cell for cell in cells if cell.decoding):
        try:
            study.recipe_of(Spec(cell.settings, seed))
        except RecipeError:
            continue  # it is reported as failed
        study.recipe_of(Spec(cell.values, seed))
    problems = []
    if study.config.baseline and study.baseline() is None:
        problems.append(Problem("baseline", f"names no cell of the study: {dict(study.config.baseline)}"))
    names = [*{identity(cell.names): cell.names for cell in cells}.values()]
    for number, claim in enumerate(study.config.claims):
        for named in claim.cells:
            if (count := sum(named.items() <= of_cell.items() for of_cell in names)) != 1:
                problems.append(Problem(f"claims[{number}]", f"names {count} cells, not one: {dict(named)}"))
    if problems:
        raise RecipeError(given, problems)


def keep_facts(study: Study) -> None:
    keep(study.folder, FACTS, json.dumps(asdict(study.facts), ensure_ascii=False, indent=1) + "\n")


def keep(place: Path, name: str, text: str) -> None:
    """Write a file of the study, and its copy."""
    (place / "kept").mkdir(exist_ok=True)
    write_sealed(place / "kept" / name, text)
    write_sealed(place / name, text)


def load(place: Path, listener: Listener) -> Study:
    """The study in a folder; a file that was torn or changed is restored from its copy."""
    texts = {}
    for name in (STUDY, BASE, FACTS):
        text = read_sealed(place / name)
        if text is None:
            text = read_sealed(place / "kept" / name)
            if text is None:
                raise RunError(f"{place / name} and its copy in {place / 'kept'} are damaged; begin another study")
            listener.on_message(f"{place / name} was damaged or changed by hand; restored from its copy")
        texts[name] = text
        for file in (place / name, place / "kept" / name):
            if read_sealed(file) is None:
                write_sealed(file, text)
    facts = json.loads(texts[FACTS])
    length = Length(**tupled(facts.pop("length")))
    facts.pop("test_files_opened", None)  # older studies have it
    return Study(
        place,
        parse_rendered(texts[STUDY], StudyConfig, place / STUDY),
        parse_rendered(texts[BASE], RECIPES, place / BASE),
        Facts(**facts, length=length),
    )


def has_same_data(study: Study, root: Path) -> bool:
    """Whether a folder has the study's data. Raises RunError if it has other data: the file that was given is that of
    another study of this name."""
    if root == study.data_root:
        return True
    with suppress(CorpusError):  # the study was begun with --data
        if TASKS[study.base.recipe.task].read(study.base.recipe, root, Silent()).sha256 != study.facts.files:
            raise RunError(
                f"{study.folder} is a study of the data in {study.data_root}, not of that in {root}; go on with "
                f"--data {shlex.quote(str(study.data_root))}, or begin another study: --study DIR"
            )
        return True
    return False


def grow(study: Study, config: Resolved[StudyConfig], given: Path) -> None:
    """Take over what may be added to a study that has begun. Raises RunError for any other change."""
    found = differences(study.resolved, config)
    recipe = given.parent / config.recipe.base
    may_change = (*MAY_GROW, *(["base"] if recipe.is_file() else []))  # its content is compared below, not its path
    refused = [d for d in found if d.key.partition(".")[0] not in may_change]
    halving = study.config.halving is not None  # it has chosen among the points that there were
    draws = study.config.sampler != "grid"  # another arm would change the points
    more = MAY_GROW[: 2 if draws else 3]
    refused += [d for d in found if d.key in MAY_GROW[:3] and (halving or d.key not in more or not is_more(d))]
    listed_changes = "".join(f"\n  {change}" for change in refused)
    if recipe.is_file() and sha256(recipe) != study.facts.recipe_sha256:
        listed_changes += f"\n  {recipe}: was changed; the study has its own copy, {BASE}"
    if (now := metric_of(config.recipe, study.base.recipe).name) != study.metric.name:
        listed_changes += f"\n  metric: was {study.metric.name}, is {now}"
    if listed_changes:
        added = "" if halving else f"more {', '.join(more)}, and "
        another = shlex.join(["--study", str(beside(study.folder, "2"))])
        raise RunError(
            f"{study.folder} holds another study:{listed_changes}\nundo the change, or begin another study: {another} "
            f"(a study that has begun can get {added}another {', '.join(MAY_GROW[3:])})"
        )
    if found:
        check_against(config.recipe, study.base.recipe, given)
        study.resolved = config
        refuse_what_cannot_be_compared(study, given)
        keep(study.folder, STUDY, render(config))


def is_more(change: Any) -> bool:
    """Whether the seeds, trials or arms of a study were only added to."""
    if change.key == "trials":
        return (change.new or 0) >= (change.old or 0)
    if change.key == "seeds":
        return set(change.old) <= set(change.new)
    # without arms, all trials are of one that changes nothing
    return change.old.items() <= change.new.items() if change.old else {} in change.new.values()


def remove_begun(place: Path, is_new: bool) -> None:
    """Remove what an unfinished beginning of a study has left; with `is_new` the folder as well."""
    for name in BEGUN - {"lock"}:
        path = place / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    if is_new:
        (place / "lock").unlink(missing_ok=True)
        with suppress(OSError):
            place.rmdir()
