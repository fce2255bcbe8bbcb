"""Find duplicates and near duplicates by 64-bit keys, without keeping the texts.

Two texts are equal if their keys are (see keys.py). Two pairs are nearly equal by MinHash (Broder 1997) over the words
of both sides: at least two of BANDS groups of ROWS hashes agree with the same earlier pair. This finds nine of ten
pairs that share nine of ten words, and one in ten of those that share six.
"""

from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

BANDS, ROWS = 4, 4
Keys = NDArray[np.uint64]

MULTIPLIERS, ADDENDS = np.random.default_rng(1).integers(1, 2**63, (2, BANDS * ROWS), dtype=np.uint64) | np.uint64(1)
NOTHING = np.uint64(0)
"""The key of a text without letters and digits; it equals no other."""


def band_keys(sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> Keys:
    """Return the (pairs, BANDS) MinHash keys of the tokens of each pair; NOTHING for a pair without tokens."""
    rows = [
        [*map(word_hash, source), *map(word_hash, target), 0] for source, target in zip(sources, targets, strict=True)
    ]
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    words = np.fromiter((number for row in rows for number in row), np.uint64, int(counts.sum()))
    starts = np.cumsum(counts) - counts
    keys = np.zeros((len(rows), BANDS), np.uint64)
    for place, (multiplier, addend) in enumerate(zip(MULTIPLIERS, ADDENDS, strict=True)):
        mixed = (words * multiplier + addend) >> np.uint64(32)
        least = np.minimum.reduceat(mixed, starts)
        keys[:, place // ROWS] = keys[:, place // ROWS] * np.uint64(0x9E3779B97F4A7C15) + least + np.uint64(1)
    keys[counts == 1] = NOTHING
    return keys


@lru_cache(maxsize=1 << 17)
def word_hash(word: str) -> int:
    return crc32(word.encode("utf-8", "replace"))


def first_alike(keys: Keys) -> NDArray[np.int64]:
    """Return for each key the index of the first equal one, which may be its own; NOTHING equals only itself."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    alike = first[inverse]
    nothing = keys == NOTHING
    alike[nothing] = np.flatnonzero(nothing)
    return alike


def near_duplicates(bands: Keys) -> NDArray[np.int64]:
    """Return for each pair the index of a nearly equal earlier pair, or its own."""
    own = np.arange(len(bands))
    leaders = np.stack([first_alike(bands[:, band]) for band in range(BANDS)], 1)
    leaders = np.sort(leaders, 1)
    found = own.copy()
    for band in range(BANDS - 1):
        agrees = (leaders[:, band] == leaders[:, band + 1]) & (leaders[:, band] != own) & (found == own)
        found[agrees] = leaders[agrees, band]
    return found


def find_in(keys: Keys, held: Keys) -> NDArray[np.int64]:
    """Return for each key its index in `held`, or -1 if it is absent or NOTHING."""
    if not len(held):
        return np.full(len(keys), -1)
    order = np.argsort(held, kind="stable")
    place = np.minimum(np.searchsorted(held[order], keys), len(held) - 1)
    found = (held[order][place] == keys) & (keys != NOTHING)
    return np.where(found, order[place], -1)
