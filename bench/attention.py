"""Which of the two forms of attention is faster here: `python bench/attention.py`.

Times forward and backward of the explicit products and of torch's fused kernel, in turn, on the shapes of training
batches (sentences of 12 to 128 pieces, 4,096 tokens) and of a decoding step. Prints one JSON line a shape; append it to
bench/results/attention.jsonl. `MultiHeadAttention.attend` takes the explicit form on a CPU because of these figures.
"""

import json
import statistics
import time
from collections.abc import Callable

import torch

from weft.layers.attention import attend_explicit, attend_fused
from weft.runtime import choose_device, describe_machine, has_native_bf16, keep_memory_pages

NUM_HEADS, HEAD_DIM, TOKENS = 8, 32, 4096
ROUNDS = 7


def main() -> None:
    keep_memory_pages()
    machine = describe_machine()
    device = choose_device()
    dtypes = [torch.float32, torch.bfloat16] if has_native_bf16(device) else [torch.float32]
    for dtype in dtypes:
        for batch, queries, keys in [(TOKENS // n, n, n) for n in (12, 32, 128)] + [(192, 1, 20)]:
            explicit, fused = compare(batch, queries, keys, dtype, device)
            row = {
                "batch": batch,
                "queries": queries,
                "keys": keys,
                "dtype": str(dtype).removeprefix("torch."),
                "explicit_ms": round(explicit, 3),
                "fused_ms": round(fused, 3),
                "fused_over_explicit": round(fused / explicit, 2),
                "device": machine["device"],
                "processor": machine["processor"],
                "threads": machine["threads"],
                "torch": machine["torch"],
            }
            print(json.dumps(row), flush=True)


def compare(batch: int, queries: int, keys: int, dtype: torch.dtype, device: torch.device) -> tuple[float, float]:
    """Median milliseconds of one forward and backward pass, the two forms in turn."""
    query = torch.randn(batch, NUM_HEADS, queries, HEAD_DIM, device=device, dtype=dtype, requires_grad=True)
    key = torch.randn(batch, NUM_HEADS, keys, HEAD_DIM, device=device, dtype=dtype, requires_grad=True)
    mask = torch.rand(batch, 1, 1, keys, device=device) > 0.1
    forms = (attend_explicit, attend_fused)
    times: dict[Callable, list[float]] = {form: [] for form in forms}
    for _ in range(ROUNDS):
        for form in forms:
            begin = time.perf_counter()
            form(query, key, key, mask).sum().backward()
            if device.type == "cuda":
                torch.cuda.synchronize()
            times[form].append(1000 * (time.perf_counter() - begin))
    explicit, fused = (statistics.median(times[form][1:]) for form in forms)
    return explicit, fused


if __name__ == "__main__":
    main()
