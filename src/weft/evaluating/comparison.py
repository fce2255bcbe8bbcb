"""Compare two or more systems on the same sentences: scores, significance tests, faults, buckets and changed sentences.

A system is a list of translations from any source. The first one is the baseline for each of the others. Runs that
differ only in their seed are compared in seeds.py.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.data.corpus import ParallelText
from weft.data.doctor.copies import band_keys, find_in, near_duplicates
from weft.data.keys import keys_of
from weft.data.measures import count_characters, length, tokens
from weft.decoding.search import DecodingConfig
from weft.errors import CorpusError, Problem, counted
from weft.evaluating.evaluation import SHOWN_SCORES, describe_decoding, describe_intervals, describe_pairs, verdict
from weft.evaluating.faults import Faults, faults_table, find_faults
from weft.evaluating.parts import Tell, translate_in_parts
from weft.figures.table import Table, signed
from weft.files import as_utf_8, decode_lines, read_bytes, sha256, split_lines
from weft.metrics.comet import comet
from weft.metrics.references import reference_sets
from weft.metrics.requirements import RequirementResult, RequirementsConfig, check_requirements
from weft.metrics.score import Scores
from weft.metrics.significance import (
    RESAMPLES,
    SEED,
    TRIALS,
    PairedTest,
    Statistics,
    count_sentences,
    paired_tests,
    too_few,
    with_intervals,
)
from weft.metrics.translation import score_translations
from weft.text.chinese import is_chinese
from weft.translating.translator import Translator

Booleans = NDArray[np.bool_]

LENGTHS = (5, 10, 20, 40)
"""Upper limits, in words (Chinese: characters), of the buckets by length of the source."""
FREQUENCIES = (0, 9, 99, 999)
"""Upper limits of the buckets by the training-text frequency of the source's rarest word."""


@dataclass(frozen=True)
class System:
    """The translations of one system, in the order of the sources, and their origin."""

    name: str
    hypotheses: list[str]
    origin: Mapping[str, Any]
    """Seed, decoding, parameters and seconds of a model; sha256 of a file."""
    require: RequirementsConfig = field(default_factory=RequirementsConfig)
    """The limits of a model's recipe."""

    def check(self, scores: Scores) -> list[RequirementResult]:
        numbers = {name: value for name, value in self.origin.items() if name in ("seconds", "parameters")}
        return check_requirements(self.require, {**scores.values(), **numbers})

    @property
    def description(self) -> str:
        if "decoding" not in self.origin:
            return f"{self.name}: translations in a file (sha256 {self.origin['sha256'][:12]})"
        decoding = describe_decoding(self.origin["decoding"])
        return f"{self.name}: {decoding}; seed {self.origin['seed']}; {self.origin['seconds']:.2f} seconds"


def translate_with(
    translator: Translator,
    name: str,
    sources: Sequence[str],
    decoding: DecodingConfig | None = None,
    tell: Tell = lambda done, total: None,
) -> System:
    """Translate the sources, by default with the model's own decoding settings, as a system."""
    decoding = decoding or translator.decoding
    begin = time.perf_counter()
    found = translate_in_parts(translator, sources, tell, **dict(decoding))
    hypotheses = [translation.text for translation in found]
    origin = {
        "seed": translator.model.recipe.seed,
        "decoding": decoding.model_dump(),
        "parameters": translator.model.count_parameters(),
        "seconds": time.perf_counter() - begin,
    }
    return System(name, hypotheses, origin, translator.model.recipe.require)


def read_translations(path: Path, name: str, sentences: int) -> System:
    """Read a system from a file of translations, one per line. Raises CorpusError for another number of lines."""
    problems: list[Problem] = []
    lines = [text for _, text in decode_lines(split_lines(as_utf_8(read_bytes(path))), problems)]
    if not problems and len(lines) != sentences:
        counts = f"{counted(len(lines), 'line')}; the data has {counted(sentences, 'pair')}"
        problems.append(Problem("the file", f"has {counts}"))
    if problems:
        raise CorpusError(path.name, problems)
    return System(name, lines, {"sha256": sha256(path)})


@dataclass(frozen=True)
class Bucket:
    """A subset of the sentences, and the scores of every system on it."""

    kind: str
    name: str
    members: Booleans
    scores: Mapping[str, list[float]]
    """sacrebleu and chrf of every system."""

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "bucket": self.name, "sentences": int(self.members.sum()), "scores": self.scores}


@dataclass(frozen=True)
class Changed:
    """A sentence that two systems translate differently; `gain` is in sentence chrF, of the other over the baseline."""

    number: int
    """From 1, in the order of the data."""
    source: str
    reference: str
    baseline: str
    other: str
    gain: float


