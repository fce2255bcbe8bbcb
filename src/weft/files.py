"""Reading lines and writing files atomically. File formats are handled elsewhere."""

import codecs
import gzip
import hashlib
import io
import os
import re
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from io import BufferedIOBase
from itertools import count
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from weft.errors import CorpusError, Problem, UsageError, WeftError, shown


def open_bytes(path: Path) -> IO[bytes]:
    """Open for reading; decompress if the name ends with .gz, or the content begins as gzip does."""
    return cast(IO[bytes], gzip.open(path, "rb")) if is_gzipped(path) else open(path, "rb")


def is_gzipped(path: Path) -> bool:
    if path.suffix == ".gz" or not path.is_file():
        return path.suffix == ".gz"
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


@contextmanager
def open_to_write(path: Path) -> Iterator[BinaryIO]:
    """Open for writing; compress if the name ends with .gz, without name or time, so that equal content gives equal
    files. A descriptor of this process is written where it stands, without being truncated."""
    number = own_descriptor(path)
    with open(path if number is None else os.dup(number), "wb") as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as zipped:
            yield cast(BinaryIO, zipped)


def own_descriptor(path: Path) -> int | None:
    """The number of the open file of this process that a path names, as /dev/stdout and /dev/fd/3 do; None for other
    paths. The file behind it must not be replaced: with `>>` it has content already."""
    folders = {os.path.realpath(folder) for folder in ("/dev/fd", "/proc/self/fd", "/proc/thread-self/fd")}
    place = os.path.abspath(path)
    if "\0" in place:
        return None
    for _ in range(MOST_LINKS):
        folder, name = os.path.split(place)
        if os.path.realpath(folder) in folders and name.isascii() and name.isdecimal():
            return int(name)
        if not os.path.islink(place):
            break
        place = os.path.join(folder, os.readlink(place))
    return None


def is_stream(path: Path) -> bool:
    """Whether a path is read or written as the content comes: a descriptor of this process, a pipe, a device."""
    is_other = os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))
    return is_other or own_descriptor(path) is not None


def read_bytes(path: Path) -> bytes:
    """The content of a file, decompressed if its name ends with .gz. Raises CorpusError if it cannot be read."""
    with reporting_read_errors(path), open_bytes(path) as file:
        return file.read()


READ_AT_ONCE = 2**16
"""In bytes."""

MOST_LINKS = 40
"""Symbolic links from a path to its file, as Linux allows."""

LONGEST_LINE = 2**24
"""In bytes. A longer line means that the file is not text, and it is not read into memory."""
TOO_LONG = f"is longer than {LONGEST_LINE:,} bytes; is this a text file with one sentence or paragraph per line?"


def lines_of(path: Path) -> Iterator[bytes]:
    """Iterate over a file's lines without their "\\n" (see `split_lines`), decompressed if its name ends with .gz.

    Raises CorpusError if the file cannot be read, or cannot be read twice, like a pipe.
    """
    refuse_pipe(path)
    with reporting_read_errors(path), in_utf_8(open_bytes(path)) as file:
        for number in count(1):
            line = file.readline(LONGEST_LINE + 1)
            if not line:
                return
            if len(line) > LONGEST_LINE:
                raise CorpusError(path.name, [Problem(f"line {number}", TOO_LONG)])
            yield line.removesuffix(b"\n")


def refuse_pipe(path: Path) -> None:
    """Raise CorpusError for a pipe or a device, which can be read only once or never ends."""
    with reporting_read_errors(path):
        if path.exists() and not (path.is_file() or path.is_dir()):
            what = "is a pipe or a device, and a corpus is read more than once; save its content to a file"
            raise CorpusError(path.name, [Problem("the file", what)])


