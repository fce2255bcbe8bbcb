"""The protocol of all tokenizers.

A tokenizer turns a string into ids and back. It owns all preprocessing (Unicode form, punctuation,
Chinese script), so a model folder that has its tokenizer has its preprocessing.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Tokenizer(Protocol):
    @property
    def vocab_size(self) -> int:
        """Number of ids; 0 ... 3 are padding, unknown, begin and end (see vocabulary.py)."""
        ...

    @property
    def model(self) -> bytes:
        """The content of its file; equal bytes mean the same pieces under the same ids."""
        ...

    def normalize(self, text: str) -> str:
        """The text as it is split into pieces; equals decode(encode(text)) if no piece is unknown."""
        ...

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without <s> and </s>; no part of a text becomes a special id."""
        ...

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of each list of ids; special ids and tags are dropped, an unknown piece becomes U+2047."""
        ...

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text as strings without spaces, one for each of its ids."""
        ...

    def ids_of(self, pieces: Sequence[str]) -> list[int | None]:
        """The id of each piece; None for a string that is not a piece."""
        ...

    def tag_id(self, tag: str) -> int | None:
        """The id of a tag in the vocabulary, which no text becomes; None for any other string."""
        ...

    def count_unknown(self, ids: Sequence[Sequence[int]]) -> tuple[int, int]:
        """How many words of encoded texts are unknown, and how many there are; (0, 0) if every word can be spelled."""
        ...
