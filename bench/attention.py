"""Which form of attention is the fastest here: `python -m bench.attention`.

Times forward and backward of the forms of layers/attention.py, in turn, on the shapes of training batches (sentences of
12 to 128 pieces, 4,096 tokens) with dropout on the weights. Each shape is a line of bench/results/attention.jsonl.
`MultiHeadAttention.attend` chooses as it does because of these figures.
"""

import statistics
import time
from collections.abc import Callable

import torch
from bench.machine import RESULTS, Line, append_line, circumstances, say
from torch import Tensor

from weft.layers.attention import attend_explicit, attend_fused
from weft.layers.dropout import Dropout
from weft.layers.fast.short_attention import attend_short
from weft.runtime import choose_device, has_native_bf16, keep_memory_pages

NUM_HEADS, HEAD_DIM, TOKENS = 8, 32, 4096
DROPOUT = 0.1
ROUNDS = 9


def explicit(query: Tensor, key: Tensor, value: Tensor, allowed_mask: Tensor) -> Tensor:
    return attend_explicit(query, key, value, allowed_mask, Dropout(DROPOUT))


def fused(query: Tensor, key: Tensor, value: Tensor, allowed_mask: Tensor) -> Tensor:
    return attend_fused(query, key, value, allowed_mask, DROPOUT)


def short(query: Tensor, key: Tensor, value: Tensor, allowed_mask: Tensor) -> Tensor:
    return attend_short(query, key, value, allowed_mask, DROPOUT)


def main() -> None:
    keep_memory_pages()
    device = choose_device()
    forms = [explicit, fused] if device.type == "cuda" else [explicit, fused, short]
    for dtype in [torch.float32, torch.bfloat16] if has_native_bf16(device) else [torch.float32]:
        for length in (12, 15, 32, 128):
            line: Line = {"batch": TOKENS // length, "length": length, "dtype": str(dtype).removeprefix("torch.")}
            line |= {f"{name}_ms": ms for name, ms in compare(forms, length, dtype, device).items()}
            append_line(RESULTS / "attention.jsonl", {**line, "threads": torch.get_num_threads(), **circumstances()})
            say(", ".join(f"{key} {value}" for key, value in line.items()))


def compare(
    forms: list[Callable[..., Tensor]], length: int, dtype: torch.dtype, device: torch.device
) -> dict[str, float]:
    """Median milliseconds of one forward and backward pass, the forms in turn."""
    batch = TOKENS // length
    inputs = [
        torch.randn(batch, length, NUM_HEADS, HEAD_DIM, device=device, dtype=dtype).transpose(1, 2).requires_grad_()
        for _ in range(3)
    ]
    mask = torch.rand(batch, 1, 1, length, device=device) > 0.1
    times: dict[str, list[float]] = {form.__name__: [] for form in forms}
    for _ in range(ROUNDS):
        for form in forms:
            begin = time.perf_counter()
            form(*inputs, mask).sum().backward()
            if device.type == "cuda":
                torch.cuda.synchronize()
            times[form.__name__].append(1000 * (time.perf_counter() - begin))
    return {name: round(statistics.median(took[2:]), 3) for name, took in times.items()}


if __name__ == "__main__":
    main()
