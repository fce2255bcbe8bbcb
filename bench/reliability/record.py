"""A reliability test's result: one line on stdout, and one in bench/results/reliability.jsonl.

A test is a module r*.py of this folder with a NAME, what it DOES and how its FOUND figures are told, in both languages
of the docs, and a main(). `python -m bench.reliability` runs them all.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from bench.machine import RESULTS, append_line, circumstances

LINES = RESULTS / "reliability.jsonl"


def parser_of(description: str | None, lines: Path, **numbers: tuple[float, str]) -> argparse.ArgumentParser:
    """The command line of a test: where results go, and these numbers, each with its default and its help."""
    parser = argparse.ArgumentParser(description=description)
    parser.set_defaults(began=time.monotonic())
    parser.add_argument("--results", type=Path, default=lines, help="the file that gets the result as a line")
    for name, (default, text) in numbers.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"{text} (left out: {default})")
    return parser


def options_of(description: str | None, **numbers: tuple[float, str]) -> argparse.Namespace:
    return parser_of(description, LINES, **numbers).parse_args()


def record(options: argparse.Namespace, name: str, figures: dict[str, Any], *, passed: bool) -> None:
    """Print the result and append it to the file; exits with 1 where the test was not passed."""
    seconds = round(time.monotonic() - options.began, 1)
    line = {"test": name, "passed": passed, **figures, "seconds": seconds, **circumstances()}
    print(json.dumps(line, ensure_ascii=False), flush=True)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    append_line(options.results, line)
    if not passed:
        sys.exit(1)
