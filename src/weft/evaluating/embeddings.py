"""The embeddings of a translation model: neighbors of words, and the most frequent pieces on a plane.

The plane is that of the first two principal components: with X the embeddings less their mean and X = U S V^T, a piece
is at (x . v_1, x . v_2), and the plane shows (s_1^2 + s_2^2) / sum of s^2 of the variance.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from weft.errors import UsageError
from weft.figures.table import Table
from weft.text.kinds import pieces_of
from weft.text.language import is_written_without_spaces
from weft.text.normalization import PIECE_MARK
from weft.text.vocabulary import SPECIAL_PIECES
from weft.text.word_ranges import BYTE
from weft.translating.translator import Translator

Side = Literal["source", "target"]
SHOWN, NEIGHBORS, EXAMPLES = 200, 6, 8
"""Pieces on the plane, neighbors of a word, and words without a request."""
MARKED = ("bpe", "unigram")
"""Kinds whose pieces begin with a mark where a word does."""


@dataclass(frozen=True)
class EmbeddingReport:
    side: Side
    ranked_by: str
    points: Mapping[str, tuple[float, float]]
    """The most frequent pieces, the most frequent first."""
    explained: tuple[float, float]
    """Share of the variance of all these pieces along each axis."""
    neighbors: Mapping[str, Sequence[tuple[str, float]]]
    """Word -> its nearest pieces with their cosines."""

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def table(self) -> Table:
        rows = [
            (word, "  ".join(f"{piece} {cosine:.2f}" for piece, cosine in near))
            for word, near in self.neighbors.items()
        ]
        notes = [
            f"cosines of the {self.side} embeddings, each less the mean of all; a word of several pieces is their mean",
            f"the plane of the {len(self.points)} {self.ranked_by} shows {sum(self.explained):.0%} of their variance",
        ]
        return Table("Nearest pieces", ("word", "neighbors"), rows, notes, texts=frozenset({0, 1}))


def examine_embeddings(
    translator: Translator, words: Sequence[str], side: Side, texts: Sequence[str] | None = None
) -> EmbeddingReport:
    """The plane, and the neighbors of these words, or of some frequent ones. Pieces are counted in `texts`; without
    them the order of the vocabulary decides, which for most tokenizers is that of their frequency.

    Raises UsageError for a word without a known piece.
    """
    model = translator.model
    if (embedding := getattr(model.network, f"{side}_embedding")).weight.is_meta:
        raise UsageError("an export has no embeddings of its own; name the model it was exported from")
    tokenizer, weight = model.vocabularies[side], embedding.weight.detach().float().cpu()
    language = dict(zip(("source", "target"), translator.languages, strict=True))[side]
    pieces = pieces_of(tokenizer, model.recipe.tokenizer.kind)
    words_only = [number for number, piece in enumerate(pieces) if is_word(piece)]
    if texts is None:
        ranked, ranked_by = words_only, "first pieces of the vocabulary"
    else:
        counts = Counter(number for ids in tokenizer.encode(texts) for number in ids)
        ranked, ranked_by = sorted(words_only, key=lambda number: -counts[number]), "most frequent pieces"
    starts = PIECE_MARK if model.recipe.tokenizer.kind in MARKED and not is_written_without_spaces(language) else ""
    first: dict[str, int] = {}
    for number in ranked:
        if pieces[number].startswith(starts):
            first.setdefault(plain(pieces[number]), number)
    shown = list(first.values())[:SHOWN]
    if len(shown) < 2:
        raise UsageError(f"the {side} vocabulary has {len(shown)} pieces with a letter; --side chooses the other one")
    centered = weight - weight[words_only].mean(0)
    points, explained = plane(centered[shown])
    known = [[number for number in ids if number >= len(SPECIAL_PIECES)] for ids in tokenizer.encode(words)]
    if unknown := [word for word, ids in zip(words, known, strict=True) if not ids]:
        raise UsageError(f"the {side} vocabulary has no piece of {', '.join(unknown)}; --side chooses the other one")
    asked = dict(zip(words, known, strict=True))
    if not words:
        examples = [number for number in shown if len(plain(pieces[number])) > 1][:EXAMPLES]
        asked = {plain(pieces[number]): [number] for number in examples}
    return EmbeddingReport(
        side,
        ranked_by,
        {plain(pieces[number]): point for number, point in zip(shown, points, strict=True)},
        explained,
        {word: nearest(centered, ids, words_only, pieces) for word, ids in asked.items()},
    )


def is_word(piece: str) -> bool:
    """Whether a piece has a letter and is neither special nor a byte."""
    return piece not in SPECIAL_PIECES and not BYTE.fullmatch(piece) and any(map(str.isalpha, piece))


def plain(piece: str) -> str:
    """A piece without the sign for a space."""
    return piece.replace(PIECE_MARK, " ").strip()


def plane(x: Float[Tensor, "pieces model"]) -> tuple[list[tuple[float, float]], tuple[float, float]]:
    """Each row on the first two principal components, and the share of the variance along each of them.

    An axis points to where its largest coordinate is positive, so that equal rows give equal figures.
    """
    x = x - x.mean(0)
    _, sizes, directions = torch.linalg.svd(x, full_matrices=False)
    at = x @ directions[:2].T
    at = at * at.gather(0, at.abs().argmax(0, keepdim=True)).sign()
    shares = sizes.square() / sizes.square().sum()
    return [(one, other) for one, other in at.tolist()], (float(shares[0]), float(shares[1]))


def nearest(
    weight: Float[Tensor, "vocab model"], ids: Sequence[int], among: Sequence[int], pieces: Sequence[str]
) -> list[tuple[str, float]]:
    """The pieces most like the mean of these, which are left out themselves, as are pieces of the same text."""
    cosines = torch.cosine_similarity(weight[list(among)], weight[list(ids)].mean(0, keepdim=True), dim=1)
    order: list[int] = cosines.argsort(descending=True).tolist()
    found: dict[str, float] = {}
    for place in order:
        found.setdefault(plain(pieces[among[place]]), float(cosines[place]))
    own = {plain(pieces[number]) for number in ids}
    return [one for one in found.items() if one[0] not in own][:NEIGHBORS]
