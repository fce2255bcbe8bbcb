"""The models that another was initialized by, taught by or given pairs by. Its card lists them, because it inherits
their licences and the data that they have seen."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import AliasPath, BaseModel, Field, ValidationError

from weft.errors import Problem, RecipeError
from weft.files import sha256
from weft.folders.card import BEFORE, Parent, license_of, recorded_files
from weft.folders.finding import find_model
from weft.folders.manifest import MANIFEST
from weft.folders.recipes import TranslationRecipe
from weft.folders.summary import read_card

WHERE = {
    "init": "training.init = {}",
    "teacher": "training.teachers, {}",
    "maker": "data.train, pairs made by {}",
}
"""Where a recipe names a parent."""


class MadeFile(BaseModel):
    """The fields read here of the JSON file that augment.py writes next to pairs."""

    sha256: str
    makers: list[Parent] = Field([], validation_alias=AliasPath("names", "makers"))


def parents_of(recipe: TranslationRecipe, train: Mapping[str, str], root: Path) -> list[Parent]:
    """The parents of a run; `train` maps the training files, relative to `root`, to their sha256."""
    init = [("init", recipe.training.init)] if recipe.training.init is not None else []
    named = [*init, *(("teacher", each) for each in recipe.training.teachers)]
    makers = [maker for name, digest in train.items() for maker in makers_of(root / name, digest)]
    once = {maker.digest: maker for maker in makers}
    return [*(parent_of(part, name) for part, name in named), *once.values()]


def text_parents(recipe: Any, train: Mapping[str, str], root: Path) -> list[Parent]:
    """The parent of a run on text, which has neither teachers nor makers; a model that is counted begins anew."""
    init = None if recipe.model.is_counted else recipe.training.init
    return [] if init is None else [parent_of("init", init)]


def check_unseen(parents: Sequence[Parent], valid: Mapping[str, str]) -> None:
    """Raise RecipeError with every validation file that a parent, or an ancestor of it, was trained on, because the new
    model would learn the answers from it.

    `valid` maps the validation files to their sha256.
    """
    problems = [
        Problem(
            WHERE[parent.part].format(parent.name),
            f"was trained on {name}, whose text is held out for validation; take another model or other valid files",
        )
        for parent in parents
        for name, digest in valid.items()
        if digest in parent.seen
    ]
    if problems:
        raise RecipeError("the recipe with its valid files", problems)


def parent_of(part: str, name: str) -> Parent:
    folder = find_model(name)
    card = read_card(folder)
    return Parent(part, name, sha256(folder / MANIFEST), license_of(card), seen_by(card))


def makers_of(file: Path, digest: str) -> list[Parent]:
    """The models that made the pairs of a file; none if no JSON file next to it describes its present content."""
    try:
        made = MadeFile.model_validate_json(file.with_name(f"{file.name}.json").read_bytes())
    except (OSError, ValidationError):
        return []
    return made.makers if made.sha256 == digest else []


def seen_by(card: str) -> dict[str, str]:
    """sha256 -> name of the files that the model of this card or an ancestor was trained on."""
    return recorded_files(card, "train") | recorded_files(card, BEFORE)
