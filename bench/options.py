"""What the command lines of the benchmarks share: where things lie, and whether the docs shall know."""

import argparse
import os
from pathlib import Path

VALID = ["zh-en-50k/valid.tsv"]
"""In --data: what models are measured on, whatever theirs were chosen on."""


def parser_of(name: str, description: str, *, model: bool = False) -> argparse.ArgumentParser:
    """The parser of `python -m bench.NAME` with --data, --table and --docs, and --model where one is measured; a
    benchmark adds what is its own."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{name}", description=description)
    if model:
        parser.add_argument("--model", type=Path, help="a Chinese-English model: a run, or zh-en, which ships")
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
        if options.data is None:
            parser.error("say where zh-en-50k lies: --data DIR, or WEFT_DATA in the environment")
        if "model" in options and options.model is None:
            parser.error("say which --model: a run of recipes/zh-en-50k.toml, or zh-en, which ships")
    return options
