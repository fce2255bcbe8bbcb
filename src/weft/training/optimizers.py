"""Which optimizer updates which parameters.

Weight decay applies to matrices only, not to biases and gains. sgd and adam add it to the gradient; the others subtract
it from the weights (Loshchilov and Hutter 2019).
"""

import re
from typing import Any

import torch
from torch import nn

from weft.errors import UsageError
from weft.training.config import UpdateConfig
from weft.training.eager import SGD, Adafactor, Adam, AdamW, Eager
from weft.training.muon import Muon

MOMENTUM = {"sgd": 0.9, "muon": 0.95}
WEIGHT_DECAY = {"sgd": 0.0, "adam": 0.0, "adamw": 0.01, "adafactor": 0.0, "muon": 0.01}

ADAFACTOR_EPSILONS = (1e-15, 1e-3)
"""The paper's values (Shazeer and Stern 2018, section 9): 1e-30 for a mean square, of which torch takes the root, and
1e-3 for the size of a matrix. Torch's default for the first, 1.2e-7, exceeds the mean squares of a real model's
gradients and would replace them all."""

LOOKED_UP = re.compile(r"(\w+_)?(embedding|positions)|output")
"""Names of the parts of a model whose matrices have a row per token or position."""


def make_optimizer(model: nn.Module, config: UpdateConfig, precision: torch.dtype) -> torch.optim.Optimizer:
    """Make the optimizer of the model's trainable parameters, fused if torch supports it.

    `precision` is used for muon's products; everything else is computed in the precision of the parameters.
    """
    name, learning_rate = config.optimizer, config.learning_rate
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices, others = [p for p in parameters if p.dim() >= 2], [p for p in parameters if p.dim() < 2]
    decay = WEIGHT_DECAY[name] if config.weight_decay is None else config.weight_decay
    momentum = MOMENTUM.get(name, 0.0) if config.momentum is None else config.momentum
    groups = [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    of_adam: dict[str, Any] = {"lr": learning_rate, "betas": config.betas, "eps": config.epsilon, "fused": True}
    match name:
        case "sgd":
            return with_momenta(SGD(groups, lr=learning_rate, momentum=momentum, nesterov=config.nesterov, fused=True))
        case "adam":
            return Adam(groups, **of_adam)
        case "adamw":
            return AdamW(groups, **of_adam)
        case "adafactor":
            return Adafactor(groups, lr=learning_rate, eps=ADAFACTOR_EPSILONS)
        case "muon":
            hidden = hidden_matrices(model)
            muons = {id(matrix) for matrix in hidden}
            groups[0]["params"] = [matrix for matrix in matrices if id(matrix) not in muons]
            return Both(
                Muon(hidden, lr=learning_rate, momentum=momentum, weight_decay=decay, precision=precision),
                AdamW(groups, **of_adam),
            )


def with_momenta(sgd: SGD) -> SGD:
    """Start the momentum of every parameter at 0. Torch's fused step initializes all momenta or none, so a layer that
    the first step leaves out would have none at the second."""

    def begin_momenta(*_: Any) -> None:
        for group in sgd.param_groups:
            for parameter in group["params"] if group["momentum"] else ():
                if "momentum_buffer" not in sgd.state[parameter]:
                    sgd.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)

    sgd.register_step_pre_hook(begin_momenta)
    return sgd


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The matrices that map hidden vectors to hidden vectors, for which Muon is made (Jordan et al. 2024).

    Embeddings and the output matrix are lists of vectors instead.
    """
    looked_up = {
        id(parameter)
        for name, parameter in model.named_parameters(remove_duplicate=False)  # a tied matrix has two names
        if LOOKED_UP.fullmatch(name.partition(".")[0])
    }
    hidden = [p for p in model.parameters() if p.requires_grad and p.dim() == 2 and id(p) not in looked_up]
    if not hidden:
        raise UsageError('training.optimizer = "muon" needs hidden matrices, and this model has none; use "adamw"')
    return hidden


class Both(Eager):
    """Muon for some parameters and AdamW for the others, as one optimizer with one learning rate.

    Groups and state are shared with the two optimizers.
    """

    def __init__(self, muon: Muon, adamw: AdamW) -> None:
        super().__init__([*muon.param_groups, *adamw.param_groups], defaults={})
        self.muon, self.adamw, self.defaults = muon, adamw, adamw.defaults
        self._share()

    def _share(self) -> None:
        self.muon.param_groups, self.adamw.param_groups = self.param_groups[:1], self.param_groups[1:]
        self.muon.state = self.adamw.state = self.state

    def step(self) -> None:  # type: ignore[override]
        self.muon.step()
        self.adamw.step()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)  # makes new groups and a new state
        self._share()
