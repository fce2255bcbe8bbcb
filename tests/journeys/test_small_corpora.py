"""Corpora that are too small for what the recipe asks: the vocabulary gives way, says so, and the run can go on."""

from pathlib import Path
from typing import Any

import pytest
from tests.watching import Watcher, tiny_recipe

from weft.folders.finding import find_model
from weft.folders.model_folder import load_model
from weft.runs.train import train


def recipe(**tables: dict[str, Any]) -> dict[str, Any]:
    given = tiny_recipe(training={"epochs": 1, **tables.get("training", {})})
    return {**given, "tokenizer": tables.get("tokenizer", {})}


def test_one_pair_is_a_corpus(tmp_path: Path) -> None:
    for name, pair in (("train.tsv", "你好\tHi"), ("valid.tsv", "你好！\tHi!")):
        (tmp_path / name).write_text(f"zh\ten\n{pair}\n", encoding="utf-8")
    model = load_model(find_model(train(recipe(), run=tmp_path / "run", data=tmp_path)))
    assert model.vocabularies["source"].vocab_size < 300
    assert model.recipe.tokenizer.source_size == model.vocabularies["source"].vocab_size


@pytest.mark.parametrize(
    "tokenizer",
    [
        {},
        {"source_size": 3000, "target_size": 3000},
        {"source_size": 3000, "shared": True},
        {"source_size": 3000, "target_size": 3000, "shared": True},
        {"kind": "unigram", "source_size": 3000, "target_size": 3000},
    ],
    ids=["left out", "asked for", "shared", "shared, said twice", "unigram"],
)
def test_a_run_whose_vocabulary_was_lowered_says_so_and_goes_on_by_the_same_recipe(
    tiny_run: Path, tmp_path: Path, tokenizer: dict[str, Any]
) -> None:
    watcher = Watcher()
    run = train(recipe(tokenizer=tokenizer), run=tmp_path / "run", data=tiny_run, listener=watcher)
    assert any("the corpus supports no more" in message for message in watcher.messages)
    found = load_model(find_model(run))
    assert found.recipe.tokenizer.source_size == found.vocabularies["source"].vocab_size < 1000

    again = Watcher()
    train(recipe(tokenizer=tokenizer), run=tmp_path / "run", data=tiny_run, listener=again)
    assert again.messages == [f"{run} is finished (step 2); raise training.epochs to continue"]
    train(recipe(tokenizer=tokenizer, training={"epochs": 2}), run=tmp_path / "run", data=tiny_run, listener=again)
    assert "continuing from step 2 of 4" in again.messages
