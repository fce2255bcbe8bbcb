"""The ready-made studies on zh-en-50k: `python -m bench.studies warmup-norm --data DIR`, or `--docs` to fill the page.

A study of recipes/studies/ is run in runs/studies/; what was interrupted goes on. A finished one is one line of
bench/results/studies.jsonl, with its tables and the figures of every trial, and is not run again. `--docs` runs nothing
and puts the newest line of every study into docs/*/tuning.md.
"""

import argparse
import os
import time
from pathlib import Path

from bench.machine import LANGUAGES, RESULTS, ROOT, append_line, circumstances, fill_page, read_lines, say

from weft.cli.displays import PlainDisplay
from weft.files import sha256
from weft.tuning.opening import open_study
from weft.tuning.results import as_dict, paragraph, tables
from weft.tuning.workers import work_together

STUDIES = ROOT / "recipes" / "studies"
PATH = RESULTS / "studies.jsonl"


def main() -> None:
    names = sorted(path.stem for path in STUDIES.glob("*.toml") if "base =" in path.read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(prog="python -m bench.studies", description="Run ready-made studies.")
    parser.add_argument("studies", nargs="*", choices=[[], *names], help="left out: none")
    parser.add_argument("--data", type=Path, default=os.environ.get("WEFT_DATA"), help="left out: WEFT_DATA")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="left out: one for each core")
    parser.add_argument("--docs", action="store_true", help="put the tables into the docs")
    options = parser.parse_args()
    for name in options.studies:
        run(name, options)
    if options.docs:
        lines = {line["study"]: line for line in read_lines(PATH)}
        texts = {language: "\n\n".join(line["tables"][language] for line in lines.values()) for language in LANGUAGES}
        fill_page("tuning.md", "studies", texts)


def run(name: str, options: argparse.Namespace) -> None:
    """Run a study to its end and append its line, unless one of the same study and base is there."""
    file = STUDIES / f"{name}.toml"
    digests = {path.name: sha256(path) for path in (file, *STUDIES.glob("small.toml"), *STUDIES.glob("deep.toml"))}
    if any(line["study"] == name and line["files"] == digests for line in read_lines(PATH)):
        say(f"{name}: has its line")
        return
    when_begun, began = circumstances(), time.monotonic()
    folder = ROOT / "runs" / "studies" / name
    goes_on = folder.exists()
    study = open_study(file, folder=folder, data=options.data, workers=options.workers, listener=PlainDisplay())
    work_together(study, options.workers, PlainDisplay())
    found = as_dict(study)
    seconds = None if goes_on else round(time.monotonic() - began)
    shown = {
        language: "\n\n".join([*(table.markdown() for table in tables(study, language)), paragraph(study, language)])
        for language in LANGUAGES
    }
    trials = [
        {key: trial[key] for key in ("settings", "seed", "state", "seconds", "target_tokens", "measured", "rungs")}
        for trial in found["trials"]
    ]
    line = {"study": name, "files": digests, "workers": options.workers, "seconds": seconds, "tables": shown}
    append_line(PATH, {**line, "cells": found["cells"], "claims": found["claims"], "trials": trials, **when_begun})
    say("\n\n".join(table.text() for table in tables(study)))


if __name__ == "__main__":
    main()
