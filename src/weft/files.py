"""Files as weft reads and writes them: lines that end where they should, and nothing half-written. Knows no format."""

import codecs
import gzip
import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from io import BufferedIOBase
from itertools import count
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from weft.errors import CorpusError, Problem, UsageError, WeftError, shown


def open_bytes(path: Path) -> IO[bytes]:
    """Open for reading, unzipping where the name ends with .gz."""
    return cast(IO[bytes], gzip.open(path, "rb")) if path.suffix == ".gz" else open(path, "rb")


@contextmanager
def open_to_write(path: Path) -> Iterator[BinaryIO]:
    """Open for writing, zipping where the name ends with .gz; neither name nor time are in it, so that the same content
    is the same file."""
    with open(path, "wb") as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as zipped:
            yield cast(BinaryIO, zipped)


def read_bytes(path: Path) -> bytes:
    """The file's content, unzipped where its name ends with .gz; CorpusError where it cannot be had."""
    with naming_unreadable(path), open_bytes(path) as file:
        return file.read()


READ_AT_ONCE = 2**16
"""Bytes."""

LONGEST_LINE = 2**24
"""Bytes. A file without any line break is none of sentences, and is not read into memory as one."""
TOO_LONG = f"is longer than {LONGEST_LINE:,} bytes; is this a text file, one sentence or paragraph a line?"


def lines_of(path: Path) -> Iterator[bytes]:
    """The file's lines one after the other, without the "\\n" that ends them (see `split_lines`), unzipped where its
    name ends with .gz; CorpusError where they cannot be had, or not a second time, as those of a pipe."""
    refuse_pipe(path)
    with naming_unreadable(path), open_bytes(path) as file:
        for number in count(1):
            line = file.readline(LONGEST_LINE + 1)
            if not line:
                return
            if len(line) > LONGEST_LINE:
                raise CorpusError(path.name, [Problem(f"line {number}", TOO_LONG)])
            yield line.removesuffix(b"\n")


def refuse_pipe(path: Path) -> None:
    """Raise CorpusError for a pipe or a device, which gives its content once, or never ends."""
    with naming_unreadable(path):
        if path.exists() and not (path.is_file() or path.is_dir()):
            what = "is a pipe or a device, and a corpus is read more than once; save what comes out of it to a file"
            raise CorpusError(path.name, [Problem("the file", what)])


def arriving_lines(file: BufferedIOBase, name: Path, before: int = 0) -> Iterator[list[bytes]]:
    """The lines that came to their end with each read, with the "\\n" that ends them; the last one may have none.

    `before` lines were read before.
    """
    begun: list[bytes] = []
    size = 0
    while True:
        with naming_unreadable(name):
            data = file.read1(READ_AT_ONCE)
        if not data:
            break
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = b"".join([*begun, lines[0]])
            begun, size = [], 0
            yield [line + b"\n" for line in lines]
            before += len(lines)
        if rest:
            begun.append(rest)
            size += len(rest)
        if size > LONGEST_LINE:
            raise CorpusError(name, [Problem(f"line {before + 1}", TOO_LONG)])
    if begun:
        yield [b"".join(begun)]


@contextmanager
def naming_unreadable(path: Path) -> Iterator[None]:
    if "\0" in str(path):
        raise CorpusError(shown(str(path), 200), [Problem("the name", "has a zero byte, which no file's has")])
    try:
        yield
        return
    except FileNotFoundError:
        meant = get_close_matches(path.name, [file.name for file in path.parent.glob("*")], n=1, cutoff=0.8)
        hint = f"; did you mean {meant[0]}?" if meant else ""
        what = f"does not exist (looked in {path.parent.resolve()}){hint}"
    except IsADirectoryError:
        what = "is a folder, not a file"
    except (OSError, EOFError, zlib.error) as error:
        what = f"cannot be read: {error}"
    raise CorpusError(path.name or str(path), [Problem("the file", what)])


def split_lines(data: bytes) -> list[bytes]:
    """Lines end at "\\n" alone, and the last one needs none.

    A carriage return, U+0085 or U+2028 inside a line is part of it, where str.splitlines would shift every line after
    it.
    """
    lines = data.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def decode_lines(lines: Iterable[bytes], problems: list[Problem], first: int = 1) -> Iterator[tuple[int, str]]:
    """(number, text) of each line, from number `first` on; one that is not UTF-8 becomes a problem and is left out.

    A byte order mark before the first line is not part of it, nor is a carriage return at the end of any.
    """
    for number, line in enumerate(lines, start=first):
        mark = len(codecs.BOM_UTF8) if number == 1 and line.startswith(codecs.BOM_UTF8) else 0
        try:
            yield number, line[mark:].removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            byte = f"byte 0x{line[mark + error.start]:02x} at {mark + error.start + 1}"
            what = "convert the file or remove the line"
            if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                what = "it begins as UTF-16 does; convert the file"
            elif encoding := chinese_encoding(line):
                what = f"convert the file from {encoding}, as which it reads: iconv -f {encoding} -t UTF-8"
            problems.append(Problem(f"line {number}", f"is not UTF-8 ({byte}); {what}"))


