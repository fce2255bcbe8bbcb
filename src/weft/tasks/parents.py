"""The models that another began with or learned from: what its card says of them, since their licences and what they
have seen go over to it."""

import re

from weft.files import sha256
from weft.tasks.model_card import BEFORE, Parent, recorded_files
from weft.tasks.model_folder import MANIFEST, find_model
from weft.tasks.model_summary import read_card
from weft.tasks.recipes import TranslationRecipe


def parents_of(recipe: TranslationRecipe) -> list[Parent]:
    """As they are now."""
    init = [("init", recipe.training.init)] if recipe.training.init is not None else []
    return [parent_of(part, name) for part, name in [*init, *(("teacher", each) for each in recipe.training.teachers)]]


def parent_of(part: str, name: str) -> Parent:
    folder = find_model(name)
    card = read_card(folder)
    return Parent(part, name, sha256(folder / MANIFEST), licence_of(card), seen_by(card))


def licence_of(card: str) -> str | None:
    """What the header of a card says, if it says something."""
    found = re.match(r"---\n(?:(?!---\n).*\n)*?license:[ ]*(\S.*)\n", card)
    return found[1].strip() if found and found[1].strip() != "unknown" else None


def seen_by(card: str) -> dict[str, str]:
    """sha256 -> name of the files that the model of this card, or one before it, was trained on."""
    return recorded_files(card, "train") | recorded_files(card, BEFORE)
