"""Linear maps and embeddings: torch's values; and every layer's parameters stay in fp32."""

import math

import pytest
import torch
from torch.nn import functional as F

from weft.layers.embedding import TokenEmbedding
from weft.layers.feed_forward import FeedForward
from weft.layers.linear import Linear
from weft.layers.norm import LayerNorm, RMSNorm

LAYERS = {
    "linear": lambda: Linear(6, 6),
    "linear without bias": lambda: Linear(6, 6, bias=False),
    "layer norm": lambda: LayerNorm(6),
    "rms norm": lambda: RMSNorm(6),
    "feed-forward": lambda: FeedForward(6, 12),
    "gated feed-forward": lambda: FeedForward(6, 12, activation="swiglu"),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_in_bf16_the_parameters_and_their_gradients_stay_fp32(kind):
    layer = LAYERS[kind]()
    x = torch.randn(2, 3, 6, dtype=torch.bfloat16)
    y = layer(x)
    y.float().square().sum().backward()
    assert y.dtype == torch.bfloat16
    for parameter in layer.parameters():
        assert parameter.dtype == torch.float32
        assert parameter.grad is not None and parameter.grad.dtype == torch.float32


@pytest.mark.parametrize("kind", LAYERS)
def test_bf16_is_near_fp32_in_values_and_gradients(kind):
    layer = LAYERS[kind]()
    x, direction = torch.randn(2, 3, 6), torch.randn(2, 3, 6)
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        y = layer(x.to(dtype)).float()
        found.append((y, *torch.autograd.grad((y * direction).sum(), list(layer.parameters()))))
    torch.testing.assert_close(*found, rtol=0.05, atol=0.1)


def test_a_linear_layer_is_torchs_and_starts_as_glorot_and_bengio_say():
    layer = Linear(30, 20)
    x = torch.randn(4, 30)
    assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))
    assert (layer.bias == 0).all()
    bound = math.sqrt(6 / (30 + 20))
    assert 0.95 * bound < float(layer.weight.detach().abs().amax()) <= bound


def test_embeddings_are_scaled_rows_of_the_matrix():
    embedding = TokenEmbedding(5, 16)
    tokens = torch.tensor([[4, 0, 4]])
    torch.testing.assert_close(embedding(tokens)[0], 4 * embedding.weight[torch.tensor([4, 0, 4])])


def test_scaled_embeddings_start_with_variance_one():
    assert TokenEmbedding(1000, 64)(torch.arange(1000)[None]).std().item() == pytest.approx(1.0, abs=0.02)
