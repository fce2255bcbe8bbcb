"""A small translation lexicon, learned from the corpus itself, and how well it explains a pair.

IBM Model 1 (Brown et al. 1993, section 4.1) in numpy: word translation probabilities from co-occurrence in pairs.
Chinese is tokenized into characters (`measures.tokens`). The contribution of a single pair is subtracted, because the
lexicon judges the pairs that it was learned from.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

FEWEST = 4
"""Least number of texts with a word; rarer words are unknown."""
MOST_TOKENS = 100
"""Tokens of a text beyond these are ignored."""
ITERATIONS = 5
CELLS_AT_ONCE = 2_000_000
"""Pairs of a source word and a target word that are looked up together: some 100 MB."""
ONE_PAIR = 1.0
"""The most that one pair adds to an expected count, subtracted from all counts; otherwise pairs explain themselves."""
SMALLEST = 1e-4
"""Translation probabilities below this are dropped after learning."""
UNEXPLAINED = 0.02
"""Share of its own frequency that a word keeps if nothing on the other side explains it."""


@dataclass(frozen=True)
class Side:
    """The known words of one side: their numbers and relative frequencies."""

    numbers: dict[str, int]
    frequency: NDArray[np.float32]

    def encode(self, texts: Sequence[Sequence[str]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of all known words of the texts, concatenated, and their count in each text."""
        numbers = self.numbers
        rows = [[numbers[token] for token in text[:MOST_TOKENS] if token in numbers] for text in texts]
        counts = np.fromiter(map(len, rows), np.int64, len(rows))
        return np.fromiter((number for row in rows for number in row), np.int64, int(counts.sum())), counts


