"""What each fast part of a training step is worth: `make bench-parts`, or `python -m bench.parts`.

The steps of bench/base.toml with rotary positions, on the same batches of zh-en-50k, as they are and with one fast part
at a time replaced by its plain form, which computes the same thing. The forms take turns, round after round; a ratio is
that of the medians of the times. Each form is a line of bench/results/parts.jsonl; `--docs` puts the table of the last
session into docs/*/benchmarks.md.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import torch
from bench.machine import RESULTS, ROOT, Line, append_line, markdown_table, new_session, say
from bench.options import parser_of, run_benchmark
from torch import Tensor, nn
from torch.nn import functional as F

from weft.config import Resolved, read_recipe
from weft.data.batching import Batch
from weft.folders.recipes import TranslationRecipe
from weft.layers.attention import MultiHeadAttention, attend_explicit
from weft.layers.dropout import Dropout
from weft.layers.fast.byte_dropout import BYTE_VALUES, drop_by_bytes
from weft.layers.positions import Turn, turn_explicit
from weft.preparing.corpora import read_all
from weft.preparing.first_model import first_model
from weft.preparing.preparation import prepare
from weft.runs.making import trainer_for_a_trial
from weft.runs.train import Silent
from weft.runtime import choose_threads, keep_memory_pages, keep_programs
from weft.training.losses import cross_entropy
from weft.training.task import Loss

LINES = RESULTS / "parts.jsonl"
WARMUP, STEPS, ROUNDS = 3, 8, 5


def main() -> None:
    run_benchmark(parser_of("parts", "What each fast part is worth."), measure, LINES, table, "benchmarks.md")


def measure(options: argparse.Namespace) -> None:
    keep_memory_pages()
    keep_programs()
    rotary = ["model.positions=rotary"]
    recipe = cast(Resolved[TranslationRecipe], read_recipe(ROOT / "bench" / "base.toml", TranslationRecipe, rotary))
    corpora = read_all(recipe.recipe, options.data, Silent())
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(recipe, corpora, Path(folder) / "corpus", Silent())
    with trainer_for_a_trial(first_model(prepared), prepared.store, corpora, Silent()) as trainer:
        batches = list(islice(trainer.batches.epoch(0), WARMUP + STEPS))
        times: dict[str, list[float]] = {name: [] for name in PLAIN}
        for number in range(ROUNDS):
            for name, plain in PLAIN.items():
                with plain():
                    times[name].append(seconds_a_step(trainer, batches))
            say(f"round {number + 1} of {ROUNDS}")
    tokens = sum(int((batch.target[:, 1:] != 0).sum()) for batch in batches[WARMUP:]) / STEPS
    session = new_session()
    for name, seconds in times.items():
        line: Line = {
            "plain": name,
            "milliseconds": [round(1000 * s, 1) for s in seconds],
            "target_tokens_per_second": round(tokens / statistics.median(seconds), 1),
            "threads": choose_threads(),
        }
        append_line(LINES, {**session, **line})


def seconds_a_step(trainer: Any, batches: list[Batch]) -> float:
    """The mean over the batches after the first WARMUP ones."""
    for batch in batches[:WARMUP]:
        trainer.update(batch)
    begin = time.perf_counter()
    for batch in batches[WARMUP:]:
        trainer.update(batch)
    return (time.perf_counter() - begin) / (len(batches) - WARMUP)


def plain_attention() -> AbstractContextManager[Any]:
    def attend(self: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        return attend_explicit(query, key, value, mask, self.dropout)

    return patch.object(MultiHeadAttention, "attend", attend)


@contextmanager
def plain_dropout() -> Iterator[None]:
    def forward(self: Dropout, x: Tensor, onto: Tensor | None = None) -> Tensor:
        dropped = F.dropout(x, self.probability, self.training)
        return dropped if onto is None else onto + dropped

    def rectify_and_drop(x: Tensor, probability: float) -> Tensor:
        return F.dropout(F.relu(x), probability)

    def bernoulli(x: Tensor, dropped: int) -> Tensor:
        return torch.empty_like(x).bernoulli_(1 - dropped / BYTE_VALUES)

    with (
        patch.object(Dropout, "forward", forward),
        patch("weft.layers.feed_forward.rectify_and_drop", rectify_and_drop),
        patch("weft.layers.fast.short_attention.kept_mask", bernoulli),
    ):
        yield


def plain_loss() -> AbstractContextManager[Any]:
    def loss(
        hidden: Tensor,
        weight: Tensor,
        labels: Tensor,
        smoothing: float,
        z_loss: float = 0.0,
        *,
        tokens: int | None = None,
    ) -> Loss:
        assert tokens is None  # or rows would have to be left out: batches are filled up on a GPU alone
        return cross_entropy(hidden @ weight.to(hidden.dtype).T, labels, smoothing, z_loss)

    return patch("weft.tasks.translation.blocked_cross_entropy", loss)


def plain_rectified() -> AbstractContextManager[Any]:
    def rectify_and_drop(x: Tensor, probability: float) -> Tensor:
        return drop_by_bytes(F.relu(x), probability)

    return patch("weft.layers.feed_forward.rectify_and_drop", rectify_and_drop)


def plain_turns() -> AbstractContextManager[Any]:
    return patch.object(Turn, "apply", turn_explicit)


def plain_muon() -> AbstractContextManager[Any]:
    def alone(matrices: Iterable[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
        for matrix in matrices:
            yield [matrix]

    return patch("weft.training.muon.groups_of_one_shape", alone)


@contextmanager
def all_plain() -> Iterator[None]:
    with plain_attention(), plain_dropout(), plain_loss(), plain_turns(), plain_muon():
        yield


PLAIN = {
    "none": nullcontext,
    "attention": plain_attention,
    "rotary positions": plain_turns,
    "dropout": plain_dropout,
    "dropout of ReLU": plain_rectified,
    "loss": plain_loss,
    "Muon": plain_muon,
    "all": all_plain,
}

HEADERS = {
    "en": ["plain form of", "milliseconds a step", "least to most", "target tokens a second", "speed left"],
    "zh": ["换成朴素写法的部分", "每步毫秒", "最少到最多", "目标词元数/秒", "剩下的速度"],
}
NAMES = {
    "en": {"none": "nothing"},
    "zh": {
        **{"none": "无", "attention": "注意力", "rotary positions": "旋转位置", "dropout of ReLU": "ReLU 的 dropout"},
        **{"loss": "损失", "all": "全部"},
    },
}
CAPTIONS = {
    "en": "Medians of {rounds} rounds in turn. {threads} threads, {processor}, torch {torch}, weft {commit}, {date}.",
    "zh": "轮流 {rounds} 轮的中位数。{threads} 线程，{processor}，torch {torch}，weft {commit}，{date}。",
}


def table(session: list[Line], language: str) -> str:
    fast = statistics.median(session[0]["milliseconds"])
    rows = []
    for line in session:
        times = line["milliseconds"]
        median = statistics.median(times)
        rows.append(
            [
                NAMES[language].get(line["plain"], line["plain"]),
                f"{median:.0f}",
                f"{min(times):.0f}–{max(times):.0f}",
                f"{line['target_tokens_per_second']:,.0f}",
                f"{fast / median:.0%}",
            ]
        )
    caption = CAPTIONS[language].format(**session[0], rounds=len(session[0]["milliseconds"]))
    return f"{markdown_table(HEADERS[language], rows)}\n\n{caption}"


if __name__ == "__main__":
    main()
