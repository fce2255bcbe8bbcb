"""The additive score of a search is its formula, also where the hyperbolic tangent has long been 1."""

import pytest
import torch

from weft.layers.fast.additive_score import additive_scores, raised
from weft.layers.source_attention import SourceAttention, wide


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 2e-5), (torch.float64, 1e-12), (torch.bfloat16, 2e-5)])
@pytest.mark.parametrize("size", [0.1, 1.0, 6.0])
def test_it_is_the_formula(dtype: torch.dtype, error: float, size: float) -> None:
    query, key, weight = (
        size * torch.randn(2, 3, 32).to(dtype),
        size * torch.randn(2, 5, 32).to(dtype),
        torch.randn(1, 32),
    )
    expected = (query.double()[:, :, None] + key.double()[:, None]).tanh() @ weight.to(dtype).double()[0]
    scores = additive_scores(query, raised(wide(key)), weight.to(dtype))
    torch.testing.assert_close(scores.double(), expected, rtol=0, atol=error)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_largest_numbers_have_the_limits_of_the_hyperbolic_tangent(dtype: torch.dtype) -> None:
    ends = torch.tensor([[[-1e30], [-30.0], [-25.0], [0.0], [25.0], [30.0], [1e30]]], dtype=dtype)
    scores = additive_scores(ends, raised(ends), torch.ones(1, 1))[0]
    torch.testing.assert_close(scores, (ends[0] + ends[0].T).tanh(), rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("score", ["dot", "scaled", "multiplicative", "additive"])
@pytest.mark.parametrize("coverage", [False, True])
def test_attention_without_gradients_is_attention_with_them(coverage: bool, score: str, dtype: torch.dtype) -> None:
    attention = SourceAttention(score, 16, 16, coverage=coverage)
    if attention.coverage is not None:
        attention.coverage.data.fill_(-0.5)
    mask = torch.arange(7) < torch.tensor([[4], [7]])
    memory, query, covered = torch.randn(2, 7, 16).to(dtype), torch.randn(2, 3, 16).to(dtype), torch.rand(2, 3, 7)
    expected = attention(query, attention.prepare(memory, mask), covered)
    with torch.no_grad():
        found = attention(query, attention.prepare(memory, mask), covered)
    for one, other in zip(expected, found, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one.detach(), other, rtol=0, atol=1e-6 if dtype == torch.float32 else 0.05)
