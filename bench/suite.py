"""A folder of tests that are run by hand: run them one after the other, and tell the last result of each as a table.

Each is a module of the folder, r1_kills.py or v3_overload.py, run in a process of its own. It has a NAME, what it DOES
and how its FOUND figures are told, in both languages of the docs, and a main() that appends a line to the results.
"""

import argparse
import importlib
import re
import string
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from bench.machine import ROOT, SEPARATORS, Line, fill_page, markdown_table, read_lines, say

HEADERS = {"en": ["test", "what is done", "what was found", "passed"], "zh": ["测试", "做什么", "结果", "通过"]}
YES = {"en": {True: "yes", False: "**no**"}, "zh": {True: "是", False: "**否**"}}


@dataclass(frozen=True)
class Suite:
    folder: str
    """Below bench/; the page of the docs that shows the table, and the table's place there, are called the same."""
    lines: Path
    """The results."""
    quick: Mapping[str, Sequence[str]]
    """What some modules are given to be done in little time."""
    captions: Mapping[str, str]
    """Below the table, for each language; names in braces are those of a result's fields."""
    passed_on: Mapping[str, str] = field(default_factory=dict)
    """Options that every module takes, and their help."""

    @property
    def package(self) -> str:
        return f"bench.{self.folder}"

    def module_names(self) -> list[str]:
        """r1_kills, r2_resume, ... by their numbers."""
        names = [path.stem for path in (ROOT / "bench" / self.folder).glob("[a-z][0-9]*_*.py")]
        return sorted(names, key=lambda name: (int(re.findall(r"\d+", name)[0]), name))

    def modules(self) -> list[ModuleType]:
        return [importlib.import_module(f"{self.package}.{name}") for name in self.module_names()]

    def main(self) -> None:
        parser = argparse.ArgumentParser(prog=f"python -m {self.package}", description=f"Run the {self.folder} tests.")
        parser.add_argument(
            "--only", nargs="+", default=[], metavar="TEST", help="such as r1, 1 or its name; left out: all of them"
        )
        parser.add_argument("--quick", action="store_true", help="in little time, to see that the tests work")
        parser.add_argument("--results", type=Path, default=self.lines, help="the file that gets a line a test")
        parser.add_argument("--table", action="store_true", help="run nothing, print the last results")
        parser.add_argument("--docs", action="store_true", help="also put the table into the docs")
        for name, text in self.passed_on.items():
            parser.add_argument(f"--{name}", help=text)
        options = parser.parse_args()
        names = self.called(options.only, parser) if options.only else self.module_names()
        failed = [] if options.table else [name for name in names if not self.run(name, options)]
        tables = {language: self.table(read_lines(options.results), language) for language in HEADERS}
        print(tables["en"])
        if options.docs:
            fill_page(f"{self.folder}.md", self.folder, tables)
        if failed:
            raise SystemExit(f"not passed: {', '.join(failed)}")

    def called(self, words: list[str], parser: argparse.ArgumentParser) -> list[str]:
        """The modules that these words name: r1_kills by r1_kills, and it and others of its number by r1 or 1."""
        names = self.module_names()
        short = {name: name.partition("_")[0] for name in names}
        words_of = {name: {name, short[name], short[name][1:]} for name in names}
        wanted = {word.lower() for word in words}
        if unknown := [word for word in words if word.lower() not in set().union(*words_of.values())]:
            parser.error(f"there is no test {', '.join(unknown)}; there are {', '.join(names)}")
        return [name for name in names if words_of[name] & wanted]

    def run(self, name: str, options: argparse.Namespace) -> bool:
        """Whether the test was passed."""
        say(f"{name} ...")
        command = [sys.executable, "-m", f"{self.package}.{name}", "--results", str(options.results)]
        for option in self.passed_on:
            if (value := getattr(options, option)) is not None:
                command += [f"--{option}", value]
        return (
            subprocess.run([*command, *(self.quick.get(name, ()) if options.quick else ())], check=False).returncode
            == 0
        )

    def table(self, lines: list[Line], language: str) -> str:
        """The last line of each test as Markdown."""
        last = {line["test"]: line for line in lines}
        tested = [(module, last[module.NAME]) for module in self.modules() if module.NAME in last]
        if not tested:
            raise SystemExit("no result yet")
        rows = []
        for module, line in tested:
            words = {key: YES[language][value] if isinstance(value, bool) else value for key, value in line.items()}
            told = (text[language].format(**words) for text in (module.DOES, module.FOUND))
            rows.append([module.NAME, *told, YES[language][line["passed"]]])
        caption = self.captions[language]
        fields = {name for _, name, _, _ in string.Formatter().parse(caption) if name}
        values = {name: SEPARATORS[language].join(sorted({str(line[name]) for _, line in tested})) for name in fields}
        return f"{markdown_table(HEADERS[language], rows, text_columns=4)}\n\n{caption.format(**values)}"
