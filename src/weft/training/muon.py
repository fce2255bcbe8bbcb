"""Muon: momentum whose steps are equally long in all directions (Jordan et al. 2024, kellerjordan.github.io).

Torch has it too, but makes every step in bf16. On a processor without bf16 units that takes some thirty times as long
as in fp32, five sixths of a training's time. Here the precision is the caller's; in bf16 the steps are torch's own to
the bit, which a test shows.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
SMALLEST_NORM = 1e-7
"""Of a gradient that is divided by its norm."""


class Muon(torch.optim.Optimizer):
    """Of matrices alone. A step is scaled to the size of AdamW's, whose rate and decay then suit it as well (Liu et al.
    2025, arXiv 2502.16982, section 2.2)."""

    def __init__(
        self,
        matrices: Iterable[nn.Parameter],
        *,
        lr: float,
        momentum: float,
        weight_decay: float,
        precision: torch.dtype,
    ) -> None:
        super().__init__(matrices, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.precision = precision

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            rate, momentum, decay = group["lr"], group["momentum"], group["weight_decay"]
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                state = self.state[matrix]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(matrix)
                mean = state["momentum_buffer"].lerp_(matrix.grad, 1 - momentum)
                direction = orthogonalized(matrix.grad.lerp(mean, momentum), self.precision)  # as Nesterov looks ahead
                matrix.mul_(1 - rate * decay)
                matrix.add_(direction, alpha=-rate * 0.2 * max(matrix.shape) ** 0.5)


def orthogonalized(matrix: Float[Tensor, "rows columns"], precision: torch.dtype) -> Float[Tensor, "rows columns"]:
    """Nearly U V^T where the matrix is U S V^T: its singular values become some between 0.7 and 1.2.

    A polynomial a x + b x^3 + c x^5 of the matrix is one of its singular values, and this one, taken five times, lifts
    even small ones. With their gram matrix on the shorter side its products are the smallest.
    """
    a, b, c = COEFFICIENTS
    is_tall = matrix.size(0) > matrix.size(1)
    x = matrix.to(precision)
    x = x.T if is_tall else x
    x = x / x.norm().clamp(min=SMALLEST_NORM)  # no singular value is above 1
    for _ in range(ITERATIONS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if is_tall else x
