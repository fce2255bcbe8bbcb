"""Which words may come next: the most probable ones behind a beginning, however many pieces each of them has.

A word is as probable as its pieces, one after another, and then a piece that begins another word, or </s>. The search
extends unfinished words piece by piece, the most probable ones at a time, until none of them can still become one of
the best: with every piece a word only loses.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from weft.decoding.step import StepFunction, refuse_nan

LONGEST = 24
"""Pieces of the longest word that is looked for: one spelled in bytes has three for each Chinese character."""


@dataclass(frozen=True)
class NextWord:
    """The pieces of a word; none where the sentence ends instead. `log_prob` is that of the word as a whole, in
    nats."""

    tokens: tuple[int, ...]
    log_prob: float


def next_words(
    step_function: StepFunction,
    beginning: Sequence[int],
    begins_word: Bool[Tensor, " vocab"],
    *,
    best: int,
    rows: int,
    begin_id: int,
    end_id: int,
    longest: int = LONGEST,
    after_step: Callable[[], None] = lambda: None,
) -> list[NextWord]:
    """The `best` most probable words behind these pieces of one sentence, best first; </s> counts as one.

    `step_function` holds so many `rows`, and so many unfinished words are extended at a time: the answer is exact
    where there are no more of them. `begins_word` says which pieces begin a word, </s> not among them; all others go on
    with one. A word has at most `longest` pieces. Raises WeftError where the model answers NaN, and what `after_step`
    raises after a step.
    """
    device = begins_word.device
    ends = torch.arange(len(begins_word), device=device) == end_id
    goes_on = ~(begins_word | ends)
    log_probs = step_function.step(torch.full((rows,), begin_id, device=device))
    for token in beginning:
        after_step()
        log_probs = step_function.step(torch.full((rows,), token, device=device))
    refuse_nan(log_probs[0])
    found = [NextWord((), float(log_probs[0, end_id]))]
    written: Int[Tensor, "rows time"] = torch.empty(rows, 0, dtype=torch.long, device=device)
    # All rows are the same at first, so only one of them is extended.
    sums = torch.full((rows,), -torch.inf, device=device)
    sums[0] = 0.0
    may_follow = begins_word
    while written.size(1) < longest:
        after_step()
        sums, parent, newest = most_probable(sums[:, None] + log_probs.masked_fill(~may_follow, -torch.inf), rows)
        bound = found[best - 1].log_prob if len(found) >= best else -torch.inf
        if float(sums[0]) <= bound:
            break
        step_function.reorder(parent)
        written = torch.cat([written[parent], newest[:, None]], dim=1)
        log_probs = step_function.step(newest)
        refuse_nan(log_probs[sums > -torch.inf])
        whole = sums + log_probs.masked_fill(goes_on, -torch.inf).logsumexp(1)
        pairs = zip(written.tolist(), whole.tolist(), strict=True)
        found += [NextWord(tuple(tokens), log_prob) for tokens, log_prob in pairs]
        found.sort(key=lambda word: -word.log_prob)
        may_follow = goes_on
    return [word for word in found[:best] if word.log_prob > -torch.inf]


def most_probable(
    extended: Float[Tensor, "rows vocab"], count: int
) -> tuple[Float[Tensor, " count"], Int[Tensor, " count"], Int[Tensor, " count"]]:
    """The best extensions with the row and the piece of each; where there are fewer, the rest is impossible."""
    values, flat = extended.flatten().topk(count)
    return values, flat // extended.size(1), flat % extended.size(1)
