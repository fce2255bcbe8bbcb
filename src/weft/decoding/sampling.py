"""Ancestral sampling: every piece drawn by its probability, which may be sharpened or cut off first.

Each sentence has uniform random numbers of its own, one a step, so what is drawn for it depends on its seed and not on
its company in the batch.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from weft.decoding.step import Hypothesis, StepFunction, refuse_nan


def sample(
    step_function: StepFunction,
    max_lengths: Int[Tensor, " sentences"],
    seeds: Sequence[int],
    *,
    begin_id: int,
    end_id: int,
    temperature: float = 1.0,
    top_k: int | None = None,
) -> list[Hypothesis]:
    """One hypothesis a sentence, of at most `max_lengths` pieces and </s>.

    Its log_prob and score are the sum of the model's own log-probabilities, whatever the temperature. A sentence that
    reaches its maximum ends there. Finished sentences leave the batch. Raises WeftError where the model answers NaN.
    """
    if len(seeds) != len(max_lengths):
        raise ValueError(f"sampling needs one seed for each of the {len(max_lengths)} sentences, found {len(seeds)}")
    uniform = uniform_numbers(seeds, max_lengths)
    sentences = torch.arange(len(max_lengths), device=max_lengths.device)  # which sentence each row is
    newest = torch.full_like(max_lengths, begin_id)
    log_prob = torch.zeros(len(max_lengths), device=max_lengths.device)
    written: Tensor = newest.new_empty(len(max_lengths), 0)
    found: dict[int, Hypothesis] = {}
    while len(sentences):
        log_probs = step_function.step(newest)  # (rows, vocab)
        refuse_nan(log_probs)
        time = written.size(1)
        must_end = time >= max_lengths[sentences]
        newest = draw(log_probs, uniform[sentences, time], temperature, top_k).masked_fill(must_end, end_id)
        log_prob = log_prob + log_probs.gather(1, newest[:, None]).squeeze(1)
        ended = newest == end_id
        if ended.any():
            rows = zip(sentences[ended].tolist(), written[ended].tolist(), log_prob[ended].tolist(), strict=True)
            found.update((sentence, Hypothesis(tuple(ids), total, total)) for sentence, ids, total in rows)
            open_rows = (~ended).nonzero().squeeze(1)
            sentences, newest, log_prob, written = (x[open_rows] for x in (sentences, newest, log_prob, written))
            step_function.reorder(open_rows)
        written = torch.cat([written, newest[:, None]], dim=1)
    return [found[sentence] for sentence in range(len(max_lengths))]


def uniform_numbers(seeds: Sequence[int], max_lengths: Int[Tensor, " sentences"]) -> Float[Tensor, "sentences time"]:
    """From [0, 1), one for every piece that a sentence may have and its </s>; a row is a function of its seed."""
    most = int(max_lengths.max()) + 1 if len(max_lengths) else 0
    rows = [np.random.default_rng(seed).random(most) for seed in seeds]
    return torch.from_numpy(np.array(rows).reshape(len(max_lengths), most)).to(max_lengths.device)


def draw(
    log_probs: Float[Tensor, "rows vocab"], uniform: Float[Tensor, " rows"], temperature: float, top_k: int | None
) -> Int[Tensor, " rows"]:
    """The piece in whose stretch of the cumulative distribution each row's uniform number lies."""
    tokens = None
    if top_k is not None:
        log_probs, tokens = log_probs.topk(min(top_k, log_probs.size(1)), dim=1)
    cumulative = (log_probs.double() / temperature).softmax(1).cumsum(1)
    points = uniform[:, None] * cumulative[:, -1:]  # since the sum is 1 but for rounding
    place = torch.searchsorted(cumulative, points, right=True)
    return (place if tokens is None else tokens.gather(1, place)).squeeze(1)
