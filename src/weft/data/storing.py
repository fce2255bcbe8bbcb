"""Clean pairs to ids on disk, on all cores: text comes in pieces, is cut into ids in other processes, and goes into a
store (store.py) in the order of the files.

What is in the store does not depend on how many processes there are.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weft.data.augmentation import with_joined_pairs
from weft.data.corpus import CorpusEntry, different_names, weight_and_tag
from weft.data.encoding import EncodedPairs, pairs_of_ids
from weft.data.preparation import CleanPiece
from weft.data.sentences import Sentences
from weft.data.store import StoreWriter
from weft.data.workers import Each
from weft.text.copying import copied_pairs
from weft.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Encoder:
    """Makes ids of the pieces of a corpus."""

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    before: tuple[tuple[int, ...], ...]
    """For each entry of the recipe the ids that stand before its sources."""
    languages: tuple[str, str]
    max_length: int
    """Pairs with more pieces on a side are left out."""
    joining: float = 0.0
    """Share of pairs that also come joined with the next pair."""
    seed: int = 1
    copying: bool = False
    """Whether symbols replace what both sides of a pair have (text/copying.py)."""

    def __call__(self, piece: CleanPiece) -> "EncodedPiece":
        pairs = len(piece.sources)
        following = [piece.following] if self.joining and piece.following else []
        texts = [*piece.sources, *(s for s, _ in following)], [*piece.targets, *(t for _, t in following)]
        texts = copied_pairs(*texts) if self.copying else texts
        sources, targets = self.source_tokenizer.encode(texts[0]), self.target_tokenizer.encode(texts[1])
        encoded = pairs_of_ids(sources, targets, [self.before[piece.entry]] * len(sources), self.max_length)
        if self.joining:
            encoded = self.with_joined(encoded, piece)
        is_joined = np.zeros(len(encoded.kept), bool)
        is_joined[1:] = encoded.kept[1:] <= encoded.kept[:-1]
        kept = len(encoded.kept) if not is_joined.any() else int(np.argmax(is_joined))
        return EncodedPiece(
            entry=piece.entry,
            sources=encoded.sources,
            targets=encoded.targets,
            lines=np.array(piece.lines, np.uint32)[encoded.kept],
            too_long=pairs - kept,
            joined=len(encoded.kept) - kept,
            unknown=np.array(
                [
                    self.source_tokenizer.count_unknown(sources[:pairs]),
                    self.target_tokenizer.count_unknown(targets[:pairs]),
                ]
            ),
        )

    def with_joined(self, encoded: EncodedPairs, piece: CleanPiece) -> EncodedPairs:
        """The pairs of a piece, which came with that of the next piece, and behind them some joined with their next
        one."""
        pairs = len(piece.sources)
        joined = with_joined_pairs(
            EncodedPairs(encoded.sources, encoded.targets, encoded.kept + piece.first),
            (self.source_tokenizer, self.target_tokenizer),
            self.languages,
            share=self.joining,
            seed=self.seed,
            max_length=self.max_length,
            parts=[piece.first + pairs + (piece.following is not None)],
            tags=frozenset(token for ids in self.before for token in ids),
        )
        places = np.flatnonzero(joined.kept != piece.first + pairs).tolist()
        return EncodedPairs(
            Sentences([joined.sources[place].tolist() for place in places]),
            Sentences([joined.targets[place].tolist() for place in places]),
            joined.kept[places] - piece.first,
        )


@dataclass(frozen=True)
class EncodedPiece:
    """What came of a piece of a corpus."""

    entry: int
    sources: Sentences
    targets: Sentences
    lines: NDArray[np.uint32]
    too_long: int
    joined: int
    unknown: NDArray[np.int64]
    """Numbers of unknown words and of all words, for source and target."""


@dataclass
class Stored:
    """What became of the pairs on their way into a store."""

    pairs: int = 0
    too_long: int = 0
    joined: int = 0
    unknown: NDArray[np.int64] = field(default_factory=lambda: np.zeros((2, 2), np.int64))


def store_pairs(
    pieces: Iterable[CleanPiece], entries: Iterable[CorpusEntry], encoder: Encoder, writer: StoreWriter, each: Each
) -> Stored:
    """Write all pieces; those of an entry follow each other, and the entries stand in the order of the recipe."""
    stored, begun = Stored(), -1
    entries = list(entries)
    names = different_names(entries)
    for encoded in each(encoder, pieces):
        while begun < encoded.entry:
            begun += 1
            weight, tag = weight_and_tag(entries[begun])
            writer.begin_part(names[begun], weight=weight, tag=tag)
        writer.append((encoded.sources, encoded.targets), encoded.lines)
        stored.pairs += len(encoded.sources)
        stored.too_long += encoded.too_long
        stored.joined += encoded.joined
        stored.unknown += encoded.unknown
    return stored
