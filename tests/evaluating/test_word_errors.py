"""Errors of every class, classified as one does by hand; the edits are the fewest there are."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from weft.evaluating.word_errors import CLASSES, by_frequency, classify, edits

WORDS = st.lists(st.sampled_from("abcd"), max_size=7)


def errors(reference: str, hypothesis: str) -> dict[str, tuple[str, ...]]:
    """The classes that have words."""
    found, length = classify(reference.split(), hypothesis.split())
    assert found.keys() == set(CLASSES) and length == len(reference.split())
    return {kind: words for kind, words in found.items() if words}


def test_a_word_that_the_translation_lacks_is_an_omission() -> None:
    assert errors("i have three red apples", "i have three apples") == {"omission": ("red",)}


def test_a_word_that_the_reference_lacks_is_an_addition() -> None:
    assert errors("i have apples", "i have many apples") == {"addition": ("many",)}


def test_a_word_in_place_of_another_is_wrong() -> None:
    assert errors("i have three apples", "i have three pears") == {"wrong word": ("pears",)}


def test_a_word_that_both_have_at_different_places_is_out_of_order() -> None:
    assert errors("yesterday i bought apples", "i bought apples yesterday") == {"order": ("yesterday",)}


def test_a_right_translation_has_no_errors_and_an_empty_one_only_omissions() -> None:
    assert errors("i have apples", "i have apples") == {}
    assert errors("i have apples", "") == {"omission": ("i", "have", "apples")}
    assert errors("", "i") == {"addition": ("i",)}


def test_a_second_copy_of_a_word_is_an_addition() -> None:
    assert errors("very good", "very very good") == {"addition": ("very",)}


@given(WORDS, WORDS)
def test_the_edits_are_the_fewest_and_lead_from_one_to_the_other(reference: list[str], hypothesis: list[str]) -> None:
    @cache
    def least(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        differs = reference[i - 1] != hypothesis[j - 1]
        return min(least(i - 1, j - 1) + differs, least(i - 1, j) + 1, least(i, j - 1) + 1)

    found = edits(reference, hypothesis)
    assert len(found) == least(len(reference), len(hypothesis))
    gained = [after for _, after in found if after is not None]
    lost = [before for before, _ in found if before is not None]
    assert sorted(reference + gained) == sorted(hypothesis + lost)


def test_words_are_counted_by_how_often_they_were_trained_on() -> None:
    pairs = [(["rare", "the", "the"], ["the", "new", "the"]), (["the"], ["the"])]
    found = by_frequency(pairs, {"the": 5000, "rare": 3})
    assert [(one.name, one.in_references, one.in_hypotheses, one.right, one.f) for one in found] == [
        ("0", 0, 1, 0, 0.0),
        ("1 to 9", 1, 0, 0, 0.0),
        ("1000 and more", 3, 3, 3, 1.0),
    ]
