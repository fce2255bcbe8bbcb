"""The deep belief network: restricted Boltzmann machines on top of each other (Hinton, Osindero and Teh 2006).

Each machine is trained on what the hidden units of the one below it make of the data (greedy). The stack is then the
start of a feed-forward network, which is fine-tuned with labels.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weft.models.memories.rbm import RBM


@torch.no_grad()
def highest_hidden(machines: Sequence[RBM], v: Float[Tensor, "batch visible"]) -> Float[Tensor, "batch hidden"]:
    """Probabilities of the highest hidden units, each layer given those of the one below."""
    for machine in machines:
        v = machine.inputs(v).sigmoid()
    return v


@torch.no_grad()
def classifier(machines: Sequence[RBM], classes: int, dropout: float = 0.0) -> nn.Sequential:
    """A feed-forward network of sigmoids with the weights of the machines; its output starts at 0."""
    layers: list[nn.Module] = []
    for machine in machines:
        layer = nn.Linear(machine.weight.size(0), machine.weight.size(1))
        layer.weight.copy_(machine.weight.T)
        layer.bias.copy_(machine.hidden_bias)
        layers += [layer, nn.Sigmoid(), nn.Dropout(dropout)]
    output = nn.Linear(machines[-1].weight.size(1), classes)
    for parameter in output.parameters():
        parameter.zero_()
    return nn.Sequential(*layers, output)
