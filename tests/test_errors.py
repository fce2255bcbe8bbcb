"""Errors that a user can meet."""

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from weft import errors
from weft.errors import FailedElsewhere, LostTouch, MissingExtraError, Problem, ProblemsError, WeftError, shown

PROBLEMS = ("mine.toml", [Problem("model.heads", "unknown key")])
GIVEN = {MissingExtraError: ("sacrebleu", "train"), LostTouch: (1, 2, "no answer"), FailedElsewhere: ("no memory", 3)}


def family(kind: type[WeftError] = WeftError) -> Iterator[type[WeftError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from family(child)


def sent(error: WeftError) -> WeftError:
    return pickle.loads(pickle.dumps(error))  # noqa: S301 (what is read is our own)


@pytest.mark.parametrize("copied", [copy.copy, sent])
@pytest.mark.parametrize("kind", sorted({kind for kind in family() if kind.__module__ == errors.__name__}, key=str))
def test_an_error_comes_whole_out_of_another_process(kind: type[WeftError], copied) -> None:
    given: tuple[Any, ...] = PROBLEMS if issubclass(kind, ProblemsError) else GIVEN.get(kind, ("what was wrong",))
    error = kind(*given)
    found = copied(error)
    assert (type(found), str(found), found.exit_code) == (kind, str(error), error.exit_code)
    assert vars(found) == vars(error)


def test_text_for_a_terminal_keeps_line_feeds_and_joiners_and_escapes_what_steers_it() -> None:
    kept = "می\u200cخواهم क्\u200dष 👩\u200d🔬\n"
    assert shown(f"{kept}\x1b[31m\u202e\u200f\ufeff", 99) == f"{kept}\\x1b[31m\\u202e\\u200f\\ufeff"
    assert shown("abc", 2) == "ab..."
