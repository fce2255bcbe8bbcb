"""Normalization of a string before it is split into pieces: small, lossless for the reader, and idempotent."""

import re
import unicodedata
from typing import Literal, TypedDict

from weft.errors import UsageError
from weft.text.chinese import Script, convert_script
from weft.text.copying import copies_of
from weft.text.punctuation import Punctuation, unify_punctuation
from weft.text.vocabulary import UNKNOWN_TEXT

Normalization = Literal["nfc", "nfkc", "folded"]


class Forms(TypedDict, total=False):
    """The forms that a tokenizer gives all its text."""

    normalization: Normalization
    punctuation: Punctuation
    script: Script
    copying: bool
    """Numbers, addresses and codes are symbols (text/copying.py), as a translator that copies them writes them."""


PIECE_MARK = "\u2581"  # SentencePiece writes a space as this character, so in a text it would come back as a space
LONE_SURROGATES = re.compile("[\ud800-\udfff]")
# All of category Cc except white space, and the byte order mark.
CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff]")
ZERO_WIDTH_JOINER = "\u200d"  # joins emoji to one
LATIN_WORDS = re.compile(r"[^\W\d_]+")
FEWEST_CAPITALS = 6
"""Letters of a text in capitals that is not taken for an abbreviation."""


def is_blank(text: str) -> bool:
    """Whether the text has no visible character, only white space, controls and format characters (Cf)."""
    if text.isprintable() and text.strip():  # the faster answer
        return False
    return all(character.isspace() or unicodedata.category(character) in ("Cc", "Cf") for character in text)


def normalize(text: str, form: Normalization = "nfc", punctuation: Punctuation = "keep") -> str:
    """The text as a tokenizer sees it.

    Unicode is composed (`nfkc` also folds width and compatibility forms; `folded` also removes format characters such
    as zero-width spaces, and writes a sentence in capitals alone in small letters); control characters and byte order
    marks are removed; every run of white space, including line separators, becomes one space, none at the ends; a lone
    surrogate, which no encoding can write, becomes U+FFFD; U+2581, the tokenizer's own mark for a space, becomes an
    underscore; the text of an unknown token stays. Last, punctuation takes its form. Raises UsageError for anything but
    a string.
    """
    if not isinstance(text, str):
        raise UsageError(f"a text has to be a string, found {type(text).__name__}")
    if not text.isprintable():  # faster to test than the next two
        text = CONTROLS.sub("", LONE_SURROGATES.sub("\ufffd", text))
    text = in_form(text.replace(PIECE_MARK, "_"), form)
    return unify_punctuation(" ".join(text.split()), punctuation)


def in_forms(
    text: str,
    *,
    normalization: Normalization = "nfc",
    punctuation: Punctuation = "keep",
    script: Script = "keep",
    copying: bool = False,
) -> str:
    """The normalized text, its Chinese in one script."""
    converted = convert_script(normalize(text, normalization, punctuation), script)
    return copies_of(converted).text if copying else converted


def in_form(text: str, form: Normalization) -> str:
    """The text in a Unicode form, except the text of an unknown token, of which NFKC would make two question marks, so
    that decoded text would change when it is encoded again."""
    if form == "nfc":
        return unicodedata.normalize("NFC", text)
    composed = UNKNOWN_TEXT.join(unicodedata.normalize("NFKC", part) for part in text.split(UNKNOWN_TEXT))
    if form == "nfkc":
        return composed
    return without_capitals(unicodedata.normalize("NFC", without_format_characters(composed)))


def without_format_characters(text: str) -> str:
    if text.isascii() or text.isprintable():
        return text
    return "".join(c for c in text if c == ZERO_WIDTH_JOINER or unicodedata.category(c) != "Cf")


def without_capitals(text: str) -> str:
    """The text, or a text of several words in capitals alone as a sentence in small letters."""
    if not text.isupper():
        return text
    words = LATIN_WORDS.findall(text)
    if len(words) < 2 or not all(word.isupper() for word in words) or sum(map(len, words)) < FEWEST_CAPITALS:
        return text
    first = next(place for place, character in enumerate(text) if character.isalnum())  # behind an opening quote
    return re.sub(r"\bi\b", "I", text[:first] + text[first:].capitalize())
