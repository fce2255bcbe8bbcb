"""How long a shipped model takes to load and to translate from a cold start: `make bench-cold`, or
`python -m bench.cold`.

A new process each time, in turn with one that does nothing but import torch, the largest part of all of them. Each is
timed with the files in memory, as after any first call, and, where this process may empty the machine's page cache
(Linux, root), with all of them on disk. Each way is a line of bench/results/cold.jsonl; `--docs` puts the table into
docs/*/model-folder.md.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from bench.machine import RESULTS, Line, append_line, markdown_table, new_session, say, spread
from bench.options import parser_of, run_benchmark

LINES = RESULTS / "cold.jsonl"
ROUNDS = 7
PAGE_CACHE = Path("/proc/sys/vm/drop_caches")
WAYS = {
    "import torch": ("-c", "import torch"),
    'weft.load("zh-en")': ("-c", 'import weft; weft.load("zh-en")'),
    "weft translate --model zh-en": ("-m", "weft", "translate", "--model", "zh-en", "谢谢。"),
}


def main() -> None:
    parser = parser_of("cold", "A shipped model from a cold start.", data=False)
    run_benchmark(parser, measure, LINES, table, "model-folder.md")


def measure(options: argparse.Namespace) -> None:
    session = {**new_session(), "rounds": ROUNDS}
    for is_cached in (True, False) if os.access(PAGE_CACHE, os.W_OK) else (True,):
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(ROUNDS):
            for way, arguments in WAYS.items():
                seconds[way].append(seconds_of(arguments, is_cached=is_cached))
        for way, times in seconds.items():
            append_line(LINES, {**session, "way": way, "files": "in memory" if is_cached else "on disk", "s": times})
            say(f"{way}, files {'in memory' if is_cached else 'on disk'}: {spread(times, '.2f')} s")


def seconds_of(arguments: tuple[str, ...], *, is_cached: bool) -> float:
    """From the start of a process to its end."""
    if not is_cached:
        os.sync()
        PAGE_CACHE.write_text("3")
    begin = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return round(time.perf_counter() - begin, 3)


HEADERS = {
    "en": ["from the start of a process to its end", "files in memory, s", "files on disk, s"],
    "zh": ["从进程启动到结束", "文件在内存中（秒）", "文件在磁盘上（秒）"],
}
CAPTIONS = {
    "en": "Median of {rounds} processes each, in turn; in brackets the least and the most. {cores} cores, {processor}, "
    "torch {torch}, weft {commit}, {date}; `python -m bench.cold`.",
    "zh": "各 {rounds} 个进程轮流运行的中位数，方括号内是最小值和最大值。{cores} 核，{processor}，torch {torch}，"
    "weft {commit}，{date}；`python -m bench.cold`。",
}


def table(session: list[Line], language: str) -> str:
    times = {(line["way"], line["files"]): spread(line["s"], ".2f") for line in session}
    rows = [[f"`{way}`", *(times.get((way, files), "–") for files in ("in memory", "on disk"))] for way in WAYS]
    return f"{markdown_table(HEADERS[language], rows)}\n\n{CAPTIONS[language].format(**session[0])}"


if __name__ == "__main__":
    main()
