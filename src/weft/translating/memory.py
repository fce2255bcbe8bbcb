"""A translation memory: sentences with their earlier translations, and the search for similar ones.

    TranslationMemory    finds exact matches by look-up, similar ones with an index
    read_memory          reads a memory from a TMX file or any other file of pairs
    as_memory            converts a dict, a file or a TranslationMemory

Sentences are compared as the model reads them, so Traditional script matches Simplified. The similarity of two
sentences is based on the edit distance between their words, or their characters in a language without spaces:

    similarity = 1 - distance / length of the longer one

An index returns how many words each sentence shares with a new one. This number over the longer length bounds the
similarity, so of 100,000 sentences only a few have to be compared.
"""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappush, heappushpop
from pathlib import Path

import numpy as np
from jaxtyping import Int

from weft.data.corpus import read_rows
from weft.data.pair_files import ONE_TABLE, Reading
from weft.errors import Problem, UsageError, is_count
from weft.text.language import is_written_without_spaces
from weft.text.normalization import is_blank
from weft.translating.glossary import pairs_of

LEAST = 0.7
"""The similarity from which an earlier translation is useful to a human translator."""
WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Match:
    """A sentence of the memory and its translation. The similarity is from 0 to 1; 1 is an exact match."""

    source: str
    target: str
    similarity: float


class TranslationMemory:
    """Pairs of sentences, indexed by source; sources are compared after `normalize`."""

    def __init__(
        self, pairs: Sequence[tuple[str, str]], languages: tuple[str, str], normalize: Callable[[str], str]
    ) -> None:
        self.languages, self.normalize = languages, normalize
        units: dict[str, dict[str, str]] = {}  # normalized source -> target -> source as it was first written
        for source, target in pairs:
            units.setdefault(normalize(source), {}).setdefault(target.strip(), source)
        self.units = {
            key: [Match(source, target, 1.0) for target, source in of_key.items()] for key, of_key in units.items()
        }

    def __len__(self) -> int:
        """Number of different sources."""
        return len(self.units)

    @property
    def digest(self) -> str:
        """The sha256 of the pairs. It does not depend on the order of the sources, but on the order of the translations
        of each, since the first one is preferred."""
        pairs = sorted((key, [(match.source, match.target) for match in of_key]) for key, of_key in self.units.items())
        return hashlib.sha256(json.dumps([self.languages, pairs], ensure_ascii=False).encode()).hexdigest()

    def exact(self, text: str) -> list[Match]:
        """All translations of a sentence, in the order of the file, without repetitions."""
        key = self.normalize(text)
        return self.units.get(key, []) if key else []

    def similar(self, text: str, *, best: int = 3, least: float = LEAST) -> list[Match]:
        """Find up to `best` matches of at least this similarity, most similar first, ties in the order of the file.
        Raises UsageError if `best` is not a positive integer."""
        if not is_count(best):
            raise UsageError(f"best is a number from 1, found {best!r}")
        tokens = self.tokens_of(self.normalize(text))
        if not tokens:
            return []
        keys = list(self.units)
        longest = np.maximum(self._index.lengths, len(tokens))
        bounds = self._index.shared(tokens) / longest
        candidates = np.flatnonzero(bounds >= least - 1e-9)
        pattern = Pattern(tokens)
        found: list[tuple[float, int]] = []  # a heap with the worst match first
        for number in candidates[np.argsort(-bounds[candidates], kind="stable")].tolist():
            if len(found) == best and bounds[number] < found[0][0] - 1e-9:
                break
            similarity = 1 - pattern.distance(self.tokens_of(keys[number])) / int(longest[number])
            if similarity >= least - 1e-9:  # 1 - 9 / 10 is a little less than 0.1
                (heappush if len(found) < best else heappushpop)(found, (similarity, -number))
        ranked = [(similarity, keys[-number]) for similarity, number in sorted(found, reverse=True)]
        matches = [
            Match(match.source, match.target, similarity) for similarity, key in ranked for match in self.units[key]
        ]
        return matches[:best]

    def tokens_of(self, text: str) -> list[str]:
        """The units of comparison in a normalized text: words and signs, or characters in a language without spaces."""
        if is_written_without_spaces(self.languages[0]):
            return list(text.replace(" ", ""))
        return WORD.findall(text)

    @cached_property
    def _index(self) -> "Index":
        return Index([self.tokens_of(key) for key in self.units])


