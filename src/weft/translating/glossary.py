"""A glossary: terms of the source language and their required translations.

    Glossary        the terms, and the search for terms in a text
    as_glossary     converts a dict, a file or a Glossary
    phrases_of      the piece sequences by which a term may be written in a translation
    joins_of        pairs of pieces that make a longer word, of which a term must not be part

The search guarantees that a term appears (decoding/constraints.py). Terms are matched in any letter case; of two that
overlap in a text, such as Beijing and Beijing University, the longer one is used.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.data.corpus import read_rows
from weft.data.pair_files import ONE_TABLE, TABLES, XML, Reading, suffix_of
from weft.decoding.demands import Constraint, Joins, Phrase
from weft.errors import CorpusError, Problem, UsageError
from weft.text.kinds import KINDS, Kind, pieces_of
from weft.text.language import is_written_without_spaces
from weft.text.tokenizer import Tokenizer
from weft.text.word_ranges import BYTE, text_of
from weft.text.words import mark_ranges

ANCHORS = ("。", "，", ".", "a")
"""Texts that are put before a term to find its pieces where no space precedes it."""


@dataclass(frozen=True)
class Term:
    """A source term and its translations, one of which must appear."""

    source: str
    targets: tuple[str, ...]


WRITTEN_WITH_SPACES = "0-9A-Za-z\u00c0-\u024f\u0370-\u03ff\u0400-\u04ff"
"""Digits and letters (Latin, Greek, Cyrillic) that make words in a language without spaces too, as the inside of a
character class."""


def whole_words(terms: Sequence[str], language: str) -> str:
    """Return a regular expression that matches the first of the terms at a position, but not within a longer word.

    Where a term begins or ends with a sign, as C++ does, the word begins or ends there.
    """
    # Vowel signs belong to words.
    letter = f"[{WRITTEN_WITH_SPACES}]" if is_written_without_spaces(language) else rf"[\w{mark_ranges()}]"
    begins = {term: re.match(letter, term) is not None for term in terms}
    ended = {term: re.escape(term) + (f"(?!{letter})" if re.match(letter, term[-1]) else "") for term in terms}
    apart, anywhere = ("|".join(ended[term] for term in terms if begins[term] is wanted) for wanted in (True, False))
    return "|".join(filter(None, (f"(?<!{letter})(?:{apart})" if apart else "", anywhere)))


class Glossary:
    """Terms by their source; `languages` are the codes of source and target."""

    def __init__(self, pairs: Sequence[tuple[str, str]], languages: tuple[str, str]) -> None:
        self.languages = languages
        targets: dict[str, tuple[str, ...]] = {}
        for source, target in pairs:
            if not (key := folded(source)):
                continue  # empty after normalization, which would match everywhere
            targets[key] = tuple(dict.fromkeys((*targets.get(key, ()), " ".join(target.split()))))
        self.terms = {key: Term(key, of_term) for key, of_term in targets.items()}
        longest_first = sorted(self.terms, key=lambda key: (-len(key), key))
        # The longest term at each position, including those that overlap the one before.
        found = whole_words(longest_first, languages[0])
        self.pattern = re.compile(rf"(?=({found}))") if longest_first else None

    @property
    def digest(self) -> str:
        """The sha256 of the terms, whatever their order."""
        terms = sorted((term.source, *term.targets) for term in self.terms.values())
        return hashlib.sha256(json.dumps([self.languages, terms], ensure_ascii=False).encode()).hexdigest()

    def __len__(self) -> int:
        return len(self.terms)

    def normalized(self, normalize: Callable[[str], str]) -> "Glossary":
        """The glossary with its sources normalized, as for a model that reads only one Chinese script."""
        pairs = [(normalize(term.source), target) for term in self.terms.values() for target in term.targets]
        return Glossary(pairs, self.languages)

    def replaced_by(self, other: "Glossary") -> "Glossary":
        """The terms of both; where both have a source, those of the other."""
        terms = {**self.terms, **other.terms}.values()
        return Glossary([(term.source, target) for term in terms for target in term.targets], self.languages)

    def found_in(self, text: str) -> list[Term]:
        """The terms in a text, without repetitions, in the order of the text."""
        return list(dict.fromkeys(term for _, _, term in self.places_in(folded(text))))

    def places_in(self, text: str) -> list[tuple[int, int, Term]]:
        """Begin, end and term of each match in a folded text."""
        return [(begin, end, self.terms[text[begin:end]]) for begin, end in self._spans(text, 0, len(text))]

    def _spans(self, text: str, begin: int, end: int) -> list[tuple[int, int]]:
        """Spans of terms in text[begin:end]: the longest terms from left to right, and by recursion shorter ones
        between them. The depth is at most the number of different lengths."""
        found = [match.span(1) for match in self.pattern.finditer(text, begin, end)] if self.pattern else []
        longest = max((last - first for first, last in found), default=0)
        spans: list[tuple[int, int]] = []
        place = begin
        for first, last in found:
            if last - first == longest and first >= place:
                spans += [*self._spans(text, place, first), (first, last)]
                place = last
        return [*spans, *self._spans(text, place, end)] if spans else []

    def unspellable(self, tokenizer: Tokenizer) -> list[str]:
        """The translations that cannot be written with the pieces of a vocabulary."""
        targets = dict.fromkeys(target for term in self.terms.values() for target in term.targets)
        return [target for target in targets if not is_spellable(target, tokenizer)]


PLAIN_FORMS = {
    **{wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)},
    **dict.fromkeys(map(ord, "‘’ʼ′"), "'"),
    **dict.fromkeys(map(ord, "‐‑‒–−﹣"), "-"),
}
"""Full-width forms, apostrophes and hyphens, as ASCII has them."""


def folded(text: str) -> str:
    """The form in which terms are compared: lower case, half width, one form of apostrophes and hyphens, single spaces.
    The number of letters does not change."""
    text = text.translate(PLAIN_FORMS)
    small = "".join(character.lower() if len(character.lower()) == 1 else character for character in text)
    return " ".join(small.replace("ς", "σ").split())


def read_glossary(path: str | os.PathLike[str], languages: tuple[str, str]) -> Glossary:
    """Read a TSV or CSV with the two language codes in its header, a JSONL with these keys, a TBX or a TMX file.
    Sources may repeat.

    Raises CorpusError with every invalid line.
    """
    path = Path(path)
    if suffix_of(path.name) not in (*TABLES, *XML):
        what = "a glossary is a TSV, CSV or JSONL that names both languages in its header, or a TBX or TMX"
        raise CorpusError(path.name, [Problem("the file", what)])
    reading = Reading(path.name, "its header has to name the two languages of the model", ONE_TABLE)
    pairs = []
    for number, source, targets in read_rows(path, languages, reading):
        if not folded(source) or not folded(targets[0]):
            reading.add(number, "a term has an empty side")
        pairs.append((source, targets[0]))
    reading.raise_problems()
    return Glossary(pairs, languages)


Terms = Glossary | Mapping[str, str | Sequence[str]] | str | os.PathLike[str]
"""The types that `as_glossary` accepts; a string is the path of a file."""


def as_glossary(terms: Terms | None, languages: tuple[str, str]) -> Glossary | None:
    """Convert a dict such as {"苹果": "apple"}, with a list for alternative translations, or the path of a file to a
    glossary; a Glossary and None are returned unchanged.

    Raises UsageError for other types and for a glossary of other languages, CorpusError as `read_glossary` does.
    """
    if terms is None:
        return None
    if isinstance(terms, (str, os.PathLike)):
        return read_glossary(terms, languages)
    if isinstance(terms, Mapping):
        return Glossary(list(pairs_of(terms, "a term")), languages)
    if not isinstance(terms, Glossary):
        found = type(terms).__name__
        raise UsageError(f"a glossary is a dict of terms, the path of a file or a Glossary, found {found}")
    if terms.languages != languages:
        raise UsageError(f"the glossary is for {' -> '.join(terms.languages)}, the model for {' -> '.join(languages)}")
    return terms


def pairs_of(translations: Mapping[Any, Any], what: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs in a dict of strings or lists of strings. Raises UsageError otherwise; `what` names the keys."""
    for source, given in translations.items():
        targets = [given] if isinstance(given, str) else given
        if not isinstance(targets, Sequence) or not all(isinstance(text, str) for text in (source, *targets)):
            raise UsageError(f"{what} and its translations are strings, found {source!r}: {given!r}")
        if not targets or not all(map(folded, (source, *targets))):
            raise UsageError(f"{what} has an empty side: {source!r}: {given!r}")
        yield from ((source, target) for target in targets)


