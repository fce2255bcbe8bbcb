"""Frequent slips of English in help texts, docstrings and messages (see "How we write" in CONTRIBUTING.md)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src" / "weft"
SLIPS = {
    '"is no X" for "is not an X"': re.compile(r"(?<!there )(?<!There )\bis no (?!longer\b|more\b|less\b)"),
    "a docstring that needs its neighbor": re.compile(r"^(?:Of|The same(?! command)|That of|Those) "),
}


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the text of every string in a module; the parts of one f-string are strings of their own."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, " ".join(node.value.split())


@pytest.mark.parametrize("slip", SLIPS)
def test_no_text_of_weft_has_this_slip(slip: str) -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{line}: {text[:80]}"
        for path in sorted(SOURCES.rglob("*.py"))
        for line, text in strings(path)
        if SLIPS[slip].search(text)
    ]
    assert found == []
