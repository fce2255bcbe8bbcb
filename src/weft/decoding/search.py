"""Search by settings: one config and one function for every method and every step function."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from weft.config import FieldProblem, Settings
from weft.decoding.beam import beam_steps
from weft.decoding.constraints import constrained_beam_steps
from weft.decoding.coverage import Coverage
from weft.decoding.demands import NO_DEMANDS, Demands
from weft.decoding.diverse import diverse_beam_steps
from weft.decoding.greedy import greedy_steps
from weft.decoding.length import Scoring
from weft.decoding.rules import MinimumLength, NoRepeatedNgram, Prefix, RepetitionPenalty, Rule, Ruled
from weft.decoding.sampling import Truncation, sample_steps
from weft.decoding.step import AttendingStepFunction, Hypothesis, Searching, StepFunction, to_the_end
from weft.errors import UsageError


def rounded_up(lengths: Int[Tensor, " sentences"], ratio: float) -> Int[Tensor, " sentences"]:
    """ceil(lengths * ratio), where an excess over a whole number that is only a rounding error does not count."""
    return (lengths.double() * ratio - 1e-9).ceil().long()


class DecodingConfig(Settings):
    method: Literal["greedy", "beam", "sample", "mbr"] = "beam"
    """How to search for a translation: take the best piece at every step (greedy), keep several hypotheses (beam), draw
    pieces at random (sample), or choose the translation most similar to all others (mbr, minimum Bayes risk)."""
    beam_size: int = Field(default=3, ge=1, le=64)
    """Hypotheses that beam search keeps open for each sentence."""
    length_penalty: Literal["none", "average", "fixed", "gnmt", "adaptive"] = "adaptive"
    """Divisor of a hypothesis's log-probability: 1 (none), its length (average), length^p (fixed), GNMT's formula, or
    length^p with p chosen from the source length (adaptive)."""
    length_power: float = Field(default=1.0, ge=0, le=5)
    """Exponent p of `fixed` and alpha of `gnmt`; unused by the other penalties."""
    word_reward: float = Field(default=0.0, ge=0, le=10)
    """Nats added to the score for every piece, after the division."""
    coverage_penalty: float = Field(default=0.0, ge=0, le=10)
    """Weight of the penalty for source pieces that received little attention (beam search; Wu et al. 2016)."""
    diverse_groups: int = Field(default=1, ge=1, le=64)
    """Groups of hypotheses that avoid each other's pieces (diverse beam search); must divide beam_size."""
    diversity: float = Field(default=0.5, ge=0, le=100)
    """Nats subtracted from a piece in a group for each hypothesis of an earlier group that has just taken it."""
    temperature: float = Field(default=1.0, ge=1e-6, le=100)
    """Divide log-probabilities by this before sampling: below 1 sharpens the distribution, above 1 flattens it."""
    top_k: int | None = Field(default=None, ge=1)
    """Sample from this many of the most probable pieces. If not set: from all."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Nucleus sampling: sample from the smallest set of pieces whose probabilities sum to top_p; 1 keeps all."""
    epsilon: float = Field(default=0.0, ge=0, lt=1)
    """Never sample a piece whose probability is below this."""
    sampling_seed: int = Field(default=1, ge=0, lt=2**31)
    """Seed of the samples. A text's samples depend on this and the text alone, not on what else is translated."""
    mbr_candidates: int = Field(default=32, ge=2, le=1024)
    """Samples of each sentence that minimum Bayes risk compares."""
    mbr_from: Literal["samples", "beam"] = "samples"
    """Candidates of minimum Bayes risk: samples, or the beam_size best hypotheses of beam search."""
    mbr_utility: Literal["chrf", "bleu"] = "chrf"
    """Sentence score by which minimum Bayes risk compares translations."""
    mbr_form: Literal["full", "fast"] = "full"
    """Compare every candidate with every other (full), or first all with one aggregate of them, and then only the best
    of these with each other (fast)."""
    stopping: Literal["exact", "first-k"] = "exact"
    """Stop when no open hypothesis can still win (exact), or when beam_size hypotheses are finished (first-k)."""
    patience: float = Field(default=1.0, gt=0, le=10)
    """With `first-k`, stop when patience * beam_size hypotheses are finished (Kasai et al. 2022)."""
    max_length_ratio: float = Field(default=2.0, ge=0, le=20)
    """Limit translations to max_length_ratio * source pieces + max_length_extra pieces."""
    max_length_extra: int = Field(default=20, ge=1, le=10_000)
    """Pieces that a translation may have beyond max_length_ratio * source pieces."""
    max_length: int | None = Field(default=None, ge=1, le=1_000_000)
    """Limit translations to this many pieces, unless a prefix or terms need more. If not set: only the ratio limits."""
    min_length_ratio: float = Field(default=0.0, ge=0, le=20)
    """Write at least min_length_ratio * source pieces, as far as the maximum allows."""
    min_length: int = Field(default=0, ge=0, le=1_000_000)
    """Write at least this many pieces, as far as the maximum allows."""
    no_repeat_ngram: int = Field(default=0, ge=0, le=100)
    """Never repeat an n-gram of this many pieces in a translation; 0 turns it off."""
    repetition_penalty: float = Field(default=1.0, ge=1, le=10)
    """Multiply the log-probability of every piece that the translation already contains by this."""
    language_model: str | None = Field(default=None, min_length=1)
    """A language model over the same target vocabulary, whose log-probabilities are added in the search."""
    lm_weight: float = Field(default=0.1, ge=0, le=10)
    """Factor on the log-probabilities of language_model."""
    ilm_weight: float = Field(default=0.0, ge=0, le=1)
    """Factor on the log-probabilities that the translator gives without a source, its internal language model, which
    are subtracted where there is a language_model (Herold et al. 2023)."""
    script: Literal["keep", "simplified", "traditional"] = "keep"
    """Convert Chinese translations to this script; traditional is that of Taiwan, with its words."""
    precision: Literal["fp32", "bf16", "auto"] = "fp32"
    """Precision of the computation; auto: bf16 where the processor has it, else fp32."""
    batch_tokens: int = Field(default=4096, ge=1, le=10_000_000)
    """Size of a batch: source pieces times hypotheses per sentence. Translations do not depend on it."""

    def misfits(self) -> Iterator[FieldProblem]:
        if self.beam_size % self.diverse_groups:
            yield FieldProblem("diverse_groups", f"must divide beam_size = {self.beam_size}")
        if self.diverse_groups > 1 and self.coverage_penalty:
            yield FieldProblem("coverage_penalty", "does not work with diverse beam search; set diverse_groups = 1")
        if self.patience != 1 and self.stopping == "exact":
            yield FieldProblem("patience", 'needs stopping = "first-k"; exact search stops when nothing can change')
        if self.coverage_penalty and self.language_model is not None:
            yield FieldProblem("coverage_penalty", "does not work with a language_model")
        if self.ilm_weight and self.stopping == "exact" and self.language_model is not None:
            yield FieldProblem("ilm_weight", 'needs stopping = "first-k", as what is subtracted can raise a score')
        if self.ilm_weight and self.repetition_penalty != 1 and self.language_model is not None:
            yield FieldProblem(
                "repetition_penalty", "does not work with ilm_weight, which can make a piece's score positive"
            )
        if self.max_length is not None and self.max_length < self.min_length:
            yield FieldProblem("min_length", f"is above max_length = {self.max_length}")
        if self.method == "mbr" and self.mbr_from == "beam" and self.beam_size < 2:
            yield FieldProblem(
                "beam_size", 'must be at least 2 for mbr_from = "beam", to have candidates to choose from'
            )

    def rows(self, best: int) -> int:
        """Rows that the step function holds for each sentence, to return `best` answers; when sampling, every sample
        takes a row."""
        if self.method == "mbr" and self.mbr_from == "samples":
            return self.mbr_candidates
        return {"greedy": 1, "beam": self.beam_size, "sample": best, "mbr": self.beam_size}[self.method]

    @property
    def draws(self) -> bool:
        """Whether hypotheses are sampled."""
        return self.method == "sample" or (self.method == "mbr" and self.mbr_from == "samples")

    def max_lengths(self, source_lengths: Int[Tensor, " sentences"]) -> Int[Tensor, " sentences"]:
        """Most target pieces, </s> not counted, for sources of these lengths."""
        by_ratio = rounded_up(source_lengths, self.max_length_ratio) + self.max_length_extra
        return by_ratio if self.max_length is None else by_ratio.clamp(max=self.max_length)

    def min_lengths(self, source_lengths: Int[Tensor, " sentences"]) -> Int[Tensor, " sentences"]:
        """Fewest target pieces, </s> not counted, for sources of these lengths."""
        return rounded_up(source_lengths, self.min_length_ratio).clamp(min=self.min_length)

    def scoring(self) -> Scoring:
        return Scoring(self.length_penalty, self.length_power, self.word_reward)

    def truncation(self) -> Truncation:
        return Truncation(self.temperature, self.top_k, self.top_p, self.epsilon)


