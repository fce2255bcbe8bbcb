"""What each choice gains or costs on zh-en-50k: `make bench-choices`, or `python -m bench.choices [GRID]`.

A grid (grids.py) is a base recipe and named variants of it, all trained on as many target tokens (steps, epochs). Each
finished run is one line of bench/results/GRID.jsonl, and what has its line is not run again. Quality does not depend on
what else the machine does, so runs stand side by side, one thread each; speed does, so `--speed` measures it apart, one
variant at a time on all threads. `--table` runs nothing and prints the table; `--docs` also puts it into the docs, with
the loss curves where the grid keeps them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import product
from pathlib import Path

from bench.grids import GRIDS
from bench.machine import RESULTS, ROOT, Line, append_line, circumstances, environment, fill_page, read_lines, say
from bench.one_run import look_ahead
from bench.tables import HEADERS, draw_curves, table
from bench.training import train_for_a_while
from bench.variants import Variant, refuse_wrong_recipes, variants_of

from weft.cli.start import with_whole_heap
from weft.errors import WeftError

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
    refuse_wrong_recipes(variants)
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
    """Run what has no line yet, and return how many runs failed; what another grid has run is taken from there.

    Seeds are the outer loop, so that a table of one seed is complete first.
    """
    failed = 0
    elsewhere = [line for grid in GRIDS for line in read_lines(RESULTS / f"{grid}.jsonl")]
    missing = []
    for seed, variant in product(seeds, variants):
        of_seed = [line for line in elsewhere if variant.is_run_by(line) and line["seed"] == seed]
        if not of_seed:
            missing.append((variant, seed))
        elif not any(variant.owns(line) for line in of_seed):
            append_line(path, {**of_seed[0], **variant.facts()})
    pool = ThreadPoolExecutor(options.jobs)
    running = {pool.submit(run, variant, seed, options): (variant, seed) for variant, seed in missing}
    try:
        for number, finished in enumerate(as_completed(running), start=1):
            variant, seed = running[finished]
            what = f"{number} of {len(missing)}: {variant.name}, seed {seed}"
            try:
                line = finished.result()
            except (subprocess.CalledProcessError, WeftError) as error:  # the others go on: hours may be in them
                failed += 1
                why = error.stderr[-2000:] if isinstance(error, subprocess.CalledProcessError) else error
                say(f"{what}: failed\n{why}")
                continue
            append_line(path, line)
            took = f" in {line['seconds']:,.0f} s" if line["seconds"] is not None else ", begun in an earlier sitting"
            say(f"{what}: {line['scores']['sacrebleu']:.2f} sacreBLEU{took}")
    finally:
        pool.shutdown(cancel_futures=True)
    return failed


def run(variant: Variant, seed: int, options: argparse.Namespace) -> Line:
    """One run in a process of its own (one_run.py), as a finished line."""
    grid, when_begun = GRIDS[variant.grid], circumstances()
    request = {
        "recipe": str(ROOT / variant.base),
        "overrides": variant.overrides,
        "data": str(options.data.resolve()),
        "pairs": variant.pairs,
        "seed": seed,
        "budget": in_steps(variant, options.data),
        "validations": grid["validations"],
    }
    world = environment(options.threads, options.data)
    finished = subprocess.run(
        [sys.executable, "-m", "bench.one_run"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=with_whole_heap(world) or world,  # as the `weft` command does
        check=True,
    )
    came_of_it = json.loads(finished.stdout)
    if not grid["curves"]:
        del came_of_it["curve"]
    place = {**variant.facts(), "seed": seed, "threads": options.threads, "undisturbed": is_quiet(came_of_it)}
    return {**place, **came_of_it, **when_begun}


def in_steps(variant: Variant, data: Path) -> dict[str, float]:
    """The budget as one_run.py takes it: epochs as the steps that they have in this variant's pieces."""
    if "epochs" not in variant.budget:
        return variant.budget
    assert variant.pairs is None  # the batches below are those of the whole corpus
    batches, _ = look_ahead(ROOT / variant.base, list(variant.overrides), data)
    return {"steps": round(variant.budget["epochs"] * batches.steps_per_epoch())}


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
