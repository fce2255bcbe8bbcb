"""The cache of keys and values is a concatenation that does not copy itself at every step."""

import torch

from weft.layers.cache import KeyValueCache


def position(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, 2, 1, 3), torch.randn(rows, 2, 1, 3)


def test_appending_is_concatenation_beyond_any_chunk_also_of_rows_swapped_repeated_and_dropped():
    cache = KeyValueCache()
    expected: list[torch.Tensor] = [torch.empty(4, 2, 0, 3), torch.empty(4, 2, 0, 3)]
    orders = {3: [1, 0, 3, 2], 10: [0, 0, 0, 3], cache.chunk: [2, 3], cache.chunk + 5: [1]}
    for step in range(2 * cache.chunk + 2):
        new = position(expected[0].size(0))
        expected = [torch.cat(pair, dim=2) for pair in zip(expected, new, strict=True)]
        kept = cache.append(*new)
        assert torch.equal(kept[0], expected[0]) and torch.equal(kept[1], expected[1])
        if step in orders:
            rows = torch.tensor(orders[step])
            cache.reorder(rows)
            expected = [x[rows] for x in expected]


def test_all_rows_may_leave():
    cache = KeyValueCache()
    cache.append(*position(2))
    cache.reorder(torch.empty(0, dtype=torch.long))
    keys, _ = cache.append(*position(0))
    assert keys.shape == (0, 2, 2, 3)


def test_an_empty_cache_can_be_reordered():
    cache = KeyValueCache()
    cache.reorder(torch.tensor([1, 0]))
    assert cache.length == 0
