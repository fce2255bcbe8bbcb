"""All tests of the server, one after the other: `make bench-serving`, or `python -m bench.serving --model DIR`.

Each is a module v*.py of this folder, run in a process of its own; see place.py for what it has. `--only v1 v3` runs
some, `--quick` runs all in little time, to see that they work. `--docs` puts the last line of each into
docs/*/serving.md, and with `--table` nothing is run.
"""

import argparse
import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.machine import fill_page, markdown_table, read_lines, say
from bench.serving.place import LINES

QUICK = {
    "v1_malformed": ["--malformed", "500", "--examples", "20"],
    "v2_soak": ["--seconds", "5"],
    "v3_overload": ["--seconds", "4"],
    "v4_clients": ["--clients", "50", "--silent", "10"],
    "v5_drain": ["--rounds", "1"],
    "v6_keys": ["--samples", "500"],
    "v11_batches": ["--texts", "200"],
    "v12_swap": ["--swaps", "2"],
    "v13_start": ["--rounds", "2"],
}
HEADERS = {"en": ["test", "what is done", "what was found", "passed"], "zh": ["测试", "做什么", "结果", "通过"]}
YES = {"en": {True: "yes", False: "**no**"}, "zh": {True: "是", False: "**否**"}}
CAPTIONS = {
    "en": "Measured on {date}, weft {commit}, {cores} cores of {processor}, torch {torch}; model {model}. The "
    "clients ran on the same "
    "cores as the server.",
    "zh": "测量于 {date}，weft {commit}，{processor} 的 {cores} 个核，torch {torch}；模型 {model}。"
    "客户端与服务器用的是同样的核。",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.serving", description="Run the tests of the server.")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEST", help="such as v1 v5; left out: all of them")
    parser.add_argument("--model", help="a zh-en model to serve (left out: a tiny one is trained for each)")
    parser.add_argument("--quick", action="store_true", help="in little time, to see that the tests work")
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
        fill_page("serving.md", "serving", tables)
    if failed:
        raise SystemExit(f"not passed: {', '.join(failed)}")


def module_names() -> list[str]:
    """v1_malformed, v2_soak, ... by their numbers."""
    names = [path.stem for path in Path(__file__).parent.glob("v[0-9]*_*.py")]
    return sorted(names, key=lambda name: int(re.findall(r"\d+", name)[0]))


def run(name: str, options: argparse.Namespace) -> bool:
    """Whether the test was passed."""
    say(f"{name} ...")
    command = [sys.executable, "-m", f"bench.serving.{name}", "--results", str(options.results)]
    command += ["--model", options.model] if options.model else []
    return subprocess.run(command + (QUICK[name] if options.quick else []), check=False).returncode == 0


def table(lines: list[dict[str, Any]], language: str) -> str:
    """The last line of each test as Markdown."""
    last = {line["test"]: line for line in lines}
    modules = [importlib.import_module(f"bench.serving.{name}") for name in module_names()]
    tested = [(module, last[module.NAME]) for module in modules if module.NAME in last]
    if not tested:
        raise SystemExit("no result yet")
    rows = [
        [
            module.NAME,
            *(text[language].format(**line) for text in (module.DOES, module.FOUND)),
            YES[language][line["passed"]],
        ]
        for module, line in tested
    ]
    kinds = ("date", "commit", "processor", "torch", "model", "cores")
    values = {kind: ", ".join(sorted({str(line[kind]) for _, line in tested})) for kind in kinds}
    return f"{markdown_table(HEADERS[language], rows, text_columns=4)}\n\n{CAPTIONS[language].format(**values)}"


if __name__ == "__main__":
    main()
