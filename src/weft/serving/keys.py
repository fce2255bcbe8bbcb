"""API keys: a server keeps the SHA-256 of each, and compares all of them in constant time.

A file of keys has a line for each: the digest in hex, then a name that people give it. A `#` begins a comment.

    3f0a...c4  page of the library
"""

import hashlib
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.errors import Problem, ProblemsError, UsageError, WeftError

PREFIX = "weft-"
LINE = re.compile(r"([0-9a-fA-F]{64})(?:\s+(.*))?")
LARGEST_FILE = 1 << 20


@dataclass(frozen=True)
class Keys:
    """Digests of the keys that are let in; empty where no key is asked for."""

    digests: tuple[bytes, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.digests)

    def admit(self, key: bytes) -> bool:
        """Whether this is one of the keys. Every digest is compared to its end, whichever is right."""
        given = hashlib.sha256(key).digest()
        found = False
        for digest in self.digests:
            found |= secrets.compare_digest(digest, given)
        return found


def make_key() -> str:
    """A new key of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def line_for(key: str, name: str) -> str:
    """What stands in a file for this key; the name is kept to one line."""
    return f"{hashlib.sha256(key.encode()).hexdigest()}  {' '.join(name.split())}".rstrip()


def add_key(path: Path, key: str, name: str) -> None:
    """Append the key's line to a file, which only its owner may read where it is made for this.

    Raises UsageError or ProblemsError where `refuse_to_spoil` does.
    """
    try:
        line = f"{line_for(key, name)}\n".encode()
    except UnicodeEncodeError:
        raise UsageError(f"the name {name!a} is not UTF-8; give another one") from None
    refuse_to_spoil(path)
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        with open(handle, "a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else b"\n" + line  # the last line is somebody's without an end
            file.write(line)
    except OSError as error:
        raise WeftError(f"{path} could not be written: {error.strerror}") from error


def refuse_to_spoil(path: Path) -> None:
    """Raise UsageError or ProblemsError for what is there and holds anything but keys, which another would spoil."""
    try:
        if not path.exists():
            return
    except OSError as error:
        raise UsageError(f"{path} could not be looked at: {error.strerror}") from None
    if not path.is_file():
        raise UsageError(f"{path} is no file; name another one by --api-keys")
    digests_of(lines_of(path), path)


def read_keys(path: Path) -> Keys:
    """The keys of a file. Raises UsageError where there is none to read, ProblemsError with every line that is none."""
    digests = digests_of(lines_of(path), path)
    if not digests:
        what = f"holds no key; make one with weft serve --make-key NAME --api-keys {path}"
        raise ProblemsError(path, [Problem("the file", what)])
    return Keys(tuple(digests))


def lines_of(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise UsageError(
                f"{path} is larger than {LARGEST_FILE >> 10} KiB; a file of keys has a short line for each"
            )
        return content.decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"the keys in {path} cannot be read: {reason}; weft serve --make-key NAME makes one") from None


def digests_of(lines: Sequence[str], path: Path) -> list[bytes]:
    digests, problems = [], []
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        match = LINE.fullmatch(text)
        if match is not None:
            digests.append(bytes.fromhex(match[1]))
        elif text:
            problems.append(Problem(f"line {number}", "is not the SHA-256 of a key in hex, then a name"))
    if problems:
        raise ProblemsError(path, problems)
    return digests
