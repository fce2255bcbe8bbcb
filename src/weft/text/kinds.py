"""The kinds of tokenizers: one function that trains any of them, one that reads any of them from its file."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from sentencepiece import SentencePieceProcessor

from weft.errors import ModelError, Problem, UsageError, refuse_one_string
from weft.text.characters import CharacterTokenizer, read_characters, train_characters
from weft.text.chinese import Script
from weft.text.normalization import Normalization
from weft.text.punctuation import Punctuation
from weft.text.sentencepiece_model import SentencePieceTokenizer, train_sentencepiece
from weft.text.tokenizer import Kind, Tokenizer
from weft.text.vocabulary import LARGEST_FILE, read_vocabulary
from weft.text.wordpiece import WordPieceTokenizer, train_wordpiece
from weft.text.words import WordTokenizer, train_words

SUFFIXES: dict[Kind, str] = {
    "bpe": ".model",
    "unigram": ".model",
    "wordpiece": ".txt",
    "characters": ".txt",
    "words": ".txt",
}
"""How the name of a kind's file ends: a SentencePiece model, or a vocabulary with one token a line."""


def train_tokenizer(
    texts: Iterable[str],
    *,
    kind: Kind,
    vocab_size: int,
    language: str,
    normalization: Normalization = "nfc",
    punctuation: Punctuation = "keep",
    script: Script = "keep",
    tags: Sequence[str] = (),
) -> tuple[Tokenizer, str | None]:
    """Train on these texts; also a message where the vocabulary had to be made smaller or larger than asked.

    The language may be two with + between them. The same texts in the same order give the same bytes. Raises UsageError
    for one string, CorpusError where there is no text at all, MissingExtraError where the kind needs a library that is
    not there.
    """
    refuse_one_string(texts, "train_tokenizer")
    match kind:
        case "bpe" | "unigram":
            return train_sentencepiece(
                texts,
                kind=kind,
                vocab_size=vocab_size,
                language=language,
                normalization=normalization,
                punctuation=punctuation,
                script=script,
                tags=tags,
            )
        case "wordpiece":
            train = train_wordpiece
        case "characters":
            train = train_characters
        case "words":
            train = train_words
        case _:
            refuse_kind(kind)
    return train(
        texts,
        vocab_size=vocab_size,
        language=language,
        normalization=normalization,
        punctuation=punctuation,
        script=script,
        tags=tags,
    )


def load_tokenizer(
    path: Path,
    *,
    kind: Kind,
    language: str,
    normalization: Normalization = "nfc",
    punctuation: Punctuation = "keep",
    script: Script = "keep",
) -> Tokenizer:
    """Read a tokenizer's file; raises ModelError where it cannot be read or is no such file, naming what is wrong."""
    try:
        if (size := path.stat().st_size) > LARGEST_FILE:
            raise ModelError(path, [Problem(path.name, f"has {size:,} bytes, more than {LARGEST_FILE:,}")])
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(path, [Problem(path.name, f"cannot be read: {error.strerror}")]) from None
    return read_tokenizer(
        data, path, kind=kind, language=language, normalization=normalization, punctuation=punctuation, script=script
    )


def read_tokenizer(
    data: bytes,
    path: Path,
    *,
    kind: Kind,
    language: str,
    normalization: Normalization = "nfc",
    punctuation: Punctuation = "keep",
    script: Script = "keep",
) -> Tokenizer:
    """The tokenizer in these bytes, which are those of `path`; raises ModelError where they are no such file."""
    match kind:
        case "bpe" | "unigram":
            return SentencePieceTokenizer(
                data, kind=kind, normalization=normalization, punctuation=punctuation, script=script, path=path
            )
        case "wordpiece":
            vocabulary = read_vocabulary(data, path)
            return WordPieceTokenizer(
                vocabulary, language=language, normalization=normalization, punctuation=punctuation, script=script
            )
        case "characters":
            vocabulary = read_characters(data, path)
            return CharacterTokenizer(vocabulary, normalization=normalization, punctuation=punctuation, script=script)
        case "words":
            vocabulary = read_vocabulary(data, path)
            return WordTokenizer(
                vocabulary, language=language, normalization=normalization, punctuation=punctuation, script=script
            )
        case _:
            refuse_kind(kind)


def refuse_kind(kind: object) -> NoReturn:
    raise UsageError(f"there is no tokenizer of the kind {kind}; there are {', '.join(SUFFIXES)}")


def pieces_of(tokenizer: Tokenizer, kind: Kind) -> list[str]:
    """The piece of each id."""
    if SUFFIXES[kind] == ".txt":
        return tokenizer.model.decode().split("\n")[:-1]
    processor = SentencePieceProcessor(model_proto=tokenizer.model)
    return processor.id_to_piece(list(range(tokenizer.vocab_size)))
