"""What a glossary does to a translation: `python -m bench.glossary --data DIR zh-en en-zh`.

Of the Tatoeba rows of zh-en-50k/valid.tsv, from which the models that ship have not learned:

    names    those with one of NAMES on both sides, in whose place then stands a name that the model does not know
    things   the same with THINGS
    words    those whose reference has a word that the model leaves out, and whose source has the word that stands for
             it in tatoeba-zh-en/train.tsv (by the Dice coefficient of their sentences)

Chinese is Simplified everywhere. Each is translated without a glossary, with one by constraints alone, and as weft does
it, by constraints or stand-ins; a name or thing whose place was taken is no stand-in then. A line for each in
bench/results/glossary.jsonl; `--docs` puts the table of the last session into docs/*/decoding.md.
"""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from unittest.mock import patch

from bench.each_model import measure_each
from bench.machine import RESULTS, SEPARATORS, Line, markdown_table, name_of_machine, say
from bench.pairs import Pair, read_pairs
from bench.shipped import tatoeba_rows

from weft.metrics.translation import chrf, sacre_bleu
from weft.text.chinese import convert_script
from weft.text.words import cut_chinese
from weft.translating.glossary import Glossary, whole_words
from weft.translating.translator import Translator

LINES = RESULTS / "glossary.jsonl"
LANGUAGES = ("zh", "en")

NAMES = (("汤姆", "Tom"), ("玛丽", "Mary"), ("波士顿", "Boston"))
THINGS = (
    *(
        ("书", "book"),
        ("狗", "dog"),
        ("车", "car"),
        ("房子", "house"),
        ("猫", "cat"),
        ("信", "letter"),
        ("钱", "money"),
    ),
    *(("水", "water"), ("电影", "movie"), ("票", "ticket"), ("苹果", "apple"), ("电脑", "computer"), ("音乐", "music")),
)
NEW_NAMES = (
    *(("李明", "Li Ming"), ("萨沙", "Sasha"), ("王小红", "Wang Xiaohong"), ("艾琳娜", "Elena"), ("武田", "Takeda")),
    *(("乔治亚", "Georgia"), ("特朗普", "Trump"), ("慕容雪", "Murong Xue")),
)
NEW_THINGS = (
    *(("区块链", "blockchain"), ("量子比特", "qubit"), ("无人机", "drone"), ("榴莲", "durian"), ("路由器", "router")),
    *(("显卡", "graphics card"), ("二维码", "QR code"), ("羽毛球拍", "badminton racket")),
)
LEAST_DICE, LEAST_SENTENCES = 0.25, 3
"""Of two words that are taken for translations of one another."""
MOST = 200
"""Sentences of a kind."""


@dataclass(frozen=True)
class Asked:
    """A sentence with a term; `taken` is the word in whose place it stands, if in one's."""

    source: str
    reference: str
    term: Pair
    taken: Pair | None = None


def main() -> None:
    measure_each(__doc__, LINES, "decoding.md", measure, table)


def measure(translator: Translator, data: Path) -> Iterator[Line]:
    settings = translator.model.recipe.data
    turned = (settings.source, settings.target) != LANGUAGES
    pairs = [(convert_script(zh, "simplified"), en) for zh, en in tatoeba_rows(data / "zh-en-50k", "valid")]
    linked = linked_words(read_pairs(data / "tatoeba-zh-en" / "train.tsv"))
    kinds = {
        "names": list(replaced(pairs, NAMES, NEW_NAMES)),
        "things": list(replaced(pairs, THINGS, NEW_THINGS)),
        "words": list(with_words(pairs, linked)),
    }
    for kind, rows in kinds.items():
        rows = [turn(asked) for asked in rows] if turned else rows
        if kind == "words":
            rows = left_out(translator, rows)
        for way in WAYS["en"]:
            yield {"kind": kind, "way": way, **outcome(translator, rows[:MOST], way)}


def outcome(translator: Translator, rows: Sequence[Asked], way: str) -> Line:
    target = translator.model.recipe.data.target
    began = time.perf_counter()
    texts = translated(translator, rows, way)
    seconds = time.perf_counter() - began
    references = [[asked.reference for asked in rows]]
    held = sum(holds(text, asked.term[1], target) for asked, text in zip(rows, texts, strict=True))
    scores = {"sacrebleu": sacre_bleu(texts, references, target), "chrf": chrf(texts, references)}
    say(f"{way}: {len(rows)} rows, {held} hold the term, " + ", ".join(f"{s.value:.2f}" for s in scores.values()))
    return {
        "rows": len(rows),
        "held": held,
        "seconds": round(seconds, 1),
        "scores": {metric: {"value": score.value, "signature": score.signature} for metric, score in scores.items()},
    }


def translated(translator: Translator, rows: Sequence[Asked], way: str) -> list[str]:
    """Together those whose term is the same and stands in the same word's place."""
    languages = translator.model.recipe.data.source, translator.model.recipe.data.target
    alike: dict[tuple[Pair, Pair | None], list[int]] = defaultdict(list)
    for number, asked in enumerate(rows):
        alike[asked.term, asked.taken].append(number)
    texts = [""] * len(rows)
    for (term, taken), numbers in alike.items():
        glossary = None if way == "none" else Glossary([term], languages)
        known = [pair for pair in translator.stand_ins if pair != taken and way != "constraints"]
        with patch.dict(translator.__dict__, {"stand_ins": known}):
            found = translator.translate([rows[number].source for number in numbers], glossary=glossary)
        for number, translation in zip(numbers, found, strict=True):
            texts[number] = translation.text
    return texts


