"""Ids of sentence pairs to batches of tensors: little padding, in an order that can be re-entered anywhere.

The order of an epoch is a function of (seed, epoch) alone, so a run that stopped in batch 17 of epoch 3 starts there
again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Sentences padded to a rectangle. Sources end with </s>; targets begin with <s> and end with </s>."""

    source: Int[Tensor, "batch source"]
    target: Int[Tensor, "batch target"]

    def to(self, device: torch.device) -> "Batch":
        return Batch(self.source.to(device), self.target.to(device))


class Sentences:
    """Lists of ids in one flat array with offsets: four bytes a token instead of a Python object."""

    def __init__(self, sentences: Sequence[Sequence[int]]) -> None:
        self.lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self.ids = np.fromiter((i for sentence in sentences for i in sentence), np.int32, int(self.offsets[-1]))

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def padded(self, indices: np.ndarray, padding_id: int) -> Int[Tensor, "batch time"]:
        """These sentences as rows, filled up with padding."""
        rows = np.full((len(indices), int(self.lengths[indices].max())), padding_id, dtype=np.int64)
        for row, index in enumerate(indices.tolist()):
            rows[row, : self.lengths[index]] = self[index]
        return torch.from_numpy(rows)


@dataclass(frozen=True)
class PairBatches:
    """The batches of a corpus of encoded pairs, epoch by epoch.

    A batch holds at most `batch_tokens` tokens a side, padding counted (a pair longer than that stands alone), or
    exactly `batch_sentences` pairs (the last one fewer).
    """

    sources: Sentences
    targets: Sentences
    padding_id: int
    seed: int
    batch_tokens: int | None = None
    batch_sentences: int | None = None

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of one epoch from number `start` on."""
        for indices in self.order(epoch)[start:]:
            yield self.collate(indices)

    def in_order(self) -> Iterator[Batch]:
        """Every pair once, in an order that does not change; for validation."""
        return self.epoch(0)

    def order(self, epoch: int) -> list[np.ndarray]:
        """Which pairs each batch of the epoch holds.

        Pairs are sorted by target length, then source length, ties in random order, cut into batches, and the batches
        shuffled: pairs of one length meet in ever new company and padding stays rare. The number of batches is the
        same in every epoch.
        """
        random = np.random.default_rng([self.seed, epoch])
        by_length = np.lexsort((random.random(len(self.sources)), self.sources.lengths, self.targets.lengths))
        batches = self._cut(by_length)
        return [batches[i] for i in random.permutation(len(batches))]

    def collate(self, indices: np.ndarray) -> Batch:
        return Batch(self.sources.padded(indices, self.padding_id), self.targets.padded(indices, self.padding_id))

    def steps_per_epoch(self) -> int:
        return len(self.order(0))

    def padding_share(self) -> float:
        """What part of all tokens in the batches of an epoch is padding."""
        padded = sum(
            len(indices) * int(side.lengths[indices].max())
            for indices in self.order(0)
            for side in (self.sources, self.targets)
        )
        return 1 - (len(self.sources.ids) + len(self.targets.ids)) / padded

    def _cut(self, ordered: np.ndarray) -> list[np.ndarray]:
        if self.batch_sentences is not None:
            return [ordered[i : i + self.batch_sentences] for i in range(0, len(ordered), self.batch_sentences)]
        assert self.batch_tokens is not None
        longest_side = np.maximum(self.sources.lengths, self.targets.lengths)[ordered]
        batches, begin, longest = [], 0, 0
        for end, length in enumerate(longest_side.tolist()):
            longest = max(longest, length)
            if longest * (end + 1 - begin) > self.batch_tokens and end > begin:
                batches.append(ordered[begin:end])
                begin, longest = end, length
        batches.append(ordered[begin:])
        return batches
