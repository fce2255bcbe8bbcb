"""The additive score of a search is its formula, also where the hyperbolic tangent has long been 1."""

import pytest
import torch

from weft.layers.fast.additive_score import additive_scores, raised
from weft.layers.source_attention import SourceAttention


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 2e-5), (torch.float64, 1e-12), (torch.bfloat16, 0.2)])
@pytest.mark.parametrize("size", [0.1, 1.0, 6.0])
def test_it_is_the_formula(dtype: torch.dtype, error: float, size: float) -> None:
    query, key, weight = (
        size * torch.randn(2, 3, 32).to(dtype),
        size * torch.randn(2, 5, 32).to(dtype),
        torch.randn(1, 32),
    )
    expected = (query.double()[:, :, None] + key.double()[:, None]).tanh() @ weight.to(dtype).double()[0]
    scores = additive_scores(query, raised(key), weight.to(dtype))
    torch.testing.assert_close(scores.double(), expected, rtol=0, atol=error)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_largest_numbers_have_the_limits_of_the_hyperbolic_tangent(dtype: torch.dtype) -> None:
    ends = torch.tensor([[[-1e30], [-30.0], [0.0], [30.0], [1e30]]], dtype=dtype)
    scores = additive_scores(ends, raised(ends), torch.ones(1, 1))[0]
    assert scores[2].tolist() == [-1, -1, 0, 1, 1] and torch.equal(scores, scores.T)
    assert scores[0].tolist()[:3] == [-1, -1, -1] and scores[4].tolist()[2:] == [1, 1, 1] and abs(scores[0, 4]) < 1e-6


def test_attention_without_gradients_is_attention_with_them() -> None:
    attention = SourceAttention("additive", 16, 12)
    mask = torch.arange(7) < torch.tensor([[4], [7]])
    memory, query = torch.randn(2, 7, 12), torch.randn(2, 3, 16)
    expected = attention(query, attention.prepare(memory, mask))
    with torch.no_grad():
        for one, other in zip(expected, attention(query, attention.prepare(memory, mask)), strict=True):
            torch.testing.assert_close(one.detach(), other, rtol=0, atol=1e-6)
