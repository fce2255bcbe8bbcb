"""Ancestral sampling: every piece drawn by its probability, which may be sharpened or cut off first.

Each row has uniform random numbers of its own, one a step, so what is drawn for it depends on its seed and not on its
company in the batch: neither on other sentences nor on other samples of the same one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from weft.decoding.step import Hypothesis, Searching, StepFunction, Written, refuse_nan, to_the_end

NUCLEUS_AT_FIRST = 64
"""How many of the most probable pieces are looked at for a nucleus before more are; most hold no more."""


@dataclass(frozen=True)
class Truncation:
    """What is drawn from: probabilities to the power 1 / temperature, without the least probable pieces.

    The cuts all look at the same sharpened distribution, so they have no order: a piece is left where every one of them
    leaves it. Pieces that are equally probable are left, or cut, together, and the most probable one always stays.
    """

    temperature: float = 1.0
    top_k: int | None = None
    """Only the k most probable pieces."""
    top_p: float = 1.0
    """Only the nucleus, the fewest most probable pieces that have at least this mass (Holtzman et al. 2020)."""
    epsilon: float = 0.0
    """Only pieces of at least this probability (Hewitt et al. 2022)."""

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
    """As many hypotheses a sentence as it has seeds, in their order, each of at most `max_lengths` pieces and </s>.

    There is one seed for every row of the step function, and all sentences have equally many. A hypothesis' log_prob
    and score are the sum of the model's own log-probabilities, whatever the truncation. One that reaches its maximum
    ends there. A sentence leaves the batch when all its samples are finished; until then the finished ones go on with
    </s>, of which nothing is kept. Raises WeftError where the model answers NaN.
    """
    if not len(max_lengths):
        return []
    samples, left_over = divmod(len(seeds), len(max_lengths))
    if left_over or not samples:
        raise ValueError(f"sampling needs equally many seeds for all {len(max_lengths)} sentences, found {len(seeds)}")
    max_lengths = max_lengths.repeat_interleave(samples)  # of each row
    uniform = uniform_numbers(seeds, max_lengths)
    rows = torch.arange(len(seeds), device=max_lengths.device)  # which of all rows each one in the batch is
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
    """From [0, 1), one for every piece that a row may have and its </s>; a row is a function of its seed."""
    most = int(max_lengths.max()) + 1
    numbers = np.stack([np.random.default_rng(seed).random(most) for seed in seeds])
    return torch.from_numpy(numbers).to(max_lengths.device)


def draw(
    log_probs: Float[Tensor, "rows vocab"], uniform: Float[Tensor, " rows"], truncation: Truncation
) -> Int[Tensor, " rows"]:
    """The piece in whose stretch of the cumulative distribution each row's uniform number lies."""
    probabilities = (log_probs.double() / truncation.temperature).softmax(1)
    if truncation.cuts:
        probabilities = cut(probabilities, truncation)
    cumulative = probabilities.cumsum(1)
    points = uniform[:, None] * cumulative[:, -1:]  # what was cut off is missing from the sum
    return torch.searchsorted(cumulative, points, right=True).squeeze(1)


def cut(probabilities: Float[Tensor, "rows vocab"], truncation: Truncation) -> Float[Tensor, "rows vocab"]:
    """0 for the pieces that are left out; each cut is a probability that those of a row must reach."""
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
    looked_at = min(NUCLEUS_AT_FIRST, vocab)
    while True:
        values = probabilities.topk(looked_at, dim=1).values
        cumulative = values.cumsum(1)
        if looked_at == vocab or (cumulative[:, -1] >= mass).all():
            break
        looked_at = min(4 * looked_at, vocab)
    outside = (cumulative < mass).sum(1, keepdim=True).clamp(max=looked_at - 1)  # their sum may round to below the mass
    return values.gather(1, outside)
