"""A recurrent layer over whole sequences, with its gradient by hand: `recur_explicit` (layers/recurrence.py).

Autograd would keep a dozen small tensors of each step, and add a gradient as large as the recurrent matrix to a sum at
each. Here a step keeps its gates and its states, and the gradient of the matrix is one product over all steps at the
end. With the parts of a gate's input written as a' and the gradient of the loss by x as dx:

    RNN     h = tanh(a')                                da' = dh (1 - h^2)
    LSTM    c = f c- + i g,  h = o tanh(c)              dc += dh o (1 - tanh(c)^2),  do' = dh tanh(c) o (1 - o)
                                                        di' = dc g i (1 - i),  df' = dc c- f (1 - f)
                                                        dg' = dc i (1 - g^2),  dc- = dc f
    GRU     n = tanh(n' + r m),  h = (1 - z) n + z h-   dn' = dh (1 - z) (1 - n^2),  dm = dn' r
                                                        dz' = dh (h- - n) z (1 - z),  dr' = dn' m r (1 - r),  dh- = dh z

and then dh- += da' U for h- U^T in a'. Products are taken in the precision of `projected`, all else at least in fp32.
tests/layers/test_recurrence.py proves both forms equal in values and gradients.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
tanh_backward = torch.ops.aten.tanh_backward.grad_input


@dataclass(frozen=True)
class Step:
    """The buffers of one step, (..., width) or all gates side by side; `before` and `after` are the states."""

    gates: Tensor
    """What the input gives to the gates, then the gates themselves."""
    product: Tensor
    """What the state before gives to the gates."""
    kept: Tensor
    """One more vector for the way back, if the cell keeps one."""
    before: Sequence[Tensor]
    after: Sequence[Tensor] = ()

    def by_gate(self, gates: Tensor) -> tuple[Tensor, ...]:
        return gates.unflatten(-1, (-1, self.before[0].size(-1))).unbind(-2)


@dataclass(frozen=True)
class Kernel:
    forward: Callable[[Step], None]
    """Turns what a step is given into gates, `kept` and `after`."""
    backward: Callable[[Step, list[Tensor], Tensor], Tensor | None]
    """From the gradients of the states after the step, writes those of the gates' inputs to the last argument, and over
    the former those of the states before it, but for what went through the product. Where the product has a gradient of
    its own, returns it."""
    keeps: bool = True
    adds: bool = True
    """Whether input and product are only added to each other; then `gates` are given with the sum."""


def rnn_forward(step: Step) -> None:
    step.after[0].copy_(step.gates.tanh_())


def rnn_backward(step: Step, grads: list[Tensor], d_gates: Tensor) -> None:
    tanh_backward(grads[0], step.gates, grad_input=d_gates)
    grads[0].zero_()


def lstm_forward(step: Step) -> None:
    i, f, o, g = step.by_gate(step.gates)  # `kept` is tanh(c)
    step.gates[..., : -g.size(-1)].sigmoid_()
    g.tanh_()
    torch.mul(f, step.before[1], out=step.after[1]).addcmul_(i, g)
    torch.tanh(step.after[1], out=step.kept)
    torch.mul(o, step.kept, out=step.after[0])


def lstm_backward(step: Step, grads: list[Tensor], d_gates: Tensor) -> None:
    (i, f, o, g), (d_i, d_f, d_o, d_g) = step.by_gate(step.gates), step.by_gate(d_gates)
    d_h, d_c = grads
    sigmoid_backward(d_h * step.kept, o, grad_input=d_o)
    through = d_h.mul_(o)
    d_c += tanh_backward(through, step.kept, grad_input=through)
    sigmoid_backward(d_c * g, i, grad_input=d_i)
    sigmoid_backward(d_c * step.before[1], f, grad_input=d_f)
    tanh_backward(d_c * i, g, grad_input=d_g)
    d_c *= f
    d_h.zero_()


def gru_forward(step: Step) -> None:
    (r, z, n), of_state = step.by_gate(step.gates), step.by_gate(step.product)
    r.add_(of_state[0]).sigmoid_()
    z.add_(of_state[1]).sigmoid_()
    step.kept.copy_(of_state[2])  # m
    n.addcmul_(r, step.kept).tanh_()
    torch.lerp(n, step.before[0], z, out=step.after[0])


def gru_backward(step: Step, grads: list[Tensor], d_gates: Tensor) -> Tensor:
    (r, z, n), (d_r, d_z, d_n) = step.by_gate(step.gates), step.by_gate(d_gates)
    (d_h,) = grads
    tanh_backward(d_h - d_h * z, n, grad_input=d_n)
    sigmoid_backward(d_h * (step.before[0] - n), z, grad_input=d_z)
    sigmoid_backward(d_n * step.kept, r, grad_input=d_r)
    d_h *= z
    d_product = d_gates.clone()
    step.by_gate(d_product)[2].mul_(r)
    return d_product


KERNELS = {
    "rnn": Kernel(rnn_forward, rnn_backward, keeps=False),
    "lstm": Kernel(lstm_forward, lstm_backward),
    "gru": Kernel(gru_forward, gru_backward, adds=False),
}


class RecurrentSequence(torch.autograd.Function):
    """The states after every step, given what the inputs give to the gates and the states before the first step."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, cell: str, projected: Tensor, weight: Tensor, bias: Tensor | None, *begin: Tensor
    ) -> tuple[Tensor, ...]:
        kernel, (directions, time, batch, _), width = KERNELS[cell], projected.shape, weight.size(-1)
        wide = begin[0].dtype
        gates = torch.empty_like(projected, dtype=wide)
        states = [first.new_empty(directions, time + 1, batch, width) for first in begin]
        for state, first in zip(states, begin, strict=True):
            state[:, 0] = first
        hidden = states[0] if projected.dtype == wide else states[0].to(projected.dtype)  # what products read
        kept = gates.new_empty(directions, time, batch, width) if kernel.keeps else states[0]
        matrix, before = weight.mT, [state[:, 0] for state in states]
        for step in range(time):
            if kernel.adds:
                product = torch.baddbmm(projected[:, step], hidden[:, step], matrix)
                gates[:, step] = product
            else:
                product = torch.bmm(hidden[:, step], matrix)
                gates[:, step] = projected[:, step]
                if bias is not None:
                    product[..., -width:] += bias[:, None]
            after = [state[:, step + 1] for state in states]
            kernel.forward(Step(gates[:, step], product, kept[:, step], before, after))
            if hidden is not states[0]:
                hidden[:, step + 1] = after[0]
            before = after
        ctx.save_for_backward(weight, gates, kept, hidden, *states)
        ctx.kernel, ctx.has_bias = kernel, bias is not None  # type: ignore[attr-defined]
        ctx.set_materialize_grads(False)
        return tuple(state[:, 1:] for state in states)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *above: Tensor | None) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        weight, gates, kept, hidden, *states = ctx.saved_tensors  # type: ignore[attr-defined]
        kernel: Kernel = ctx.kernel  # type: ignore[attr-defined]
        grads = [torch.zeros_like(state[:, 0]) for state in states]
        d_projected = torch.empty_like(gates)
        d_products = torch.empty_like(gates, dtype=hidden.dtype)
        for step in reversed(range(gates.size(1))):
            for grad, given in zip(grads, above, strict=True):
                if given is not None:
                    grad += given[:, step]
            d_gates = d_projected[:, step]
            before = [state[:, step] for state in states]
            own = kernel.backward(Step(gates[:, step], gates[:, step], kept[:, step], before), grads, d_gates)
            d_products[:, step] = d_gates if own is None else own
            grads[0] += torch.bmm(d_products[:, step], weight)
        flat, read = d_products.flatten(1, 2), hidden[:, :-1].flatten(1, 2)
        d_weight = torch.bmm(flat.mT, read)
        d_bias = flat[..., -weight.size(-1) :].sum(1) if ctx.has_bias else None  # type: ignore[attr-defined]
        return None, d_projected.to(hidden.dtype), d_weight, d_bias, *grads


