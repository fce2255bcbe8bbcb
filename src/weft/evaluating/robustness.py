"""Robustness to noise: the loss of score when the same sources are not as clean as the training data.

Translations of noisy sources are compared with clean translations of the same sentences by the same references, so that
only the noise differs. A greeting added to the source is not in the references, so it is removed from the translations
before they are scored. Two joined sentences are compared with their two translations joined. Sources that noise makes
too long for the model are left out on both sides.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress, zip_longest
from typing import Any

import numpy as np

from weft.data.corpus import ParallelText
from weft.data.noise import joined, noises_of, noisy
from weft.evaluating.evaluation import EvaluatedSet, describe_data, describe_decoding
from weft.evaluating.faults import find_faults
from weft.figures.table import Table, signed
from weft.metrics.score import Scores
from weft.metrics.translation import chrf, sacre_bleu
from weft.text.chinese import is_chinese
from weft.text.language import code_of
from weft.text.normalization import is_blank

JOINED = "two sentences joined"
NOISE_SEED = 1


@dataclass(frozen=True)
class UnderNoise:
    """The effect of one kind of noise on the translations."""

    kind: str
    changed: int
    """Number of sources that the noise changes and that the model can still read."""
    too_long: int
    """Number of sources that become too long for the model."""
    clean: Scores
    noisy: Scores
    faulty: float
    """Share of the noisy sources' translations with a fault (faults.py)."""
    example: tuple[str, str]
    """The source whose translation loses most, and that translation."""
    worst: float
    """The loss of that translation in chrF."""

    def loss(self, score: str) -> float:
        return self.clean[score].value - self.noisy[score].value

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "changed": self.changed,
            "too_long": self.too_long,
            "clean": self.clean.as_dict(),
            "noisy": self.noisy.as_dict(),
            "faulty": self.faulty,
            "example": {"source": self.example[0], "hypothesis": self.example[1]},
        }


def measure_noise(
    translate: Callable[[Sequence[str]], list[str]],
    can_read: Callable[[Sequence[str]], list[bool]],
    pairs: ParallelText,
    clean: EvaluatedSet,
) -> list[UnderNoise]:
    """Measure every kind of noise for the source language.

    `clean` is the evaluation of the same pairs with the same model; `can_read` tells which texts `translate` accepts.
    A kind that changes none of the sources is left out.
    """
    source, target = clean.languages
    cases = [
        (kind, pairs.sources, noisy(pairs.sources, kind, source, NOISE_SEED), clean.hypotheses, clean.references)
        for kind in noises_of(source)
    ]
    if len(pairs) > 1:
        twos = in_twos(pairs.sources, source)
        references = [in_twos(lines, target) for lines in complete(clean.references)]
        cases.append((JOINED, pairs.sources[::2], twos, in_twos(clean.hypotheses, target), references))
    found = [compared(*case, translate, can_read, clean.languages) for case in cases]
    return [one for one in found if one is not None]


def compared(
    kind: str,
    plain: Sequence[str],
    sources: Sequence[str],
    clean: Sequence[str],
    references: list[list[str]],
    translate: Callable[[Sequence[str]], list[str]],
    can_read: Callable[[Sequence[str]], list[bool]],
    languages: tuple[str, str],
) -> UnderNoise | None:
    """Compare translations of noisy sources with the clean ones; None if no source is changed and readable. `plain` has
    each source as it is without the noise."""
    is_read = can_read(sources)
    plain, sources, clean = (list(compress(lines, is_read)) for lines in (plain, sources, clean))
    references = [list(compress(lines, is_read)) for lines in references]
    changed = sum(one != other for one, other in zip(plain, sources, strict=True))
    if not changed:
        return None
    target = languages[1]
    hypotheses = translate(sources)
    if kind.startswith("greeting"):
        hypotheses = [without_greeting(text, other, target) for text, other in zip(hypotheses, clean, strict=True)]
    without, under = (
        Scores(len(texts), (sacre_bleu(texts, references, target), chrf(texts, references)))
        for texts in (clean, hypotheses)
    )
    lost = [
        chrf([one], [[line] for line in lines]).value - chrf([other], [[line] for line in lines]).value
        for one, other, lines in zip(clean, hypotheses, zip(*references, strict=True), strict=True)
    ]
    worst = int(np.argmax(lost))
    faults = find_faults(hypotheses, sources, references, languages)
    return UnderNoise(
        kind,
        changed,
        is_read.count(False),
        without,
        under,
        float(faults.any.mean()),
        (sources[worst], hypotheses[worst]),
        lost[worst],
    )


