"""The model that a run begins with: fresh weights for the vocabularies of its prepared corpus, or another model's.

What the recipe leaves to the machine is decided here, and written into it.
"""

from typing import Any

import torch

from weft.config import Resolved, changed
from weft.folders.model_folder import Learned, TranslationModel, build_transformer, find_model, load_weights
from weft.folders.recipes import TranslationRecipe
from weft.preparing.preparation import Prepared
from weft.runtime import choose_device, choose_precision, choose_threads, derive_seed


def first_model(prepared: Prepared) -> TranslationModel:
    """By the recipe and the vocabularies of this corpus."""
    resolved = with_machine_choices(prepared.resolved)
    source, target = prepared.tokenizers
    torch.manual_seed(derive_seed(resolved.recipe.seed, "weights"))
    model = build_transformer(resolved.recipe, source.vocab_size, target.vocab_size)
    if resolved.recipe.training.init is not None:
        load_weights(model, find_model(resolved.recipe.training.init))
    return Learned(resolved, model, {"source": source, "target": target})


def with_machine_choices(resolved: Resolved[TranslationRecipe]) -> Resolved[TranslationRecipe]:
    training = resolved.recipe.training
    chosen: dict[str, Any] = {}
    if training.precision == "auto":
        chosen["training.precision"] = choose_precision("auto", choose_device())
    if training.threads is None:
        chosen["training.threads"] = choose_threads()
    return changed(resolved, chosen, "measured")
