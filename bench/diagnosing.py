"""`weft diagnose` on runs with a planted fault and on sound runs: which findings it names first.

    python -m bench.diagnosing run --data DIR [--only NAME] [--seeds 1 2]    append a line a run to bench/results
    python -m bench.diagnosing fill                                          put the table into docs/*/diagnosing.md

DIR holds zh-en-50k. Runs have at most 300 steps of the small models of recipes/sick; `--corpus starter` trains on the
starter corpus instead. Faults of the code are planted by replacing a mask, in training and in the diagnosis.
"""

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from bench.machine import RESULTS, ROOT, append_line, circumstances, fill_page, read_lines
from bench.pairs import Pair, read_pairs, write_pairs

import weft
from weft.analysis.checkup import diagnose
from weft.data import starter
from weft.models import transformer
from weft.runs.train import Silent

FILE = RESULTS / "diagnosing.jsonl"
Pairs = list[Pair]
TRAIN, VALID = 6_000, 100


@dataclass(frozen=True)
class Case:
    """A run, and what must be found in it first or second; nothing if it is sound."""

    expected: str = ""
    chinese: str = ""
    """The name of the run in the Chinese table."""
    recipe: str = "sound"
    settings: tuple[str, ...] = ()
    pairs: int = TRAIN
    spoil: Callable[[Pairs, Pairs], tuple[Pairs, Pairs]] = lambda train, valid: (train, valid)
    steps: int = 60
    """Fewer than 300 where what is found does not depend on how much was learned."""
    mask: str = ""
    """The mask of transformer.py that allows everything."""


def shuffled(train: Pairs, valid: Pairs) -> tuple[Pairs, Pairs]:
    sources = [source for source, _ in train]
    random.Random(1).shuffle(sources)
    return [(source, target) for source, (_, target) in zip(sources, train, strict=True)], valid


def shifted(train: Pairs, valid: Pairs) -> tuple[Pairs, Pairs]:
    return [(source, target) for (source, _), (_, target) in zip(train[1:], train, strict=False)], valid


def shared(train: Pairs, valid: Pairs) -> tuple[Pairs, Pairs]:
    return train, train[:VALID]


def lowered(train: Pairs, valid: Pairs) -> tuple[Pairs, Pairs]:
    return [(source, target.lower()) for source, target in train], valid


FAULTS: dict[str, Case] = {
    "rate x 30": Case("rate too high", "学习率 × 30", "rate-x30", steps=300),
    "post-norm without warm-up": Case("no warm-up", "后置归一化，无预热", "no-warmup", steps=300),
    "source shuffled": Case("strangers", "源语句打乱", spoil=shuffled),
    "targets shifted by one": Case("out of step", "目标语句错开一行", spoil=shifted),
    "32k pieces for 5,000 pairs": Case("vocabulary", "5,000 句对用 32k 子词", "large-vocabulary", pairs=5_000),
    "dropout 0 for too long": Case("by heart", "dropout 为 0，训练过久", "no-dropout", pairs=500, steps=300),
    "train in valid": Case("leak", "验证集取自训练集", spoil=shared),
    "smoothing 0.9": Case("smoothing", "标签平滑 0.9", "smoothing"),
    "batch of 2 sentences": Case("tiny batch", "每批 2 句", "batch-of-two"),
    "padding attended": Case("padding read", "注意力看到填充", mask="padding_mask"),
    "causal mask missing": Case("future seen", "缺少因果掩码", mask="causal_mask"),
    "lower case against cased": Case("other case", "训练全小写，验证分大小写", spoil=lowered),
}
SOUND: dict[str, Case] = {
    name: Case(settings=settings, steps=300)
    for name, settings in {
        "base": (),
        "muon": ("training.optimizer=muon", "training.learning_rate=4e-3"),
        "adam, noam": ("training.optimizer=adam", "training.schedule=noam", "training.learning_rate=0.3"),
        "post-norm": ("model.norm=post",),
        "rotary, swiglu": ("model.positions=rotary", "model.activation=swiglu", "model.norm_layer=rms"),
        "no smoothing": ("training.label_smoothing=0",),
        "dropout 0.3": ("model.dropout=0.3",),
        "unigram": ("tokenizer.kind=unigram",),
        "shared, tied": ("tokenizer.shared=true", "model.tie=all"),
        "recurrent": ("model={kind='recurrent', embedding_dim=64, hidden_dim=96}",),
    }.items()
}


