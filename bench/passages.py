"""What it is worth to take a text of several sentences apart: `python -m bench.passages --data DIR MODEL...`.

The rows of zh-en-50k/valid.tsv whose source has more than one sentence, mostly dialogue, are translated sentence by
sentence (`--split always`, the default of `weft translate`) and whole (`never`), by models that come with weft and by
runs. A line for each in bench/results/passages.jsonl; `--docs` puts the table of the last session into
docs/*/translating.md.
"""

import argparse
import os
import time
from pathlib import Path

from bench.machine import (
    RESULTS,
    SEPARATORS,
    Line,
    append_line,
    circumstances,
    markdown_table,
    name_of_machine,
    say,
    show_last_session,
)

from weft.data.corpus import read_corpora
from weft.metrics.translation import chrf, sacre_bleu
from weft.tasks.model_folder import find_model
from weft.tasks.passages import PassageTranslator, Split
from weft.tasks.translation import Translator, load_translator
from weft.text.sentence_splitting import split_sentences

LINES = RESULTS / "passages.jsonl"
FILE = "zh-en-50k/valid.tsv"
SPLITS: tuple[Split, ...] = ("always", "never")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="a model's name, or a folder")
    parser.add_argument("--data", type=Path, default=os.environ.get("WEFT_DATA"), help="where zh-en-50k lies")
    parser.add_argument("--docs", action="store_true", help="also put the last session's table into the docs")
    options = parser.parse_args()
    if options.models and options.data is None:
        parser.error("say where zh-en-50k lies: --data DIR, or WEFT_DATA in the environment")
    session = time.strftime("%Y-%m-%dT%H:%M:%S")
    for name in options.models:
        folder = find_model(name)
        translator = load_translator(folder)
        facts = {**circumstances(), "session": session, "model": Path(name).name}
        for split in SPLITS:
            append_line(LINES, {**facts, "file": FILE, "split": split, **measure(translator, options.data, split)})
    show_last_session(LINES, table, "translating.md", "passages", docs=options.docs)


def measure(translator: Translator, data: Path, split: Split) -> Line:
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