def arriving_lines(file: BufferedIOBase, name: Path, before: int = 0) -> Iterator[list[bytes]]:
    """Yield the lines completed by each read, with their "\\n", which the last line may lack.

    `before` is the number of lines read earlier, for the line numbers in errors.
    """
    begun: list[bytes] = []
    size = 0
    while True:
        with reporting_read_errors(name):
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
def reporting_read_errors(path: Path) -> Iterator[None]:
    """Raise CorpusError, with a near match for a missing file, for errors while a file is read in the block."""
    if "\0" in str(path):
        raise CorpusError(shown(str(path), 200), [Problem("the name", "contains a null byte, which no file name may")])
    try:
        yield
        return
    except FileNotFoundError:
        meant = get_close_matches(path.name, [file.name for file in path.parent.glob("*")], n=1, cutoff=0.8)
        hint = f"; did you mean {meant[0]}?" if meant else ""
        what = f"does not exist (looked in {path.parent.resolve()}){hint}"
        if path.is_symlink():
            what = f"is a link to {os.readlink(path)}, which does not exist"
    except IsADirectoryError:
        what = "is a folder, not a file"
    except (OSError, EOFError, zlib.error) as error:
        what = f"cannot be read: {error}"
    raise CorpusError(path.name or str(path), [Problem("the file", what)])


def split_lines(data: bytes) -> list[bytes]:
    """Split at "\\n" only; the last line may lack it.

    A carriage return, U+0085 or U+2028 stays part of its line: str.splitlines would split there and shift all later
    lines.
    """
    lines = data.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def decode_lines(lines: Iterable[bytes], problems: list[Problem], first: int = 1) -> Iterator[tuple[int, str]]:
    """Yield (number, text) for each line, counting from `first`; lines that are not UTF-8 are added to `problems`.

    A byte order mark before line 1 and a carriage return at the end of a line are removed.
    """
    for number, line in enumerate(lines, start=first):
        mark = len(codecs.BOM_UTF8) if number == 1 and line.startswith(codecs.BOM_UTF8) else 0
        try:
            yield number, line[mark:].removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            byte = f"byte 0x{line[mark + error.start]:02x} at {mark + error.start + 1}"
            what = "convert the file, or repair the line"
            told = (encoding_by_mark(line) if number == 1 else None) or chinese_encoding(line)
            if encoding := told or chinese_encoding(line, any):
                what = f"convert the file{'' if told else ', perhaps'} from {encoding}: iconv -f {encoding} -t UTF-8"
            problems.append(Problem(f"line {number}", f"is not UTF-8 ({byte}); {what}"))


MARKS = {
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),  # first: one begins with a mark of UTF-16
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}


def encoding_by_mark(head: bytes) -> str | None:
    """The encoding whose byte order mark a text begins with, if any, except UTF-8."""
    return next((encoding for encoding, marks in MARKS.items() if head.startswith(marks)), None)


COMMON_BYTES = {
    "GB18030": (*range(0xA1, 0xA4), *range(0xB0, 0xD8)),
    "BIG5": range(0xA1, 0xC7),
}
"""First bytes of an encoding's punctuation and level 1 characters, which make up nearly all of any text."""
FREQUENT = frozenset(
    "，。！？、：的一是不了在人有我他这這個个们們来來说說要就会會到大上也那好你她么麼没沒为為去看吗嗎什"
)
"""Characters of which a Chinese text has many, and bytes of Korean or Japanese read as Chinese have hardly any."""


def chinese_encoding(text: bytes, required: Callable[[Iterable[bool]], bool] = all) -> str | None:
    """The older encoding of Chinese in which at least 90 % of a text's characters are common ones and 10 % frequent
    ones, if any. With `any` one of the two is enough, as for a list of words, but Korean and Japanese also pass."""
    for encoding, common in COMMON_BYTES.items():
        with suppress(UnicodeDecodeError):
            wide = [char for char in text.decode(encoding) if not char.isascii()]
            encoded = [char.encode(encoding) for char in wide]
            # Second bytes are at least 0xA1 in GB 2312 but not in Big5, which tells the two apart.
            are_common = [char[0] in common and (encoding == "BIG5" or char[1] >= 0xA1) for char in encoded]
            frequent = sum(char in FREQUENT for char in wide)
            if len(wide) > 1 and required((sum(are_common) >= 0.9 * len(wide), frequent >= 0.1 * len(wide))):
                return encoding
    return None


