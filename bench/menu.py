"""What each way of decoding gives and takes: `make bench-menu`, or `python -m bench.menu --model zh-en`.

The same model translates the first 1,000 and the first 200 of the Tatoeba sentences of zh-en-50k/valid, which the
shipped model has not learned from, by every method and rule of [decoding]: BLEU-1, BLEU-2, sacreBLEU and chrF of the
1,000, and the seconds of both, in fp32; with `--member RUN`, a model of the same vocabulary, also by both together.
Then what is asked of a model besides translations: how probable the references are, what else could stand behind their
first words, and which sentence of a translation memory is similar.

Each line is one of bench/results/menu.jsonl; `--table` prints the last session from there, and `--docs` also puts it
into docs/*/decoding.md.
"""

import argparse
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.machine import RESULTS, Line, append_line, markdown_table, new_session, say
from bench.options import parser_of, run_benchmark
from bench.shipped import tatoeba_rows

from weft.data.corpus import ParallelText
from weft.evaluating.forced import score_pairs
from weft.metrics.translation import score_translations
from weft.translating.loading import load_translator
from weft.translating.memory import read_memory
from weft.translating.translator import Translator

LINES = RESULTS / "menu.jsonl"

Settings = dict[str, Any]
Ask = Callable[[Translator, ParallelText, Path], Line]

BEAM: Settings = {"method": "beam", "beam_size": 5, "length_penalty": "fixed"}
SAMPLE: Settings = {"method": "sample"}
MBR: Settings = {"method": "mbr", "epsilon": 0.02}
METHODS: list[Settings] = [
    {"method": "greedy"},
    {**BEAM, "beam_size": 1},
    {**BEAM, "beam_size": 3},
    BEAM,
    {**BEAM, "beam_size": 10},
    {**BEAM, "length_penalty": "none"},
    {**BEAM, "length_power": 0.6},
    {**BEAM, "length_penalty": "average"},
    {**BEAM, "length_penalty": "gnmt"},
    {**BEAM, "length_penalty": "adaptive"},
    {**BEAM, "length_penalty": "none", "word_reward": 0.5},
    {**BEAM, "coverage_penalty": 0.2},
    {**BEAM, "stopping": "first-k"},
    {**BEAM, "stopping": "first-k", "patience": 2.0},
    {**BEAM, "min_length_ratio": 0.8},
    {**BEAM, "max_length_ratio": 1.0, "max_length_extra": 2},
    {**BEAM, "no_repeat_ngram": 3},
    {**BEAM, "repetition_penalty": 1.2},
    {**BEAM, "beam_size": 6, "diverse_groups": 3},
    SAMPLE,
    {**SAMPLE, "temperature": 0.5},
    {**SAMPLE, "top_k": 10},
    {**SAMPLE, "top_p": 0.9},
    {**SAMPLE, "epsilon": 0.02},
    MBR,
    {**MBR, "mbr_utility": "bleu"},
    {**MBR, "mbr_candidates": 128},
    {**MBR, "mbr_candidates": 128, "mbr_form": "fast"},
    {"method": "mbr", "mbr_from": "beam", "beam_size": 10},
]
BEGINNING: Settings = {**BEAM, "prefixes": "the first word of the reference"}
"""Told something of the references: what it is worth to give a translation its beginning."""
SENTENCES, FEW = 1000, 200


def main() -> None:
    parser = parser_of("menu", "Every way of decoding, side by side.", model=True)
    parser.add_argument("--member", type=Path, metavar="RUN", help="a model of the same vocabulary, for an ensemble")
    run_benchmark(parser, measure, LINES, table, "decoding.md")


def measure(options: argparse.Namespace) -> None:
    translator = load_translator(options.model)
    pairs = tatoeba_rows(options.data / "zh-en-50k", "valid")
    valid = ParallelText([zh for zh, _ in pairs], [(en,) for _, en in pairs], {})
    session = {**new_session(), "model": options.model.name, "pairs": len(pairs)}
    defaults = {name: field.default for name, field in type(translator.decoding).model_fields.items()}
    for method in METHODS:
        line = {"settings": method, **timed(translator, valid, {**defaults, **method})}
        append_line(LINES, {**session, **line})
        say(f"{spelled(method)}: sacreBLEU {line['sacrebleu']:.2f}, {line['seconds']:.1f} s")
    line = timed(translator, valid, {**defaults, **BEAM}, first_words)
    append_line(LINES, {**session, "settings": BEGINNING, **line})
    if options.member is not None:
        both = load_translator(options.model, others=[options.member])
        settings_of_both = {**BEAM, "ensemble": options.member.name}
        append_line(LINES, {**session, "settings": settings_of_both, **timed(both, valid, {**defaults, **BEAM})})
    for name, (ask, counts) in QUESTIONS.items():
        append_line(LINES, {**session, "asked": name, **asked(ask, counts, translator, valid, options.data)})
        say(name)


def first_words(references: Sequence[str]) -> Settings:
    return {"prefixes": [reference.split()[0] for reference in references]}


def timed(
    translator: Translator,
    valid: ParallelText,
    settings: Settings,
    told: Callable[[Sequence[str]], Settings] = lambda references: {},
) -> Line:
    """Scores of the first SENTENCES, seconds of these and of the first FEW; others have been translated before. `told`
    is what is said of each sentence, made of its references."""

    def translate(which: slice) -> list[str]:
        found = translator.translate(valid.sources[which], **settings, **told(valid.targets[which]))
        return [translation.text for translation in found]

    translate(slice(SENTENCES, SENTENCES + FEW))
    seconds = {}
    texts: list[str] = []
    for count in (FEW, SENTENCES):
        began = time.perf_counter()
        texts = translate(slice(count))
        seconds[count] = time.perf_counter() - began
    scored = scores(texts, valid.targets[:SENTENCES], translator.model.recipe.data.target)
    return {**scored, "seconds_of_few": round(seconds[FEW], 2), "seconds": round(seconds[SENTENCES], 2)}


