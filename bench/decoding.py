"""How fast weft translates beside other engines: `make bench-decoding`, or `python -m bench.decoding --model RUN`.

The sentences are the first 1,000 of zh-en-50k/valid; beam of 3 (penalty by length, `first-k`) and greedy, in batches,
and one sentence alone. Every system runs in a process of its own with as many threads, in turn with the others, round
after round; the process has translated other sentences before, so that what is made at first use is there, and keeps no
answer (peers/stopwatch.py). weft and CTranslate2 have the same weights, from text to text, and their sacreBLEU stands
beside their speed. The others have a model of the same size that knows nothing and write 12 tokens a sentence, JoeyNMT
for 200 of the sentences. A run of an LSTM is measured beside JoeyNMT's LSTM alone. A figure is the median over the
rounds with the least and the most beside it; a ratio is taken within each round first.

Each measurement is a line of bench/results/decoding.jsonl; `--table` prints the last session's tables from there, and
`--docs` also puts them into docs/*/benchmarks.md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.machine import (
    RESULTS,
    SEPARATORS,
    Line,
    append_line,
    environment,
    markdown_table,
    new_session,
    read_lines,
    say,
    show_last_session,
    spread,
)
from bench.options import VALID, options_of, parser_of
from bench.peers.prepare import write_lines
from bench.peers.untrained import untrained_models

from weft.data.corpus import read_corpora
from weft.export.folder import export_model
from weft.folders.export import Precision
from weft.folders.finding import find_model
from weft.folders.model_folder import TranslationModel, load_model
from weft.metrics.translation import sacre_bleu
from weft.runtime import choose_device, has_native_bf16

LINES = RESULTS / "decoding.jsonl"
PEERS = Path(__file__).with_name("peers")
SENTENCES = 1300
"""1,000 that are timed, and behind them those that a process translates first."""


@dataclass(frozen=True)
class System:
    """Something that translates, by a driver `translate_{name}.py`; `count` sentences are enough to time it."""

    name: str
    precision: str
    has_our_weights: bool = False
    count: int = 1000

    @property
    def key(self) -> tuple[str, str]:
        return self.name, self.precision


def systems() -> list[System]:
    low = ["bf16"] if has_native_bf16(choose_device()) else []
    return [
        *(System("weft", precision, True) for precision in [*low, "fp32"]),
        *(System("ctranslate2", precision, True) for precision in ("fp32", "fp32 x 2", "int8")),
        *(System("marian", precision) for precision in [*low, "fp32"]),
        System("eole", "fp32"),
        *(System("eole", precision) for precision in low),
        System("joeynmt", "fp32", count=200),
    ]


def main() -> None:
    options = parse_options()
    if not options.table:
        measure(options)
    is_recurrent = [line.get("model") == "recurrent" for line in read_lines(LINES)][-1:] == [True]
    name = "recurrent.md" if is_recurrent else "benchmarks.md"
    show_last_session(LINES, page, name, "decoding", docs=options.docs)


def parse_options() -> argparse.Namespace:
    parser = parser_of("decoding", "Speed of translation beside others.", model=True)
    parser.add_argument("--peers", type=Path, default=Path(".peers"), help="where bench/peers/install put the others")
    parser.add_argument("--systems", nargs="+", help="some of them by name; left out: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    return options_of(parser)


def measure(options: argparse.Namespace) -> None:
    """All rounds of one session, each figure written as soon as it is there."""
    options.model = find_model(options.model)
    model = load_model(options.model)
    kind = model.recipe.model.kind
    session = {"model": kind, **new_session()}
    chosen = [
        system
        for system in systems()
        if (options.systems is None or system.name in options.systems)
        and (kind == "transformer" or system.name in ("weft", "joeynmt"))
    ]
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        references = write_sentences(model, options.data, work / "sentences.jsonl")
        places = prepare_models(options, chosen, work, kind)
        for number in range(1, options.rounds + 1):
            for system in chosen:
                figures = translate_for_a_while(system, places, options, work)
                for beam in figures.pop("beams"):
                    texts = beam.pop("texts")
                    score = sacre_bleu(texts, [references[: len(texts)]], "en") if system.has_our_weights else None
                    told = {"sacrebleu": round(score.value, 2), "signature": score.signature} if score else {}
                    place = {"round": number, "system": system.name, "precision": system.precision}
                    append_line(LINES, {**session, **place, **figures, **beam, **told, "threads": options.threads})
                    say(
                        f"round {number}: {system.name} {system.precision}, beam {beam['beam']}: "
                        f"{beam['sentences_per_second']:,.0f} sentences, {beam['target_tokens_per_second']:,.0f} "
                        f"tokens a second, alone {beam['latency_ms']:.1f} ms"
                    )


def write_sentences(model: TranslationModel, data: Path, path: Path) -> list[str]:
    """The sentences as the drivers read them; returns their references."""
    settings = model.recipe.data
    pairs = read_corpora(VALID, settings, data)
    tokenizer = model.vocabularies["source"]
    lines = []
    for text in pairs.sources[:SENTENCES]:
        (ids,) = tokenizer.encode([text])
        spelled = {"text": text, "normalized": tokenizer.normalize(text), "pieces": tokenizer.pieces(text), "ids": ids}
        lines.append(json.dumps(spelled, ensure_ascii=False))
    write_lines(path, lines)
    return list(pairs.targets[:SENTENCES])


def prepare_models(
    options: argparse.Namespace, chosen: list[System], work: Path, kind: str
) -> dict[tuple[str, str], Path]:
    """Where each system finds its model."""
    places = {system.key: options.model for system in chosen}
    for system in chosen:
        if system.name == "ctranslate2":
            precision: Precision = "int8" if system.precision == "int8" else "fp32"
            folder = work / f"ctranslate2-{precision}"
            if not folder.exists():
                say(f"exporting the model for CTranslate2 in {precision}")
                export_model(
                    options.model,
                    folder,
                    engine="ctranslate2",
                    precision=precision,
                    overrides=["decoding.stopping=first-k"],
                    sentences=0,
                )
            places[system.key] = folder
    if others := {system.name for system in chosen} & {"eole", "joeynmt"}:
        say("making models of the same size for eole and JoeyNMT")
        made = untrained_models(others, options.peers.absolute(), options.data, work, options.threads, kind)
        places |= {system.key: made[system.name] for system in chosen if system.name in others}
    return places


def translate_for_a_while(
    system: System, places: dict[tuple[str, str], Path], options: argparse.Namespace, work: Path
) -> Line:
    """What stopwatch.py found in a process of its own."""
    world = environment(options.threads, options.data)
    home = {"weft": None, "ctranslate2": None, "marian": "transformers"}.get(system.name, system.name)
    python = Path(sys.executable) if home is None else options.peers.absolute() / home / "bin" / "python"
    output = work / "figures.json"
    output.unlink(missing_ok=True)
    words = [
        *(python, PEERS / f"translate_{system.name}.py", places[system.key].absolute(), work / "sentences.jsonl"),
        *(output, system.precision, options.threads, system.count),
    ]
    done = subprocess.run(
        [str(word) for word in words], cwd=work, env=world, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if not output.exists():
        raise SystemExit(f"{system.name} ended without a figure; the end of what it said:\n{done.stdout[-3000:]}")
    return json.loads(output.read_text(encoding="utf-8"))


HEADERS = {
    "en": [
        *("engine", "precision", "sentences a second", "target tokens a second", "weft bf16 / it", "weft fp32 / it"),
        *("one alone, ms", "memory, MB", "sacreBLEU"),
    ],
    "zh": [
        *("引擎", "精度", "句/秒", "目标词元/秒", "weft bf16 / 该引擎", "weft fp32 / 该引擎"),
        *("单句（毫秒）", "内存（MB）", "sacreBLEU"),
    ],
}
TITLES = {"en": {1: "Greedy:", 3: "Beam of 3:"}, "zh": {1: "贪心：", 3: "束宽 3："}}
CAPTIONS = {
    "en": "Median over {rounds} rounds, in brackets the least and the most; the ratios are of target tokens a second. "
    "One alone: the median over 100 sentences. Memory: the most that the process held. {threads} threads, {processor}, "
    "{versions}, weft {commit}, {date}. Other programs took at most {others} of the processor. {signature}.",
    "zh": "{rounds} 轮的中位数，方括号内是最小值和最大值；比值按目标词元/秒计算。"
    "单句：100 个句子逐句翻译的中位数。内存：进程占用的峰值。{threads} 线程，{processor}，{versions}，"
    "weft {commit}，{date}。其他程序最多占用处理器的 {others}。{signature}。",
}


def page(session: list[Line], language: str) -> str:
    """The session as Markdown, a table for each beam size, with what has to be known about them below."""
    parts = [f"{title}\n\n{table(session, beam, language)}" for beam, title in TITLES[language].items()]
    versions = {line["system"]: line["version"] for line in session if line["system"] != "weft"}
    signatures = sorted({line["signature"] for line in session if "signature" in line})
    caption = CAPTIONS[language].format(
        **{key: session[0][key] for key in ("threads", "processor", "commit", "date")},
        rounds=max(line["round"] for line in session),
        versions=SEPARATORS[language].join(f"{NAMES[name]} {version}" for name, version in versions.items()),
        others=f"{max(line['others_cpu'] or 0.0 for line in session):.0%}",
        signature=SEPARATORS[language].join(f"`{signature}`" for signature in signatures),
    )
    return "\n\n".join([*parts, caption])


NAMES = {
    "weft": "weft",
    "ctranslate2": "CTranslate2",
    "marian": "Hugging Face generate (Marian)",
    "eole": "eole",
    "joeynmt": "JoeyNMT",
}


def table(session: list[Line], beam: int, language: str) -> str:
    lines: dict[tuple[str, str], dict[int, Line]] = {}
    for line in session:
        if line["beam"] == beam:
            lines.setdefault((line["system"], line["precision"]), {})[line["round"]] = line
    rows = []
    for (system, precision), rounds in lines.items():
        tokens = {number: line["target_tokens_per_second"] for number, line in rounds.items()}
        ratios = []
        for ours in ("bf16", "fp32"):
            weft = lines.get(("weft", ours), {})
            each = [weft[number]["target_tokens_per_second"] / tokens[number] for number in tokens if number in weft]
            ratios.append(spread(each, ".2f") if each else "–")
        score = rounds[max(rounds)].get("sacrebleu")
        rows.append(
            [
                NAMES[system],
                precision,
                f"{statistics.median(line['sentences_per_second'] for line in rounds.values()):,.0f}",
                spread(list(tokens.values()), ",.0f"),
                *ratios,
                f"{statistics.median(line['latency_ms'] for line in rounds.values()):.1f}",
                f"{max(line['peak_mb'] for line in rounds.values()):,}",
                "–" if score is None else f"{score:.2f}",
            ]
        )
    return markdown_table(HEADERS[language], rows, text_columns=2)


if __name__ == "__main__":
    main()
