"""Another system's vocabulary as one of weft's: four special pieces first, and every piece under the id that weft uses.

Such systems cut text by a SentencePiece model and number the pieces by a list of their own; pieces that the list lacks
become <unk>. Here the SentencePiece model is written anew with all pieces at the places of weft's ids:

    special     <pad>, <unk>, <s>, </s>, whatever they are called there
    tokens      those of the list, in its order. One that the model does not have (a piece of the other language) is
                UNUSED: it can be written, and text becomes it only where the model knows nothing else
    extras      pieces of the model that the list lacks. Their rows are copies of <unk>'s, and they are never written

so what a text is cut into, and what each piece means to the weights, stays the same. Knows no tensor.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from weft.errors import needing
from weft.importing.foreign import ForeignVocabulary
from weft.text.vocabulary import BEGIN_ID, MOST_TOKENS, SPECIAL_PIECES

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Types of a piece in a SentencePiece model."""
KINDS: dict[int, Literal["unigram", "bpe"]] = {1: "unigram", 2: "bpe"}
"""SentencePiece's numbers of the kinds that weft has."""
LANGUAGE_TAG = re.compile(r">>(.+)<<")


@dataclass(frozen=True)
class Arrangement:
    """weft's vocabulary: of each id the piece, the row that it has in the other system, and whether it is written."""

    pieces: tuple[str, ...]
    rows: tuple[int, ...]
    is_written: tuple[bool, ...]


def read_model(data: bytes) -> Any:
    """Parse a SentencePiece model. Raises ValueError for other data and for kinds that weft does not have."""
    with needing("protobuf", "import"):
        from google.protobuf.message import DecodeError
        from sentencepiece import sentencepiece_model_pb2
    model = sentencepiece_model_pb2.ModelProto()  # pyright: ignore[reportAttributeAccessIssue] (protobuf makes it)
    try:
        model.ParseFromString(data)
    except DecodeError:
        raise ValueError("is not a SentencePiece model") from None
    if not len(model.pieces):
        raise ValueError("is a SentencePiece model without pieces")
    if not all(isinstance(piece.piece, str) for piece in model.pieces):  # bytes if they are not UTF-8
        raise ValueError("has pieces that are not text")
    if model.trainer_spec.model_type not in KINDS:
        raise ValueError("cuts into words or characters; weft takes SentencePiece models of kind unigram and bpe")
    if len(model.pieces) > MOST_TOKENS:
        raise ValueError(f"has {len(model.pieces):,} pieces; a vocabulary has at most {MOST_TOKENS:,}")
    return model


def kind_of(model: Any) -> Literal["unigram", "bpe"]:
    return KINDS[model.trainer_spec.model_type]


def arrange(vocabulary: ForeignVocabulary, models: Sequence[Any], never: Iterable[int]) -> Arrangement:
    """Put the pieces of the vocabulary and of these SentencePiece models in weft's order.

    Raises ValueError where two tokens would get one name.
    """
    special = (vocabulary.padding, vocabulary.unknown, vocabulary.begin, vocabulary.end)
    names = {row: piece_of(token) for row, token in enumerate(vocabulary.tokens) if row not in special}
    pieces, rows = [*SPECIAL_PIECES, *names.values()], [*special, *names]
    known = set(pieces)
    if len(known) != len(pieces):
        ((most_frequent, _),) = Counter(pieces).most_common(1)
        raise ValueError(f"two tokens would both be called {most_frequent}")
    forbidden = set(never)
    is_written = [row not in forbidden for row in rows]
    is_written[BEGIN_ID] = False  # where its row is another token's too, that one stands for it
    extras = [piece for piece in dict.fromkeys(p.piece for m in models for p in m.pieces) if piece not in known]
    return Arrangement(
        pieces=(*pieces, *extras),
        rows=(*rows, *[vocabulary.unknown] * len(extras)),
        is_written=(*is_written, *[False] * len(extras)),
    )


def piece_of(token: str) -> str:
    """Return weft's name of a token that is not special: a tag is <name> instead of >>name<<."""
    if tag := LANGUAGE_TAG.fullmatch(token):
        token = f"<{tag[1]}>"
    return f"{token[:-1]}_>" if token in SPECIAL_PIECES else token


def rewritten(model: Any, vocabulary: ForeignVocabulary, arrangement: Arrangement) -> bytes:
    """Write the SentencePiece model with the arrangement's pieces.

    Raises ValueError where that would cut text otherwise: BPE also merges by way of unused pieces.
    """
    own = {piece.piece: piece for piece in model.pieces}
    silent = {piece_of(token) for token in vocabulary.tokens if token in vocabulary.tags or token in SPECIAL_PIECES}
    known = frozenset(vocabulary.tokens) if vocabulary.is_closed else None
    types = [
        CONTROL if piece in silent else type_of(own.get(piece), piece, known)
        for piece in arrangement.pieces[len(SPECIAL_PIECES) :]
    ]
    missing = [
        piece
        for piece, of in zip(arrangement.pieces[len(SPECIAL_PIECES) :], types, strict=True)
        if of == UNUSED and piece not in own
    ]
    if missing and kind_of(model) == "bpe":
        raise ValueError(
            f"is of kind bpe and lacks {len(missing):,} pieces of the vocabulary, such as {missing[0]}; weft can "
            "give a unigram model pieces that it never cuts, but would cut text otherwise with a bpe model"
        )
    result = type(model)()
    result.CopyFrom(model)
    result.ClearField("pieces")
    for piece, of in zip(arrangement.pieces, (CONTROL, UNKNOWN, CONTROL, CONTROL, *types), strict=True):
        result.pieces.add(piece=piece, score=own[piece].score if piece in own else 0.0, type=of)
    padding, unknown, begin, end = SPECIAL_PIECES
    given = {"pad_piece": padding, "unk_piece": unknown, "bos_piece": begin, "eos_piece": end}
    given |= {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "vocab_size": len(arrangement.pieces)}
    for name, value in given.items():
        setattr(result.trainer_spec, name, value)
    return result.SerializeToString()


def type_of(own: Any | None, piece: str, known: frozenset[str] | None) -> int:
    """What a piece becomes; a vocabulary that is closed has the `known` ones alone."""
    if own is None:
        return UNUSED
    if own.type == UNKNOWN:  # the model's own, under another name than weft's
        return CONTROL
    is_missing = known is not None and len(piece) > 1 and piece not in known
    return UNUSED if is_missing and own.type == NORMAL else own.type
