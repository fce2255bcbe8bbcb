"""The kinds of tokenizers: a table of all that is asked of a kind, and how any of them is trained and read.

A new kind is a file with its tokenizer, an entry here, and a choice of `weft tokenize --kind` (cli/tokenize.py).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, Unpack

from sentencepiece import SentencePieceProcessor

from weft.errors import ModelError, Problem, UsageError, refuse_one_string
from weft.text.characters import read_characters, train_characters
from weft.text.normalization import Forms
from weft.text.sentencepiece_model import read_sentencepiece, train_sentencepiece
from weft.text.tokenizer import Tokenizer
from weft.text.vocabulary import LARGEST_FILE
from weft.text.wordpiece import CONTINUED, check_tokenizers, read_wordpiece, train_wordpiece
from weft.text.words import read_words, train_words

Kind = Literal["bpe", "unigram", "wordpiece", "characters", "words", "whitespace"]


@dataclass(frozen=True)
class TokenizerKind:
    """What is asked of a kind of tokenizer."""

    train: Callable[..., tuple[Tokenizer, str | None]]
    """Arguments and result as those of `train_tokenizer`, without the kind."""
    read: Callable[..., Tokenizer]
    """Arguments and result as those of `read_tokenizer`, without the kind."""
    suffix: Literal[".model", ".txt"] = ".txt"
    """Suffix of its file: a SentencePiece model, or a vocabulary with one token per line."""
    spells_bytes: bool = False
    """Whether a character without a piece is spelled in UTF-8 bytes, all 256 of which are in the vocabulary."""
    needs_language: bool = False
    """Whether text is first split into words, by rules of its language."""
    whole_words: bool = False
    """Whether each piece is a word."""
    check: Callable[[], object] = lambda: None
    """Raises MissingExtraError without a library that every use needs."""
    continued: str = ""
    """The prefix of a piece that continues a word; if empty, a U+2581 marks the space before a word instead."""


KINDS: dict[Kind, TokenizerKind] = {
    "bpe": TokenizerKind(
        partial(train_sentencepiece, kind="bpe"), partial(read_sentencepiece, kind="bpe"), ".model", spells_bytes=True
    ),
    "unigram": TokenizerKind(
        partial(train_sentencepiece, kind="unigram"),
        partial(read_sentencepiece, kind="unigram"),
        ".model",
        spells_bytes=True,
    ),
    "wordpiece": TokenizerKind(
        train_wordpiece, read_wordpiece, needs_language=True, check=check_tokenizers, continued=CONTINUED
    ),
    "characters": TokenizerKind(train_characters, read_characters, spells_bytes=True),
    "words": TokenizerKind(train_words, read_words, needs_language=True, whole_words=True),
    "whitespace": TokenizerKind(
        partial(train_words, at_spaces=True), partial(read_words, at_spaces=True), whole_words=True
    ),
}


def train_tokenizer(
    texts: Iterable[str],
    *,
    kind: Kind,
    vocab_size: int,
    language: str,
    tags: Sequence[str] = (),
    symbols: Sequence[str] = (),
    **forms: Unpack[Forms],
) -> tuple[Tokenizer, str | None]:
    """Train a tokenizer on these texts; also returns a message if the vocabulary is smaller or larger than asked.

    The language may be two joined by +. Each of `symbols` (for bpe and unigram) is a piece wherever a text has it. The
    same texts in the same order give the same bytes. Raises UsageError for a single string, CorpusError if there is no
    text at all, MissingExtraError if the kind needs a library that is not installed.
    """
    refuse_one_string(texts, "train_tokenizer")
    own = {"symbols": symbols} if symbols else {}
    return find_kind(kind).train(texts, vocab_size=vocab_size, language=language, tags=tags, **own, **forms)


def load_tokenizer(path: Path, *, kind: Kind, language: str, **forms: Unpack[Forms]) -> Tokenizer:
    """Read a tokenizer from its file; raises ModelError if it cannot be read or is not such a file, with the reason."""
    try:
        if (size := path.stat().st_size) > LARGEST_FILE:
            raise ModelError(path, [Problem(path.name, f"has {size:,} bytes, more than {LARGEST_FILE:,}")])
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(path, [Problem(path.name, f"cannot be read: {error.strerror}")]) from None
    return read_tokenizer(data, path, kind=kind, language=language, **forms)


def read_tokenizer(data: bytes, path: Path, *, kind: Kind, language: str, **forms: Unpack[Forms]) -> Tokenizer:
    """Read a tokenizer from the bytes of `path`; raises ModelError if they are not such a file."""
    return find_kind(kind).read(data, path, language=language, **forms)


def find_kind(kind: Kind) -> TokenizerKind:
    if kind not in KINDS:
        raise UsageError(f"there is no tokenizer of the kind {kind}; there are {', '.join(KINDS)}")
    return KINDS[kind]


def pieces_of(tokenizer: Tokenizer, kind: Kind) -> list[str]:
    """The piece of each id."""
    if KINDS[kind].suffix == ".txt":
        return tokenizer.model.decode().split("\n")[:-1]
    processor = SentencePieceProcessor(model_proto=tokenizer.model)
    return processor.id_to_piece(list(range(tokenizer.vocab_size)))
