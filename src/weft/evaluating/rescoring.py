"""n-best lists scored by other models, and how much these scores help: rescoring and the noisy channel.

    score(y | x) = s(y) + (w_1 log p(x | y) + w_2 log p(y) + w_3 |y|) / |x|

s(y) is the score of the search, with its length penalty; p(x | y), the channel, is a translator of the other direction;
p(y) is a language model; |y| and |x| count the pieces (Yee et al. 2019, "Simple and Effective Noisy Channel
Modeling for Neural Machine Translation", equation 4, with a weight for each term). With weights of 0 the one with
the highest score of the search is chosen. The raw scores are stored once; weights are then tried without any model.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, PositiveInt, TypeAdapter, ValidationError

from weft.data.corpus import ParallelText
from weft.data.encoding import tag_ids
from weft.errors import CorpusError, Problem, UsageError
from weft.evaluating.forced import force, refuse_export
from weft.figures.table import Table, signed
from weft.metrics.references import reference_sets
from weft.metrics.significance import Statistics, paired_tests, statistics_by, too_few
from weft.metrics.translation import bleu_metric, sacrebleu_sets
from weft.text.language import code_of
from weft.translating.batches import copies_in, encode_sources
from weft.translating.translator import Translator

WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
REWARDS = (0.0, 0.2, 0.5, 1.0)
"""The weights that are tried, of log-probabilities and of lengths."""


@dataclass(frozen=True)
class Candidate:
    """A translation in an n-best list with its raw scores, in nats; 0 for a model that was not there."""

    text: str
    score: FiniteFloat
    pieces: PositiveInt
    channel: FiniteFloat = 0.0
    language: FiniteFloat = 0.0


@dataclass(frozen=True)
class NBest:
    """A source, its length in pieces, its references and its candidates, in the order of the search."""

    language: str
    """Code of the language of the translations."""
    source: str
    pieces: PositiveInt
    references: Annotated[tuple[str, ...], Field(min_length=1)]
    candidates: Annotated[tuple[Candidate, ...], Field(min_length=1)]

    def as_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False) + "\n"


def read_lists(name: str, lines: Sequence[str]) -> list[NBest]:
    """The lists in the lines of a file that `NBest.as_json` made. Raises CorpusError with every wrong line."""
    kind, found, problems = TypeAdapter(NBest), [], []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(kind.validate_json(line, strict=True))
        except ValidationError as error:
            first = error.errors()[0]
            what = ": ".join([*[".".join(map(str, first["loc"]))] * bool(first["loc"]), first["msg"]])
            problems.append(Problem(f"line {number}", f"is not a scored n-best list: {what}"))
    if problems:
        raise CorpusError(name, problems)
    return found


def score_lists(
    translator: Translator,
    pairs: ParallelText,
    best: int,
    *,
    channel: Translator | None = None,
    language: Callable[[Sequence[str]], list[float]] | None = None,
) -> list[NBest]:
    """The n-best list of every source, scored by the translator of the other direction and by a language model, a
    function of texts. Raises what `force` raises, and UsageError where the other direction is not that."""
    if channel and [*map(code_of, channel.languages)] != [*map(code_of, reversed(translator.languages))]:
        there, back_again = (" -> ".join(each.languages) for each in (translator, channel))
        raise UsageError(f"the model translates {there}, and the one of the other direction {back_again}")
    if channel:
        refuse_export(channel)
    found = translator.translate_n_best(pairs.sources, best)
    script = translator.decoding.script
    texts = [translator.as_written(one.text, script) for of_source in found for one in of_source]
    sources = [source for source, of_source in zip(pairs.sources, found, strict=True) for _ in of_source]
    back = [one.log_prob for one in force(channel, texts, sources)] if channel else [0.0] * len(texts)
    alone = language(texts) if language else [0.0] * len(texts)
    model, scored = translator.model, iter(zip(back, alone, strict=True))
    tags = len(tag_ids(model.vocabularies["source"], model.recipe.data.tag))
    lengths, lists = encode_sources(model, pairs.sources).lengths - tags, []
    for source, references, of_source, length in zip(pairs.sources, pairs.references, found, lengths, strict=True):
        copies = copies_in(model, source)
        own = [copies.in_text(translator.as_written(one.text, script)) for one in of_source]
        written = model.vocabularies["target"].encode(own)
        pieces = [len(ids) + 1 for ids in written]
        candidates = (
            Candidate(one.text, one.score, length, *next(scored)) for one, length in zip(of_source, pieces, strict=True)
        )
        of_pieces = max(1, int(length))  # a blank source has </s> alone
        lists.append(NBest(translator.languages[1], source, of_pieces, tuple(references), tuple(candidates)))
    return lists


class Lists:
    """Many n-best lists as arrays: scores and features of all candidates, and what each adds to BLEU."""

    def __init__(self, lists: Sequence[NBest]) -> None:
        widest = max(len(one.candidates) for one in lists)
        self.scores = np.full((len(lists), widest), -np.inf)
        self.features = np.zeros((len(lists), widest, 3))
        self.places = np.zeros((len(lists), widest), np.int64)
        every = [(row, column, each) for row, one in enumerate(lists) for column, each in enumerate(one.candidates)]
        for place, (row, column, each) in enumerate(every):
            self.scores[row, column], self.places[row, column] = each.score, place
            self.features[row, column] = np.array([each.channel, each.language, each.pieces]) / lists[row].pieces
        sets, texts = (
            reference_sets([lists[row].references for row, _, _ in every]),
            [each.text for _, _, each in every],
        )
        present = sacrebleu_sets(texts, sets)  # a missing one has no length
        metric = bleu_metric(lists[0].language, None)
        self.bleu = statistics_by(metric, texts, present)
        self.signature = metric.get_signature().format()

    def first(self, rows: NDArray[np.int64]) -> Statistics:
        """The BLEU of the first candidates of these rows."""
        return self._bleu_of(self.places[rows, 0])

    def chosen(self, weights: Sequence[float], rows: NDArray[np.int64]) -> Statistics:
        """The BLEU of the best candidates of these rows by these weights."""
        best = (self.scores[rows] + self.features[rows] @ np.array(weights)).argmax(1)
        return self._bleu_of(self.places[rows, best])

    def _bleu_of(self, places: NDArray[np.int64]) -> Statistics:
        return Statistics(self.bleu.counts[places], self.bleu.score_of)


@dataclass(frozen=True)
class Rescored:
    """What a choice of models gains on sentences on which its weights were not tuned."""

    models: str
    weights: tuple[float, ...]
    """For channel, language and pieces."""
    bleu: float
    difference: float
    """From the first candidates."""
    interval: tuple[float, float] | None
    """None for too few sentences, as `p` is then."""
    p: float | None


@dataclass(frozen=True)
class Report:
    tuned_on: int
    reported_on: int
    first: float
    """BLEU of the first candidates of the sentences that are reported on."""
    rescored: tuple[Rescored, ...]
    signature: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def table(self) -> str:
        head = ("models", "w1", "w2", "w3", "BLEU", "difference", "95 % interval", "p")
        rows = [("first of the list", "", "", "", f"{self.first:.2f}", "", "", "")]
        rows += [
            (
                one.models,
                *(f"{weight:g}" for weight in one.weights),
                f"{one.bleu:.2f}",
                signed(one.difference, 2),
                "" if one.interval is None else " .. ".join(signed(end, 2) for end in one.interval),
                "" if one.p is None else f"{one.p:.3f}",
            )
            for one in self.rescored
        ]
        tuned = f"weights tuned on {self.tuned_on:,} sentences, scores of the other {self.reported_on:,}"
        few = too_few(self.reported_on)
        terms = "w1: channel, w2: language model, w3: length in pieces"
        return Table("", head, rows, (terms, tuned, *([f"no interval: {few}"] if few else []), self.signature)).text()


def rescore(lists: Sequence[NBest]) -> Report:
    """Tune the weights of each choice of models on every other sentence, and compare on the rest."""
    if len(lists) < 2:
        raise UsageError("rescoring tunes on every other sentence and reports on the rest; give at least two")
    of_all = Lists(lists)
    tuned, rest = np.arange(0, len(lists), 2), np.arange(1, len(lists), 2)
    first = of_all.first(rest)
    scored = [bool(of_all.features[:, :, feature].any()) for feature in (0, 1)]
    found = []
    for name, uses in {"channel": (1, 0), "language": (0, 1), "channel + language": (1, 1)}.items():
        if any(use and not there for use, there in zip(uses, scored, strict=True)):
            continue
        grid = product(*(WEIGHTS if use else (0.0,) for use in uses), REWARDS)
        weights = max(grid, key=lambda tried: of_all.chosen(tried, tuned).score())
        chosen = of_all.chosen(weights, rest)
        test = paired_tests({"bleu": first}, {"bleu": chosen})["bleu"]
        chance = (None, None) if too_few(len(rest)) else (test.interval, test.randomization_p)
        found.append(Rescored(name, weights, chosen.score(), test.difference, *chance))
    return Report(len(tuned), len(rest), first.score(), tuple(found), of_all.signature)
