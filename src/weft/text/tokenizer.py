"""What every tokenizer promises, and the recipe table that chooses one.

A tokenizer turns a string into ids and back. It owns everything that happens to a string on the way (Unicode form,
Chinese script), so that a model folder that carries its tokenizer carries its preprocessing.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from pydantic import Field, model_validator

from weft.config import FieldProblem, Settings
from weft.text.chinese import is_chinese
from weft.text.normalization import Normalization

SMALLEST_VOCABULARY = 261
"""Four special pieces, the 256 bytes, and one character."""


@runtime_checkable
class Tokenizer(Protocol):
    @property
    def vocab_size(self) -> int:
        """Number of ids; 0 ... 3 are padding, unknown, begin and end (see vocabulary.py)."""
        ...

    def normalize(self, text: str) -> str:
        """The text as it is cut into pieces; decode(encode(text)) equals it."""
        ...

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without <s> and </s>; nothing that a text contains becomes a special id."""
        ...

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of each list of ids; special ids and tags are left out."""
        ...

    def tag_id(self, tag: str) -> int | None:
        """The id of a tag that the vocabulary was made with, which no text becomes; None for any other string."""
        ...


class TokenizerConfig(Settings):
    kind: Literal["bpe", "unigram"] = "bpe"
    """How pieces are found: byte-pair merges, or a unigram language model (both by SentencePiece)."""
    source_size: int | None = Field(default=None, ge=SMALLEST_VOCABULARY, le=256_000)
    """Pieces of the source vocabulary; left out, it is chosen from the corpus size."""
    target_size: int | None = Field(default=None, ge=SMALLEST_VOCABULARY, le=256_000)
    """Pieces of the target vocabulary; left out, it is chosen from the corpus size."""
    shared: bool = False
    """One vocabulary of source_size pieces for both languages (needed for model.tie = "all")."""
    normalization: Normalization = "nfc"
    """Unicode form of all text: nfc keeps full-width forms and ligatures apart, nfkc folds them."""
    source_script: Literal["auto", "keep", "simplified", "traditional"] = "auto"
    """Script that Chinese source text is converted to; auto: simplified where the source is Chinese."""
    target_script: Literal["auto", "keep", "simplified", "traditional"] = "auto"
    """Script that Chinese target text is converted to for training; auto: keep."""

    @model_validator(mode="after")
    def _one_size_for_one_vocabulary(self) -> "TokenizerConfig":
        if self.shared and self.target_size not in (None, self.source_size):
            raise FieldProblem("target_size", "must equal source_size, or be left out, where the vocabulary is shared")
        return self


def choose_scripts(config: TokenizerConfig, source_language: str) -> dict[str, str]:
    """What `auto` means for the two script keys, for those that say so."""
    chosen = {"source_script": "simplified" if is_chinese(source_language) else "keep", "target_script": "keep"}
    return {key: value for key, value in chosen.items() if getattr(config, key) == "auto"}
