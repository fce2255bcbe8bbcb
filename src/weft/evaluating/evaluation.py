"""Evaluate a model on a file of pairs: scores with signatures, faults, time, and the settings behind them.

One decoding at a time, or several side by side (`parse_methods`, `methods_table`). robustness.py measures the effect of
noise on the same pairs, comparison.py compares systems.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from weft.config import Resolved, override
from weft.data.corpus import ParallelText
from weft.decoding.search import DecodingConfig
from weft.errors import Problem, RecipeError, UsageError, counted
from weft.evaluating.faults import Faults, faults_table, find_faults, script_remark
from weft.evaluating.parts import Tell, translate_in_parts
from weft.figures.table import Table
from weft.folders.recipes import TranslationRecipe
from weft.metrics.comet import comet
from weft.metrics.course_bleu import MAX_ORDER, course_bleu
from weft.metrics.references import reference_sets
from weft.metrics.requirements import RequirementResult, check_requirements
from weft.metrics.score import Scores
from weft.metrics.significance import Statistics, count_sentences, too_few, with_intervals
from weft.metrics.translation import score_translations, sentence_scores
from weft.translating.arguments import changed_decoding
from weft.translating.glossary import Terms
from weft.translating.translation import Translation
from weft.translating.translator import Translator

SIZES = ("beam", "mbr")
"""The methods that take a number after their name."""


def size_of(method: str, mbr_from: str) -> str | None:
    """The setting that the number after a method gives: how many hypotheses it compares."""
    if method == "mbr" and mbr_from == "samples":
        return "mbr_candidates"
    return "beam_size" if method in SIZES else None


@dataclass(frozen=True)
class EvaluatedSet:
    """The scores of one model with one decoding on one data set."""

    data: Mapping[str, str]
    decoding: Mapping[str, Any]
    seed: int
    scores: Scores
    seconds: float
    parameters: int
    translations: list[Translation]
    references: list[list[str]]
    languages: tuple[str, str]
    requirements: list[RequirementResult]

    @property
    def hypotheses(self) -> list[str]:
        return [translation.text for translation in self.translations]

    @property
    def sentences_per_second(self) -> float:
        return self.scores.sentences / self.seconds

    @cached_property
    def faults(self) -> Faults:
        """The translations that are empty, copied, in a loop and so on (faults.py)."""
        sources = [translation.source for translation in self.translations]
        return find_faults(self.hypotheses, sources, self.references, self.languages)

    @cached_property
    def statistics(self) -> dict[str, Statistics]:
        return count_sentences(self.hypotheses, self.references, self.languages[1])

    @cached_property
    def script_remark(self) -> str:
        """A remark on references in the other Chinese script; empty if there are hardly any."""
        return script_remark(self.hypotheses, self.references, self.languages[1])

    def with_intervals(self, confidence: float = 0.95) -> "EvaluatedSet":
        """Add bootstrap intervals to the scores, unless there are too few sentences or no confidence is requested."""
        if not confidence or too_few(self.scores.sentences):
            return self
        return replace(self, scores=with_intervals(self.scores, self.statistics, confidence))

    def with_comet(self, checkpoint: Path | None) -> "EvaluatedSet":
        """Add COMET to the scores if a checkpoint is given (see metrics/comet.py for the errors)."""
        if checkpoint is None:
            return self
        sources = [translation.source for translation in self.translations]
        score = comet(checkpoint, sources, self.hypotheses, self.references[0])
        return replace(self, scores=replace(self.scores, scores=(*self.scores.scores, score)))

    def as_dict(self) -> dict[str, Any]:
        """For JSON: `data` maps file names to their sha256."""
        return {
            "data": dict(self.data),
            "decoding": dict(self.decoding),
            "decoding_in_use": describe_decoding(self.decoding),
            "seed": self.seed,
            **self.scores.as_dict(),
            "faults": self.faults.as_dict(),
            **({"script": self.script_remark} if self.script_remark else {}),
            "seconds": round(self.seconds, 3),
            "sentences_per_second": round(self.sentences_per_second, 2),
            "parameters": self.parameters,
        }

    def tables(self) -> list[Table]:
        """The scores with signatures, data, decoding, time and size; and the faults."""
        notes = [
            *([self.script_remark] if self.script_remark else []),
            f"data: {describe_pairs(self.data, self.scores.sentences)}; seed {self.seed}",
            f"decoding: {describe_decoding(self.decoding)}",
            f"intervals: {describe_intervals(self.scores)}",
            f"seconds: {self.seconds:.2f}, {self.sentences_per_second:.1f} sentences a second",
            f"parameters: {self.parameters:,}",
        ]
        return [self.scores.table("Scores", notes), faults_table({"translations": self.faults})]

    def rows(self) -> list[tuple[str, ...]]:
        """source, reference, hypothesis, sentence BLEU, sentence chrF, search score, and the courses' BLEU-1 to BLEU-4
        of each sentence, under a header.
        """
        by_sentence = sentence_scores(self.hypotheses, self.references, self.languages[1])
        columns = zip(self.translations, self.references[0], by_sentence, strict=True)
        orders = range(1, MAX_ORDER + 1)
        header = ("source", "reference", "hypothesis", "sentence_bleu", "sentence_chrf", "score")
        rows = []
        for number, (t, reference, (bleu, chrf)) in enumerate(columns):
            alone = course_bleu([t.text], [[lines[number]] for lines in self.references], self.languages[1])
            figures = f"{bleu:.2f}", f"{chrf:.2f}", f"{t.score:.4f}", *(f"{alone.bleu(order):.4f}" for order in orders)
            rows.append((on_one_line(t.source), on_one_line(reference), on_one_line(t.text), *figures))
        return [(*header, *(f"sentence_bleu_{order}" for order in orders)), *rows]


def on_one_line(text: str) -> str:
    """The text with tabs and line ends, which a TSV cannot hold, as spaces."""
    return text.translate({ord("\t"): " ", ord("\n"): " ", ord("\r"): " "})


def describe_data(data: Mapping[str, str]) -> str:
    return ", ".join(f"{name} (sha256 {digest[:12]})" for name, digest in data.items())


def describe_pairs(data: Mapping[str, str], sentences: int) -> str:
    return f"{describe_data(data)}, {counted(sentences, 'sentence')}"


def describe_intervals(scores: Scores) -> str:
    """The method of the scores' intervals, or the reason why there are none."""
    found = next((score.interval for score in scores.scores if score.interval is not None), None)
    if found is None:
        return f"none: {too_few(scores.sentences) or 'not asked for'}"
    return f"{found.confidence:g} confidence, {found.signature}"


