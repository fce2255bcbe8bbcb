"""Noise: as much as the recipe says, the same for a pair in an epoch wherever it stands, another one in the next."""

from collections import Counter
from random import Random
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from weft.config import FieldProblems
from weft.data.augmentation import (
    AugmentationConfig,
    PairNoise,
    join,
    moved,
    other_casing,
    other_punctuation,
    uniform,
    with_changes,
    with_joined_pairs,
)
from weft.data.batching import Batch, pair_buckets
from weft.data.encoding import EncodedPairs, pairs_of_ids, tag_ids
from weft.text.characters import CharacterTokenizer, train_characters
from weft.text.kinds import train_tokenizer
from weft.text.tokenizer import Tokenizer
from weft.text.vocabulary import END_ID, MASK, PADDING_ID, UNKNOWN_ID

TEXTS = [f"A small cat no {number} sleeps here." for number in range(40)] + ["Hm."]
PAIRS = np.arange(len(TEXTS))


@pytest.fixture(scope="module")
def tokenizer() -> CharacterTokenizer:
    return train_characters(TEXTS, vocab_size=400, language="en", tags=["<bt>", MASK])[0]


@pytest.fixture(scope="module")
def pairs(tokenizer: CharacterTokenizer) -> EncodedPairs:
    (tag,) = tag_ids(tokenizer, "<bt>")
    ids = tokenizer.encode(TEXTS)
    before = [[tag] if number % 2 else [] for number in range(len(TEXTS))]
    return pairs_of_ids(ids, ids, before, max_length=None)


def noise(pairs: EncodedPairs, tokenizer: Tokenizer, seed: int = 1, **settings: Any) -> PairNoise:
    (tag,) = tag_ids(tokenizer, "<bt>")
    config = AugmentationConfig(**settings)
    return PairNoise(config, seed, pairs.sources, pairs.targets, tokenizer, tokenizer, frozenset([tag]))


def noisy_sources(make: PairNoise, epoch: int = 0, pairs: np.ndarray = PAIRS) -> dict[int, list[int]]:
    sources, targets = make(epoch, pairs)
    assert not targets
    return sources


ALL: dict[str, Any] = {"token_dropout": 0.5, "word_order": 0.5, "casing": 0.5, "punctuation": 0.5}


# Draws


def test_draws_are_uniform_and_differ_by_seed_number_epoch_and_pair() -> None:
    base = uniform(1, 0, 0, np.arange(100_000))
    assert base.min() >= 0 and base.max() < 1
    assert np.histogram(base, 10, (0, 1))[0].tolist() == pytest.approx([10_000] * 10, rel=0.05)
    for other in (
        uniform(2, 0, 0, PAIRS),
        uniform(1, 1, 0, PAIRS),
        uniform(1, 0, 1, PAIRS),
        uniform(1, 0, 0, PAIRS + 1),
        uniform(0, 1, 0, PAIRS),
    ):
        assert not np.intersect1d(base[: len(PAIRS)], other).size or other[0] == base[1]
    assert abs(np.corrcoef(base, uniform(1, 0, 1, np.arange(100_000)))[0, 1]) < 0.01


def test_noise_is_a_function_of_seed_epoch_and_pair(pairs: EncodedPairs, tokenizer: CharacterTokenizer) -> None:
    make = noise(pairs, tokenizer, **ALL)
    whole = noisy_sources(make, 3)
    assert 20 < len(whole) < len(TEXTS)
    shuffled = np.random.default_rng(0).permutation(PAIRS)
    again = noisy_sources(make, 3, shuffled)
    assert {int(shuffled[place]): ids for place, ids in again.items()} == whole
    alone = {pair: ids[0] for pair in PAIRS.tolist() if (ids := noisy_sources(make, 3, np.array([pair])))}
    assert alone == whole
    assert noisy_sources(make, 4) != whole
    assert noisy_sources(noise(pairs, tokenizer, seed=2, **ALL), 3) != whole


def test_a_key_of_a_noise_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValidationError) as caught:
        AugmentationConfig(token_dropout_by="mask", token_dropout_positions=2, word_order_distance=5, casing=0.1)
    found = caught.value.errors()[0]["ctx"]["error"]  # type: ignore[typeddict-item]
    assert isinstance(found, FieldProblems)
    assert {problem.field: problem.what for problem in found.problems} == {
        "token_dropout_by": "is only used with token_dropout, a share of the sentences",
        "token_dropout_positions": "is only used with token_dropout, a share of the sentences",
        "word_order_distance": "is only used with word_order, a share of the sentences",
    }
    AugmentationConfig(token_dropout=0.1, token_dropout_by="mask", word_order=0.1, word_order_distance=5)
    AugmentationConfig(token_dropout=0, token_dropout_by="mask")  # as --set switches off what a recipe has


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_as_many_sentences_change_as_the_share_says(
    pairs: EncodedPairs, tokenizer: CharacterTokenizer, share: float
) -> None:
    make = noise(pairs, tokenizer, token_dropout=share, **({"token_dropout_min_length": 1} if share else {}))
    assert sum(len(noisy_sources(make, epoch)) for epoch in range(50)) / (50 * len(PAIRS)) == pytest.approx(
        share, abs=0.03
    )


