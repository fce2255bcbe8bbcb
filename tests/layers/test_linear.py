"""Linear maps, normalization, feed-forward and embedding: torch's values, and parameters that stay in fp32."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from weft.layers.embedding import TokenEmbedding
from weft.layers.feed_forward import FeedForward
from weft.layers.linear import LayerNorm, Linear

LAYERS = {
    "linear": lambda: Linear(6, 6),
    "linear without bias": lambda: Linear(6, 6, bias=False),
    "layer norm": lambda: LayerNorm(6),
    "feed-forward": lambda: FeedForward(6, 12),
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


def test_layer_normalization_by_hand():
    norm = LayerNorm(4)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 1.0, 2.0, 1.0]))
        norm.bias.copy_(torch.tensor([0.0, 0.0, 0.0, 5.0]))
    # mean 4, variance (9 + 1 + 1 + 9) / 4 = 5
    expected = [-3 / math.sqrt(5), -1 / math.sqrt(5), 2 / math.sqrt(5), 3 / math.sqrt(5) + 5]
    assert norm(torch.tensor([1.0, 3.0, 5.0, 7.0])).tolist() == pytest.approx(expected, rel=1e-5)


def test_layer_normalization_in_bf16_takes_its_mean_in_fp32():
    x = (torch.randn(1, 4096) + 100).bfloat16()  # a mean taken in bf16 would be off by as much as the deviation
    torch.testing.assert_close(LayerNorm(4096)(x).float(), LayerNorm(4096)(x.float()), rtol=0.01, atol=0.01)


@pytest.mark.parametrize(
    ("activation", "oracle"), [("relu", nn.ReLU()), ("elu", nn.ELU()), ("gelu", nn.GELU()), ("silu", nn.SiLU())]
)
def test_feed_forward_is_two_affine_maps_with_an_activation_between(activation, oracle):
    layer = FeedForward(6, 12, activation=activation)
    x = torch.randn(2, 3, 6)
    torch.testing.assert_close(layer(x), nn.Sequential(layer.widen, oracle, layer.narrow)(x))


def test_feed_forward_drops_between_its_maps():
    layer = FeedForward(6, 12, dropout=1.0)
    nn.init.normal_(layer.narrow.bias)
    assert torch.equal(layer(torch.randn(2, 3, 6)), layer.narrow.bias.expand(2, 3, 6))


def test_embeddings_are_scaled_rows_of_the_matrix():
    embedding = TokenEmbedding(5, 16)
    tokens = torch.tensor([[4, 0, 4]])
    torch.testing.assert_close(embedding(tokens)[0], 4 * embedding.weight[torch.tensor([4, 0, 4])])


def test_scaled_embeddings_start_with_variance_one():
    assert TokenEmbedding(1000, 64)(torch.arange(1000)[None]).std().item() == pytest.approx(1.0, abs=0.02)