COMMON_BYTES = {
    "GB18030": (*range(0xA1, 0xA4), *range(0xB0, 0xD8)),
    "BIG5": range(0xA1, 0xC7),
}
"""First bytes of an encoding's signs and of the characters of its level 1, which make up all but some of any text."""


def chinese_encoding(line: bytes) -> str | None:
    """The older encoding of Chinese in which nine of ten characters of a line are common ones, if there is one."""
    for encoding, common in COMMON_BYTES.items():
        with suppress(UnicodeDecodeError):
            wide = [char.encode(encoding) for char in line.decode(encoding) if not char.isascii()]
            # GB 2312's second bytes all are 0xA1 or more; those of Big5 are not, by which the two are told apart.
            are_common = [char[0] in common and (encoding == "BIG5" or char[1] >= 0xA1) for char in wide]
            if len(wide) > 1 and sum(are_common) >= 0.9 * len(wide):
                return encoding
    return None


def refuse_replacing(option: str, path: Path | None, inputs: Iterable[Path | None]) -> None:
    """Raise UsageError where an option's output would replace a folder, a device or one of the inputs (None: an option
    that was not given), or has no folder to lie in that may be written to.

    `-` stands for no file. Called before the work, so that none is lost.
    """
    if path is None or path == Path("-"):
        return
    try:
        folder = path.resolve().parent
        if not folder.is_dir():
            raise UsageError(f"{option} {path} cannot be written: {folder} is no folder")
        if path.exists() and not path.is_file():
            raise UsageError(f"{option} {path} is not a file that can be replaced; name a file")
        if not os.access(folder, os.W_OK):
            raise UsageError(f"{option} {path} cannot be written: {folder} may not be written to")
        if path.exists() and any(other is not None and other.exists() and other.samefile(path) for other in inputs):
            raise UsageError(f"{option} {path} would overwrite an input; name another file")
    except OSError as error:
        raise UsageError(f"{option} {path} cannot be written: {error.strerror}") from None


def refuse_existing_folder(folder: Path) -> None:
    """Raise UsageError where a folder that is to be made is there already, or has no place."""
    try:
        if folder.exists() or folder.is_symlink():
            raise UsageError(f"{folder} is there already; name a new folder")
        if not folder.resolve().parent.is_dir():
            raise UsageError(f"{folder} cannot be made: {folder.resolve().parent} is no folder")
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}") from None


def hold_alone(file: IO[Any]) -> bool:
    """Whether this process holds the file, and no other does, until it closes it; False too where the file has lost its
    name meanwhile, because who held it took it away.

    Raises OSError where its file system has no locks, WeftError where the system has none.
    """
    try:
        import fcntl
    except ImportError:
        raise WeftError(f"weft locks {file.name}, for which this system has no means; use WSL") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file.fileno()), os.stat(file.name))
    except (BlockingIOError, FileNotFoundError):
        return False


def staged_beside(path: Path) -> Path:
    """Where this process writes what shall be at the path when it is whole.

    Beside it, since a rename is one step only within a file system; and by a short name, since its own one may be as
    long as a file system allows, which ends as that does where it says that the file is zipped.
    """
    digest = hashlib.sha256(os.fsencode(path.name)).hexdigest()[:12]
    return path.with_name(f".{digest}.{os.getpid()}.partial{path.suffix if path.suffix == '.gz' else ''}")


def clear_staged(path: Path) -> None:
    """Delete what processes that died have left of staged files for this path; the caller keeps other writers out."""
    for staged in path.parent.glob(staged_beside(path).name.replace(f".{os.getpid()}.", ".*.")):
        clear_away(staged)


def clear_away(staged: Path) -> None:
    """Delete what is left of a staged file. What went wrong before, if anything, is what is to be told."""
    with suppress(OSError):
        staged.unlink(missing_ok=True)


@contextmanager
def staged_file(path: Path) -> Iterator[Path]:
    """Where to write what the path holds, all of it in one step, when the block has ended well; else nothing is left.
    Raises WeftError where the file system refuses."""
    path = path.resolve()
    staged = staged_beside(path)
    try:
        yield staged
        sync(staged)
        os.replace(staged, path)
        sync(path.parent)
    except OSError as error:
        raise WeftError(f"{path} could not be written: {error.strerror}") from error
    finally:
        clear_away(staged)


def write_atomically(path: Path, text: str) -> None:
    """The file holds either its old content or all of the new one, whenever the process dies; "\\n" stays "\\n".

    It is zipped where its name ends with .gz. Half a character, as in a file name that is not UTF-8, becomes its
    escape, which JSON reads again.
    """
    with staged_file(path) as staged, open_to_write(staged) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def sha256(path: Path) -> str:
    """The digest of a file as it lies on disk."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Wait until the file's content, or the folder's list of names, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