@dataclass(frozen=True)
class Comparison:
    """Results of the systems on one data set."""

    data: Mapping[str, str]
    languages: tuple[str, str]
    sources: list[str]
    references: list[list[str]]
    systems: list[System]
    scores: list[Scores]
    statistics: list[dict[str, Statistics]]
    tests: list[dict[str, PairedTest]]
    """Tests of every system except the first against the first; empty if there are too few sentences."""
    faults: list[Faults]
    buckets: list[Bucket]
    frequencies_from: str
    seed: int
    confidence: float

    @cached_property
    def changed(self) -> list[list[Changed]]:
        """For every system but the first, the sentences unlike the baseline's, largest chrF difference first."""
        baseline, *others = self.systems
        chrf = [of_system["chrf"].by_sentence() for of_system in self.statistics]
        found = []
        for system, gains in zip(others, (one - chrf[0] for one in chrf[1:]), strict=True):
            order = np.argsort(-np.abs(gains), kind="stable").tolist()
            found.append(
                [
                    Changed(
                        place + 1,
                        self.sources[place],
                        self.references[0][place],
                        baseline.hypotheses[place],
                        system.hypotheses[place],
                        float(gains[place]),
                    )
                    for place in order
                    if baseline.hypotheses[place] != system.hypotheses[place]
                ]
            )
        return found

    def with_comet(self, checkpoint: Path | None) -> "Comparison":
        """Add COMET to the scores if a checkpoint is given (see metrics/comet.py for the errors)."""
        if checkpoint is None:
            return self
        found = [comet(checkpoint, self.sources, system.hypotheses, self.references[0]) for system in self.systems]
        pairs = zip(self.scores, found, strict=True)
        return replace(self, scores=[replace(of, scores=(*of.scores, score)) for of, score in pairs])

    def as_dict(self, most_changed: int) -> dict[str, Any]:
        """For JSON, with at most `most_changed` sentences of each system."""
        names = [system.name for system in self.systems]
        return {
            "data": dict(self.data),
            "languages": list(self.languages),
            "baseline": names[0],
            "seed": self.seed,
            "confidence": self.confidence,
            "systems": {
                system.name: {**system.origin, **scores.as_dict(), "faults": faults.as_dict()}
                for system, scores, faults in zip(self.systems, self.scores, self.faults, strict=True)
            },
            "tests": {
                name: {score: vars(test) for score, test in tests.items()}
                for name, tests in zip(names[1:], self.tests, strict=False)
            },
            "buckets": [bucket.as_dict() for bucket in self.buckets],
            "frequencies_from": self.frequencies_from,
            "changed": {
                name: [vars(changed) for changed in of_system[:most_changed]]
                for name, of_system in zip(names[1:], self.changed, strict=True)
            },
        }

    def tables(self) -> list[Table]:
        """Scores, tests, faults and buckets; the changed sentences are in `changed`."""
        return [
            self._scores_table(),
            *self._tests_tables(),
            faults_table({system.name: f for system, f in zip(self.systems, self.faults, strict=True)}),
            *self._bucket_tables(),
        ]

    def _scores_table(self) -> Table:
        shown = {**SHOWN_SCORES, **({"comet": "COMET"} if "comet" in self.scores[0].values() else {})}
        limits = [system.check(scores) for system, scores in zip(self.systems, self.scores, strict=True)]
        rows = [
            (
                system.name,
                *(scores[score].formatted() for score in shown),
                *([verdict(own) if own else ""] if any(limits) else []),
            )
            for system, scores, own in zip(self.systems, self.scores, limits, strict=True)
        ]
        notes = [
            *(f"{one.name}: {limit.text}" for one, own in zip(self.systems, limits, strict=True) for limit in own),
            *self.scores[0].signatures(shown),
            *(system.description for system in self.systems),
            f"data: {describe_pairs(self.data, len(self.sources))}",
            f"intervals: {describe_intervals(self.scores[0])}",
        ]
        return Table("Scores", ("system", *shown.values(), *(["required"] * any(map(bool, limits)))), rows, notes)

    def _tests_tables(self) -> list[Table]:
        if not self.tests:
            return []
        rows = [
            (system.name, title, *cells_of_test(tests[score], decimals_of(score)))
            for system, tests in zip(self.systems[1:], self.tests, strict=True)
            for score, title in SHOWN_SCORES.items()
        ]
        notes = [
            f"p: paired bootstrap, {RESAMPLES:,} resamples; paired approximate randomization, {TRIALS:,} trials; "
            f"seed {self.seed}"
        ]
        header = ("system", "score", "difference", f"{self.confidence:g} interval", "p, bootstrap", "p, randomized")
        return [Table(f"Difference from {self.systems[0].name}", header, rows, notes, texts=frozenset({0, 1}))]

    def _bucket_tables(self) -> list[Table]:
        names = [system.name for system in self.systems]
        header = ("bucket", "sentences", *(f"{name} {title}" for title in ("sacreBLEU", "chrF") for name in names))
        tables = []
        for kind in dict.fromkeys(bucket.kind for bucket in self.buckets):
            rows = [
                (
                    bucket.name,
                    str(int(bucket.members.sum())),
                    *(f"{value:.2f}" for score in ("sacrebleu", "chrf") for value in bucket.scores[score]),
                )
                for bucket in self.buckets
                if bucket.kind == kind
            ]
            notes = [f"how often, counted in {self.frequencies_from}"] if kind == RARITY else []
            tables.append(Table(f"By {kind}", header, rows, notes))
        return tables


