"""Pairs as ids: begun, ended and tagged as a model reads them, without those that are too long."""

from collections.abc import Sequence

import pytest

from weft.data import encoding
from weft.data.encoding import EncodedPairs, encode_pairs, pairs_of_ids
from weft.text.characters import CharacterTokenizer, train_characters

PAIRS = [("猫", "cat"), ("猫狗", "cats"), ("狗狗狗狗狗", "a dog"), ("", "x"), ("狗", "dogs and cats")]
SOURCES, TARGETS = [pair[0] for pair in PAIRS], [pair[1] for pair in PAIRS]


@pytest.fixture(scope="module")
def tokenizer() -> CharacterTokenizer:
    return train_characters([*SOURCES, *TARGETS], vocab_size=300, language="en", tags=["<bt>"])[0]


def encoded(tokenizer: CharacterTokenizer) -> EncodedPairs:
    return encode_pairs(SOURCES, TARGETS, tokenizer, tokenizer, before=[[]] * len(PAIRS))


def fitting(tokenizer: CharacterTokenizer, max_length: int, before: Sequence[int] = ()) -> EncodedPairs:
    sources, targets = tokenizer.encode(SOURCES), tokenizer.encode(TARGETS)
    return pairs_of_ids(sources, targets, [before] * len(PAIRS), max_length)


def test_sources_end_and_targets_begin_and_end(tokenizer: CharacterTokenizer) -> None:
    found, ids = encoded(tokenizer), tokenizer.encode([*SOURCES, *TARGETS])
    assert [found.sources[place].tolist() for place in range(5)] == [[*source, 3] for source in ids[:5]]
    assert [found.targets[place].tolist() for place in range(5)] == [[2, *target, 3] for target in ids[5:]]
    assert found.kept.tolist() == [0, 1, 2, 3, 4]


def test_what_stands_before_a_source_does_not_count_as_its_length(tokenizer: CharacterTokenizer) -> None:
    tag = tokenizer.tag_id("<bt>")
    assert tag is not None
    found = fitting(tokenizer, 5, before=[tag])
    assert found.kept.tolist() == [0, 1, 2, 3]  # "dogs and cats" has 13 pieces
    assert [found.sources[place][0] for place in range(4)] == [tag] * 4
    assert fitting(tokenizer, 4).kept.tolist() == [0, 1, 3]


def test_pairs_are_the_same_however_many_are_encoded_at_a_time(
    tokenizer: CharacterTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = encoded(tokenizer)
    monkeypatch.setattr(encoding, "ENCODED_AT_ONCE", 2)
    in_parts = encoded(tokenizer)
    for name in ("sources", "targets"):
        ours, theirs = getattr(in_parts, name), getattr(whole, name)
        assert ours.ids.tolist() == theirs.ids.tolist() and ours.offsets.tolist() == theirs.offsets.tolist()
    assert in_parts.kept.tolist() == whole.kept.tolist() == [0, 1, 2, 3, 4]


def test_of_no_pairs_there_are_no_ids(tokenizer: CharacterTokenizer) -> None:
    found = encode_pairs([], [], tokenizer, tokenizer, before=[])
    assert len(found.sources) == len(found.targets) == len(found.kept) == 0
