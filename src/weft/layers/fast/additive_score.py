"""The additive score v^T tanh(q + k) without a hyperbolic tangent for each pair of a query and a key.

    tanh(q + k) = 1 - 2 / (1 + e^2q e^2k)

The exponentials are those of a query and of a key, so a pair takes a product and a reciprocal. A search takes the
keys' once. In fp32 a number beyond 22 counts as 22, where tanh has long been 1, so that no product overflows.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def raised(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """e^2x in fp32, or in float64 of float64; at most the square root of the largest number."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    limit = math.log(torch.finfo(wide.dtype).max) / 2
    return (2 * wide).clamp_(-limit, limit).exp_()


def additive_scores(
    queries: Float[Tensor, "batch query width"],
    raised_keys: Float[Tensor, "batch key width"],
    weight: Float[Tensor, "1 width"],
) -> Float[Tensor, "batch query key"]:
    """The scores in the precision of `raised_keys`, which are what `raised` makes of the keys. Has no gradient."""
    one, weight = raised_keys.new_ones(()), weight.to(raised_keys.dtype)
    parts = torch.addcmul(one, raised_keys[:, None], raised(queries)[:, :, None]).reciprocal_()
    return weight.sum() - 2 * (parts @ weight.mT).squeeze(-1)
