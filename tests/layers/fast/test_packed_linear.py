"""Affine maps for inference are the layers that they are made of, whatever the processor makes of the weights."""

import pytest
import torch

from weft.layers.fast.packed_linear import PackedLinear, usual_number
from weft.layers.linear import Linear


@pytest.mark.parametrize("rows", [1, 3, 33, 64, 70, 700])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_the_linear_layer(rows: int, dtype: torch.dtype, tolerance: float, bias: bool) -> None:
    layer = Linear(48, 80, bias=bias)
    if bias:
        torch.nn.init.normal_(layer.bias)
    x = torch.randn(rows, 48)
    with torch.no_grad():
        found = PackedLinear.of([layer], dtype)(x.to(dtype))
        assert found.dtype == dtype
        torch.testing.assert_close(found.float(), layer(x), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_the_linear_layer_where_the_processor_has_no_blocks_of_its_type(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.layers.fast.packed_linear.has_blocks_of", lambda dtype: False)
    layer, x = Linear(48, 80), torch.randn(3, 48)
    with torch.no_grad():
        packed = PackedLinear.of([layer], dtype)
        assert packed.weight.layout == torch.strided
        torch.testing.assert_close(packed(x.to(dtype)).float(), layer(x), rtol=2e-2, atol=2e-2)


def test_several_layers_that_read_the_same_stand_one_after_the_other() -> None:
    layers, x = [Linear(16, 24), Linear(16, 8)], torch.randn(2, 5, 16)
    with torch.no_grad():
        found = PackedLinear.of(layers, torch.float32)(x)
        torch.testing.assert_close(found, torch.cat([layer(x) for layer in layers], dim=-1), rtol=1e-5, atol=1e-5)


def test_a_tensor_of_any_shape_keeps_it() -> None:
    layer, x = Linear(16, 24), torch.randn(5, 7, 16)
    with torch.no_grad():
        found = PackedLinear.of([layer], torch.float32)(x.transpose(0, 1))
        torch.testing.assert_close(found, layer(x).transpose(0, 1), rtol=1e-5, atol=1e-5)


def test_products_are_made_for_few_numbers_of_rows_and_never_many_more_than_asked_for() -> None:
    numbers = [usual_number(rows) for rows in range(1, 4097)]
    assert all(rows <= number <= 1.07 * rows for rows, number in enumerate(numbers, start=1))
    assert numbers[:32] == list(range(1, 33))
    assert len(set(numbers)) == 32 + 7 * 16  # seven doublings from 32 to 4,096


def test_it_keeps_the_weights_that_it_was_made_of() -> None:
    layer, x = Linear(16, 24), torch.randn(5, 16)
    with torch.no_grad():
        before, packed = layer(x), PackedLinear.of([layer], torch.float32)
        layer.weight.zero_()
        torch.testing.assert_close(packed(x), before, rtol=1e-5, atol=1e-5)


def test_layers_with_and_without_a_bias_do_not_go_together() -> None:
    with pytest.raises(ValueError, match="either all of the layers have a bias, or none"):
        PackedLinear.of([Linear(8, 8), Linear(8, 8, bias=False)], torch.float32)
