"""The model that a run begins with: new weights, or those of training.init.

Settings that the recipe leaves to the machine are chosen here and written into the recipe.
"""

from typing import Any

import torch

from weft.config import Resolved, changed
from weft.folders.finding import find_model
from weft.folders.kinds import KINDS
from weft.folders.model_folder import Learned, load_weights, sizes_of
from weft.preparing.prepared import Prepared
from weft.runtime import choose_device, choose_precision, choose_threads, derive_seed


def first_model(prepared: Prepared[Any]) -> Learned[Any]:
    """Build the model of a recipe for the vocabularies of its prepared corpus."""
    resolved = with_machine_choices(prepared.resolved)
    recipe = resolved.recipe
    torch.manual_seed(derive_seed(recipe.seed, "weights"))
    network = KINDS[recipe.task].build(recipe, sizes_of(prepared.vocabularies))
    if recipe.training.init is not None:
        load_weights(network, find_model(recipe.training.init))
    return Learned(resolved, network, prepared.vocabularies)


def with_machine_choices(resolved: Resolved[Any]) -> Resolved[Any]:
    training = resolved.recipe.training
    chosen: dict[str, Any] = {}
    if training.precision == "auto":
        chosen["training.precision"] = choose_precision("auto", choose_device())
    if training.threads is None:
        chosen["training.threads"] = choose_threads()
    return changed(resolved, chosen, "measured")