class RecurrentStep(torch.autograd.Function):
    """One step alone, of tensors (rows, ...): the product with the state is made by the caller, and where a cell adds
    it to what the input gives, `projected` has it in it."""

    @staticmethod
    def forward(ctx: FunctionCtx, cell: str, projected: Tensor, product: Tensor, *before: Tensor) -> tuple[Tensor, ...]:
        kernel, gates = KERNELS[cell], projected.to(before[0].dtype, copy=True)
        after = tuple(torch.empty_like(state) for state in before)
        kept = torch.empty_like(before[0]) if kernel.keeps else before[0]
        kernel.forward(Step(gates, product, kept, before, after))
        ctx.save_for_backward(gates, kept, *before)
        ctx.kernel, ctx.dtype = kernel, projected.dtype  # type: ignore[attr-defined]
        return after

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *above: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        gates, kept, *before = ctx.saved_tensors  # type: ignore[attr-defined]
        grads, d_gates = [each.clone() for each in above], torch.empty_like(gates)
        own = ctx.kernel.backward(Step(gates, gates, kept, before), grads, d_gates)  # type: ignore[attr-defined]
        d_projected = d_gates.to(ctx.dtype)  # type: ignore[attr-defined]
        return None, d_projected, None if own is None else own.to(d_projected.dtype), *grads


def recur(
    cell: str,
    projected: Float[Tensor, "directions time batch gates"],
    weight: Float[Tensor, "directions gates width"],
    bias: Float[Tensor, "directions width"] | None,
    begin: tuple[Float[Tensor, "directions batch width"], ...],
) -> tuple[Float[Tensor, "directions time batch width"], ...]:
    """`recur_explicit` for all steps: each state after every step, in the precision of `begin`."""
    return RecurrentSequence.apply(cell, projected, weight, bias, *begin)
