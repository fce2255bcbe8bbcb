"""Muon: momentum with orthogonalized steps (Jordan et al. 2024, kellerjordan.github.io).

torch.optim.Muon computes every step in bf16. On a processor without bf16 units that takes about thirty times as long as
fp32, five sixths of the training time. Here the caller chooses the precision; in bf16 the steps equal torch's, except
for the order in which a processor may add up the products of a tall matrix.
"""
# pyright: reportPrivateImportUsage=false

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weft.training.eager import Eager

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
SMALLEST_NORM = 1e-7
"""Lower bound of the norm that a gradient is divided by."""
STACK, GPU_STACK = 1 << 20, 1 << 26
"""Numbers in matrices that are multiplied in one batch; a single matrix of a small model cannot occupy all threads."""


class Muon(Eager):
    """Muon for matrices. Steps are scaled to the size of AdamW's, so that its learning rate and decay fit too (Liu et
    al. 2025, arXiv 2502.16982, section 2.2)."""

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

    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            rate, decay = group["lr"], group["weight_decay"]
            for matrices in groups_of_one_shape([matrix for matrix in group["params"] if matrix.grad is not None]):
                ahead = torch.stack([wide(x) for x in self.nesterov(matrices, group["momentum"])])
                directions = orthogonalized(ahead.to(self.precision))
                length = 0.2 * max(matrices[0].shape) ** 0.5
                torch._foreach_mul_(list[Tensor](matrices), 1 - rate * decay)
                advance([wide(matrix) for matrix in matrices], directions, -rate * length)

    def nesterov(self, matrices: Sequence[nn.Parameter], momentum: float) -> tuple[Float[Tensor, "rows columns"], ...]:
        """Update the momentum, and return the gradients with Nesterov momentum."""
        for matrix in matrices:
            if not self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        means = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        torch._foreach_lerp_(means, gradients, 1 - momentum)
        return torch._foreach_lerp(gradients, means, momentum)


def advance(
    matrices: list[Float[Tensor, "shorter longer"]],
    directions: Float[Tensor, "stack shorter longer"],
    far: float | Float[Tensor, ""],
) -> None:
    """Add `far` times its direction to each matrix. A GPU that replays the step reads `far` from a tensor."""
    if isinstance(far, Tensor):
        torch._foreach_add_(matrices, (directions.float() * far).unbind())
    else:
        torch._foreach_add_(matrices, directions.unbind(), alpha=far)


def groups_of_one_shape(matrices: Iterable[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Groups of matrices that are equally wide, of at most STACK numbers unless a single matrix has more."""
    by_shape = defaultdict[tuple[int, ...], list[nn.Parameter]](list)
    for matrix in matrices:
        by_shape[tuple(wide(matrix).shape)].append(matrix)
    for (rows, columns), group in by_shape.items():
        most = max(1, (STACK if group[0].device.type == "cpu" else GPU_STACK) // (rows * columns))
        for begin in range(0, len(group), most):
            yield group[begin : begin + most]


def wide(matrix: Float[Tensor, "rows columns"]) -> Float[Tensor, "shorter longer"]:
    """A view of the matrix, transposed if it is taller than wide."""
    return matrix.T if matrix.size(0) > matrix.size(1) else matrix


def orthogonalized(matrices: Float[Tensor, "stack shorter longer"]) -> Float[Tensor, "stack shorter longer"]:
    """Approximately U V^T of each matrix U S V^T, with singular values between 0.7 and 1.2 (Newton-Schulz iteration).

    A polynomial a x + b x^3 + c x^5 of the matrix applies to each singular value; this one, applied five times, raises
    even small ones. The Gram matrix is that of the shorter side, so that the products are small.
    """
    a, b, c = COEFFICIENTS
    norms = matrices.flatten(1).norm(dim=1).clamp(min=SMALLEST_NORM)
    x = matrices / norms[:, None, None]  # no singular value is above 1
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x
