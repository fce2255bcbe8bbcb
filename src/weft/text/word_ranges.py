"""Which pieces make up which word, for people who want to see words.

Words are those of words.py. A word begins where a piece does, so words that share a piece are one word here. Chinese is
split by jieba if rjieba is installed; otherwise every piece of Han characters is a word.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from weft.errors import MissingExtraError
from weft.text.chinese import IS_HAN
from weft.text.kinds import KINDS, Kind
from weft.text.normalization import PIECE_MARK
from weft.text.vocabulary import SPECIAL_PIECES, UNKNOWN_ID, UNKNOWN_TEXT
from weft.text.words import cut_words, han_cutter

BYTE = re.compile(r"<0x([0-9A-F]{2})>")


@dataclass(frozen=True)
class WordRange:
    """A word, and the places of its first and last piece."""

    text: str
    first: int
    last: int


def word_ranges(pieces: Sequence[str], *, kind: Kind, language: str) -> list[WordRange]:
    """The words of these pieces in order; every piece that stands for text belongs to exactly one."""
    characters = characters_of(pieces, kind)
    text = "".join(character for character, _ in characters)
    begins = word_begins(text, [piece for _, piece in characters], choose_cutter(language))
    limits = [*((at, characters[at][1]) for at in begins), (len(text), len(pieces))]
    return [
        WordRange(text[begin:end].strip(), first, following - 1)
        for (begin, first), (end, following) in pairwise(limits)
    ]


def word_begins(text: str, owners: Sequence[int], cut_han: Callable[[str], Iterable[str]]) -> list[int]:
    """The places in the text, including the space before, where a word begins together with a piece; `owners` has the
    piece of each character."""
    begins, end = [], 0
    for marked in cut_words(text, cut_han):
        word = marked.removeprefix(PIECE_MARK)
        at = text.index(word, end)
        # The space may be a piece of its own, the first of the word.
        begin = next((i for i in range(end, at + 1) if i == 0 or owners[i] != owners[i - 1]), None)
        if begin is not None:
            begins.append(begin)
        end = at + len(word)
    return begins


def characters_of(pieces: Sequence[str], kind: Kind) -> list[tuple[str, int]]:
    """Every character of the text, with the piece in which it begins: it may be spelled in several bytes."""
    found: list[tuple[str, int]] = []
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    began = 0  # the first byte of an incomplete character
    for place, piece in enumerate(pieces):
        byte = BYTE.fullmatch(piece) if KINDS[kind].spells_bytes else None
        if not decoder.getstate()[0]:
            began = place
        decoded = decoder.decode(bytes([int(byte[1], 16)]) if byte else b"", final=byte is None)
        found += [(character, began) for character in decoded]
        if byte is None:
            before = found[-1][0] if found else ""
            found += [(character, place) for character in text_of(piece, kind, before)]
    return found + [(character, began) for character in decoder.decode(b"", final=True)]


def text_of(piece: str, kind: Kind, before: str) -> str:
    """What a piece adds to the text after the character `before`, including the space before its word."""
    if piece in SPECIAL_PIECES:
        return f" {UNKNOWN_TEXT}" if piece == SPECIAL_PIECES[UNKNOWN_ID] else ""
    continued = KINDS[kind].continued
    if not continued:
        return piece.replace(PIECE_MARK, " ")
    if piece.startswith(continued) and piece != continued:
        return piece.removeprefix(continued)
    return piece if IS_HAN.match(before) and IS_HAN.match(piece) else f" {piece}"


def choose_cutter(language: str) -> Callable[[str], Iterable[str]]:
    """A function that splits a run of Han characters; without rjieba every piece is a word."""
    try:
        return han_cutter(language)
    except MissingExtraError:
        return list
