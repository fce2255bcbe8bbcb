"""The courses' BLEU: numbers that can be checked by hand, then sacrebleu as the oracle on random corpora."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from weft.errors import CorpusError, UsageError
from weft.metrics.course_bleu import CourseBleu, course_bleu, exact_match


def bleus(bleu: CourseBleu) -> list[float]:
    return [bleu.bleu(order) for order in (1, 2, 3, 4)]


def test_one_inserted_word_gives_the_published_numbers():
    bleu = course_bleu(["Where do you work right now?"], [["Where do you work now?"]], "en")
    assert (bleu.matches, bleu.totals) == ((5, 3, 2, 1), (6, 5, 4, 3))
    assert bleu.brevity_penalty == 1.0
    assert bleus(bleu) == pytest.approx([0.8333, 0.7071, 0.6300, 0.5373], abs=5e-5)


def test_three_words_have_no_fourth_order():
    assert bleus(course_bleu(["Welcome to Taiwan."], [["Welcome to Taiwan."]], "en")) == [1.0, 1.0, 1.0, 0.0]


FIRST = "resources have to be sufficient and they have to be predictable"
SECOND = "adequate and predictable resources are required"


@pytest.mark.parametrize(
    ("hypothesis", "references", "bleu_2"),
    [
        ("there is a need for adequate and predictable resources", [FIRST, SECOND], 0.327),
        ("resources be sufficient and predictable to", [FIRST, SECOND], 0.775),
        ("there is a need for adequate and predictable resources", [SECOND], 0.408),
        ("resources be sufficient and predictable to", [SECOND], 0.316),
    ],
)
def test_a_second_reference_can_turn_the_order_of_two_hypotheses(hypothesis, references, bleu_2):
    bleu = course_bleu([hypothesis], [[reference] for reference in references], "en")
    assert bleu.bleu(2) == pytest.approx(bleu_2, abs=5e-4)


@pytest.mark.parametrize(
    ("hypothesis", "reference", "matches", "total"),
    [("这本书非常精彩。", "这是本很精彩的书！", 5, 7), ("你孩孩孩孩孩", "你们有小孩吗？", 2, 6)],
)
def test_chinese_counts_characters(hypothesis, reference, matches, total):
    bleu = course_bleu([hypothesis], [[reference]], "zh", ignore_punctuation=True)
    assert (bleu.matches[0], bleu.totals[0]) == (matches, total)


def test_chinese_punctuation_counts_unless_it_is_ignored():
    assert course_bleu(["你好。"], [["你好！"]], "zh-CN").precision(1) == 2 / 3
    assert course_bleu(["你好。"], [["你好！"]], "zh-CN", ignore_punctuation=True).precision(1) == 1.0


def test_in_chinese_every_character_but_white_space_is_a_unit():
    bleu = course_bleu(["用 GPU　训练3天。"], [["用GPU训练3天。"]], "zh")
    assert bleu.hypothesis_length == bleu.reference_length == len("用GPU训练3天。") == 9
    assert bleus(bleu) == [1.0] * 4


def test_ignoring_punctuation_reaches_inside_words():
    bleu = course_bleu(["Don't go , Taiwan"], [["Dont go Taiwan."]], "en", ignore_punctuation=True)
    assert (bleu.precision(1), bleu.hypothesis_length) == (1.0, 3)


def test_words_keep_case_and_punctuation():
    assert course_bleu(["now? Now now"], [["now now? NOW"]], "en").precision(1) == 2 / 3


def test_a_repeated_word_is_clipped_by_the_reference_that_has_it_most_often():
    bleu = course_bleu(
        ["the the the the the the the"], [["the cat is on the mat"], ["there is a cat on the mat"]], "en"
    )
    assert bleu.precision(1) == 2 / 7


def test_counts_of_two_references_are_not_added_up():
    assert course_bleu(["a a"], [["a b"], ["a c"]], "en").precision(1) == 1 / 2


@pytest.mark.parametrize("order_of_sets", [1, -1])
def test_on_a_tie_the_shorter_reference_is_the_closest(order_of_sets):
    sets = [["a b c d e"], ["a b c"]][::order_of_sets]
    bleu = course_bleu(["a b c d"], sets, "en")
    assert (bleu.reference_length, bleu.brevity_penalty) == (3, 1.0)


def test_the_closest_reference_counts_though_a_shorter_one_would_spare_the_penalty():
    bleu = course_bleu(["a b c d"], [["a"], ["a b c d e"]], "en")
    assert bleu.reference_length == 5
    assert bleu.brevity_penalty == math.exp(1 - 5 / 4)


def test_counts_are_summed_over_the_corpus_before_they_are_divided():
    bleu = course_bleu(["a", "x b c"], [["a", "y z w"]], "en")
    assert bleu.precision(1) == 1 / 4  # the mean of the sentences' 1/1 and 0/3 would be 1/2


def test_a_precision_of_zero_gives_zero_from_that_order_on():
    assert bleus(course_bleu(["b a d c"], [["a b c d"]], "en")) == [1.0, 0.0, 0.0, 0.0]


def test_an_empty_hypothesis_scores_zero():
    bleu = course_bleu([""], [["a b"]], "en")
    assert (bleu.brevity_penalty, bleus(bleu)) == (0.0, [0.0] * 4)


@pytest.mark.parametrize("blank", ["", " ", "\u200b \u200b"])
def test_a_blank_further_reference_is_none_at_all(blank):
    with_gap = course_bleu(["a b", "c"], [["a b c d", "c d"], [blank, None]], "en")
    without = course_bleu(["a b", "c"], [["a b c d", "c d"]], "en")
    assert with_gap == without


def test_the_signature_says_how_it_was_counted():
    sets = [["你好。", "好"], ["您好。", ""]]
    score = course_bleu(["你好。", "好"], sets, "zh", ignore_punctuation=True).score(2)
    assert score.name == "bleu_2"
    assert (
        score.signature == "courses-bleu|nrefs:var|unit:character|punctuation:no|case:mixed|smooth:none|length:closest"
    )


def test_exact_match_is_the_share_that_equals_one_of_the_references():
    score = exact_match(["a b ", "c", "d", "E"], [["a b", "x", "y", "e"], ["z", "c", "", ""]])
    assert score.value == 2 / 4


def test_sets_of_another_length_are_all_reported():
    with pytest.raises(CorpusError) as raised:
        course_bleu(["a", "b"], [["a"], ["a", "b"], ["a", "b", "c"]], "en")
    assert [problem.where for problem in raised.value.problems] == ["reference set 1", "reference set 3"]


def test_a_sentence_without_any_reference_is_named_by_its_line():
    with pytest.raises(CorpusError, match=r"line 2 +is blank in every reference set"):
        course_bleu(["a", "b"], [["a", " "], ["a", None]], "en")


@pytest.mark.parametrize(
    ("hypotheses", "references", "says"),
    [([], [[]], "no hypotheses"), (["a"], [], "no references"), (["a"], ["a"], "list")],
)
def test_nothing_to_compare_is_a_usage_error(hypotheses, references, says):
    with pytest.raises(UsageError, match=says):
        course_bleu(hypotheses, references, "en")


def test_the_name_of_a_language_is_not_taken_for_its_code():
    with pytest.raises(UsageError, match="'chinese' is not a language code"):
        course_bleu(["a"], [["a"]], "chinese")


sentence = st.lists(st.sampled_from("abc"), min_size=1, max_size=9).map(" ".join)
corpus = st.lists(st.tuples(sentence | st.just(""), sentence, sentence, sentence), min_size=1, max_size=6)


@given(corpus=corpus, number_of_references=st.integers(1, 3))
def test_random_words_score_as_in_sacrebleu_without_tokenizer_and_smoothing(corpus, number_of_references):
    hypotheses, *sets = zip(*corpus, strict=True)
    sets = sets[:number_of_references]
    bleu = course_bleu(hypotheses, sets, "en")
    for order in (1, 2, 3, 4):
        oracle = BLEU(tokenize="none", smooth_method="none", max_ngram_order=order, force=True)
        expected = oracle.corpus_score(hypotheses, sets)
        assert 100 * bleu.bleu(order) == pytest.approx(expected.score, abs=1e-9)
        assert (bleu.hypothesis_length, bleu.reference_length) == (expected.sys_len, expected.ref_len)


@given(
    st.lists(st.tuples(st.text("你我他。a 1", max_size=9), st.text("你我他。a1", min_size=1, max_size=9)), min_size=1)
)
def test_random_characters_score_as_in_sacrebleu_by_character(corpus):
    hypotheses, references = zip(*corpus, strict=True)
    oracle = BLEU(tokenize="char", smooth_method="none", force=True).corpus_score(hypotheses, [references])
    assert 100 * course_bleu(hypotheses, [references], "zh").bleu(4) == pytest.approx(oracle.score, abs=1e-9)
