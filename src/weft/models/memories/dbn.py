"""The deep belief network: restricted Boltzmann machines on top of each other (Hinton, Osindero and Teh 2006).

Each machine is trained on what the hidden units of the one below it make of the data (greedy). The stack is then the
start of a feed-forward network, which is fine-tuned with labels.
"""

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weft.models.memories.rbm import RBM


class DeepBeliefNetwork(nn.Module):
    """Machines from the lowest to the highest; the hidden units of each are the visible ones of the next."""

    def __init__(self, *machines: RBM) -> None:
        super().__init__()
        self.machines = nn.ModuleList(machines)

    @property
    def stack(self) -> list[RBM]:
        return cast("list[RBM]", list(self.machines))  # nn.ModuleList forgets what it holds

    @torch.no_grad()
    def forward(self, v: Float[Tensor, "batch visible"]) -> Float[Tensor, "batch hidden"]:
        """Probabilities of the highest hidden units, each layer given those of the one below."""
        for machine in self.stack:
            v = machine.inputs(v).sigmoid()
        return v

    @torch.no_grad()
    def classifier(self, classes: int, dropout: float = 0.0) -> nn.Sequential:
        """A feed-forward network of sigmoids with the weights of the machines; its output starts at 0."""
        layers: list[nn.Module] = []
        for machine in self.stack:
            layer = nn.Linear(machine.weight.size(0), machine.weight.size(1))
            layer.weight.copy_(machine.weight.T)
            layer.bias.copy_(machine.hidden_bias)
            layers += [layer, nn.Sigmoid(), nn.Dropout(dropout)]
        output = nn.Linear(self.stack[-1].weight.size(1), classes)
        for parameter in output.parameters():
            parameter.zero_()
        return nn.Sequential(*layers, output)
