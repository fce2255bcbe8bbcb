"""The type of the fixture `weft`: it runs a command and returns its exit code, its stdout and its stderr."""

from collections.abc import Callable

Weft = Callable[..., tuple[int, str, str]]
