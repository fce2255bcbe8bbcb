"""What each way of decoding gives and takes: `make bench-menu`, or `python -m bench.menu --model zh-en`.

The same model translates the first 1,000 and the first 200 of the Tatoeba sentences of zh-en-50k/valid, which the
shipped model has not learned from, by every method and rule of [decoding]: BLEU-1, BLEU-2, sacreBLEU and chrF of the
1,000, and the seconds of both, in fp32. Then a glossary: of 200 sentences whose reference has a rare word that the
model leaves out by itself, how many hold it when it is demanded, and what that does to their score.

Each line is one of bench/results/menu.jsonl; `--table` prints the last session from there, and `--docs` also puts it
into docs/*/decoding.md.
"""

import argparse
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from bench.machine import (
    RESULTS,
    Line,
    append_line,
    circumstances,
    markdown_table,
    say,
    show_last_session,
)
from bench.options import options_of, parser_of
from bench.shipped import tatoeba_rows

from weft.data.corpus import ParallelText
from weft.metrics.translation import score_translations
from weft.tasks.glossary import Glossary
from weft.tasks.translation import Translator, load_translator

LINES = RESULTS / "menu.jsonl"

Settings = dict[str, Any]

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
RARE = 3
"""Times that a word may stand in all references of valid to be demanded."""


def main() -> None:
    options = options_of(parser_of("menu", "Every way of decoding, side by side.", model=True))
    if not options.table:
        measure(options)
    show_last_session(LINES, table, "decoding.md", "menu", docs=options.docs)


def measure(options: argparse.Namespace) -> None:
    translator = load_translator(options.model)
    settings = translator.model.recipe.data
    pairs = tatoeba_rows(options.data / "zh-en-50k", "valid")
    valid = ParallelText([zh for zh, _ in pairs], [(en,) for _, en in pairs], {})
    began = datetime.now(UTC).isoformat(timespec="seconds")
    session = {"session": began, **circumstances(), "model": options.model.name, "pairs": len(pairs)}
    defaults = {name: field.default for name, field in type(translator.decoding).model_fields.items()}
    for method in METHODS:
        line = {"settings": method, **timed(translator, valid, {**defaults, **method})}
        append_line(LINES, {**session, **line})
        say(f"{spelled(method)}: sacreBLEU {line['sacrebleu']:.2f}, {line['seconds']:.1f} s")
    line = timed(translator, valid, {**defaults, **BEAM}, first_words)
    append_line(LINES, {**session, "settings": BEGINNING, **line})
    sources, references, words = with_rare_words(translator, valid)
    glossary = Glossary(list(zip(sources, words, strict=True)), (settings.source, settings.target))
    for name, terms in (("", None), ("glossary", glossary)):
        translator.translate(sources[:20], **{**defaults, **BEAM})
        began = time.perf_counter()
        found = translator.translate(sources, glossary=terms, **{**defaults, **BEAM})
        seconds = time.perf_counter() - began
        texts = [translation.text for translation in found]
        held = sum(stands_in(word, text) for word, text in zip(words, texts, strict=True))
        line = {"settings": BEAM, "demanded": name, "sentences": len(sources), "held": held}
        line |= {"seconds_of_few": round(seconds, 2), **scores(texts, references, settings.target)}
        append_line(LINES, {**session, **line})
        say(f"{name or 'no glossary'}: {held} of {len(sources)} hold the word, sacreBLEU {line['sacrebleu']:.2f}")


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


def scores(texts: Sequence[str], references: Sequence[str], language: str) -> Line:
    found = score_translations(list(texts), [list(references)], language)
    return {**found.values(), "signature": next(s.signature for s in found.scores if s.name == "sacrebleu")}


def with_rare_words(translator: Translator, valid: ParallelText) -> tuple[list[str], list[str], list[str]]:
    """FEW sources, their references, and of each reference the longest of its rare words that the model leaves out.

    A word that the model writes by itself would prove nothing.
    """
    words_of = [re.findall(r"[A-Za-z]{5,}", reference) for reference in valid.targets]
    counts = Counter(word.lower() for words in words_of for word in set(words))
    unhelped = translator.translate(valid.sources, **BEAM)
    chosen: dict[str, tuple[str, str]] = {}
    for source, reference, words, answer in zip(valid.sources, valid.targets, words_of, unhelped, strict=True):
        rare = [w for w in words if counts[w.lower()] <= RARE and not stands_in(w, answer.text)]
        if rare and len(chosen) < FEW:
            chosen.setdefault(source, (reference, max(rare, key=len)))
    return list(chosen), [reference for reference, _ in chosen.values()], [word for _, word in chosen.values()]


def stands_in(word: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


HEADERS = {
    "en": ["settings", "BLEU-1", "BLEU-2", "sacreBLEU", "chrF", f"s, {FEW}", f"s, {SENTENCES:,}"],
    "zh": ["设置", "BLEU-1", "BLEU-2", "sacreBLEU", "chrF", f"{FEW} 句（秒）", f"{SENTENCES:,} 句（秒）"],
}
CAPTIONS = {
    "en": "The {pairs:,} Tatoeba pairs of zh-en-50k/valid, model `{model}`; settings that are not named are the "
    "defaults. `{signature}`. 2 threads, {processor}, weft {commit}, {date}.",
    "zh": "zh-en-50k/valid 中的 {pairs:,} 个 Tatoeba 句对，模型 `{model}`；没有列出的设置取默认值。`{signature}`。"
    "2 线程，{processor}，weft {commit}，{date}。",
}
GLOSSARY = {
    "en": "Of {sentences} sentences whose reference has a rare word that the model leaves out by itself, {held} hold "
    "it when a glossary demands it, in {seconds:.1f} s instead of {before_seconds:.1f}; sacreBLEU of these goes "
    "from {before:.2f} to {after:.2f}.",
    "zh": "另取 {sentences} 个句子，其参考译文含有模型自己没有译出的罕见词。用术语表要求后，{held} 句含有该词，"
    "用时 {seconds:.1f} 秒（原为 {before_seconds:.1f} 秒），"
    "这些句子的 sacreBLEU 从 {before:.2f} 变为 {after:.2f}。",
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
        if "demanded" not in line
    ]
    caption = CAPTIONS[language].format(**session[0])
    parts = [markdown_table(HEADERS[language], rows), caption]
    demanded = {line["demanded"]: line for line in session if "demanded" in line}
    if demanded:
        before, after = demanded[""], demanded["glossary"]
        parts.append(
            GLOSSARY[language].format(
                sentences=after["sentences"],
                held=after["held"],
                seconds=after["seconds_of_few"],
                before_seconds=before["seconds_of_few"],
                before=before["sacrebleu"],
                after=after["sacrebleu"],
            )
        )
    return "\n\n".join(parts)


def spelled(settings: Settings) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items())


if __name__ == "__main__":
    main()
