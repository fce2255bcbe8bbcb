"""A product with one matrix at many steps, whose gradient is one product over all of them at the end.

Autograd would make the gradient of the matrix at each step, as large as the matrix, and add it to a sum: in a decoder
that feeds back what it found, where only a batch of rows is known at a step, this takes longer than the products. Here
a step notes its rows, and one product makes the gradient when the last step is through
(tests/layers/test_recurrence.py proves it equal).
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from weft.layers.fast.packed_linear import PackedLinear

Rows = list[tuple[Tensor, Tensor]]
"""The input of each step and the gradient of its output, as far as the way back has come."""


class Deferred:
    """x W^T, to be called at every step; W may differ between the sentences of a batch.

    The gradient is right for one backward pass, over all steps.
    """

    def __init__(self, weight: Float[Tensor, "*batch outputs inputs"]) -> None:
        self.weight, self.whole, self.packed = weight.detach(), None, None
        self.rows: Rows = []
        if torch.is_grad_enabled():
            self.whole = Whole.apply(weight, self.rows) if weight.requires_grad else None
        elif weight.dim() == 2 and weight.dtype != torch.float64 and weight.numel():  # oneDNN has no empty matrices
            self.packed = PackedLinear(self.weight)

    def __call__(self, x: Float[Tensor, "*batch rows inputs"]) -> Float[Tensor, "*batch rows outputs"]:
        if self.whole is not None:
            return Step.apply(x, self.whole, self.weight, self.rows)
        return x @ self.weight.mT if self.packed is None else self.packed(x)


class Whole(torch.autograd.Function):
    """The matrix as the steps see it: a number on which all depend, so that its gradient comes last."""

    @staticmethod
    def forward(ctx: FunctionCtx, weight: Tensor, rows: Rows) -> Tensor:
        ctx.rows = rows  # type: ignore[attr-defined]
        return weight.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        rows: Rows = ctx.rows  # type: ignore[attr-defined]
        inputs, of_outputs = (torch.cat(each, -2) for each in zip(*rows, strict=True))
        rows.clear()
        return of_outputs.mT @ inputs, None


class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, whole: Tensor, weight: Tensor, rows: Rows) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.rows = rows  # type: ignore[attr-defined]
        return x @ weight.mT

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:  # type: ignore[override]
        x, weight = ctx.saved_tensors  # type: ignore[attr-defined]
        ctx.rows.append((x.detach(), gradients[0]))  # type: ignore[attr-defined]
        return gradients[0] @ weight, gradients[0].new_zeros(()), None, None