def read_memory(
    path: str | os.PathLike[str], languages: tuple[str, str], normalize: Callable[[str], str]
) -> TranslationMemory:
    """Read a TSV or CSV with the two language codes in its header, a JSONL with these keys, or a TMX file, also .gz.

    Raises CorpusError with every invalid line.
    """
    path = Path(path)
    reading = Reading(path.name, "its header has to name the two languages of the model", ONE_TABLE)
    pairs = []
    for number, source, targets in read_rows(path, languages, reading):
        if not (is_blank(source) or is_blank(targets[0])):
            pairs.append((source, targets[0]))
        else:
            reading.add(number, f"the {languages[not is_blank(source)]} side is empty; fill it or remove it")
    if not pairs and not reading.problems:
        reading.problems.append(Problem("the whole file", "holds no pair of sentences"))
    reading.raise_problems()
    return TranslationMemory(pairs, languages, normalize)


Remembered = TranslationMemory | Mapping[str, str | Sequence[str]] | str | os.PathLike[str]
"""The types that `as_memory` accepts; a string is the path of a file."""


def as_memory(given: Remembered, languages: tuple[str, str], normalize: Callable[[str], str]) -> TranslationMemory:
    """Convert a dict such as {"你好。": "Hello."}, with a list for several translations, or the path of a file to a
    memory; a TranslationMemory is returned unchanged.

    Raises UsageError for other types and for a memory of other languages, CorpusError as `read_memory` does.
    """
    if isinstance(given, (str, os.PathLike)):
        return read_memory(given, languages, normalize)
    if isinstance(given, Mapping):
        return TranslationMemory(list(pairs_of(given, "a sentence")), languages, normalize)
    if not isinstance(given, TranslationMemory):
        found = type(given).__name__
        raise UsageError(f"a memory is a dict of sentences, the path of a file or a TranslationMemory, found {found}")
    if given.languages != languages:
        raise UsageError(f"the memory is for {' -> '.join(given.languages)}, the model for {' -> '.join(languages)}")
    return given


class Index:
    """Maps each token, counting its second, third ... occurrence in a sentence separately, to the sentences with it."""

    def __init__(self, sentences: Sequence[Sequence[str]]) -> None:
        self.lengths = np.array([len(tokens) for tokens in sentences], dtype=np.int64)
        self.numbers: dict[tuple[str, int], int] = {}
        numbers = [self._number(counted) for tokens in sentences for counted in occurrences(tokens)]
        owners = np.repeat(np.arange(len(sentences), dtype=np.int32), self.lengths)
        by_number = np.argsort(np.array(numbers, dtype=np.int64), kind="stable")
        self.holders = owners[by_number]
        counts = np.bincount(numbers, minlength=len(self.numbers)) if numbers else np.zeros(0, dtype=np.int64)
        self.begins = np.concatenate([[0], counts.cumsum()])

    def shared(self, tokens: Sequence[str]) -> Int[np.ndarray, " sentences"]:
        """The size of the multiset intersection of these tokens with each sentence."""
        known = [self.numbers[counted] for counted in occurrences(tokens) if counted in self.numbers]
        holders = [self.holders[self.begins[number] : self.begins[number + 1]] for number in known]
        return np.bincount(np.concatenate([np.zeros(0, dtype=np.int32), *holders]), minlength=len(self.lengths))

    def _number(self, counted: tuple[str, int]) -> int:
        return self.numbers.setdefault(counted, len(self.numbers))


def occurrences(tokens: Sequence[str]) -> list[tuple[str, int]]:
    """Each token with the number of its earlier occurrences."""
    before: Counter[str] = Counter()
    found = []
    for token in tokens:
        found.append((token, before[token]))
        before[token] += 1
    return found


class Pattern:
    """Computes the edit distance of a sequence to others with bit vectors, one column of the table per step (Myers
    1999, in the form of Hyyrö 2003). Bit i of a number belongs to token i."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.length = len(tokens)
        self.places: dict[str, int] = {}
        for place, token in enumerate(tokens):
            self.places[token] = self.places.get(token, 0) | 1 << place

    def distance(self, other: Sequence[str]) -> int:
        """The least number of insertions, deletions and substitutions that turn one sequence into the other."""
        if not self.length:
            return len(other)
        everywhere, last = (1 << self.length) - 1, 1 << (self.length - 1)
        rises, falls = everywhere, 0  # where the column increases or decreases by one
        distance = self.length
        for token in other:
            equal = self.places.get(token, 0)
            diagonal = (((equal & rises) + rises) ^ rises) | equal | falls
            right_rises = falls | ~(diagonal | rises)
            right_falls = diagonal & rises
            distance += bool(right_rises & last) - bool(right_falls & last)
            right_rises = right_rises << 1 | 1
            right_falls <<= 1
            rises = (right_falls | ~(diagonal | right_rises)) & everywhere
            falls = right_rises & diagonal & everywhere
        return distance