def evaluate(
    translator: Translator,
    pairs: ParallelText,
    *,
    glossary: Terms | None = None,
    tell: Tell = lambda done, total: None,
    **decoding: Any,
) -> EvaluatedSet:
    """Translate the sources and score the result; only the translation is timed. `tell` hears how far it is."""
    terms = translator.as_glossary(glossary)
    config = changed_decoding(translator.decoding, decoding)
    recipe = translator.model.recipe
    begin = time.perf_counter()
    translations = translate_in_parts(translator, pairs.sources, tell, glossary=terms, **decoding)
    seconds = time.perf_counter() - begin
    references = reference_sets(pairs.references)
    scores = score_translations([translation.text for translation in translations], references, recipe.data.target)
    parameters = sum(member.count_parameters() for member in translator.members)
    measured = {**scores.values(), "seconds": seconds, "parameters": parameters}
    return EvaluatedSet(
        data={**pairs.sha256, **({"the glossary": terms.digest} if terms else {})},
        decoding=config.model_dump(),
        seed=recipe.seed,
        scores=scores,
        seconds=seconds,
        parameters=parameters,
        translations=translations,
        references=references,
        languages=(recipe.data.source, recipe.data.target),
        requirements=check_requirements(recipe.require, measured),
    )


# Several decodings side by side


def parse_methods(text: str, resolved: Resolved[TranslationRecipe]) -> dict[str, DecodingConfig]:
    """Parse decodings such as "greedy,beam:5,beam:5+length_penalty=none,mbr:16"; returns them by part.

    A part is a method, a size after a colon (for the methods in SIZES), and settings of [decoding] after plus signs.
    Other settings are those of the recipe. Raises RecipeError with every problem.
    """
    parts = [part.strip() for part in text.split(",")]
    found, problems = {}, []
    for part in parts:
        if part in found:
            problems.append(Problem(part, "occurs more than once"))
            continue
        try:
            overrides = settings_of_method(part, resolved.recipe.decoding.mbr_from)
            found[part] = override(resolved, overrides, f"the method {part}", ("decoding",)).recipe.decoding
        except RecipeError as error:
            problems += [Problem(part, f"{problem.where}: {problem.what}") for problem in error.problems]
        except UsageError as error:
            problems.append(Problem(part or "(nothing)", str(error)))
    if problems:
        raise RecipeError("--methods", problems)
    return found


def settings_of_method(part: str, mbr_from: str) -> list[str]:
    """beam:5+length_penalty=none as decoding.method=beam, decoding.beam_size=5, decoding.length_penalty=none.

    `mbr_from` is the recipe's.
    """
    named, *settings = part.split("+")
    method, colon, size = named.partition(":")
    if not method:
        raise UsageError("is not a method; separate methods by commas, such as greedy,beam:5")
    if colon and method in get_args(DecodingConfig.model_fields["method"].annotation) and method not in SIZES:
        raise UsageError(f"{method} takes no number; those that do: {', '.join(SIZES)}")
    if without := [setting for setting in settings if "=" not in setting]:
        raise UsageError(f"{without[0] or 'nothing'} after a plus is not a setting; write +key=value")
    said = dict(setting.split("=", 1) for setting in settings)
    sizes = [f"{size_of(method, said.get('mbr_from', mbr_from))}={size}"] if colon and method in SIZES else []
    return [f"decoding.{setting}" for setting in (f"method={method}", *sizes, *settings)]


