"""Layers compiled to kernels (torch.compile; Ansel et al. 2024, "PyTorch 2").

Each layer is compiled by itself, not the model as a whole: layers of one kind share the kernels of the first, and the
lengths of a batch stay open. Recurrent layers are left out: their loop over time would be compiled for each length; and
so are single matrices, of which nothing can be joined.
"""

from typing import Any

import torch
from torch import Tensor, nn

from weft.errors import UsageError
from weft.layers.recurrence import Recurrence

BACKEND = "inductor"


def layers_of(model: nn.Module) -> list[nn.Module]:
    """The modules in all ModuleLists of a model, which compute one after the other, but recurrent and linear ones."""
    layers = (layer for module in model.modules() if isinstance(module, nn.ModuleList) for layer in module)
    return [layer for layer in layers if not isinstance(layer, Recurrence | nn.Linear | nn.Identity)]


def compile_layers(model: nn.Module, device: torch.device) -> None:
    """Compile the layers for training. In validation they compute as before, since compiling for it would cost more
    than it gains.

    Raises UsageError if torch finds no working compiler for this device.
    """
    check_compiler(device)
    if not (layers := layers_of(model)):
        raise UsageError("training.compile finds nothing: this model has no stack of layers that can be compiled")
    for layer in layers:
        layer.forward = InTraining(layer)  # type: ignore[method-assign]


class InTraining:
    """A layer's forward pass, compiled while the layer is in training mode."""

    def __init__(self, layer: nn.Module) -> None:
        self.layer, self.plain = layer, layer.forward
        self.compiled = torch.compile(layer.forward, dynamic=True, backend=BACKEND)

    def __call__(self, *inputs: Tensor) -> Any:
        return (self.compiled if self.layer.training else self.plain)(*inputs)


def check_compiler(device: torch.device) -> None:
    """Compile a minimal function, since a compiler may be missing or broken. Raises UsageError."""
    try:
        torch.compile(lambda x: x + 1, backend=BACKEND)(torch.zeros(1, device=device))
    except Exception as error:  # of torch, of the compiler, of Triton: no family of their own
        why = str(getattr(error, "inner_exception", error)).strip() or type(error).__name__
        reason = why.splitlines()[0]
        needed = "a C++ compiler" if device.type == "cpu" else "Triton and a C compiler"
        raise UsageError(
            f"training.compile = true needs {needed} that works here, and torch says: {reason}; install it, or leave "
            "training.compile out"
        ) from error
