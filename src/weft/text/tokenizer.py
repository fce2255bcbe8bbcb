"""What every tokenizer promises.

A tokenizer turns a string into ids and back. It owns everything that happens to a string on the way (Unicode form,
punctuation, Chinese script), so that a model folder that carries its tokenizer carries its preprocessing.
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
        """The file that it can be read from again; the same bytes are the same pieces under the same ids."""
        ...

    def normalize(self, text: str) -> str:
        """The text as it is cut into pieces; decode(encode(text)) equals it where no piece is unknown."""
        ...

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without <s> and </s>; nothing that a text contains becomes a special id."""
        ...

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of each list of ids; special ids and tags are left out, an unknown piece reads U+2047."""
        ...

    def pieces(self, text: str) -> list[str]:
        """The pieces that a text is cut into, as strings without spaces; they are those of its ids, one for one."""
        ...

    def ids_of(self, pieces: Sequence[str]) -> list[int | None]:
        """The id of each piece; None for a string that is no piece."""
        ...

    def tag_id(self, tag: str) -> int | None:
        """The id of a tag that the vocabulary was made with, which no text becomes; None for any other string."""
        ...

    def count_unknown(self, ids: Sequence[Sequence[int]]) -> tuple[int, int]:
        """How many words of encoded texts are unknown, and how many there are; (0, 0) where all can be spelled."""
        ...
