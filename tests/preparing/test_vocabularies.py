"""Runs with every kind of tokenizer, and with vocabularies that somebody else made."""

from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.watching import Watcher, tiny_recipe

from weft.errors import CorpusError, ModelError, RecipeError, RunError
from weft.folders.finding import find_model
from weft.folders.model_folder import load_model
from weft.runs.train import train
from weft.text.kinds import Kind
from weft.translating.loading import load_translator

KINDS: tuple[Kind, ...] = get_args(Kind)
BERT = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"我有一两三四五六十个。苹果杯子朋友问"]


def recipe(**tokenizer: Any) -> dict[str, Any]:
    return {**tiny_recipe(training={"batch_sentences": 40, "steps": 1}), "tokenizer": tokenizer}


@pytest.fixture
def vocabulary(tiny_run: Path, tmp_path: Path) -> Path:
    """vocab.txt for the Chinese side, with the training pairs beside it; the last three nouns are not all in it."""
    for name in ("train.tsv", "valid.tsv"):
        (tmp_path / name).write_bytes((tiny_run / name).read_bytes())
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in BERT), encoding="utf-8")
    return path


@pytest.mark.parametrize(("kind", "shared"), [*product(KINDS, [False]), ("bpe", True), ("wordpiece", True)])
def test_a_run_of_every_kind_is_a_model_that_translates(
    tiny_run: Path, tmp_path: Path, kind: Kind, shared: bool
) -> None:
    settings = recipe(kind=kind, source_size=300, shared=shared, **({} if shared else {"target_size": 300}))
    run = train(settings, run=tmp_path / "run", data=tiny_run)
    suffix = "model" if kind in ("bpe", "unigram") else "txt"
    expected = {f"tokenizer.{suffix}"} if shared else {f"tokenizer.source.{suffix}", f"tokenizer.target.{suffix}"}
    assert {path.name for path in run.glob("tokenizer*")} == expected
    model = load_model(find_model(run))
    assert model.recipe.tokenizer.source_size == model.vocabularies["source"].vocab_size
    assert model.vocabularies["source"].normalize("三個") == "三个"
    texts = ["我有三个苹果。", "龘", ""]
    found = load_translator(run).translate(texts)
    assert [one.text for one in found] == [load_translator(run).translate([text])[0].text for text in texts]
    assert found[0].log_prob < 0 and found[2].text == ""


@pytest.mark.parametrize(
    ("kind", "says"), [("bpe", False), ("characters", False), ("words", True), ("wordpiece", True)]
)
def test_unknown_words_are_counted_once_when_a_run_begins_where_there_can_be_any(
    vocabulary: Path, kind: Kind, says: bool
) -> None:
    listener = Watcher()
    pairs = ["zh\ten", *(f"我有苹果{n}。\tI have apple {n} or {2 * n}." for n in range(200, 500))]
    (vocabulary.parent / "train.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    train(
        recipe(kind=kind, source_size=280, target_size=280),
        run=vocabulary.parent / "run",
        data=vocabulary.parent,
        listener=listener,
    )
    found = [message for message in listener.messages if "are not in the vocabulary" in message]
    assert len(found) == (2 if says else 0)
    if kind == "words":
        # 我, 有, 苹果, a number, 。: 280 - 4 - 4 numbers fit; I, have, apple, a number, or, a number, the point
        assert found[0] == "source: 28 of 1,500 words (1.87 %) are not in the vocabulary"
        assert found[1].startswith("target: ") and "of 2,100 words" in found[1]


def test_a_users_vocabulary_is_taken_as_it_is(vocabulary: Path) -> None:
    listener = Watcher()
    settings = recipe(kind="wordpiece", source_vocabulary="vocab.txt")
    run = train(settings, run=vocabulary.parent / "run", data=vocabulary.parent, listener=listener)
    model = load_model(find_model(run))
    assert model.vocabularies["source"].encode(["我有，"]) == [[BERT.index("我"), BERT.index("有"), 1]]
    assert model.vocabularies["source"].tag_id("[MASK]") == BERT.index("[MASK]")
    assert model.recipe.tokenizer.source_size == len(BERT)
    assert model.resolved.origins["tokenizer.source_size"] == "vocabulary"
    assert not any("source_size" in message for message in listener.messages)
    assert any(message.startswith("source: ") and "not in the vocabulary" in message for message in listener.messages)
    vocabulary.unlink()
    load_translator(run).translate(["我有"])


def test_a_run_does_not_go_on_with_another_vocabulary_file(vocabulary: Path) -> None:
    settings = recipe(kind="wordpiece", source_vocabulary="vocab.txt")
    run = train(settings, run=vocabulary.parent / "run", data=vocabulary.parent)
    train(settings, run=run, data=vocabulary.parent)
    vocabulary.write_text(vocabulary.read_text(encoding="utf-8") + "新\n", encoding="utf-8")
    with pytest.raises(RunError, match=r"changed since then: vocabulary vocab\.txt"):
        train(settings, run=run, data=vocabulary.parent)


def test_one_vocabulary_file_serves_both_sides_where_they_share_it(vocabulary: Path) -> None:
    settings = recipe(kind="wordpiece", source_vocabulary="vocab.txt", shared=True)
    run = train(settings, run=vocabulary.parent / "run", data=vocabulary.parent)
    model = load_model(find_model(run))
    assert model.vocabularies["source"].model == model.vocabularies["target"].model
    assert (model.vocabularies["source"].normalize("三個"), model.vocabularies["target"].normalize("三個")) == (
        "三个",
        "三個",
    )


@pytest.mark.parametrize(
    ("tokenizer", "error", "message"),
    [
        ({"kind": "wordpiece", "source_vocabulary": "no.txt"}, CorpusError, r"no.txt +does not exist"),
        (
            {"kind": "wordpiece", "source_vocabulary": "train.tsv"},
            ModelError,
            r"train.tsv has .* problems(.|\n)*line 2",
        ),
        ({"kind": "bpe", "source_vocabulary": "vocab.txt"}, RecipeError, r"source_vocabulary.*needs kind"),
        (
            {"kind": "wordpiece", "source_vocabulary": "vocab.txt", "source_size": 400},
            RecipeError,
            r"tokenizer.source_size = 400 +vocab.txt makes it 24; leave the key out",
        ),
        (
            {"kind": "wordpiece", "source_vocabulary": "vocab.txt", "target_vocabulary": "vocab.txt", "shared": True},
            RecipeError,
            "cannot be set if the vocabulary is shared",
        ),
    ],
    ids=["not there", "no vocabulary", "another kind", "another size", "two for one"],
)
def test_what_cannot_be_is_said(
    vocabulary: Path, tokenizer: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        train(recipe(**tokenizer), run=vocabulary.parent / "run", data=vocabulary.parent)
