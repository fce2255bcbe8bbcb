"""A running text as batches of equally long rows: its windows in any order, or parallel streams read in order.

    random order   row r holds `context` tokens and the next one, from token r * context + shift on
    streams        the text is cut into as many streams as a batch has rows; batch n holds the n-th piece of each, so
                   that a network can go on from the state in which the batch before left it

The shift is drawn for each epoch, so rows begin at other tokens each time. Order and shift are functions of (seed,
epoch), and a batch knows its place in the epoch.
"""

from dataclasses import dataclass

import numpy as np
import torch

from weft.data.batching import Buckets
from weft.data.lines import LineBatch
from weft.data.sentences import Sentences
from weft.errors import RunError


@dataclass(frozen=True)
class Streams(Buckets[LineBatch]):
    """Batches of which each goes on where the one before ended; an epoch begins at the beginning of all streams."""

    def order(self, epoch: int) -> list[np.ndarray]:
        assert self.batch_sentences is not None
        return list(np.arange(len(self)).reshape(self.batch_sentences, -1).T)


def running_batches(
    text: Sentences,
    *,
    context: int,
    in_order: bool,
    seed: int,
    batch_tokens: int | None = None,
    batch_sentences: int | None = None,
    part: tuple[int, int] = (0, 1),
) -> Buckets[LineBatch]:
    """Batches of `batch_sentences` rows, or of as many as make `batch_tokens`; of a short text one batch. Raises
    RunError if the text is shorter than two rows."""
    ids = text.ids
    rows = (len(ids) - context) // context  # whatever the shift is
    if rows < 1:
        has = f"the training text has {len(ids):,} pieces"
        raise RunError(f"{has}, and data.context = {context:,} needs twice as many as it says; lower it")
    at_once = min(rows, batch_sentences or max(1, (batch_tokens or 0) // context))
    rows -= rows % at_once if in_order else 0
    begins = np.arange(rows) * context

    def collate(numbers: np.ndarray, epoch: int) -> LineBatch:
        shift = np.random.default_rng([seed, epoch, 1]).integers(len(ids) - rows * context)
        places = (begins[numbers] + shift)[:, None] + np.arange(context + 1)
        place = (epoch, int(numbers[0]) % (rows // at_once)) if in_order else None
        return LineBatch(torch.from_numpy(ids[places].astype(np.int64)), numbers, place)

    kind = Streams if in_order else Buckets[LineBatch]
    windows = Sentences.placed(ids, begins, np.full(rows, context + 1))
    return kind((windows,), collate, seed, batch_sentences=at_once, part=part)


def windows_of(texts: Sentences, length: int, overlap: int) -> tuple[Sentences, np.ndarray, np.ndarray]:
    """Windows of at most `length` tokens to read and one to predict after each, which advance by `length - overlap`.

    Returns them with the text of each, and the number of its first token that no earlier window predicts.
    """
    begins, lengths, of_text, new = [list[int]() for _ in range(4)]
    for number, (offset, size) in enumerate(zip(texts.offsets, texts.lengths.tolist(), strict=False)):
        predicted = 0  # tokens of this text that are predicted by now, the first one aside
        while predicted < size - 1:
            begin = max(0, predicted - overlap)
            end = min(begin + length, size - 1)
            begins.append(int(offset) + begin)
            lengths.append(end - begin + 1)
            of_text.append(number)
            new.append(predicted + 1 - begin)
            predicted = end
    return Sentences.placed(texts.ids, np.array(begins), np.array(lengths)), np.array(of_text), np.array(new)
