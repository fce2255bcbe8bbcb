"""What each choice gains or costs on zh-en-50k: `make bench-choices`, or `python -m bench.choices [GRID]`.

A grid (grids.py) is a base recipe and named variants of it, all trained on as many target tokens (steps, epochs): a
study (weft.tuning) whose arms are the variants. Each finished trial is one line of bench/results/GRID.jsonl; what has
its line is not run again. Quality does not depend on what else the machine does, so trials stand side by side, one
thread each; speed does, and `--speed` measures it apart, one variant at a time on all threads. `--table` runs nothing,
and prints the table; `--docs` also puts it into the docs, with the loss curves where the grid keeps them.
"""

import argparse
import hashlib
import os
import shutil
import statistics
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from bench.grids import GRIDS
from bench.machine import RESULTS, ROOT, Line, append_line, circumstances, fill_page, read_lines, say
from bench.tables import HEADERS, draw_curves, table
from bench.training import train_for_a_while
from bench.variants import Variant, variants_of

from weft.cli.displays import PlainDisplay
from weft.config.toml import write_key, write_value
from weft.metrics.references import reference_sets
from weft.metrics.translation import score_translations
from weft.tuning.opening import open_study
from weft.tuning.study import Study
from weft.tuning.trial import Result, Trial
from weft.tuning.workers import work_together

SPEED_WARMUP, SPEED_SECONDS = 10, 30
QUIET = 0.05
"""Share of the processor that other programs may take for a speed to count as undisturbed."""


