"""torch's optimizers without torch's compiler, whose import takes a second and 70 MB of every process that trains."""

import inspect
from typing import Any

import torch
from torch.optim import Optimizer


class Eager(Optimizer):
    """An optimizer that never imports torch._dynamo.

    Torch wraps the methods of its optimizers for programs that compile a whole step. weft compiles layers only. The
    `step` of a subclass runs without gradients, as torch's do.
    """

    add_param_group = inspect.unwrap(Optimizer.add_param_group)
    zero_grad = inspect.unwrap(Optimizer.zero_grad)
    state_dict = inspect.unwrap(Optimizer.state_dict)
    load_state_dict = inspect.unwrap(Optimizer.load_state_dict)

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.step = torch.no_grad()(inspect.unwrap(cls.step))  # type: ignore[method-assign]


class SGD(Eager, torch.optim.SGD):
    """Stochastic gradient descent, with momentum or without."""


class Adam(Eager, torch.optim.Adam):
    """Kingma and Ba 2015."""


class AdamW(Eager, torch.optim.AdamW):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""


class Adafactor(Eager, torch.optim.Adafactor):
    """Shazeer and Stern 2018."""
