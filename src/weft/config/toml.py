"""What the standard library's TOML reader leaves out: it does not write, and does not tell where a key stands.

It knows nothing of recipes.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

KeyPath = tuple[str | int, ...]
"""Where a value stands: the names of tables and key, and for something in a list its place, from 0."""
DEEPEST = 40
"""Tables and lists within each other; no recipe has so many, and Python's stack does not hold any number."""
TOO_DEEP = "tables or lists are nested too deeply"
MOST_REREAD = 1 << 17
"""Characters that are read again while the ends of statements are looked for; it costs the square of a long one."""
MOST_BITS = 1024
"""Of a whole number; a hexadecimal one may have any, and Python refuses to write it in decimal."""
SIMPLE_KEY = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.){0,100}+"|'[^'\n]{0,100}+')"""
DEEP_KEY = re.compile(rf"(?<![\w-])(?:{SIMPLE_KEY}[ \t]*+\.[ \t]*+){{{DEEPEST}}}")
"""The beginning of a dotted key with so many parts: `tomllib` takes the square of their number in time and memory."""


def read_toml(text: str) -> dict[str, Any]:
    """What `tomllib` reads. Raises TOMLDecodeError also where the content is more than Python can work with."""
    if DEEP_KEY.search(text):
        raise tomllib.TOMLDecodeError(TOO_DEEP)
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError(TOO_DEEP) from None
    except ValueError as error:  # a number with thousands of digits, beside the TOMLDecodeError
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
    """A value as TOML on one line, so that `tomllib` reads the same value back; keys that hold None are left out."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        # A JSON string is a TOML basic string, but for DEL, which JSON leaves as it is and TOML forbids.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        pairs = [f"{write_key(key)} = {write_value(inner)}" for key, inner in value.items() if inner is not None]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(write_value, value))}]"
    raise TypeError(f"{type(value).__name__} has no form in TOML")


def write_key(key: str) -> str:
    """A key as TOML: bare where it may be, else quoted."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else write_value(key)


@dataclass(frozen=True)
class Statement:
    """One statement of a TOML text: a table's header, a key with its value, a comment or an empty line."""

    line: int
    """Where it begins, counted from 1."""
    table: KeyPath
    """The table it stands in; the number in `("train", 0)` counts the headers `[[train]]` before."""
    text: str
    content: dict[str, Any]
    """What the text means when read alone; empty for a comment."""

    @property
    def comment(self) -> str:
        """What follows the statement's last `#`, where that begins a comment; else empty."""
        before, _, comment = self.text.rpartition("#")
        try:
            return comment.strip() if tomllib.loads(before) == self.content else ""
        except tomllib.TOMLDecodeError:  # the # belongs to a string
            return ""


@lru_cache(maxsize=4)
def statements(text: str) -> tuple[Statement, ...]:
    """The statements of a text that is known to be valid TOML.

    A statement ends with the first line up to which `tomllib` can read it: nothing here has to know what a string is.
    Stops early, at a statement of very many lines.
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
    """The path of the table that a header opens, each list of tables in it followed by the place of its last entry."""
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
    """The path of every table and key of a valid TOML text -> the line on which its statement begins."""
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
