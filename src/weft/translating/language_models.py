"""Language models that help a translator in its search (decoding/fusion.py)."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.decoding.fusion import Fused
from weft.decoding.search import DecodingConfig
from weft.decoding.step import StepFunction
from weft.errors import UsageError
from weft.files import sha256
from weft.folders.finding import find_model, read_found, task_of
from weft.folders.manifest import MANIFEST
from weft.folders.model_folder import Learned, load_model
from weft.text.tokenizer import Tokenizer
from weft.translating.batches import encode_sources

if TYPE_CHECKING:
    from weft.translating.translator import Translator


def with_language_models(
    translator: "Translator", state: StepFunction, texts: int, rows: int, config: DecodingConfig
) -> StepFunction:
    """`state`, which holds `rows` rows of each text, with the language models of the settings.

    The translator's internal language model is what it predicts for an empty text.
    """
    if config.language_model is None:
        return state
    network = load_language_model(config.language_model, translator.model.vocabularies["target"]).network
    others = [(network.to(translator.device).start(texts * rows), config.lm_weight)]
    if config.ilm_weight:
        nothing = [encode_sources(member, [""] * texts) for member in translator.members]
        internal, _ = translator._start(nothing, np.arange(texts), rows)
        others.append((internal, -config.ilm_weight))
    return Fused(state, others)


def load_language_model(name: str, target: Tokenizer) -> Learned[Any]:
    """A language model for fusion with a translator that has this target vocabulary, read once.

    Raises UsageError for a model of another task or vocabulary: the log-probabilities of pieces can only be added over
    one vocabulary.
    """
    if (task := task_of(find_model(name))) != "language-model":
        raise UsageError(f"decoding.language_model = {name} is a model for {task or 'an unknown task'}")
    model = read_found(name, lambda folder: loaded(folder, sha256(folder / MANIFEST)))
    if model.recipe.data.running:
        raise UsageError(
            f"decoding.language_model = {name} knows running text; train one on lines: data.running = false"
        )
    ours = model.vocabularies["text"]
    if ours.model != target.model:
        raise UsageError(
            f"the language model {name} has another vocabulary ({ours.vocab_size:,} pieces) than the target of the "
            f"translator ({target.vocab_size:,}); train it with tokenizer.vocabulary_of set to the translator"
        )
    return model


@lru_cache(maxsize=2)
def loaded(folder: Path, digest: str) -> Learned[Any]:
    """The model in a folder whose manifest has this sha256."""
    model = load_model(folder)
    model.network.eval()
    return model
