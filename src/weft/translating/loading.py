"""`load_translator`: a `Translator` of the models in some folders."""

from collections.abc import Sequence
from pathlib import Path

import torch

from weft.config import override
from weft.errors import listed
from weft.folders.finding import read_found
from weft.folders.model_folder import TranslationModel, load_model
from weft.runtime import choose_threads, keep_memory_pages, use_one_thread_after_fork
from weft.translating.translator import Translator

CHANGEABLE = ("decoding", "data.columns", "data.header", "data.empty_sides", "data.detokenize", "data.tag", "require")
"""Keys that can be overridden for a trained model: those of translation and evaluation."""


def load_translator(
    name: str | Path, overrides: Sequence[str] = (), *, others: Sequence[str | Path] = ()
) -> Translator:
    """Load a translator from a model folder or a run folder (its best weights); `others` make it an ensemble.

    Overrides are "KEY=VALUE" with a key of CHANGEABLE. Raises ModelError, UsageError or RecipeError, and ProblemsError
    for models that cannot form an ensemble.
    """
    overrides, others = listed(overrides, "load", "override"), listed(others, "load", "model")
    torch.set_num_threads(min(torch.get_num_threads(), choose_threads()))
    keep_memory_pages()
    use_one_thread_after_fork()
    loaded = [load_best(each, overrides) for each in (name, *others)]
    first, *members = (model for model, _ in loaded)
    translator = Translator(first, others=members)
    translator.folders = tuple(folder for _, folder in loaded)
    return translator


def load_best(name: str | Path, overrides: Sequence[str]) -> tuple[TranslationModel, Path]:
    """Load a model and return it with its folder; raises as `load_translator` does."""
    model, folder = read_found(name, lambda folder: (load_model(folder), folder))
    if overrides:
        model.resolved = override(model.resolved, overrides, f"the recipe of {name}", CHANGEABLE)
    return model, folder
