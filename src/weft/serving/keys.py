"""API keys: a server stores the SHA-256 of each key, and compares all of them in constant time.

A file of keys has one line per key: its digest in hex, then a name for people. A `#` begins a comment.

    3f0a...c4  page of the library
"""

import hashlib
import os
import re
import secrets
import shlex
from dataclasses import dataclass
from pathlib import Path

from weft.errors import Problem, ProblemsError, UsageError, WeftError

PREFIX = "weft-"
LINE = re.compile(r"([0-9a-fA-F]{64})(?:\s+(.*))?")
MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class Keys:
    """Digests of the valid keys; empty if none is required."""

    digests: tuple[bytes, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.digests)

    def admit(self, key: bytes) -> bool:
        """Whether the key is valid. Every digest is compared to its end, whichever matches."""
        given = hashlib.sha256(key).digest()
        found = False
        for digest in self.digests:
            found |= secrets.compare_digest(digest, given)
        return found


def make_key() -> str:
    """A new key of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def line_for(key: str, name: str) -> str:
    """The line of a file for this key; the name is joined to one line."""
    return f"{hashlib.sha256(key.encode()).hexdigest()}  {' '.join(name.split())}".rstrip()


def add_key(path: Path, key: str, name: str) -> None:
    """Append a key's line to a file, which is made readable for its owner alone. Raises as `check_key_file` does."""
    try:
        line = f"{line_for(key, name)}\n".encode()
    except UnicodeEncodeError:
        raise UsageError(f"the name {name!a} is not UTF-8; give another one") from None
    check_key_file(path)
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        with open(handle, "a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else b"\n" + line  # the last line has no end
            file.write(line)
    except OSError as error:
        raise WeftError(f"{path} could not be written: {error.strerror}") from error


def check_key_file(path: Path) -> None:
    """Raise UsageError or ProblemsError if the path exists and is not a file of keys, to which a key may be added."""
    try:
        exists = path.exists()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if exists:
        if not path.is_file():
            raise UsageError(f"{path} is not a file; name another one by --api-keys")
        read_digests(path)


def read_keys(path: Path) -> Keys:
    """The keys of a file. Raises UsageError if it cannot be read, ProblemsError with every invalid line."""
    digests = read_digests(path)
    if not digests:
        what = f"holds no key; make one with weft serve --make-key NAME --api-keys {shlex.quote(str(path))}"
        raise ProblemsError(path, [Problem("the file", what)])
    return Keys(tuple(digests))


def read_digests(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"the keys in {path} cannot be read: {reason}; weft serve --make-key NAME makes one") from None
    if len(content) > MAX_BYTES:
        raise UsageError(f"{path} is larger than {MAX_BYTES >> 10} KiB; a file of keys has a short line for each")
    digests, problems = [], []
    for number, line in enumerate(content.splitlines(), start=1):
        text = line.partition("#")[0].strip()
        match = LINE.fullmatch(text)
        if match is not None:
            digests.append(bytes.fromhex(match[1]))
        elif text:
            problems.append(Problem(f"line {number}", "is not the SHA-256 of a key in hex, then a name"))
    if problems:
        raise ProblemsError(path, problems)
    return digests
