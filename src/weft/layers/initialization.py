"""Fresh weights."""

from torch import Tensor, nn


def draw_normal(weight: Tensor, std: float) -> None:
    """From N(0, std^2), in place. On the meta device, where a model has shapes alone, there is nothing to draw, and
    torch would load its compiler for it: a second of every start."""
    if not weight.is_meta:
        nn.init.normal_(weight, std=std)
