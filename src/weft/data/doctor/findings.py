"""What the doctor can find, in plain words: how bad it is, what it costs, what to do. Knows no check and no file.

Costs cite where something is known. The strongest: in the experiments of Khayrallah and Koehn (2018, W18-2709)
untranslated copies hurt a neural model more than any other noise, since it learns to copy.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from weft.errors import shown

Severity = Literal["error", "warning", "note"]
MOST_DETAILS = 20
"""Lines of a table that say more of one finding; the JSON has all."""
MOST_LEAKS = 20
"""Leaking pairs whose texts are kept."""
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True)
class Kind:
    """One thing that may be wrong with a corpus."""

    title: str
    """What a table says after the number of pairs or lines."""
    severity: Severity
    cost: str
    remedy: str
    weight: float = 1.0
    """How much it adds to a pair's suspicion."""


KINDS: dict[str, Kind] = {
    # The files
    "unequal counts": Kind(
        "the two files have unequal numbers of lines",
        "error",
        "every pair after the missing line is wrong; weft refuses to train on them",
        "find the line by the block out of step below, mend it, or ask for the corpus anew",
    ),
    "no pairs": Kind(
        "a file that holds no pair", "error", "weft refuses to train on it", "name another file, or leave this one out"
    ),
    "columns": Kind(
        "lines with a wrong number of columns",
        "error",
        "weft refuses to train on them",
        "a tab inside a sentence or a missing one: mend or remove the line",
    ),
    "json": Kind(
        "lines that are no object with the two texts", "error", "weft refuses to train on them", "mend or remove"
    ),
    "encoding": Kind(
        "lines that are not UTF-8", "error", "weft refuses to train on them", "convert the file, or remove the lines"
    ),
    "byte order mark": Kind(
        "a byte order mark inside the file",
        "warning",
        "weft removes it; elsewhere the first word of the line becomes an unknown one",
        "files were joined: remove the mark",
        1.0,
    ),
    "line break": Kind(
        "a carriage return, U+2028 or the like inside a line",
        "error",
        "not in weft, but a program that sees a new line there shifts all pairs after it: 11.2 in place of 24.9 BLEU "
        "in OpenNMT-py's issue 399",
        "replace it by a space before another program reads the file",
        3.0,
    ),
    # Pairs that are no translations
    "empty": Kind("an empty side", "error", "weft refuses it, or drops it if asked", "fill or remove", 4.0),
    "no words": Kind(
        "a side without a letter or a digit",
        "warning",
        "the model learns to answer words with a sign; weft prepare removes it unless cleaning.min_length is 0",
        "complete or remove",
        3.0,
    ),
    "out of step": Kind(
        "a block in which the sides are out of step",
        "error",
        "nothing is learned from these pairs but noise; a whole corpus like that trains a model that says anything",
        "move one side by the lines that are given, or remove the block",
        5.0,
    ),
    "strangers": Kind(
        "the sides do not translate each other, in most of the corpus",
        "error",
        "nothing is learned from these pairs but noise; a whole corpus like that trains a model that says anything",
        "look whether both files are of one text and in one order; where one is out of step by up to 10 lines from its "
        "beginning, the doctor would have said so",
        5.0,
    ),
    "swapped": Kind("the sides are swapped", "error", "the model learns to translate the wrong way", "swap back", 5.0),
    "copy": Kind(
        "one side is a copy of the other",
        "error",
        "the most harmful noise of all: the model learns to copy its input (Khayrallah and Koehn 2018)",
        "remove",
        5.0,
    ),
    "wrong language": Kind(
        "a side is in another language or script",
        "error",
        "the model learns to answer in that language",
        "remove",
        4.0,
    ),
    "mojibake": Kind(
        "text that was read in a wrong encoding",
        "error",
        "useless pieces in the vocabulary, and a model that writes them",
        "read the original in its own encoding, or remove",
        4.0,
    ),
    "leak": Kind(
        "training pairs of which a side stands in the held-out files",
        "error",
        "scores flatter: the model has seen what it is asked",
        "remove them from training, or the others from the held-out files",
        1.0,
    ),
    "unrelated": Kind(
        "sides that do not seem to translate each other",
        "warning",
        "noise; some are free translations, which do no harm",
        "look at some, then remove or keep all",
        2.0,
    ),
    "cut": Kind(
        "a side seems to have lost its end",
        "warning",
        "the model learns to stop early and to leave things out",
        "complete or remove",
        3.0,
    ),
    "length ratio": Kind(
        "one side is far too long for the other",
        "warning",
        "the model learns to leave out or to make up",
        "remove",
        3.0,
    ),
    "long": Kind(
        "very long texts",
        "note",
        "training drops pairs over data.max_length pieces, and says how many",
        "cut them into sentences on both sides",
        0.5,
    ),
    "numbers": Kind(
        "a number on one side that the other lacks",
        "warning",
        "the model learns to get numbers wrong, the errors that readers notice first",
        "correct or remove; free translations (a decade, 十年) may stay",
        2.5,
    ),
    # Text that is not as it should be
    "markup": Kind(
        "markup: tags, entities, subtitle codes",
        "warning",
        "pieces of the vocabulary go to it, and translations contain it",
        "remove the markup, not the pair",
        2.0,
    ),
    "control": Kind(
        "control characters, invisible ones, or ones for private use",
        "warning",
        "weft removes control characters; the others make known words unknown",
        "remove them",
        1.0,
    ),
    "repetition": Kind(
        "the same again and again", "warning", "the model learns to loop", "remove unless both sides do it", 1.5
    ),
    "mixed scripts": Kind(
        "Traditional and Simplified characters in one text",
        "note",
        "rare pieces; weft converts a Chinese source to Simplified, a target stays as it is",
        "convert the target side",
        1.0,
    ),
    "two scripts": Kind(
        "a Chinese side of which some lines are Traditional, some Simplified",
        "note",
        "nothing on the source side, which weft converts; a target in two scripts is learned in two scripts",
        "convert the target side, or keep the lines of one script",
        0.0,
    ),
    "full width": Kind(
        "full-width letters, digits or spaces",
        "note",
        'the same word in two forms; tokenizer.normalization = "nfkc" makes them one',
        "set it, or normalize the files",
        0.25,
    ),
    # Pairs that are there more than once
    "duplicate": Kind(
        "pairs that stand there before, but for case, script, spaces and punctuation",
        "warning",
        "they count twice in training; some are what people say often",
        "keep one of each, unless the corpus is to follow real use",
        0.0,
    ),
    "near duplicate": Kind(
        "pairs that nearly stand there before: about nine of ten words are the same",
        "note",
        "little in training; much if one of them is held out",
        "split the corpus so that they stay together",
        0.0,
    ),
    "near leak": Kind(
        "training pairs that nearly stand in the held-out files: about nine of ten words are the same",
        "note",
        "scores flatter a little: the model has seen nearly what it is asked",
        "nothing if all systems you compare learn from the same corpus; else hold out other texts",
        0.0,
    ),
}


