"""A recurrent layer is its equations and torch's, whatever is beside a sequence in its batch."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from weft.layers.fast.deferred_product import Deferred
from weft.layers.fast.recurrence import KERNELS, recur
from weft.layers.recurrence import CELLS, Recurrence, Stepper, drawn_weight_mask, recur_explicit

TORCHS: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
TORCHS_GATES = {"rnn": [0], "lstm": [0, 1, 3, 2], "gru": [0, 1, 2]}
"""Ours in the order of torch's gates, which are i, f, g, o."""
MASK = torch.tensor([[True] * 5, [True] * 2 + [False] * 3, [True] * 4 + [False]])


def of_torch(layer: Recurrence, inputs: int) -> nn.RNNBase:
    """Torch's layer with the same weights."""
    dtype, both = layer.weight.dtype, layer.directions == 2
    twin = TORCHS[layer.cell](inputs, layer.width, batch_first=True, bidirectional=both, dtype=dtype)
    gates = TORCHS_GATES[layer.cell]
    weights = [layer.weight, layer.recurrent_weight, layer.bias]
    for direction in range(layer.directions):
        suffix = "_reverse" * direction
        own = [
            each.unflatten(0, (layer.directions, len(gates), -1))[direction, gates].flatten(0, 1) for each in weights
        ]
        zero = torch.zeros_like(own[2])
        if layer.recurrent_bias is not None:
            zero[2 * layer.width :] = layer.recurrent_bias.unflatten(0, (layer.directions, -1))[direction]
        for name, value in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), [*own, zero], strict=True):
            getattr(twin, f"{name}_l0{suffix}").data.copy_(value)
    return twin


