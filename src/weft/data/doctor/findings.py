"""The kinds of problems that the doctor finds, with severity, cost and remedy, and the diagnosis of a corpus.

Costs cite measurements where there are any. In the experiments of Khayrallah and Koehn (2018, W18-2709) untranslated
copies hurt a neural model more than any other noise, because it learns to copy.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from weft.errors import counted, shown
from weft.figures.table import wrapped

Severity = Literal["error", "warning", "note"]
MOST_DETAILS = 20
"""Detail lines per finding in the table; the JSON has all."""
MOST_LEAKS = 20
"""Leaking pairs whose texts are kept as examples."""
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True)
class Kind:
    """A kind of problem with a corpus."""

    title: str
    """Follows the number of pairs or lines in the table."""
    severity: Severity
    cost: str
    remedy: str
    weight: float = 1.0
    """Added to the suspicion score of a pair."""


KINDS: dict[str, Kind] = {
    # The files
    "unequal counts": Kind(
        "the two files have different numbers of lines",
        "error",
        "every pair after the missing line is wrong; weft refuses to train on them",
        "a block of sides out of step begins where the line is missing: repair it there, or get the corpus again",
    ),
    "no pairs": Kind(
        "a file without pairs", "error", "weft refuses to train on it", "name another file, or leave this one out"
    ),
    "columns": Kind(
        "lines with the wrong number of columns",
        "error",
        "weft refuses to train on them",
        "look for a tab inside a sentence, or a missing one; repair or remove the line",
    ),
    "json": Kind(
        "lines that are not an object with the two texts",
        "error",
        "weft refuses to train on them",
        "repair or remove the lines",
    ),
    "encoding": Kind(
        "lines that are not UTF-8", "error", "weft refuses to train on them", "convert the file, or repair the lines"
    ),
    "byte order mark": Kind(
        "a byte order mark inside the file",
        "warning",
        "weft removes it; for other programs the first word of the line becomes unknown",
        "remove the mark; it is left over from joining files",
        1.0,
    ),
    "line break": Kind(
        "a carriage return, U+2028 or the like inside a line",
        "error",
        "none in weft, but a program that takes it for a line end shifts all pairs after it: 11.2 instead of 24.9 BLEU "
        "in OpenNMT-py's issue 399",
        "replace it with a space before another program reads the file",
        3.0,
    ),
    # Pairs that are not translations
    "empty": Kind("an empty side", "error", "weft refuses it, or drops it if told to", "fill or remove it", 4.0),
    "no words": Kind(
        "a side without letters and digits",
        "warning",
        "the model learns to answer words with punctuation; weft prepare removes it unless cleaning.min_length is 0",
        "complete or remove it",
        3.0,
    ),
    "out of step": Kind(
        "a block whose sides are out of step",
        "error",
        "the model learns only noise from these pairs; a whole corpus of them makes it answer anything",
        "shift one side by the given number of lines, or remove the block",
        5.0,
    ),
    "strangers": Kind(
        "the sides do not translate each other, in most of the corpus",
        "error",
        "the model learns only noise from these pairs; a whole corpus of them makes it answer anything",
        "check that both files are of the same text and in the same order; the doctor detects a shift of up to 10 "
        "lines that starts at the beginning, and found none",
        5.0,
    ),
    "swapped": Kind("the sides are swapped", "error", "the model learns the wrong direction", "swap them back", 5.0),
    "copy": Kind(
        "one side is a copy of the other",
        "error",
        "the most harmful kind of noise: the model learns to copy its input (Khayrallah and Koehn 2018)",
        "remove it",
        5.0,
    ),
    "wrong language": Kind(
        "a side is in another language or script",
        "error",
        "the model learns to answer in that language",
        "remove it",
        4.0,
    ),
    "mojibake": Kind(
        "text that was decoded with the wrong encoding",
        "error",
        "useless pieces in the vocabulary, and a model that writes them",
        "decode the original with its own encoding, or remove the pair",
        4.0,
    ),
    "leak": Kind(
        "training pairs that share a side with the held-out files",
        "error",
        "scores are too high: the model has seen the test sentences",
        "remove them from training, or the others from the held-out files",
        1.0,
    ),
    "unrelated": Kind(
        "sides that do not seem to translate each other",
        "warning",
        "noise; some are free translations, which do no harm",
        "look at a few, then remove or keep all",
        2.0,
    ),
    "cut": Kind(
        "a side that seems to have lost its end",
        "warning",
        "the model learns to stop early and to omit words",
        "complete or remove it",
        3.0,
    ),
    "surprising": Kind(
        "texts unlike those of the held-out files, for n-grams learned from them",
        "warning",
        "noise, or another domain: spoiled, cut or shuffled texts, pages of another sort",
        "look at a few; [cleaning] cross_entropy removes them",
        1.0,
    ),
    "length ratio": Kind(
        "one side is far too long for the other",
        "warning",
        "the model learns to omit or to invent words",
        "remove it",
        3.0,
    ),
    "long": Kind(
        "very long texts",
        "note",
        "training drops pairs with more than data.max_length pieces, and reports how many",
        "split them into sentences on both sides",
        0.5,
    ),
    "numbers": Kind(
        "a number on one side that the other lacks",
        "warning",
        "the model learns to get numbers wrong, the errors that readers notice first",
        "correct or remove it; free translations (a decade, 十年) may stay",
        2.5,
    ),
    # Texts
    "markup": Kind(
        "markup: tags, entities, subtitle codes",
        "warning",
        "it takes up pieces of the vocabulary, and translations contain it",
        "remove the markup, not the pair",
        2.0,
    ),
    "control": Kind(
        "control, invisible or private-use characters",
        "warning",
        "weft removes control characters; the others turn known words into unknown ones",
        "remove the characters",
        1.0,
    ),
    "repetition": Kind(
        "a letter or a word repeated many times",
        "warning",
        "the model learns to loop",
        "remove it, unless both sides repeat",
        1.5,
    ),
    "mixed scripts": Kind(
        "Traditional and Simplified characters in one text",
        "note",
        "rare pieces; weft converts a Chinese source to Simplified, but not a target",
        "convert the target side",
        1.0,
    ),
    "two scripts": Kind(
        "a Chinese side with Traditional and Simplified lines",
        "note",
        "none on the source side, which weft converts; the model learns to write a target in both scripts",
        "convert the target side, or keep the lines of one script",
        0.0,
    ),
    "full width": Kind(
        "full-width letters, digits or spaces",
        "note",
        'the same word has two forms; tokenizer.normalization = "nfkc" unifies them',
        "set this key, or normalize the files",
        0.25,
    ),
    # Repeated pairs
    "duplicate": Kind(
        "pairs that repeat an earlier one, up to case, script, spaces and punctuation",
        "warning",
        "they count twice in training; some are common phrases",
        "keep one of each, unless the corpus should follow real use",
        0.0,
    ),
    "near duplicate": Kind(
        "pairs that nearly repeat an earlier one: about nine of ten words are the same",
        "note",
        "little in training; much if one of them is held out",
        "keep them in the same part when you split the corpus",
        0.0,
    ),
    "near leak": Kind(
        "training pairs that nearly repeat a held-out pair: about nine of ten words are the same",
        "note",
        "scores are slightly too high: the model has nearly seen the test sentences",
        "nothing, if all systems you compare train on the same corpus; otherwise hold out other texts",
        0.0,
    ),
}


@dataclass(frozen=True)
class Example:
    """A pair, or a line, that a finding names."""

    file: str
    line: int
    source: str
    target: str
    note: str = ""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass
class Leaks:
    """Training pairs that share a side with held-out pairs and are kept."""

    lines: dict[str, list[int]] = field(default_factory=dict)
    """File name -> line numbers."""
    examples: list[Example] = field(default_factory=list)
    sources: set[int] = field(default_factory=set)
    """Keys of the held-out source sides that occur in training; likewise `targets`."""
    targets: set[int] = field(default_factory=set)

    def add(self, pairs: Iterable[Example]) -> None:
        for pair in pairs:
            self.lines.setdefault(pair.file, []).append(pair.line)
            if len(self.examples) < MOST_LEAKS:
                self.examples.append(pair)

    def forget(self, pairs: Iterable[Example]) -> None:
        """Remove pairs that are dropped after all, such as duplicates."""
        leaking = {file: set(lines) for file, lines in self.lines.items()}
        gone = {(pair.file, pair.line) for pair in pairs if pair.line in leaking.get(pair.file, ())}
        kept = {file: [line for line in lines if (file, line) not in gone] for file, lines in self.lines.items()}
        self.lines = {file: lines for file, lines in kept.items() if lines}
        self.examples = [example for example in self.examples if (example.file, example.line) not in gone]

    def include(self, other: "Leaks") -> None:
        for file, lines in other.lines.items():
            self.lines.setdefault(file, []).extend(lines)
        self.examples += other.examples[: MOST_LEAKS - len(self.examples)]
        self.sources |= other.sources
        self.targets |= other.targets


@dataclass(frozen=True)
class Finding:
    """A kind of problem with all the lines that have it."""

    kind: str
    lines: Mapping[str, Sequence[int]]
    """File -> line numbers, counted from 1."""
    examples: Sequence[Example]
    details: Sequence[str] = ()
    looked_at: int | None = None
    """Number of pairs that were checked, if it differs from that of the diagnosis."""

    @property
    def count(self) -> int:
        return sum(len(lines) for lines in self.lines.values())

    @property
    def severity(self) -> Severity:
        return KINDS[self.kind].severity


@dataclass(frozen=True)
class Suspicion:
    """A suspicious pair, with the reasons and a score."""

    example: Example
    reasons: Sequence[str]
    score: float


@dataclass(frozen=True)
class Diagnosis:
    """Everything that was found in a corpus."""

    files: Mapping[str, int]
    """Name of each file, or pair of files -> number of pairs read."""
    findings: Sequence[Finding]
    suspicious: Sequence[Suspicion]
    with_error: int
    """Number of pairs with an error."""
    with_warning: int
    """Number of pairs with a warning and no error."""
    without_pair: int = 0
    """Number of lines that gave no pair because of a fault; shares are of the pairs and these lines."""
    remarks: Sequence[str] = ()
    is_quick: bool = False
    """Whether the checks that need a lexicon were skipped."""

    @property
    def pairs(self) -> int:
        return sum(self.files.values())

    @property
    def has_errors(self) -> bool:
        return any(finding.severity == "error" for finding in self.findings)

    def share(self, count: int, of: int | None = None) -> float:
        """Return a count in percent of `of` pairs; of all by default."""
        return 100 * count / max(1, of or self.pairs + self.without_pair)

    def table(self, most_suspicious: int = 50) -> str:
        """Return the diagnosis as a table for a terminal."""
        lines = [f"{name}: {counted(pairs, 'pair')}" for name, pairs in self.files.items()]
        some, have = counted(self.with_error, "pair"), "has" if self.with_error == 1 else "have"
        lines.append(
            f"{some} ({self.share(self.with_error):.2f} %) {have} an error, "
            f"{self.with_warning:,} ({self.share(self.with_warning):.2f} %) a warning and no error"
        )
        lines += map(wrapped, self.remarks)
        for finding in self.findings:
            kind, share = KINDS[finding.kind], self.share(finding.count, finding.looked_at)
            lines += ["", wrapped(f"{kind.severity:<8} {finding.count:>7,}  {share:6.2f} %  {kind.title}", hang=28)]
            places = [example.place + (f" ({example.note})" if example.note else "") for example in finding.examples]
            label = "such as" if len(places) < finding.count else "where"
            lines += [wrapped(f"    {detail}", hang=6) for detail in finding.details[:MOST_DETAILS]]
            if len(finding.details) > MOST_DETAILS:
                lines.append(f"    ... and {len(finding.details) - MOST_DETAILS:,} more")
            lines += [
                wrapped(f"    {name:<8} {text}", hang=13)
                for name, text in ((label, shown(", ".join(places), 300)), ("cost", kind.cost), ("remedy", kind.remedy))
            ]
        if self.suspicious:
            lines += ["", f"The {min(most_suspicious, len(self.suspicious))} most suspicious pairs"]
        for suspicion in self.suspicious[:most_suspicious]:
            example = suspicion.example
            lines += [
                wrapped(f"{example.place}  {'; '.join(suspicion.reasons)}"),
                f"    {shown(example.source, 200)}",
                f"    {shown(example.target, 200)}",
            ]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return the diagnosis as JSON values, with the line numbers of every finding."""
        return {
            "files": dict(self.files),
            "is_quick": self.is_quick,
            "pairs": self.pairs,
            "with_error": self.with_error,
            "with_warning": self.with_warning,
            "remarks": list(self.remarks),
            "findings": [
                {
                    "kind": finding.kind,
                    "severity": finding.severity,
                    "title": KINDS[finding.kind].title,
                    "cost": KINDS[finding.kind].cost,
                    "remedy": KINDS[finding.kind].remedy,
                    "count": finding.count,
                    "share": round(self.share(finding.count, finding.looked_at) / 100, 6),
                    "details": list(finding.details),
                    "lines": {file: list(lines) for file, lines in finding.lines.items()},
                    "examples": [vars(example) for example in finding.examples],
                }
                for finding in self.findings
            ],
            "suspicious": [
                {**vars(suspicion.example), "reasons": list(suspicion.reasons), "score": round(suspicion.score, 3)}
                for suspicion in self.suspicious
            ],
        }
