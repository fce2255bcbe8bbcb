"""Split a corpus into files for training, validation and test that share no sentence.

A pair can be held out only if neither of its sides occurs in another pair, compared by the keys of `keys.py`: then
training has no sentence of it, and loses no pair. The held-out pairs are drawn by their text and the seed, not by their
position: the same corpus in another order is split in the same way, and a corpus that has grown keeps most of what was
held out.

The files are read twice; 25 bytes of each pair are kept in memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.data.corpus import CorpusEntry, Layout, file_names, open_files
from weft.data.keys import keys_of, mixed, pair_keys
from weft.data.pair_files import Reading, collecting
from weft.data.preparation import one_line
from weft.errors import CorpusError, Problem, UsageError, WeftError
from weft.files import refuse_existing_folder, staged_folder
from weft.text.language import is_one_language
from weft.text.normalization import is_blank

TRAIN = "train"
Keys = NDArray[np.uint64]


@dataclass(frozen=True)
class Split:
    """Number of pairs of each part, and of those in no part."""

    pairs: Mapping[str, int]
    copies: int
    """Further copies of held-out pairs."""
    dropped_empty: int


def split(
    entries: Sequence[CorpusEntry], layout: Layout, folder: Path, held_out: Mapping[str, int], *, seed: int
) -> Split:
    """Make the folder with `train.tsv` and a TSV for each held-out part; `held_out` maps its name to its size.

    Raises CorpusError with every wrong line, and UsageError if too few pairs can be held out or the folder exists. In
    both cases nothing is written.
    """
    refuse_existing_folder(folder)
    sources, targets = read_keys(entries, layout)
    names = [TRAIN, *held_out]
    seed_keys = [keys_of([f"{name} {seed}"]) for name in held_out]
    in_one_language = is_one_language(*layout.languages)
    part_of = choose(sources, targets, list(held_out.values()), seed_keys, in_one_language=in_one_language)
    try:
        with staged_folder(folder) as staged:
            empty = write_parts(entries, layout, staged, names, part_of)
    except OSError as error:
        raise WeftError(f"cannot write {folder}: {error.strerror}") from error
    counts = np.bincount(part_of + 1, minlength=len(names) + 1).tolist()
    return Split(dict(zip(names, counts[1:], strict=True)), copies=counts[0], dropped_empty=empty)


def choose(
    sources: Keys, targets: Keys, sizes: Sequence[int], seed_keys: Sequence[Keys], *, in_one_language: bool = False
) -> NDArray[np.int8]:
    """Return the part of each pair: 0 for training, 1 ... len(sizes) held out, -1 for a copy of a held-out pair.

    Every part draws its own numbers, so that the size of one hardly changes another. `in_one_language` compares each
    side with both sides of the other pairs.
    """
    keys = pair_keys(sources, targets)
    _, first = np.unique(keys, return_index=True)
    if in_one_language:
        is_once = occur_in_no_other(sources[first], targets[first])
    else:
        is_once = occurs_once(sources[first]) & occurs_once(targets[first])
    stands_alone = is_once & (sources[first] != 0)
    free = first[stands_alone & (targets[first] != 0)]
    if len(free) < sum(sizes) or len(first) == sum(sizes):
        raise UsageError(
            f"cannot hold out {sum(sizes):,} pairs: of {len(first):,} different pairs only {len(free):,} have sides "
            "that occur in no other pair, and some must be left to train on; ask for fewer"
        )
    part_of = np.zeros(len(keys), np.int8)
    for number, (size, seed_key) in enumerate(zip(sizes, seed_keys, strict=True), start=1):
        is_drawn = np.zeros(len(free), bool)
        is_drawn[np.argsort(mixed(keys[free] ^ seed_key))[:size]] = True
        part_of[free[is_drawn]] = number
        free = free[~is_drawn]
    is_first = np.zeros(len(keys), bool)
    is_first[first] = True
    part_of[~is_first & np.isin(keys, keys[part_of > 0])] = -1
    return part_of


def occurs_once(keys: Keys) -> NDArray[np.bool_]:
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return counts[inverse] == 1


def occur_in_no_other(sources: Keys, targets: Keys) -> NDArray[np.bool_]:
    """Whether neither side of a pair occurs on any side of another pair."""
    known, counts = np.unique(np.concatenate([sources, targets[targets != sources]]), return_counts=True)
    once = known[counts == 1]
    return np.isin(sources, once) & np.isin(targets, once)


def read_keys(entries: Sequence[CorpusEntry], layout: Layout) -> tuple[Keys, Keys]:
    """Return the keys of the two sides of all pairs without an empty side."""
    keys: list[tuple[Keys, Keys]] = []
    problems: list[Problem] = []
    for entry in entries:
        with collecting(problems):
            for pairs in read(entry, layout):
                whole = [pair for pair in pairs if is_whole(pair)]
                keys.append((keys_of([source for source, _ in whole]), keys_of([target for _, target in whole])))
    if problems:
        raise CorpusError("the corpus", problems)
    none = np.zeros(0, np.uint64)
    sources, targets = zip((none, none), *keys, strict=True)
    return np.concatenate(sources), np.concatenate(targets)


def write_parts(
    entries: Sequence[CorpusEntry], layout: Layout, folder: Path, names: Sequence[str], part_of: NDArray[np.int8]
) -> int:
    """Read the pairs again and write them into their parts; return the number of pairs with an empty side."""
    place = empty = 0
    changed = CorpusError("the corpus", [Problem("the files", "changed while they were read; run the command again")])
    with ExitStack() as stack:
        files = [
            stack.enter_context(open(folder / f"{name}.tsv", "w", encoding="utf-8", newline="\n")) for name in names
        ]
        for file in files:
            file.write("\t".join(column_names(layout.source, layout.target)) + "\n")
        for entry in entries:
            for pairs in read(entry, layout):
                for source, target in pairs:
                    if not is_whole((source, target)):
                        empty += 1
                        continue
                    if place == len(part_of):
                        raise changed
                    part = part_of[place]
                    if part >= 0:
                        files[part].write(f"{one_line(source)}\t{one_line(target)}\n")
                    place += 1
    if place != len(part_of):
        raise changed
    return empty


def column_names(source: str, target: str) -> tuple[str, str]:
    """The header of the written files: the language codes, or "source" and "target" if they are equal."""
    return (source, target) if source != target else ("source", "target")


def read(entry: CorpusEntry, layout: Layout) -> Iterator[list[tuple[str, str]]]:
    """Yield the pairs of an entry, piece by piece; raises CorpusError at the end if any line is wrong."""
    reading = Reading(file_names(entry)[0], "name the columns with --columns, or use --no-header")
    parse, pieces = open_files(entry, layout, Path(), reading)
    for piece in pieces:
        yield [(source, targets[0]) for _, source, targets in parse(piece, reading)]
        if reading.has_enough:
            break
    reading.raise_problems()


def is_whole(pair: tuple[str, str]) -> bool:
    return not (is_blank(pair[0]) or is_blank(pair[1]))
