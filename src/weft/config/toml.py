"""What `tomllib` does not offer: writing values, and finding the line on which a key is set.

Nothing here is specific to recipes.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

KeyPath = tuple[str | int, ...]
"""The path of a value: the names of its tables and its key; for an entry of a list, its index."""
DEEPEST = 40
"""Deepest nesting of tables and lists that is read; deeper nesting could overflow Python's stack."""
TOO_DEEP = "tables or lists are nested too deeply"
MOST_REREAD = 1 << 17
"""Characters that may be parsed repeatedly to find where statements end, which is quadratic in their length."""
MOST_BITS = 1024
"""Largest size of a whole number. Hexadecimal ones have no limit, and Python refuses to write huge ones in decimal."""
SIMPLE_KEY = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.){0,100}+"|'[^'\n]{0,100}+')"""
DEEP_KEY = re.compile(rf"(?<![\w-])(?:{SIMPLE_KEY}[ \t]*+\.[ \t]*+){{{DEEPEST}}}")
"""The beginning of a dotted key with too many parts, for which `tomllib` needs quadratic time and memory."""


def read_toml(text: str) -> dict[str, Any]:
    """Parse TOML with `tomllib`. Raises TOMLDecodeError also for nesting and numbers that Python cannot handle."""
    if DEEP_KEY.search(text):
        raise tomllib.TOMLDecodeError(TOO_DEEP)
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError(TOO_DEEP) from None
    except ValueError as error:  # a TOMLDecodeError, or a number with thousands of digits
        raise tomllib.TOMLDecodeError(str(error)) from None
    level: list[Any] = [document]
    for _ in range(DEEPEST):
        level = [inner for value in level for inner in _inside(value)]
        if any(isinstance(value, int) and value.bit_length() > MOST_BITS for value in level):
            raise tomllib.TOMLDecodeError("a whole number has hundreds of digits")
    if level:
        raise tomllib.TOMLDecodeError(TOO_DEEP)
    return document


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def write_value(value: Any) -> str:
    """Write a value as TOML on one line, such that `tomllib` reads it back unchanged; keys with None are left out."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        # A JSON string is a valid TOML basic string except for DEL, which JSON does not escape and TOML forbids.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        pairs = [f"{write_key(key)} = {write_value(inner)}" for key, inner in value.items() if inner is not None]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(write_value, value))}]"
    raise TypeError(f"{type(value).__name__} cannot be written as TOML")


def write_key(key: str) -> str:
    """Write a key as TOML, quoted if necessary."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else write_value(key)


@dataclass(frozen=True)
class Statement:
    """One statement of a TOML text: a table's header, a key with its value, a comment or an empty line."""

    line: int
    """The line on which it begins, counted from 1."""
    table: KeyPath
    """The table that contains it; `("train", 0)` is the table under the first header `[[train]]`."""
    text: str
    content: dict[str, Any]
    """The text parsed on its own; empty for a comment."""

    @property
    def comment(self) -> str:
        """The text after the last `#`, if that begins a comment; else empty."""
        before, _, comment = self.text.rpartition("#")
        try:
            return comment.strip() if tomllib.loads(before) == self.content else ""
        except tomllib.TOMLDecodeError:  # the # is inside a string
            return ""


@lru_cache(maxsize=4)
def statements(text: str) -> tuple[Statement, ...]:
    """Split valid TOML into statements.

    A statement ends at the first line up to which `tomllib` can parse it, so no other knowledge of TOML's syntax is
    needed. Stops before a statement with very many lines.
    """
    return tuple(_statements(text))


def _statements(text: str) -> Iterator[Statement]:
    table: KeyPath = ()
    headers: dict[KeyPath, int] = {}
    chunk: list[str] = []
    reread = 0
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        chunk.append(line)
        try:
            content = tomllib.loads("\n".join(chunk))
        except tomllib.TOMLDecodeError:
            reread += sum(map(len, chunk))
            if reread > MOST_REREAD:
                return
            continue
        first = chunk[0].lstrip()
        if first.startswith("["):
            table = _entered(content, headers, repeats=first.startswith("[["))
        yield Statement(number - len(chunk) + 1, table, "\n".join(chunk), content)
        chunk = []


def _entered(content: dict[str, Any], headers: dict[KeyPath, int], repeats: bool) -> KeyPath:
    """The path of the table that a header opens; a list of tables in it is followed by the index of its last entry."""
    path: KeyPath = ()
    names = list(_only_path(content))
    for position, name in enumerate(names, start=1):
        path += (name,)
        if repeats and position == len(names):
            headers[path] = headers.get(path, -1) + 1
        if path in headers:
            path += (headers[path],)
    return path


def _only_path(content: Any) -> Iterator[str]:
    """The names in `{"a": {"b": {}}}` or `{"a": {"b": [{}]}}`: a, b."""
    while isinstance(content, dict) and content:
        ((name, content),) = content.items()
        yield name


def line_numbers(text: str) -> dict[KeyPath, int]:
    """For the path of every table and key in valid TOML, the line on which its statement begins."""
    lines: dict[KeyPath, int] = {}
    for statement in statements(text):
        if statement.text.lstrip().startswith("["):
            for depth in range(1, len(statement.table) + 1):
                lines.setdefault(statement.table[:depth], statement.line)
        else:
            for path in _paths(statement.content):
                lines.setdefault((*statement.table, *path), statement.line)
    return lines


def _paths(content: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(content, dict):
        for name, inner in content.items():
            yield (name,)
            yield from ((name, *path) for path in _paths(inner))
