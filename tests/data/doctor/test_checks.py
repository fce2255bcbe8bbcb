"""Each check names the pairs that have the fault, and no other."""

from weft.data.doctor.checks import check
from weft.data.measures import tokens


def found(pairs: list[tuple[str, str]], languages: tuple[str, str] = ("zh", "en")) -> dict[str, list[int]]:
    """Kind of fault -> places of the pairs that have it."""
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    checked = check(sources, targets, [*map(tokens, sources)], [*map(tokens, targets)], languages)
    return {kind: places.tolist() for kind, places in checked.found.items() if len(places)}


def test_a_side_of_signs_alone_has_no_words_and_an_empty_one_is_told_as_empty() -> None:
    pairs = [("……", "I do not know."), ("你好。", "?!"), ("你好。", " "), ("3", "3."), ("好。", "Ω")]
    assert found(pairs) == {"empty": [2], "no words": [0, 1]}


def test_a_foreign_sentence_is_in_a_wrong_language_and_an_address_beside_english_is_not() -> None:
    pairs = [("看。", "Look: https://example.de/der/die/und/ist."), ("看。", "Das ist nicht der Bahnhof.")]
    assert found(pairs) == {"wrong language": [1]}


def test_what_traditional_and_simplified_have_alike_is_no_copy_and_a_sentence_that_was_not_converted_is() -> None:
    long = "這是一個很大的問題，我們都知道。"
    pairs = [("這個問題", "这个问题"), ("你好。", "你好。"), (long, long)]
    assert found(pairs, ("zh-Hant", "zh-Hans")) == {"copy": [2]}


def test_khmer_divides_words_by_a_space_without_width_that_is_strange_in_chinese() -> None:
    assert found([("ភាសា\u200bខ្មែរ", "the Khmer language"), ("ភាសា\x01ខ្មែរ", "the Khmer language")], ("km", "en")) == {
        "control": [1]
    }
    assert found([("中文\u200b。", "the Chinese language")]) == {"control": [0]}
