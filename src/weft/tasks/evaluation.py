"""How good a model is on a file of pairs: every score with its signature, the time it took, and what made it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weft.data.corpus import ParallelText
from weft.metrics.requirements import RequirementResult, check_requirements
from weft.metrics.score import Scores
from weft.metrics.translation import score_translations, sentence_scores
from weft.tasks.translation import Translation, Translator, changed_decoding, reference_sets


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
    language: str
    requirements: list[RequirementResult]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: `data` maps file names to their sha256."""
        return {
            "data": dict(self.data),
            "decoding": dict(self.decoding),
            "seed": self.seed,
            **self.scores.as_dict(),
            "seconds": round(self.seconds, 3),
            "sentences_per_second": round(self.scores.sentences / self.seconds, 2),
            "parameters": self.parameters,
        }

    def table(self) -> str:
        """For a terminal: the scores with their signatures, then time and size."""
        shown = {key: value for key, value in self.decoding.items() if key != "batch_tokens"}
        return "\n".join(
            [
                self.scores.table(),
                "",
                f"data        {', '.join(f'{name} (sha256 {digest[:12]})' for name, digest in self.data.items())}",
                f"decoding    {', '.join(f'{key} {value}' for key, value in shown.items())}",
                f"seconds     {self.seconds:.2f}, {self.scores.sentences / self.seconds:.1f} sentences a second",
                f"parameters  {self.parameters:,}",
            ]
        )

    def rows(self) -> list[tuple[str, ...]]:
        """source, reference, hypothesis, sentence BLEU, sentence chrF and search score of each sentence, under a
        header.
        """
        hypotheses = [translation.text for translation in self.translations]
        by_sentence = sentence_scores(hypotheses, self.references, self.language)
        columns = zip(self.translations, self.references[0], by_sentence.bleu, by_sentence.chrf, strict=True)
        header = ("source", "reference", "hypothesis", "sentence_bleu", "sentence_chrf", "score")
        rows = [
            (on_one_line(t.source), on_one_line(reference), t.text, f"{bleu:.2f}", f"{chrf:.2f}", f"{t.score:.4f}")
            for t, reference, bleu, chrf in columns
        ]
        return [header, *rows]


def on_one_line(text: str) -> str:
    """The text with tabs and line ends, which a TSV cannot hold, as spaces."""
    return text.translate({ord("\t"): " ", ord("\n"): " ", ord("\r"): " "})


def evaluate(translator: Translator, pairs: ParallelText, **decoding: Any) -> EvaluatedSet:
    """Translate the sources and score the result; the seconds are those of the translation alone."""
    config = changed_decoding(translator.decoding, decoding)
    recipe = translator.model.recipe
    begin = time.perf_counter()
    translations = translator.translate(pairs.sources, **decoding)
    seconds = time.perf_counter() - begin
    references = reference_sets(pairs.references)
    scores = score_translations([translation.text for translation in translations], references, recipe.data.target)
    parameters = translator.model.count_parameters()
    measured = {**scores.values(), "seconds": seconds, "parameters": parameters}
    return EvaluatedSet(
        data=pairs.sha256,
        decoding=config.model_dump(),
        seed=recipe.seed,
        scores=scores,
        seconds=seconds,
        parameters=parameters,
        translations=translations,
        references=references,
        language=recipe.data.target,
        requirements=check_requirements(recipe.require, measured),
    )
