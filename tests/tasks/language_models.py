"""Small language models of every kind, with fresh weights, for tests."""

from typing import Any

import torch

from weft.config import Resolved
from weft.data.lines import LinesConfig
from weft.folders.model_folder import Learned
from weft.folders.recipes import LanguageModelRecipe
from weft.models.kinds import LANGUAGE_MODELS
from weft.models.language_model import RecurrentLmConfig, TransformerLmConfig, WindowConfig
from weft.text.kinds import train_tokenizer

TEXTS = ["the cat sat", "", "on the mat and slept until the evening came", "a dog"]
KINDS = {
    "window": WindowConfig(window=3, embedding_dim=4, model_dim=8),
    "rnn": RecurrentLmConfig(cell="rnn", model_dim=8, dropout=0.0),
    "lstm": RecurrentLmConfig(cell="lstm", model_dim=8, num_layers=2, dropout=0.0),
    "transformer": TransformerLmConfig(model_dim=8, num_heads=2, num_layers=1, ff_dim=8, dropout=0.0),
}


def ngram_recipe(**tokenizer: Any) -> dict[str, Any]:
    """A recipe of 3-grams of train.txt, with these keys of [tokenizer]."""
    return {
        "task": "language-model",
        "data": {"language": "en", "train": ["train.txt"], "valid": ["valid.txt"]},
        "tokenizer": tokenizer,
        "model": {"kind": "ngram", "order": 3},
        "training": {"epochs": 1},
    }


def learned(kind: str, **data: Any) -> Learned[LanguageModelRecipe]:
    """A model over characters; `data` are keys of the table [data]."""
    texts = LinesConfig(language="en", train=("t",), valid=("v",), **data)
    recipe = LanguageModelRecipe(data=texts, model=KINDS[kind])
    tokenizer, _ = train_tokenizer(TEXTS, kind="characters", vocab_size=300, language="en")
    torch.manual_seed(1)
    network = LANGUAGE_MODELS[KINDS[kind].kind](recipe.model, vocab_size=tokenizer.vocab_size).eval()
    return Learned(Resolved(recipe, {}), network, {"text": tokenizer})
