"""Sampling: what is drawn is as frequent as it is probable, and depends on nothing but the sentence and its seed."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.decoding.tables import END_ID, IDS, next_log_probs, word_steps

from weft.decoding.sampling import Truncation, cut, least_of_nucleus, sample
from weft.decoding.search import DecodingConfig, search
from weft.decoding.step import Hypothesis

EVERYTHING = Truncation()


def draw(seeds: list[int], max_length: int = 3, truncation: Truncation = EVERYTHING) -> list[Hypothesis]:
    """One sample a sentence."""
    max_lengths = torch.full((len(seeds),), max_length)
    found = sample(word_steps(len(seeds)), max_lengths, seeds, truncation=truncation, **IDS)
    return [hypothesis for (hypothesis,) in found]


# ---- how often ----


def left_by_the_cuts(probabilities: Sequence[float], truncation: Truncation) -> list[int]:
    """The twin: a loop from the most probable piece down, each cut by itself."""
    order = sorted(range(len(probabilities)), key=lambda token: -probabilities[token])
    by_count = order if truncation.top_k is None else order[: truncation.top_k]
    by_mass, mass = [], 0.0
    for token in order:
        if mass >= truncation.top_p:
            break
        by_mass.append(token)
        mass += probabilities[token]
    least = max(
        truncation.epsilon,
        probabilities[by_count[-1]],
        probabilities[by_mass[-1]] if truncation.top_p < 1 else 0.0,
    )
    left = [token for token in range(len(probabilities)) if probabilities[token] >= least]
    return left or [token for token in order if probabilities[token] == probabilities[order[0]]]


def exact_probability(sentence: tuple[int, ...], max_length: int, truncation: Truncation) -> float:
    """The twin: the product over its pieces of each one's share of what is left, to the power 1 / T."""
    product = 1.0
    for place, token in enumerate((*sentence, END_ID)):
        if place == max_length:
            return product  # it can only end
        powers = [math.exp(log_prob / truncation.temperature) for log_prob in next_log_probs(sentence[:place])]
        shares = [power / sum(powers) for power in powers]
        left = left_by_the_cuts(shares, truncation)
        product *= shares[token] / sum(shares[other] for other in left) if token in left else 0.0
    return product


@pytest.mark.parametrize(
    "truncation",
    [
        EVERYTHING,
        Truncation(temperature=0.5),
        Truncation(temperature=2.0),
        Truncation(top_k=2),
        Truncation(temperature=0.7, top_k=2),
        Truncation(top_k=1),
        Truncation(top_k=99),
        Truncation(top_p=0.75),
        Truncation(epsilon=0.25),
        Truncation(temperature=2.0, top_p=0.7, epsilon=0.15),
        Truncation(epsilon=0.9),
    ],
    ids=str,
)
def test_sentences_are_as_frequent_as_they_are_probable(truncation: Truncation) -> None:
    draws, max_length = 10_000, 2
    found = Counter(hypothesis.tokens for hypothesis in draw(list(range(draws)), max_length, truncation))
    sentences = [words for length in range(max_length + 1) for words in itertools.product((3, 4), repeat=length)]
    exact = {words: exact_probability(words, max_length, truncation) for words in sentences}
    assert sum(exact.values()) == pytest.approx(1)
    for words, probability in exact.items():
        deviation = math.sqrt(max(draws * probability * (1 - probability), 0))
        assert abs(found[words] - draws * probability) <= 4.5 * deviation + 1e-6, words
    assert set(found) <= set(exact)


def test_the_cuts_by_hand() -> None:
    probabilities = torch.tensor([[0.1, 0.4, 0.2, 0.3]], dtype=torch.float64)

    def left(**settings: Any) -> list[float]:
        return cut(probabilities, Truncation(**settings))[0].tolist()

    assert left(top_k=2) == [0, 0.4, 0, 0.3]
    assert left(top_p=0.3) == [0, 0.4, 0, 0]  # one piece has that mass already
    assert left(top_p=0.69) == [0, 0.4, 0, 0.3]
    assert left(top_p=0.75) == [0, 0.4, 0.2, 0.3]  # the one that reaches it is in
    assert left(epsilon=0.2) == [0, 0.4, 0.2, 0.3]
    assert left(epsilon=0.5) == [0, 0.4, 0, 0]  # none is left, so the most probable one is
    assert left(top_k=3, top_p=0.69, epsilon=0.15) == [0, 0.4, 0, 0.3]  # the strictest


def test_equally_probable_pieces_are_cut_or_left_together() -> None:
    probabilities = torch.tensor([[0.25, 0.4, 0.25, 0.1]], dtype=torch.float64)
    for truncation in (Truncation(top_k=2), Truncation(top_p=0.5)):
        assert cut(probabilities, truncation)[0].tolist() == [0.25, 0.4, 0.25, 0]


