"""The recipe table that chooses and configures the tokenizers."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from weft.config import FieldProblem, Settings
from weft.text.chinese import is_chinese
from weft.text.kinds import KINDS, Kind
from weft.text.normalization import Normalization
from weft.text.punctuation import Punctuation

SMALLEST, SMALLEST_WITH_BYTES = 5, 261
"""Four special pieces and one character; and the 256 bytes, if the kind spells what it lacks in them."""


class TokenizerConfig(Settings):
    kind: Kind = "bpe"
    """Kind of pieces: bpe (byte-pair merges), unigram (a unigram language model), wordpiece (as in BERT), characters,
    words, or whitespace (words as the text is spaced)."""
    source_size: int | None = Field(default=None, ge=SMALLEST, le=256_000)
    """Number of pieces in the source vocabulary; by default chosen from the corpus size."""
    target_size: int | None = Field(default=None, ge=SMALLEST, le=256_000)
    """Number of pieces in the target vocabulary; by default chosen from the corpus size."""
    source_vocabulary: str | None = Field(default=None, min_length=1)
    """A vocab.txt of BERT to use for the source instead of learning WordPiece pieces; relative to the data root."""
    target_vocabulary: str | None = Field(default=None, min_length=1)
    """A vocab.txt of BERT to use for the target instead of learning WordPiece pieces; relative to the data root."""
    shared: bool = False
    """Use one vocabulary of source_size pieces for both languages (required for model.tie = "all")."""
    cut_apart: bool = False
    """Split each language with its own SentencePiece model into pieces of the shared vocabulary. Only `weft import`
    makes such models."""
    normalization: Normalization = "nfc"
    """Unicode form of all text: nfc keeps full-width forms and ligatures, nfkc replaces them, folded also removes
    format characters and lowercases a sentence that is all capitals."""
    source_punctuation: Punctuation = "keep"
    """Form of quotation marks, dashes, ellipses and wide punctuation in the source: keep, ascii or chinese."""
    target_punctuation: Punctuation = "keep"
    """Form of punctuation in target text for training, and so in translations; references are not changed."""
    source_script: Literal["auto", "keep", "simplified", "traditional"] = "auto"
    """Script to convert Chinese source text to; auto means simplified."""
    target_script: Literal["auto", "keep", "simplified", "traditional"] = "auto"
    """Script to convert Chinese target text to for training; auto means keep."""
    copying: bool = False
    """Copy numbers, addresses and codes from the source into the translation, by symbols that replace them in training
    pairs. The translation ends with a full stop if the source does."""

    def misfits(self) -> Iterator[FieldProblem]:
        if self.shared and self.target_size not in (None, self.source_size):
            yield FieldProblem("target_size", "must equal source_size or be left out if the vocabulary is shared")
        if self.shared and self.target_vocabulary is not None:
            what = "cannot be set if the vocabulary is shared; set source_vocabulary only"
            yield FieldProblem("target_vocabulary", what)
        kind = KINDS[self.kind]
        if self.cut_apart and not (self.shared and kind.suffix == ".model"):
            yield FieldProblem("cut_apart", 'needs shared = true and kind = "bpe" or "unigram"; leave it out')
        if self.copying and kind.suffix != ".model":
            yield FieldProblem("copying", 'needs kind = "bpe" or "unigram"; leave it out')
        for side in ("source", "target"):
            size = getattr(self, f"{side}_size")
            if size is not None and size < SMALLEST_WITH_BYTES and kind.spells_bytes:
                what = f'for kind = "{self.kind}", whose vocabulary includes all bytes'
                yield FieldProblem(f"{side}_size", f"must be at least {SMALLEST_WITH_BYTES} {what}")
            if getattr(self, f"{side}_vocabulary") is not None and self.kind != "wordpiece":
                what = f'needs kind = "wordpiece"; kind = "{self.kind}" learns its vocabulary'
                yield FieldProblem(f"{side}_vocabulary", what)

    @property
    def vocabularies(self) -> tuple[str, ...]:
        """The vocabulary files named in the recipe, each once."""
        named = (self.source_vocabulary, self.target_vocabulary)
        return tuple(dict.fromkeys(name for name in named if name is not None))


def choose_scripts(config: TokenizerConfig, source_language: str) -> dict[str, str]:
    """The values of the script keys that are `auto`."""
    chosen = {"source_script": "simplified" if is_chinese(source_language) else "keep", "target_script": "keep"}
    return {key: value for key, value in chosen.items() if getattr(config, key) == "auto"}
