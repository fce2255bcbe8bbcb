"""Whole runs of recipes, and what they score: `python -m bench.reports NAME`; hours for each (docs/*/reports.md).

A run lies in runs/reports/ and goes on where it was stopped; when it is finished, every search of its report is scored
on the held-out files. `--as-it-is` trains no further and scores the best weights so far, for a machine that has no more
time. Each score is a line of bench/results/reports.jsonl; `--docs` puts the last ones into the page.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    name_of_machine,
    read_lines,
    say,
)

from weft.data.corpus import read_corpora
from weft.errors import WeftError
from weft.evaluating.evaluation import evaluate
from weft.runs.train import train
from weft.training.run_folder import RunStatus
from weft.translating.loading import load_translator

LINES = RESULTS / "reports.jsonl"


@dataclass(frozen=True)
class Report:
    """What is trained and scored: a recipe with changes, the files, and besides its own search others, as overrides.

    `reported` are BLEU-1 to -4 as somebody else has reported them, as far as they were, by the method of the search;
    of another cut of the corpus (docs/*/reports.md).
    """

    recipe: str
    files: Sequence[str]
    changes: Sequence[str] = ()
    searches: Sequence[str] = ()
    reported: Mapping[str, Sequence[float]] = field(default_factory=dict)


VALID, TEST = "zh-en-50k/valid.tsv", "zh-en-50k/test.tsv"
GREEDY = ("decoding.method=greedy",)
FIRST_DECAY = ["training.weight_decay=0.01"]
"""Of the recipe as it was when these runs were made."""
REPORTS = {
    "zh-en-50k": Report("zh-en-50k", [VALID, TEST], changes=FIRST_DECAY),
    "zh-en-50k-seed-2": Report("zh-en-50k", [VALID], changes=[*FIRST_DECAY, "seed=2"]),
    "zh-en-50k-seed-3": Report("zh-en-50k", [VALID], changes=[*FIRST_DECAY, "seed=3"]),
    "zh-en-50k-without-limit": Report(
        "zh-en-50k", [VALID, TEST], changes=[*FIRST_DECAY, "training.r_drop=2", "training.epochs=40"]
    ),
    "course-onecycle": Report(
        "course-onecycle",
        [VALID, TEST],
        searches=GREEDY,
        reported={"beam": (0.477, 0.337, 0.246, 0.171), "greedy": (0.461,)},
    ),
    "course-elu": Report(
        "course-elu",
        [VALID, TEST],
        searches=GREEDY,
        reported={"beam": (0.464, 0.330, 0.242, 0.177), "greedy": (0.446, 0.306)},
    ),
    "course-elu-usual-positions": Report(
        "course-elu",
        [VALID, TEST],
        changes=["model.positions=sinusoidal"],
        searches=GREEDY,
        reported={"beam": (0.441, 0.298), "greedy": (0.419, 0.278)},
    ),
    "noam-base": Report("noam-base", [VALID, TEST]),
    "multi30k-en-de": Report(
        "multi30k-en-de",
        [f"multi30k-en-de/{name}.tsv" for name in ("valid", "test", "test-2017-flickr", "test-2017-mscoco")],
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.reports", description="Whole runs of recipes.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(REPORTS)}; left out: none, a table")
    parser.add_argument("--data", type=Path, default=os.environ.get("WEFT_DATA"), help="left out: WEFT_DATA")
    parser.add_argument("--as-it-is", action="store_true", help="score the best weights so far")
    parser.add_argument("--docs", action="store_true", help="also put the table into the docs")
    options = parser.parse_args()
    if unknown := set(options.names) - REPORTS.keys():
        parser.error(f"no report on {', '.join(sorted(unknown))}; there are: {', '.join(REPORTS)}")
    if options.names and options.data is None:
        parser.error("say where the corpora lie: --data DIR, or WEFT_DATA in the environment")
    for name in options.names:
        run = ROOT / "runs" / "reports" / name
        try:
            if not options.as_it_is:
                report = REPORTS[name]
                recipe = ROOT / "recipes" / f"{report.recipe}.toml"
                train(recipe, run=run, data=options.data, overrides=report.changes)
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
        "changes": REPORTS[name].changes,
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
            tables = "\n\n".join(table.text() for table in evaluated.tables())
            say(f"{name}, {file}, {search or 'its own search'}\n{tables}")


def last_lines(lines: Sequence[Line]) -> list[Line]:
    """The last one of each recipe, search and file, in the order of REPORTS."""
    last = {(line["recipe"], line["decoding"]["method"], line["file"]): line for line in lines}
    return sorted(last.values(), key=lambda line: list(REPORTS).index(line["recipe"]))


HEADERS = {
    "en": ["recipe", "search", "held-out file", "sacreBLEU", "chrF", "BLEU-1 to -4", "reported", "seconds"],
    "zh": ["配方", "搜索", "留出文件", "sacreBLEU", "chrF", "BLEU-1 到 -4", "报告的", "秒"],
}
SEARCHES = {
    "en": {"beam": "beam of {beam_size}", "greedy": "greedy"},
    "zh": {"beam": "束宽 {beam_size}", "greedy": "贪心"},
}
RUNS = {
    "en": "`{recipe}`: {epochs:.0f} epochs, {steps:,} steps{unfinished}, the weights of step {best_step:,}; "
    "{parameters:,} parameters; seed {seed}; {cores} cores, {machine}, torch {torch}, weft {commit}, {date}.",
    "zh": "`{recipe}`：{epochs:.0f} 轮，{steps:,} 步{unfinished}，取第 {best_step:,} 步的权重；"
    "{parameters:,} 个参数；种子 {seed}；{cores} 核，{machine}，torch {torch}，weft {commit}，{date}。",
}
UNFINISHED = {"en": " (not to its end)", "zh": "（没有训练到底）"}
SIGNATURE = {"en": "`{recipe}`: sacreBLEU `{signature}`", "zh": "`{recipe}`：sacreBLEU `{signature}`"}


def reported_for(line: Line) -> Sequence[float]:
    return REPORTS[line["recipe"]].reported.get(line["decoding"]["method"], ()) if line["file"] == TEST else ()


def of_the_courses(scores: Sequence[float]) -> str:
    return ", ".join(f"{score:.3f}" for score in scores) or "–"


def table(lines: Sequence[Line], language: str) -> str:
    """A row for each score, and below it how each run was made."""
    rows = [
        [
            f"`{line['recipe']}`",
            SEARCHES[language][line["decoding"]["method"]].format(**line["decoding"]),
            line["file"],
            *(f"{line['scores'][metric]['value']:.2f}" for metric in ("sacrebleu", "chrf")),
            of_the_courses([line["scores"][f"bleu_{n}"]["value"] for n in (1, 2, 3, 4)]),
            of_the_courses(reported_for(line)),
            f"{line['seconds']:.1f}",
        ]
        for line in lines
    ]
    runs = list({line["recipe"]: line for line in lines}.values())
    notes = [
        note
        for line in runs
        for note in (
            RUNS[language].format(
                **{
                    **line,
                    "machine": name_of_machine(line),
                    "unfinished": "" if line["finished"] else UNFINISHED[language],
                }
            ),
            SIGNATURE[language].format(recipe=line["recipe"], signature=line["scores"]["sacrebleu"]["signature"]),
        )
    ]
    made = {"en": "`python -m bench.reports NAME`.", "zh": "`python -m bench.reports NAME`。"}[language]
    return markdown_table(HEADERS[language], rows, text_columns=3) + "\n\n" + "\\\n".join([*notes, made])


if __name__ == "__main__":
    main()
