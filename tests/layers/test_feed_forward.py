"""The feed-forward network: torch's activations between two affine maps, and Shazeer's gates."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from weft.layers.feed_forward import ACTIVATIONS, GATES, FeedForward

ORACLES = {"relu": nn.ReLU(), "elu": nn.ELU(), "gelu": nn.GELU(), "silu": nn.SiLU()}
GATE_ORACLES = {"glu": nn.Sigmoid(), "reglu": nn.ReLU(), "geglu": nn.GELU(), "swiglu": nn.SiLU()}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_it_is_two_affine_maps_with_an_activation_between(activation):
    layer = FeedForward(6, 12, activation=activation)
    x = torch.randn(2, 3, 6)
    torch.testing.assert_close(layer(x), nn.Sequential(layer.widen, ORACLES[activation], layer.narrow)(x))


@pytest.mark.parametrize("activation", GATES)
def test_a_gate_multiplies_a_second_affine_map(activation):
    layer = FeedForward(6, 12, activation=activation)
    nn.init.normal_(layer.widen.bias)
    x = torch.randn(2, 3, 6)
    matrices, biases = layer.widen.weight.chunk(2), layer.widen.bias.chunk(2)
    value, gate = (F.linear(x, matrix, bias) for matrix, bias in zip(matrices, biases, strict=True))
    torch.testing.assert_close(layer(x), layer.narrow(value * GATE_ORACLES[activation](gate)))


@pytest.mark.parametrize("activation", GATES)
def test_the_two_matrices_before_a_gate_start_as_two_matrices_of_glorot_and_bengio(activation):
    bound = math.sqrt(6 / (30 + 40))
    for matrix in FeedForward(30, 40, activation=activation).widen.weight.detach().chunk(2):
        assert 0.95 * bound < float(matrix.abs().amax()) <= bound


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_dropout_falls_before_the_last_map(activation):
    layer = FeedForward(6, 12, activation=activation, dropout=1.0)
    nn.init.normal_(layer.narrow.bias)
    assert torch.equal(layer(torch.randn(2, 3, 6)), layer.narrow.bias.expand(2, 3, 6))
