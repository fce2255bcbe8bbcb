"""The special ids of every tokenizer, and a vocabulary as a list of tokens, stored as a text file.

How text is split into tokens is left to the tokenizers (characters.py, words.py, wordpiece.py).
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

from weft.errors import CorpusError, ModelError, Problem
from weft.files import decode_lines, split_lines

PADDING_ID, UNKNOWN_ID, BEGIN_ID, END_ID = range(4)
SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")
FIRST_PIECE = len(SPECIAL_PIECES)
"""The first id that is not a special one."""

UNKNOWN_TEXT = "\u2047"
"""The text of an unknown token, a double question mark, as in SentencePiece."""
MASK = "[MASK]"
"""The token that stands for a hidden one, as in BERT; a vocabulary has it if it was made with it."""
RESERVED = re.compile(r"<[A-Za-z][A-Za-z0-9_-]*>|\[MASK\]")
"""Tokens that stand for no text: the special ones except </s>, tags, and the mask."""

MOST_TOKENS = 1 << 18
LONGEST_TOKEN = 1000
"""Characters. Both limits are far beyond any vocabulary; they keep a corrupt file from filling the memory."""
LARGEST_FILE = 64 << 20
"""Bytes of the largest file that a tokenizer is read from."""


@dataclass(frozen=True)
class Vocabulary:
    """Tokens in the order of their ids; the first four are the special ones."""

    tokens: tuple[str, ...]

    @cached_property
    def ids(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}

    @property
    def as_file(self) -> bytes:
        """One token per line; each line ends with "\\n"."""
        return "".join(f"{token}\n" for token in self.tokens).encode()

    def tag_id(self, tag: str) -> int | None:
        return self.ids.get(tag) if is_tag(tag) else None


def is_tag(token: str) -> bool:
    """Whether a token stands for no text, apart from the four special ones."""
    return RESERVED.fullmatch(token) is not None and token not in SPECIAL_PIECES


def read_vocabulary(data: bytes, path: Path) -> Vocabulary:
    """The vocabulary in a file written by weft; raises ModelError, which names `path`, with all that is wrong."""
    tokens = read_tokens(data, path)
    wrong = [number for number, piece in enumerate(SPECIAL_PIECES) if tokens[number : number + 1] != [piece]]
    if wrong:
        what = f"must be {SPECIAL_PIECES[wrong[0]]}; a vocabulary begins with {' '.join(SPECIAL_PIECES)}, one per line"
        raise ModelError(path, [Problem(f"line {wrong[0] + 1}", what)])
    return Vocabulary(tuple(tokens))


def read_tokens(data: bytes, path: Path) -> list[str]:
    """The distinct tokens of a file with one per line; raises ModelError with every line that is wrong."""
    if is_sentencepiece(data):
        raise ModelError(path, [Problem("the file", "is a SentencePiece model, of the kind bpe or unigram")])
    lines = split_lines(data)
    if len(lines) > MOST_TOKENS:
        raise ModelError(
            path, [Problem("the file", f"has {len(lines):,} lines; a vocabulary has at most {MOST_TOKENS:,}")]
        )
    problems: list[Problem] = []
    first_at: dict[str, int] = {}
    for number, token in decode_lines(lines, problems):
        if what := what_is_wrong(token):
            problems.append(Problem(f"line {number}", what))
        elif token in first_at:
            problems.append(Problem(f"line {number}", f"repeats line {first_at[token]}; each token may occur once"))
        else:
            first_at[token] = number
    if not lines:
        problems.append(Problem("the file", "is empty; a vocabulary has one token per line"))
    if problems:
        raise ModelError(path, problems)
    return list(first_at)


def is_sentencepiece(data: bytes) -> bool:
    """Whether the data begins like a protocol buffer whose first field is a piece that begins with its text."""
    return data[:1] == data[2:3] == b"\n" and b"\0" in data


def what_is_wrong(token: str) -> str | None:
    if not token:
        return "is empty; remove the line"
    if len(token) > LONGEST_TOKEN:
        return f"has {len(token):,} characters; a token has at most {LONGEST_TOKEN:,}"
    if any(character <= " " or character == "\x7f" for character in token):
        return "holds a space or a control character; a token has neither"
    return None


def count_tokens(texts: Iterable[Iterable[str]], language: str) -> Counter[str]:
    """Count the tokens of all texts, each given by its tokens. Raises CorpusError if there are none."""
    if not (counts := Counter(chain.from_iterable(texts))):
        raise CorpusError("the training text", [Problem(language, "holds nothing to learn pieces from")])
    return counts


def most_frequent(
    counts: Counter[str], *, after: Sequence[str], vocab_size: int, language: str
) -> tuple[Vocabulary, str | None]:
    """The tokens in `after`, followed by the most frequent of the counted ones up to the size; and a message if there
    are fewer, or if `after` alone takes more. Equally frequent ones are sorted by code points. Tokens that a file
    cannot hold, such as a word of a thousand letters, are left out.
    """
    ranked = sorted((token for token in counts if not what_is_wrong(token)), key=lambda token: (-counts[token], token))
    tokens = (*after, *ranked[: max(0, vocab_size - len(after))])
    return Vocabulary(tokens), size_message(language, len(tokens), vocab_size)


def size_message(language: str, size: int, asked: int) -> str | None:
    """The message for a vocabulary that is smaller or larger than asked."""
    if size == asked:
        return None
    reason = "the corpus supports no more" if size < asked else "its characters alone need this many"
    return f"{language}: vocabulary of {size:,} pieces instead of {asked:,}: {reason}"
