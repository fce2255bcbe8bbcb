"""How many birth places a small model knows, and what each choice gains: `python -m bench.birthplace --data DIR`.

Each job is a variant with a seed: pretraining by recipes/birthplace-pretrain.toml and fine-tuning by
recipes/birthplace-finetune.toml with the changes of the variant, then exact match on the held-out questions. Jobs stand
side by side in processes of their own, on one GPU or on the cores. Each finished one is a line of
bench/results/birthplace.jsonl and is not run again; one that the time limit ends goes on in its run folder the next
time. `--table` runs nothing and prints the table.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from bench.machine import RESULTS, ROOT, Line, append_line, circumstances, environment, markdown_table, read_lines, say

from weft import load
from weft.data.questions import read_questions
from weft.metrics.answers import score_answers
from weft.runs.train import train

LINES = RESULTS / "birthplace.jsonl"
PRETRAIN, FINETUNE = (ROOT / "recipes" / f"birthplace-{phase}.toml" for phase in ("pretrain", "finetune"))
WIKI, QUESTIONS, HELD_OUT = (
    f"cs224n-birthplace/{name}" for name in ("wiki.txt", "birth_places_train.tsv", "birth_dev.tsv")
)


@dataclass(frozen=True)
class Variant:
    """Changes of both recipes; without `pretrain` there is no pretraining."""

    pretrain: tuple[str, ...] | None = ()
    finetune: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (1,)


CHARACTERS = ("tokenizer.kind=characters", "data.context=128", "training.epochs=120")
"""As the course reads: character by character. An epoch takes twice as long."""
COURSE = (
    f'data.train=["{WIKI}"]',
    "data.salient=0",
    "model.dropout=0.1",
    "model.activation_dropout=0",  # minGPT drops nothing inside the feed-forward networks
    "training.optimizer=adamw",
    "training.learning_rate=6e-3",
    "training.final_share=0.1",
    "training.ema_decay=0",
    "training.epochs=400",
)
"""The recipe that students run, but for its padding, and shuffled: 400 of its 650 epochs, with the decay that fits."""
ALONE = ("training.epochs=75", "training.validate_every=75 epochs")
"""Of fine-tuning without pretraining."""
LEARNED = ("model.positions=learned", "model.max_positions=128")


def by_characters(*changes: str) -> Variant:
    return Variant((*CHARACTERS, *changes), ("data.context=128",))


VARIANTS = {
    "rotary": Variant(seeds=(1, 2, 3)),
    "learned": Variant(LEARNED, seeds=(1, 2, 3)),
    "adamw": Variant(("training.optimizer=adamw",)),
    "random spans": Variant(("data.salient=0",)),
    "no questions in pretraining": Variant((f'data.train=["{WIKI}"]', "training.epochs=55")),  # as many positions
    "batches of 512": Variant(("training.batch_sentences=512",)),
    "no moving average": Variant(("training.ema_decay=0",)),
    "dropout 0.1": Variant(("model.dropout=0.1",)),
    "without pretraining": Variant(None, ALONE, (1, 2, 3)),
    "characters": replace(by_characters(), seeds=(1, 2, 3)),
    "characters, learned": replace(by_characters(*LEARNED), seeds=(1, 2, 3)),
    "characters, adamw": by_characters("training.optimizer=adamw"),
    "characters, random spans": by_characters("data.salient=0"),
    "characters, no questions in pretraining": by_characters(f'data.train=["{WIKI}"]', "training.epochs=182"),
    "characters, batches of 512": by_characters("training.batch_sentences=512"),
    "characters, no moving average": by_characters("training.ema_decay=0"),
    "characters, dropout 0.1": by_characters("model.dropout=0.1"),
    "characters, without pretraining": Variant(None, (*CHARACTERS, *ALONE), (1, 2, 3)),
    "course": by_characters(*COURSE),
}


def main() -> None:
    options = parse_options()
    if options.job:
        name, seed = options.job
        run_job(name, seed, options)
    elif not options.table:
        failed = run_missing(options)
        print(table(read_lines(options.results)))
        sys.exit(1 if failed else 0)
    else:
        print(table(read_lines(options.results)))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.birthplace", description="What a small model knows.")
    parser.add_argument("--data", type=Path, default=os.environ.get("WEFT_DATA"), help="folder of cs224n-birthplace")
    parser.add_argument("--only", nargs="+", metavar="VARIANT", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--seeds", type=int, nargs="+", help="left out: those of each variant")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time after which jobs are stopped")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "birthplace", help="folder of the run folders")
    parser.add_argument("--results", type=Path, default=LINES, help="the file that gets a line a job")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a change of both recipes")
    parser.add_argument("--table", action="store_true", help="run nothing, print the table")
    parser.add_argument("--job", nargs=2, metavar=("VARIANT", "SEED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.data is None and not options.table:
        parser.error("say where cs224n-birthplace lies: --data DIR, or WEFT_DATA in the environment")
    return options


def run_missing(options: argparse.Namespace) -> int:
    """Run the jobs that have no line yet, in the order of VARIANTS; returns how many have failed."""
    end = time.monotonic() + options.seconds
    done = {(line["variant"], line["seed"]) for line in read_lines(options.results)}
    if options.set and options.results == LINES:
        raise SystemExit("--set changes the recipes: name another file of lines with --results")
    wanted = [(name, seed) for name in VARIANTS for seed in options.seeds or VARIANTS[name].seeds]
    missing = [job for job in wanted if job[0] in options.only and job not in done]
    threads = max(1, len(os.sched_getaffinity(0)) // options.jobs)
    settings = environment(threads, options.data) | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    settings["PYTHONPATH"] += os.pathsep + os.environ.get("PYTHONPATH", "")
    changes = [f"--set={change}" for change in options.set]

    def run(name: str, seed: int) -> bool:
        left = end - time.monotonic()
        if left < 0:
            say(f"{name}, seed {seed}: no time is left")
            return False
        command = [sys.executable, "-m", "bench.birthplace", "--job", name, str(seed), "--runs", str(options.runs)]
        command += ["--results", str(options.results), *changes]
        try:
            timeout = None if left == float("inf") else left
            subprocess.run(command, env=settings, cwd=ROOT, timeout=timeout, check=True, stdout=subprocess.DEVNULL)
        except subprocess.SubprocessError as error:  # the others go on
            say(f"{name}, seed {seed}: {error}")
            return False
        return True

    with ThreadPoolExecutor(options.jobs) as pool:
        succeeded = list(pool.map(lambda job: run(*job), missing))
    vote(options)
    return succeeded.count(False)


def run_job(name: str, seed: str, options: argparse.Namespace) -> None:
    """Run both phases of a job, or what is left of them, and append its line."""
    variant, began, seconds = VARIANTS[name], time.monotonic(), dict[str, float]()
    folder, common = folder_of(options.runs, name, seed), [f"seed={seed}", *options.set]
    if variant.pretrain is None:
        tuned = train(PRETRAIN, run=folder / "finetune", overrides=[*fresh(), *variant.finetune, *common])
    else:
        pretrained = train(PRETRAIN, run=folder / "pretrain", overrides=[*variant.pretrain, *common])
        seconds["pretrain"] = time.monotonic() - began
        changes = [f"training.init={pretrained}", *variant.finetune, *common]
        tuned = train(FINETUNE, run=folder / "finetune", overrides=changes)
    valid = read_questions([HELD_OUT], options.data)
    answers = load(tuned).answer(valid.questions)
    (folder / "answers.json").write_text(json.dumps(answers, ensure_ascii=False), encoding="utf-8")
    seconds["all"] = time.monotonic() - began
    scores = score_answers(answers, valid.answers)
    line = {
        "variant": name,
        "seed": int(seed),
        **scores.values(),
        "pretrained": last(folder / "pretrain", "valid_exact_match"),
        "losses": {phase: last(folder / phase, "loss") for phase in ("pretrain", "finetune")},
        "seconds": {phase: round(spent, 1) for phase, spent in seconds.items()},
        "changes": options.set,
        **circumstances(),
    }
    append_line(options.results, line)
    say(f"{name}, seed {seed}: {100 * line['exact_match']:.1f} % in {seconds['all']:,.0f} s")


def folder_of(runs: Path, name: str, seed: str | int) -> Path:
    return runs / f"{name.replace(', ', '-').replace(' ', '-')}-{seed}"


def fresh() -> list[str]:
    """The changes that turn the recipe of pretraining into that of fine-tuning, but for the weights to begin with."""
    recipe = tomllib.loads(FINETUNE.read_text(encoding="utf-8"))
    return [
        f"{table}.{key}={json.dumps(value)}"
        for table in ("data", "training")
        for key, value in recipe[table].items()
        if key != "init"
    ]


def last(run: Path, key: str) -> float | None:
    """The value that a run has logged last."""
    rows = [row for row in read_lines(run / "metrics.jsonl") if key in row]
    return rows[-1][key] if rows else None


def vote(options: argparse.Namespace) -> None:
    """A line for each variant with several seeds: the answer that most of them give, of the first where none leads."""
    references = read_questions([HELD_OUT], options.data).answers
    for name in options.only:
        files = [folder_of(options.runs, name, seed) / "answers.json" for seed in VARIANTS[name].seeds]
        if len(files) < 2 or not all(file.exists() for file in files):
            continue
        answers = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        elected = [Counter(given).most_common(1)[0][0] for given in zip(*answers, strict=True)]
        scores = score_answers(elected, references).values()
        append_line(options.results, {"variant": name, "seed": None, "votes": len(files), **scores, **circumstances()})


def table(lines: Sequence[Line]) -> str:
    """Mean and spread of the exact match of every variant, in percent: after fine-tuning, of the vote of its seeds, and
    of those seeds of which it was kept at the end of pretraining."""
    rows = []
    for name in dict.fromkeys(line["variant"] for line in lines):
        of_variant = {line["seed"]: line for line in lines if line["variant"] == name}
        elected = of_variant.pop(None, None)
        several = of_variant.values()
        before = [line["pretrained"] for line in several if line.get("pretrained") is not None]
        losses = [loss for line in several if (loss := line["losses"]["pretrain"]) is not None]
        cells = [in_percent(before), in_percent([line["exact_match"] for line in several])]
        cells += [in_percent([elected["exact_match"]] if elected else []), str(len(several))]
        cells.append(f"{statistics.mean(losses):.3f}" if losses else "")
        cells.append(f"{statistics.mean(line['seconds']['all'] for line in several):,.0f}")
        rows.append([name, *cells])
    header = ["variant", "pretrained, %", "fine-tuned, %", "vote, %", "seeds", "last loss of pretraining", "seconds"]
    return markdown_table(header, rows)


def in_percent(shares: Sequence[float]) -> str:
    """The mean, and of several the least and the most."""
    if not shares:
        return ""
    mean = f"{100 * statistics.mean(shares):.1f}"
    return mean if len(shares) == 1 else f"{mean} [{100 * min(shares):.1f}, {100 * max(shares):.1f}]"


if __name__ == "__main__":
    main()
