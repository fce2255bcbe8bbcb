"""Whether a tag comes to stand around the right word: `python -m bench.markup --data DIR zh-en en-zh`.

Of the Tatoeba rows of zh-en-50k/valid.tsv, which the models that ship have not learned from, those whose translation
has a word that stands for one of the source (by the Dice coefficient of their sentences in tatoeba-zh-en/train.tsv), a
row for each pair of words: the source word is put into <b>, and the row translated with its markup kept. Counted is how
often the tags enclose the other word alone, and how often that and more; as weft puts them, by attention, and by the
share of the words, as it does for a model that does not tell where it looks. A line for each in
bench/results/markup.jsonl; `--docs` puts the table of the last session into docs/*/translating.md.
"""

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

from bench.each_model import measure_each
from bench.glossary import LANGUAGES, Asked, holds, linked_words, turn, with_words
from bench.machine import RESULTS, Line, markdown_table, name_of_machine, say
from bench.pairs import read_pairs
from bench.shipped import tatoeba_rows

from weft.text.chinese import convert_script
from weft.translating.passages import PassageTranslator
from weft.translating.translator import Translator

LINES = RESULTS / "markup.jsonl"
INSIDE = re.compile(r"<b>(.*?)</b>")


def main() -> None:
    measure_each(__doc__, LINES, "translating.md", measure, table)


def measure(translator: Translator, data: Path) -> Iterator[Line]:
    rows = with_translated_words(translator, data)
    marked = [asked.source.replace(asked.term[0], f"<b>{asked.term[0]}</b>") for asked in rows]
    for way in WAYS["en"]:
        passages = PassageTranslator(translator, keeps_markup=True)
        began = time.perf_counter()
        with patch.object(translator, "has_attention", way == "attention"):
            texts = [translation.text for translation in passages.translate(marked)]
        seconds = time.perf_counter() - began
        inside = ["".join(INSIDE.findall(text)).strip().lower() for text in texts]
        words = [asked.term[1].lower() for asked in rows]
        exact = sum(found == word for found, word in zip(inside, words, strict=True))
        more = sum(word in found and found != word for found, word in zip(inside, words, strict=True))
        say(f"{way}: {len(rows)} rows, {exact} exact, {more} with more")
        yield {"way": way, "rows": len(rows), "exact": exact, "more": more, "seconds": round(seconds, 1)}


def with_translated_words(translator: Translator, data: Path) -> Sequence[Asked]:
    """A row for each pair of words of which one stands once in the source and the other once in its translation."""
    settings = translator.model.recipe.data
    pairs = [(convert_script(zh, "simplified"), en) for zh, en in tatoeba_rows(data / "zh-en-50k", "valid")]
    rows = list(with_words(pairs, linked_words(read_pairs(data / "tatoeba-zh-en" / "train.tsv"))))
    if (settings.source, settings.target) != LANGUAGES:
        rows = [turn(asked) for asked in rows]
    rows = [asked for asked in rows if asked.source.count(asked.term[0]) == 1]
    texts = [translation.text.lower() for translation in translator.translate([asked.source for asked in rows])]
    found: dict[tuple[str, str], Asked] = {}
    for asked, text in zip(rows, texts, strict=True):
        word = asked.term[1].lower()
        if text.count(word) == 1 and holds(text, word, settings.target):
            found.setdefault(asked.term, asked)
    return list(found.values())


WAYS = {
    "en": {"attention": "by attention", "share": "by the share of the words"},
    "zh": {"attention": "按注意力", "share": "按词的比例"},
}
HEADERS = {
    "en": ["model", "rows", "tags put back", "around the word", "around it and more", "seconds"],
    "zh": ["模型", "行数", "放回标签的方法", "正好围住该词", "围住该词和别的词", "秒"],
}
CAPTIONS = {
    "en": "Tatoeba rows of zh-en-50k/valid.tsv. {machine}, weft {commit}, {date}; `python -m bench.markup`.",
    "zh": "zh-en-50k/valid.tsv 中的 Tatoeba 行。{machine}，weft {commit}，{date}；`python -m bench.markup`。",
}


def table(session: list[Line], language: str) -> str:
    rows = [
        [
            f"`{line['model']}`",
            f"{line['rows']:,}",
            WAYS[language][line["way"]],
            *(f"{line[name]:,}" for name in ("exact", "more")),
            f"{line['seconds']:.1f}",
        ]
        for line in session
    ]
    caption = CAPTIONS[language].format(**session[0], machine=name_of_machine(session[0]))
    return f"{markdown_table(HEADERS[language], rows)}\n\n{caption}"


if __name__ == "__main__":
    main()
