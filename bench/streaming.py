"""How soon the first words of a translation are there: `make bench-streaming`, or `python -m bench.streaming`.

100 sentences of zh-en-50k/valid, one at a time: the time to the first part of `Translator.stream`, to its last, and the
time that `translate` takes, in turn. The figures are medians over the sentences. Each way is a line of
bench/results/streaming.jsonl; `--docs` puts the table into docs/*/decoding.md.
"""

import argparse
import statistics
import time
from typing import Any

from bench.machine import RESULTS, Line, append_line, markdown_table, new_session, say
from bench.options import VALID, parser_of, run_benchmark

from weft.data.corpus import read_corpora
from weft.translating.loading import load_translator
from weft.translating.translator import Translator

LINES = RESULTS / "streaming.jsonl"
SENTENCES = 100
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"method": "greedy"},
    "beam of 3": {"method": "beam", "beam_size": 3},
    "beam of 5": {"method": "beam", "beam_size": 5},
}


def main() -> None:
    parser = parser_of("streaming", "The first words of a translation.", model=True)
    run_benchmark(parser, measure, LINES, table, "decoding.md")


def measure(options: argparse.Namespace) -> None:
    translator = load_translator(options.model)
    settings = translator.model.recipe.data
    texts = read_corpora(VALID, settings, options.data).sources[:SENTENCES]
    session = {**new_session(), "model": options.model.name}
    for way, decoding in WAYS.items():
        translator.translate(texts[:10], **decoding)  # what is prepared once
        line = timed(translator, texts, decoding)
        append_line(LINES, {**session, "way": way, **line, "sentences": SENTENCES})
        say(f"{way}: first part after {line['first']:.1f} ms, all after {line['whole']:.1f} ms")


def timed(translator: Translator, texts: list[str], decoding: dict[str, Any]) -> Line:
    """Medians in milliseconds, and how many parts a translation has on average."""
    first, whole, at_once, parts = [], [], [], []
    for text in texts:
        begin = time.perf_counter()
        came = [time.perf_counter() - begin for _ in translator.stream(text, **decoding)]
        whole.append(time.perf_counter() - begin)
        first.append(came[0] if came else whole[-1])
        parts.append(len(came))
        begin = time.perf_counter()
        translator.translate([text], **decoding)
        at_once.append(time.perf_counter() - begin)
    medians = {
        name: 1e3 * statistics.median(times) for name, times in zip(MEASURED, (first, whole, at_once), strict=True)
    }
    return {**medians, "parts": statistics.mean(parts)}


MEASURED = ("first", "whole", "at_once")
HEADERS = {
    "en": ["search", "first part, ms", "last part, ms", "`translate`, ms", "parts"],
    "zh": ["搜索", "第一段（毫秒）", "最后一段（毫秒）", "`translate`（毫秒）", "段数"],
}
NAMES = {"en": {way: way for way in WAYS}, "zh": {"greedy": "贪心", "beam of 3": "束宽 3", "beam of 5": "束宽 5"}}
CAPTIONS = {
    "en": "Medians over {sentences} sentences of zh-en-50k/valid, one at a time, by `{model}`. {processor}, {cores} "
    "cores, weft {commit}, {date}; `python -m bench.streaming`.",
    "zh": "zh-en-50k/valid 的 {sentences} 个句子，由 `{model}` 逐句翻译，取中位数。{processor}，{cores} 核，"
    "weft {commit}，{date}；`python -m bench.streaming`。",
}


def table(session: list[Line], language: str) -> str:
    rows = [
        [NAMES[language][line["way"]], *(f"{line[name]:.1f}" for name in MEASURED), f"{line['parts']:.1f}"]
        for line in session
    ]
    return f"{markdown_table(HEADERS[language], rows)}\n\n{CAPTIONS[language].format(**session[0])}"


if __name__ == "__main__":
    main()