def cells_of_test(test: PairedTest, decimals: int) -> tuple[str, ...]:
    low, high = (signed(bound, decimals) for bound in test.interval)
    values = (f"{p:.4f}" for p in (test.bootstrap_p, test.randomization_p))
    return (signed(test.difference, decimals), f"[{low}, {high}]", *values)


def decimals_of(score: str) -> int:
    """Decimals to print: 4 for BLEU-1 to BLEU-4, which are fractions, and 2 for the other scores."""
    return 4 if score.startswith("bleu_") else 2


def compare(
    systems: Sequence[System],
    pairs: ParallelText,
    languages: tuple[str, str],
    *,
    training: ParallelText | None = None,
    confidence: float = 0.95,
    seed: int = SEED,
) -> Comparison:
    """Compare two or more systems; `training` is needed to find near-duplicates and to know rare words."""
    references = reference_sets(pairs.references)
    statistics = [count_sentences(system.hypotheses, references, languages[1]) for system in systems]
    scores = [score_translations(system.hypotheses, references, languages[1]) for system in systems]
    tests = []
    if not too_few(len(pairs)):
        scores = [with_intervals(one, of, confidence, seed=seed) for one, of in zip(scores, statistics, strict=True)]
        compared = {name: statistics[0][name] for name in SHOWN_SCORES}
        tests = [paired_tests(compared, other, confidence, seed=seed) for other in statistics[1:]]
    members, frequencies_from = buckets_of(pairs, languages, training)
    buckets = [
        Bucket(
            kind,
            name,
            chosen,
            {score: [of_system[score].score(chosen) for of_system in statistics] for score in ("sacrebleu", "chrf")},
        )
        for kind, of_kind in members.items()
        for name, chosen in of_kind.items()
        if chosen.any()
    ]
    faults = [find_faults(system.hypotheses, pairs.sources, references, languages) for system in systems]
    return Comparison(
        data=pairs.sha256,
        languages=languages,
        sources=pairs.sources,
        references=references,
        systems=list(systems),
        scores=scores,
        statistics=statistics,
        tests=tests,
        faults=faults,
        buckets=buckets,
        frequencies_from=frequencies_from,
        seed=seed,
        confidence=confidence,
    )


# Buckets

LENGTH, RARITY, SCRIPT, TWIN = (
    "length of the source",
    "rarest word of the source",
    "script",
    "likeness to training pairs",
)


def buckets_of(
    pairs: ParallelText, languages: tuple[str, str], training: ParallelText | None
) -> tuple[dict[str, dict[str, Booleans]], str]:
    """Bucket kind -> bucket name -> its sentences, and the name of the text in which words were counted.

    Words are the tokens of `measures.tokens`: in Chinese, characters.
    """
    words = [tokens(source) for source in pairs.sources]
    counted = words if training is None else [tokens(source) for source in training.sources]
    counts = Counter(word for sentence in counted for word in sentence)
    rarest = np.array([min((counts[word] for word in sentence), default=0) for sentence in words])
    found = {
        LENGTH: by_size(length(count_characters(pairs.sources), languages[0]), LENGTHS),
        RARITY: by_size(rarest, FREQUENCIES),
    }
    chinese = [texts for texts, code in zip((pairs.sources, pairs.targets), languages, strict=True) if is_chinese(code)]
    if chinese:
        found[SCRIPT] = by_script(chinese[0])
    if training is not None:
        found[TWIN] = by_likeness(pairs, training)
    return found, "the sources of --train" if training is not None else "the sources of the data itself: give --train"


def by_size(sizes: NDArray[np.int64], limits: Sequence[int]) -> dict[str, Booleans]:
    """Buckets up to each of the limits, and one above the last."""
    buckets, above = {}, 0
    for limit in limits:
        name = f"{above} to {limit}" if above else f"at most {limit}" if limit else "0"
        buckets[name] = (sizes >= above) & (sizes <= limit)
        above = limit + 1
    return {**buckets, f"{above} and more": sizes >= above}


def by_script(texts: Sequence[str]) -> dict[str, Booleans]:
    """Buckets of Chinese texts by characters that occur in only one script."""
    counts = count_characters(texts)
    traditional, simplified = counts["traditional"] > 0, counts["simplified"] > 0
    return {
        "Simplified": simplified & ~traditional,
        "Traditional": traditional & ~simplified,
        "mixed": traditional & simplified,
        "the same in both": ~traditional & ~simplified,
    }


def by_likeness(pairs: ParallelText, training: ParallelText) -> dict[str, Booleans]:
    """Buckets by whether the source, or a near-duplicate of the pair, is in the training data (doctor/copies.py)."""
    same = find_in(keys_of(pairs.sources), keys_of(training.sources)) >= 0
    sources = [tokens(source) for source in [*training.sources, *pairs.sources]]
    targets = [tokens(target) for target in [*training.targets, *pairs.targets]]
    trained = len(training.sources)
    near = near_duplicates(band_keys(sources, targets))[trained:] < trained
    return {"source in --train": same, "nearly the same pair": near & ~same, "new": ~near & ~same}
