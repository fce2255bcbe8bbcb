"""Span corruption: a document whose middle is hidden and follows at its end, and questions in the same form.

    <s> prefix [MASK] suffix [MASK] middle </s>         a document, cut to a random length
    <s> question [MASK] [MASK] answer </s>              a question: a document whose end is hidden

Of a document every token is predicted, of a question only the answer. What is cut and hidden depends only on (seed,
epoch, number of the row): it is the same after resuming, in any batch and in any process.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional as F

from weft.data.augmentation import uniform
from weft.data.batching import ROUND_LENGTH, Buckets, count_padding, round_rows
from weft.data.sentences import Sentences
from weft.text.tokenizer import Tokenizer
from weft.text.vocabulary import BEGIN_ID, END_ID, PADDING_ID

ADDED = 4
"""Tokens that corruption adds to a text: <s>, two masks and </s>."""
SHORTEST = 4
"""Fewest tokens that a document is cut to."""

AT_ONCE = 1024
"""Rows that are corrupted at once to count the tokens of an epoch."""

SALIENT, CHOICE, CUT, LENGTH, PLACE = range(200, 205)
"""Numbers of the draws (see `uniform`)."""


@dataclass(frozen=True)
class SpanBatch:
    """Corrupted rows, padded to a rectangle."""

    ids: Int[Tensor, "batch time"]
    first: Int[Tensor, " batch"]
    """The place of the first token of each row that is predicted."""
    rows: Int[np.ndarray, " given"] | None = None
    """The row of the corpus that each one is; rows that fill a batch up are none."""
    tokens: int | None = None
    """Tokens that are predicted, if they have been counted: in a batch that is `filled_up`."""

    def to(self, device: torch.device) -> "SpanBatch":
        return SpanBatch(self.ids.to(device), self.first.to(device), self.rows, self.tokens)

    def chunk(self, parts: int) -> list["SpanBatch"]:
        """Its rows in at most `parts` batches."""
        return [SpanBatch(*both) for both in zip(self.ids.chunk(parts), self.first.chunk(parts), strict=True)]

    def is_predicted(self) -> Bool[Tensor, "batch followed"]:
        """True at the tokens that are predicted; the first of a row, which never is, is left out."""
        place = torch.arange(1, self.ids.size(1), device=self.ids.device)
        return (self.ids[:, 1:] != PADDING_ID) & (place >= self.first[:, None])

    def filled_up(self) -> "SpanBatch":
        """Pad to a round shape, of which an epoch has few."""
        rows, length = round_rows(len(self.ids)), -(-(self.ids.size(1) - 1) // ROUND_LENGTH) * ROUND_LENGTH + 1
        more = rows - len(self.ids)
        ids = F.pad(self.ids, (0, length - self.ids.size(1), 0, more), value=PADDING_ID)
        return SpanBatch(ids, F.pad(self.first, (0, more)), self.rows, int(self.is_predicted().sum()))

    def padding(self) -> tuple[int, int]:
        return count_padding(self.ids)

    def tensors(self) -> tuple[Tensor, Tensor]:
        return self.ids, self.first

    def without_predictions(self) -> "SpanBatch":
        """Return these rows without a token to predict."""
        return SpanBatch(self.ids, torch.full_like(self.first, self.ids.size(1)))


@dataclass(frozen=True)
class SpanCorruption:
    """Makes the batch of some rows of a corpus, as they are in an epoch."""

    texts: Sentences
    """Documents, and questions with their answers behind them."""
    places: Sentences
    """For a question, where its answer begins; for a document, the begin and the end of each salient span."""
    seed: int
    mask_id: int
    context: int
    """Most tokens of a row."""
    salient: float = 0.0
    """Share of documents that are cut after one of their salient spans, which is hidden."""

    def lengths(self, epoch: int) -> Int[np.ndarray, " rows"]:
        """The tokens of every row in this epoch."""
        return self.hidden(np.arange(len(self.texts)), epoch)[2] + ADDED

    def hidden(self, rows: Int[np.ndarray, " batch"], epoch: int) -> Int[np.ndarray, "3 batch"]:
        """Where the hidden middle of each row begins and ends, and the length that the row is cut to.

        The length is uniform between SHORTEST and 7/8 of the context, or the length of a shorter document; the
        middle's is uniform between 1 and half of that, a quarter on average.
        """
        draw = {n: uniform(self.seed, n, epoch, rows) for n in (SALIENT, CHOICE, CUT, LENGTH, PLACE)}
        whole, longest = self.texts.lengths[rows], self.context * 7 // 8
        cut = np.minimum(whole, between(SHORTEST, longest, draw[CUT]))
        length = between(1, np.maximum(cut // 2, 1), draw[LENGTH])
        begin = between(0, cut - length, draw[PLACE])
        end = begin + length
        for row in np.flatnonzero((draw[SALIENT] < self.salient) | (self.places.lengths[rows] == 1)).tolist():
            places = self.places[int(rows[row])].tolist()
            if len(places) == 1:  # a question
                begin[row], end[row], cut[row] = places[0], whole[row], whole[row]
            elif fitting := [pair for pair in zip(places[::2], places[1::2], strict=True) if pair[1] <= longest]:
                begin[row], end[row] = fitting[int(draw[CHOICE][row] * len(fitting))]
                cut[row] = end[row]
        return np.stack([begin, end, cut])

    def __call__(self, rows: Int[np.ndarray, " batch"], epoch: int) -> SpanBatch:
        begin, end, cut = (each[:, None] for each in self.hidden(rows, epoch))
        place = np.arange(int(cut.max()) + ADDED)
        suffix, middle = begin + 2, cut - (end - begin) + 3  # the places where they begin
        source = np.select(
            [place <= begin, place < middle, place < cut + 3], [place - 1, place - suffix + end, place - middle + begin]
        )
        texts, offsets = self.texts, self.texts.offsets[rows, None]
        ids = texts.ids[np.clip(offsets + source, 0, len(texts.ids) - 1)].astype(np.int64)
        ids[:, 0] = BEGIN_ID
        ids[(place == suffix - 1) | (place == middle - 1)] = self.mask_id
        ids[place == cut + 3] = END_ID
        ids[place > cut + 3] = PADDING_ID
        first = np.where(self.places.lengths[rows] == 1, middle[:, 0], 1)
        return SpanBatch(torch.from_numpy(ids), torch.from_numpy(first), rows)


def between(least: Any, most: Any, draw: np.ndarray) -> np.ndarray:
    """Whole numbers from `least` to `most`, both included, by draws from [0, 1)."""
    return (least + draw * (most - least + 1)).astype(np.int64)


def span_buckets(corruption: SpanCorruption, **settings: Any) -> Buckets[SpanBatch]:
    """Batches of corrupted rows, by their lengths in each epoch; `settings` are those of Buckets."""
    lengths, rows = corruption.lengths(0), np.arange(len(corruption.texts))
    parts = [corruption(some, 0).ids.numpy() for some in np.split(rows, rows[AT_ONCE::AT_ONCE])]
    padded = (ids for part in parts for ids in part)
    as_first = Sentences([ids[:length].tolist() for ids, length in zip(padded, lengths, strict=True)])
    return Buckets((as_first,), corruption, lengths_in=corruption.lengths, **settings)


WORD = re.compile(r"[^\W\d_][\w'’-]*")
MONTHS = frozenset(["January", "February", "March", "April", "May", "June", "July", "August", "September", "October"])
MONTHS |= {"November", "December"}


def salient_spans(text: str) -> list[tuple[int, int]]:
    """The capitalized words of a text, those with a space between them as one span, as (begin, end) of characters.

    Left out are months, the name that the text begins with (up to its first full stop), and single words that begin a
    sentence.
    """
    name, _, _ = text.partition(". ")
    known = MONTHS | set(WORD.findall(name))
    spans: list[tuple[int, int]] = []
    for word in WORD.finditer(text, len(name)):
        if word[0][0].isupper() and word[0] not in known:
            joins = spans and text[spans[-1][1] : word.start()] == " "
            spans.append((spans.pop()[0] if joins else word.start(), word.end()))
    return [(begin, end) for begin, end in spans if " " in text[begin:end] or text[begin - 2] not in ".!?"]


def salient_places(texts: Sequence[str], tokenizer: Tokenizer) -> list[list[int]]:
    """The begin and the end of the salient spans of each text, in tokens.

    A span is left out if the text that begins with it, or the text that ends with it, has other tokens alone.
    """
    found = []
    for text in map(tokenizer.normalize, texts):
        spans = salient_spans(text)
        whole, *parts = tokenizer.encode([text, *(part for begin, end in spans for part in (text[begin:], text[:end]))])
        places = [
            (len(whole) - len(from_begin), len(to_end))
            for from_begin, to_end in zip(parts[::2], parts[1::2], strict=True)
            if whole[-len(from_begin) :] == from_begin and whole[: len(to_end)] == to_end
        ]
        found.append([place for pair in places for place in pair])
    return found