EXPECTED_IN_UTF_16 = re.compile(r"[\s -~\u00a0-\u024f\u2010-\u2030\u3000-\u303f\u4e00-\u9fff\uff01-\uff5e]")


def encoding_of(head: bytes) -> str | None:
    """The encoding of a text that begins with these bytes, if it is UTF-16, GB18030 or Big5; None for UTF-8, and for
    what cannot be told.

    charset-normalizer is not used because it takes half of all single Chinese sentences in GB18030 for Korean or
    Japanese, where these rules find 99 %.
    """
    if encoding_by_mark(head) == "UTF-16":
        return "UTF-16"
    if b"\0" in head:
        for encoding in ("UTF-16-LE", "UTF-16-BE"):
            with suppress(UnicodeDecodeError):
                text = codecs.getincrementaldecoder(encoding)().decode(head)
                if len(EXPECTED_IN_UTF_16.findall(text)) >= 0.9 * len(text):
                    return encoding
    with suppress(UnicodeDecodeError):
        codecs.getincrementaldecoder("utf-8")().decode(head)
        return None
    return chinese_encoding(head[: head.rfind(b"\n") + 1] or head)


codecs.register_error("as 0xff", lambda error: ("\udcff", cast(UnicodeDecodeError, error).end))
"""Bytes that an encoding does not have become one that UTF-8 does not have, so that their line is reported."""


class InUtf8(io.RawIOBase):
    """The bytes in UTF-8 of a text that a file holds in another encoding; 0xff where it is not of this encoding."""

    def __init__(self, file: Any, encoding: str) -> None:
        self.file, self.left, self.given = file, b"", 0
        self.decoder = codecs.getincrementaldecoder(encoding)("as 0xff")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b"."
        while data and not self.left:
            data = self.file.read1(READ_AT_ONCE)
            self.left = self.decoder.decode(data, not data).encode("utf-8", "surrogateescape")
        size = min(len(buffer), len(self.left))
        buffer[:size], self.left = self.left[:size], self.left[size:]
        self.given += size
        return size

    def tell(self) -> int:
        return self.given

    def close(self) -> None:
        self.file.close()
        super().close()


def in_utf_8(file: Any) -> Any:
    """A stream of a text in UTF-8: the given one, or one that converts it. The given one must have `peek`."""
    encoding = encoding_of(file.peek(READ_AT_ONCE)[:READ_AT_ONCE])
    return file if encoding is None else io.BufferedReader(InUtf8(file, encoding), READ_AT_ONCE)


def as_utf_8(text: bytes) -> bytes:
    """The text in UTF-8, converted if it is in another encoding that can be told."""
    encoding = encoding_of(text[:READ_AT_ONCE])
    return text if encoding is None else text.decode(encoding, "as 0xff").encode("utf-8", "surrogateescape")


def refuse_replacing(option: str, path: Path | None, inputs: Iterable[Path | None]) -> None:
    """Raise UsageError if an option's output would overwrite a folder or one of the inputs (None for an option that was
    not given), or if it cannot be written.

    `-` means standard output. Call it before the work, so that none is lost.
    """
    if path is None or path == Path("-"):
        return
    try:
        if path.is_file() and any(other is not None and other.exists() and other.samefile(path) for other in inputs):
            raise UsageError(f"{option} {path} would overwrite an input; name another file")
        if is_stream(path):
            number = own_descriptor(path)
            if not os.access(path, os.W_OK) or (number is not None and not is_open_to_write(number)):
                raise UsageError(f"{option} {path} cannot be written: it is not open for writing")
            return
        folder = path.resolve().parent
        if not folder.is_dir():
            raise UsageError(f"{option} {path} cannot be written: {folder} is not a folder")
        if path.exists() and not path.is_file():
            raise UsageError(f"{option} {path} is not a file that can be replaced; name a file")
        if not os.access(folder, os.W_OK):
            raise UsageError(f"{option} {path} cannot be written: {folder} is not writable")
    except OSError as error:
        raise UsageError(f"{option} {path} cannot be written: {error.strerror}") from None


