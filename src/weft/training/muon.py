"""Muon: momentum whose steps are equally long in all directions (Jordan et al. 2024, kellerjordan.github.io).

Torch has it too, but makes every step in bf16. On a processor without bf16 units that takes some thirty times as long
as in fp32, five sixths of a training's time. Here the precision is the caller's; in bf16 the steps are torch's own but
for the order in which a processor may add up the products of a tall matrix.
"""
# pyright: reportPrivateImportUsage=false

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
SMALLEST_NORM = 1e-7
"""Of a gradient that is divided by its norm."""
STACK, GPU_STACK = 1 << 20, 1 << 26
"""Numbers in matrices that are multiplied side by side. One of a small model's is too small to occupy all threads."""


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
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        loss = called_with_gradients(closure)
        for group in self.param_groups:
            rate, decay = group["lr"], group["weight_decay"]
            for matrices in alike([matrix for matrix in group["params"] if matrix.grad is not None]):
                ahead = torch.stack([lying(x) for x in self.look_ahead(matrices, group["momentum"])])
                directions = orthogonalized(ahead.to(self.precision))
                length = 0.2 * max(matrices[0].shape) ** 0.5
                torch._foreach_mul_(list[Tensor](matrices), 1 - rate * decay)
                advance([lying(matrix) for matrix in matrices], directions, -rate * length)
        return loss

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "precision": self.precision}

    def look_ahead(
        self, matrices: Sequence[nn.Parameter], momentum: float
    ) -> tuple[Float[Tensor, "rows columns"], ...]:
        """The gradients along the mean of all so far, as Nesterov takes it; the means are brought up to date."""
        for matrix in matrices:
            if not self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        means = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        torch._foreach_lerp_(means, gradients, 1 - momentum)
        return torch._foreach_lerp(gradients, means, momentum)


def called_with_gradients(closure: Callable[[], Any] | None) -> Any:
    """The loss that an optimizer's step is asked to compute first, as torch's own do; None where it is not."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def advance(
    matrices: list[Float[Tensor, "shorter longer"]],
    directions: Float[Tensor, "stack shorter longer"],
    far: float | Float[Tensor, ""],
) -> None:
    """Add so much of its direction to each; a GPU that replays the step reads how much from a tensor (recording.py)."""
    if isinstance(far, Tensor):
        torch._foreach_add_(matrices, (directions.float() * far).unbind())
    else:
        torch._foreach_add_(matrices, directions.unbind(), alpha=far)


def alike(matrices: Iterable[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Groups of one shape, lying, and of at most STACK numbers, unless one matrix has more."""
    by_shape = defaultdict[tuple[int, ...], list[nn.Parameter]](list)
    for matrix in matrices:
        by_shape[tuple(lying(matrix).shape)].append(matrix)
    for (rows, columns), group in by_shape.items():
        most = max(1, (STACK if group[0].device.type == "cpu" else GPU_STACK) // (rows * columns))
        for begin in range(0, len(group), most):
            yield group[begin : begin + most]


def lying(matrix: Float[Tensor, "rows columns"]) -> Float[Tensor, "shorter longer"]:
    """The matrix with its longer side across, itself or transposed; no copy."""
    return matrix.T if matrix.size(0) > matrix.size(1) else matrix


def orthogonalized(matrices: Float[Tensor, "stack shorter longer"]) -> Float[Tensor, "stack shorter longer"]:
    """Nearly U V^T of each matrix U S V^T: its singular values become some between 0.7 and 1.2.

    A polynomial a x + b x^3 + c x^5 of the matrix is one of its singular values, and this one, taken five times, lifts
    even small ones. With their gram matrix on the shorter side its products are the smallest.
    """
    a, b, c = COEFFICIENTS
    norms = matrices.flatten(1).norm(dim=1).clamp(min=SMALLEST_NORM)
    x = matrices / norms[:, None, None]  # no singular value is above 1
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x
