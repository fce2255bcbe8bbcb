"""Sampling: what is drawn is as frequent as it is probable, and depends on nothing but the sentence and its seed."""

import itertools
import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from weft.decoding.sampling import sample
from weft.decoding.search import DecodingConfig, search
from weft.decoding.step import Hypothesis
from weft.errors import WeftError

BEGIN_ID, END_ID = 1, 2
VOCAB_SIZE = 5  # 0 and 1 are never probable; 3 and 4 are words
PROBABILITIES = {  # of the piece that follows, by the pieces before it
    (): {END_ID: 0.1, 3: 0.6, 4: 0.3},
    (3,): {END_ID: 0.5, 3: 0.2, 4: 0.3},
    (4,): {END_ID: 0.2, 3: 0.3, 4: 0.5},
}


def next_log_probs(history: tuple[int, ...]) -> list[float]:
    """The last word alone decides what follows it."""
    after = PROBABILITIES[history[-1:]]
    return [math.log(after[token]) if token in after else -math.inf for token in range(VOCAB_SIZE)]


class Words:
    """A step function over the probabilities above."""

    def __init__(self, sentences: int) -> None:
        self.rows: list[tuple[int, ...]] = [()] * sentences

    def step(self, tokens: Tensor) -> Tensor:
        given = [token for token in tokens.tolist()]
        self.rows = [
            history if token == BEGIN_ID else (*history, token) for history, token in zip(self.rows, given, strict=True)
        ]
        return torch.tensor([next_log_probs(history) for history in self.rows])

    def reorder(self, rows: Tensor) -> None:
        self.rows = [self.rows[row] for row in rows.tolist()]


def draw(seeds: list[int], max_length: int = 3, temperature: float = 1.0, top_k: int | None = None) -> list[Hypothesis]:
    max_lengths = torch.full((len(seeds),), max_length)
    return sample(
        Words(len(seeds)), max_lengths, seeds, begin_id=BEGIN_ID, end_id=END_ID, temperature=temperature, top_k=top_k
    )


def exact_probability(sentence: tuple[int, ...], max_length: int, temperature: float, top_k: int | None) -> float:
    """The twin: the product over its pieces of each one's share among the k most probable, to the power 1 / T."""
    product = 1.0
    for place, token in enumerate((*sentence, END_ID)):
        if place == max_length:
            return product  # it can only end
        log_probs = next_log_probs(sentence[:place])
        kept = sorted(log_probs, reverse=True)[:top_k]
        powers = [math.exp(log_prob / temperature) for log_prob in kept]
        product *= math.exp(log_probs[token] / temperature) / sum(powers) if log_probs[token] >= kept[-1] else 0.0
    return product


@pytest.mark.parametrize(
    ("temperature", "top_k"), [(1.0, None), (0.5, None), (2.0, None), (1.0, 2), (0.7, 2), (1.0, 1), (1.0, 99)]
)
def test_sentences_are_as_frequent_as_they_are_probable(temperature: float, top_k: int | None) -> None:
    draws, max_length = 20_000, 2
    found = Counter(hypothesis.tokens for hypothesis in draw(list(range(draws)), max_length, temperature, top_k))
    sentences = [words for length in range(max_length + 1) for words in itertools.product((3, 4), repeat=length)]
    exact = {words: exact_probability(words, max_length, temperature, top_k) for words in sentences}
    assert sum(exact.values()) == pytest.approx(1)
    for words, probability in exact.items():
        deviation = math.sqrt(draws * probability * (1 - probability))
        assert abs(found[words] - draws * probability) <= 4.5 * deviation, words
    assert set(found) <= set(exact)


def test_the_score_is_the_models_log_probability_whatever_the_temperature() -> None:
    for hypothesis in draw(list(range(200)), max_length=2, temperature=3.0):
        pieces = (*hypothesis.tokens, END_ID)
        expected = sum(next_log_probs(pieces[:place])[token] for place, token in enumerate(pieces))
        assert hypothesis.log_prob == hypothesis.score == pytest.approx(expected, abs=1e-5)


def test_what_is_drawn_for_a_sentence_does_not_depend_on_its_company() -> None:
    seeds = list(range(50))
    together = draw(seeds)
    assert [draw([seed])[0].tokens for seed in seeds] == [hypothesis.tokens for hypothesis in together]
    assert [hypothesis.tokens for hypothesis in draw(seeds[::-1])] == [hypothesis.tokens for hypothesis in together][
        ::-1
    ]
    assert len({hypothesis.tokens for hypothesis in together}) > 5


def test_the_numbers_of_a_sentence_do_not_depend_on_how_long_others_may_be() -> None:
    alone = draw([7], max_length=2)[0]
    steps = Words(2)
    beside = sample(steps, torch.tensor([2, 40]), [7, 8], begin_id=BEGIN_ID, end_id=END_ID)[0]
    assert alone.tokens == beside.tokens


def test_only_the_most_probable_piece_is_greedy_search() -> None:
    config = DecodingConfig(method="sample", top_k=1, max_length_ratio=1.0, max_length_extra=1)
    lengths = torch.tensor([3, 1])
    sampled = search(Words(2), lengths, config, begin_id=BEGIN_ID, end_id=END_ID, seeds=[1, 2])
    greedy = search(Words(2), lengths, config.model_copy(update={"method": "greedy"}), begin_id=BEGIN_ID, end_id=END_ID)
    assert sampled == greedy


def test_a_sentence_without_a_seed_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="one seed for each of the 2 sentences, found 1"):
        sample(Words(2), torch.tensor([3, 3]), [1], begin_id=BEGIN_ID, end_id=END_ID)


def test_a_model_that_answers_nan_is_refused() -> None:
    class Broken(Words):
        def step(self, tokens: Tensor) -> Tensor:
            return super().step(tokens) * torch.nan

    with pytest.raises(WeftError, match="NaN"):
        sample(Broken(1), torch.tensor([3]), [1], begin_id=BEGIN_ID, end_id=END_ID)


def test_nothing_is_drawn_for_no_sentence() -> None:
    assert draw([]) == []
