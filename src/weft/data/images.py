"""Images in IDX files, the format of MNIST, and batches of them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from weft.errors import CorpusError, Problem
from weft.files import open_bytes, reporting_read_errors
from weft.runtime import derive_seed


def read_idx(path: Path) -> UInt8[np.ndarray, "..."]:
    """The array in an IDX file of bytes, gzipped or not. Raises CorpusError if it is not one."""
    with reporting_read_errors(path), open_bytes(path) as file:
        content = bytearray(file.read(2**30))
    try:
        if content[:3] != b"\0\0\x08":
            raise ValueError("not an IDX file of bytes")
        shape = np.frombuffer(content, ">u4", content[3], 4).tolist()
        return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)
    except (ValueError, IndexError) as error:
        raise CorpusError(path, [Problem("file", str(error))]) from None


@dataclass(frozen=True)
class ImageBatches:
    """Batches of rows in a new random order each epoch. A row holds pixels between 0 and 1, and whatever follows."""

    rows: Float[Tensor, "images columns"]
    size: int
    seed: int

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Float[Tensor, "batch columns"]]:
        """The batches of an epoch from number `start` on, the same each time."""
        random = torch.Generator().manual_seed(derive_seed(self.seed, "images", epoch))
        for some in torch.randperm(len(self.rows), generator=random).split(self.size)[start:]:
            yield self.rows[some]

    def steps_per_epoch(self) -> int:
        return math.ceil(len(self.rows) / self.size)
