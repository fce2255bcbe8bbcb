"""The published scores: small numbers by hand, the library's own answer, and what is refused."""

import importlib.util
import json
import math

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from weft.errors import CorpusError, UsageError, WeftError
from weft.metrics.references import reference_sets
from weft.metrics.translation import (
    chrf,
    sacre_bleu,
    score_translations,
    sentence_scores,
    ter,
    tokenizer_for,
)

HYPOTHESES = ["The cat sat on the mat.", "Where do you work right now?", "It is a very good book."]
REFERENCES = ["The cat sat on a mat.", "Where do you work now?", "It is a really good book."]


def test_every_score_comes_with_its_name_scale_and_signature():
    scores = score_translations(HYPOTHESES, [REFERENCES], "en")
    names = ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "exact_match", "sacrebleu", "chrf", "ter"]
    assert [score.name for score in scores.scores] == names
    assert all("nrefs:1" in score.signature for score in scores.scores)
    assert [score.scale for score in scores.scores] == ["0..1"] * 5 + ["0..100"] * 2 + ["edits in 100 words"]


def test_a_perfect_translation_has_the_best_of_every_score():
    values = score_translations(REFERENCES, [REFERENCES], "en").values()
    assert values.pop("ter") == 0.0
    assert values.pop("sacrebleu") == pytest.approx(100.0)
    assert values.pop("chrf") == 100.0
    assert set(values.values()) == {1.0}


def test_the_two_families_differ_by_the_tokenizer_of_sacrebleu():
    scores = score_translations(["I see Taiwan!"], [["I see Taiwan."]], "en")
    assert scores["bleu_1"].value == pytest.approx(2 / 3)
    assert scores["sacrebleu"].detail["precisions"] == pytest.approx((100 * 3 / 4, 100 * 2 / 3, 100 / 2, 100 / 2))


def test_sacrebleu_splits_final_punctuation_from_the_word():
    score = sacre_bleu(["a b c d."], [["a b c d ."]], "en")
    assert score.value == pytest.approx(100.0)
    assert score.detail["hypothesis_length"] == 5


def test_sacrebleu_of_chinese_counts_characters():
    score = sacre_bleu(["我喜欢你"], [["我喜欢他"]], "zh-TW")
    precisions = (3 / 4, 2 / 3, 1 / 2, 1 / 2)  # the last is no match at all, smoothed: 1 / (2 * 1)
    assert score.value == pytest.approx(100 * math.prod(precisions) ** (1 / 4))
    assert "|tok:zh|" in score.signature


def test_ter_counts_edits_for_each_word_of_the_reference():
    score = ter(["a b c d"], [["a b x d e"]], "en")
    assert score.value == pytest.approx(100 * 2 / 5)
    assert score.detail == {"edits": 2, "reference_length": 5}


def test_ter_of_chinese_counts_characters():
    score = ter(["我喜欢你"], [["我喜欢他"]], "zh")
    assert score.value == 25.0
    assert "norm:yes|punct:yes|asian:yes" in score.signature


@pytest.mark.parametrize("language", ["th", "lao", "km_KH", "mya_Mymr", "bo", "dz"])
def test_languages_without_spaces_are_scored_by_characters(language):
    """A sentence that is one word would be all right or all wrong."""
    scores = score_translations(["กขคง จ"], [["กขคฉจ"]], language)
    assert scores["bleu_1"].value == pytest.approx(4 / 5) and "unit:character" in scores["bleu_1"].signature
    assert scores["ter"].value == 20.0 and scores["ter"].signature.endswith("|unit:character")
    assert "|tok:char|" in scores["sacrebleu"].signature and scores["sacrebleu"].detail["hypothesis_length"] == 5
    with pytest.raises(UsageError, match=r"one word; use char$"):
        tokenizer_for(language, "13a")


def test_an_empty_sentence_without_spaces_is_no_word():
    assert ter(["", "กข"], [["ก", "กข"]], "th").detail == {"edits": 1, "reference_length": 3}


def test_chrf_by_hand_on_two_letters():
    # unigrams: one of two match on each side; bigrams: none of one. Means 1/4 and 1/4, so F is 1/4 for every beta.
    assert chrf(["ab"], [["ac"]]).value == pytest.approx(25.0)


def test_a_sentence_missing_in_the_second_set_is_scored_against_the_first_alone():
    scores = score_translations(HYPOTHESES, [REFERENCES, [HYPOTHESES[0], "", None]], "en")
    assert scores["exact_match"].value == pytest.approx(1 / 3)
    assert all("nrefs:var" in score.signature for score in scores.scores)
    # An empty reference of length 0 would have lowered both lengths.
    assert scores["sacrebleu"].detail["reference_length"] == 7 + 6 + 7
    assert scores["ter"].detail["reference_length"] == 6 + 5 + 6


