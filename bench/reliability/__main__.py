"""All reliability tests, one after the other: `make bench-reliability`, or `python -m bench.reliability`.

Each is a module r*.py of this folder, run in a process of its own; see record.py for what it has. `--only r1 r4` runs
some, `--quick` runs all with few repetitions, to see that they work. `--docs` puts the last line of each test into
docs/*/reliability.md, and with `--table` nothing is run.
"""

import argparse
import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.machine import fill_page, markdown_table, read_lines, say
from bench.reliability.record import LINES

QUICK = {"r1_kills": ["--kills", "3"], "r3_signals": ["--rounds", "1"], "r11_soak": ["--minutes", "0.3"]}

HEADERS = {"en": ["test", "what is done", "what was found", "passed"], "zh": ["测试", "做什么", "结果", "通过"]}
YES = {"en": {True: "yes", False: "**no**"}, "zh": {True: "是", False: "**否**"}}
CAPTIONS = {
    "en": "Measured on {dates}, weft {commits}, {processors}, torch {torches}.",
    "zh": "测量于 {dates}，weft {commits}，{processors}，torch {torches}。",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.reliability", description="Run the reliability tests.")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEST", help="such as r1 r5; left out: all of them")
    parser.add_argument("--quick", action="store_true", help="few repetitions, to see that the tests work")
    parser.add_argument("--results", type=Path, default=LINES, help="the file that gets a line a test")
    parser.add_argument("--table", action="store_true", help="run nothing, print the last results")
    parser.add_argument("--docs", action="store_true", help="also put the table into the docs")
    options = parser.parse_args()
    names = [name for name in module_names() if not options.only or name.partition("_")[0] in options.only]
    if not names:
        parser.error(f"there is no such test; there are {', '.join(module_names())}")
    failed = [] if options.table else [name for name in names if not run(name, options)]
    tables = {language: table(read_lines(options.results), language) for language in HEADERS}
    print(tables["en"])
    if options.docs:
        fill_page("reliability.md", "reliability", tables)
    if failed:
        raise SystemExit(f"not passed: {', '.join(failed)}")


def module_names() -> list[str]:
    """r1_kills, r2_resume, ... by their numbers."""
    names = [path.stem for path in Path(__file__).parent.glob("r[0-9]*_*.py")]
    return sorted(names, key=lambda name: (int(re.findall(r"\d+", name)[0]), name))


def run(name: str, options: argparse.Namespace) -> bool:
    """Whether the test was passed."""
    say(f"{name} ...")
    command = [sys.executable, "-m", f"bench.reliability.{name}", "--results", str(options.results)]
    return subprocess.run(command + (QUICK.get(name, []) if options.quick else []), check=False).returncode == 0


def table(lines: list[dict[str, Any]], language: str) -> str:
    """The last line of each test as Markdown."""
    last = {line["test"]: line for line in lines}
    tests: list[tuple[ModuleType, dict[str, Any]]] = []
    for name in module_names():
        module = importlib.import_module(f"bench.reliability.{name}")
        if module.NAME in last:
            tests.append((module, last[module.NAME]))
    if not tests:
        raise SystemExit("no result yet")
    rows = []
    for module, line in tests:
        words = {key: YES[language][value] if isinstance(value, bool) else value for key, value in line.items()}
        does, found = (text[language].format(**words) for text in (module.DOES, module.FOUND))
        rows.append([module.NAME, does, found, YES[language][line["passed"]]])
    values = {
        plural: ", ".join(sorted({line[key] for _, line in tests}))
        for plural, key in (("dates", "date"), ("commits", "commit"), ("processors", "processor"), ("torches", "torch"))
    }
    header = markdown_table(HEADERS[language], rows, text_columns=4)
    return f"{header}\n\n{CAPTIONS[language].format(**values)}"


if __name__ == "__main__":
    main()
