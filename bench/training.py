"""How fast weft trains beside eole and JoeyNMT: `make bench-training`, or `python -m bench.training --peers DIR`.

Every system trains the same model on the same pieces of zh-en-50k, in a process of its own, with as many threads, in
turn with the others, round after round. After a warm-up the target tokens that it really trains on in a fixed time are
counted (peers/meter.py). A figure is the median over the rounds with the least and the most beside it; a ratio is taken
within each round first. Beside them, in every round: the fastest product of two large matrices that torch manages here,
and the share of it that weft turns into training. With `--ahead N` so many more processes start and warm up while one
counts, and wait for their turn: for a GPU that is there for minutes, with many cores beside it. `--model recurrent`
compares an LSTM with attention and input feeding with JoeyNMT's of the same size, which trains on its own batches and
on batches like weft's; eole has none.

Each measurement is a line of bench/results/training.jsonl; `--table` prints the last one's table for each kind of
machine from there, and `--docs` also puts them into docs/*/benchmarks.md.
"""

import argparse
import fcntl
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bench.machine import (
    LANGUAGES,
    RESULTS,
    SEPARATORS,
    Line,
    append_line,
    environment,
    fill_page,
    last_session,
    markdown_table,
    name_of_machine,
    new_session,
    peak_gflops,
    read_lines,
    say,
    spread,
)
from bench.options import options_of, parser_of
from bench.peers.prepare import prepare

from weft.cli.start import with_whole_heap
from weft.data.store import Store
from weft.folders.model_folder import TranslationModel
from weft.models.cost import PRODUCTS_IN_AN_UPDATE
from weft.runs.train import Silent
from weft.runtime import PRECISIONS, choose_device, has_native_bf16
from weft.tasks.translation import training_batches

LINES = RESULTS / "training.jsonl"
PEERS = Path(__file__).with_name("peers")

TURN = "turn"
"""The file that a process locks while it counts."""

SYSTEMS = ("weft", "eole", "joeynmt")
MODELS = {"transformer": SYSTEMS, "recurrent": ("weft", "joeynmt")}
"""Model -> the systems that have it."""

System = tuple[str, str]  # name, precision


def main() -> None:
    options = parse_options()
    if not options.table:
        measure(options)
    sessions = last_sessions(read_lines(LINES))
    tables = {language: "\n\n".join(table(one, language) for one in sessions) for language in LANGUAGES}
    print(tables["en"])
    if options.docs:
        fill_page("benchmarks.md", "training", tables)


def last_sessions(lines: list[Line]) -> list[list[Line]]:
    """Of each model the last ones on a CPU with bf16 units and on one without, and that on each kind of GPU."""
    by_device: dict[tuple[str, str, str], list[Line]] = {}
    for line in sorted(lines, key=lambda line: line["device"] != "cpu"):
        by_device.setdefault((model_of(line), line["device"], line["native bf16"]), []).append(line)
    if not by_device:
        raise SystemExit("no measurement yet")
    return [
        last_session(of_device)
        for _, of_device in sorted(by_device.items(), key=lambda item: item[0][0] != "transformer")
    ]


def model_of(line: Line) -> str:
    """The model of a line; older lines do not name it."""
    return line.get("model", "transformer")


def parse_options() -> argparse.Namespace:
    parser = parser_of("training", "Training speed beside the peers.")
    parser.add_argument("--peers", type=Path, default=Path(".peers"), help="where bench/peers/install put the others")
    parser.add_argument("--model", default="transformer", choices=MODELS)
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=SYSTEMS, help="left out: all of them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60, help="measured in each round, of each system")
    parser.add_argument("--warmup", type=float, default=60, help="seconds of training before that")
    parser.add_argument("--ahead", type=int, default=0, help="processes that warm up while another one counts")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    return options_of(parser)


def choose_systems() -> list[System]:
    """Each system in fp32 and in the fastest precision that it supports on this device, weft before its peers."""
    device = choose_device()
    low: list[System] = [("weft", "bf16"), ("eole", "bf16")] if has_native_bf16(device) else []
    if device.type == "cuda":
        low.append(("joeynmt", "fp16"))
    return [*low, ("weft", "fp32"), ("eole", "fp32"), ("joeynmt", "fp32")]


