"""Weights that are means of other weights: over the steps of a run as it goes, or over checkpoints at its end.

It knows a model's parameters by name and nothing else of it. No update is made with a mean: it is measured and saved,
while training goes on from the weights that it has.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

Weights = dict[str, Tensor]
"""Parameters by name; a tied one stands under its first name alone."""


def follow(average: Weights, model: nn.Module, *, decay: float, step: int) -> None:
    """The average after update `step`: d * average + (1 - d) * weights with d = min(decay, (1 + step) / (10 + step)).

    Early on d is small, so the weights that the run began with are soon forgotten.
    """
    parameters = dict(model.named_parameters())
    move = get_ema_multi_avg_fn(min(decay, (1 + step) / (10 + step)))
    move([average[name] for name in parameters], list(parameters.values()), None)


def mean(several: Iterable[Mapping[str, Tensor]]) -> Weights:
    """Their mean in fp64 on the CPU; takes them one by one, so only one need be in memory."""
    sums: Weights = {}
    count = 0
    for weights in several:
        count += 1
        for name, tensor in weights.items():
            exact = tensor.detach().to("cpu", torch.float64)
            sums[name] = sums[name] + exact if name in sums else exact
    return {name: total / count for name, total in sums.items()}


def weights_of(model: nn.Module) -> Weights:
    """A copy of the model's weights."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@torch.no_grad()
def put(weights: Mapping[str, Tensor], model: nn.Module) -> None:
    """Make these the model's weights; KeyError where one is missing."""
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


@contextmanager
def holding(weights: Mapping[str, Tensor] | None, model: nn.Module) -> Iterator[Weights]:
    """Let the model have these weights inside the block; gives its own, which it gets back. None changes nothing."""
    if weights is None:
        yield {}
        return
    own = weights_of(model)
    put(weights, model)
    try:
        yield own
    finally:
        put(own, model)
