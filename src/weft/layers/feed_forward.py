"""The position-wise feed-forward network (Vaswani et al. 2017, section 3.3), plain or gated."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from weft.layers.dropout import Dropout
from weft.layers.fast.byte_dropout import rectify_and_drop
from weft.layers.linear import Linear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "elu": F.elu, "gelu": F.gelu, "silu": F.silu}

# The gated forms by their names in Shazeer 2020 (arXiv 2002.05202): what each applies to its gate.
GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "glu": torch.sigmoid,
    "reglu": F.relu,
    "geglu": F.gelu,
    "swiglu": F.silu,
}


class FeedForward(nn.Module):
    """FFN(x) = activation(x W1 + b1) W2 + b2, or gated: ((x V + c) * gate(x W1 + b1)) W2 + b2; dropout comes before W2.

    `ff_dim` is the input width of W2. A gated network widens to twice that, by V and W1 in one matrix, and so has half
    again as many parameters as a plain one.
    """

    def __init__(self, model_dim: int, ff_dim: int, *, activation: str = "relu", dropout: float = 0.0) -> None:
        super().__init__()
        self.is_gated = activation in GATES
        self.activation = GATES[activation] if self.is_gated else ACTIVATIONS[activation]
        self.widen = Linear(model_dim, 2 * ff_dim if self.is_gated else ff_dim)
        if self.is_gated:
            self._initialize_as_two_matrices()
        self.narrow = Linear(ff_dim, model_dim)
        self.dropout = Dropout(dropout)

    @torch.no_grad()
    def _initialize_as_two_matrices(self) -> None:
        """Draw V and W1 separately: Xavier's distribution depends on the shape of a matrix, and they share one only for
        speed."""
        for matrix in self.widen.weight.chunk(2):
            nn.init.xavier_uniform_(matrix)

    def forward(self, x: Float[Tensor, "batch time model"]) -> Float[Tensor, "batch time model"]:
        widened = self.widen(x)
        if self.activation is F.relu and not self.is_gated and self.training and x.device.type == "cpu":
            return self.narrow(rectify_and_drop(widened, self.dropout.probability))
        return self.narrow(self.dropout(self.activate(widened)))

    def activate(self, x: Float[Tensor, "*batch widened"]) -> Float[Tensor, "*batch ff"]:
        if not self.is_gated:
            return self.activation(x)
        value, gate = x.chunk(2, dim=-1)
        return value * self.activation(gate)
