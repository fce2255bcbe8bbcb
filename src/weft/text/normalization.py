"""What happens to a string before it is cut into pieces. Small, lossless for the reader, and idempotent."""

import re
import unicodedata
from typing import Literal

from weft.text.punctuation import Punctuation, unify_punctuation

Normalization = Literal["nfc", "nfkc"]

PIECE_MARK = "\u2581"  # SentencePiece writes a space as this character, so in a text it would come back as a space
LONE_SURROGATES = re.compile("[\ud800-\udfff]")
# All of category Cc but the white space among them, and the byte order mark.
CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff]")


def is_blank(text: str) -> bool:
    """Whether the text has no visible character: white space, controls and format characters (Cf) alone."""
    if text.isprintable() and text.strip():  # the sooner answer
        return False
    return all(character.isspace() or unicodedata.category(character) in ("Cc", "Cf") for character in text)


def normalize(text: str, form: Normalization = "nfc", punctuation: Punctuation = "keep") -> str:
    """The text as a tokenizer sees it.

    Unicode composed (`nfkc` also folds width and compatibility forms); control characters and byte order marks gone;
    every run of white space, line separators of all kinds included, one space, none at the ends; a lone surrogate,
    which no encoding can write, becomes U+FFFD; U+2581, the tokenizer's own mark for a space, becomes an underscore.
    Last, punctuation takes its form.
    """
    if not text.isprintable():  # a question that is sooner answered than the next two
        text = CONTROLS.sub("", LONE_SURROGATES.sub("\ufffd", text))
    text = unicodedata.normalize("NFC" if form == "nfc" else "NFKC", text.replace(PIECE_MARK, "_"))
    return unify_punctuation(" ".join(text.split()), punctuation)
