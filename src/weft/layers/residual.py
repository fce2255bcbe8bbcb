"""The residual connection around every sublayer (Vaswani et al. 2017, section 3.1)."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from weft.layers.dropout import Dropout


class Residual(nn.Module):
    """x + Dropout(sublayer(x)), with normalization of the sublayer's input (pre) or of the sum (post)."""

    def __init__(self, norm: nn.Module, dropout: float, *, norm_first: bool) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.norm_first = norm_first

    def forward(
        self, x: Float[Tensor, "batch time model"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch time model"]:
        if self.norm_first:
            return self.dropout(sublayer(self.norm(x)), onto=x)
        return self.norm(self.dropout(sublayer(x), onto=x))