def replaced(pairs: Iterable[Pair], known: Sequence[Pair], new: Sequence[Pair]) -> Iterator[Asked]:
    """Pairs in which a known word stands once on both sides, with the new ones in its place by turns."""
    terms = cycle(new)
    for chinese, english in pairs:
        for zh, en in known:
            word = rf"\b{en}\b"
            if chinese.count(zh) == 1 and len(re.findall(word, english)) == 1:
                term = next(terms)
                yield Asked(chinese.replace(zh, term[0]), re.sub(word, term[1], english), term, (zh, en))
                break


def linked_words(pairs: Iterable[Pair]) -> dict[str, str]:
    """For each Chinese word the English one whose sentences are most its own: 2 · together / (alone + alone)."""
    chinese_counts: Counter[str] = Counter()
    english_counts: Counter[str] = Counter()
    together: Counter[Pair] = Counter()
    for chinese, english in pairs:
        zh = {word for word in cut_chinese(chinese) if len(word) > 1}
        en = {word.lower() for word in english_words(english)}
        chinese_counts.update(zh)
        english_counts.update(en)
        together.update((one, other) for one in zh for other in en)
    best: dict[str, tuple[float, str]] = {}
    for (zh, en), count in together.items():
        dice = 2 * count / (chinese_counts[zh] + english_counts[en])
        if count >= LEAST_SENTENCES and dice >= LEAST_DICE:
            best[zh] = max(best.get(zh, (0.0, "")), (dice, en))
    return {zh: en for zh, (_, en) in best.items()}


def english_words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z][A-Za-z'-]{3,}", text)


def with_words(pairs: Iterable[Pair], linked: dict[str, str]) -> Iterator[Asked]:
    for chinese, english in pairs:
        words = {word.lower(): word for word in english_words(english)}
        for zh in cut_chinese(chinese):
            if (en := words.get(linked.get(zh, ""))) and chinese.count(zh) == 1:
                yield Asked(chinese, english, (zh, en))


def left_out(translator: Translator, rows: Sequence[Asked]) -> list[Asked]:
    """Those whose translation lacks the term, one of each sentence: what a model writes by itself proves nothing."""
    target = translator.model.recipe.data.target
    texts = [translation.text for translation in translator.translate([asked.source for asked in rows])]
    lacking = {
        asked.source: asked
        for asked, text in zip(rows, texts, strict=True)
        if not holds(text.lower(), asked.term[1].lower(), target)
    }
    return list(lacking.values())


def holds(text: str, term: str, language: str) -> bool:
    return re.search(whole_words([term], language), text) is not None


def turn(asked: Asked) -> Asked:
    """From the English side to the Chinese one."""
    zh, en = asked.term
    taken = None if asked.taken is None else (asked.taken[1], asked.taken[0])
    return Asked(asked.reference, asked.source, (en, zh), taken)


KINDS = {
    "en": {"names": "unknown names", "things": "unknown things", "words": "known words"},
    "zh": {"names": "陌生的名字", "things": "陌生的事物", "words": "认识的词"},
}
WAYS = {
    "en": {"none": "no glossary", "constraints": "constraints alone", "weft": "with stand-ins"},
    "zh": {"none": "没有术语表", "constraints": "只用约束", "weft": "加上替身词"},
}
HEADERS = {
    "en": ["model", "terms", "rows", "way", "hold the term", "sacreBLEU", "chrF", "seconds"],
    "zh": ["模型", "术语", "行数", "方法", "含有术语", "sacreBLEU", "chrF", "秒"],
}
CAPTIONS = {
    "en": "Tatoeba rows of zh-en-50k/valid.tsv. {machine}, weft {commit}, {date}; "
    "`python -m bench.glossary`. sacreBLEU: {signatures}.",
    "zh": "zh-en-50k/valid.tsv 中的 Tatoeba 行。{machine}，weft {commit}，{date}；`python -m bench.glossary`。"
    "sacreBLEU：{signatures}。",
}


def table(session: list[Line], language: str) -> str:
    rows = [
        [
            f"`{line['model']}`",
            KINDS[language][line["kind"]],
            f"{line['rows']:,}",
            WAYS[language][line["way"]],
            f"{line['held']:,}",
            *(f"{line['scores'][metric]['value']:.2f}" for metric in ("sacrebleu", "chrf")),
            f"{line['seconds']:.1f}",
        ]
        for line in session
    ]
    signatures = dict.fromkeys(f"`{line['scores']['sacrebleu']['signature']}`" for line in session)
    caption = CAPTIONS[language].format(
        **session[0], machine=name_of_machine(session[0]), signatures=SEPARATORS[language].join(signatures)
    )
    return f"{markdown_table(HEADERS[language], rows)}\n\n{caption}"


if __name__ == "__main__":
    main()
