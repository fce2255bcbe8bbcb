"""Which optimizer moves which parameters."""

import torch
from torch import nn


def adamw(
    model: nn.Module, *, learning_rate: float, betas: tuple[float, float], epsilon: float, weight_decay: float
) -> torch.optim.Optimizer:
    """AdamW (Loshchilov and Hutter 2019), fused into one pass over the parameters.

    Only matrices decay: a bias or a gain that is pulled toward zero is no simpler for it.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, eps=epsilon, fused=True)


OPTIMIZERS = {"adamw": adamw}