# Kinds of noise


@pytest.mark.parametrize("positions", [1, 3, 1000])
@pytest.mark.parametrize("by", ["pad", "mask", "delete"])
def test_lost_tokens_are_padding_or_the_mask_or_gone(
    pairs: EncodedPairs, tokenizer: CharacterTokenizer, by: str, positions: int
) -> None:
    settings: dict[str, Any] = {"token_dropout_by": by, "token_dropout_positions": positions}
    found = noisy_sources(noise(pairs, tokenizer, token_dropout=1.0, **settings))
    (mask,) = tag_ids(tokenizer, MASK)
    instead = mask if by == "mask" else PADDING_ID
    assert len(found) == len(pairs.sources)
    for pair, ids in found.items():
        before = pairs.sources[pair].tolist()
        if pair == 40:  # "Hm." is too short
            assert ids == before
            continue
        tags = pair % 2
        lost = min(positions, len(before) - tags - 2)
        assert ids[:tags] == before[:tags] and ids[-1] == END_ID
        if by == "delete":
            assert len(ids) == len(before) - lost
            rest = iter(before)
            assert all(token in rest for token in ids)  # in the same order
        else:
            assert [token for token in ids if token != instead] == [
                token for token, other in zip(before, ids, strict=True) if other != instead
            ]
            assert ids.count(instead) == lost


@given(st.lists(st.integers(), max_size=30), st.integers(1, 5), st.integers())
def test_tokens_move_no_farther_than_the_distance(ids: list[int], distance: int, seed: int) -> None:
    numbered = moved(list(range(len(ids))), distance, Random(seed))
    assert sorted(numbered) == list(range(len(ids)))
    assert all(abs(place - token) <= distance for place, token in enumerate(numbered))


def test_tokens_do_move_farther_than_one_place_where_they_may() -> None:
    moves = [abs(p - t) for seed in range(50) for p, t in enumerate(moved(list(range(30)), 5, Random(seed)))]
    assert max(moves) > 1


def test_word_order_changes_the_order_and_nothing_else(pairs: EncodedPairs, tokenizer: CharacterTokenizer) -> None:
    found = noisy_sources(noise(pairs, tokenizer, word_order=1.0))
    assert sum(ids != pairs.sources[pair].tolist() for pair, ids in found.items()) > 35
    for pair, ids in found.items():
        assert Counter(ids) == Counter(pairs.sources[pair].tolist()) and ids[-1] == END_ID


def test_casing_is_all_small_or_all_capital(pairs: EncodedPairs, tokenizer: CharacterTokenizer) -> None:
    found = noisy_sources(noise(pairs, tokenizer, casing=1.0))
    texts = [tokenizer.decode([ids])[0] for ids in found.values()]
    assert all(text in (whole.lower(), whole.upper()) for text, whole in zip(texts, TEXTS, strict=True))
    assert {text.islower() for text in texts} == {True, False}
    assert {other_casing("他用Python。", Random(seed)) for seed in range(20)} == {"他用python。", "他用PYTHON。"}


def test_punctuation_goes_or_takes_the_other_width() -> None:
    assert {other_punctuation("好，走吧！", Random(seed)) for seed in range(20)} == {"好，走吧", "好,走吧!"}
    assert {other_punctuation("Well, go.", Random(seed)) for seed in range(20)} == {"Well, go", "Well， go。"}


def test_a_sentence_of_nothing_but_punctuation_stays(tokenizer: CharacterTokenizer) -> None:
    dots = pairs_of_ids(tokenizer.encode(["..."]), tokenizer.encode(["x"]), [[]], max_length=None)
    for epoch in range(10):
        (ids,) = noisy_sources(noise(dots, tokenizer, punctuation=1.0), epoch, np.array([0])).values()
        assert len(ids) > 1


@pytest.mark.parametrize(("kind", "amount"), [("bpe", 0.3), ("unigram", 0.2)])
def test_sampled_pieces_are_other_pieces_of_the_same_text(kind: Literal["bpe", "unigram"], amount: float) -> None:
    tokenizer, _ = train_tokenizer(TEXTS, kind=kind, vocab_size=330, language="en", tags=["<bt>"])
    (tag,) = tag_ids(tokenizer, "<bt>")
    ids = tokenizer.encode(TEXTS)
    pairs = pairs_of_ids(ids, ids, [[tag]] * len(TEXTS), max_length=None)
    make = noise(pairs, tokenizer, subword_sampling=amount)
    (sources, targets), (again, _) = make(0, PAIRS), make(1, PAIRS)
    assert tokenizer.decode(list(sources.values())) == tokenizer.decode(list(targets.values())) == TEXTS
    assert {ids[0] for ids in sources.values()} == {tag}
    assert sum(ids != pairs.sources[pair].tolist() for pair, ids in sources.items()) > 20
    assert sources != again
    both = noise(pairs, tokenizer, subword_sampling=amount, token_dropout=1.0)(0, PAIRS)
    assert both[1] == targets
    assert all(sum(a != b for a, b in zip(both[0][i], sources[i], strict=True)) == (i != 40) for i in sources)


