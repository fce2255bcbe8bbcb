"""Whole runs of recipes, and what they score: `python -m bench.reports RECIPE`; hours for each (docs/*/reports.md).

A run lies in runs/reports/ and goes on where it was stopped; when it is finished, every search of its report is scored
on the held-out files. `--as-it-is` trains no further and scores the best weights so far, for a machine that has no more
time. Each score is a line of bench/results/reports.jsonl; `--docs` puts the last ones into the page.
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.machine import (
    LANGUAGES,
    RESULTS,
    ROOT,
    Line,
    append_line,
    circumstances,
    fill_page,
    markdown_table,
    read_lines,
    say,
)

from weft.data.corpus import read_corpora
from weft.errors import WeftError
from weft.tasks.evaluation import evaluate
from weft.tasks.training import train
from weft.tasks.translation import load_translator
from weft.training.run_folder import RunStatus

LINES = RESULTS / "reports.jsonl"


@dataclass(frozen=True)
class Report:
    """What is scored of a recipe: the files, and besides its own search others, as overrides."""

    files: Sequence[str]
    searches: Sequence[str] = ()


ZH_EN_50K = ("zh-en-50k/valid.tsv", "zh-en-50k/test.tsv")
REPORTS = {
    "course-onecycle": Report(ZH_EN_50K, ["decoding.method=greedy"]),
    "course-elu": Report(ZH_EN_50K, ["decoding.method=greedy"]),
    "noam-base": Report(ZH_EN_50K),
    "multi30k-en-de": Report(
        [f"multi30k-en-de/{name}.tsv" for name in ("valid", "test", "test-2017-flickr", "test-2017-mscoco")]
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.reports", description="Whole runs of recipes.")
    parser.add_argument(
        "recipes", nargs="*", metavar="RECIPE", help=f"of {', '.join(REPORTS)}; left out: none, a table"
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("WEFT_DATA"), help="left out: WEFT_DATA")
    parser.add_argument("--as-it-is", action="store_true", help="score the best weights so far")
    parser.add_argument("--docs", action="store_true", help="also put the table into the docs")
    options = parser.parse_args()
    if unknown := set(options.recipes) - REPORTS.keys():
        parser.error(f"no report on {', '.join(sorted(unknown))}; there are: {', '.join(REPORTS)}")
    if options.recipes and options.data is None:
        parser.error("say where the corpora lie: --data DIR, or WEFT_DATA in the environment")
    for name in options.recipes:
        run = ROOT / "runs" / "reports" / name
        try:
            if not options.as_it_is:
                train(ROOT / "recipes" / f"{name}.toml", run=run, data=options.data)
            score(name, run, options.data)
        except WeftError as error:
            raise SystemExit(str(error)) from None
    lines = last_lines(read_lines(LINES))
    if not lines:
        raise SystemExit("no run was scored yet")
    tables = {language: table(lines, language) for language in LANGUAGES}
    print(tables["en"])
    if options.docs:
        fill_page("reports.md", "reports", tables)


def score(name: str, run: Path, data: Path) -> None:
    """Append a line for each search and file."""
    status = RunStatus.read(run / "run.json")
    trained = [line for line in read_lines(run / "metrics.jsonl") if "nll" in line]
    facts = {
        "recipe": name,
        "finished": status.finished,
        "steps": status.last,
        "best_step": status.best,
        "epochs": trained[-1]["epoch"],
    }
    for search in ((), *((override,) for override in REPORTS[name].searches)):
        translator = load_translator(run, search)
        for file in REPORTS[name].files:
            evaluated = evaluate(translator, read_corpora([file], translator.model.recipe.data, data))
            append_line(LINES, {**circumstances(), **facts, "file": file, **evaluated.as_dict()})
            say(f"{name}, {file}, {search or 'its own search'}\n{evaluated.table()}")


def last_lines(lines: Sequence[Line]) -> list[Line]:
    """The last one of each recipe, search and file, in the order of REPORTS."""
    last = {(line["recipe"], line["decoding"]["method"], line["file"]): line for line in lines}
    return sorted(last.values(), key=lambda line: list(REPORTS).index(line["recipe"]))


HEADERS = {
    "en": ["recipe", "search", "held-out file", "sacreBLEU", "chrF", "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "seconds"],
    "zh": ["配方", "搜索", "留出文件", "sacreBLEU", "chrF", "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "秒"],
}
SEARCHES = {
    "en": {"beam": "beam of {beam_size}", "greedy": "greedy"},
    "zh": {"beam": "束宽 {beam_size}", "greedy": "贪心"},
}
RUNS = {
    "en": "`{recipe}`: {epochs:.0f} epochs, {steps:,} steps{unfinished}, the weights of step {best_step:,}; "
    "{parameters:,} parameters; seed {seed}; {cores} cores, {processor}, torch {torch}, weft {commit}, {date}.",
    "zh": "`{recipe}`：{epochs:.0f} 个轮次，{steps:,} 步{unfinished}，取第 {best_step:,} 步的权重；"
    "{parameters:,} 个参数；种子 {seed}；{cores} 核，{processor}，torch {torch}，weft {commit}，{date}。",
}
UNFINISHED = {"en": " (not to its end)", "zh": "（没有训练到底）"}
SIGNATURE = {"en": "`{recipe}`: sacreBLEU `{signature}`", "zh": "`{recipe}`：sacreBLEU `{signature}`"}


def table(lines: Sequence[Line], language: str) -> str:
    """A row for each score, and below it how each run was made."""
    metrics = [("sacrebleu", ".2f"), ("chrf", ".2f"), *((f"bleu_{n}", ".3f") for n in (1, 2, 3, 4))]
    rows = [
        [
            f"`{line['recipe']}`",
            SEARCHES[language][line["decoding"]["method"]].format(**line["decoding"]),
            line["file"],
            *(format(line["scores"][metric]["value"], form) for metric, form in metrics),
            f"{line['seconds']:.1f}",
        ]
        for line in lines
    ]
    runs = list({line["recipe"]: line for line in lines}.values())
    notes = [
        note
        for line in runs
        for note in (
            RUNS[language].format(**{**line, "unfinished": "" if line["finished"] else UNFINISHED[language]}),
            SIGNATURE[language].format(recipe=line["recipe"], signature=line["scores"]["sacrebleu"]["signature"]),
        )
    ]
    made = {"en": "`python -m bench.reports RECIPE`.", "zh": "`python -m bench.reports RECIPE`。"}[language]
    return markdown_table(HEADERS[language], rows, text_columns=3) + "\n\n" + "\\\n".join([*notes, made])


if __name__ == "__main__":
    main()
