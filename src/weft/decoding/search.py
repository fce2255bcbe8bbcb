"""Which search, with which settings: one config, one function, whatever the model."""

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Literal

import torch
from jaxtyping import Int
from pydantic import Field, model_validator
from torch import Tensor

from weft.config import FieldProblem, FieldProblems, Settings
from weft.decoding.beam import beam_steps
from weft.decoding.constraints import NO_JOINS, Constraint, Joins, Phrase, constrained_beam_steps, pieces_needed
from weft.decoding.coverage import Coverage
from weft.decoding.diverse import diverse_beam_steps
from weft.decoding.greedy import greedy_steps
from weft.decoding.length import Scoring
from weft.decoding.rules import MinimumLength, NoRepeatedNgram, Prefix, RepetitionPenalty, Rule, Ruled
from weft.decoding.sampling import Truncation, sample_steps
from weft.decoding.step import AttendingStepFunction, Hypothesis, Searching, StepFunction, to_the_end
from weft.errors import UsageError


def rounded_up(lengths: Int[Tensor, " sentences"], ratio: float) -> Int[Tensor, " sentences"]:
    """ceil(lengths * ratio); what only the rounding of a product is above a whole number is not rounded up."""
    return (lengths.double() * ratio - 1e-9).ceil().long()


class DecodingConfig(Settings):
    method: Literal["greedy", "beam", "sample", "mbr"] = "beam"
    """How a translation is found: the best piece at every step, the best of several hypotheses, pieces by chance, or of
    several translations the one that most resembles the others (minimum Bayes risk)."""
    beam_size: int = Field(default=3, ge=1, le=64)
    """Hypotheses kept open for each sentence in beam search."""
    length_penalty: Literal["none", "average", "fixed", "gnmt", "adaptive"] = "adaptive"
    """What the summed log-probability is divided by: nothing, the length, length^p, GNMT's, or length^p with p from the
    source."""
    length_power: float = Field(default=1.0, ge=0, le=5)
    """The power p of `fixed`, the alpha of `gnmt`; no other penalty uses it."""
    word_reward: float = Field(default=0.0, ge=0, le=10)
    """Nats that a score gains by every piece, after the division."""
    coverage_penalty: float = Field(default=0.0, ge=0, le=10)
    """How much a score loses by source pieces that beam search hardly looked at (Wu et al. 2016)."""
    diverse_groups: int = Field(default=1, ge=1, le=64)
    """Groups of hypotheses that shun each other's pieces (diverse beam search); must divide beam_size."""
    diversity: float = Field(default=0.5, ge=0, le=100)
    """Nats that a piece is worth less to a group by each hypothesis of an earlier group that takes it."""
    temperature: float = Field(default=1.0, ge=1e-6, le=100)
    """In sampling, what log-probabilities are divided by: below 1 probable pieces become more so, above 1 less."""
    top_k: int | None = Field(default=None, ge=1)
    """How many of the most probable pieces sampling chooses from; left out: all."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Sampling chooses from the fewest most probable pieces that together are so probable; 1: all."""
    epsilon: float = Field(default=0.0, ge=0, lt=1)
    """Sampling leaves out pieces that are less probable than this."""
    sampling_seed: int = Field(default=1, ge=0, lt=2**31)
    """Another number gives other samples; the same one the same, whatever else is translated."""
    mbr_candidates: int = Field(default=32, ge=2, le=1024)
    """How many samples of a sentence minimum Bayes risk compares."""
    mbr_from: Literal["samples", "beam"] = "samples"
    """What minimum Bayes risk compares: samples, or the beam_size best of beam search."""
    mbr_utility: Literal["chrf", "bleu"] = "chrf"
    """By which sentence score minimum Bayes risk compares translations."""
    mbr_form: Literal["full", "fast"] = "full"
    """Whether every candidate is compared with every other, or only the best by a comparison with all at once."""
    stopping: Literal["exact", "first-k"] = "exact"
    """Stop when no open hypothesis can still win, or when the first beam_size hypotheses are finished."""
    patience: float = Field(default=1.0, gt=0, le=10)
    """With `first-k`, patience * beam_size hypotheses are waited for (Kasai et al. 2022)."""
    max_length_ratio: float = Field(default=2.0, ge=0, le=20)
    """A translation has at most max_length_ratio * source pieces + max_length_extra pieces."""
    max_length_extra: int = Field(default=20, ge=1, le=10_000)
    """See max_length_ratio."""
    max_length: int | None = Field(default=None, ge=1, le=1_000_000)
    """The most pieces of any translation, unless a given beginning or terms need more; left out: as many as the ratio
    allows."""
    min_length_ratio: float = Field(default=0.0, ge=0, le=20)
    """A translation has at least min_length_ratio * source pieces ..."""
    min_length: int = Field(default=0, ge=0, le=1_000_000)
    """... and at least so many, as far as its maximum allows."""
    no_repeat_ngram: int = Field(default=0, ge=0, le=100)
    """No so many pieces in a row are written twice in a translation; 0 allows it."""
    repetition_penalty: float = Field(default=1.0, ge=1, le=10)
    """What the log-probability of a piece that was written already is multiplied by."""
    precision: Literal["fp32", "bf16", "auto"] = "fp32"
    """What translation computes in; auto: bf16 where the processor has it, else fp32."""
    batch_tokens: int = Field(default=4096, ge=1, le=10_000_000)
    """Source pieces times hypotheses a sentence, of the sentences that are translated together; the answers do not
    depend on it."""

    @model_validator(mode="after")
    def _fits_together(self) -> "DecodingConfig":
        if problems := list(self._misfits()):
            raise FieldProblems(problems)
        return self

    def _misfits(self) -> Iterator[FieldProblem]:
        if self.beam_size % self.diverse_groups:
            yield FieldProblem("diverse_groups", f"must divide beam_size = {self.beam_size}")
        if self.diverse_groups > 1 and self.coverage_penalty:
            yield FieldProblem("coverage_penalty", "is not for diverse beam search; set diverse_groups = 1")
        if self.patience != 1 and self.stopping == "exact":
            yield FieldProblem("patience", 'is for stopping = "first-k"; exact search stops when nothing can change')
        if self.max_length is not None and self.max_length < self.min_length:
            yield FieldProblem("min_length", f"is above max_length = {self.max_length}")
        if self.method == "mbr" and self.mbr_from == "beam" and self.beam_size < 2:
            yield FieldProblem("beam_size", 'must be 2 or more where mbr_from = "beam": one candidate is no choice')

    @property
    def rows_per_sentence(self) -> int:
        """Hypotheses that the step function holds for each sentence."""
        return self.rows(1)

    def rows(self, best: int) -> int:
        """The same where so many answers are asked for: by chance each is a hypothesis of its own."""
        if self.method == "mbr" and self.mbr_from == "samples":
            return self.mbr_candidates
        return {"greedy": 1, "beam": self.beam_size, "sample": best, "mbr": self.beam_size}[self.method]

    @property
    def draws(self) -> bool:
        """Whether hypotheses come by chance."""
        return self.method == "sample" or (self.method == "mbr" and self.mbr_from == "samples")

    def max_lengths(self, source_lengths: Int[Tensor, " sentences"]) -> Int[Tensor, " sentences"]:
        """The most target pieces (without </s>) for sources of these many pieces."""
        by_ratio = rounded_up(source_lengths, self.max_length_ratio) + self.max_length_extra
        return by_ratio if self.max_length is None else by_ratio.clamp(max=self.max_length)

    def min_lengths(self, source_lengths: Int[Tensor, " sentences"]) -> Int[Tensor, " sentences"]:
        """The fewest target pieces (without </s>) for sources of these many pieces."""
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
    prefixes: Sequence[Sequence[int]] = (),
    constraints: Sequence[Sequence[Constraint]] = (),
    joins: Joins = NO_JOINS,
    space: Phrase = (),
    observe: Callable[[StepFunction, Tensor], StepFunction] | None = None,
) -> Searching[list[list[Hypothesis]]]:
    """For each sentence its `best` hypotheses, best first: of greedy search one, of beam search at most beam_size. By
    chance these are samples, one for each of the sentence's `seeds`, and by "mbr" all candidates; mbr.py chooses.

    `source_lengths` counts pieces without </s>; `step_function` holds config.rows(best) rows a sentence, or one for
    each of its seeds, and can write `longest` pieces, or any number where it is None. `prefixes`, where they are given,
    are the pieces that each sentence's hypotheses begin with, and `constraints` the phrases that have to appear in
    them, which beam search alone can promise; `joins` tell where a word goes on, since phrases are words of their own,
    and `space` is the one that words have before them where it is a piece by itself.
    `observe` is given what the search is about to ask, with all rules, and
    the maximum lengths; what it returns is asked instead (beam_tree.py).
    """
    rows = len(seeds) // max(len(source_lengths), 1) if config.draws else config.rows(best)
    if config.method == "mbr":
        best = rows
    max_lengths = config.max_lengths(source_lengths)
    demanded = zip_longest(prefixes, constraints, fillvalue=())
    needed = [len(prefix) + pieces_needed(of_sentence) for prefix, of_sentence in demanded]
    if longest is not None and max(needed, default=0) > longest:
        raise UsageError(
            f"a translation has to begin with and hold {max(needed):,} pieces, more than the {longest:,} that the "
            "model can write; give a shorter beginning or fewer terms"
        )
    if needed:
        max_lengths = max_lengths.maximum(torch.tensor(needed, device=max_lengths.device))
    if longest is not None:
        max_lengths = max_lengths.clamp(max=longest)
    model = step_function
    prefix = Prefix(prefixes, source_lengths.device) if any(prefixes) else None
    rules, ruled = rules_of(config, source_lengths, max_lengths, end_id), None
    if rules or prefix is not None:
        step_function = ruled = Ruled(step_function, rules, len(source_lengths), rows, prefix)
    if observe is not None:
        step_function = observe(step_function, max_lengths)
    if any(constraints):
        refuse_constraints(config)
    if config.method == "greedy":
        hypotheses = yield from greedy_steps(step_function, max_lengths, begin_id=begin_id, end_id=end_id)
        return [[hypothesis] for hypothesis in hypotheses]
    if config.draws:
        return (
            yield from sample_steps(
                step_function, max_lengths, seeds, begin_id=begin_id, end_id=end_id, truncation=config.truncation()
            )
        )
    beam: dict[str, Any] = {
        "beam_size": config.beam_size,
        "begin_id": begin_id,
        "end_id": end_id,
        "scoring": config.scoring(),
        "stopping": config.stopping,
        "patience": config.patience,
        "best": best,
    }
    if any(constraints):
        return (
            yield from constrained_beam_steps(
                step_function,
                max_lengths,
                source_lengths,
                constraints,
                prefixes=prefixes,
                joins=joins,
                space=space,
                priced=None if ruled is None else lambda: ruled.priced,
                **beam,
            )
        )
    if config.diverse_groups > 1:
        groups, strength = config.diverse_groups, config.diversity
        beam |= {"groups": groups, "strength": strength}
        return (yield from diverse_beam_steps(step_function, max_lengths, source_lengths, **beam))
    coverage = Coverage(config.coverage_penalty, attending(model)) if config.coverage_penalty else None
    return (yield from beam_steps(step_function, max_lengths, source_lengths, coverage=coverage, **beam))


search = torch.inference_mode()(to_the_end(search_steps))


def refuse_constraints(config: DecodingConfig) -> None:
    """Raise UsageError where these settings cannot promise a phrase."""
    if config.method != "beam" or config.diverse_groups > 1 or config.coverage_penalty:
        raise UsageError(
            'phrases that have to appear are a matter of decoding.method = "beam", with diverse_groups = 1 and '
            "coverage_penalty = 0"
        )


def rules_of(
    config: DecodingConfig,
    source_lengths: Int[Tensor, " sentences"],
    max_lengths: Int[Tensor, " sentences"],
    end_id: int,
) -> list[Rule]:
    """What the settings forbid, behind what they make dearer."""
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
