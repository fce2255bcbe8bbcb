"""Shallow fusion: the sum of what two models say, searched like any one of them."""

import math
from itertools import product

import pytest
import torch
from tests.decoding.tables import BEGIN_ID, IDS, TableSteps, log_prob_of, random_table

from weft.decoding.fusion import Fused
from weft.decoding.search import DecodingConfig, search

TRANSLATION, LANGUAGE = random_table(6, 1), random_table(6, 2)


def test_a_search_of_two_is_the_search_of_their_weighed_sum() -> None:
    def summed(sentence: int, history: tuple[int, ...]) -> list[float]:
        own, other = (torch.tensor(table(sentence, history)) for table in (TRANSLATION, LANGUAGE))
        return (own + 0.4 * other).tolist()

    config = DecodingConfig(beam_size=3, max_length_ratio=0, max_length_extra=6)
    translation, language, both = (TableSteps(table, range(2), 3) for table in (TRANSLATION, LANGUAGE, summed))
    lengths = torch.tensor([3, 2])
    fused = search(Fused(translation, [(language, 0.4)]), lengths, config, best=3, **IDS)
    assert fused == search(both, lengths, config, best=3, **IDS)


def test_a_weight_of_zero_leaves_the_translation_model_alone_whatever_the_other_holds_impossible() -> None:
    config, lengths = DecodingConfig(beam_size=3), torch.tensor([3])
    without_3 = random_table(6, 2, liking=lambda token, history: -math.inf if token == 3 else 0.0)
    language = TableSteps(without_3, [0], 3)
    alone = search(TableSteps(TRANSLATION, [0], 3), lengths, config, **IDS)
    assert search(Fused(TableSteps(TRANSLATION, [0], 3), [(language, 0.0)]), lengths, config, **IDS) == alone


def test_a_search_with_an_external_and_without_the_internal_model_finds_what_brute_force_finds() -> None:
    tables, weights, longest = [random_table(4, seed) for seed in (1, 2, 3)], (1.0, 0.4, -0.3), 3
    first, *others = (TableSteps(table, [0], 64) for table in tables)

    def score(tokens: tuple[int, ...]) -> float:
        return sum(weight * log_prob_of(table, 0, tokens) for table, weight in zip(tables, weights, strict=True))

    every = [tokens for length in range(longest + 1) for tokens in product((0, BEGIN_ID, 3), repeat=length)]
    ranked = sorted(every, key=score, reverse=True)
    config = DecodingConfig(
        beam_size=64, length_penalty="none", stopping="first-k", max_length_ratio=0, max_length_extra=longest
    )
    fused = Fused(first, list(zip(others, weights[1:], strict=True)))
    (found,) = search(fused, torch.tensor([1]), config, best=10, **IDS)
    assert [hypothesis.tokens for hypothesis in found] == ranked[:10]
    assert [hypothesis.log_prob for hypothesis in found] == pytest.approx([*map(score, ranked[:10])], abs=1e-5)
