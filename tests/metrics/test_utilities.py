"""The scores that minimum Bayes risk compares by are sacrebleu's, to the last digits, for all pairs at once."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from weft.metrics import utilities
from weft.metrics.utilities import BleuUtilities, ChrfUtilities, bleu_utilities, number_features

TEXTS = ["The cat sat on the mat.", "the cat, the cat", "", "a", "The cat sat on a mat.", "  ", "mat", "!?"]
CHINESE = ["我喜欢你。", "我喜欢他", "你好,你好", "GPU 3天", ""]

texts_of_words = st.lists(st.text("ab .,", max_size=14), min_size=1, max_size=5)


def all_of(utility: ChrfUtilities | BleuUtilities, texts: Sequence[str]) -> np.ndarray:
    return utility.between(np.arange(len(texts)))


def by_sacrebleu(metric: BLEU | CHRF, texts: Sequence[str]) -> np.ndarray:
    return np.array([[metric.sentence_score(h, [r]).score for r in texts] for h in texts])


@pytest.mark.parametrize("texts", [TEXTS, CHINESE], ids=["english", "chinese"])
def test_chrf_of_all_pairs_is_sacrebleus(texts: list[str]) -> None:
    np.testing.assert_allclose(all_of(ChrfUtilities(texts), texts), by_sacrebleu(CHRF(), texts), atol=1e-9)


@pytest.mark.parametrize(("texts", "language", "tokenizer"), [(TEXTS, "en", "13a"), (CHINESE, "zh", "zh")])
def test_bleu_of_all_pairs_is_sacrebleus(texts: list[str], language: str, tokenizer: str) -> None:
    oracle = BLEU(tokenize=tokenizer, effective_order=True)
    np.testing.assert_allclose(all_of(bleu_utilities(language)(texts), texts), by_sacrebleu(oracle, texts), atol=1e-9)


@given(texts=texts_of_words)
def test_random_texts_have_the_chrf_of_sacrebleu(texts: list[str]) -> None:
    np.testing.assert_allclose(all_of(ChrfUtilities(texts), texts), by_sacrebleu(CHRF(), texts), atol=1e-9)


@given(texts=texts_of_words)
def test_random_texts_have_the_bleu_of_sacrebleu(texts: list[str]) -> None:
    oracle = BLEU(effective_order=True, force=True)
    np.testing.assert_allclose(all_of(bleu_utilities("en")(texts), texts), by_sacrebleu(oracle, texts), atol=1e-9)


def test_chrf_by_hand() -> None:
    # "ab" and "abb": 2 of 2 and 2 of 3 letters, 1 of 1 and 1 of 2 pairs; the third order has only the reference.
    precision, recall = (1 + 1) / 2, (2 / 3 + 1 / 2) / 2
    expected = 100 * 5 * precision * recall / (4 * precision + recall)
    assert ChrfUtilities(["ab", "a b b"]).between(np.array([0]))[0, 1] == pytest.approx(expected)


def test_some_of_the_texts_have_their_rows_of_all() -> None:
    for utility in (ChrfUtilities(TEXTS), bleu_utilities("en")(TEXTS)):
        chosen = np.array([4, 0, 1])
        assert (utility.between(chosen) == all_of(utility, TEXTS)[chosen]).all()


def test_matches_do_not_depend_on_how_many_features_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = all_of(ChrfUtilities(TEXTS), TEXTS)
    monkeypatch.setattr(utilities, "FEATURES_AT_ONCE", 3)
    assert (all_of(ChrfUtilities(TEXTS), TEXTS) == at_once).all()


words = st.lists(st.lists(st.sampled_from("abc"), max_size=6), min_size=1, max_size=5)


@given(texts=words, data=st.data())
def test_expected_matches_are_the_mean_of_clipped_matches(texts: list[list[str]], data: st.DataObject) -> None:
    weights = np.array(data.draw(st.lists(st.floats(0.1, 1), min_size=len(texts), max_size=len(texts))))
    weights /= weights.sum()
    clipped = [[(Counter(h) & Counter(r)).total() for r in texts] for h in texts]
    features = number_features(texts)
    assert features.matches(np.arange(len(texts))).tolist() == clipped
    np.testing.assert_allclose(features.expected_matches(weights), np.array(clipped) @ weights)


@pytest.mark.parametrize("utility", [ChrfUtilities, bleu_utilities("en")], ids=["chrf", "bleu"])
def test_all_at_once_is_exact_where_all_weight_is_on_one_text(utility) -> None:
    table = utility(TEXTS)
    for reference in range(len(TEXTS)):
        weights = np.eye(len(TEXTS))[reference]
        np.testing.assert_allclose(table.with_all_at_once(weights), all_of(table, TEXTS)[:, reference], atol=1e-9)