def constraint_of(targets: Sequence[str], tokenizer: Tokenizer, language: str) -> Constraint:
    """The constraint that one of these terms appears. Raises UsageError for a term that the vocabulary cannot spell."""
    return tuple(dict.fromkeys(phrase for target in targets for phrase in phrases_of(target, tokenizer, language)))


def phrases_of(term: str, tokenizer: Tokenizer, language: str) -> list[Phrase]:
    """The pieces of a term as a separate word; also its pieces directly after other text, if the language has no spaces
    or the term has no letter or digit.

    Raises UsageError for a term that the vocabulary cannot spell.
    """
    if not is_spellable(term, tokenizer):
        raise UsageError(f"the term {term!r} cannot be written with the pieces of the target vocabulary")
    phrases = [(*space_of(tokenizer, language), *tokenizer.encode([term])[0])]
    if is_written_without_spaces(language) or not any(map(str.isalnum, term)):
        for anchor in ANCHORS:
            before, behind = tokenizer.encode([anchor, anchor + term])
            rest = behind[len(before) :]
            if rest and [*before, *rest] == behind:
                phrases.append(tuple(rest))
    return list(dict.fromkeys(phrases))


def space_of(tokenizer: Tokenizer, language: str) -> Phrase:
    """The pieces of the space before a word, empty unless the space is a piece by itself, as for characters."""
    if is_written_without_spaces(language):
        return ()
    both, left, right = tokenizer.encode(["a b", "a", "b"])
    return tuple(both[len(left) : len(both) - len(right)])