@dataclass(frozen=True)
class Example:
    """One pair, or one line, that a finding names."""

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
    """Pairs that stay though they share a side with pairs that are held out."""

    lines: dict[str, list[int]] = field(default_factory=dict)
    """By the names of their files."""
    examples: list[Example] = field(default_factory=list)
    sources: set[int] = field(default_factory=set)
    """Keys of the held-out sides that stand here, too."""
    targets: set[int] = field(default_factory=set)

    def add(self, pairs: Iterable[Example]) -> None:
        for pair in pairs:
            self.lines.setdefault(pair.file, []).append(pair.line)
            if len(self.examples) < MOST_LEAKS:
                self.examples.append(pair)

    def forget(self, pairs: Iterable[Example]) -> None:
        """Take out pairs that do not stay after all, such as copies."""
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
    """One kind of fault with all the places where it is."""

    kind: str
    lines: Mapping[str, Sequence[int]]
    """File -> line numbers, counted from 1."""
    examples: Sequence[Example]
    details: Sequence[str] = ()
    looked_at: int | None = None
    """Pairs among which it was looked for, where these are not those of the diagnosis."""

    @property
    def count(self) -> int:
        return sum(len(lines) for lines in self.lines.values())

    @property
    def severity(self) -> Severity:
        return KINDS[self.kind].severity


@dataclass(frozen=True)
class Suspicion:
    """A pair with what speaks against it."""

    example: Example
    reasons: Sequence[str]
    score: float


@dataclass(frozen=True)
class Diagnosis:
    """All that was found in a corpus."""

    files: Mapping[str, int]
    """Name of each file, or pair of files, -> pairs read."""
    findings: Sequence[Finding]
    suspicious: Sequence[Suspicion]
    with_error: int
    """Pairs that carry an error."""
    with_warning: int
    """Pairs that carry a warning and no error."""
    without_pair: int = 0
    """Lines that gave no pair, since something is wrong with them; shares are of the pairs and of these."""
    remarks: Sequence[str] = ()
    is_quick: bool = False
    """Whether only what needs no lexicon was looked for."""

    @property
    def pairs(self) -> int:
        return sum(self.files.values())

    @property
    def has_errors(self) -> bool:
        return any(finding.severity == "error" for finding in self.findings)

    def share(self, count: int, of: int | None = None) -> float:
        """In percent of so many pairs; left out, of all."""
        return 100 * count / max(1, of or self.pairs + self.without_pair)

    def table(self, most_suspicious: int = 50) -> str:
        """Everything in plain words, for a terminal."""
        lines = [f"{name}: {pairs:,} pairs" for name, pairs in self.files.items()]
        lines.append(
            f"{self.with_error:,} pairs ({self.share(self.with_error):.2f} %) carry an error, "
            f"{self.with_warning:,} ({self.share(self.with_warning):.2f} %) a warning and no error"
        )
        lines += self.remarks
        for finding in self.findings:
            kind, share = KINDS[finding.kind], self.share(finding.count, finding.looked_at)
            lines += ["", f"{kind.severity:<8} {finding.count:>7,}  {share:6.2f} %  {kind.title}"]
            places = [example.place + (f" ({example.note})" if example.note else "") for example in finding.examples]
            label = "such as" if len(places) < finding.count else "where"
            lines += [f"    {detail}" for detail in finding.details[:MOST_DETAILS]]
            if len(finding.details) > MOST_DETAILS:
                lines.append(f"    ... and {len(finding.details) - MOST_DETAILS:,} more")
            lines += [
                f"    {name:<8} {text}"
                for name, text in ((label, shown(", ".join(places), 300)), ("costs", kind.cost), ("do", kind.remedy))
            ]
        if self.suspicious:
            lines += ["", f"The {min(most_suspicious, len(self.suspicious))} most suspicious pairs"]
        for suspicion in self.suspicious[:most_suspicious]:
            example = suspicion.example
            lines += [
                f"{example.place}  {'; '.join(suspicion.reasons)}",
                f"    {shown(example.source, 200)}",
                f"    {shown(example.target, 200)}",
            ]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Everything, with the line numbers of every finding."""
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
