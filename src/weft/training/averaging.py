"""Averages of weights: over the steps of a run as it goes, or over checkpoints at its end.

It knows a model's parameters by name and nothing else about it. An average is measured and saved, while training
continues with the model's own weights.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

Weights = dict[str, Tensor]
"""Parameters by name; a tied one only under its first name."""


def follow(average: Weights, model: nn.Module, *, decay: float, step: int) -> None:
    """Update the average in place after update `step`: d * average + (1 - d) * weights with
    d = min(decay, (1 + step) / (10 + step)).

    Early on d is small, so the initial weights are soon forgotten.
    """
    parameters = dict(model.named_parameters())
    move = get_ema_multi_avg_fn(min(decay, (1 + step) / (10 + step)))
    move([average[name] for name in parameters], list(parameters.values()), None)


def mean(several: Iterable[Mapping[str, Tensor]]) -> Weights:
    """Mean of several sets of weights in fp64 on the CPU. Takes them one by one, so only one needs to be in memory."""
    sums: Weights = {}
    count = 0
    for weights in several:
        count += 1
        for name, tensor in weights.items():
            exact = tensor.detach().to("cpu", torch.float64)
            sums[name] = sums[name] + exact if name in sums else exact
    return {name: total / count for name, total in sums.items()}


def weights_of(model: nn.Module) -> Weights:
    """Copy the model's weights."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@torch.no_grad()
def put(weights: Mapping[str, Tensor], model: nn.Module) -> None:
    """Copy the weights into the model. Raises KeyError if one is missing."""
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


@contextmanager
def holding(weights: Mapping[str, Tensor] | None, model: nn.Module) -> Iterator[Weights]:
    """Swap weights into the model inside the block and yield its own, which it gets back. None changes nothing."""
    if weights is None:
        yield {}
        return
    own = weights_of(model)
    put(weights, model)
    try:
        yield own
    finally:
        put(own, model)