def search_steps(
    step_function: StepFunction,
    source_lengths: Int[Tensor, " sentences"],
    config: DecodingConfig,
    *,
    begin_id: int,
    end_id: int,
    best: int = 1,
    longest: int | None = None,
    seeds: Sequence[int] = (),
    demands: Demands = NO_DEMANDS,
    observe: Callable[[StepFunction, Tensor], StepFunction] | None = None,
) -> Searching[list[list[Hypothesis]]]:
    """For each sentence its `best` hypotheses, best first: one of greedy search, at most beam_size of beam search.
    Sampling returns a sample for each of the sentence's `seeds`, and "mbr" all candidates, among which mbr.py chooses.

    `source_lengths` counts pieces without </s>. `step_function` holds config.rows(best) rows a sentence, or one for
    each of its seeds, and can write `longest` pieces (None: any number). `observe` gets the step function that is about
    to be searched, with all rules, and the maximum lengths; what it returns is searched instead (beam_tree.py).

    Raises UsageError for demands that cannot be met: those of constraints only beam search can.
    """
    if any(demands.constraints):
        refuse_constraints(config)
    rows = len(seeds) // max(len(source_lengths), 1) if config.draws else config.rows(best)
    max_lengths = most_pieces(config, source_lengths, demands, longest)
    asked, ruled = step_function, None
    prefix = Prefix(demands.prefixes, source_lengths.device) if any(demands.prefixes) else None
    rules = rules_of(config, source_lengths, max_lengths, end_id)
    if rules or prefix is not None:
        asked = ruled = Ruled(step_function, rules, len(source_lengths), rows, prefix)
    if observe is not None:
        asked = observe(asked, max_lengths)
    ids = {"begin_id": begin_id, "end_id": end_id}
    if config.draws:
        return (yield from sample_steps(asked, max_lengths, seeds, truncation=config.truncation(), **ids))
    if config.method == "greedy":
        hypotheses = yield from greedy_steps(asked, max_lengths, **ids)
        return [[hypothesis] for hypothesis in hypotheses]
    beam: dict[str, Any] = {
        "beam_size": config.beam_size,
        "best": rows if config.method == "mbr" else best,
        "scoring": config.scoring(),
        "stopping": config.stopping,
        "patience": config.patience,
        **ids,
    }
    lengths = max_lengths, source_lengths
    if any(demands.constraints):
        priced = None if ruled is None else lambda: ruled.priced
        return (yield from constrained_beam_steps(asked, *lengths, demands, priced=priced, **beam))
    if config.diverse_groups > 1:
        groups = {"groups": config.diverse_groups, "strength": config.diversity}
        return (yield from diverse_beam_steps(asked, *lengths, **groups, **beam))
    penalty = config.coverage_penalty
    coverage = Coverage(penalty, attending(step_function)) if penalty else None
    return (yield from beam_steps(asked, *lengths, coverage=coverage, **beam))


