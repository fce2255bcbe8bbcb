"""How long a translation memory looks for similar sentences: `make bench-memory`, or `python -m bench.memory`.

The memory holds the training pairs of zh-en-50k and as many more, made of them by leaving a word out or doubling one,
until there are 100,000 different sentences. It is asked for the three most similar to each of 500 validation sentences.
Each direction is a line of bench/results/memory.jsonl; `--docs` puts the table into docs/*/translating.md.
"""

import argparse
import random
import statistics
import time

from bench.machine import RESULTS, Line, append_line, markdown_table, new_session, say
from bench.options import parser_of, run_benchmark
from bench.pairs import read_pairs

from weft.text.normalization import normalize
from weft.translating.memory import TranslationMemory

LINES = RESULTS / "memory.jsonl"
UNITS, ASKED = 100_000, 500
DIRECTIONS = (("zh", "en"), ("en", "zh"))


def main() -> None:
    run_benchmark(parser_of("memory", "Looking things up in a memory."), measure, LINES, table, "translating.md")


def measure(options: argparse.Namespace) -> None:
    session, folder = new_session(), options.data / "zh-en-50k"
    for languages in DIRECTIONS:
        pairs = read_pairs(folder / "train.tsv", languages)
        asked = [source for source, _ in read_pairs(folder / "valid.tsv", languages)][:ASKED]
        begin = time.perf_counter()
        memory = TranslationMemory(enlarged(pairs, languages[0]), languages, normalize)
        memory.similar(asked[0])  # makes the index
        built = time.perf_counter() - begin
        times, found = [], 0
        for text in asked:
            begin = time.perf_counter()
            found += bool(memory.similar(text))
            times.append(1e3 * (time.perf_counter() - begin))
        line = {"built": built, "median": statistics.median(times), "p99": sorted(times)[ASKED * 99 // 100]}
        append_line(LINES, {**session, "source": languages[0], "units": len(memory), "found": found, **line})
        say(f"{languages[0]}: {len(memory):,} sentences, {line['median']:.2f} ms a sentence")


def enlarged(pairs: list[tuple[str, str]], language: str) -> list[tuple[str, str]]:
    """With variants of them until UNITS sources are different."""
    draw = random.Random(1)
    units = dict(pairs)
    joined = "" if language == "zh" else " "
    while len(units) < UNITS:
        source, target = draw.choice(pairs)
        words = list(source) if language == "zh" else source.split()
        place = draw.randrange(len(words))
        words[place : place + 1] = draw.choice([[], words[place : place + 1] * 2])
        units.setdefault(joined.join(words), target)
    return list(units.items())


HEADERS = {
    "en": ["source", "sentences", "median, ms", "99 of 100 below, ms", "read and indexed, s"],
    "zh": ["源语言", "句数", "中位数（毫秒）", "百分之九十九不超过（毫秒）", "读入并建索引（秒）"],
}
CAPTIONS = {
    "en": "The three most similar sentences to each of 500 sentences of zh-en-50k/valid, from a similarity of 0.7 on. "
    "{processor}, weft {commit}, {date}; `python -m bench.memory`.",
    "zh": "为 zh-en-50k/valid 的 500 个句子各找三个最相似的句子，相似度从 0.7 起。{processor}，weft {commit}，{date}；"
    "`python -m bench.memory`。",
}


def table(session: list[Line], language: str) -> str:
    rows = [
        [line["source"], f"{line['units']:,}", f"{line['median']:.1f}", f"{line['p99']:.1f}", f"{line['built']:.1f}"]
        for line in session
    ]
    return f"{markdown_table(HEADERS[language], rows)}\n\n{CAPTIONS[language].format(**session[0])}"


if __name__ == "__main__":
    main()
