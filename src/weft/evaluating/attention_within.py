"""The self-attention of a model: how the tokens of one side attend to each other."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from weft.layers.attention import MultiHeadAttention, attention_weights
from weft.models.contract import Seq2Seq
from weft.models.stepping import stack_layers
from weft.text.vocabulary import BEGIN_ID


def attention_within(
    model: Seq2Seq, source: Sequence[int], target: Sequence[int], device: torch.device
) -> dict[str, Float[np.ndarray, "layers heads query key"]]:
    """The attention of every layer and head within the source and within the target, by one forward pass.

    A kind of network without self-attention has none.
    """
    seen: dict[str, list[torch.Tensor]] = {}

    def observe(side: str) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
        def note(module: nn.Module, inputs: tuple[Any, ...], _: Any) -> None:
            assert isinstance(module, MultiHeadAttention)
            key, _ = module.project_memory(inputs[1])
            query = module.settle(module.project_query(inputs[0]), key, inputs[2])
            weights = attention_weights(query, key, inputs[2])[0]  # (heads, query, key)
            seen.setdefault(side, []).append(weights.transpose(0, 1))

        return note

    hooks = [
        module.register_forward_hook(observe("source" if name.startswith("encoder.") else "target"))
        for name, module in cast(nn.Module, model).named_modules()
        if isinstance(module, MultiHeadAttention) and not name.endswith("cross_attention")
    ]
    if not hooks:
        return {}
    network = cast(Any, model)
    try:
        memory, source_mask = network.encode(torch.tensor([source], device=device))
        network.decode(torch.tensor([[BEGIN_ID, *target]], device=device), memory, source_mask)
    finally:
        for hook in hooks:
            hook.remove()
    return {side: stack_layers(layers).transpose(1, 2).numpy(force=True) for side, layers in seen.items()}