def is_open_to_write(number: int) -> bool:
    """Whether a descriptor is open for writing; True where the system does not say."""
    try:
        import fcntl
    except ImportError:
        return True
    return fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY


def refuse_existing_folder(folder: Path) -> None:
    """Raise UsageError if a new folder exists already, or if its parent folder does not."""
    try:
        if folder.exists() or folder.is_symlink():
            raise UsageError(f"{folder} exists already; name a new folder")
        if not folder.resolve().parent.is_dir():
            raise UsageError(f"{folder} cannot be created: {folder.resolve().parent} is not a folder")
    except OSError as error:
        raise UsageError(f"{folder} cannot be created: {error.strerror}") from None


def try_lock(file: IO[Any]) -> bool:
    """Lock an open file for this process until it is closed, and return whether that succeeded.

    It fails if another process holds the lock, or deleted the file meanwhile. Raises OSError if the file system does
    not support locks, and WeftError if the operating system does not.
    """
    try:
        import fcntl
    except ImportError:
        raise WeftError(f"weft needs to lock {file.name}, which this system does not support; use WSL") from None
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(A_LOOK)  # is_locked may be looking at it
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file.fileno()), os.stat(file.name))
    except (BlockingIOError, FileNotFoundError):
        return False


A_LOOK = 0.02
"""Seconds after which `is_locked` has surely looked; it takes some microseconds."""


def is_locked(path: Path) -> bool:
    """Whether another process holds the lock of a file (`try_lock`). It is neither created nor kept from anyone."""
    try:
        import fcntl

        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):
        pass
    return False


def staging_path(path: Path) -> Path:
    """The temporary file in which this process writes the content for a path.

    It is in the same folder, because a rename is atomic only within a file system. Its name is short, because the
    path's own may be as long as the file system allows, and keeps the suffix .gz.
    """
    digest = hashlib.sha256(os.fsencode(path.name)).hexdigest()[:12]
    return path.with_name(f".{digest}.{os.getpid()}.partial{path.suffix if path.suffix == '.gz' else ''}")


def remove_abandoned(path: Path) -> None:
    """Delete staged files for this path left by processes that died. The caller must exclude other writers."""
    for staged in path.parent.glob(staging_path(path).name.replace(f".{os.getpid()}.", ".*.")):
        remove_staged(staged)


def remove_staged(staged: Path) -> None:
    """Delete a staged file if it exists, ignoring errors, which would hide an earlier one."""
    with suppress(OSError):
        staged.unlink(missing_ok=True)


@contextmanager
def staged_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` in one step if the block succeeds, and is deleted if it does not.
    A stream is never replaced: it is yielded itself.

    Raises WeftError if the file system refuses.
    """
    if is_stream(path):
        yield path
        return
    path = path.resolve()
    staged = staging_path(path)
    try:
        yield staged
        sync(staged)
        os.replace(staged, path)
        sync(path.parent)
    except OSError as error:
        raise WeftError(f"{path} could not be written: {error.strerror}") from error
    finally:
        remove_staged(staged)


@contextmanager
def staged_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `folder` in one step if the block succeeds, and is deleted if it does not.
    Raises OSError if the file system refuses."""
    staged = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(staged, ignore_errors=True)
    try:
        staged.mkdir(parents=True)
        yield staged
        for file in staged.iterdir():
            sync(file)
        sync(staged)
        os.rename(staged, folder)
        sync(folder.parent)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def write_atomically(path: Path, text: str) -> None:
    """Replace the content of a file in one step, so that it is never half-written; "\\n" stays "\\n".

    The file is compressed if its name ends with .gz. Surrogates, as in a file name that is not UTF-8, are written as
    escapes, which JSON can read.
    """
    with staged_file(path) as staged, open_to_write(staged) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def sha256(path: Path) -> str:
    """The hexadecimal digest of a file's bytes, not decompressed."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Wait until the content of a file, or the list of names in a folder, is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
