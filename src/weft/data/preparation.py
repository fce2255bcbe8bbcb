"""Clean the pairs of a corpus on all cores: files -> clean pairs on disk, with counts of what each rule removed.

Memory use does not grow with the corpus: files are read in pieces, pieces are judged in other processes, the pairs are
kept on disk, and duplicates are found by keys on disk (keys.py). The result does not depend on the number of processes.
Knows no tokenizer.
"""

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.data.cleaning import RULES, CleaningConfig, Pairs, verdicts
from weft.data.corpus import (
    CorpusEntry,
    DataConfig,
    ParallelText,
    Part,
    as_entries,
    different_names,
    open_entry,
    weight_and_tag,
)
from weft.data.doctor.findings import Example, Leaks
from weft.data.filtering import LEARNED_FROM, NoiseFilter
from weft.data.keys import Partitions, keys_of, mixed, pair_keys
from weft.data.pair_files import Parse, Piece, Reading, collecting
from weft.data.workers import Each
from weft.errors import CorpusError, Problem
from weft.text.normalization import is_blank

MOST_EXAMPLES = 20
"""Removed pairs of each rule that are kept as examples."""


@dataclass
class Removed:
    """The number of pairs that each rule removed, and the first of them."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Example]] = field(default_factory=dict)

    def add(self, rule: str, examples: Iterable[Example], count: int) -> None:
        known = self.examples.setdefault(rule, [])
        known += islice(examples, MOST_EXAMPLES - len(known))
        self.counts[rule] += count

    def include(self, other: "Removed") -> None:
        for rule, count in other.counts.items():
            self.add(rule, other.examples[rule], count)


@dataclass(frozen=True)
class HeldOut:
    """Sorted keys of the two sides of held-out pairs, which must not be trained on."""

    sources: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    targets: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))

    @classmethod
    def of(cls, sources: Sequence[str], targets: Sequence[str], *, in_one_language: bool = False) -> "HeldOut":
        """Make the keys of these pairs; `in_one_language` also compares sources with targets."""
        source, target = (keys[keys != 0] for keys in (np.unique(keys_of(texts)) for texts in (sources, targets)))
        if in_one_language:
            source = target = np.union1d(source, target)
        return cls(source, target)

    def share_a_side(self, sources: NDArray[np.uint64], targets: NDArray[np.uint64]) -> NDArray[np.bool_]:
        return np.isin(sources, self.sources) | np.isin(targets, self.targets)


@dataclass(frozen=True)
class CleanPiece:
    """Clean pairs of one entry of the recipe, with their line numbers."""

    entry: int
    first: int
    """Index of the first pair in the corpus."""
    lines: list[int]
    sources: list[str]
    targets: list[str]
    following: tuple[str, str] | None = None
    """The next pair of the entry."""


@dataclass(frozen=True)
class CleanCorpus:
    """Clean pairs in a scratch folder."""

    folder: Path
    entries: tuple[CorpusEntry, ...]
    read: int
    """Number of pairs in the files, without those with an empty side."""
    dropped_empty: int
    removed: Removed
    leaks: Leaks
    rows: tuple[int, ...]
    """Number of pairs of each entry that were written."""
    repeated: NDArray[np.bool_]
    """Whether each of these pairs is skipped: a duplicate of an earlier one, or noise by a model of the corpus."""

    def __len__(self) -> int:
        return len(self.repeated) - int(self.repeated.sum())

    def pieces(self, at_once: int = 10_000) -> Iterator[CleanPiece]:
        """Yield the pairs in the order of the files."""
        before: CleanPiece | None = None
        for piece in self._pieces(at_once):
            if before is not None:
                is_next = piece.entry == before.entry
                yield replace(before, following=(piece.sources[0], piece.targets[0]) if is_next else None)
            before = piece
        if before is not None:
            yield before

    def sample(self, most: int) -> ParallelText:
        """Return at most `most` of the pairs, evenly spread."""
        stride = max(1, math.ceil(len(self) / most))
        text = ParallelText([], [], {})
        lines: list[list[int]] = [[] for _ in self.entries]
        for piece in self._pieces(10_000):
            chosen = slice(-piece.first % stride, None, stride)
            text.sources.extend(piece.sources[chosen])
            text.references.extend((target,) for target in piece.targets[chosen])
            lines[piece.entry] += piece.lines[chosen]
        parts = (
            Part(len(of_entry), *weight_and_tag(entry), name, array("I", of_entry))
            for entry, name, of_entry in zip(self.entries, self.names, lines, strict=True)
        )
        return replace(text, parts=tuple(parts))

    def _pieces(self, at_once: int) -> Iterator[CleanPiece]:
        first = 0
        for entry, lines, is_repeated in self._rows(at_once):
            cells = [line.split("\t") for line, is_out in zip(lines, is_repeated.tolist(), strict=True) if not is_out]
            if cells:
                yield CleanPiece(entry, first, [int(c[0]) for c in cells], [c[1] for c in cells], [c[2] for c in cells])
            first += len(cells)

    @property
    def names(self) -> list[str]:
        """A distinct name for each entry."""
        return different_names(self.entries)

    def repeated_examples(self) -> Iterator[Example]:
        """Yield the pairs that are skipped as duplicates."""
        names = self.names
        for entry, lines, is_repeated in self._rows(10_000):
            for place in np.flatnonzero(is_repeated).tolist():
                number, source, target = lines[place].split("\t")
                yield Example(names[entry], int(number), source, target)

    def _rows(self, at_once: int) -> Iterator[tuple[int, list[str], NDArray[np.bool_]]]:
        place = 0
        for entry in range(len(self.rows)):
            with open(rows_of(self.folder, entry), encoding="utf-8", newline="\n") as file:
                while lines := [line.removesuffix("\n") for line in islice(file, at_once)]:
                    yield entry, lines, self.repeated[place : place + len(lines)]
                    place += len(lines)


def rows_of(folder: Path, entry: int) -> Path:
    """The file with the clean pairs of an entry: line number, source, target."""
    return folder / f"{entry}.tsv"


def clean(
    entries: Sequence[str | CorpusEntry],
    config: DataConfig,
    cleaning: CleaningConfig | None,
    root: Path,
    scratch: Path,
    *,
    held_out: HeldOut | None = None,
    trusted: ParallelText | None = None,
    each: Each = map,
) -> CleanCorpus:
    """Read the pairs of these entries and write those that pass `cleaning` to the folder `scratch`; None passes all.

    `trusted` are pairs without noise, which the rules of filtering.py need. `each` is `map`, or a map over other
    processes (see `workers`). Raises CorpusError that names every wrong line, at
    least the first MOST_PROBLEMS of a file.
    """
    sources = as_entries(entries)
    removed, leaks, problems, rows = Removed(), Leaks(), [], [0] * len(sources)
    read = dropped = 0
    with Partitions(scratch / "keys") as partitions:
        for number, (entry, name) in enumerate(zip(sources, different_names(sources), strict=True)):
            judge = Judge(name, config, cleaning, held_out or HeldOut())
            path = rows_of(scratch, number)
            with collecting(problems), open(path, "w", encoding="utf-8", newline="\n") as file:
                for judged in judged_pieces(judge, entry, root, each):
                    file.writelines(judged.rows)
                    partitions.append(of_tag(judged.keys, weight_and_tag(entry)[1]))
                    removed.include(judged.removed)
                    leaks.include(judged.leaks)
                    rows[number] += len(judged.rows)
                    read, dropped = read + judged.read, dropped + judged.dropped_empty
        if problems:
            raise CorpusError("the corpus", problems)
        repeated = np.zeros(partitions.count, bool)
        if cleaning is not None and cleaning.duplicates:
            for places in partitions.repeated():
                repeated[places] = True
    corpus = CleanCorpus(scratch, sources, read, dropped, removed, leaks, tuple(rows), repeated)
    if repeated.any():
        removed.add("duplicates", corpus.repeated_examples(), int(repeated.sum()))
        if leaks.lines:
            leaks.forget(corpus.repeated_examples())
    learns = cleaning is not None and (cleaning.cross_entropy or cleaning.dual_cross_entropy)
    if cleaning is not None and trusted is not None and learns and len(corpus) > 1:
        return without_noise(corpus, cleaning, trusted)
    return corpus


def without_noise(corpus: CleanCorpus, cleaning: CleaningConfig, trusted: ParallelText) -> CleanCorpus:
    """Remove what the rules find whose models are learned from the corpus."""
    stride = max(1, math.ceil(len(corpus) / LEARNED_FROM))
    sample = corpus.sample(LEARNED_FROM)
    learned = NoiseFilter.learn(
        (sample.sources, [texts[0] for texts in sample.references]),
        (trusted.sources, [texts[0] for texts in trusted.references]),
        cleaning.cross_entropy,
        cleaning.dual_cross_entropy,
    )
    places, repeated, names = np.flatnonzero(~corpus.repeated), corpus.repeated.copy(), corpus.names
    for piece in corpus.pieces():
        rows = np.arange(piece.first, piece.first + len(piece.lines))
        left = np.ones(len(rows), bool)
        for rule, found in learned.judge((piece.sources, piece.targets), rows // stride % 2).items():
            removed = np.flatnonzero(found & left)
            examples = [
                Example(names[piece.entry], piece.lines[row], piece.sources[row], piece.targets[row])
                for row in removed.tolist()
            ]
            corpus.removed.add(rule, examples, len(examples))
            if corpus.leaks.lines:
                corpus.leaks.forget(examples)
            left &= ~found
        repeated[places[rows[~left]]] = True
    cleaned, leaks = replace(corpus, repeated=repeated), corpus.leaks
    if leaks.sources or leaks.targets:
        sources, targets = set[int](), set[int]()
        for piece in cleaned.pieces():
            sources |= leaks.sources.intersection(keys_of(piece.sources).tolist())
            targets |= leaks.targets.intersection(keys_of(piece.targets).tolist())
        leaks.sources, leaks.targets = sources, targets
    return cleaned


def of_tag(keys: NDArray[np.uint64], tag: str | None) -> NDArray[np.uint64]:
    """Make keys depend on the tag: pairs with different tags are not duplicates."""
    return keys if tag is None else np.where(keys == 0, keys, mixed(keys ^ keys_of([tag])))


def problems_of(entries: Sequence[str | CorpusEntry], config: DataConfig, root: Path) -> list[Problem]:
    """Return what is wrong with the lines of these entries."""
    problems = []
    sources = as_entries(entries)
    for entry, name in zip(sources, different_names(sources), strict=True):
        with collecting(problems):
            for _ in judged_pieces(Judge(name, config, None, HeldOut()), entry, root, map):
                pass
    return problems


def judged_pieces(judge: "Judge", entry: CorpusEntry, root: Path, each: Each) -> Iterator["Judged"]:
    """Yield the result for each piece of an entry; raises CorpusError at the end if any line is wrong."""
    reading, pairs = Reading(judge.subject), 0
    parse, pieces = open_entry(entry, judge.config, root, reading)
    for judged in each(partial(judge, parse), pieces):
        reading.problems += judged.problems
        if reading.has_enough:
            break
        pairs += judged.read
        yield judged
    reading.raise_problems()
    if not pairs:
        raise CorpusError(judge.subject, [Problem("the whole file", "contains no sentence pair")])


# Work on a piece, in any process


@dataclass(frozen=True)
class Judged:
    """The result for a piece: rows and keys of the pairs that are kept, and counts of the others."""

    rows: list[str]
    keys: NDArray[np.uint64]
    removed: Removed
    leaks: Leaks
    read: int
    dropped_empty: int
    problems: list[Problem]


@dataclass(frozen=True)
class Judge:
    """Judges the pieces of one file."""

    subject: str
    config: DataConfig
    cleaning: CleaningConfig | None
    held_out: HeldOut

    def __call__(self, parse: Parse, piece: Piece) -> Judged:
        reading = Reading(self.subject)
        whole, dropped = [], 0
        for number, source, targets in parse(piece, reading):
            if not (is_blank(source) or is_blank(targets[0])):
                whole.append((number, one_line(source), one_line(targets[0])))
            elif self.config.empty_sides == "drop":
                dropped += 1
            else:
                reading.add_empty(number, source)
        sources, targets = [row[1] for row in whole], [row[2] for row in whole]
        source_keys, target_keys = keys_of(sources), keys_of(targets)
        is_leak = self.held_out.share_a_side(source_keys, target_keys)
        broken = self.broken_rules(sources, targets, is_leak)
        removed, leaks = Removed(), Leaks()
        for rule in dict.fromkeys(name for name in broken if name is not None):
            places = [place for place, name in enumerate(broken) if name == rule]
            removed.add(rule, (Example(self.subject, *whole[place]) for place in places), len(places))
        stays = np.array([name is None for name in broken], bool)
        if is_leak.any():
            leaking = is_leak & stays
            leaks.add(Example(self.subject, *whole[place]) for place in np.flatnonzero(leaking).tolist())
            leaks.sources |= {*np.intersect1d(source_keys[leaking], self.held_out.sources).tolist()}
            leaks.targets |= {*np.intersect1d(target_keys[leaking], self.held_out.targets).tolist()}
        return Judged(
            rows=[f"{n}\t{s}\t{t}\n" for (n, s, t), rule in zip(whole, broken, strict=True) if rule is None],
            keys=pair_keys(source_keys[stays], target_keys[stays]),
            removed=removed,
            leaks=leaks,
            read=len(whole),
            dropped_empty=dropped,
            problems=reading.problems,
        )

    def broken_rules(self, sources: list[str], targets: list[str], leaks: NDArray[np.bool_]) -> list[str | None]:
        """Return for each pair the first rule that removes it, or None."""
        if self.cleaning is None:
            return [None] * len(sources)
        names = [None, *RULES, "leaks"]
        found = verdicts(Pairs(sources, targets, (self.config.source, self.config.target)), self.cleaning)
        if self.cleaning.leaks:
            found[(found == 0) & leaks] = len(names) - 1
        return [names[number] for number in found.tolist()]


def one_line(text: str) -> str:
    """Replace tabs and line feeds by spaces, as normalization does later."""
    return text.replace("\t", " ").replace("\n", " ") if "\t" in text or "\n" in text else text
