"""What the command lines of the benchmarks share: where things lie, and whether the docs shall know."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.machine import Line, show_last_session

VALID = ["zh-en-50k/valid.tsv"]
"""In --data: what models are measured on, whatever theirs were chosen on."""


def run_benchmark(
    parser: argparse.ArgumentParser,
    measure: Callable[[argparse.Namespace], Any],
    lines: Path,
    table: Callable[[list[Line], str], str],
    page: str,
) -> None:
    """The command of a benchmark: `measure` appends to `lines` unless --table is given; then the table of the last
    session is shown, and with --docs put into the page."""
    options = options_of(parser)
    if not options.table:
        measure(options)
    show_last_session(lines, table, page, lines.stem, docs=options.docs)


def parser_of(name: str, description: str, *, model: bool = False, data: bool = True) -> argparse.ArgumentParser:
    """The parser of `python -m bench.NAME` with --table and --docs, with --data where zh-en-50k is read, and with
    --model where one is measured; a benchmark adds what is its own."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{name}", description=description)
    if model:
        parser.add_argument("--model", type=Path, help="a Chinese-English model: a run, or zh-en, which ships")
    if data:
        parser.add_argument(
            "--data", type=Path, default=os.environ.get("WEFT_DATA"), help="folder of zh-en-50k; left out: WEFT_DATA"
        )
    parser.add_argument("--table", action="store_true", help="measure nothing, print what was found last")
    parser.add_argument("--docs", action="store_true", help="also put that into the docs")
    return parser


def options_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of this command; ends the program, with the reason, where one is missing that --table needs not."""
    options = parser.parse_args()
    if not options.table:
        if "data" in options and options.data is None:
            parser.error("say where zh-en-50k lies: --data DIR, or WEFT_DATA in the environment")
        if "model" in options and options.model is None:
            parser.error("say which --model: a run of recipes/zh-en-50k.toml, or zh-en, which ships")
    return options
