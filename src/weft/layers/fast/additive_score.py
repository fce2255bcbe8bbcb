"""The additive score v^T tanh(q + k) without a hyperbolic tangent for each pair of a query and a key.

    tanh(q + k) = 1 - 2 / (1 + e^2q e^2k)

The exponentials are those of a query and of a key, so a pair takes a product and a reciprocal. A search takes those of
the keys once. In fp32 a number beyond 43 counts as 43, which matters only where q and k are that large and opposite.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def raised(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """e^2x, of x in fp32 or float64; never 0 or infinite, so that no product of two is 0 times infinity."""
    limit = -0.99 * math.log(torch.finfo(x.dtype).tiny)
    return (2 * x).clamp_(-limit, limit).exp_()


@torch.no_grad()
def additive_scores(
    queries: Float[Tensor, "batch query width"],
    raised_keys: Float[Tensor, "batch key width"],
    weight: Float[Tensor, "1 width"],
) -> Float[Tensor, "batch query key"]:
    """The scores in the precision of `raised_keys`, which are what `raised` makes of the keys."""
    one, weight = raised_keys.new_ones(()), weight.to(raised_keys.dtype)
    parts = torch.addcmul(one, raised_keys[:, None], raised(queries.to(one.dtype))[:, :, None]).reciprocal_()
    return weight.sum() - 2 * (parts @ weight.mT).squeeze(-1)
