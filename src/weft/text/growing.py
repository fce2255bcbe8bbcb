"""Text that is still growing at its end: which part of it cannot change any more."""

import unicodedata

from weft.text.chinese import IS_HAN
from weft.text.kinds import KINDS, Kind
from weft.text.language import is_in_words_of_characters
from weft.text.punctuation import APOSTROPHES

REPLACEMENT = "\ufffd"
"""What an incomplete sequence of bytes decodes to."""


def settled_part(text: str, language: str, kind: Kind) -> str:
    """The beginning of a normalized text that no continuation changes: whole words, or whole characters in a language
    without spaces.

    The last word may continue, a sign may be attached to it, and its last character may compose with an accent that
    follows. In a text without spaces, words of other languages are kept whole, too. If pieces of this `kind`
    continue words, the next one may make a word of a Han character, with a space before it.
    """
    if not is_in_words_of_characters(language):
        return text.rpartition(" ")[0]
    end = max(0, len(text.rstrip(REPLACEMENT)) - bool(KINDS[kind].continued))
    while end and not stays(text[end - 1]):
        end -= 1
        if unicodedata.east_asian_width(text[end]) in "WF" and not unicodedata.combining(text[end]):
            break  # a complete character, such as kana, which may compose with a sign after it
    return text[:end].rstrip(" ")


def stays(character: str) -> bool:
    """Whether the character stays the same whatever follows: nothing composes with Han characters and punctuation. The
    spacing of an apostrophe, though, depends on whether it is that of "it's" or closes a quotation."""
    is_sign = unicodedata.category(character)[0] == "P" and character not in APOSTROPHES
    return is_sign or character == " " or bool(IS_HAN.match(character))