def without_mask(name: str) -> AbstractContextManager[Any]:
    """Let a mask of transformer.py allow everything inside the block."""
    if not name:
        return nullcontext()
    mask = getattr(transformer, name)
    return patch.object(transformer, name, lambda *given: torch.ones_like(mask(*given)))


def corpus(name: str, data: Path) -> tuple[Pairs, Pairs]:
    if name == "starter":
        whole = starter.load()
        return whole["train"], whole["valid"]
    return read_pairs(data / "zh-en-50k" / "train.tsv"), read_pairs(data / "zh-en-50k" / "valid.tsv")


def run_case(case: Case, seed: int, given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    train, valid = corpus(given.corpus, given.data)
    (folder / "starter").mkdir()
    train, valid = case.spoil(train[: case.pairs], valid[:VALID])
    for name, pairs in (("train", train), ("test", train), ("valid", valid)):
        write_pairs(folder / "starter" / f"{name}.tsv", pairs)
    steps = [f"training.{key}={case.steps}" for key in ("steps", "validate_every")]
    settings = [f"seed={seed}", "training.threads=1", *steps, *case.settings]
    if given.corpus != "starter" and case.expected != "vocabulary":
        settings = ["tokenizer.source_size=2000", "tokenizer.target_size=2000", *settings]
    recipe = ROOT / "recipes" / "sick" / f"{case.recipe}.toml"
    with without_mask(case.mask):
        weft.train(recipe, run=folder / "run", data=folder, overrides=settings)
        began = time.monotonic()
        found = diagnose(folder / "run", listener=Silent())
    kinds = [finding.kind for finding in found.findings if finding.symptom.severity != "note"]
    return {"findings": kinds, "seconds": round(time.monotonic() - began, 1), "figures": found.figures}


def run(given: argparse.Namespace) -> None:
    cases = {**FAULTS, **{f"sound: {name}": case for name, case in SOUND.items()}}
    for name in given.only or cases:
        for seed in given.seeds:
            with tempfile.TemporaryDirectory() as folder:
                found = run_case(cases[name], seed, given, Path(folder))
            line = {"case": name, "expected": cases[name].expected, "corpus": given.corpus, "seed": seed, **found}
            print(name, seed, found["findings"], found["seconds"], flush=True)
            append_line(given.file, {**line, **circumstances()})


TEXTS = {
    "en": ("run", "runs", "named first or second", "found", "sound, {} kinds of recipes", "nothing"),
    "zh": ("运行", "次数", "排在第一或第二", "查出", "正常，{} 种配方", "无"),
}


def fill() -> None:
    """A row for each fault, and one for all sound runs: how many runs, how often the fault came first or second, and
    every kind that was found, with the number of runs."""
    lines = read_lines(FILE)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in (*FAULTS, "")}
    for line in lines:
        rows[line["case"] if line["expected"] else ""].append(line)
    texts = {}
    for language, (run, runs, named, found, sound, nothing) in TEXTS.items():
        table = [f"| {run} | {runs} | {named} | {found} |", "| --- | ---: | ---: | --- |"]
        for name, of_case in rows.items():
            kinds = Counter(kind for line in of_case for kind in line["findings"])
            hits = sum(line["expected"] in line["findings"][:2] for line in of_case)
            of_fault = {"en": name, "zh": FAULTS[name].chinese if name else ""}[language]
            label = of_fault or sound.format(len({line["case"] for line in of_case}))
            said = ", ".join(f"`{kind}` {count}" for kind, count in kinds.most_common()) or nothing
            table.append(f"| {label} | {len(of_case)} | {hits if name else '-'} | {said} |")
        texts[language] = "\n".join(table) + "\n"
    fill_page("diagnosing.md", "diagnosing", texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "fill"])
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--seeds", type=int, nargs="*", default=[1])
    parser.add_argument("--corpus", choices=["zh-en-50k", "starter"], default="zh-en-50k")
    parser.add_argument("--file", type=Path, default=FILE)
    given = parser.parse_args()
    run(given) if given.command == "run" else fill()


if __name__ == "__main__":
    main()
