"""Text that is still being written at its end: which part of it stays as it is, whatever comes."""

import unicodedata

from weft.text.chinese import IS_HAN
from weft.text.kinds import KINDS, Kind
from weft.text.punctuation import APOSTROPHES
from weft.text.sentence_splitting import joins_without_space

REPLACEMENT = "\ufffd"
"""What the bytes of a character are read as while some of them are missing."""


def settled_part(text: str, language: str, kind: Kind) -> str:
    """The beginning of a normalized text that no continuation changes: whole words, or in a language without spaces
    whole characters.

    The last word may go on, a sign may move up to it, and its last character may melt with an accent that follows.
    Words of other languages in a text without spaces are whole, too. Where pieces continue words (`kind`), the
    next one may make a word of a Han character, with a space before it.
    """
    if not joins_without_space(language):
        return text.rpartition(" ")[0]
    end = max(0, len(text.rstrip(REPLACEMENT)) - bool(KINDS[kind].continued))
    while end and not stays(text[end - 1]):
        end -= 1
        if unicodedata.east_asian_width(text[end]) in "WF" and not unicodedata.combining(text[end]):
            break  # a character of its own, such as kana, that a sign behind it may melt with
    return text[:end].rstrip(" ")


def stays(character: str) -> bool:
    """Whether the character is the same whatever follows: Unicode composes nothing with Han characters and signs of
    punctuation. Where an apostrophe stands, though, depends on whether it is that of "it's" or closes a quotation."""
    is_sign = unicodedata.category(character)[0] == "P" and character not in APOSTROPHES
    return is_sign or character == " " or bool(IS_HAN.match(character))
