"""The score of answers to questions, next to what it takes to reach: one answer to all of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from weft.metrics.course_bleu import exact_match
from weft.metrics.score import Scores


def score_answers(answers: Sequence[str], references: Sequence[str]) -> Scores:
    """exact_match and constant_answer, the exact match of the answer that is most often right (0..1)."""
    (constant, _), *_ = Counter(map(str.strip, references)).most_common(1)
    baseline = exact_match([constant] * len(references), [references])
    named = replace(baseline, name="constant_answer", remark=f'always "{constant}"')
    return Scores(len(answers), (exact_match(answers, [references]), named))