@given(
    weights=st.lists(st.integers(0, 6), min_size=1, max_size=12).filter(any),
    top_k=st.none() | st.integers(1, 14),
    top_p=st.floats(0.01, 1.0),
    epsilon=st.sampled_from([0.0, 0.02, 0.1, 0.3, 0.6]),
)
def test_what_is_cut_is_what_a_plain_loop_cuts(
    weights: list[int], top_k: int | None, top_p: float, epsilon: float
) -> None:
    truncation = Truncation(top_k=top_k, top_p=top_p, epsilon=epsilon)
    probabilities = torch.tensor([[weight / sum(weights) for weight in weights]], dtype=torch.float64)
    left = left_by_the_cuts(probabilities[0].tolist(), truncation)
    expected = [share if token in left else 0.0 for token, share in enumerate(probabilities[0].tolist())]
    assert cut(probabilities, truncation)[0].tolist() == expected


def test_a_nucleus_of_many_pieces_is_found_in_company_and_alone() -> None:
    probabilities = torch.stack([torch.ones(1000), torch.arange(1000.0) ** 4, torch.eye(1000)[7]]).double()
    probabilities /= probabilities.sum(1, keepdim=True)
    together = least_of_nucleus(probabilities, 0.9)
    for row, least in zip(probabilities, together, strict=True):
        assert least_of_nucleus(row[None], 0.9).equal(least[None])
        at_least = row[row >= least].sum()
        assert at_least >= 0.9 > at_least - row[row == least].sum()


def test_the_lowest_temperature_takes_the_most_probable_piece_and_a_lower_one_is_refused() -> None:
    lowest = DecodingConfig(method="sample", temperature=1e-6).truncation()
    assert {hypothesis.tokens for hypothesis in draw(list(range(50)), 2, lowest)} == {(3,)}
    for temperature in (0.0, 1e-309):
        with pytest.raises(ValidationError, match="temperature"):
            DecodingConfig(method="sample", temperature=temperature)


# ---- several samples of a sentence ----


def test_samples_of_a_sentence_are_those_that_it_has_one_by_one() -> None:
    seeds = [list(range(first, first + 8)) for first in (0, 100, 200)]
    max_lengths = torch.tensor([3, 0, 9])
    together = sample(word_steps(24), max_lengths, list(itertools.chain(*seeds)), **IDS)
    assert [len(hypotheses) for hypotheses in together] == [8, 8, 8]
    for max_length, of_sentence, hypotheses in zip(max_lengths, seeds, together, strict=True):
        for count in (1, 2, 5):
            fewer = sample(word_steps(count), max_length[None], of_sentence[:count], **IDS)
            assert fewer == [hypotheses[:count]]
    assert len({hypothesis.tokens for hypothesis in together[0]}) > 3


def test_rules_hold_for_every_sample_of_a_sentence() -> None:
    config = DecodingConfig(method="sample", min_length=2, no_repeat_ngram=2)
    seeds = list(range(40))
    found = search(word_steps(40), torch.tensor([3, 1]), config, **IDS, best=20, seeds=seeds)
    assert [len(hypotheses) for hypotheses in found] == [20, 20]
    for tokens in (hypothesis.tokens for hypotheses in found for hypothesis in hypotheses):
        assert len(tokens) >= 2
        assert len(set(itertools.pairwise(tokens))) == len(tokens) - 1
    alone = search(word_steps(1), torch.tensor([1]), config, **IDS, seeds=[33])
    assert alone == [[found[1][13]]]


def test_a_sentence_leaves_the_batch_with_its_last_sample() -> None:
    steps = word_steps(12)
    found = sample(steps, torch.tensor([2, 9, 0]), list(range(12)), **IDS)
    last = [max(len(hypothesis.tokens) for hypothesis in hypotheses) for hypotheses in found]
    assert list(map(len, steps.fed)) == [4 * sum(longest >= time for longest in last) for time in range(max(last) + 1)]


def test_the_score_is_the_models_log_probability_whatever_the_truncation() -> None:
    for hypothesis in draw(list(range(200)), max_length=2, truncation=Truncation(temperature=3.0, epsilon=0.2)):
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
    steps = word_steps(2)
    beside = sample(steps, torch.tensor([2, 40]), [7, 8], **IDS)[0][0]
    assert alone.tokens == beside.tokens


def test_only_the_most_probable_piece_is_greedy_search() -> None:
    config = DecodingConfig(method="sample", top_k=1, max_length_ratio=1.0, max_length_extra=1)
    lengths = torch.tensor([3, 1])
    sampled = search(word_steps(2), lengths, config, **IDS, seeds=[1, 2])
    greedy = search(word_steps(2), lengths, config.model_copy(update={"method": "greedy"}), **IDS)
    assert sampled == greedy


def test_sentences_with_unequal_seeds_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="as many seeds for each of 2 sentences, found 3"):
        sample(word_steps(3), torch.tensor([3, 3]), [1, 2, 3], **IDS)


def test_nothing_is_drawn_for_no_sentence() -> None:
    assert draw([]) == []
