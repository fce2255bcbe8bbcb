"""The recipe of a run and the files that it names, checked before anything is made of them."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.config import Resolved, choose_recipe_model, override, parse_rendered, read_recipe, resolve
from weft.data.corpus import CorpusEntry, file_names, read_corpora
from weft.data.pair_files import collecting
from weft.data.preparation import problems_of
from weft.errors import CorpusError, Problem, UsageError, as_path, listed
from weft.files import read_bytes, refuse_pipe, reporting_read_errors, sha256
from weft.folders.finding import run_of
from weft.folders.recipes import OF_THE_MACHINE, RECIPES, TranslationRecipe
from weft.metrics.translation import sacre_bleu
from weft.preparing.prepared import Files
from weft.preparing.teachers import teacher_digests
from weft.text.kinds import KINDS
from weft.text.language import refuse_unknown
from weft.training.run_folder import STATE, RunFolder
from weft.training.task import Listener


def find_recipe(
    recipe: str | Path | Mapping[str, Any],
    *,
    run: str | Path | None,
    data: str | Path | None,
    overrides: Sequence[str],
) -> tuple[Resolved[Any], Path, Path]:
    """The checked recipe, the folder that its data paths are relative to, and its run folder; see training.train. The
    recipe of a run is that run's, and its paths are relative to the current folder."""
    overrides = listed(overrides, "a recipe", "override")
    if not isinstance(recipe, Mapping):
        recipe = as_path(recipe, "a recipe")
    model = choose_recipe_model(recipe, RECIPES, overrides)
    if isinstance(recipe, Mapping):
        if run is None:
            raise UsageError("a recipe that is not a file needs a run folder: run=...")
        resolved, home, name = resolve(recipe, model, "the recipe", overrides), Path(), ""
    else:
        of_run = run_of(recipe)
        resolved = read_recipe(recipe, model, overrides, of_the_machine=OF_THE_MACHINE, of_run=of_run is not None)
        home, name = recipe.parent, recipe.stem
        if of_run is not None:
            home = Path()
            if run is None:
                run, resolved = of_run, recipe_given(of_run, resolved, overrides)
    given = getattr(resolved.recipe, "data", None)
    for side in ("source", "target", "language"):
        if (code := getattr(given, side, None)) is not None:
            refuse_unknown(code, f"{name}.toml: data.{side}" if name else f"data.{side}")
    return (
        resolved,
        Path(data or os.environ.get("WEFT_DATA") or home),
        Path(run) if run is not None else Path("runs") / name,
    )


def recipe_given(run: Path, chosen: Resolved[Any], overrides: Sequence[str]) -> Resolved[Any]:
    """The recipe that a run was given, with these overrides: what it left open stays open, as where its own file is
    given again. `chosen`, which has what weft chose, stands in for it if the run does not say."""
    model, folder = type(chosen.recipe), RunFolder(run)
    try:
        status = folder.status()
        place = folder.checkpoint(status.last if status else 0) / STATE
        given = parse_rendered(json.loads(place.read_text(encoding="utf-8"))["recipe"], model, place)
    except (OSError, ValueError, KeyError, TypeError):
        return chosen
    if given.origins.get("training.epochs") == "default":  # filled in, so that steps may take their place
        training = given.recipe.training.model_copy(update={"epochs": None})
        given = Resolved(given.recipe.model_copy(update={"training": training}), given.origins)
    return override(given, overrides, run, changeable=[*model.model_fields])


def read_all(recipe: TranslationRecipe, data_root: Path, listener: Listener) -> Files:
    """Read and check all files of a recipe.

    Raises CorpusError with the problems of all files, or if a training file is also a validation file. Raises
    UsageError or WeftError now, not an epoch later, if validation cannot score the target language.
    """
    sacre_bleu(["."], [["."]], recipe.data.target)
    KINDS[recipe.tokenizer.kind].check()
    problems: list[Problem] = []
    train, valid = {}, None
    for name in names_of(recipe.data.train):
        with collecting(problems, name):
            refuse_pipe(data_root / name)
            with reporting_read_errors(data_root / name):
                train[name] = sha256(data_root / name)
    try:
        valid = read_corpora(recipe.data.valid, recipe.data, data_root)
    except CorpusError as error:
        problems += error.problems
    vocabularies = {}
    for name in recipe.tokenizer.vocabularies:
        try:
            vocabularies[name] = read_bytes(data_root / name)
        except CorpusError as error:
            problems += [Problem(name, problem.what) for problem in error.problems]
    if problems or valid is None:
        # report the problems of all files at once
        if not train:
            begin = f"begin in {data_root.resolve()} (of --data, else WEFT_DATA, else the recipe's folder)"
            problems.append(Problem("data paths", begin))
        there = [entry for entry in recipe.data.train if all(name in train for name in names_of([entry]))]
        raise CorpusError("the corpus", [*problems_of(there, recipe.data, data_root), *problems])
    refuse_shared_files(train, valid.sha256)
    if valid.dropped_empty:
        listener.on_message(f"{valid.dropped_empty:,} validation pairs with an empty side dropped")
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in vocabularies.items()}
    others = {"teacher": teacher_digests(recipe), "vocabulary": digests}
    return Files(data_root, train, valid, others, vocabularies=vocabularies)


def input_files(recipe: Path, *, data: str | Path | None, overrides: Sequence[str]) -> list[Path]:
    """The recipe and all files that it names, which a command must not overwrite."""
    resolved, root, _ = find_recipe(recipe, run=None, data=data, overrides=overrides)
    given, vocabularies = resolved.recipe.data, getattr(resolved.recipe.tokenizer, "vocabularies", ())
    return [recipe, *(root / name for name in [*names_of([*given.train, *given.valid]), *vocabularies])]


def names_of(entries: Iterable[str | CorpusEntry]) -> list[str]:
    """The files of these entries, each once."""
    names = ([entry] if isinstance(entry, str) else file_names(entry) for entry in entries)
    return list(dict.fromkeys(name for of_entry in names for name in of_entry))


def refuse_shared_files(train: Mapping[str, str], valid: Mapping[str, str], *, rows: str = "pairs") -> None:
    """Raise CorpusError for validation files with the content of a training file; both map name -> sha256."""
    trained_on = {digest: name for name, digest in train.items()}
    problems = [
        Problem(name, f"in data.valid holds the same as {trained_on[digest]} in data.train; hold some {rows} out")
        for name, digest in valid.items()
        if digest in trained_on
    ]
    if problems:
        raise CorpusError("the corpus", problems)
