"""The most probable next words after a beginning, however many pieces each of them has.

The probability of a word is that of its pieces followed by a piece that begins another word, or by </s>. The search
extends the most probable unfinished words piece by piece until none of them can still become one of the best: with
every piece a word only becomes less probable.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from weft.decoding.step import StepFunction, refuse_nan

LONGEST = 24
"""Most pieces of a word: one spelled in bytes has three for each Chinese character."""


@dataclass(frozen=True)
class NextWord:
    """The pieces of a word, or none for the end of the sentence; `log_prob` is that of the whole word, in nats."""

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
    """The `best` most probable words after these pieces of one sentence, best first; </s> counts as a word.

    `step_function` has `rows` rows, each extending one unfinished word: the answer is exact if there are never more of
    them. `begins_word` is True for pieces that begin a word and False for </s> and pieces that continue one. A word has
    at most `longest` pieces. Raises WeftError if the model returns NaN, and whatever `after_step` raises.
    """
    device = begins_word.device
    ends = torch.arange(len(begins_word), device=device) == end_id
    continues = ~(begins_word | ends)
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
        extended = (sums[:, None] + log_probs.masked_fill(~may_follow, -torch.inf)).flatten()
        sums, flat = extended.topk(rows)  # where there are fewer extensions, the rest has -inf
        parent, newest = flat // len(begins_word), flat % len(begins_word)
        bound = found[best - 1].log_prob if len(found) >= best else -torch.inf
        if float(sums[0]) <= bound:
            break
        step_function.reorder(parent)
        written = torch.cat([written[parent], newest[:, None]], dim=1)
        log_probs = step_function.step(newest)
        refuse_nan(log_probs[sums > -torch.inf])
        whole = sums + log_probs.masked_fill(continues, -torch.inf).logsumexp(1)
        pairs = zip(written.tolist(), whole.tolist(), strict=True)
        found += [NextWord(tuple(tokens), log_prob) for tokens, log_prob in pairs]
        found.sort(key=lambda word: -word.log_prob)
        may_follow = continues
    return [word for word in found[:best] if word.log_prob > -torch.inf]
