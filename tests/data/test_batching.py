"""Batches: every pair once an epoch, little padding, and an order that can be entered again anywhere."""

from collections.abc import Iterable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data.batching import Batch, PairBatches, Sentences

PADDING = 0


def pairs(count: int, *, seed: int = 1, **size: int) -> PairBatches:
    """As long as the sentences of everyday dialogue are: log-normal, and a long source has a long target."""
    random = np.random.default_rng(seed)
    source_lengths = np.clip(random.lognormal(2.3, 0.5, count), 2, 120).astype(int)
    target_lengths = np.clip(source_lengths * random.lognormal(0.1, 0.25, count), 2, 120).astype(int)
    # Every sentence's ids are its own number, so that a batch tells which pairs it holds.
    sources = [[number + 1] * int(length) for number, length in enumerate(source_lengths)]
    targets = [[number + 1] * int(length) for number, length in enumerate(target_lengths)]
    return PairBatches(Sentences(sources), Sentences(targets), PADDING, seed, **size)


def numbers(batch: Batch) -> list[int]:
    return batch.source[:, 0].tolist()


def same(left: Iterable[Batch], right: Iterable[Batch]) -> bool:
    pairs = zip(left, right, strict=True)
    return all(torch.equal(a.source, b.source) and torch.equal(a.target, b.target) for a, b in pairs)


@pytest.mark.parametrize("size", [{"batch_tokens": 512}, {"batch_sentences": 32}], ids=str)
def test_every_pair_comes_exactly_once_an_epoch_with_its_translation(size: dict[str, int]) -> None:
    batches = pairs(500, **size)
    for epoch in (0, 1, 7):
        seen = [number for batch in batches.epoch(epoch) for number in numbers(batch)]
        assert sorted(seen) == list(range(1, 501))
    for batch in batches.epoch(0):
        assert batch.source[:, 0].tolist() == batch.target[:, 0].tolist()


def test_neither_side_of_a_batch_holds_more_than_batch_tokens_padding_counted() -> None:
    batches = pairs(2000, batch_tokens=512)
    assert all(max(batch.source.numel(), batch.target.numel()) <= 512 for batch in batches.epoch(3))


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=60), st.integers(16, 128))
@settings(deadline=None)
def test_only_a_pair_that_is_too_long_by_itself_goes_over_batch_tokens(
    lengths: list[tuple[int, int]], batch_tokens: int
) -> None:
    sources, targets = ([[1] * length for length in side] for side in zip(*lengths, strict=True))
    batches = PairBatches(Sentences(sources), Sentences(targets), PADDING, 1, batch_tokens=batch_tokens)
    found = list(batches.epoch(0))
    for batch in found:
        assert len(batch.source) == 1 or max(batch.source.numel(), batch.target.numel()) <= batch_tokens
    assert sum(len(batch.source) for batch in found) == len(lengths)


def test_batch_sentences_counts_pairs_and_one_batch_holds_the_rest() -> None:
    sizes = sorted(len(batch.source) for batch in pairs(100, batch_sentences=32).epoch(0))
    assert sizes == [4, 32, 32, 32]


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    first, again, other = (pairs(300, seed=seed, batch_tokens=400) for seed in (1, 1, 2))
    assert same(first.epoch(4), again.epoch(4))
    orders = [[numbers(batch) for batch in batches.epoch(epoch)] for batches in (first, other) for epoch in (4, 5)]
    assert all(left != right for place, left in enumerate(orders) for right in orders[:place])


def test_pairs_meet_other_pairs_in_the_next_epoch() -> None:
    batches = pairs(20_000, batch_tokens=1024)
    companies = [{frozenset(numbers(batch)) for batch in batches.epoch(epoch)} for epoch in (0, 1)]
    assert len(companies[0] & companies[1]) < len(companies[0]) / 10


@pytest.mark.parametrize("size", [{"batch_tokens": 400}, {"batch_sentences": 16}], ids=str)
def test_an_epoch_entered_at_batch_k_is_the_tail_of_the_whole_one(size: dict[str, int]) -> None:
    batches = pairs(300, **size)
    whole = list(batches.epoch(2))
    for start in (0, 1, len(whole) // 2, len(whole) - 1, len(whole)):
        tail = list(batches.epoch(2, start))
        assert len(tail) == len(whole) - start
        assert same(tail, whole[start:])


def test_every_epoch_has_the_same_number_of_steps() -> None:
    batches = pairs(777, batch_tokens=512)
    assert {len(list(batches.epoch(epoch))) for epoch in range(6)} == {batches.steps_per_epoch()}


def test_the_order_for_validation_never_changes() -> None:
    batches = pairs(100, batch_tokens=400)
    assert same(batches.in_order(), batches.in_order())


def test_padding_is_rare_where_lengths_are_as_in_dialogue() -> None:
    batches = pairs(20_000, batch_tokens=4096)
    at_random = 1 - (len(batches.sources.ids) + len(batches.targets.ids)) / padded_tokens_at_random(batches, 250)
    assert batches.padding_share() < 0.18 < 0.5 < at_random


def padded_tokens_at_random(batches: PairBatches, size: int) -> int:
    """Tokens with padding where the same pairs stand in batches as they come."""
    indices = np.arange(len(batches.sources))
    return sum(
        len(chunk) * int(side.lengths[chunk].max())
        for chunk in np.array_split(indices, len(indices) // size)
        for side in (batches.sources, batches.targets)
    )


def test_padding_share_is_what_is_found_by_counting() -> None:
    batches = pairs(200, batch_tokens=512)
    tensors = [side for batch in batches.epoch(0) for side in (batch.source, batch.target)]
    padding = sum(int((tensor == PADDING).sum()) for tensor in tensors)
    assert batches.padding_share() == pytest.approx(padding / sum(tensor.numel() for tensor in tensors))


def test_rows_are_filled_up_at_their_end() -> None:
    sentences = Sentences([[5, 6, 7], [8], [9, 9]])
    assert sentences.padded(np.array([1, 0]), PADDING).tolist() == [[8, 0, 0], [5, 6, 7]]


@given(st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=8), max_size=8))
def test_sentences_give_back_what_was_put_in(sentences: list[list[int]]) -> None:
    stored = Sentences(sentences)
    assert [stored[index].tolist() for index in range(len(stored))] == sentences