GREETING = {
    "zh": ("你好|您好|嗨|哈[喽嘍啰囉罗羅]|喂", r"[，。！？、,.!?]+\s*"),
    "en": (r"hello|hi|hey|good (?:morning|afternoon|evening|day)|how are you|how do you do", r"[,.!?]+\s*"),
}


def without_greeting(text: str, clean: str, language: str) -> str:
    """Remove a greeting at the beginning or the end, set off by punctuation, unless the clean translation has it too.

    Languages other than Chinese and English are returned unchanged.
    """
    code = "zh" if is_chinese(language) else code_of(language)
    if code not in GREETING:
        return text
    for without_one in (without_greeting_before, without_greeting_after):
        if count_greetings(text, code, without_one) > count_greetings(clean, code, without_one):
            return without_one(text, code) or text
    return text


def count_greetings(text: str, code: str, without_one: Callable[[str, str], str | None]) -> int:
    count = 0
    while (rest := without_one(text, code)) is not None:
        text, count = rest, count + 1
    return count


def without_greeting_before(text: str, code: str) -> str | None:
    """The text without the greeting at its beginning; None if there is none or nothing else."""
    words, signs = GREETING[code]
    before = re.match(rf"\s*(?:{words}){signs}", text, re.IGNORECASE)
    if before is None or before.end() == len(text):
        return None
    rest = text[before.end() :]
    return rest[0].upper() + rest[1:]


def without_greeting_after(text: str, code: str) -> str | None:
    """The text without the greeting at its end; None if there is none."""
    words, _ = GREETING[code]
    after = re.search(rf"[，。！？、,.!?]\s*(?:{words})([，。！？,.!? ]*)$", text, re.IGNORECASE)
    if after is None or not after.start():
        return None
    ends = text[after.start()] if text[after.start()] in "。！？.!?" else after[1].strip()
    return text[: after.start()] + ends


def in_twos(texts: Sequence[str], language: str) -> list[str]:
    """Join the texts two by two; the last of an odd number stays alone."""
    twos = zip_longest(texts[::2], texts[1::2])
    return [joined(first, second, language) if second is not None else first for first, second in twos]


def complete(references: Sequence[Sequence[str]]) -> list[list[str]]:
    """Fill blanks in the sets with the first reference, because half of a joined reference would be wrong."""
    first = [next(line for line in lines if not is_blank(line)) for lines in zip(*references, strict=True)]
    return [
        [other if is_blank(line) else line for line, other in zip(lines, first, strict=True)] for lines in references
    ]


def noise_table(found: Sequence[UnderNoise], clean: EvaluatedSet) -> Table:
    """A row for each kind: the number of changed sources, both scores, and their loss."""
    rows = [
        (
            one.kind,
            str(one.changed),
            one.noisy["sacrebleu"].formatted(),
            signed(-one.loss("sacrebleu"), 2),
            one.noisy["chrf"].formatted(),
            signed(-one.loss("chrf"), 2),
            f"{one.faulty:.1%}",
        )
        for one in found
    ]
    unchanged = ("none", "0", f"{clean.scores['sacrebleu'].value:.2f}", "", f"{clean.scores['chrf'].value:.2f}", "")
    notes = [
        *clean.scores.signatures({"sacrebleu": "sacreBLEU", "chrf": "chrF"}),
        f"decoding: {describe_decoding(clean.decoding)}; data: {describe_data(clean.data)}; noise seed {NOISE_SEED}",
        *(
            f"lost most by {one.kind}: {one.example[0]} → {one.example[1] or '(nothing)'}"
            for one in found
            if one.worst > 0
        ),
        *(f"too long for the model by {one.kind}, left out: {one.too_long:,}" for one in found if one.too_long),
    ]
    header = ("noise", "sources changed", "sacreBLEU", "change", "chrF", "change", "faulty")
    return Table("Robustness", header, [(*unchanged, f"{clean.faults.any.mean():.1%}"), *rows], notes)
