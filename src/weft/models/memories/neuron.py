"""A neuron (McCulloch and Pitts 1943), what it can learn (Rosenblatt 1958), and what takes two layers."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

INPUTS = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
"""The four inputs of a gate."""


@dataclass(frozen=True)
class Neuron:
    """y = 1 if w . x > threshold, otherwise 0."""

    weights: Float[Tensor, " inputs"]
    threshold: float

    def __call__(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch"]:
        return (x @ self.weights > self.threshold).float()


AND, OR = Neuron(torch.tensor([1.0, 1.0]), 1.5), Neuron(torch.tensor([1.0, 1.0]), 0.5)
NOT_BOTH = Neuron(torch.tensor([-1.0, -1.0]), -1.5)


def xor(x: Float[Tensor, "*batch 2"]) -> Float[Tensor, "*batch"]:
    """Two layers: one of the two, and not both."""
    return AND(torch.stack([OR(x), NOT_BOTH(x)], -1))


def learn_perceptron(
    x: Float[Tensor, "examples inputs"], y: Float[Tensor, " examples"], epochs: int = 100
) -> tuple[Neuron, list[int]]:
    """Rosenblatt's rule, w += (y - prediction) x, until an epoch has no mistake; with the mistakes of each epoch."""
    neuron, mistakes = Neuron(torch.zeros(x.size(1)), 0.0), []
    while len(mistakes) < epochs and (not mistakes or mistakes[-1]):
        mistakes.append(0)
        for example, answer in zip(x, y, strict=True):
            error = float(answer - neuron(example))
            neuron = Neuron(neuron.weights + error * example, neuron.threshold - error)
            mistakes[-1] += error != 0
    return neuron, mistakes