def evaluate_methods(
    translator: Translator,
    pairs: ParallelText,
    methods: Mapping[str, DecodingConfig],
    glossary: Terms | None = None,
    teller: Callable[[str], Tell] = lambda name: lambda done, total: None,
) -> dict[str, EvaluatedSet]:
    """Evaluate each decoding in turn, with the same model; `teller` makes what hears how far each is."""
    return {
        name: evaluate(translator, pairs, glossary=glossary, tell=teller(name), **dict(config))
        for name, config in methods.items()
    }


SHOWN_SCORES = {
    **{f"bleu_{order}": f"BLEU-{order}" for order in range(1, MAX_ORDER + 1)},
    **{"sacrebleu": "sacreBLEU", "chrf": "chrF"},
}


def methods_table(evaluated: Mapping[str, EvaluatedSet]) -> Table:
    """A row for each decoding, with the settings and signatures in the notes."""
    first = next(iter(evaluated.values()))
    shown = {**SHOWN_SCORES, **({"comet": "COMET"} if "comet" in first.scores.values() else {})}
    rows = [
        (
            name,
            *(one.scores[score].formatted() for score in shown),
            f"{one.faults.any.mean():.1%}",
            f"{one.seconds:.2f}",
            f"{one.sentences_per_second:.1f}",
            *([verdict(one.requirements)] if first.requirements else []),
        )
        for name, one in evaluated.items()
    ]
    notes = [
        *(f"{name}: {limit.text}" for name, one in evaluated.items() for limit in one.requirements),
        *first.scores.signatures(shown),
        *(f"{name}: {describe_decoding(one.decoding)}" for name, one in evaluated.items()),
        f"data: {describe_pairs(first.data, first.scores.sentences)}; seed {first.seed}; "
        f"{first.parameters:,} parameters",
        f"intervals: {describe_intervals(first.scores)}",
    ]
    header = ("method", *shown.values(), "faulty", "seconds", "sentences/s", *(["required"] * bool(first.requirements)))
    return Table("Decoding methods", header, rows, notes)


def verdict(requirements: Sequence[RequirementResult]) -> str:
    return "PASS" if all(limit.passed for limit in requirements) else "FAIL"


def describe_decoding(decoding: Mapping[str, Any]) -> str:
    """The method, its size, the length penalty of beam search, and every other setting in use without its default."""
    defaults = DecodingConfig().model_dump()
    method, mbr_from = decoding["method"], decoding.get("mbr_from", defaults["mbr_from"])
    always = {"method", size_of(method, mbr_from), *(["length_penalty"] if method == "beam" else [])}
    idle = idle_settings(method, mbr_from)
    shown = {k: v for k, v in decoding.items() if k in always or (v != defaults[k] and k not in idle)}
    return ", ".join(f"{key} {value}" for key, value in shown.items())


def idle_settings(method: str, mbr_from: str) -> set[str]:
    """The settings that this method does not use."""
    used = {"mbr", mbr_from} if method == "mbr" else {"samples" if method == "sample" else method}
    idle = {setting for search, settings in SETTINGS_OF.items() if search not in used for setting in settings}
    return idle | ({"mbr_candidates"} if mbr_from == "beam" else set())


SETTINGS_OF = {
    "beam": (
        "beam_size",
        "length_penalty",
        "length_power",
        "word_reward",
        "coverage_penalty",
        "diverse_groups",
        "diversity",
        "stopping",
        "patience",
    ),
    "samples": ("temperature", "top_k", "top_p", "epsilon", "sampling_seed"),
    "mbr": ("mbr_candidates", "mbr_from", "mbr_utility", "mbr_form"),
}
"""Settings that only one search uses; minimum Bayes risk also uses those of the search that gives its candidates."""


def methods_rows(evaluated: Mapping[str, EvaluatedSet]) -> Sequence[tuple[str, ...]]:
    """source, reference and a column of translations for each decoding, under a header."""
    first = next(iter(evaluated.values()))
    sources = [on_one_line(translation.source) for translation in first.translations]
    references = [on_one_line(reference) for reference in first.references[0]]
    hypotheses = [[*map(on_one_line, one.hypotheses)] for one in evaluated.values()]
    return [("source", "reference", *evaluated), *zip(sources, references, *hypotheses, strict=True)]
