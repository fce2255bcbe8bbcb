"""Normalization of each vector to a fixed size, which keeps deep stacks trainable.

Like every layer here, both kinds hold fp32 parameters and compute in the precision of their input; the sums over a
vector are taken in fp32 whatever that is.
"""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class LayerNorm(nn.LayerNorm):
    """(x - mean) / sqrt(variance + eps) * weight + bias (Ba et al. 2016); `eps` defaults to 1e-5."""

    def __init__(self, model_dim: int, eps: float | None = None) -> None:
        super().__init__(model_dim, eps=1e-5 if eps is None else eps)

    def forward(self, input: Float[Tensor, "*batch model"]) -> Float[Tensor, "*batch model"]:
        weight, bias = self.weight.to(input.dtype), self.bias.to(input.dtype)
        return F.layer_norm(input, self.normalized_shape, weight, bias, self.eps)


class RMSNorm(nn.RMSNorm):
    """x / sqrt(mean of squares + eps) * weight, without centering or bias (Zhang and Sennrich 2019).

    `eps` defaults to 1e-6; torch's own default depends on the precision of the input.
    """

    def __init__(self, model_dim: int, eps: float | None = None) -> None:
        super().__init__(model_dim, eps=1e-6 if eps is None else eps)

    def forward(self, x: Float[Tensor, "*batch model"]) -> Float[Tensor, "*batch model"]:
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


NORMS: dict[str, type[LayerNorm] | type[RMSNorm]] = {"layer": LayerNorm, "rms": RMSNorm}
