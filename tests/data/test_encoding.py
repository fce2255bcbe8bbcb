"""Pairs as ids: begun, ended and tagged as a model reads them, without those that are too long."""

from collections.abc import Sequence

import pytest

from weft.data.encoding import EncodedPairs, pairs_of_ids, tag_ids
from weft.text.characters import CharacterTokenizer, train_characters

PAIRS = [("猫", "cat"), ("猫狗", "cats"), ("狗狗狗狗狗", "a dog"), ("", "x"), ("狗", "dogs and cats")]
SOURCES, TARGETS = [pair[0] for pair in PAIRS], [pair[1] for pair in PAIRS]


@pytest.fixture(scope="module")
def tokenizer() -> CharacterTokenizer:
    return train_characters([*SOURCES, *TARGETS], vocab_size=300, language="en", tags=["<bt>"])[0]


def encoded(tokenizer: CharacterTokenizer, max_length: int | None = None, before: Sequence[int] = ()) -> EncodedPairs:
    sources, targets = tokenizer.encode(SOURCES), tokenizer.encode(TARGETS)
    return pairs_of_ids(sources, targets, [before] * len(PAIRS), max_length)


def test_sources_end_and_targets_begin_and_end(tokenizer: CharacterTokenizer) -> None:
    found, ids = encoded(tokenizer), tokenizer.encode([*SOURCES, *TARGETS])
    assert [found.sources[place].tolist() for place in range(5)] == [[*source, 3] for source in ids[:5]]
    assert [found.targets[place].tolist() for place in range(5)] == [[2, *target, 3] for target in ids[5:]]
    assert found.kept.tolist() == [0, 1, 2, 3, 4]


def test_what_stands_before_a_source_does_not_count_as_its_length(tokenizer: CharacterTokenizer) -> None:
    (tag,) = tag_ids(tokenizer, "<bt>")
    found = encoded(tokenizer, 5, before=[tag])
    assert found.kept.tolist() == [0, 1, 2, 3]  # "dogs and cats" has 13 pieces
    assert [found.sources[place][0] for place in range(4)] == [tag] * 4
    assert encoded(tokenizer, 4).kept.tolist() == [0, 1, 3]


def test_of_no_pairs_there_are_no_ids() -> None:
    found = pairs_of_ids([], [], [], max_length=None)
    assert len(found.sources) == len(found.targets) == len(found.kept) == 0
