"""Write a model without some of its attention heads into a new folder."""

import re
from collections.abc import Collection
from pathlib import Path

from weft.config import changed
from weft.files import refuse_existing_folder
from weft.folders.finding import find_model
from weft.folders.model_folder import Learned, TranslationModel, save_model
from weft.folders.summary import read_card
from weft.models.pruning import Head, cut
from weft.models.transformer import STACKS
from weft.training.run_folder import committed_folder

SCORES = re.compile(r"^## Scores\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)


def save_pruned(name: str | Path, model: TranslationModel, heads: Collection[Head], folder: Path) -> TranslationModel:
    """Cut the heads out of the model that `name` means, write the rest into a new folder, and return it.

    The card is that of the model, whose scores are no longer true and are left out. Raises UsageError if the folder
    exists.
    """
    refuse_existing_folder(folder)
    network = cut(model.network, heads)
    counts = {f"model.{kind}_heads": getattr(network.config, f"{kind}_heads") for kind in STACKS}
    smaller = Learned(changed(model.resolved, counts, "pruned"), network, model.vocabularies)
    card = read_card(find_model(name))
    for old, new in (
        (f"{model.count_parameters():,} parameters", f"{smaller.count_parameters():,} parameters"),
        (model.recipe.model.describe(), smaller.recipe.model.describe()),
    ):
        card = card.replace(old, new, 1)
    about = f"Attention heads cut out of the trained model: {len(heads)}. It has not been scored since."
    card = SCORES.sub(f"## Scores\n\n{about}\n\n", card)
    with committed_folder(folder) as staged:
        save_model(staged, smaller, card)
    return smaller
