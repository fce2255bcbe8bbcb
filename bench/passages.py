"""What it is worth to take a text of several sentences apart: `python -m bench.passages --data DIR MODEL...`.

The rows of zh-en-50k/valid.tsv whose source has more than one sentence, mostly dialogue, are translated sentence by
sentence (`--split always`, the default of `weft translate`) and whole (`never`), by models that come with weft and by
runs. A line for each in bench/results/passages.jsonl; `--docs` puts the table of the last session into
docs/*/translating.md.
"""

import time
from collections.abc import Iterator
from pathlib import Path

from bench.each_model import FILE, measure_each
from bench.machine import RESULTS, SEPARATORS, Line, markdown_table, name_of_machine, say

from weft.data.corpus import read_corpora
from weft.metrics.translation import chrf, sacre_bleu
from weft.text.sentence_splitting import split_sentences
from weft.translating.passages import PassageTranslator, Split
from weft.translating.translator import Translator

LINES = RESULTS / "passages.jsonl"
SPLITS: tuple[Split, ...] = ("always", "never")


def main() -> None:
    measure_each(__doc__, LINES, "translating.md", measure, table)


def measure(translator: Translator, data: Path) -> Iterator[Line]:
    for split in SPLITS:
        yield {"split": split, **outcome(translator, data, split)}


def outcome(translator: Translator, data: Path, split: Split) -> Line:
    settings = translator.model.recipe.data
    pairs = read_corpora([FILE], settings, data)
    several = [
        (source, target)
        for source, target in zip(pairs.sources, pairs.targets, strict=True)
        if len(split_sentences(source, settings.source)) > 1
    ]
    sources, references = ([pair[side] for pair in several] for side in (0, 1))
    begin = time.perf_counter()
    hypotheses = [found.text for found in PassageTranslator(translator, split).translate(sources)]
    seconds = time.perf_counter() - begin
    scores = {
        "sacrebleu": sacre_bleu(hypotheses, [references], settings.target),
        "chrf": chrf(hypotheses, [references]),
    }
    say(f"{split}: {', '.join(f'{metric} {score.value:.2f}' for metric, score in scores.items())}")
    return {
        "rows": len(several),
        "trained_on": settings.train,
        "seconds": round(seconds, 1),
        "scores": {metric: {"value": score.value, "signature": score.signature} for metric, score in scores.items()},
    }


HEADERS = {
    "en": ["model", "rows", "whole: sacreBLEU", "chrF", "by sentences: sacreBLEU", "chrF"],
    "zh": ["模型", "行数", "整行：sacreBLEU", "chrF", "逐句：sacreBLEU", "chrF"],
}
CAPTIONS = {
    "en": "Rows of zh-en-50k/valid.tsv with several sentences. {machine}, weft {commit}, {date}; "
    "`python -m bench.passages`. sacreBLEU: {signatures}.",
    "zh": "zh-en-50k/valid.tsv 中不止一句的各行。{machine}，weft {commit}，{date}；`python -m bench.passages`。"
    "sacreBLEU：{signatures}。",
}


def table(session: list[Line], language: str) -> str:
    by_model = {
        line["model"]: {one["split"]: one for one in session if one["model"] == line["model"]} for line in session
    }
    rows = [
        [
            f"`{name}`",
            f"{of['never']['rows']:,}",
            *(
                f"{of[split]['scores'][metric]['value']:.2f}"
                for split in ("never", "always")
                for metric in ("sacrebleu", "chrf")
            ),
        ]
        for name, of in by_model.items()
    ]
    signatures = sorted({f"`{line['scores']['sacrebleu']['signature']}`" for line in session})
    caption = CAPTIONS[language].format(
        **session[0], machine=name_of_machine(session[0]), signatures=SEPARATORS[language].join(signatures)
    )
    return f"{markdown_table(HEADERS[language], rows)}\n\n{caption}"


if __name__ == "__main__":
    main()
