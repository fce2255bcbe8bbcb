"""An LSTM goes where a Transformer goes: every search, ensembles, forced scores, comparisons, attention to tokens."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.command_line import Weft

from weft import load
from weft.evaluating.forced import force
from weft.runs.train import train
from weft.translating.exported import load_for
from weft.translating.text_attention import attention_between
from weft.translating.translator import Translator

SETTINGS = [
    'model={kind="recurrent", embedding_dim=32, hidden_dim=48, convolution=2, coverage=0.5, copying=true, dropout=0.1}',
    *("training.batch_sentences=12", "training.epochs=8", "training.learning_rate=1e-2"),
    *('training.validate_every="8 epochs"', "decoding.max_length_extra=6"),
]
TEXTS = ["我有一个苹果。", "我有三本书包，我有两个朋友。", "我有十杯子。", "苹果"]
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"method": "greedy"},
    "beam": {"beam_size": 4, "coverage_penalty": 0.3},
    "diverse beam": {"beam_size": 4, "diverse_groups": 2},
    "samples": {"method": "sample"},
    "minimum Bayes risk": {"method": "mbr", "mbr_candidates": 6},
}


@pytest.fixture(scope="module")
def recurrent(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of an LSTM with the corpus and the vocabularies of tiny_run's Transformer."""
    return train(tiny_run / "tiny.toml", run=tmp_path_factory.mktemp("recurrent") / "run", overrides=SETTINGS)


@pytest.fixture(scope="module")
def translator(recurrent: Path) -> Translator:
    return load(recurrent)


@pytest.mark.parametrize("search", SEARCHES)
def test_every_search_gives_a_text_alone_what_it_gives_it_in_a_batch(translator: Translator, search: str) -> None:
    together = translator.translate(TEXTS, **SEARCHES[search])
    for text, found in zip(TEXTS, together, strict=True):
        (alone,) = translator.translate([text], **SEARCHES[search])
        assert alone.text == found.text and alone.score == pytest.approx(found.score, abs=1e-4)


def test_terms_prefixes_and_phrases_are_kept(translator: Translator) -> None:
    (found,) = translator.translate(["我有三苹果。"], glossary={"苹果": "pear"}, prefixes=["I"])
    assert found.text.startswith("I") and "pear" in found.text
    assert "friend" in translator.translate(["我有三苹果。"], phrases=[["friend"]])[0].text


def test_with_a_transformer_of_the_same_vocabularies_it_is_an_ensemble(recurrent: Path, tiny_run: Path) -> None:
    both = load(recurrent, others=[tiny_run / "run"])
    targets = ["I have one apples.", "I have two friends."]
    alone = [force(load(folder), TEXTS[:2], targets) for folder in (recurrent, tiny_run / "run")]
    for number, given in enumerate(force(both, TEXTS[:2], targets)):
        for place, log_prob in enumerate(given.log_probs):
            members = [math.exp(forced[number].log_probs[place]) for forced in alone]
            assert log_prob == pytest.approx(math.log(sum(members) / 2), abs=1e-4)
    assert [one.text for one in both.translate(TEXTS)] == [both.translate([text])[0].text for text in TEXTS]


def test_columns_of_the_attention_are_the_characters_of_the_text_in_batches_of_mixed_length(
    translator: Translator,
) -> None:
    pairs = [(text, found.text) for text, found in zip(TEXTS, translator.translate(TEXTS), strict=True)]
    for pair, together in zip(pairs, attention_between(translator, pairs), strict=True):
        (alone,) = attention_between(translator, [pair])
        assert together is not None and alone is not None
        assert together.shape == (len(pair[1]), len(pair[0]))
        np.testing.assert_allclose(together, alone, atol=1e-5)


def test_it_is_analyzed_and_compared(weft: Weft, recurrent: Path, tiny_run: Path) -> None:
    code, out, _ = weft("analyze", "--model", str(recurrent), "我有一个苹果。")
    assert code == 0 and out
    code, out, error = weft("compare", str(recurrent), str(tiny_run / "run"), "--data", str(tiny_run / "valid.tsv"))
    assert code == 0 and "Scores" in out, error


def test_without_attention_and_copying_it_translates_also_when_exported(
    weft: Weft, tiny_run: Path, tmp_path: Path
) -> None:
    settings = ["model.attention=none", "model.coverage=0", "model.copying=false", "training.epochs=2"]
    train(tiny_run / "tiny.toml", run=tmp_path / "run", overrides=[*SETTINGS, *settings])
    exported = tmp_path / "exported"
    words = ("--to", "onnx", "--output", str(exported), "--sentences", "20")
    code, _, error = weft("export", "--model", str(tmp_path / "run"), *words)
    assert code == 0, error
    expected = [found.text for found in load(tmp_path / "run").translate(TEXTS)]
    assert [found.text for found in load_for(str(exported)).translate(TEXTS)] == expected
    assert list(attention_between(load(tmp_path / "run"), [(TEXTS[0], "I")])) == [None]
    code, _, error = weft("analyze", "--model", str(tmp_path / "run"), TEXTS[0])
    assert code == 2 and "this model has no attention" in error