def joins_of(tokenizer: Tokenizer, kind: Kind, language: str) -> Joins:
    """The pieces that can end the first part and begin the second part of a word: with a letter, vowel sign or digit.

    In a language without spaces only the letters of WRITTEN_WITH_SPACES count; in others byte pieces count too, since
    they may be parts of letters. There are none if each piece is a word.
    """
    if KINDS[kind].whole_words:
        return Joins()
    has_spaces = not is_written_without_spaces(language)
    letter = re.compile(rf"[^\W_]|[{mark_ranges()}]" if has_spaces else f"[{WRITTEN_WITH_SPACES}]")
    earlier, later = set(), set()
    for number, piece in enumerate(pieces_of(tokenizer, kind)):
        is_byte = has_spaces and KINDS[kind].spells_bytes and BYTE.fullmatch(piece) is not None
        text = text_of(piece, kind, "a")
        if is_byte or letter.fullmatch(text[-1:]):
            earlier.add(number)
        if is_byte or letter.fullmatch(text[:1]):
            later.add(number)
    return Joins(earlier, later)


def signed_words(constraints: Iterable[Sequence[Constraint]], tokenizer: Tokenizer, language: str) -> set[Phrase]:
    """The phrases that are words with a sign at their end: what follows C++ directly would continue it.

    In a language without spaces only words of the letters of WRITTEN_WITH_SPACES are.
    """
    letter = f"[{WRITTEN_WITH_SPACES}]" if is_written_without_spaces(language) else r"\w"
    ends_so = re.compile(rf"{letter}[^\w\s]+$")
    phrases = {phrase for of_text in constraints for several in of_text for phrase in several}
    return {phrase for phrase in phrases if ends_so.search(tokenizer.decode([phrase])[0])}


def is_spellable(term: str, tokenizer: Tokenizer) -> bool:
    """Whether a term's pieces decode to the term, alone and after a quotation mark, which changes where WordPiece puts
    spaces."""
    (whole,) = tokenizer.encode([term])
    written = tokenizer.normalize(term).strip()
    before = [[], *tokenizer.encode(['"', "'"])]
    return bool(whole) and all(text.endswith(written) for text in tokenizer.decode([[*ids, *whole] for ids in before]))
