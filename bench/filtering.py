"""How much noise `[cleaning]` finds, and what it costs: `python -m bench.filtering --data DIR [--write DIR]`.

A fifth of the training pairs of zh-en-50k is spoiled, in equal parts by five kinds of noise:

    shuffled    the target of another pair
    language    one side copied to the other
    truncated   one side cut in the middle
    garbled     the words of the target in disorder, or 30 % of its letters replaced
    domain      a pair of newstest2021 (wmt-zh-en)

Then the pairs are cleaned by the default rules of [cleaning] without duplicates and leaks, and by these with
cross_entropy and dual_cross_entropy. The thresholds come from the validation pairs, which are as they were. One line
for each in bench/results/filtering.jsonl: the share found of each kind, and the share of the other pairs that is lost.
`--write` keeps the noisy pairs and those that are left, to train on.
"""

import argparse
import os
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from bench.machine import RESULTS, append_line, circumstances, say
from bench.pairs import Pair, write_pairs

from weft.data.cleaning import CleaningConfig
from weft.data.corpus import DataConfig, read_corpora
from weft.data.preparation import clean

LINES = RESULTS / "filtering.jsonl"
KINDS = ("shuffled", "language", "truncated", "garbled", "domain")
SHARE = 0.2
DEFAULT = CleaningConfig(duplicates=False, leaks=False)
RULES = {
    "default": DEFAULT,
    "with models": DEFAULT.model_copy(update={"cross_entropy": 0.035, "dual_cross_entropy": 0.015}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("WEFT_DATA"), help="where zh-en-50k lies")
    parser.add_argument("--write", type=Path, help="keep the noisy and the cleaned pairs in this folder")
    options = parser.parse_args()
    if options.data is None:
        parser.error("say where zh-en-50k lies: --data DIR, or WEFT_DATA in the environment")
    config = DataConfig(source="zh", target="en", train=("noisy.tsv",), valid=("zh-en-50k/valid.tsv",))
    pairs, news = read(options.data, "zh-en-50k/train.tsv"), read(options.data, "wmt-zh-en/newstest2021.zh-en.tsv")
    kinds = spoil(pairs, news, random.Random(2))
    trusted = read_corpora(config.valid, config, options.data)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.write or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        write_pairs(folder / "noisy.tsv", pairs)
        kept = np.zeros(len(pairs), bool)
        for name, rules in RULES.items():
            begin, place = time.perf_counter(), Path(scratch) / name
            place.mkdir()
            corpus = clean(config.train, config, rules, folder, place, trusted=trusted)
            kept[:] = False
            kept[[line - 2 for piece in corpus.pieces() for line in piece.lines]] = True  # line 1 is the header
            line = {**circumstances(), "rules": name, "seconds": round(time.perf_counter() - begin, 1)}
            line |= {kind: round(float((~kept[kinds == kind]).mean()), 4) for kind in KINDS}
            line |= {"found": round(float((~kept[kinds != ""]).mean()), 4)}
            line |= {"lost": round(float((~kept[kinds == ""]).mean()), 4)}
            append_line(LINES, line)
            say(", ".join(f"{key} {line[key]}" for key in ("rules", *KINDS, "found", "lost", "seconds")))
        if options.write:
            write_pairs(folder / "cleaned.tsv", [pair for pair, stays in zip(pairs, kept, strict=True) if stays])


def read(root: Path, name: str) -> list[Pair]:
    text = read_corpora([name], DataConfig(source="zh", target="en", train=(name,), valid=(name,)), root)
    return list(zip(text.sources, (targets[0] for targets in text.references), strict=True))


def spoil(pairs: list[Pair], news: Sequence[Pair], draw: random.Random) -> np.ndarray:
    """Replace a fifth of the pairs, and return the kind of noise of each; "" for those that stay."""
    kinds = np.full(len(pairs), "", dtype="U9")
    chosen = draw.sample(range(len(pairs)), int(SHARE * len(pairs)))
    for number, kind in enumerate(KINDS):
        rows = chosen[number :: len(KINDS)]
        kinds[rows] = kind
        given = [pairs[row] for row in rows]
        others = draw.sample(news, len(rows)) if kind == "domain" else [*given[1:], given[0]]
        for place, (row, pair, other) in enumerate(zip(rows, given, others, strict=True)):
            pairs[row] = spoiled(kind, pair, other, place % 2 == 0, draw)
    return kinds


def spoiled(kind: str, pair: Pair, other: Pair, first: bool, draw: random.Random) -> Pair:
    """One of the two forms of a kind of noise; `other` is another pair."""
    source, target = pair
    words = target.split()
    if kind == "shuffled":
        return source, other[1]
    if kind == "language":
        return (source, source) if first else (target, target)
    if kind == "truncated":
        half = max(1, len(source) // 2), max(1, len(words) // 2)
        return (source[: half[0]], target) if first else (source, " ".join(words[: half[1]]))
    if kind == "garbled":
        if first:
            draw.shuffle(words)
            return source, " ".join(words)
        letters = "abcdefghijklmnopqrstuvwxyz"
        return source, "".join(draw.choice(letters) if c.isalpha() and draw.random() < 0.3 else c for c in target)
    return other


if __name__ == "__main__":
    main()
