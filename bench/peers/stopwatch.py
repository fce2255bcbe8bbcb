"""How fast a translator is that belongs to somebody else, measured within its own process.

It runs inside each system's own environment, so it imports the standard library alone. A driver beside it hands over
one function, and gets from the command line:

    translate_SYSTEM.py MODEL SENTENCES OUTPUT PRECISION THREADS COUNT

SENTENCES holds a JSON object for each sentence of valid: its `text`, its `pieces` and their `ids` by weft's source
vocabulary, without </s>. The first COUNT are timed; those from place WARM_UP on have been translated before, so that
whatever is compiled or allocated at first use is there, and nothing is kept of the answers.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meter import CpuWatch

BEAMS = (1, 3)
"""1 is greedy search."""
WARM_UP, WARM_UP_SENTENCES = 1000, 200
ALONE = 100
"""Sentences that are translated one by one."""

FORCED_LENGTH = 12
"""Target tokens of every answer of a system whose model knows nothing, </s> counted."""

Sentence = dict[str, Any]
Translate = Callable[[list[Sentence], int], list[tuple[str, int]]]
"""Sentences and a beam size into, for each, its text and how many target tokens were written, </s> counted."""


@dataclass(frozen=True)
class Order:
    """What the command line asks for."""

    model: Path
    sentences: list[Sentence]
    output: Path
    precision: str
    threads: int
    count: int


def read_order() -> Order:
    model, sentences, output, precision, threads, count = sys.argv[1:]
    lines = Path(sentences).read_text(encoding="utf-8").splitlines()
    read = [json.loads(line) for line in lines]
    return Order(Path(model), read, Path(output), precision, int(threads), int(count))


def measure(translate: Translate, order: Order, *, version: str) -> None:
    """Write a JSON object with the figures of each beam size."""
    loaded = peak_megabytes()
    figures = [time_beam(translate, order, beam) for beam in BEAMS]
    order.output.write_text(json.dumps({"version": version, "loaded_mb": loaded, "beams": figures}), encoding="utf-8")


def time_beam(translate: Translate, order: Order, beam: int) -> dict[str, Any]:
    timed, warm_up = order.sentences[: order.count], order.sentences[WARM_UP:][:WARM_UP_SENTENCES]
    translate(warm_up[: max(8, order.count // 5)], beam)
    watch = CpuWatch()
    answers = translate(timed, beam)
    seconds, others = watch.seconds(), watch.others()
    alone = []
    for sentence in timed[:ALONE]:
        began = time.perf_counter()
        translate([sentence], beam)
        alone.append(1000 * (time.perf_counter() - began))
    tokens = sum(count for _, count in answers)
    return {
        "beam": beam,
        "sentences": len(timed),
        "seconds": round(seconds, 3),
        "target_tokens": tokens,
        "sentences_per_second": round(len(timed) / seconds, 2),
        "target_tokens_per_second": round(tokens / seconds, 1),
        "latency_ms": round(statistics.median(alone), 2),
        "latency_ms_of_nine_in_ten": round(statistics.quantiles(alone, n=10)[-1], 2),
        "peak_mb": peak_megabytes(),
        "others_cpu": others,
        "texts": [text for text, _ in answers],
    }


def peak_megabytes() -> int:
    """The most memory that the process has held so far; Linux alone tells.

    Not from `getrusage`, which begins with what the process that started this one held.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return round(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024)


def in_batches(sentences: list[Sentence], size: int) -> list[list[int]]:
    """Places of the sentences, longest first, `size` together: what a careful user of a library does by hand."""
    order = sorted(range(len(sentences)), key=lambda place: -len(sentences[place]["ids"]))
    return [order[first : first + size] for first in range(0, len(order), size)]