def test_the_first_set_may_lack_a_sentence_that_the_second_has():
    assert score_translations(["a b c d"], [[None], ["a b c d"]], "en")["sacrebleu"].value == pytest.approx(100.0)


def test_an_empty_hypothesis_is_scored():
    values = score_translations([""], [["a b"]], "en").values()
    assert values.pop("ter") == 100.0
    assert set(values.values()) == {0.0}


def test_sentence_scores_are_those_of_the_library():
    expected = [
        (BLEU(effective_order=True).sentence_score(*pair).score, CHRF().sentence_score(*pair).score)
        for pair in zip(HYPOTHESES, ([reference] for reference in REFERENCES), strict=True)
    ]
    assert sentence_scores(HYPOTHESES, [REFERENCES], "en") == expected


def test_pairs_with_fewer_references_have_blank_ones() -> None:
    assert reference_sets([("a", "b"), ("c",)]) == [["a", "c"], ["b", ""]]


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        ("zh", "zh"),
        ("zh-CN", "zh"),
        ("zh_tw", "zh"),
        ("cmn_Hans", "zh"),
        ("ja", "ja-mecab"),
        ("KO", "ko-mecab"),
        ("en", "13a"),
        ("de-AT", "13a"),
    ],
)
def test_the_tokenizer_follows_the_target_language(language, tokenizer):
    assert tokenizer_for(language) == tokenizer


@pytest.mark.parametrize("language", ["zh", "zh-tw", "cmn", "ja"])
@pytest.mark.parametrize("tokenizer", ["13a", "intl", "none"])
def test_a_tokenizer_that_looks_for_spaces_is_refused_where_there_are_none(language, tokenizer):
    with pytest.raises(UsageError, match="no spaces between words"):
        score_translations(["你好"], [["你好"]], language, tokenizer=tokenizer)


def test_the_tokenizer_of_chinese_parts_no_thai() -> None:
    assert tokenizer_for("ja", "zh") == tokenizer_for("yue", "zh") == "zh"
    with pytest.raises(UsageError, match=r"cannot score th, .* use char"):
        tokenizer_for("th", "zh")


@pytest.mark.parametrize("tokenizer", ["flores101", "flores200", "spm", "spBLEU-1K"])
def test_a_tokenizer_that_downloads_is_refused(tokenizer):
    with pytest.raises(UsageError, match="downloads its model"):
        sacre_bleu(["a"], [["a"]], "en", tokenizer)


def test_an_unknown_tokenizer_is_refused_with_the_choices():
    with pytest.raises(UsageError, match="choose from 13a, intl, zh"):
        sacre_bleu(["a"], [["a"]], "en", "14a")


@pytest.mark.skipif(importlib.util.find_spec("MeCab") is not None, reason="MeCab is installed here")
def test_japanese_without_mecab_says_what_to_install():
    with pytest.raises(WeftError, match=r"pip install 'sacrebleu\[ja\]'"):
        score_translations(["猫です"], [["猫です"]], "ja")


def test_japanese_can_be_scored_by_character():
    scores = score_translations(["猫がいます"], [["猫がいます"]], "ja", tokenizer="char")
    assert scores["sacrebleu"].value == pytest.approx(100.0)
    assert scores["bleu_1"].detail["hypothesis_length"] == 5


def test_unequal_sets_are_an_error_where_sacrebleu_would_cut_them():
    with pytest.raises(CorpusError, match="has 1 sentences; the hypotheses are 2"):
        chrf(["a", "b"], [["a"]])


def test_scores_survive_json_with_their_counts():
    scores = score_translations(HYPOTHESES, [REFERENCES], "en")
    read = json.loads(json.dumps(scores.as_dict()))
    assert read["sentences"] == 3
    assert read["scores"]["bleu_1"]["value"] == scores["bleu_1"].value
    assert read["scores"]["bleu_1"]["matches"] == [5 + 5 + 5]
    assert read["scores"]["ter"]["signature"] == scores["ter"].signature


def test_the_table_is_aligned_and_the_remarks_and_signatures_of_all_scores_come_after_it():
    scores = score_translations(HYPOTHESES, [REFERENCES], "en")
    header, *lines = scores.table().text().splitlines()
    rows, told = lines[: len(scores.scores)], " ".join(" ".join(lines[len(scores.scores) :]).split())
    column = header.index("scale")
    assert [row[column:] for row in rows] == [score.scale for score in scores.scores]
    assert all(row[column - 2 : column] == "  " for row in rows)
    precisions = "/".join(f"{share:.1f}" for share in BLEU().corpus_score(HYPOTHESES, [REFERENCES]).precisions)
    assert told.startswith(f"sacrebleu: n-gram precisions {precisions}, brevity penalty 1.000 (21 tokens, 20 in")
    for score in scores.scores[3:]:
        assert f"{score.name}: {score.signature}" in told
