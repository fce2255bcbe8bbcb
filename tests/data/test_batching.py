"""Batches: every pair once an epoch, little padding, and an order that can be entered again anywhere."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.data.batching import Batch, Buckets, pair_buckets
from weft.data.sentences import Sentences

PADDING = 0


def pairs(
    count: int,
    *,
    seed: int = 1,
    batch_tokens: int | None = None,
    batch_sentences: int | None = None,
    weights: np.ndarray | None = None,
) -> Buckets[Batch]:
    """As long as the sentences of everyday dialogue are: log-normal, and a long source has a long target."""
    random = np.random.default_rng(seed)
    source_lengths = np.clip(random.lognormal(2.3, 0.5, count), 2, 120).astype(int)
    target_lengths = np.clip(source_lengths * random.lognormal(0.1, 0.25, count), 2, 120).astype(int)
    # Every sentence's ids are its own number, so that a batch tells which pairs it holds.
    sources = [[number + 1] * int(length) for number, length in enumerate(source_lengths)]
    targets = [[number + 1] * int(length) for number, length in enumerate(target_lengths)]
    return pair_buckets(
        Sentences(sources),
        Sentences(targets),
        seed=seed,
        batch_tokens=batch_tokens,
        batch_sentences=batch_sentences,
        weights=weights,
    )


def numbers(batch: Batch) -> list[int]:
    return batch.source[:, 0].tolist()


def same(left: Iterable[Batch], right: Iterable[Batch]) -> bool:
    pairs = zip(left, right, strict=True)
    return all(torch.equal(a.source, b.source) and torch.equal(a.target, b.target) for a, b in pairs)


@pytest.mark.parametrize("size", [{"batch_tokens": 512}, {"batch_sentences": 32}], ids=str)
def test_every_pair_comes_exactly_once_an_epoch_with_its_translation(size: dict[str, Any]) -> None:
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
def test_only_a_pair_that_is_too_long_by_itself_goes_over_batch_tokens(
    lengths: list[tuple[int, int]], batch_tokens: int
) -> None:
    sources, targets = ([[1] * length for length in side] for side in zip(*lengths, strict=True))
    batches = pair_buckets(Sentences(sources), Sentences(targets), seed=1, batch_tokens=batch_tokens)
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


@pytest.mark.parametrize(
    "settings",
    [{"batch_tokens": 400}, {"batch_sentences": 16}, {"batch_tokens": 400, "weights": np.array([0.5, 1.5] * 150)}],
    ids=["tokens", "sentences", "weights"],
)
def test_an_epoch_entered_at_batch_k_is_the_tail_of_the_whole_one(settings: dict[str, Any]) -> None:
    batches = pairs(300, **settings)
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
    first = list(batches.in_order())
    list(batches.epoch(3))
    assert first and same(first, batches.in_order()) and same(first, pairs(100, batch_tokens=400).in_order())


def test_padding_is_rare_where_lengths_are_as_in_dialogue() -> None:
    batches = pairs(20_000, batch_tokens=4096)
    at_random = 1 - (len(batches.columns[0].ids) + len(batches.columns[1].ids)) / padded_tokens_at_random(batches, 250)
    assert batches.padding_share() < 0.15 < 0.5 < at_random


def padded_tokens_at_random(batches: Buckets[Batch], size: int) -> int:
    """Tokens with padding where the same pairs stand in batches as they come."""
    indices = np.arange(len(batches))
    return sum(
        len(chunk) * int(side.lengths[chunk].max())
        for chunk in np.array_split(indices, len(indices) // size)
        for side in (batches.columns[0], batches.columns[1])
    )


def test_padding_share_is_what_is_found_by_counting() -> None:
    batches = pairs(200, batch_tokens=512)
    tensors = [side for batch in batches.epoch(0) for side in (batch.source, batch.target)]
    padding = sum(int((tensor == PADDING).sum()) for tensor in tensors)
    assert batches.padding_share() == pytest.approx(padding / sum(tensor.numel() for tensor in tensors))
    counted = np.array([batch.padding() for batch in batches.epoch(0)]).sum(0)
    assert counted.tolist() == [padding, sum(tensor.numel() for tensor in tensors)]


def test_padding_of_billions_of_tokens_is_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = pairs(200, batch_tokens=512)
    share = batches.padding_share()
    order = batches.order(0)
    monkeypatch.setattr(batches.columns[0], "lengths", batches.columns[0].lengths * np.int32(1_000_000))
    monkeypatch.setattr(batches.columns[1], "lengths", batches.columns[1].lengths * np.int32(1_000_000))
    monkeypatch.setattr(type(batches), "order", lambda self, epoch: order)
    assert batches.padding_share() == pytest.approx(share)


def test_rows_are_filled_up_at_their_end() -> None:
    sentences = Sentences([[5, 6, 7], [8], [9, 9]])
    assert sentences.padded(np.array([1, 0])).tolist() == [[8, 0, 0], [5, 6, 7]]


@given(st.data())
def test_padding_all_rows_at_once_is_padding_one_after_the_other(data: st.DataObject) -> None:
    lists = st.lists(st.integers(1, 99), max_size=9)
    sentences = data.draw(st.lists(lists, min_size=1, max_size=9))
    indices = data.draw(st.lists(st.integers(0, len(sentences) - 1), min_size=1, max_size=9))
    longest = max(len(sentences[index]) for index in indices)
    expected = [sentences[index] + [PADDING] * (longest - len(sentences[index])) for index in indices]
    assert Sentences(sentences).padded(np.array(indices)).tolist() == expected


@given(st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=8), max_size=8))
def test_sentences_give_back_what_was_put_in(sentences: list[list[int]]) -> None:
    stored = Sentences(sentences)
    assert [stored[index].tolist() for index in range(len(stored))] == sentences


# Weights


def counts(batches: Buckets[Batch], epoch: int) -> np.ndarray:
    """How often each pair comes in an epoch."""
    return np.bincount(np.concatenate(batches.order(epoch)), minlength=len(batches))


def test_whole_weights_are_how_often_a_pair_comes_in_every_epoch() -> None:
    weights = np.array([1.0, 2.0, 3.0] * 100)
    batches = pairs(300, weights=weights, batch_tokens=512)
    for epoch in range(3):
        assert counts(batches, epoch).tolist() == weights.tolist()
    assert batches.rows_per_epoch() == 600


def test_half_of_a_corpus_comes_in_an_epoch_and_other_pairs_in_the_next() -> None:
    weights = np.array([1.0] * 200 + [0.5] * 400 + [2.25] * 100)
    batches = pairs(700, weights=weights, batch_tokens=512)
    epochs = [counts(batches, epoch) for epoch in range(200)]
    for found in epochs:
        assert found.sum() == batches.rows_per_epoch() == 200 + 200 + 225
        assert set(found[:200]) == {1} and set(found[200:600]) == {0, 1} and set(found[600:]) == {2, 3}
    assert len({tuple(found) for found in epochs}) == 200
    # 200 epochs of a fair coin have a mean of 0.5 and a standard deviation of 0.035 (0.031 for a fair quarter).
    assert np.abs(np.mean(epochs, axis=0) - weights).max() < 5 * 0.035


def test_what_is_drawn_is_short_and_long_as_the_corpus_is() -> None:
    batches = pairs(2000, weights=np.full(2000, 0.1), batch_tokens=512)
    for epoch in range(20):
        drawn = np.concatenate(batches.order(epoch))
        quantiles = [np.quantile(lengths, [0.1, 0.5, 0.9]) for lengths in (longer(batches), longer(batches)[drawn])]
        assert np.abs(quantiles[0] - quantiles[1]).max() <= 1


def longer(batches: Buckets[Batch]) -> np.ndarray:
    return np.maximum(batches.columns[0].lengths, batches.columns[1].lengths)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40), st.floats(0.01, 3)), min_size=1, max_size=40),
    st.integers(16, 128),
    st.integers(0, 1000),
)
def test_whatever_the_weights_every_epoch_has_as_many_batches_and_none_is_too_large(
    rows: list[tuple[int, int, float]], batch_tokens: int, epoch: int
) -> None:
    sources, targets = [[1] * source for source, _, _ in rows], [[1] * target for _, target, _ in rows]
    weights = np.array([weight for _, _, weight in rows])
    batches = pair_buckets(Sentences(sources), Sentences(targets), seed=1, batch_tokens=batch_tokens, weights=weights)
    assert batches.rows_per_epoch() == np.floor(weights).sum() + round((weights - np.floor(weights)).sum())
    if not batches.rows_per_epoch():
        return
    order = batches.order(epoch)
    assert len(order) == batches.steps_per_epoch()
    assert all(len(pairs) == 1 or len(pairs) * longer(batches)[pairs].max() <= batch_tokens for pairs in order)


def test_a_sum_of_weights_that_lies_between_two_counts_gives_one_count_in_all_epochs() -> None:
    # 17 * 0.1 + 36 * 0.3 = 12.5, which a running sum rounds up or down by the order of the pairs
    pairs = 53
    batches = pair_buckets(
        sources=Sentences([[4] * (1 + i % 7) for i in range(pairs)]),
        targets=Sentences([[4] * (1 + i % 5) for i in range(pairs)]),
        seed=1,
        batch_sentences=12,
        weights=np.array([0.1] * 17 + [0.3] * 36),
    )
    sizes = {sum(map(len, batches.order(epoch))) for epoch in range(300)}
    assert sizes == {batches.rows_per_epoch()}


def test_parts_joined_are_the_whole() -> None:
    sentences = [[5, 6, 7], [], [8], [9, 4]]
    whole, joined = (
        Sentences(sentences),
        Sentences.joined([Sentences(sentences[:1]), Sentences([]), Sentences(sentences[1:])]),
    )
    assert [joined[i].tolist() for i in range(4)] == [whole[i].tolist() for i in range(4)] == sentences
    assert joined.ids.dtype == whole.ids.dtype
    assert len(Sentences.joined([])) == 0


def test_a_batch_knows_which_pairs_it_holds() -> None:
    for batch in pairs(100, batch_tokens=256).epoch(2):
        assert batch.pairs is not None and (batch.pairs + 1).tolist() == numbers(batch)
        assert batch.to(torch.device("cpu")).pairs is batch.pairs


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 8, 1000])
def test_the_parts_of_a_batch_are_its_rows_in_order(parts: int) -> None:
    batch = next(pairs(100, batch_sentences=7).epoch(0))
    chunks = batch.chunk(parts)
    assert len(chunks) <= parts and [len(chunk.source) for chunk in chunks] == [
        len(rows) for rows in torch.arange(7).chunk(parts)
    ]
    assert torch.equal(torch.cat([chunk.source for chunk in chunks]), batch.source)
    assert torch.equal(torch.cat([chunk.target for chunk in chunks]), batch.target)


def test_the_digest_tells_other_ids_and_other_batches_apart_and_nothing_else() -> None:
    same_digest = {pairs(100, batch_tokens=256).sha256(), replace(pairs(100, batch_tokens=256), seed=9).sha256()}
    others = [
        pairs(99, batch_tokens=256),
        pairs(100, batch_tokens=250),
        pairs(100, batch_sentences=10),
        pairs(100, seed=2, batch_tokens=256),  # other lengths
        replace(pairs(100, batch_tokens=256), columns=(pairs(100).columns[1],) * 2),
    ]
    assert len({*same_digest, *(batches.sha256() for batches in others)}) == 1 + len(others)


@pytest.mark.parametrize("processes", [2, 3, 8])
def test_the_rows_of_all_processes_together_are_the_batch(processes: int) -> None:
    whole = pairs(100, batch_sentences=7)  # the last batch has two rows
    shares = [replace(whole, part=(process, processes)).epoch(3) for process in range(processes)]
    for batch, *others in zip(whole.epoch(3), *shares, strict=True):
        for process, other in enumerate(others):
            rows = slice(process, None, processes)
            if process < len(batch.source):
                assert numbers(other) == numbers(batch)[rows]
                assert other.pairs is not None and batch.pairs is not None
                assert other.pairs.tolist() == batch.pairs[rows].tolist()
        assert sum(len(other.pairs) for other in others if other.pairs is not None) == len(batch.source)


def test_a_process_without_a_row_takes_part_with_one_that_has_no_token_to_predict() -> None:
    whole = pairs(1, batch_sentences=7)
    (batch,) = replace(whole, part=(1, 2)).epoch(0)
    assert len(batch.source) == len(batch.target) == 1 and batch.pairs is None
    assert (batch.source != PADDING).any() and batch.target[0, 0] != PADDING
    assert (batch.target[:, 1:] == PADDING).all()


def test_a_batch_is_filled_up_to_a_round_shape() -> None:
    batch = Batch(torch.ones(20, 7, dtype=torch.long), torch.ones(20, 9, dtype=torch.long))
    filled = batch.filled_up()
    assert [tuple(side.shape) for side in filled.tensors()] == [(32, 8), (32, 9)]  # the target is read without one
    assert filled.tokens == 20 * 8
    for side, whole in zip(batch.tensors(), filled.tensors(), strict=True):
        assert torch.equal(whole[: len(side), : side.size(1)], side)
        assert int((whole != PADDING).sum()) == side.numel()


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8, 16])
def test_parts_of_a_batch_of_few_rows_are_not_filled_up_to_the_batch(rows: int) -> None:
    batch = Batch(torch.ones(rows, 500, dtype=torch.long), torch.ones(rows, 500, dtype=torch.long))
    for parts in (1, 2, 4, 16):
        assert max(len(part.filled_up().source) for part in batch.chunk(parts)) <= 2 * -(-rows // parts) - 1


def test_a_batch_is_not_filled_up_beyond_the_positions_that_a_model_has_learned() -> None:
    batch = Batch(torch.ones(1, 50, dtype=torch.long), torch.ones(1, 51, dtype=torch.long))
    assert [side.size(1) for side in batch.filled_up(longest=50).tensors()] == [50, 51]
