"""Minimum Bayes risk: sacrebleu as the twin, an exact expectation to converge to, and what changes nothing."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from tests.decoding.tables import END_ID, IDS, PROBABILITIES, word_steps

from weft.decoding.mbr import Utility, minimum_bayes_risk, probabilities_of
from weft.decoding.search import DecodingConfig, search
from weft.decoding.step import Hypothesis
from weft.metrics.utilities import ChrfUtilities, bleu_utilities

A, B = 3, 4


def hypotheses_of(texts: Sequence[str]) -> list[Hypothesis]:
    """One for each text, told apart by its number."""
    return [Hypothesis((number,), -float(number), -float(number)) for number in range(len(texts))]


def choose(texts: Sequence[str], utility: Utility = ChrfUtilities, **settings) -> list[tuple[str, float]]:
    chosen = minimum_bayes_risk(hypotheses_of(texts), texts, [1.0] * len(texts), utility, **settings)
    return [(texts[hypothesis.tokens[0]], hypothesis.score) for hypothesis in chosen]


# ---- the twin ----


def risk_twin(
    texts: Sequence[str], weights: Sequence[float], score: Callable[[str, str], float]
) -> list[tuple[str, float]]:
    """All distinct texts, by their mean score against all of the list, in two loops."""
    found = []
    for hypothesis in dict.fromkeys(texts):
        gains = [weight * score(hypothesis, reference) for reference, weight in zip(texts, weights, strict=True)]
        found.append((hypothesis, sum(gains) / sum(weights)))
    return sorted(found, key=lambda pair: -round(pair[1], 9))


SCORES = {
    "chrf": (ChrfUtilities, lambda h, r: CHRF().sentence_score(h, [r]).score),
    "bleu": (
        bleu_utilities("en"),
        lambda h, r: BLEU(effective_order=True, force=True).sentence_score(h, [r]).score,
    ),
}

text = st.lists(st.sampled_from(["the", "cat", "sat", "on", "a", "mat", "."]), max_size=6).map(" ".join)


@pytest.mark.parametrize("name", SCORES)
@given(texts=st.lists(text, min_size=1, max_size=6), data=st.data())
def test_the_choice_is_that_of_two_loops_over_sacrebleu(name: str, texts: list[str], data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(1, 5).map(float), min_size=len(texts), max_size=len(texts)))
    utility, score = SCORES[name]
    found = minimum_bayes_risk(hypotheses_of(texts), texts, weights, utility, best=6)
    twin = risk_twin(texts, weights, score)
    assert [texts[hypothesis.tokens[0]] for hypothesis in found] == [text for text, _ in twin]
    assert [hypothesis.score for hypothesis in found] == pytest.approx([value for _, value in twin], abs=1e-9)


def test_what_resembles_nothing_else_is_not_chosen_though_it_is_the_most_probable() -> None:
    assert [text for text, _ in choose(["zz", "aab", "aac"], best=3)] == ["aab", "aac", "zz"]


def test_a_text_drawn_twice_is_one_candidate_with_two_votes() -> None:
    once = choose(["aa", "bb"], best=9)
    assert once == [("aa", 50.0), ("bb", 50.0)]
    twice = choose(["aa", "bb", "bb"], best=9)
    assert twice == [("bb", pytest.approx(200 / 3)), ("aa", pytest.approx(100 / 3))]


def test_of_equal_candidates_the_earlier_wins_and_of_equal_texts_its_first_hypothesis() -> None:
    texts = ["aa", "bb", "bb", "aa"]
    for order in ([0, 1, 2, 3], [1, 0, 3, 2], [2, 1, 0, 3]):
        (chosen,) = minimum_bayes_risk(
            [hypotheses_of(texts)[i] for i in order], [texts[i] for i in order], [1.0] * 4, ChrfUtilities
        )
        assert chosen == Hypothesis((order[0],), -float(order[0]), 50.0)


def test_the_log_probability_stays_the_models() -> None:
    (chosen,) = minimum_bayes_risk([Hypothesis((7,), -3.5, -0.5)], ["a"], [1.0], ChrfUtilities)
    assert chosen == Hypothesis((7,), -3.5, 100.0)


def test_references_of_a_beam_weigh_as_they_are_probable() -> None:
    log_probs = [math.log(0.2), math.log(0.05), -2000.0]
    weights = probabilities_of([Hypothesis((), log_prob, 0.0) for log_prob in log_probs])
    assert weights == pytest.approx([1.0, 0.25, 0.0])


# ---- the fast form ----


def random_texts(seed: int, count: int) -> list[str]:
    dice = random.Random(seed)
    sentence = ["the", "old", "cat", "sat", "on", "the", "mat", "and", "looked", "at", "a", "small", "dog"]
    return [" ".join(word for word in sentence if dice.random() < 0.7) for _ in range(count)]


@pytest.mark.parametrize("name", SCORES)
def test_the_fast_form_that_keeps_all_candidates_is_the_full_form(name: str) -> None:
    utility, _ = SCORES[name]
    for seed in range(5):
        texts = random_texts(seed, 30)
        assert choose(texts, utility, finalists=30, best=5) == choose(texts, utility, best=5)


@pytest.mark.parametrize("name", SCORES)
def test_the_fast_form_gives_candidates_their_full_utility_and_loses_little(name: str) -> None:
    utility, _ = SCORES[name]
    same = 0
    for seed in range(20):
        texts = random_texts(seed, 40)
        full = dict(choose(texts, utility, best=40))
        ((text, value),) = choose(texts, utility, finalists=8)
        assert value == pytest.approx(full[text])
        assert value > 0.97 * max(full.values())
        same += value == pytest.approx(max(full.values()))
    assert same >= 18


def test_the_fast_form_asks_for_full_utilities_of_the_finalists_alone() -> None:
    asked: list[int] = []

    class Counting(ChrfUtilities):
        def between(self, hypotheses):
            asked.append(len(hypotheses))
            return super().between(hypotheses)

    texts = random_texts(1, 40)
    choose(texts, Counting, finalists=4)
    assert len(choose(texts, Counting, finalists=4, best=9)) == 9  # as many finalists as answers
    choose(texts, Counting)
    assert asked == [4, 9, len(set(texts))]


# ---- on a distribution that is known ----

MAX_LENGTH = 3


def spell(tokens: Sequence[int]) -> str:
    return " ".join({A: "cat", B: "cats"}[token] for token in tokens)


def distribution() -> dict[str, float]:
    """Every sentence of up to three words, with its probability."""
    exact = {}
    for length in range(MAX_LENGTH + 1):
        for tokens in itertools.product((A, B), repeat=length):
            probability = 1.0
            for place, token in enumerate((*tokens, END_ID)):
                if place < MAX_LENGTH:  # where it can only end
                    probability *= PROBABILITIES[tokens[place - 1 : place]].get(token, 0.0)
            exact[spell(tokens)] = probability
    return exact


def sampled(sentences: int, samples: int, seed: int = 0) -> list[list[Hypothesis]]:
    config = DecodingConfig(method="mbr", mbr_candidates=samples, max_length=MAX_LENGTH)
    lengths = torch.full((sentences,), 9)
    seeds = list(range(seed, seed + sentences * samples))
    return search(word_steps(sentences * samples), lengths, config, **IDS, best=1, seeds=seeds)


def test_samples_of_a_known_distribution_converge_to_its_exact_expected_utilities() -> None:
    exact = distribution()
    assert sum(exact.values()) == pytest.approx(1)
    texts, weights = list(exact), list(exact.values())
    expected = {
        texts[hypothesis.tokens[0]]: hypothesis.score
        for hypothesis in minimum_bayes_risk(hypotheses_of(texts), texts, weights, ChrfUtilities, best=99)
    }
    deviations = []
    for samples in (10, 1000):
        (drawn,) = sampled(1, samples)
        found = minimum_bayes_risk(drawn, [spell(h.tokens) for h in drawn], [1.0] * samples, ChrfUtilities, best=99)
        deviations.append(max(abs(h.score - expected[spell(h.tokens)]) for h in found))
    assert deviations[1] < 3 < deviations[0]  # of a hundred; the mean of 1,000 deviates by 50 / sqrt(1000) at most
    assert spell(found[0].tokens) == max(expected, key=lambda text: expected[text])


def test_as_many_samples_are_the_candidates_as_are_asked_for() -> None:
    found = sampled(sentences=3, samples=8)
    assert [len(candidates) for candidates in found] == [8, 8, 8]
    counts = Counter(hypothesis.tokens for candidates in found for hypothesis in candidates)
    assert len(counts) > 2
    alone = sampled(sentences=1, samples=8, seed=8)
    assert alone == [found[1]]


def test_all_hypotheses_of_the_beam_are_the_candidates() -> None:
    config = DecodingConfig(method="mbr", mbr_from="beam", beam_size=4, max_length=MAX_LENGTH)
    plain = config.model_copy(update={"method": "beam"})
    (found,) = search(word_steps(4), torch.tensor([9]), config, **IDS)
    (beam,) = search(word_steps(4), torch.tensor([9]), plain, **IDS, best=4)
    assert found == beam and len(found) == 4


def test_one_hypothesis_of_a_beam_is_no_choice() -> None:
    with pytest.raises(ValidationError, match="beam_size") as raised:
        DecodingConfig(method="mbr", mbr_from="beam", beam_size=1)
    assert 'must be at least 2 for mbr_from = "beam"' in str(raised.value)
    DecodingConfig(method="mbr", beam_size=1)


def test_the_rows_of_a_sentence_follow_the_method() -> None:
    def rows(best: int = 1, **settings) -> int:
        return DecodingConfig(**settings).rows(best)

    assert [rows(5, method=method) for method in ("greedy", "beam", "sample", "mbr")] == [1, 3, 5, 32]
    assert rows(5, method="mbr", mbr_from="beam", beam_size=7) == 7
