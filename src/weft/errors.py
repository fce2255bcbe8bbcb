"""The errors that weft raises for its users. Each says what was wrong, where, and what to do.

WeftError                 the work failed                                          exit code 1
├── UsageError            the command asks for something impossible                exit code 2
│   └── RecipeError       a recipe has problems, all of them listed                exit code 2
├── ProblemsError         something has problems, all of them listed               exit code 1
│   ├── RecipeError       (a UsageError as well)
│   ├── CorpusError       a data file                                              exit code 1
│   └── ModelError        a folder that is not a complete, unaltered model         exit code 1
├── RunError              a run folder cannot be used as asked                     exit code 1
├── MissingExtraError     an optional library is required but not installed        exit code 1
├── MemoryRanOut          memory ran out, and a smaller batch would not help       exit code 1
├── WorkerLost            a worker process was killed                              exit code 1
├── LostTouch             another process of the run is gone                       exit code 1
├── FailedElsewhere       another process of the run failed and reports why        that one's exit code
└── Stopped               a signal stopped the work; the same command resumes it   exit code 3
    └── Paused            training has come to the step that a caller named        exit code 3
"""

import copyreg
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Problem:
    """One problem: `where` it is (a key, a line number, a file) and `what` is wrong there."""

    where: str
    what: str


class WeftError(Exception):
    """An error caused by a command, a file or the machine; never a bug in weft."""

    exit_code = 1

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the message and attributes; subclasses' `__init__` take other arguments."""
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class ProblemsError(WeftError):
    """All problems of one file, folder or recipe.

    The text is a headline, then one aligned line per problem:

        recipes/de-en.toml has 2 problems
          training.learning_rat   unknown key; did you mean `learning_rate`?
          model.num_heads = 6     must divide model.model_dim = 512; try 4 or 8
    """

    most_listed = 20

    def __init__(self, subject: str | Path, problems: Sequence[Problem]) -> None:
        self.subject = str(subject)
        self.problems = tuple(problems)
        super().__init__(self._describe())

    def _describe(self) -> str:
        count = len(self.problems)
        listed = [(shown(p.where, 200), shown(p.what, 5000)) for p in self.problems[: self.most_listed]]
        width = min(40, max((len(where) for where, _ in listed), default=0))
        lines = [f"{shown(self.subject, 1000)} has {counted(count, 'problem')}"]
        lines += [f"  {where:<{width}}  {what}" for where, what in listed]
        if count > len(listed):
            lines.append(f"  ... and {count - len(listed)} more")
        return "\n".join(lines)


def shown(text: str, most: int) -> str:
    """Make text from a file safe for a terminal: escape control characters and cut it after `most` characters.

    Line feeds stay, and so do the joiners (U+200C and U+200D) that Persian, Hindi and emoji are spelled with.
    """
    safe = "".join(
        c if c in "\n\u200c\u200d" or unicodedata.category(c)[0] != "C" else ascii(c)[1:-1] for c in text[:most]
    )
    return safe if len(text) <= most else f"{safe}..."


class UsageError(WeftError):
    """The command line asks for something impossible."""

    exit_code = 2


def counted(number: int, what: str) -> str:
    """A number of things in words: "1 pair", "1,250 pairs"."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def refuse_one_string(given: object, what: str, one: str = "text") -> None:
    """Raise UsageError for a string in place of a list, because its characters would be taken as the entries."""
    if isinstance(given, str | bytes):
        raise UsageError(f"{what} takes a list of {one}s, found one string; write [{one}]")


def listed(given: Any, what: str, one: str = "text") -> list[Any]:
    """Convert an iterable to a list.

    Raises UsageError for a string or a dict, whose characters or keys would be taken as the entries, and for anything
    that is not iterable.
    """
    refuse_one_string(given, what, one)
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise UsageError(f"{what} takes a list of {one}s, found {type(given).__name__}")
    return list(given)


def as_path(given: Any, what: str) -> Path:
    """Convert a string or a path to a path. Raises UsageError for anything else."""
    if not isinstance(given, str | os.PathLike):
        raise UsageError(f"{what} is named by a string or a path, found {type(given).__name__}")
    return Path(given)


def check_strings(entries: Iterable[object], one: str) -> None:
    """Raise UsageError for the first entry that is not a string."""
    for number, entry in enumerate(entries, start=1):
        if not isinstance(entry, str):
            raise UsageError(f"{one} {number} is not a string: found {type(entry).__name__}")


def is_count(number: object) -> bool:
    """Whether a value is a whole number of at least 1."""
    return isinstance(number, Integral) and int(number) >= 1


class RecipeError(ProblemsError, UsageError):
    """A recipe has problems."""

    exit_code = 2


class CorpusError(ProblemsError):
    """A data file has problems."""


class ModelError(ProblemsError):
    """A folder is not a complete, unaltered model that this version can read."""


class RunError(WeftError):
    """A run folder cannot be used as asked: it is locked, belongs to another recipe, or its data changed."""


class MissingExtraError(WeftError):
    """An optional library is required but not installed."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"{library} is needed for this; install it with: pip install '.[{extra}]' in weft's checkout")


@contextmanager
def needing(library: str, extra: str) -> Iterator[None]:
    """Import an optional library in the block. Raises MissingExtraError if it is not installed."""
    try:
        yield
    except ImportError:
        raise MissingExtraError(library, extra) from None


class MemoryRanOut(WeftError):
    """Memory ran out, and a smaller batch would not help."""


class WorkerLost(WeftError):
    """A worker process of this one was killed from outside."""


NO_MEMORY = (
    *("out of memory", "not enough memory", "DefaultCPUAllocator", "CUBLAS_STATUS_ALLOC_FAILED"),
    *("failed to allocate", "Failed to allocate", "bad_alloc"),
)
"""Parts of the messages with which torch, CTranslate2 and ONNX Runtime report that memory ran out."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error reports that memory ran out.

    If Linux itself runs out of memory, there is no error: the kernel kills a process with SIGKILL.
    """
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and says_no_memory(error)


def says_no_memory(error: BaseException) -> bool:
    return any(text in str(error) for text in NO_MEMORY)


class LostTouch(WeftError):
    """Another process of the same run has ended or does not respond."""

    def __init__(self, rank: int, size: int, reason: str) -> None:
        reason = reason.partition("Last error:")[2].strip() or reason  # what NCCL says of its own machine
        super().__init__(
            f"process {rank} of {size} (counted from 0) has lost touch with another one, which has ended or does not "
            "respond; its message, if any, is above. Everything saved is intact, and the same command resumes from "
            f"there. ({reason.strip().splitlines()[0].partition('. ')[0]})"
        )


class FailedElsewhere(WeftError):
    """Another process of the same run failed. It reports why, so this one ends without a message."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class Stopped(WeftError):
    """A signal stopped the work after its state was saved; running the same command again resumes it."""

    exit_code = 3


class Paused(Stopped):
    """Training has come to the step that a caller named, and its state was saved."""
