"""Fresh weights."""

from torch import Tensor, nn


def draw_normal(weight: Tensor, std: float) -> None:
    """Draw weights from N(0, std^2) in place. On the meta device nothing is drawn: torch would load its compiler,
    which takes a second at every start."""
    if not weight.is_meta:
        nn.init.normal_(weight, std=std)
