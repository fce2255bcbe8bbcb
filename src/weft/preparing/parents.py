"""The models that another began with, learned from or got pairs from: what its card says of them, since their licences
and what they have seen go over to it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ValidationError

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
"""How a recipe comes to a parent."""


class Names(BaseModel):
    makers: list[Parent] = []


class MadeFile(BaseModel):
    """What augment.py writes beside the pairs that models make, as far as it is read here."""

    sha256: str
    names: Names


def parents_of(recipe: TranslationRecipe, train: Mapping[str, str], root: Path) -> list[Parent]:
    """Parents of a run as they are now; `train` maps the training files, which are below `root`, to their sha256."""
    init = [("init", recipe.training.init)] if recipe.training.init is not None else []
    named = [*init, *(("teacher", each) for each in recipe.training.teachers)]
    makers = [maker for name, digest in train.items() for maker in makers_of(root / name, digest)]
    once = {maker.digest: maker for maker in makers}
    return [*(parent_of(part, name) for part, name in named), *once.values()]


def check_unseen(parents: Sequence[Parent], valid: Mapping[str, str]) -> None:
    """Raise RecipeError with every valid file that one of the parents was trained on, or has from a model that was: it
    knows their answers, and the new model would have them from it before it is asked.

    `valid` maps the files that the new model is chosen by to their sha256.
    """
    problems = [
        Problem(
            WHERE[parent.part].format(parent.name),
            f"was trained on {name}, which is among the valid files; take another model or other valid files",
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
    """The models that made the pairs of a file; none where nothing beside it tells of the file as it is."""
    try:
        made = MadeFile.model_validate_json(file.with_name(f"{file.name}.json").read_bytes())
    except (OSError, ValidationError):
        return []
    return made.names.makers if made.sha256 == digest else []


def seen_by(card: str) -> dict[str, str]:
    """sha256 -> name of the files that the model of this card, or one before it, was trained on."""
    return recorded_files(card, "train") | recorded_files(card, BEFORE)
