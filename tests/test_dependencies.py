"""What weft is built on stands in pyproject.toml."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
THE_USERS = {"comet"}
"""Libraries that the user installs, where they are wanted at all."""


def imported_by(file: Path) -> Iterator[str]:
    """The first part of the name of each module that is imported anywhere in a file."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module).partition(".")[0]


def test_every_library_that_is_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [libraries for name, libraries in project["optional-dependencies"].items() if name != "dev"]
    declared = {
        re.split(r"[^\w-]", library)[0].lower()
        for libraries in (project["dependencies"], *extras)
        for library in libraries
    }
    imported = {name for file in (ROOT / "src").rglob("*.py") for name in imported_by(file)}
    distributions = packages_distributions()
    undeclared = {
        name
        for name in imported - sys.stdlib_module_names - {"weft", *THE_USERS}
        if declared.isdisjoint(one.lower().replace("_", "-") for one in distributions.get(name, [name]))
    }
    assert undeclared == set()
