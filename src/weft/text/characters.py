"""Characters as tokens: the most frequent ones as such, all others as their UTF-8 bytes, so none is unknown."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Unpack

from weft.errors import ModelError, Problem, refuse_one_string
from weft.text.normalization import PIECE_MARK, Forms, in_forms
from weft.text.vocabulary import (
    SPECIAL_PIECES,
    UNKNOWN_ID,
    UNKNOWN_TEXT,
    count_tokens,
    is_tag,
    most_frequent,
    read_vocabulary,
)
from weft.text.vocabulary_tokenizer import VocabularyTokenizer

BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))


class CharacterTokenizer(VocabularyTokenizer):
    """A tokenizer over a vocabulary of characters. A space is written as U+2581."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        refuse_one_string(texts, "encode")
        return [[i for character in self.normalize(text) for i in self._spell(character)] for text in texts]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        return [b"".join(self._bytes[int(i)] for i in sentence).decode(errors="replace") for sentence in ids]

    def count_unknown(self, ids: Sequence[Sequence[int]]) -> tuple[int, int]:
        return 0, 0

    def _spell(self, character: str) -> Sequence[int]:
        known = self.vocabulary.ids.get(PIECE_MARK if character == " " else character)
        return [known] if known is not None else [self.vocabulary.ids[BYTES[byte]] for byte in character.encode()]

    @cached_property
    def _bytes(self) -> list[bytes]:
        """The UTF-8 bytes that each id adds to a text."""
        meanings = {**dict.fromkeys(SPECIAL_PIECES, b""), **{piece: bytes([n]) for n, piece in enumerate(BYTES)}}
        meanings |= {SPECIAL_PIECES[UNKNOWN_ID]: UNKNOWN_TEXT.encode(), PIECE_MARK: b" "}
        return [
            meanings[token] if token in meanings else b"" if is_tag(token) else token.encode()
            for token in self.vocabulary.tokens
        ]


def train_characters(
    texts: Iterable[str],
    *,
    vocab_size: int,
    language: str,
    tags: Sequence[str] = (),
    **forms: Unpack[Forms],
) -> tuple[CharacterTokenizer, str | None]:
    """The most frequent characters of these texts; also returns a message if they are fewer than asked for.

    Raises CorpusError if there is no text at all.
    """
    counts = count_tokens((in_forms(text, **forms).replace(" ", PIECE_MARK) for text in texts), language)
    first = (*SPECIAL_PIECES, *tags, *BYTES)
    vocabulary, message = most_frequent(counts, after=first, vocab_size=vocab_size, language=language)
    return CharacterTokenizer(vocabulary, **forms), message


def read_characters(data: bytes, path: Path, *, language: str, **forms: Unpack[Forms]) -> CharacterTokenizer:
    """The tokenizer in a file of characters and all 256 bytes; raises ModelError with every line that is wrong."""
    vocabulary = read_vocabulary(data, path)
    others = {*SPECIAL_PIECES, *BYTES}
    problems = [
        Problem(f"line {number}", "is neither one character, a byte such as <0x41>, nor a tag such as <bt>")
        for number, token in enumerate(vocabulary.tokens, start=1)
        if len(token) > 1 and token not in others and not is_tag(token)
    ]
    if missing := [byte for byte in BYTES if byte not in vocabulary.ids]:
        problems.append(Problem("the file", f"lacks {len(missing)} of the 256 bytes, such as {missing[0]}"))
    if problems:
        raise ModelError(path, problems)
    return CharacterTokenizer(vocabulary, **forms)
