"""Corpora with weights and tags become runs: what a pair counts, what stands before it, and that none of it is lost."""

from pathlib import Path
from typing import Any

import pytest
from tests.watching import Watcher, losses, tiny_recipe, values

from weft.data.corpus import ParallelText
from weft.data.store import open_store
from weft.errors import RecipeError, RunError, Stopped, UsageError
from weft.folders.model_folder import load_model
from weft.runs.train import train
from weft.tasks.translation import pair_batches
from weft.text.vocabulary import END_ID
from weft.translating.loading import load_translator
from weft.translating.translator import Translator


@pytest.fixture(scope="module")
def corpora(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """a.tsv and b.tsv, a half of tiny_run's training pairs each, and valid.tsv."""
    folder = tmp_path_factory.mktemp("corpora")
    header, *pairs = (tiny_run / "train.tsv").read_text(encoding="utf-8").splitlines()
    for name, part in (("a.tsv", pairs[:21]), ("b.tsv", pairs[21:])):
        (folder / name).write_text("".join(f"{line}\n" for line in [header, *part]), encoding="utf-8")
    (folder / "valid.tsv").write_bytes((tiny_run / "valid.tsv").read_bytes())
    return folder


def recipe(files: list[Any], **tables: dict[str, Any]) -> dict[str, Any]:
    training = {"batch_sentences": 12, "epochs": 3, **tables.get("training", {})}
    return tiny_recipe(**{**tables, "data": {"train": files, **tables.get("data", {})}, "training": training})


WEIGHTED = ["a.tsv", {"path": "b.tsv", "weight": 0.5, "tag": "<bt>"}]


@pytest.fixture(scope="module")
def watcher() -> Watcher:
    """What `tagged_run` said."""
    return Watcher()


@pytest.fixture(scope="module")
def tagged_run(corpora: Path, tmp_path_factory: pytest.TempPathFactory, watcher: Watcher) -> Path:
    return train(recipe(WEIGHTED), run=tmp_path_factory.mktemp("tagged") / "run", data=corpora, listener=watcher)


def test_an_epoch_is_as_long_as_the_weights_say(tagged_run: Path, watcher: Watcher) -> None:
    assert "an epoch holds 31 pairs, by the weights of the corpora" in watcher.messages  # 21 + 10.5, to the even one
    assert len(losses(tagged_run)) == 3 * 3  # ceil(31 / 12) steps an epoch


def test_a_weighted_run_that_was_stopped_ends_bit_for_bit_like_one_that_was_not(
    corpora: Path, tagged_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    for step in (2, 4, 7):
        with pytest.raises(Stopped):
            train(recipe(WEIGHTED), run=run, data=corpora, listener=Watcher(signal_at=step))
    train(recipe(WEIGHTED), run=run, data=corpora)
    assert losses(run) == losses(tagged_run)
    assert (run / "model.safetensors").read_bytes() == (tagged_run / "model.safetensors").read_bytes()


def test_an_epoch_without_a_pair_is_refused(corpora: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="an epoch holds no pairs; raise a weight"):
        train(recipe([{"path": "a.tsv", "weight": 0.01}]), run=tmp_path / "run", data=corpora)


def test_the_tag_stands_before_the_sources_of_its_corpus_and_before_no_other(tagged_run: Path) -> None:
    tokenizer, store = load_model(tagged_run).vocabularies["source"], open_store(tagged_run / "corpus")
    tag = tokenizer.tag_id("<bt>")
    has_tag = [tag in store.columns["source"][pair].tolist() for pair in range(len(store))]
    assert [(part.pairs, part.tag) for part in store.parts] == [(21, None), (21, "<bt>")]
    assert has_tag == [False] * 21 + [True] * 21
    (text,) = tokenizer.decode([store.columns["source"][21].tolist()])
    assert store.columns["source"][21].tolist() == [tag, *tokenizer.encode([text])[0], END_ID]


def test_what_looks_like_a_tag_in_a_text_is_text(tagged_run: Path) -> None:
    tokenizer = load_model(tagged_run).vocabularies["source"]
    batches = pair_batches(ParallelText(["<bt>我有"], [("I",)], {}), tokenizer, tokenizer, seed=1, batch_sentences=2)
    assert tokenizer.tag_id("<bt>") not in batches.columns[0][0].tolist()


def test_translation_has_no_tag_unless_asked(tagged_run: Path) -> None:
    texts = ["我有一个苹果。", "", "书包"]
    plain, tagged = load_translator(tagged_run), load_translator(tagged_run, ["data.tag=<bt>"])
    assert plain.model.recipe.data.tag is None
    found = [translator.translate(texts) for translator in (plain, tagged)]
    assert [f.log_prob for f in found[0]] != [f.log_prob for f in found[1]]
    assert found[0][1] == found[1][1]  # nothing is translated by nothing, tag or no tag
    with pytest.raises(RecipeError, match=r"must be the tag of a corpus in data\.train; known: <bt>"):
        load_translator(tagged_run, ["data.tag=<st>"])


def test_a_recipe_may_ask_for_the_tag_in_validation_too(corpora: Path, tagged_run: Path, tmp_path: Path) -> None:
    asked = train(recipe(WEIGHTED, data={"tag": "<bt>"}), run=tmp_path / "run", data=corpora)
    assert losses(asked) == losses(tagged_run)
    assert values(asked, "valid_loss") != values(tagged_run, "valid_loss")


def test_a_tagged_model_of_one_vocabulary_is_loaded_with_its_tag(corpora: Path, tmp_path: Path) -> None:
    tokenizer = {"shared": True, "target_size": None}
    run = train(recipe(WEIGHTED, tokenizer=tokenizer, training={"epochs": 1}), run=tmp_path / "run", data=corpora)
    model = load_model(run)
    assert model.vocabularies["source"].tag_id("<bt>") is not None
    assert Translator(model).translate(["我有一个苹果。"])[0].log_prob < 0


def test_a_model_that_lacks_the_tag_cannot_be_gone_on_from(
    corpora: Path, tiny_run: Path, tagged_run: Path, tmp_path: Path
) -> None:
    def begun_from(other: Path) -> dict[str, Any]:
        given = recipe(WEIGHTED, training={"init": str(other), "epochs": 1})
        return {**given, "tokenizer": {}, "model": {}}

    with pytest.raises(RecipeError, match=r"the tag <bt> +the vocabulary of the model .* lacks it and cannot grow"):
        train(begun_from(tiny_run / "run"), run=tmp_path / "run", data=corpora)
    train(begun_from(tagged_run), run=tmp_path / "run", data=corpora)


def test_a_vocabulary_without_the_tag_is_named(tiny_run: Path) -> None:
    tokenizer = load_model(tiny_run / "run").vocabularies["source"]
    with pytest.raises(UsageError, match="the source vocabulary has no tag <bt>"):
        pair_batches(ParallelText(["我有"], [("I",)], {}), tokenizer, tokenizer, seed=1, batch_sentences=2, tag="<bt>")
