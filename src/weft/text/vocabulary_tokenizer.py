"""The common part of tokenizers whose file is a vocabulary, one token per line: all but SentencePiece's."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Unpack

from weft.text.normalization import Forms, in_forms
from weft.text.vocabulary import Vocabulary


class VocabularyTokenizer(ABC):
    """A vocabulary with its normalization; the methods are those of `Tokenizer`."""

    def __init__(self, vocabulary: Vocabulary, **forms: Unpack[Forms]) -> None:
        self.vocabulary = vocabulary
        self.forms = forms

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[list[int]]: ...

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary.tokens)

    @property
    def model(self) -> bytes:
        return self.vocabulary.as_file

    def normalize(self, text: str) -> str:
        return in_forms(text, **self.forms)

    def pieces(self, text: str) -> list[str]:
        return [self.vocabulary.tokens[i] for i in self.encode([text])[0]]

    def ids_of(self, pieces: Sequence[str]) -> list[int | None]:
        return [self.vocabulary.ids.get(piece) for piece in pieces]

    def tag_id(self, tag: str) -> int | None:
        return self.vocabulary.tag_id(tag)
