"""Pairs hypotheses with any number of reference sets, sentence by sentence.

References come in sets, as in sacreBLEU: `references[k][i]` is the k-th translation of sentence i. A set may lack a
sentence: None or a string without a visible character says so. Kept as an empty reference of length zero, it would
lower the reference lengths in the brevity penalty and the edit rate.
"""

from collections.abc import Sequence
from itertools import zip_longest

from weft.errors import CorpusError, Problem, UsageError
from weft.text.normalization import is_blank

ReferenceSets = Sequence[Sequence[str | None]]


def references_by_sentence(hypotheses: Sequence[str], references: ReferenceSets) -> list[tuple[str, ...]]:
    """The references of each hypothesis, at least one, in the order of the sets.

    Raises UsageError without references or hypotheses, CorpusError with every set whose length differs from that of the
    hypotheses or, if all agree, with every sentence that no set translates.
    """
    if not references:
        raise UsageError("there are no references to score against; give at least one set of them")
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
    """The sets of references, from those of each sentence; a missing one is blank."""
    return [list(column) for column in zip_longest(*by_sentence, fillvalue="")]


def count_references(by_sentence: Sequence[Sequence[str]]) -> str:
    """The number of references per sentence as in a signature: `var` if it differs among sentences."""
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
