"""Ancestral sampling: draw every piece by its probability, which may be sharpened or truncated first.

Each row has uniform random numbers of its own, one a step, so its sample depends on its seed alone, not on other
sentences of the batch nor on other samples of its own sentence.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from weft.decoding.step import Hypothesis, Searching, StepFunction, Written, refuse_nan, to_the_end

NUCLEUS_AT_FIRST = 64
"""Pieces in which a nucleus is looked for first; most are not larger."""


@dataclass(frozen=True)
class Truncation:
    """The distribution to sample from: probabilities to the power 1 / temperature, without the least probable pieces.

    All cuts look at the same sharpened distribution, so their order does not matter: a piece is kept if every one of
    them keeps it. Equally probable pieces are kept or cut together, and the most probable one is always kept.
    """

    temperature: float = 1.0
    top_k: int | None = None
    """Keep the k most probable pieces."""
    top_p: float = 1.0
    """Keep the nucleus, the smallest set of pieces whose probabilities sum to this (Holtzman et al. 2020)."""
    epsilon: float = 0.0
    """Keep pieces of at least this probability (Hewitt et al. 2022)."""

    @property
    def cuts(self) -> bool:
        return self.top_k is not None or self.top_p < 1 or self.epsilon > 0


def sample_steps(
    step_function: StepFunction,
    max_lengths: Int[Tensor, " sentences"],
    seeds: Sequence[int],
    *,
    begin_id: int,
    end_id: int,
    truncation: Truncation = Truncation(),
) -> Searching[list[list[Hypothesis]]]:
    """One hypothesis of each sentence for each of its seeds, in order, each of at most `max_lengths` pieces and </s>.

    There is one seed for every row of the step function, and all sentences have equally many. The log_prob and score of
    a hypothesis are the sum of the model's own log-probabilities, whatever the truncation. A hypothesis that reaches
    its maximum ends there. A sentence leaves the batch when all its samples are finished; until then finished ones are
    continued with </s>, which is discarded. Raises WeftError if the model returns NaN.
    """
    if not len(max_lengths):
        return []
    samples, left_over = divmod(len(seeds), len(max_lengths))
    if left_over or not samples:
        raise ValueError(f"sampling needs as many seeds for each of {len(max_lengths)} sentences, found {len(seeds)}")
    max_lengths = max_lengths.repeat_interleave(samples)  # of each row
    uniform = uniform_numbers(seeds, max_lengths)
    rows = torch.arange(len(seeds), device=max_lengths.device)  # the original index of each row of the batch
    is_open = torch.ones_like(rows, dtype=torch.bool)
    newest = torch.full_like(rows, begin_id)
    log_prob = torch.zeros(len(rows), device=rows.device)
    written: Tensor = rows.new_empty(len(rows), 0)
    found: dict[int, Hypothesis] = {}
    while len(rows):
        log_probs = step_function.step(newest)[is_open]  # (open rows, vocab)
        refuse_nan(log_probs)
        time, drawing = written.size(1), rows[is_open]
        drawn = draw(log_probs, uniform[drawing, time], truncation).masked_fill(time >= max_lengths[drawing], end_id)
        log_prob[is_open] += log_probs.gather(1, drawn[:, None]).squeeze(1)
        newest = torch.full_like(rows, end_id)
        newest[is_open] = drawn
        ended = is_open & (newest == end_id)
        if ended.any():
            finished = zip(rows[ended].tolist(), written[ended].tolist(), log_prob[ended].tolist(), strict=True)
            found.update((row, Hypothesis(tuple(ids), total, total)) for row, ids, total in finished)
            is_open = is_open & ~ended
            staying = is_open.view(-1, samples).any(1).repeat_interleave(samples).nonzero().squeeze(1)
            if len(staying) < len(rows):
                state = (rows, is_open, newest, log_prob, written)
                rows, is_open, newest, log_prob, written = (x[staying] for x in state)
                step_function.reorder(staying)
        written = torch.cat([written, newest[:, None]], dim=1)
        yield Written(rows // samples, written)
    return [[found[row] for row in range(first, first + samples)] for first in range(0, len(seeds), samples)]


sample = to_the_end(sample_steps)


def uniform_numbers(seeds: Sequence[int], max_lengths: Int[Tensor, " rows"]) -> Float[Tensor, "rows time"]:
    """Random numbers from [0, 1), one for every piece of a row and its </s>; each row depends on its seed alone."""
    most = int(max_lengths.max()) + 1
    numbers = np.stack([np.random.default_rng(seed).random(most) for seed in seeds])
    return torch.from_numpy(numbers).to(max_lengths.device)


def draw(
    log_probs: Float[Tensor, "rows vocab"], uniform: Float[Tensor, " rows"], truncation: Truncation
) -> Int[Tensor, " rows"]:
    """The piece in whose interval of the cumulative distribution each row's uniform number lies."""
    probabilities = (log_probs.double() / truncation.temperature).softmax(1)
    if truncation.cuts:
        probabilities = cut(probabilities, truncation)
    cumulative = probabilities.cumsum(1)
    points = uniform[:, None] * cumulative[:, -1:]  # after cuts the sum is below 1
    return torch.searchsorted(cumulative, points, right=True).squeeze(1)


def cut(probabilities: Float[Tensor, "rows vocab"], truncation: Truncation) -> Float[Tensor, "rows vocab"]:
    """The probabilities with 0 for pieces that are cut. Each cut is the least probability that a row keeps."""
    least = torch.full_like(probabilities[:, :1], truncation.epsilon)
    if truncation.top_k is not None and truncation.top_k < probabilities.size(1):
        least = least.maximum(probabilities.topk(truncation.top_k, dim=1).values[:, -1:])
    if truncation.top_p < 1:
        least = least.maximum(least_of_nucleus(probabilities, truncation.top_p))
    least = least.minimum(probabilities.amax(1, keepdim=True))
    return probabilities.masked_fill(probabilities < least, 0.0)


def least_of_nucleus(probabilities: Float[Tensor, "rows vocab"], mass: float) -> Float[Tensor, "rows 1"]:
    """The probability of the least probable piece of each row's nucleus."""
    vocab = probabilities.size(1)
    count = min(NUCLEUS_AT_FIRST, vocab)
    while True:
        values = probabilities.topk(count, dim=1).values
        cumulative = values.cumsum(1)
        if count == vocab or (cumulative[:, -1] >= mass).all():
            break
        count = min(4 * count, vocab)
    outside = (cumulative < mass).sum(1, keepdim=True).clamp(max=count - 1)  # their sum may round to below the mass
    return values.gather(1, outside)
