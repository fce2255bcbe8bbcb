"""Whether a large corpus takes more memory than a small one: `make bench-large`, or `python -m bench.large`.

Corpora of 500,000 and 5,000,000 pairs are made by rule from zh-en-50k/train.tsv: its pairs again and again, from the
second time on with a number behind both sides, so that no two are the same and the length of a sentence stays what it
is. `weft prepare` cleans and cuts them with all cores, and `weft train` takes some steps on them by the same recipe, as
a user would run them. Every fifth of a second the anonymous memory (RssAnon: not the pages of mapped files) of all
their processes is added up; a figure is the highest sum. Each command on each corpus is a line of
bench/results/large.jsonl; `--docs` puts the table of the last session into docs/*/benchmarks.md.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from itertools import count, islice
from pathlib import Path

from bench.machine import RESULTS, Line, append_line, markdown_table, new_session, say
from bench.options import parser_of, run_benchmark
from bench.pairs import read_pairs

LINES = RESULTS / "large.jsonl"
SIZES = (500_000, 5_000_000)
STEPS, HELD_OUT = 100, 200
INTERVAL = 0.2

RECIPE = f"""\
[data]
source = "zh"
target = "en"
train = ["train.tsv"]
valid = ["valid.tsv"]

[cleaning]

[tokenizer]
source_size = 8000
target_size = 8000

[model]
model_dim = 256
num_heads = 4
encoder_layers = 4
decoder_layers = 4
ff_dim = 1024

[training]
batch_tokens = 4096
optimizer = "adamw"
learning_rate = 1e-3
steps = {STEPS}

[decoding]
max_length_ratio = 1.0  # so little trained, it would write until it is stopped
max_length_extra = 2
"""


def main() -> None:
    parser = parser_of("large", "Memory and speed on large corpora.")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="pairs of the corpora")
    run_benchmark(parser, measure, LINES, table, "benchmarks.md")


def measure(options: argparse.Namespace) -> None:
    session, corpus = new_session(), options.data / "zh-en-50k"
    *held_out, _ = (corpus / "valid.tsv").read_text(encoding="utf-8").split("\n", 1 + HELD_OUT)
    for pairs in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            write_corpus(corpus / "train.tsv", pairs, work / "train.tsv")
            (work / "valid.tsv").write_text("".join(f"{row}\n" for row in held_out), encoding="utf-8")
            (work / "large.toml").write_text(RECIPE, encoding="utf-8")
            for command in ("prepare", "train"):
                seconds, peak = watched(
                    [command, str(work / "large.toml"), "--data", folder, "--run", str(work / "run")]
                )
                figures: Line = {
                    "command": command,
                    "pairs": pairs,
                    "seconds": round(seconds, 1),
                    "peak_anonymous_mib": round(peak / 2**20, 1),
                    "cores": len(os.sched_getaffinity(0)),
                }
                say(f"{command}, {pairs:,} pairs: {seconds:,.0f} s, at most {peak / 2**20:,.0f} MiB")
                append_line(LINES, {**session, **figures})


def write_corpus(source: Path, pairs: int, path: Path) -> None:
    rows = read_pairs(source)
    numbered = (f"{zh}{turn or ''}\t{en}{f' {turn}' if turn else ''}\n" for turn in count() for zh, en in rows)
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write("zh\ten\n")
        file.writelines(islice(numbered, pairs))


def watched(arguments: list[str]) -> tuple[float, int]:
    """Seconds of a weft command, and the most anonymous memory that all of its processes had together, in bytes."""
    begin, peak = time.monotonic(), 0
    process = subprocess.Popen([sys.executable, "-m", "weft", *arguments], stdout=subprocess.DEVNULL)
    while process.poll() is None:
        peak = max(peak, sum(map(anonymous_bytes, family(process.pid))))
        time.sleep(INTERVAL)
    if process.returncode:
        raise SystemExit(f"weft {' '.join(arguments)} ended with {process.returncode}")
    return time.monotonic() - begin, peak


def family(process: int) -> list[int]:
    """The process and all that it has started."""
    found = [process]
    for parent in found:
        for path in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += [int(child) for child in path.read_text().split()]
            except OSError:  # it has just ended
                continue
    return found


def anonymous_bytes(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:"))


HEADERS = {
    "en": ["command", "pairs", "most anonymous memory", "beside the smallest corpus", "seconds", "pairs a second"],
    "zh": ["命令", "句对数", "匿名内存峰值", "与最小的语料相比", "秒", "每秒句对数"],
}
CAPTIONS = {
    "en": "{cores} cores, {processor}, torch {torch}, weft {commit}, {date}.",
    "zh": "{cores} 核，{processor}，torch {torch}，weft {commit}，{date}。",
}


def table(session: list[Line], language: str) -> str:
    by_size = sorted(session, key=lambda line: -line["pairs"])
    smallest = {line["command"]: line["peak_anonymous_mib"] for line in by_size}
    rows = [
        [
            f"`weft {line['command']}`",
            f"{line['pairs']:,}",
            f"{line['peak_anonymous_mib']:,.0f} MiB",
            f"{line['peak_anonymous_mib'] / smallest[line['command']]:.2f}",
            f"{line['seconds']:,.0f}",
            f"{line['pairs'] / line['seconds']:,.0f}" if line["command"] == "prepare" else "–",
        ]
        for line in session
    ]
    return f"{markdown_table(HEADERS[language], rows)}\n\n{CAPTIONS[language].format(**session[0])}"


if __name__ == "__main__":
    main()
