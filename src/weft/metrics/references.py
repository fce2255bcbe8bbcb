"""Brings hypotheses and any number of reference sets together, sentence by sentence. Knows no metric.

References come in sets, as sacreBLEU takes them: `references[k][i]` is the k-th translation of sentence i. Not every
sentence has to be in every set: None or a string without a visible character says that the set lacks it. Left in as an
empty reference of length zero, it would lower the reference lengths behind the brevity penalty and the edit rate.
"""

from collections.abc import Sequence

from weft.errors import CorpusError, Problem, UsageError
from weft.text.normalization import is_blank

ReferenceSets = Sequence[Sequence[str | None]]


def references_by_sentence(hypotheses: Sequence[str], references: ReferenceSets) -> list[tuple[str, ...]]:
    """For each hypothesis the references that there are, one at least; the order of the sets is kept.

    Raises UsageError where there is nothing to compare with, CorpusError listing every set of another length than the
    hypotheses, and, where the lengths agree, every sentence that no set translates.
    """
    if not references:
        raise UsageError("there are no references to score against; give one set of them at least")
    if any(isinstance(reference_set, str) for reference_set in references):
        raise UsageError("references come in sets, one sequence of sentences for each; wrap a single set in a list")
    _check_lengths(hypotheses, references)
    by_sentence = [
        tuple(line for line in lines if line and not is_blank(line)) for lines in zip(*references, strict=True)
    ]
    without = [index for index, lines in enumerate(by_sentence, start=1) if not lines]
    if without:
        raise CorpusError(
            "the reference text", [Problem(f"line {line}", "is blank in every reference set") for line in without]
        )
    return by_sentence


def reference_sets(by_sentence: Sequence[tuple[str, ...]]) -> list[list[str]]:
    """From as many references for each sentence to one set for each place among them."""
    return [list(column) for column in zip(*by_sentence, strict=True)]


def count_references(by_sentence: Sequence[Sequence[str]]) -> str:
    """The number of references of a sentence as it stands in a signature; `var` where it differs among sentences."""
    counts = {len(lines) for lines in by_sentence}
    return str(counts.pop()) if len(counts) == 1 else "var"


def _check_lengths(hypotheses: Sequence[str], references: ReferenceSets) -> None:
    if not hypotheses:
        raise UsageError("there are no hypotheses to score")
    problems = [
        Problem(f"reference set {number}", f"has {len(lines)} sentences; the hypotheses are {len(hypotheses)}")
        for number, lines in enumerate(references, start=1)
        if len(lines) != len(hypotheses)
    ]
    if problems:
        raise CorpusError("the reference text", problems)
