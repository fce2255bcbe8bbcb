"""The checks that need no lexicon, on pairs in memory: what `weft train` reports when it begins."""

from collections.abc import Iterator

import numpy as np

from weft.data.corpus import ParallelText, Part
from weft.data.doctor.examination import EXAMPLES, Examination, describe_leaks
from weft.data.doctor.findings import KINDS, Diagnosis, Finding, Leaks
from weft.data.doctor.reading import PairsInMemory
from weft.data.keys import keys_of

MOST_LINES = 3
LEAST_SHARE = 1.0
"""Percent of the pairs from which on a warning is reported."""


def examine_quickly(
    train: ParallelText,
    valid: ParallelText,
    languages: tuple[str, str],
    *,
    whole: int | None = None,
    leak: Finding | None = None,
) -> Diagnosis:
    """Run the checks that need no lexicon on pairs in memory.

    `train` may be a sample of a corpus of `whole` pairs; `leak` is the finding for all of them (see `leaks_of`).
    """
    files = [
        PairsInMemory(part.file or name, name, text, first, part)
        for name, text in (("train", train), ("valid", valid))
        for first, part in parts_of(text)
    ]
    examination = Examination(files, languages, is_quick=True)
    examination.check_each_pair()
    examination.find_length_ratios()
    if whole is not None and whole > len(train):
        examination.remarks.append(f"checked a sample of {len(train):,} of {whole:,} training pairs")
    return examination.diagnosis([leak] if leak is not None else [])


def leaks_of(leaks: Leaks, pairs: int, valid: ParallelText, *, in_one_language: bool = False) -> Finding | None:
    """Return the finding for these leaks into `valid` from a training corpus of so many pairs; None without leaks."""
    if not leaks.lines:
        return None
    sources, targets = (leaks.sources | leaks.targets,) * 2 if in_one_language else (leaks.sources, leaks.targets)
    references = [text for texts in valid.references for text in texts]
    pair_of = np.repeat(np.arange(len(valid)), [len(texts) for texts in valid.references])
    known = [
        len(np.unique(of_text[np.isin(keys_of(texts), np.array(sorted(keys), np.uint64))]))
        for texts, of_text, keys in (
            (valid.sources, np.arange(len(valid)), sources),
            (references, pair_of, targets),
        )
    ]
    details = [describe_leaks(known, len(valid), "valid", "train")]
    return Finding("leak", leaks.lines, leaks.examples[:EXAMPLES], details, looked_at=pairs + len(valid))


def summary_lines(diagnosis: Diagnosis) -> list[str]:
    """Return the errors, and the warnings about at least LEAST_SHARE of the pairs, in at most MOST_LINES lines."""
    serious = [
        finding
        for finding in diagnosis.findings
        if finding.severity == "error"
        or (finding.severity == "warning" and diagnosis.share(finding.count) >= LEAST_SHARE)
    ]
    lines = [
        f"data {finding.severity}: {KINDS[finding.kind].title}: {finding.count:,} "
        f"pair{'s' if finding.count > 1 else ''}"
        + (f", such as {finding.examples[0].place}" if finding.examples else "")
        + (f" ({finding.details[0]})" if finding.details else "")
        for finding in serious
    ]
    if len(lines) > MOST_LINES:
        others = ", ".join(f"{finding.kind} ({finding.count:,})" for finding in serious[MOST_LINES - 1 :])
        lines = [*lines[: MOST_LINES - 1], f"data: also {others}; for details run `weft doctor` on the recipe"]
    return lines


def parts_of(text: ParallelText) -> Iterator[tuple[int, Part]]:
    """Yield (first pair, part) for each file of the text."""
    first = 0
    for part in text.parts or (Part(len(text)),):
        yield first, part
        first += part.pairs