@dataclass(frozen=True)
class Lexicon:
    """Probabilities t(target word | source word) and t(source word | target word).

    They are indexed by sorted keys: source number * number of target words + target number.
    """

    source: Side
    target: Side
    keys: NDArray[np.int64]
    forward: NDArray[np.float32]
    backward: NDArray[np.float32]

    def explain(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> "Explanation":
        """Return how well each side of each pair, given as tokens, is explained by the other."""
        source, source_counts = self.source.encode(sources)
        target, target_counts = self.target.encode(targets)
        of_source, of_target = np.zeros(len(source)), np.zeros(len(target))
        source_ends, target_ends = np.cumsum(source_counts), np.cumsum(target_counts)
        for first, last in in_batches(source_counts * target_counts):
            in_source = slice(source_ends[first] - source_counts[first], source_ends[last])
            in_target = slice(target_ends[first] - target_counts[first], target_ends[last])
            rows = slice(first, last + 1)
            of_source[in_source], of_target[in_target] = self._explain(
                source[in_source], source_counts[rows], target[in_target], target_counts[rows]
            )
        return Explanation(
            evidence(of_source, self.source.frequency[source]),
            source_counts,
            evidence(of_target, self.target.frequency[target]),
            target_counts,
        )

    def _explain(
        self,
        source: NDArray[np.int64],
        source_counts: NDArray[np.int64],
        target: NDArray[np.int64],
        target_counts: NDArray[np.int64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return P(word | words of the other side) for every word of the sources and of the targets."""
        cells = Cells.of(source_counts, target_counts)
        key = source[cells.source] * len(self.target.frequency) + target[cells.target]
        place = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        known = self.keys[place] == key
        forward = np.bincount(cells.target, np.where(known, self.forward[place], 0), len(target))
        backward = np.bincount(cells.source, np.where(known, self.backward[place], 0), len(source))
        return (
            backward / np.maximum(np.repeat(target_counts, source_counts), 1),
            forward / np.maximum(np.repeat(source_counts, target_counts), 1),
        )


def in_batches(cells: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield the first and last pair of batches of at most about CELLS_AT_ONCE cells."""
    before = np.cumsum(cells) - cells
    edges = np.flatnonzero(np.diff(before // CELLS_AT_ONCE, prepend=-1))
    for first, end in pairwise([*edges.tolist(), len(cells)]):
        yield first, end - 1


@dataclass(frozen=True)
class Explanation:
    """For every known word of every pair the evidence, in nats, that the other side translates it."""

    source: NDArray[np.float32]
    source_counts: NDArray[np.int64]
    target: NDArray[np.float32]
    target_counts: NDArray[np.int64]

    def scores(self) -> NDArray[np.float32]:
        """Return the mean evidence of each pair's words, 0 without words; unrelated pairs score about 0 or less."""
        total = sums(self.source, self.source_counts) + sums(self.target, self.target_counts)
        return (total / np.maximum(self.source_counts + self.target_counts, 1)).astype(np.float32)


def evidence(explained: NDArray[np.float64], frequency: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return log P(word | other side) / P(word), smoothed by UNEXPLAINED."""
    return np.log(UNEXPLAINED + (1 - UNEXPLAINED) * explained / frequency).astype(np.float32)


def sums(values: NDArray[np.float32], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sum of each run of values; `counts` are the lengths of the runs."""
    totals = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    ends = np.cumsum(counts)
    return totals[ends] - totals[ends - counts]


@dataclass(frozen=True)
class Cells:
    """Every source word with every target word of its pair, as indices into the concatenated words of each side."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]

    @classmethod
    def of(cls, source_counts: NDArray[np.int64], target_counts: NDArray[np.int64]) -> "Cells":
        per_source = np.repeat(target_counts, source_counts)
        source = np.repeat(np.arange(len(per_source)), per_source)
        first = np.repeat(np.cumsum(per_source) - per_source, per_source)
        begins = np.repeat(np.repeat(np.cumsum(target_counts) - target_counts, source_counts), per_source)
        return cls(source, begins + np.arange(len(source)) - first)


def learn(sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> Lexicon | None:
    """Learn the lexicon of these pairs of tokens; None if there are too few."""
    source_side, target_side = known_words(sources), known_words(targets)
    if source_side is None or target_side is None:
        return None
    source, source_counts = source_side.encode([unique(text) for text in sources])
    target, target_counts = target_side.encode([unique(text) for text in targets])
    cells = Cells.of(source_counts, target_counts)
    size = len(target_side.frequency)
    keys, entry = np.unique(source[cells.source] * size + target[cells.target], return_inverse=True)
    if not len(keys):
        return None
    forward = expectation_maximization(entry, keys // size, cells.target)
    backward = expectation_maximization(entry, keys % size, cells.source)
    kept = (forward > SMALLEST) | (backward > SMALLEST)
    if not kept.any():
        return None
    return Lexicon(source_side, target_side, keys[kept], forward[kept], backward[kept])


def known_words(texts: Iterable[Sequence[str]]) -> Side | None:
    counts = Counter(token for text in texts for token in set(text[:MOST_TOKENS]))
    known = {token: count for token, count in counts.items() if count >= FEWEST}
    if not known:
        return None
    frequency = np.fromiter(known.values(), np.float32, len(known))
    return Side({token: number for number, token in enumerate(known)}, frequency / frequency.sum())


def unique(text: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(text[:MOST_TOKENS]))


def expectation_maximization(
    entry: NDArray[np.int64], given: NDArray[np.int64], explained: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Estimate t(e | f) for each entry of the lexicon by EM.

    `entry` is the entry of each cell, `given` the number of f of each entry, `explained` the occurrence of e of each
    cell, whose count the E step distributes over its cells.
    """
    probability = expected = total = np.full(len(given), 1.0)
    for _ in range(ITERATIONS):
        share = probability[entry]
        share /= np.bincount(explained, share)[explained]
        expected = np.bincount(entry, share, len(given))
        total = np.maximum(np.bincount(given, expected)[given], 1e-12)
        probability = expected / total
    return (np.maximum(expected - ONE_PAIR, 0) / total).astype(np.float32)
