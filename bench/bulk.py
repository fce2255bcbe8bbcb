"""Whether a file of any size is translated in the same memory, and survives being killed: `make bench-bulk`.

A file of 200 MB is made from zh-en-50k/valid: 1,999 of its sources again and again. `weft translate` works on it
greedily for --minutes; meanwhile the process is killed with SIGKILL at random moments and begun again by the same
command. What has been written then is held against the translations of the 1,999 by themselves: a line that was lost,
doubled or moved would shift all that follow. The anonymous memory (RssAnon) of the processes is read every second. One
line of bench/results/bulk.jsonl; `--docs` puts it into docs/*/translating.md.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

from bench.large import anonymous_bytes, family
from bench.machine import RESULTS, Line, append_line, circumstances, fill_page, read_lines, say
from bench.options import options_of, parser_of
from bench.pairs import read_pairs

LINES = RESULTS / "bulk.jsonl"
DISTINCT = 1999
"""A prime, so that no block of lines that the program works on begins twice at the same sentence soon."""


def main() -> None:
    options = parse_options()
    if not options.table:
        append_line(LINES, {**circumstances(), **measure(options)})
    line = read_lines(LINES)[-1]
    texts = {language: TEXTS[language].format(**line) for language in TEXTS}
    print(texts["en"])
    if options.docs:
        fill_page("translating.md", "bulk", texts)


def parse_options() -> argparse.Namespace:
    parser = parser_of("bulk", "A large file, killed again and again.", model=True)
    parser.add_argument("--megabytes", type=int, default=200, help="of the file")
    parser.add_argument("--minutes", type=float, default=6, help="of work on it")
    parser.add_argument("--kills", type=int, default=5)
    return options_of(parser)


def measure(options: argparse.Namespace) -> Line:
    sources = [zh for zh, _ in read_pairs(options.data / "zh-en-50k" / "valid.tsv")[:DISTINCT]]
    with tempfile.TemporaryDirectory() as folder:
        few, many, output = (Path(folder) / name for name in ("few.zh", "many.zh", "many.en"))
        few.write_text("".join(f"{source}\n" for source in sources), encoding="utf-8")
        turns = options.megabytes * 10**6 // few.stat().st_size + 1
        many.write_text(few.read_text(encoding="utf-8") * turns, encoding="utf-8")
        subprocess.run(command(options.model, few, few.with_suffix(".en")), check=True, stderr=subprocess.DEVNULL)
        expected = few.with_suffix(".en").read_text(encoding="utf-8").split("\n")[:-1]

        memory = work(command(options.model, many, output), options.minutes * 60, options.kills)
        state = json.loads(output.with_name(f"{output.name}.partial.json").read_text(encoding="utf-8"))["state"]
        written = output.with_name(f".{output.name}.partial.unfinished").read_text(encoding="utf-8").split("\n")
        found = written[: state["lines"]]
        if len(found) != state["lines"]:
            raise SystemExit(f"{state['lines']:,} lines are said to be done, {len(found):,} are there")
        differing = sum(ours != theirs for ours, theirs in zip(found, cycle(expected), strict=False))
        figures: Line = {
            "model": options.model.name,
            "megabytes": round(many.stat().st_size / 1e6),
            "minutes": options.minutes,
            "kills": options.kills,
            "lines": state["lines"],
            "differing": differing,
            "megabytes_read": round(state["bytes"] / 1e6, 1),
            **memory,
        }
        say(json.dumps(figures))
        if differing > len(found) / 1000:
            places = [n for n, (a, b) in enumerate(zip(found, cycle(expected), strict=False)) if a != b]
            raise SystemExit(f"{differing:,} lines differ, the first of them {list(islice(places, 9))}")
        return figures


def command(model: Path, source: Path, output: Path) -> list[str]:
    words = ["translate", "--model", str(model), "--set", "decoding.method=greedy"]
    return [sys.executable, "-m", "weft", *words, "--input", str(source), "--output", str(output)]


def work(words: list[str], seconds: float, kills: int) -> Line:
    """Let the command work for so long in all, killed so often; what its processes held, second by second."""
    moments = random.Random(1)
    shares = [moments.uniform(0.5, 1.5) for _ in range(kills + 1)]
    held: list[list[float]] = []
    for share in shares:
        end = time.monotonic() + seconds * share / sum(shares)
        process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        of_life: list[float] = []
        while time.monotonic() < end:
            time.sleep(1)
            if process.poll() is not None:
                raise SystemExit(f"the command ended with {process.returncode} before it was killed")
            of_life.append(sum(map(anonymous_bytes, family(process.pid))) / 2**20)
        process.kill()
        process.wait()
        held.append(of_life)
        say(f"killed after {len(of_life)} s; at most {max(of_life):,.0f} MiB")
    longest = max(held, key=len)
    third = len(longest) // 3
    return {
        "most_mib": round(max(map(max, held))),
        "middle_third_mib": round(statistics.mean(longest[third : 2 * third])),
        "last_third_mib": round(statistics.mean(longest[2 * third :])),
    }


TEXTS = {
    "en": "Of a file of {megabytes} MB, `weft translate` by `{model}` did {lines:,} lines ({megabytes_read} MB) "
    "greedily in {minutes:.0f} minutes, killed {kills} times by SIGKILL and begun again. {differing} lines differ from "
    "the translation of the same sentences by themselves. The most anonymous memory was {most_mib:,} MiB; in the "
    "longest stretch it was {middle_third_mib:,} MiB on average in the middle third and {last_third_mib:,} in the last."
    " {processor}, weft {commit}, {date}; `make bench-bulk`.",
    "zh": "对一个 {megabytes} MB 的文件，`weft translate` 用 `{model}` 在 {minutes:.0f} 分钟内贪心翻译了 {lines:,} 行"
    "（{megabytes_read} MB），其间被 SIGKILL 终止 {kills} 次并重新启动。与单独翻译同样句子的结果相比，有 {differing} "
    "行不同。匿名内存峰值为 {most_mib:,} MiB；最长的一段中，中间三分之一平均 {middle_third_mib:,} MiB，"
    "最后三分之一平均 {last_third_mib:,} MiB。{processor}，weft {commit}，{date}；`make bench-bulk`。",
}


if __name__ == "__main__":
    main()
