"""Lists of ids as arrays. Knows no tensor, so that processes that only make ids need not load PyTorch."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
from jaxtyping import Int

from weft.text.vocabulary import PADDING_ID


class Sentences:
    """Lists of ids in one flat array with offsets: four bytes a token instead of a Python object."""

    def __init__(self, sentences: Sequence[Sequence[int]]) -> None:
        self.lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self.ids = np.fromiter(chain.from_iterable(sentences), np.int32, int(self.offsets[-1]))

    @classmethod
    def placed(cls, ids: np.ndarray, begins: np.ndarray, lengths: np.ndarray) -> "Sentences":
        """Stretches of one array of ids, which may overlap."""
        whole = cls([])
        whole.ids, whole.offsets, whole.lengths = ids, begins, lengths
        return whole

    @classmethod
    def stored(cls, ids: np.ndarray, offsets: np.ndarray) -> "Sentences":
        """Sentences whose ids lie in these arrays already, which may be mapped files."""
        return cls.placed(ids, offsets, np.diff(offsets).astype(np.int32))

    @classmethod
    def joined(cls, parts: Sequence["Sentences"]) -> "Sentences":
        """One after the other; a large corpus is encoded in parts, so that few of its ids are ever Python objects."""
        whole = cls([])
        whole.lengths = np.concatenate([whole.lengths, *(part.lengths for part in parts)])
        whole.offsets = np.concatenate([[0], np.cumsum(whole.lengths)])
        whole.ids = np.concatenate([whole.ids, *(part.ids for part in parts)])
        return whole

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> np.ndarray:
        begin = self.offsets[index]
        return self.ids[begin : begin + self.lengths[index]]

    def padded(self, indices: np.ndarray) -> Int[np.ndarray, "batch time"]:
        """These sentences as rows, filled up with padding."""
        lengths = self.lengths[indices, None]
        places = np.arange(lengths.max())
        rows = np.full((len(indices), len(places)), PADDING_ID, dtype=np.int64)
        is_token = places < lengths
        rows[is_token] = self.ids[(self.offsets[indices, None] + places)[is_token]]
        return rows
