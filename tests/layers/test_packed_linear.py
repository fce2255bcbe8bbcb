"""Affine maps for inference are the layers that they are made of, whatever the processor makes of the weights."""

import pytest
import torch

from weft.layers.linear import Linear
from weft.layers.packed_linear import PackedLinear


@pytest.mark.parametrize("rows", [1, 3, 70, 700])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_the_linear_layer(rows: int, dtype: torch.dtype, tolerance: float, bias: bool) -> None:
    layer = Linear(48, 80, bias=bias)
    if bias:
        torch.nn.init.normal_(layer.bias)
    x = torch.randn(rows, 48)
    with torch.no_grad():
        found = PackedLinear([layer], dtype)(x.to(dtype))
        assert found.dtype == dtype
        torch.testing.assert_close(found.float(), layer(x), rtol=tolerance, atol=tolerance)


def test_several_layers_that_read_the_same_stand_one_after_the_other() -> None:
    layers, x = [Linear(16, 24), Linear(16, 8)], torch.randn(2, 5, 16)
    with torch.no_grad():
        found = PackedLinear(layers, torch.float32)(x)
        torch.testing.assert_close(found, torch.cat([layer(x) for layer in layers], dim=-1), rtol=1e-5, atol=1e-5)


def test_it_keeps_the_weights_that_it_was_made_of() -> None:
    layer, x = Linear(16, 24), torch.randn(5, 16)
    with torch.no_grad():
        before, packed = layer(x), PackedLinear([layer], torch.float32)
        layer.weight.zero_()
        torch.testing.assert_close(packed(x), before, rtol=1e-5, atol=1e-5)


def test_layers_with_and_without_a_bias_do_not_go_together() -> None:
    with pytest.raises(ValueError, match="either all of the layers have a bias, or none"):
        PackedLinear([Linear(8, 8), Linear(8, 8, bias=False)], torch.float32)