def asked(ask: Ask, counts: Sequence[int], translator: Translator, valid: ParallelText, data: Path) -> Line:
    """What came of it for the most sentences that are asked, and the seconds for these and for the first FEW."""
    found: Line = {"seconds": None}
    for count in counts:
        some = ParallelText(valid.sources[:count], valid.references[:count], {})
        began = time.perf_counter()
        found |= ask(translator, some, data)
        found["seconds_of_few" if count == FEW else "seconds"] = round(time.perf_counter() - began, 2)
    return found


def probabilities(translator: Translator, pairs: ParallelText, data: Path) -> Line:
    return {"perplexity": round(score_pairs(translator, pairs).perplexity, 2)}


def next_words(translator: Translator, pairs: ParallelText, data: Path) -> Line:
    """Of the references of two words and more: how many go on as one of the five alternatives behind the first does."""
    words_of = [re.findall(r"[\w']+", reference) for reference in pairs.targets]
    longer = [(source, words) for source, words in zip(pairs.sources, words_of, strict=True) if len(words) > 1]
    found = 0
    for source, words in longer:
        found += words[1] in [other.word for other in translator.alternatives(source, words[0], 5, **BEAM)]
    return {"references": len(longer), "among_five": found}


def similar_sentences(translator: Translator, pairs: ParallelText, data: Path) -> Line:
    """In the pairs that the shipped models were made of; the seconds are also those of reading them."""
    languages = (translator.model.recipe.data.source, translator.model.recipe.data.target)
    memory = read_memory(
        data / "tatoeba-zh-en" / "train.tsv", languages, translator.model.vocabularies["source"].normalize
    )
    return {"memory": len(memory), "similar": sum(bool(memory.similar(source)) for source in pairs.sources)}


QUESTIONS: dict[str, tuple[Ask, Sequence[int]]] = {
    "probabilities": (probabilities, (FEW, SENTENCES)),
    "alternatives": (next_words, (FEW,)),  # half a second each
    "memory": (similar_sentences, (FEW, SENTENCES)),
}


def scores(texts: Sequence[str], references: Sequence[str], language: str) -> Line:
    found = score_translations(list(texts), [list(references)], language)
    return {**found.values(), "signature": next(s.signature for s in found.scores if s.name == "sacrebleu")}


HEADERS = {
    "en": ["settings", "BLEU-1", "BLEU-2", "sacreBLEU", "chrF", f"s, {FEW}", f"s, {SENTENCES:,}"],
    "zh": ["设置", "BLEU-1", "BLEU-2", "sacreBLEU", "chrF", f"{FEW} 句（秒）", f"{SENTENCES:,} 句（秒）"],
}
CAPTIONS = {
    "en": "The {pairs:,} Tatoeba pairs of zh-en-50k/valid, model `{model}`; settings that are not named are the "
    "defaults. `{signature}`. {cores} cores, {processor}, weft {commit}, {date}.",
    "zh": "zh-en-50k/valid 中的 {pairs:,} 个 Tatoeba 句对，模型 `{model}`；没有列出的设置取默认值。`{signature}`。"
    "{cores} 核，{processor}，weft {commit}，{date}。",
}
ASKED_HEADERS = {
    "en": ["asked for", f"s, {FEW}", f"s, {SENTENCES:,}", "what came of it"],
    "zh": ["要的是", f"{FEW} 句（秒）", f"{SENTENCES:,} 句（秒）", "结果"],
}
ASKED = {
    "en": {
        "probabilities": ("how probable the reference is", "perplexity {perplexity} a piece"),
        "alternatives": (
            "five alternatives behind the first word of the reference",
            "its second word among them for {among_five:,} of {references:,}",
        ),
        "memory": (
            "a similar sentence in a translation memory, reading it included",
            "for {similar:,}, among the {memory:,} sources of tatoeba-zh-en",
        ),
    },
    "zh": {
        "probabilities": ("参考译文的概率", "每个子词的困惑度 {perplexity}"),
        "alternatives": (
            "参考译文第一个词之后的五个其他选择",
            "{references:,} 句中有 {among_five:,} 句，参考译文的第二个词在其中",
        ),
        "memory": (
            "翻译记忆中的相似句（含读入时间）",
            "{similar:,} 句找到，记忆为 tatoeba-zh-en 的 {memory:,} 个原文",
        ),
    },
}


def table(session: list[Line], language: str) -> str:
    rows = [
        [
            f"`{spelled(line['settings'])}`",
            *(f"{line[name]:.3f}" for name in ("bleu_1", "bleu_2")),
            *(f"{line[name]:.2f}" for name in ("sacrebleu", "chrf")),
            f"{line['seconds_of_few']:.2f}",
            f"{line['seconds']:.2f}",
        ]
        for line in session
        if "settings" in line and "demanded" not in line
    ]
    caption = CAPTIONS[language].format(**session[0])
    parts = [markdown_table(HEADERS[language], rows), caption]
    questions = [line for line in session if "asked" in line]
    if questions:
        parts.append(markdown_table(ASKED_HEADERS[language], [asked_row(line, language) for line in questions]))
    return "\n\n".join(parts)


def asked_row(line: Line, language: str) -> list[str]:
    name, outcome = ASKED[language][line["asked"]]
    seconds = "–" if line["seconds"] is None else f"{line['seconds']:.2f}"
    return [name, f"{line['seconds_of_few']:.2f}", seconds, outcome.format(**line)]


def spelled(settings: Settings) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items())


if __name__ == "__main__":
    main()