def measure(options: argparse.Namespace) -> None:
    """All rounds of one session, each figure written as soon as it is there."""
    has_it = MODELS[options.model]
    systems = [system for system in choose_systems() if system[0] in options.systems and system[0] in has_it]
    if options.model == "recurrent" and "joeynmt" in options.systems:
        systems.append(("joeynmt", "fp32, by length"))
    session = {"model": options.model, **new_session()}
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        say("cutting zh-en-50k into pieces")
        work_a_token = multiply_adds_a_target_token(*prepare(options.data, work, recipe_of("weft", options.model)))
        tasks: list[Callable[[], Line]] = []
        for number in range(1, options.rounds + 1):
            for precision in dict.fromkeys(precision for _, precision in systems if precision in PRECISIONS):
                tasks.append(partial(measure_peak, number, precision, work, options))
            for system, precision in systems:
                tasks.append(partial(measure_system, number, system, precision, work, options))
        with ThreadPoolExecutor(1 + options.ahead) as pool:
            for line in pool.map(lambda task: task(), tasks):
                # The session's facts describe weft's environment; a peer's torch is told by the peer.
                append_line(LINES, {**session, **line, "multiply_adds_a_target_token": work_a_token})


def measure_peak(number: int, precision: str, work: Path, options: argparse.Namespace) -> Line:
    with open(work / TURN, "a", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        gflops = round(peak_gflops(PRECISIONS[precision], options.threads), 1)
    say(f"round {number}: product of two matrices, {precision}: {gflops:,.0f} GFLOP/s")
    return {"round": number, "peak": precision, "gflops": gflops}


def measure_system(number: int, system: str, precision: str, work: Path, options: argparse.Namespace) -> Line:
    is_weft = system == "weft"
    figures = train_for_a_while(
        system,
        Path(sys.executable) if is_weft else options.peers.absolute() / system / "bin" / "python",
        recipe_of(system, options.model),
        precision=precision,
        warmup=options.warmup,
        seconds=options.seconds,
        threads=options.threads,
        data=options.data,
        work=work,
    )
    say(f"round {number}: {system} {precision}: {figures['target_tokens_per_second']:,.0f} tokens a second")
    return {"round": number, "system": system, "precision": precision, "warmup": options.warmup, **figures}


def recipe_of(system: str, model: str) -> Path:
    which = "" if model == "transformer" else f"-{model}"
    return PEERS / f"{system}{which}.{'toml' if system == 'weft' else 'yaml'}"


def multiply_adds_a_target_token(model: TranslationModel, pairs: Store) -> int:
    """What an update takes for each target token of these pairs, by weft's own count (models/cost.py)."""
    batches = training_batches(model, pairs, Silent())
    sources, targets = batches.columns[0].lengths, batches.columns[1].lengths - 1  # <s> is not predicted
    counted = model.recipe.model.multiply_adds(model.vocabularies["target"].vocab_size, sources, targets)
    assert counted is not None  # they are of every kind that is compared here
    forward = sum(counted.values())
    return round(PRODUCTS_IN_AN_UPDATE * forward / int(targets.sum()))


def train_for_a_while(
    system: str,
    python: Path,
    recipe: Path,
    *,
    precision: str = "auto",
    warmup: float,
    seconds: float,
    threads: int,
    data: Path,
    work: Path,
    overrides: Sequence[str] = (),
) -> Line:
    """What peers/meter.py counted in a process of its own; overrides are for weft alone.

    `work` has the files that the others' recipes name; of all processes of the same one, one counts at a time.
    """
    world = {**environment(threads, data), "METER_TURN": str((work / TURN).absolute())}
    if system == "weft":
        world = with_whole_heap(world) or world  # as the `weft` command does
    with tempfile.TemporaryDirectory(dir=work) as temporary:
        output = Path(temporary) / "figures.json"
        if (work / system).exists():
            shutil.copytree(work / system, output.with_name(system))  # it writes between its files
        words = [python, PEERS / f"drive_{system}.py", recipe, precision, warmup, seconds, output, *overrides]
        with open(output.with_name("log"), "w+", encoding="utf-8") as log:
            subprocess.run(
                [str(word) for word in words],
                cwd=temporary,
                env=world,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            if not output.exists():
                log.seek(0)
                raise SystemExit(f"{system} ended without a figure; the end of what it said:\n{log.read()[-3000:]}")
        return json.loads(output.read_text(encoding="utf-8"))


HEADERS = {
    "en": [
        "system",
        "precision",
        "target tokens a second",
        "a step",
        "weft bf16 / it",
        "weft fp32 / it",
        "share of the peak",
    ],
    "zh": ["系统", "精度", "目标词元数/秒", "每步", "weft bf16 / 该系统", "weft fp32 / 该系统", "占峰值比例"],
}
CAPTIONS = {
    "en": "{rounds}{threads} threads, {machine}, torch {torch}, weft {commit}, {date}. Peak: {peaks}.{others}",
    "zh": "{rounds}{threads} 线程，{machine}，torch {torch}，weft {commit}，{date}。峰值：{peaks}。{others}",
}
ROUNDS = {
    "en": "Median over {rounds} rounds of {seconds:.0f} s, in brackets the least and the most. ",
    "zh": "{rounds} 轮、每轮 {seconds:.0f} 秒的中位数，方括号内是最小值和最大值。",
}
ONE_ROUND = {"en": "One round of {seconds:.0f} s. ", "zh": "一轮，{seconds:.0f} 秒。"}
RECURRENT = {
    "en": "An LSTM with attention and input feeding instead of the Transformer. ",
    "zh": "带注意力和输入馈送的 LSTM，而不是 Transformer。",
}
OTHERS = {
    "en": " Other programs took at most {share:.0%} of the processor.",
    "zh": "其他程序最多占用处理器的 {share:.0%}。",
}


def table(session: list[Line], language: str) -> str:
    """The session as a Markdown table with what has to be known about it below."""
    speeds, peaks = by_round(session, "target_tokens_per_second"), by_round(session, "gflops")
    rows = []
    for (system, precision), rounds in speeds.items():
        ratios = [
            spread([speeds["weft", ours][r] / rounds[r] for r in rounds if r in speeds["weft", ours]], ".2f")
            if ("weft", ours) in speeds
            else "–"
            for ours in ("bf16", "fp32")
        ]
        share = "–"
        if system == "weft":
            work = next(line["multiply_adds_a_target_token"] for line in session if "system" in line)
            gflops = {r: 2 * work * rounds[r] / 1e9 for r in rounds}
            share = spread([gflops[r] / peaks["peak", precision][r] for r in rounds], ".0%")
        mine = [line for line in session if (line.get("system"), line.get("precision")) == (system, precision)]
        steps = [line["target_tokens"] / line["steps"] for line in mine if line.get("steps")]
        a_step = f"{statistics.median(steps):,.0f}" if steps else "–"
        rows.append([system, precision, spread(list(rounds.values()), ",.0f"), a_step, *ratios, share])
    trained = [line for line in session if "system" in line]
    others = [line["others_cpu"] for line in trained if line["others_cpu"] is not None]
    rounds = max(line["round"] for line in trained)
    what = RECURRENT[language] if model_of(session[0]) == "recurrent" else ""
    how_long = (ONE_ROUND if rounds == 1 else ROUNDS)[language]
    caption = CAPTIONS[language].format(
        **{key: trained[0][key] for key in ("threads", "commit", "date")},
        machine=name_of_machine(trained[0]),
        torch=SEPARATORS[language].join(sorted({line["torch"] for line in trained})),
        rounds=how_long.format(rounds=rounds, seconds=trained[0]["seconds"]),
        peaks=SEPARATORS[language].join(
            f"{p} {statistics.median(by.values()):,.0f} GFLOP/s" for (_, p), by in peaks.items()
        ),
        others=OTHERS[language].format(share=max(others)) if others else "",
    )
    return f"{markdown_table(HEADERS[language], rows, text_columns=2)}\n\n{what}{caption}"


def by_round(session: list[Line], figure: str) -> dict[System, dict[int, float]]:
    """(system, precision) -> round -> this figure; of a peak the system is called "peak"."""
    found: dict[System, dict[int, float]] = {}
    for line in session:
        if figure in line:
            key = (line["system"], line["precision"]) if "system" in line else ("peak", line["peak"])
            found.setdefault(key, {})[line["round"]] = line[figure]
    return found


if __name__ == "__main__":
    main()
