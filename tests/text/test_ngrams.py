"""Kneser-Ney by NumPy against its definition over dictionaries, and against KenLM."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from tests.corpora import corpus

from weft.text.ngrams import FALLBACK, Ngrams, discounts_of, estimate

UNKNOWN, BEGIN, END, FIRST = range(1, 5)
Texts = list[list[int]]


def texts(seed: int, size: int = 400, words: int = 30) -> Texts:
    """Random texts of frequent and rare words, in which some follow each other more often than others."""
    random = np.random.default_rng(seed)
    return [
        (FIRST + np.minimum(random.zipf(1.4, random.integers(1, 9)), words) - 1 + random.integers(0, 3)).tolist()
        for _ in range(size)
    ]


def in_a_row(texts: Texts) -> np.ndarray:
    return np.array([token for text in texts for token in (BEGIN, *text, END)])


class KneserNey:
    """The definition in the docstring of weft.text.ngrams, one n-gram at a time."""

    def __init__(self, texts: Texts, order: int, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        counts: list[Counter[tuple[int, ...]]] = [Counter() for _ in range(order + 1)]
        for text in ([BEGIN, *text, END] for text in texts):
            for n in range(1, order + 1):
                counts[n].update(tuple(text[i : i + n]) for i in range(len(text) - n + 1))
        before: dict[tuple[int, ...], set[int]] = defaultdict(set)
        for longer in (ngram for n in range(2, order + 1) for ngram in counts[n]):
            before[longer[1:]].add(longer[0])
        self.adjusted = {
            ngram: count if n == order or ngram[0] == BEGIN else len(before[ngram])
            for n in range(1, order + 1)
            for ngram, count in counts[n].items()
            if ngram != (BEGIN,)
        }
        self.after: dict[tuple[int, ...], set[int]] = defaultdict(set)
        for ngram in self.adjusted:
            self.after[ngram[:-1]].add(ngram[-1])
        self.discounts = {
            n: discounts_of(np.array([a for ngram, a in self.adjusted.items() if len(ngram) == n])) or FALLBACK
            for n in range(1, order + 1)
        }
        self.order = order

    def discount(self, ngram: tuple[int, ...]) -> float:
        return self.discounts[len(ngram)][min(self.adjusted[ngram], 3) - 1]

    def p(self, word: int, context: tuple[int, ...]) -> float:
        after = self.after.get(context, set())
        lower = self.p(word, context[1:]) if context else 1 / (self.vocab_size - 2)
        if not after:
            return lower
        total = sum(self.adjusted[*context, other] for other in after)
        gamma = sum(self.discount((*context, other)) for other in after) / total
        ngram = (*context, word)
        seen = (self.adjusted[ngram] - self.discount(ngram)) / total if word in after else 0.0
        return seen + gamma * lower

    def log_prob(self, text: list[int]) -> float:
        whole = [BEGIN, *text, END]
        return sum(
            math.log(self.p(whole[i], tuple(whole[max(0, i - self.order + 1) : i]))) for i in range(1, len(whole))
        )


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_log_probabilities_are_those_of_the_definition(order: int) -> None:
    train, others = texts(1), texts(2, 40)
    vocab_size = 40
    ngrams, _ = estimate(in_a_row(train), order, vocab_size)
    twin = KneserNey(train, order, vocab_size)
    for text in [*train[:20], *others]:
        found = ngrams.token_log_probs(in_a_row([text]))
        assert found.sum() == pytest.approx(twin.log_prob(text), abs=1e-4)


def every_context(ngrams: Ngrams, order: int) -> np.ndarray:
    """The tokens of every n-gram of this order after which something was seen."""
    return ngrams.tokens_of(order)[np.unique(ngrams.keys[order - 1] // ngrams.vocab_size)]


@pytest.mark.parametrize("words", [2, 30])
def test_the_probabilities_of_all_next_tokens_sum_to_1_in_every_context_seen(words: int) -> None:
    ngrams, _ = estimate(in_a_row(texts(3, words=words)), 4, words + 10)
    for order in range(1, 4):
        for tokens in every_context(ngrams, order):
            contexts = ngrams.no_contexts(1)
            for token in tokens:
                contexts = ngrams.following(contexts, np.array([token]))
            (log_probs,) = ngrams.next_log_probs(contexts)
            assert np.exp(log_probs.astype(float)).sum() == pytest.approx(1, abs=1e-6)
            assert log_probs[[0, BEGIN]].max() < -1000


def test_step_by_step_every_token_has_the_probability_that_it_has_in_the_whole_text() -> None:
    ngrams, _ = estimate(in_a_row(texts(4)), 3, 40)
    rows = [row for row in texts(5, 60) if len(row) == 4]
    tokens = np.array([[BEGIN, *row, END] for row in rows])
    contexts, stepped = ngrams.no_contexts(len(rows)), []
    for before, after in zip(tokens.T, tokens.T[1:], strict=False):
        contexts = ngrams.following(contexts, before)
        stepped.append(ngrams.next_log_probs(contexts)[np.arange(len(rows)), after])
    whole = ngrams.token_log_probs(tokens.ravel()).reshape(tokens.shape)
    np.testing.assert_allclose(np.stack(stepped, 1), whole[:, 1:], atol=1e-5)


def test_where_counts_give_no_discounts_a_message_says_so_and_the_model_is_one() -> None:
    two = [[FIRST, FIRST + 1], [FIRST + 1]]
    ngrams, messages = estimate(in_a_row(two), 3, 6)
    assert [message.split(":")[0] for message in messages] == ["1-grams", "2-grams", "3-grams"]
    assert "0.5, 1.0 and 1.5 are subtracted" in messages[0]
    (log_probs,) = ngrams.next_log_probs(ngrams.no_contexts(1))
    assert np.exp(log_probs.astype(float)).sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("counts", "discounts"),
    [
        # n = 4, 2, 1, 1: Y = 4 / (4 + 2 * 2) = 1/2; 1 - 2 Y 2/4, 2 - 3 Y 1/2, 3 - 4 Y 1/1
        ([1, 1, 1, 1, 2, 2, 3, 4], (0.5, 1.25, 1.0)),
        ([1, 1, 2, 2, 4], None),
        ([1, 2, 3, 3, 4], None),
    ],
)
def test_discounts_are_those_of_equation_26(counts: list[int], discounts: tuple[float, ...] | None) -> None:
    found = discounts_of(np.array(counts))
    assert found == (None if discounts is None else pytest.approx(discounts))


def test_an_unknown_word_has_the_probability_of_any_word_that_was_not_seen() -> None:
    ngrams, _ = estimate(in_a_row(texts(6, words=10)), 2, 40)
    (log_probs,) = ngrams.next_log_probs(ngrams.following(ngrams.no_contexts(1), np.array([BEGIN])))
    assert log_probs[1] == log_probs[39] > -20


def test_orders_longer_than_any_text_change_nothing() -> None:
    tokens = np.array([BEGIN, 3, END, BEGIN, 4, END], np.int64)
    (of_3, _), (of_6, _) = estimate(tokens, 3, 5), estimate(tokens, 6, 5)
    np.testing.assert_array_equal(of_6.token_log_probs(tokens), of_3.token_log_probs(tokens))
    first, other = (some.next_log_probs(some.no_contexts(1)) for some in (of_3, of_6))
    np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize(("order", "tokens"), [(0, [BEGIN, END]), (2, [])])
def test_nothing_is_estimated_from_nothing(order: int, tokens: list[int]) -> None:
    with pytest.raises(ValueError, match="cannot be estimated"):
        estimate(np.array(tokens, np.int64), order, 5)


@pytest.mark.parametrize(("order", "perplexity"), [(2, 187.05), (3, 153.55), (5, 149.60)])
def test_the_perplexity_of_english_is_that_of_kenlms_lmplz(order: int, perplexity: float) -> None:
    root = corpus("zh-en-50k")
    train, valid = (
        [line.split("\t")[1].split() for line in (root / name).read_text("utf-8").splitlines()[1:]]
        for name in ("train.tsv", "valid.tsv")
    )
    ids = {word: FIRST + number for number, word in enumerate(sorted({word for text in train for word in text}))}
    ngrams, messages = estimate(in_a_row([[ids[word] for word in text] for text in train]), order, FIRST + len(ids))
    tokens = in_a_row([[ids.get(word, UNKNOWN) for word in text] for text in valid])
    nats = -ngrams.token_log_probs(tokens).sum() / (tokens != BEGIN).sum()
    assert math.exp(nats) == pytest.approx(perplexity, rel=1e-3) and not messages
