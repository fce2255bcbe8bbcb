"""n-gram language models: interpolated modified Kneser-Ney estimates with back-off, counted and looked up by NumPy.

With D the discount of a count, a the adjusted count below, and c' the context c without its first token:

    p(w | c) = max(a(c w) - D(a(c w)), 0) / sum_v a(c v)  +  gamma(c) p(w | c')
    gamma(c) = sum_v D(a(c v)) / sum_v a(c v)
    p(w)     = max(a(w) - D(a(w)), 0) / sum_v a(v)  +  gamma / (number of tokens that may follow)

a(c w) is the count of an n-gram of the highest order or one that begins with <s>; of any other, it is the number of
different tokens before it. An n-gram c w that was not seen needs no entry: p(w | c) = gamma(c) p(w | c'). gamma(c), the
back-off weight, is 1 if c was not seen.

Chen and Goodman 1998, "An Empirical Study of Smoothing Techniques for Language Modeling", section 3 and equation 26;
<s>, </s>, <unk> and the arithmetic are those of KenLM's lmplz (Heafield et al. 2013).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Integer
from numpy.typing import NDArray

from weft.text.vocabulary import BEGIN_ID, PADDING_ID

LEAST = -1e4
"""The log-probability of <pad> and <s>, which never follow: finite, as are all weights, and 0 as a probability."""
FALLBACK = (0.5, 1.0, 1.5)
"""Discounts of the counts 1, 2 and more where the counts give none; those of lmplz --discount_fallback."""
NO_DISCOUNTS = (
    "their counts give no Kneser-Ney discounts, as in a small text or a small vocabulary; "
    f"{FALLBACK[0]}, {FALLBACK[1]} and {FALLBACK[2]} are subtracted from the counts 1, 2 and more instead"
)


@dataclass(frozen=True)
class Ngrams:
    """The n-grams of every order with log-probabilities and back-off weights, in nats.

    An n-gram is a number: of order 1 the id of its token, of order n its place in `keys[n - 2]`. Its key there is
    (number of its first n - 1 tokens) * vocab_size + its last token; keys are sorted, so the continuations of a context
    are neighbors.
    """

    keys: Sequence[NDArray[np.int64]]
    """For the orders 2, 3, ..."""
    log_probs: Sequence[NDArray[np.float32]]
    """For the orders 1, 2, ...: log p(last token | the tokens before it)."""
    backoffs: Sequence[NDArray[np.float32]]
    """For the orders 1, 2, ..., without the highest: log gamma(n-gram); 0 if nothing was seen after it."""

    @property
    def order(self) -> int:
        return len(self.log_probs)

    @property
    def vocab_size(self) -> int:
        return len(self.log_probs[0])

    def find(self, contexts: NDArray[np.int64], tokens: NDArray[np.int64], order: int) -> NDArray[np.int64]:
        """The numbers of the n-grams of this order that begin with these contexts; -1 for what there is not."""
        keys, wanted = self.keys[order - 2], contexts * self.vocab_size + tokens
        if not len(keys):
            return np.full_like(wanted, -1)
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where((contexts >= 0) & (keys[places] == wanted), places, -1)

    def following(
        self, contexts: Int[np.ndarray, "rows context"], tokens: Int[np.ndarray, " rows"]
    ) -> Int[np.ndarray, "rows context"]:
        """The contexts after these tokens: column m - 1 numbers the last m tokens, -1 if they were never seen."""
        found = [tokens.astype(np.int64)]
        for order in range(2, self.order):
            found.append(self.find(contexts[:, order - 2], tokens, order))
        return np.stack(found[: self.order - 1], 1) if self.order > 1 else contexts

    def no_contexts(self, rows: int) -> Int[np.ndarray, "rows context"]:
        """The contexts before the first token."""
        return np.full((rows, self.order - 1), -1)

    def next_log_probs(self, contexts: Int[np.ndarray, "rows context"]) -> Float[np.ndarray, "rows vocab"]:
        """log p(w | c) of every token w after each context."""
        log_probs = np.repeat(self.log_probs[0][None], len(contexts), 0)
        for order, keys in enumerate(self.keys, start=2):
            context = contexts[:, order - 2]
            log_probs += value_at(self.backoffs[order - 2], context)[:, None]
            ends = np.searchsorted(keys, (context[:, None] + [0, 1]) * self.vocab_size)
            counts = np.where(context >= 0, ends[:, 1] - ends[:, 0], 0)
            row = np.repeat(np.arange(len(contexts)), counts)
            place = np.arange(len(row)) + np.repeat(ends[:, 0] - np.cumsum(counts) + counts, counts)
            log_probs[row, keys[place] % self.vocab_size] = self.log_probs[order - 1][place]
        return log_probs

    def token_log_probs(self, tokens: Int[np.ndarray, "*rows time"]) -> Float[np.ndarray, "*rows time"]:
        """log p of each token given those before it in its row; that of <s>, which begins a text, is 0.

        A row may hold several texts, each from <s> to </s>.
        """
        found = tokens.astype(np.int64)
        log_probs = self.log_probs[0][found]
        for order in range(2, self.order + 1):
            context = np.full_like(found, -1)
            context[..., 1:] = found[..., :-1]
            found = self.find(context, tokens, order)
            backed_off = log_probs + value_at(self.backoffs[order - 2], context)
            log_probs = np.where(found >= 0, value_at(self.log_probs[order - 1], found), backed_off)
        return np.where(tokens == BEGIN_ID, 0, log_probs)

    def tokens_of(self, order: int) -> Int[np.ndarray, "ngrams order"]:
        """The tokens of each n-gram of an order."""
        if order == 1:
            return np.arange(self.vocab_size)[:, None]
        keys = self.keys[order - 2]
        return np.concatenate([self.tokens_of(order - 1)[keys // self.vocab_size], keys[:, None] % self.vocab_size], 1)


def value_at(values: NDArray[np.float32], numbers: NDArray[np.int64]) -> NDArray[np.float32]:
    """The values of n-grams by number, 0 where there is none: of some orders a text may have no n-gram at all."""
    return np.where(numbers >= 0, values[numbers], 0) if len(values) else np.zeros(numbers.shape, np.float32)


@dataclass(frozen=True)
class Counted:
    """The n-grams of one order in a text; arrays have one entry per n-gram."""

    keys: NDArray[np.int64]
    """As in `Ngrams`; of order 1, the ids of all tokens."""
    counts: NDArray[np.int64]
    suffixes: NDArray[np.int64]
    """The number of the n-gram without its first token; of order 1, 0."""
    begins: NDArray[np.bool_]
    """Whether it begins with <s>."""


def count_ngrams(tokens: Integer[np.ndarray, " tokens"], order: int, vocab_size: int) -> list[Counted]:
    """Count the n-grams of every order up to `order` in texts that begin with <s>, none across two texts."""
    ids, place = tokens.astype(np.int64), np.arange(len(tokens))
    since_begin = place - np.maximum.accumulate(np.where(ids == BEGIN_ID, place, 0))
    counts = np.bincount(ids, minlength=vocab_size)
    counted = [Counted(np.arange(vocab_size), counts, np.zeros(vocab_size, int), np.arange(vocab_size) == BEGIN_ID)]
    ending = ids  # the number of the n-gram of the last order that ends at each place
    for n in range(2, order + 1):
        ends = np.flatnonzero(since_begin >= n - 1)
        keys, numbers = np.unique(ending[ends - 1] * vocab_size + ids[ends], return_inverse=True)
        suffixes, begins = np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
        suffixes[numbers], begins[numbers] = ending[ends], since_begin[ends] == n - 1
        counted.append(Counted(keys, np.bincount(numbers, minlength=len(keys)), suffixes, begins))
        ending = np.full(len(ids), -1)
        ending[ends] = numbers
    return counted


def adjusted_counts(counted: Sequence[Counted]) -> list[NDArray[np.int64]]:
    """The counts a of every order."""
    adjusted = []
    for lower, higher in zip(counted, [*counted[1:], None], strict=True):
        if higher is None:
            adjusted.append(lower.counts.copy())
        else:
            before = np.bincount(higher.suffixes, minlength=len(lower.keys))
            adjusted.append(np.where(lower.begins, lower.counts, before))
    adjusted[0][BEGIN_ID] = 0  # never predicted
    return adjusted


def discounts_of(counts: Int[np.ndarray, " ngrams"]) -> tuple[float, float, float] | None:
    """D(1), D(2) and D(3 or more): D(k) = k - (k + 1) Y n(k + 1) / n(k) with Y = n(1) / (n(1) + 2 n(2)), where n(k)
    n-grams have count k. None if no n-gram has count 1, 2 or 3, or if one of the three would not be above 0."""
    n = np.bincount(np.minimum(counts, 5), minlength=6)
    if not n[1:4].all():
        return None
    y = n[1] / (n[1] + 2 * n[2])
    one, two, more = (float(k - (k + 1) * y * n[k + 1] / n[k]) for k in (1, 2, 3))
    return (one, two, more) if min(one, two, more) > 0 else None


def estimate(tokens: Integer[np.ndarray, " tokens"], order: int, vocab_size: int) -> tuple[Ngrams, list[str]]:
    """Estimate the n-grams of texts, each from <s> to </s>, one after the other; also returns a message for each order
    that has no discounts of its own.

    Every id except <pad> and <s> may follow any context; their probabilities sum to 1. Raises ValueError if there is no
    text or no order.
    """
    if order < 1 or not len(tokens):
        raise ValueError(f"n-grams of order {order} cannot be estimated from {len(tokens)} tokens")
    counted = count_ngrams(tokens, order, vocab_size)
    log_probs, backoffs, messages = [], [], list[str]()
    lower = np.full(1, 1 / (vocab_size - 2))
    for n, (one, adjusted) in enumerate(zip(counted, adjusted_counts(counted), strict=True), start=1):
        discounts = discounts_of(adjusted)
        if discounts is None:
            messages.append(f"{n}-grams: {NO_DISCOUNTS}")
        subtracted = np.array([0.0, *(discounts or FALLBACK)])[np.minimum(adjusted, 3)]
        contexts = one.keys // vocab_size if n > 1 else np.zeros(vocab_size, np.int64)
        totals = np.bincount(contexts, adjusted, len(lower))
        left = np.bincount(contexts, subtracted, len(lower))
        gamma = np.where(totals > 0, left / np.maximum(totals, 1), 1.0)
        lower = (adjusted - subtracted) / np.maximum(totals, 1)[contexts] + gamma[contexts] * lower[one.suffixes]
        log_probs.append(np.log(lower).astype(np.float32))
        backoffs.append(np.log(gamma).astype(np.float32))
    log_probs[0][[PADDING_ID, BEGIN_ID]] = LEAST
    return Ngrams([one.keys for one in counted[1:]], log_probs, backoffs[1:]), messages