def random_layer(cell: str, bidirectional: bool, dtype: torch.dtype) -> Recurrence:
    layer = Recurrence(3, 4, cell=cell, bidirectional=bidirectional).to(dtype)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return layer


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_a_layer_is_torchs_in_values_and_gradients(
    cell: str, bidirectional: bool, dtype: torch.dtype, tolerance: float
) -> None:
    layer = random_layer(cell, bidirectional, dtype)
    twin, directions = of_torch(layer, 3), layer.directions
    x, twins_x = (torch.randn(3, 5, 3, dtype=dtype).requires_grad_() for _ in range(2))
    twins_x.data.copy_(x)
    state = tuple(torch.randn(3, directions * 4, dtype=dtype).requires_grad_() for _ in range(CELLS[cell].states))
    given = tuple(each.detach().unflatten(1, (directions, 4)).transpose(0, 1).contiguous() for each in state)
    given = tuple(each.requires_grad_() for each in given)
    out, last = layer(x, state)
    expected, after = twin(twins_x, *given) if len(given) == 1 else twin(twins_x, given)
    after = after if isinstance(after, tuple) else (after,)
    torch.testing.assert_close(out, expected, rtol=tolerance, atol=tolerance)
    weighting = torch.randn_like(out)
    total, twins_total = (out * weighting).sum(), (expected * weighting).sum()
    for ours, theirs in zip(last, after, strict=True):
        torch.testing.assert_close(ours, theirs.transpose(0, 1).flatten(1), rtol=tolerance, atol=tolerance)
        weighting = torch.randn_like(ours)
        total = total + (ours * weighting).sum()
        twins_total = twins_total + (theirs.transpose(0, 1).flatten(1) * weighting).sum()
    total.backward()
    twins_total.backward()
    torch.testing.assert_close(x.grad, twins_x.grad, rtol=tolerance, atol=tolerance)
    for ours, theirs in zip(state, given, strict=True):
        assert theirs.grad is not None
        torch.testing.assert_close(ours.grad, theirs.grad.transpose(0, 1).flatten(1), rtol=tolerance, atol=tolerance)
    gates = TORCHS_GATES[cell]
    for name, parameter in (
        ("weight_ih", layer.weight),
        ("weight_hh", layer.recurrent_weight),
        ("bias_ih", layer.bias),
    ):
        assert parameter.grad is not None
        by_gate = parameter.grad.unflatten(0, (directions, len(gates), -1))
        for direction in range(directions):
            theirs = getattr(twin, f"{name}_l0{'_reverse' * direction}").grad
            torch.testing.assert_close(by_gate[direction, gates].flatten(0, 1), theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("cell", CELLS)
def test_the_fast_form_is_the_equations_and_its_gradient_theirs(cell: str) -> None:
    gates = CELLS[cell].gates
    projected, weight = torch.randn(2, 4, 3, 5 * gates).double(), torch.randn(2, 5 * gates, 5).double()
    bias = torch.randn(2, 5).double() if not KERNELS[cell].adds else None
    begin = tuple(torch.randn(2, 3, 5).double() for _ in range(CELLS[cell].states))
    leaves = [each.requires_grad_() for each in (projected, weight, bias, *begin) if each is not None]

    def total(form: Callable[..., tuple[Tensor, ...]]) -> Tensor:
        torch.manual_seed(1)
        return torch.stack(
            [(each * torch.randn_like(each)).sum() for each in form(cell, projected, weight, bias, begin)]
        )

    torch.testing.assert_close(total(recur), total(recur_explicit), rtol=1e-12, atol=1e-12)
    fast, plain = (torch.autograd.grad(total(form).sum(), leaves) for form in (recur, recur_explicit))
    torch.testing.assert_close(fast, plain, rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(lambda *_: recur(cell, projected, weight, bias, begin), leaves)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_a_sequence_alone_is_a_sequence_in_a_batch_and_padding_is_zero(cell: str, bidirectional: bool) -> None:
    layer, x = random_layer(cell, bidirectional, torch.float64), torch.randn(3, 5, 3).double()
    out, last = layer(x, mask=MASK)
    for row, length in enumerate((5, 2, 4)):
        alone, last_alone = layer(x[row : row + 1, :length])
        torch.testing.assert_close(out[row, :length], alone[0])
        assert (out[row, length:] == 0).all()
        for together, of_one in zip(last, last_alone, strict=True):
            torch.testing.assert_close(together[row], of_one[0])
    before = tuple(torch.randn_like(each) for each in last)
    _, held = layer(x, before, mask=torch.zeros_like(MASK))
    torch.testing.assert_close(held, before)


@pytest.mark.parametrize("cell", CELLS)
def test_a_state_carried_over_is_one_long_pass(cell: str) -> None:
    layer, x = random_layer(cell, False, torch.float64), torch.randn(2, 6, 3).double()
    out, last = layer(x)
    first, state = layer(x[:, :4])
    second, end = layer(x[:, 4:], state)
    torch.testing.assert_close(torch.cat([first, second], 1), out)
    torch.testing.assert_close(end, last)


@pytest.mark.parametrize("cell", CELLS)
def test_in_bf16_products_are_rounded_and_states_are_not(cell: str) -> None:
    layer = Recurrence(16, 16, cell=cell, bidirectional=True)
    x = torch.randn(4, 9, 16)
    expected, _ = layer(x)
    out, last = layer(x.bfloat16())
    assert out.dtype == torch.bfloat16 and all(each.dtype == torch.float32 for each in last)
    torch.testing.assert_close(out.float(), expected, rtol=3e-2, atol=3e-2)
    out.float().square().sum().backward()
    assert all(each.grad is not None and each.grad.dtype == torch.float32 for each in layer.parameters())


def test_weight_drop_uses_one_mask_for_all_steps() -> None:
    layer, x = random_layer("lstm", False, torch.float64), torch.randn(2, 6, 3).double()
    kept = drawn_weight_mask(layer, 0.5, torch.Generator().manual_seed(3))
    assert set(kept.unique().tolist()) == {0.0, 2.0}
    dropped, _ = layer(x, kept=kept)
    layer.recurrent_weight.data *= kept
    torch.testing.assert_close(layer(x)[0], dropped)


@pytest.mark.parametrize("drop", [0.0, 0.5])
@pytest.mark.parametrize("known", [0, 2, 3])
@pytest.mark.parametrize("cell", CELLS)
def test_step_by_step_a_layer_is_itself_in_values_and_gradients(cell: str, known: int, drop: float) -> None:
    layer, x = random_layer(cell, False, torch.float64), torch.randn(2, 6, 3).double().requires_grad_()
    weighting = torch.randn(2, 6, 4).double()
    kept = drawn_weight_mask(layer, drop) if drop else None
    (layer(x, kept=kept)[0] * weighting).sum().backward()
    expected = [each.grad for each in (x, *layer.parameters())]
    layer.zero_grad()
    x.grad = None
    stepper, outputs = Stepper(layer, torch.float64, kept, known), []
    state = (torch.zeros(2, 4).double(),) * CELLS[cell].states
    projected = stepper.project(x[..., :known])
    for step in range(6):
        out, state = stepper(x[:, step], state, projected[:, step] if known and step != 3 else None)
        outputs.append(out)
    (torch.stack(outputs, 1) * weighting).sum().backward()
    torch.testing.assert_close([each.grad for each in (x, *layer.parameters())], expected, rtol=1e-12, atol=1e-12)


def test_a_deferred_product_may_have_a_matrix_for_each_sentence() -> None:
    matrices, x = torch.randn(3, 5, 4).double().requires_grad_(), torch.randn(3, 2, 4).double().requires_grad_()

    def chained(product: Callable[[Tensor], Tensor]) -> Tensor:
        y = product(x)
        return (product(y[..., :4].tanh()) * y).sum()

    deferred = torch.autograd.grad(chained(Deferred(matrices)), (matrices, x))
    plain = torch.autograd.grad(chained(lambda rows: rows @ matrices.mT), (matrices, x))
    torch.testing.assert_close(deferred, plain, rtol=1e-12, atol=1e-12)
