"""weft's own pieces in the forms that the others read, so that all of them train on the very same tokens.

    eole/      train.zh train.en valid.zh valid.en as pieces with spaces between them; vocab.zh vocab.en
    joeynmt/   the same files as text, which JoeyNMT cuts itself with pieces.zh.model and pieces.en.model; vocab.*

Reads the train and the valid file of weft's recipe and no other.
"""

from pathlib import Path
from typing import cast

import sentencepiece

from weft.config import Resolved, read_recipe
from weft.data.corpus import read_corpora
from weft.data.store import Store
from weft.folders.model_folder import TranslationModel
from weft.folders.recipes import TranslationRecipe
from weft.preparing import preparation
from weft.preparing.corpora import read_all
from weft.preparing.first_model import first_model
from weft.runs.train import Silent
from weft.text.vocabulary import SPECIAL_PIECES

RECIPE = Path(__file__).with_name("weft.toml")


def prepare(data_root: Path, folder: Path, recipe: Path = RECIPE) -> tuple[TranslationModel, Store]:
    """Fill `folder` with eole/ and joeynmt/; return weft's model before its first step and its training pairs."""
    resolved = cast(Resolved[TranslationRecipe], read_recipe(recipe, TranslationRecipe, ()))
    corpora = read_all(resolved.recipe, data_root, Silent())
    prepared = preparation.prepare(resolved, corpora, folder / "corpus", Silent())
    model, train = first_model(prepared), read_corpora(resolved.recipe.data.train, resolved.recipe.data, data_root)
    eole, joeynmt = folder / "eole", folder / "joeynmt"
    eole.mkdir()
    joeynmt.mkdir()
    sides = (("zh", "sources", model.vocabularies["source"]), ("en", "targets", model.vocabularies["target"]))
    for language, side, tokenizer in sides:
        spell = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model).id_to_piece
        vocabulary = [spell(i) for i in range(len(SPECIAL_PIECES), tokenizer.vocab_size)]
        write_lines(eole / f"vocab.{language}", [f"{piece}\t1" for piece in vocabulary])
        write_lines(joeynmt / f"vocab.{language}", vocabulary)
        (joeynmt / f"pieces.{language}.model").write_bytes(tokenizer.model)
        for split, pairs in (("train", train), ("valid", corpora.valid)):
            texts = getattr(pairs, side)
            write_lines(eole / f"{split}.{language}", [" ".join(tokenizer.pieces(text)) for text in texts])
            write_lines(joeynmt / f"{split}.{language}", [tokenizer.normalize(text) for text in texts])
    return model, prepared.store


def write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
