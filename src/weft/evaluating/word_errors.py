"""Errors of translations by class, word by word against a reference (Popovic and Ney 2011, the classes of Hjerson).

The fewest insertions, deletions and substitutions turn a reference into a translation. Of the words that they touch

omission    is deleted from the reference, and the translation does not have it elsewhere
addition    is inserted into the translation, and the reference does not have it elsewhere
wrong word  stands in place of another word, and the reference does not have it elsewhere
order       is touched, but both have it: it stands at another place

A right translation in other words than the reference's has errors too. Rates are for comparing models and classes.
Words are those of `measures.tokens`: lower-case, without punctuation, in Chinese single characters.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.data.corpus import ParallelText
from weft.data.measures import tokens
from weft.evaluating.comparison import FREQUENCIES, by_size
from weft.evaluating.faults import Faults, faults_table, find_faults
from weft.evaluating.parts import Tell, translate_in_parts
from weft.figures.table import Table, wrapped
from weft.metrics.references import reference_sets
from weft.translating.translator import Translator

CLASSES = ("omission", "addition", "wrong word", "order")
EXAMPLES = 3
"""Sentences that are shown of each class."""


@dataclass(frozen=True)
class SentenceErrors:
    source: str
    reference: str
    hypothesis: str
    words: Mapping[str, tuple[str, ...]]
    """For each of CLASSES the words concerned: of the reference for omissions, else of the translation."""
    length: int
    """Words of the reference."""


@dataclass(frozen=True)
class ByFrequency:
    """How well words of one frequency are translated: right ones are in the translation and in the reference."""

    name: str
    in_references: int
    in_hypotheses: int
    right: int

    @property
    def f(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.right / max(1, self.in_references + self.in_hypotheses)


@dataclass(frozen=True)
class ErrorReport:
    data: Mapping[str, str]
    sentences: list[SentenceErrors]
    frequencies: list[ByFrequency]
    frequencies_from: str
    faults: Faults

    def count(self, kind: str) -> int:
        return sum(len(one.words[kind]) for one in self.sentences)

    def examples(self, kind: str) -> list[SentenceErrors]:
        """The sentences with the largest share of words of this class."""
        concerned = [one for one in self.sentences if one.words[kind]]
        return sorted(concerned, key=lambda one: -len(one.words[kind]) / max(1, one.length))[:EXAMPLES]

    def as_dict(self) -> dict[str, Any]:
        return {
            "data": dict(self.data),
            "classes": {kind: self.count(kind) for kind in CLASSES},
            "reference_words": sum(one.length for one in self.sentences),
            "by_frequency": [{**vars(one), "f": one.f} for one in self.frequencies],
            "frequencies_from": self.frequencies_from,
            "faults": self.faults.as_dict(),
            "sentences": [{**vars(one), "words": dict(one.words)} for one in self.sentences],
        }

    def tables(self) -> list[Table]:
        words, rows = sum(one.length for one in self.sentences), []
        for kind in CLASSES:
            count, concerned = self.count(kind), np.mean([bool(one.words[kind]) for one in self.sentences])
            rows.append((kind, f"{count:,}", f"{100 * count / max(1, words):.1f}", f"{concerned:.1%}"))
        notes = [f"{len(self.sentences):,} sentences, {words:,} words; right words that the reference lacks count too"]
        frequencies = [
            (one.name, f"{one.in_references:,}", f"{one.in_hypotheses:,}", f"{100 * one.f:.1f}")
            for one in self.frequencies
        ]
        header = ("in training", "in references", "in translations", "F, %")
        return [
            Table("Errors", ("class", "words", "per 100 words", "sentences"), rows, notes),
            Table("Words by frequency", header, frequencies, [f"how often, counted in {self.frequencies_from}"]),
            faults_table({"translations": self.faults}),
        ]

    def text(self) -> str:
        """The examples of every class, for a terminal."""
        lines = []
        for kind in CLASSES:
            for one in self.examples(kind):
                lines += ["", f"{kind}: {', '.join(one.words[kind])}"]
                named = (("source", one.source), ("reference", one.reference), ("translation", one.hypothesis))
                lines += [wrapped(f"  {name:<12} {text}", hang=15) for name, text in named]
        return "\n".join(lines)


def examine_errors(
    translator: Translator,
    pairs: ParallelText,
    training: ParallelText | None = None,
    tell: Tell = lambda done, total: None,
) -> ErrorReport:
    """Translate the sources and compare with the first reference of each; words are counted in `training`, else in the
    references themselves."""
    hypotheses = [found.text for found in translate_in_parts(translator, pairs.sources, tell)]
    rows = zip(pairs.sources, pairs.targets, hypotheses, strict=True)
    found = [SentenceErrors(*row, *classify(tokens(row[1]), tokens(row[2]))) for row in rows]
    counted = Counter(word for text in (training or pairs).targets for word in tokens(text))
    return ErrorReport(
        pairs.sha256,
        found,
        by_frequency([(tokens(one.reference), tokens(one.hypothesis)) for one in found], counted),
        "the targets of --train" if training is not None else "the references themselves: give --train",
        find_faults(hypotheses, pairs.sources, reference_sets(pairs.references), translator.languages),
    )


def classify(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], int]:
    """For each class the words of one sentence, and the number of words of the reference."""
    found: dict[str, list[str]] = {kind: [] for kind in CLASSES}
    lacking = Counter(reference) - Counter(hypothesis)
    surplus = Counter(hypothesis) - Counter(reference)
    for before, after in edits(reference, hypothesis):
        if after is None:
            if lacking[before or ""] > 0:
                lacking[before or ""] -= 1
                found["omission"].append(before or "")
        elif surplus[after] > 0:
            surplus[after] -= 1
            found["addition" if before is None else "wrong word"].append(after)
        else:
            found["order"].append(after)
    return {kind: tuple(words) for kind, words in found.items()}, len(reference)


def edits(reference: Sequence[str], hypothesis: Sequence[str]) -> list[tuple[str | None, str | None]]:
    """The fewest edits from one to the other: (word, None) deletes, (None, word) inserts, two words substitute."""
    distance = np.zeros((len(reference) + 1, len(hypothesis) + 1), dtype=np.int64)
    distance[:, 0], distance[0] = np.arange(len(reference) + 1), np.arange(len(hypothesis) + 1)
    for i, word in enumerate(reference, 1):
        for j, other in enumerate(hypothesis, 1):
            steps = distance[i - 1, j - 1] + (word != other), distance[i - 1, j] + 1, distance[i, j - 1] + 1
            distance[i, j] = min(steps)
    found: list[tuple[str | None, str | None]] = []
    i, j = distance.shape[0] - 1, distance.shape[1] - 1
    while i or j:
        differs = bool(i and j and reference[i - 1] != hypothesis[j - 1])
        if i and j and distance[i, j] == distance[i - 1, j - 1] + differs:
            i, j = i - 1, j - 1
            found += [(reference[i], hypothesis[j])] if differs else []
        elif i and distance[i, j] == distance[i - 1, j] + 1:
            i -= 1
            found.append((reference[i], None))
        else:
            j -= 1
            found.append((None, hypothesis[j]))
    return found[::-1]


def by_frequency(pairs: Sequence[tuple[Sequence[str], Sequence[str]]], counted: Mapping[str, int]) -> list[ByFrequency]:
    """Words of references and translations, in buckets by how often they are `counted`; empty buckets are left out."""
    references, hypotheses, right = Counter[str](), Counter[str](), Counter[str]()
    for reference, hypothesis in pairs:
        references.update(reference)
        hypotheses.update(hypothesis)
        right.update(Counter(reference) & Counter(hypothesis))
    words = sorted(references | hypotheses)
    numbers = np.array([[of[word] for of in (references, hypotheses, right)] for word in words]).reshape(-1, 3)
    sizes = np.array([counted.get(word, 0) for word in words], dtype=np.int64)
    return [
        ByFrequency(name, *map(int, numbers[members].sum(0)))
        for name, members in by_size(sizes, FREQUENCIES).items()
        if members.any()
    ]
