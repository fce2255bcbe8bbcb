"""The position-wise feed-forward network (Vaswani et al. 2017, section 3.3)."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from weft.layers.dropout import Dropout
from weft.layers.linear import Linear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "elu": F.elu, "gelu": F.gelu, "silu": F.silu}


class FeedForward(nn.Module):
    """FFN(x) = activation(x W1 + b1) W2 + b2, with dropout between."""

    def __init__(self, model_dim: int, ff_dim: int, *, activation: str = "relu", dropout: float = 0.0) -> None:
        super().__init__()
        self.widen = Linear(model_dim, ff_dim)
        self.narrow = Linear(ff_dim, model_dim)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "batch time model"]) -> Float[Tensor, "batch time model"]:
        return self.narrow(self.dropout(self.activation(self.widen(x))))
