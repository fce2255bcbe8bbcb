"""Shallow fusion: the sum of what two models say, searched like any one of them."""

from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from weft.decoding.fusion import Fused
from weft.decoding.search import DecodingConfig, search

BEGIN_ID, END_ID = 1, 2


class Table:
    """Log-probabilities that depend on the newest piece alone, and a record of the rows that were asked for."""

    def __init__(self, log_probs: Tensor) -> None:
        self.log_probs, self.reordered = log_probs, []

    def step(self, tokens: Tensor) -> Tensor:
        return self.log_probs[tokens]

    def reorder(self, rows: Tensor) -> None:
        self.reordered.append(rows.tolist())


def random_table(seed: int) -> Table:
    return Table(torch.randn(6, 6, generator=torch.Generator().manual_seed(seed)).log_softmax(-1))


def test_a_search_of_two_is_the_search_of_their_weighed_sum() -> None:
    translation, language = random_table(1), random_table(2)
    config = DecodingConfig(beam_size=3, max_length_ratio=0, max_length_extra=6)
    lengths = torch.tensor([3, 2])
    fused = search(Fused(translation, [(language, 0.4)]), lengths, config, begin_id=BEGIN_ID, end_id=END_ID, best=3)
    summed = Table(translation.log_probs + 0.4 * language.log_probs)
    assert fused == search(summed, lengths, config, begin_id=BEGIN_ID, end_id=END_ID, best=3)


def test_both_models_follow_what_is_written() -> None:
    translation, language = random_table(1), random_table(2)
    config = DecodingConfig(beam_size=2, max_length_ratio=0, max_length_extra=4)
    search(Fused(translation, [(language, 1.0)]), torch.tensor([3]), config, begin_id=BEGIN_ID, end_id=END_ID)
    assert translation.reordered == language.reordered != []


def test_a_weight_of_zero_leaves_the_translation_model_alone_whatever_the_other_holds_impossible() -> None:
    translation, language = random_table(1), random_table(2)
    language.log_probs[:, 3] = -torch.inf
    config = DecodingConfig(beam_size=3)
    alone = search(translation, torch.tensor([3]), config, begin_id=BEGIN_ID, end_id=END_ID)
    fused = search(Fused(translation, [(language, 0.0)]), torch.tensor([3]), config, begin_id=BEGIN_ID, end_id=END_ID)
    assert fused == alone


def test_a_search_with_an_external_and_without_the_internal_model_finds_what_brute_force_finds() -> None:
    tables = [torch.randn(4, 4, generator=torch.Generator().manual_seed(seed)).log_softmax(-1) for seed in (1, 2, 3)]
    weights, longest = (1.0, 0.4, -0.3), 3
    others = [(Table(table), weight) for table, weight in zip(tables[1:], weights[1:], strict=True)]

    def score(tokens: tuple[int, ...]) -> float:
        steps = pairwise((BEGIN_ID, *tokens, END_ID))
        return sum(float(w * t[before, after]) for before, after in steps for t, w in zip(tables, weights, strict=True))

    every = [tokens for length in range(longest + 1) for tokens in product((0, BEGIN_ID, 3), repeat=length)]
    ranked = sorted(every, key=score, reverse=True)
    config = DecodingConfig(
        beam_size=64, length_penalty="none", stopping="first-k", max_length_ratio=0, max_length_extra=longest
    )
    fused = Fused(Table(tables[0]), others)
    (found,) = search(fused, torch.tensor([1]), config, begin_id=BEGIN_ID, end_id=END_ID, best=10)
    assert [hypothesis.tokens for hypothesis in found] == ranked[:10]
    assert [hypothesis.log_prob for hypothesis in found] == pytest.approx([*map(score, ranked[:10])], abs=1e-5)
