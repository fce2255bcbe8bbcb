"""Affine maps whose parameters stay in fp32 while they compute in the precision of their input.

This is how weft trains in bf16: the activations are bf16 from the embedding on, the parameters and their gradients are
fp32 throughout, so the parameters *are* the master weights and the optimizer never sees a rounded one. Each weight is
cast once a pass, at a thousandth of the cost of its products.
"""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class Linear(nn.Linear):
    """x W^T + b, initialized with Xavier's uniform distribution (Glorot and Bengio 2010) and a zero bias."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, input: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        bias = None if self.bias is None else self.bias.to(input.dtype)
        return F.linear(input, self.weight.to(input.dtype), bias)