def main() -> None:
    options = parse_options()
    grid, path = GRIDS[options.grid], RESULTS / f"{options.grid}.jsonl"
    variants = [
        v
        for v in variants_of(options.grid)
        if (not options.only or v.name in options.only) and (not options.pairs or v.pairs in options.pairs)
    ]
    failed = 0
    if options.speed:
        measure_speeds(variants, path, options)
    elif not options.table:
        failed = run_missing(variants, options.seeds or grid["seeds"], path, options)
    lines = read_lines(path)
    print(table(options.grid, lines, options.table or "en"))
    if options.docs:
        texts = {language: table(options.grid, lines, language) for language in HEADERS}
        if grid["curves"]:
            texts = {
                language: f"{text}\n\n{draw_curves(options.grid, lines, language)}" for language, text in texts.items()
            }
        fill_page(grid.get("page", "benchmarks.md"), options.grid, texts)
    sys.exit(1 if failed else 0)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.choices", description="What each choice gains or costs.")
    parser.add_argument("grid", nargs="?", default="choices", choices=GRIDS)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these variants; left out: all")
    parser.add_argument("--pairs", nargs="+", type=int, help="with corpora of these sizes; left out: all of the grid")
    parser.add_argument("--seeds", nargs="+", type=int, help="left out: the grid's")
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("WEFT_DATA"), help="folder of zh-en-50k; left out: WEFT_DATA"
    )
    parser.add_argument("--threads", type=int, help="of each run; left out: 1, with --speed as many as there are")
    parser.add_argument("--jobs", type=int, help="runs side by side; left out: as many as fill the processor")
    parser.add_argument("--speed", action="store_true", help="measure speeds instead, one variant at a time")
    parser.add_argument("--table", nargs="?", const="en", choices=HEADERS, help="run nothing, print the table")
    parser.add_argument("--docs", action="store_true", help="also put the table into the docs")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    options.threads = options.threads or (cores if options.speed else 1)
    options.jobs = options.jobs or max(1, cores // options.threads)
    if options.data is None and not options.table:
        parser.error("say where zh-en-50k lies: --data DIR, or WEFT_DATA in the environment")
    names = GRIDS[options.grid]["variants"]
    if unknown := set(options.pairs or ()) - set(GRIDS[options.grid]["pairs"]):
        parser.error(f"the grid has no corpora of {', '.join(map(str, sorted(unknown)))} pairs")
    if unknown := set(options.only or ()) - names.keys():
        parser.error(f"the grid has no {', '.join(sorted(unknown))}; it has: {', '.join(names)}")
    return options


def run_missing(variants: list[Variant], seeds: list[int], path: Path, options: argparse.Namespace) -> int:
    """Run what has no line yet, and return how many runs failed; what another grid has run is taken from there."""
    elsewhere = [line for grid in GRIDS for line in read_lines(RESULTS / f"{grid}.jsonl")]
    missing: dict[int | None, list[Variant]] = {}
    for seed, variant in product(seeds, variants):
        of_seed = [line for line in elsewhere if variant.is_run_by(line) and line["seed"] == seed]
        if not of_seed and variant not in missing.setdefault(variant.pairs, []):
            missing[variant.pairs].append(variant)
        elif of_seed and not any(variant.owns(line) for line in of_seed):
            append_line(path, {**of_seed[0], **variant.facts()})
    failed = 0
    for lacking in filter(None, missing.values()):
        when_begun = circumstances()
        study = run_study(lacking, seeds, options)
        for trial in study.trials():
            result = study.result(trial)
            assert result is not None  # the study is finished
            variant = next(v for v in lacking if v.settings == dict(result.settings))
            if result.state == "failed":
                say(f"{variant.name}, seed {result.seed}: failed\n{result.why}")
                failed += 1
            elif not any(variant.owns_run(line) and line["seed"] == result.seed for line in read_lines(path)):
                line = line_of(study, trial, result, GRIDS[variant.grid]["curves"])
                append_line(path, {**variant.facts(), "threads": options.threads, **line, **when_begun})
        shutil.rmtree(study.folder)
    return failed


def run_study(variants: list[Variant], seeds: list[int], options: argparse.Namespace) -> Study:
    """Train variants with these seeds as a study in runs/grids/; one that was interrupted goes on."""
    first, grid = variants[0], GRIDS[variants[0].grid]
    lines = [
        f"base = {write_value(str(ROOT / first.base))}",
        f"seeds = {write_value(seeds)}",
        f"budget = {write_value(first.budget)}",
        f"validations = {grid['validations']}",
        *([f"pairs = {first.pairs}"] if first.pairs is not None else []),
        f"fixed = {write_value({'training.threads': options.threads})}",
        'metric = "sacrebleu"',
        "[space]",
        '"decoding.method" = ["beam", "greedy"]',
        "[arms]",
        *(f"{write_key(variant.name)} = {write_value(variant.settings)}" for variant in variants),
    ]
    text = "\n".join(lines) + "\n"
    name = hashlib.sha256(f"{first.base_sha256}{text}".encode()).hexdigest()[:16]
    file = ROOT / "runs" / "grids" / f"{name}.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    study = open_study(file, folder=file.with_suffix(""), data=options.data, workers=options.jobs)
    work_together(study, options.jobs, PlainDisplay())
    return study


def line_of(study: Study, trial: Trial, result: Result, with_curve: bool) -> Line:
    """A trial as a line: its scores on all of valid with both searches; the loss and the accuracy are means of the two
    halves that a study validates on."""
    references, target = reference_sets(study.files.valid.references), study.base.recipe.data.target
    scores = {
        method: score_translations(trial.hypotheses({"decoding.method": method}), references, target)
        for method in ("beam", "greedy")
    }
    halves = [result.measured[0][half] for half in ("choose", "confirm")]
    logged = read_lines(trial.run / "metrics.jsonl")
    best = [line for line in logged if line["step"] == result.best_step and "valid_loss" in line]
    recipe = tomllib.loads((trial.run / "config.toml").read_text(encoding="utf-8"))
    line = {
        "seed": result.seed,
        "undisturbed": False,  # trials stand side by side
        "steps": result.steps,
        "target_tokens": result.target_tokens,
        "parameters": result.parameters,
        "precision": recipe["training"]["precision"],
        "best_step": result.best_step,
        "mean_of": best[-1].get("mean_of"),
        "valid_loss": statistics.fmean(half["loss"] for half in halves),
        "valid_accuracy": statistics.fmean(half["accuracy"] for half in halves),
        "greedy_sacrebleu": scores["greedy"]["sacrebleu"].value,
        "repeats": share_that_repeats(trial.hypotheses({"decoding.method": "beam"})),
        "scores": scores["beam"].values(),
        "signatures": {score.name: score.signature for score in scores["beam"].scores},
        "decoding": recipe["decoding"],
        "target_tokens_per_second": result.target_tokens_per_second,
        "seconds": result.seconds,
    }
    curve = {"curve": [[row["step"], round(row["nll"], 4)] for row in logged if "nll" in row]}
    return {**line, **(curve if with_curve else {})}


def share_that_repeats(texts: Sequence[str], words: int = 3) -> float:
    """The share of the texts that contain the same words in a row twice."""
    split = [text.split() for text in texts]
    grams = [[tuple(text[place : place + words]) for place in range(len(text) - words + 1)] for text in split]
    return statistics.fmean(len(set(each)) < len(each) for each in grams)


def measure_speeds(variants: list[Variant], path: Path, options: argparse.Namespace) -> None:
    """Train each variant that has no undisturbed speed yet alone for a while."""
    known = read_lines(path)
    for variant in variants:
        if variant.pairs is not None or any(variant.owns_speed(line) for line in known):
            continue
        with tempfile.TemporaryDirectory() as work:
            figures = train_for_a_while(
                "weft",
                Path(sys.executable),
                ROOT / variant.base,
                warmup=SPEED_WARMUP,
                seconds=SPEED_SECONDS,
                threads=options.threads,
                data=options.data,
                work=Path(work),
                overrides=variant.overrides,
            )
        append_line(path, {**variant.facts(), "undisturbed": is_quiet(figures), **figures, **circumstances()})
        disturbed = "" if is_quiet(figures) else ", but other programs took more than their share: run it again"
        say(f"{variant.name}: {figures['target_tokens_per_second']:,.0f} tokens a second{disturbed}")


def is_quiet(figures: Line) -> bool:
    return figures["others_cpu"] is not None and figures["others_cpu"] < QUIET


if __name__ == "__main__":
    main()
