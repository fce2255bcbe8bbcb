"""Ids to batches of tensors: little padding, in an order that can be re-entered anywhere.

The order of an epoch is a function of (seed, epoch) alone, so a run that stopped in batch 17 of epoch 3 starts there
again.
"""

import hashlib
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from weft.data.augmentation import PairNoise, with_changes
from weft.data.sentences import Sentences
from weft.text.vocabulary import PADDING_ID

MINGLING = 1.0
"""Tokens by which the order of an epoch may be wrong inside a length, so that pairs meet others than last time.

On 47,500 pairs of dialogue in batches of 4,096 tokens 41 % of the pairs that share a batch share one in the next epoch
too and 7.6 % of the tokens are padding; with 1 it were 61 % and 6.1 %, with 4 it were 29 % and 10.0 %.
"""

ROUND_ROWS, ROUND_LENGTH = 16, 4
"""What the rows and the lengths of a batch are a multiple of, where it has a round shape."""

HASHED_AT_ONCE = 1 << 20
"""Numbers of which a digest makes a copy at a time: what is mapped from disk need not fit into memory."""


@dataclass(frozen=True)
class Batch:
    """Sentences padded to a rectangle. Sources end with </s>; targets begin with <s> and end with </s>."""

    source: Int[Tensor, "batch source"]
    target: Int[Tensor, "batch target"]
    pairs: Int[np.ndarray, " batch"] | None = None
    """Which pair of the corpus each row is."""
    tokens: int | None = None
    """Targets after <s> that are no padding, where they were counted: in a batch that is `filled_up`."""

    def to(self, device: torch.device) -> "Batch":
        return Batch(self.source.to(device), self.target.to(device), self.pairs, self.tokens)

    def filled_up(self, longest: int | None = None) -> "Batch":
        """Pad to a round shape, of which an epoch has few, no longer than the `longest` sentence
        that the model can read: lengths to a multiple of ROUND_LENGTH, rows to one of ROUND_ROWS. Few rows are filled
        up to a power of two, so that parts of a batch are smaller than the batch."""
        rows = round_rows(len(self.source))

        def filled(side: Tensor, unread: int) -> Tensor:
            length = -(-(side.size(1) - unread) // ROUND_LENGTH) * ROUND_LENGTH
            length = length if longest is None else min(length, longest)
            return F.pad(side, (0, length + unread - side.size(1), 0, rows - len(side)), value=PADDING_ID)

        # A target is read without its last place, and its length is round then.
        tokens = int((self.target[:, 1:] != PADDING_ID).sum())
        return Batch(filled(self.source, 0), filled(self.target, 1), self.pairs, tokens)

    def tensors(self) -> tuple[Tensor, Tensor]:
        return self.source, self.target

    def padding(self) -> tuple[int, int]:
        return count_padding(self.source, self.target)

    def without_predictions(self) -> "Batch":
        """Return these rows without a target token to predict."""
        target = self.target.clone()
        target[:, 1:] = PADDING_ID
        return Batch(self.source, target)

    def chunk(self, parts: int) -> list["Batch"]:
        """Its rows in at most so many batches, as torch.chunk cuts them, without their pairs."""
        return [Batch(*sides) for sides in zip(self.source.chunk(parts), self.target.chunk(parts), strict=True)]


def count_padding(*sides: Int[Tensor, "_ _"]) -> tuple[int, int]:
    """Count the places of these tensors, which are on the CPU, that hold padding, and all their places."""
    padding = sum(int(np.count_nonzero(side.numpy() == PADDING_ID)) for side in sides)
    return padding, sum(side.numel() for side in sides)


def round_rows(rows: int) -> int:
    """The next power of two, and from there on the next multiple of ROUND_ROWS."""
    return 1 << (rows - 1).bit_length() if rows < ROUND_ROWS else -(-rows // ROUND_ROWS) * ROUND_ROWS


def pair_buckets(
    sources: Sentences, targets: Sentences, *, noise: PairNoise | None = None, **settings: Any
) -> "Buckets[Batch]":
    """Batches of encoded pairs; `settings` are those of Buckets.

    `noise` is what pairs become in an epoch; batches are cut as if they stayed as they are.
    """

    def collate(indices: np.ndarray, epoch: int) -> Batch:
        rows = [side.padded(indices) for side in (sources, targets)]
        if noise is not None:
            rows = [with_changes(*sides) for sides in zip(rows, noise(epoch, indices), strict=True)]
        return Batch(torch.from_numpy(rows[0]), torch.from_numpy(rows[1]), indices)

    return Buckets((sources, targets), collate, **settings)


@runtime_checkable
class Rows(Protocol):
    """A batch that Buckets makes."""

    def without_predictions(self) -> Any:
        """Return these rows without anything to predict."""
        ...


B = TypeVar("B", bound=Rows)


@dataclass(frozen=True)
class Buckets(Generic[B]):
    """The batches of an encoded corpus, epoch by epoch. Rows of similar lengths share a batch.

    A batch holds at most `batch_tokens` tokens a column, padding counted (a longer row stands alone), or exactly
    `batch_sentences` rows (the last one fewer).

    `weights` says how often an epoch holds each row; by default once. The whole part of a weight counts in every epoch.
    Of what is left, say 0.5 for each of 1,000 rows, an epoch holds 500 rows, drawn anew for every epoch and evenly from
    short to long. All epochs hold equally many rows and batches.
    """

    columns: tuple[Sentences, ...]
    """The ids of every row: of pairs the sources and the targets, of lines one column."""
    collate: Callable[[np.ndarray, int], B]
    """Makes the batch of the rows with these numbers, as they are in this epoch."""
    seed: int
    batch_tokens: int | None = None
    batch_sentences: int | None = None
    weights: Float[np.ndarray, " rows"] | None = None
    part: tuple[int, int] = (0, 1)
    """The rows of every batch that are this process's: the first, and the distance to the next."""
    lengths_in: Callable[[int], Int[np.ndarray, " rows"]] | None = None
    """The length of every row in an epoch, where that is not the one of its columns, which are then those of epoch 0:
    batches are cut where they are cut in that epoch."""

    def __len__(self) -> int:
        return len(self.columns[0])

    def epoch(self, epoch: int, start: int = 0) -> Iterator[B]:
        """The batches of one epoch from number `start` on."""
        for indices in self.order(epoch)[start:]:
            yield self.batch(indices, epoch)

    def in_order(self) -> Iterator[B]:
        """Every batch of an epoch, in an order that does not change; for validation."""
        return self.epoch(0)

    def order(self, epoch: int) -> list[np.ndarray]:
        """The rows that each batch of the epoch holds.

        Rows are sorted by their longest column; those of one length by how much longer the last column is than the
        first, with some noise, up in one length and down in the next, so that neighbors are of one shape wherever a
        batch begins. The sorted rows are cut at the same places in every epoch, and the batches are shuffled.
        """
        random = np.random.default_rng([self.seed, epoch])
        pairs = self._pairs(random)
        noise = MINGLING * random.random(len(pairs))
        lengths = (self._longest_column if self.lengths_in is None else self.lengths_in(epoch))[pairs]
        row = np.argsort(lengths, kind="stable")
        # One length after the other, so that little but the row itself is ever in memory.
        for length, some in self._runs(lengths, row):
            slant = self.columns[-1].lengths[pairs[some]] - self.columns[0].lengths[pairs[some]] + noise[some]
            some[:] = some[np.argsort(slant if length % 2 else -slant, kind="stable")]
        batches = np.split(pairs[row], self._borders)
        return [batches[i] for i in random.permutation(len(batches))]

    def batch(self, indices: np.ndarray, epoch: int = 0) -> B:
        """This process's rows of a batch, as they are in this epoch.

        If there are fewer rows than processes, the last ones take part with a row that has nothing to predict.
        """
        first, every = self.part
        if first >= len(indices):
            return self.collate(indices[:1], epoch).without_predictions()
        return self.collate(indices[first::every], epoch)

    def steps_per_epoch(self) -> int:
        return len(self._borders) + 1

    def rows_per_epoch(self) -> int:
        """Rows that an epoch holds, repeated ones counted each time."""
        return len(self._longest)

    def sha256(self) -> str:
        """A digest of what decides which ids each batch of each epoch holds, but for the seed and the weights."""
        digest = hashlib.sha256(np.array(self._borders, dtype=np.int64).tobytes())
        for side in self.columns:
            for array, kind in ((side.offsets, np.int64), (side.ids, np.int32)):
                for begin in range(0, len(array), HASHED_AT_ONCE):
                    digest.update(array[begin : begin + HASHED_AT_ONCE].astype(kind).tobytes())
        return digest.hexdigest()

    def padding_share(self) -> float:
        """What part of all tokens in the batches of an epoch is padding."""
        order = self.order(0)
        sides = [side.lengths[indices] for indices in order for side in self.columns]
        return 1 - sum(int(lengths.sum()) for lengths in sides) / sum(
            len(lengths) * int(lengths.max()) for lengths in sides
        )

    def _runs(self, lengths: np.ndarray, row: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Each length that there is, and the stretch of the row, sorted by length, that has it."""
        ends = np.cumsum(np.bincount(lengths))
        for length in range(1, len(ends)):
            if ends[length - 1] < ends[length]:
                yield length, row[ends[length - 1] : ends[length]]

    def _pairs(self, random: np.random.Generator) -> np.ndarray:
        """The pairs of an epoch, each as often as its weight says."""
        if self._is_even:
            return np.arange(len(self), dtype=np.int32)
        always = np.repeat(np.arange(len(self)), self._whole)
        if not self._fraction.any():
            return always
        row = np.lexsort((random.random(len(self)), self._longest_column))
        return np.concatenate([always, self._drawn(row, 1 - random.random())])

    def _drawn(self, row: np.ndarray, offset: float) -> np.ndarray:
        """The pairs that fractions of weights bring into an epoch: systematic sampling along this row of pairs.

        Each pair is a stretch as long as its fraction, and the points that choose lie at equal distances of about 1,
        the first of them `offset` (above 0, at most 1) of a distance from the beginning.
        """
        ends = np.cumsum(self._fraction[row])
        points = (np.arange(self._draws) + offset) * (ends[-1] / max(self._draws, 1))
        return row[np.searchsorted(ends, np.minimum(points, ends[-1]))]

    @cached_property
    def _is_even(self) -> bool:
        """Whether every epoch holds every pair once."""
        return self.weights is None or bool((self.weights == 1).all())

    @cached_property
    def _draws(self) -> int:
        """Pairs that fractions of weights bring into every epoch; of a sum whose rounding knows no order of pairs."""
        return round(math.fsum(self._fraction))

    @cached_property
    def _whole(self) -> np.ndarray:
        return np.ones(len(self), dtype=np.int64) if self.weights is None else self.weights.astype(np.int64)

    @cached_property
    def _fraction(self) -> np.ndarray:
        return np.zeros(len(self)) if self.weights is None else self.weights - self._whole

    @cached_property
    def _longest_column(self) -> np.ndarray:
        return np.maximum.reduce([column.lengths for column in self.columns])

    @cached_property
    def _longest(self) -> np.ndarray:
        """How long a pair can be, in any epoch, at each place of the row that is cut.

        In a row by length every drawn pair is at most as long as the one that the offset 1 draws in its stead.
        """
        if self._is_even:
            return np.sort(self._longest_column)
        pairs = np.arange(len(self))
        drawn = self._drawn(np.argsort(self._longest_column), 1.0)
        return np.sort(self._longest_column[np.concatenate([np.repeat(pairs, self._whole), drawn])])

    @cached_property
    def _borders(self) -> list[int]:
        """Where batches begin in the row of pairs, the first one's place left out."""
        if self.batch_sentences is not None:
            return list(range(self.batch_sentences, len(self._longest), self.batch_sentences))
        assert self.batch_tokens is not None
        borders: list[int] = []
        begin, pairs = 0, len(self._longest)
        while begin < pairs:
            # The rectangle grows with every row, so the largest that fits is found by halving.
            rows = bisect_right(
                range(1, min(pairs - begin, self.batch_tokens) + 1),
                self.batch_tokens,
                key=lambda count: count * int(self._longest[begin + count - 1]),
            )
            begin += max(1, rows)
            borders.append(begin)
        return borders[:-1]
