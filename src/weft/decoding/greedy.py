"""Greedy search: the most probable piece at every step."""

import torch
from jaxtyping import Int
from torch import Tensor

from weft.decoding.largest import largest
from weft.decoding.step import Hypothesis, Searching, StepFunction, Written, refuse_nan, to_the_end


def greedy_steps(
    step_function: StepFunction,
    max_lengths: Int[Tensor, " sentences"],
    *,
    begin_id: int,
    end_id: int,
) -> Searching[list[Hypothesis]]:
    """One hypothesis a sentence, of at most `max_lengths` pieces and </s>; its score is its log_prob.

    A sentence that reaches its maximum ends there with </s>, whose log-probability counts. Finished sentences leave the
    batch. Raises WeftError where the model answers NaN.
    """
    sentences = torch.arange(len(max_lengths), device=max_lengths.device)  # which sentence each row belongs to
    newest = torch.full_like(max_lengths, begin_id)
    log_prob = torch.zeros(len(max_lengths), device=max_lengths.device)
    written: Tensor = newest.new_empty(len(max_lengths), 0)
    found: dict[int, Hypothesis] = {}
    while len(sentences):
        log_probs = step_function.step(newest)  # (rows, vocab)
        must_end = written.size(1) >= max_lengths[sentences]
        newest = largest(log_probs, 1)[1].squeeze(1).masked_fill(must_end, end_id)
        log_prob = log_prob + log_probs.gather(1, newest[:, None]).squeeze(1)
        refuse_nan(log_prob)
        ended = newest == end_id
        if ended.any():
            rows = zip(sentences[ended].tolist(), written[ended].tolist(), log_prob[ended].tolist(), strict=True)
            found.update((sentence, Hypothesis(tuple(ids), total, total)) for sentence, ids, total in rows)
            open_rows = (~ended).nonzero().squeeze(1)
            sentences, newest, log_prob, written = (x[open_rows] for x in (sentences, newest, log_prob, written))
            step_function.reorder(open_rows)
        written = torch.cat([written, newest[:, None]], dim=1)
        yield Written(sentences, written)
    return [found[sentence] for sentence in range(len(max_lengths))]


greedy_search = to_the_end(greedy_steps)