search = torch.inference_mode()(to_the_end(search_steps))


def most_pieces(
    config: DecodingConfig, source_lengths: Int[Tensor, " sentences"], demands: Demands, longest: int | None
) -> Int[Tensor, " sentences"]:
    """The maximum lengths of the settings, raised to what is demanded; raises UsageError above `longest`."""
    max_lengths = config.max_lengths(source_lengths)
    if needed := demands.pieces_needed():
        if longest is not None and max(needed) > longest:
            raise UsageError(
                f"a translation has to begin with and contain {max(needed):,} pieces, more than the {longest:,} that "
                "the model can write; give a shorter beginning or fewer terms"
            )
        max_lengths = max_lengths.maximum(torch.tensor(needed, device=max_lengths.device))
    return max_lengths if longest is None else max_lengths.clamp(max=longest)


def refuse_constraints(config: DecodingConfig) -> None:
    """Raise UsageError unless these settings can guarantee a phrase."""
    if config.method != "beam" or config.diverse_groups > 1 or config.coverage_penalty:
        raise UsageError(
            'terms and phrases need decoding.method = "beam", with diverse_groups = 1 and coverage_penalty = 0'
        )


def rules_of(
    config: DecodingConfig,
    source_lengths: Int[Tensor, " sentences"],
    max_lengths: Int[Tensor, " sentences"],
    end_id: int,
) -> list[Rule]:
    """The rules of these settings: penalties first, then those that forbid pieces."""
    rules: list[Rule] = []
    if config.repetition_penalty > 1:
        rules.append(RepetitionPenalty(config.repetition_penalty, end_id))
    if config.no_repeat_ngram:
        rules.append(NoRepeatedNgram(config.no_repeat_ngram, end_id))
    if config.min_length or config.min_length_ratio:
        rules.append(MinimumLength(config.min_lengths(source_lengths).minimum(max_lengths), end_id))
    return rules


def attending(step_function: StepFunction) -> AttendingStepFunction:
    if not isinstance(step_function, AttendingStepFunction):
        raise UsageError("decoding.coverage_penalty needs the attention of one model, which an ensemble does not have")
    return step_function
