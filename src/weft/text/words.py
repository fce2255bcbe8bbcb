"""Whole words as tokens. A word outside the vocabulary is one <unk>.

A word is a run of letters with their marks, including apostrophes inside; a number with the points, commas and colons
between its digits; or any other single character. In Chinese, Han characters are split into words by jieba's method
(the rjieba library); in other languages each stands alone. U+2581 before a word marks a space before it, so that
joining is lossless. The first word of a text has it too unless it is Han or a sign: otherwise a word would be another
token at the beginning of a sentence than inside.

The kind `whitespace` takes the text as it is spaced: a word is whatever stands between two spaces.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, groupby
from pathlib import Path
from typing import Unpack

from weft.errors import MissingExtraError, refuse_one_string
from weft.text.chinese import HAN, IS_HAN, is_chinese
from weft.text.normalization import PIECE_MARK, Forms, in_forms
from weft.text.vocabulary import (
    SPECIAL_PIECES,
    UNKNOWN_ID,
    UNKNOWN_TEXT,
    Vocabulary,
    count_tokens,
    is_tag,
    most_frequent,
    read_vocabulary,
)
from weft.text.vocabulary_tokenizer import VocabularyTokenizer

Cut = Callable[[str], Iterable[str]]


class WordTokenizer(VocabularyTokenizer):
    """A tokenizer over a vocabulary of words, into which `cut` splits a normalized text."""

    def __init__(self, vocabulary: Vocabulary, *, cut: Cut, **forms: Unpack[Forms]) -> None:
        super().__init__(vocabulary, **forms)
        self._cut = cut
        spoken = {SPECIAL_PIECES[UNKNOWN_ID]: UNKNOWN_TEXT}
        silent = {token for token in vocabulary.tokens if token in SPECIAL_PIECES or is_tag(token)}
        self._texts = [spoken.get(token, "" if token in silent else token) for token in vocabulary.tokens]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        refuse_one_string(texts, "encode")
        ids = self.vocabulary.ids
        return [[ids.get(word, UNKNOWN_ID) for word in self._cut(self.normalize(text))] for text in texts]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        return [self._join(sentence) for sentence in ids]

    def count_unknown(self, ids: Sequence[Sequence[int]]) -> tuple[int, int]:
        return sum(sentence.count(UNKNOWN_ID) for sentence in ids), sum(map(len, ids))

    def _join(self, ids: Sequence[int]) -> str:
        """The words one after another. An unknown one has lost its mark; a space comes before it, but not behind a Han
        character where words are not cut at spaces."""
        text = ""
        for i in ids:
            if i == UNKNOWN_ID and text and (self._cut is cut_at_spaces or not IS_HAN.match(text[-1])):
                text += PIECE_MARK
            text += self._texts[int(i)]
        return text.replace(PIECE_MARK, " ").removeprefix(" ")


def train_words(
    texts: Iterable[str],
    *,
    vocab_size: int,
    language: str,
    tags: Sequence[str] = (),
    at_spaces: bool = False,
    **forms: Unpack[Forms],
) -> tuple[WordTokenizer, str | None]:
    """The most frequent words of these texts; also returns a message if they are fewer than asked for.

    Raises CorpusError if there is no text at all.
    """
    cut = cut_at_spaces if at_spaces else word_cutter(language)
    counts = count_tokens((cut(in_forms(text, **forms)) for text in texts), language)
    first = (*SPECIAL_PIECES, *tags)
    vocabulary, message = most_frequent(counts, after=first, vocab_size=vocab_size, language=language)
    return WordTokenizer(vocabulary, cut=cut, **forms), message


def read_words(
    data: bytes, path: Path, *, language: str, at_spaces: bool = False, **forms: Unpack[Forms]
) -> WordTokenizer:
    """The tokenizer in a file of words; raises ModelError with every line that is wrong."""
    cut = cut_at_spaces if at_spaces else word_cutter(language)
    return WordTokenizer(read_vocabulary(data, path), cut=cut, **forms)


def cut_at_spaces(text: str) -> Iterator[str]:
    """The words of a normalized text, each with its mark."""
    return (PIECE_MARK + word for word in text.split())


def with_marks(words: Sequence[str]) -> tuple[str, ...]:
    """The tokens of a vocabulary of the kind `whitespace` with these words, of which the first are the special ones."""
    special = len(SPECIAL_PIECES)
    return (*words[:special], *(PIECE_MARK + word for word in words[special:]))


def spaced_words(tokens: Sequence[str]) -> tuple[str, ...]:
    """The words of such a vocabulary, as they are in a text."""
    return tuple(token.removeprefix(PIECE_MARK) for token in tokens)


def word_cutter(language: str) -> Cut:
    """`cut_words` for a language, or for several joined by +.

    Raises MissingExtraError if one of them is Chinese and rjieba is not installed.
    """
    return partial(cut_words, cut_han=han_cutter(language))


def cut_words(text: str, cut_han: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """The words of a normalized text; joined, with a space for each mark except at the start, they are the text."""
    for found in word_pattern().finditer(text):
        space, word = found[1], found[2]
        starts_as_inside = not found.start() and (word[0].isalnum() and not IS_HAN.match(word))
        mark = PIECE_MARK if space or starts_as_inside else ""
        words = cut_han(word) if IS_HAN.match(word) else [word]
        for part in words:
            yield mark + part
            mark = ""


@cache
def word_pattern() -> re.Pattern[str]:
    """The pattern of an optional space and a word as in the module's docstring, or a whole run of Han characters."""
    letter = rf"[^\W\d_{HAN}]"
    run = f"{letter}(?:{letter}|[{mark_ranges()}])*"
    return re.compile(rf"( ?)([{HAN}]+|{run}(?:['\u2019]{run})*|\d+(?:[.,:]\d+)*|[^ ])")


@cache
def mark_ranges() -> str:
    """All characters of category M (accents, vowel signs), as the inside of a character class; `re` has none."""
    codes = chain(range(0x300, 0x20000), range(0xE0000, 0xE1000))  # there are none between them
    marks = (code for code in codes if unicodedata.category(chr(code))[0] == "M")
    runs = [[code for _, code in run] for _, run in groupby(enumerate(marks), key=lambda pair: pair[1] - pair[0])]
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs)


def han_cutter(language: str) -> Callable[[str], Iterable[str]]:
    """A function that splits a run of Han characters into words, in order."""
    if not any(is_chinese(code) for code in language.split("+")):
        return list
    cut_chinese("")
    return cut_chinese


def cut_chinese(run: str) -> list[str]:
    """The words of a run of Han characters. Unlike the library's own function, this one can be pickled."""
    try:
        import rjieba
    except ImportError:
        raise MissingExtraError("rjieba, which cuts Chinese into words,", "zh") from None
    return rjieba.cut(run)