# In batches


def rows_by_pair(batches: list[Batch]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for batch in batches:
        assert batch.pairs is not None
        found |= dict(zip(batch.pairs.tolist(), batch.source.tolist(), strict=True))
    return found


def test_only_sources_of_training_batches_are_noisy_and_each_epoch_anew(
    pairs: EncodedPairs, tokenizer: CharacterTokenizer
) -> None:
    settings: dict[str, Any] = {"seed": 1, "batch_sentences": 8}
    plain = pair_buckets(pairs.sources, pairs.targets, **settings)
    noisy = pair_buckets(pairs.sources, pairs.targets, **settings, noise=noise(pairs, tokenizer, **ALL))
    epochs = [list(noisy.epoch(epoch)) for epoch in (0, 0, 1)]
    for mine, again, clear in zip(epochs[0], epochs[1], plain.epoch(0), strict=True):
        assert mine.source.equal(again.source)
        assert mine.target.equal(clear.target)
    assert any(not mine.source.equal(clear.source) for mine, clear in zip(epochs[0], plain.epoch(0), strict=True))
    of_pair = [rows_by_pair(epoch) for epoch in epochs]
    assert of_pair[0] == of_pair[1] != of_pair[2]


def test_a_batch_is_as_wide_as_its_longest_changed_row() -> None:
    rows = np.array([[5, 6, 3], [7, 3, 0]])
    assert with_changes(rows, {}).tolist() == rows.tolist()
    assert with_changes(rows, {0: [9, 3]}).tolist() == [[9, 3, 0], [7, 3, 0]]
    assert with_changes(rows, {1: [9, 9, 9, 3]}).tolist() == [[5, 6, 3, 0], [9, 9, 9, 3]]


# Joined pairs


def test_joined_pairs_are_two_neighbors_of_one_corpus(tokenizer: CharacterTokenizer) -> None:
    (tag,) = tag_ids(tokenizer, "<bt>")
    sources, targets = ["a b", "c", "d", "e" * 50, "f"], ["A.", "B.", "C.", "D.", "E."]
    encoded = pairs_of_ids(tokenizer.encode(sources), tokenizer.encode(targets), [[tag]] * 3 + [[]] * 2, max_length=9)
    assert encoded.kept.tolist() == [0, 1, 2, 4]
    settings: dict[str, Any] = {"share": 1.0, "seed": 1, "max_length": 9, "tags": frozenset([tag])}
    tokenizers = (tokenizer, tokenizer)
    found = with_joined_pairs(encoded, tokenizers, ("en", "zh"), parts=[2, 3], **settings)
    assert found.kept.tolist() == [0, 1, 2, 4, 0]  # 1 and 2 are of two corpora, and between 2 and 4 one is missing
    assert found.sources[4].tolist() == [tag, *tokenizer.encode(["a b c"])[0], END_ID]
    assert tokenizer.decode([found.targets[4].tolist()]) == ["A.B."]
    assert with_joined_pairs(
        encoded, tokenizers, ("en", "en"), parts=[2, 3], **{**settings, "max_length": 4}
    ).kept.tolist() == [0, 1, 2, 4]


def test_sentences_of_chinese_and_japanese_are_joined_without_a_space(tokenizer: CharacterTokenizer) -> None:
    first, second = tokenizer.encode(["a.", "c."])
    joined = [join(first, second, tokenizer, code, frozenset()) for code in ("zh", "ja", "en")]
    assert tokenizer.decode(joined) == ["a.c.", "a.c.", "a. c."]


@pytest.mark.parametrize("form", ["nfc", "nfkc"])
@pytest.mark.parametrize("kind", ["words", "wordpiece"])
def test_unknown_words_stay_unknown_where_pairs_are_joined(
    kind: Literal["words", "wordpiece"], form: Literal["nfc", "nfkc"]
) -> None:
    texts = ["the cat sat on the mat .", "is it here ?"] * 20
    tokenizer, _ = train_tokenizer(texts, kind=kind, vocab_size=60, language="en", normalization=form)
    first, second = tokenizer.encode(["the Ω sat .", "is Ω here ?"])
    assert first.count(UNKNOWN_ID) == second.count(UNKNOWN_ID) == 1
    assert join(first, second, tokenizer, "en", frozenset()) == first + second


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (0.5, 20), (1.0, 40)])
def test_as_many_pairs_come_joined_too_as_the_share_says(
    pairs: EncodedPairs, tokenizer: CharacterTokenizer, share: float, expected: int
) -> None:
    found = with_joined_pairs(
        pairs, (tokenizer, tokenizer), ("en", "en"), share=share, seed=1, max_length=None, parts=[41], tags=frozenset()
    )
    assert len(found.kept) - len(pairs.kept) == pytest.approx(expected, abs=8 if share == 0.5 else 0)
    assert found.sources[0].tolist() == pairs.sources[0].tolist()
