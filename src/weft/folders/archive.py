"""A model as one file: a .zip of the files of a model folder.

Archives are not trusted: names and sizes are checked before a file is written. The files are unpacked into a temporary
folder, which is checked as a model and then renamed into place.
"""

import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from weft.errors import ModelError, Problem, UsageError, WeftError
from weft.files import refuse_existing_folder, refuse_replacing, staged_file
from weft.folders.finding import HOW_TO_CONVERT, PICKLED, read_found
from weft.folders.manifest import (
    CARD,
    CONFIG,
    LARGEST_CARD,
    MANIFEST,
    MOST_FILES,
    PLAIN_NAME,
    WEIGHTS,
    model_files,
)
from weft.folders.model_folder import check_model, vocabulary_files
from weft.training.run_folder import committed_folder

LARGEST_MODEL = 8 << 30
"""Most bytes of all files together."""
MOST_GROWTH = 100
"""The largest ratio of a file's size to its packed size. Text shrinks to a tenth, weights hardly at all."""
LARGEST_DIRECTORY = 1 << 20
"""Most bytes of the table of contents, which is read at once; 200 files take 40 KiB."""
ENDLESS_CARD = f"is larger than {LARGEST_CARD >> 20} MiB; a card has a page or two, and a line for each file"
TIME = (1980, 1, 1, 0, 0, 0)


def pack(name: str | Path, archive: Path) -> Path:
    """Write the model that `name` means into a .zip, and return the source folder.

    The bytes depend only on the files: sorted, uncompressed (weights hardly shrink), without times and owners. Raises
    ModelError for a model that does not load, and UsageError for an archive that exists.
    """
    if archive.suffix != ".zip":
        raise UsageError(f"{archive} is not the name of an archive; give a name that ends with .zip")
    _, folder = read_found(name, lambda folder: (check_model(folder), folder))
    files = [folder / file for file in model_files(folder)]
    refuse_replacing("the archive", archive, files)
    if archive.is_file():
        raise UsageError(f"{archive} exists already; name another file")
    if (size := sum(file.stat().st_size for file in files)) > LARGEST_MODEL:
        raise ModelError(folder, [Problem("its files", f"take {size:,} bytes, more than {LARGEST_MODEL:,}")])
    if folder / CARD in files and (folder / CARD).stat().st_size > LARGEST_CARD:
        raise ModelError(folder, [Problem(CARD, ENDLESS_CARD)])
    with staged_file(archive) as staged, zipfile.ZipFile(staged, "w") as zipped:
        for file in files:
            add(zipped, file)
    return folder


def add(zipped: zipfile.ZipFile, file: Path) -> None:
    member = zipfile.ZipInfo(file.name, TIME)
    member.create_system = 3  # Unix, on every system
    member.external_attr = (stat.S_IFREG | 0o644) << 16
    member.file_size = file.stat().st_size  # from which zipfile chooses the width of its fields
    with open(file, "rb") as source, zipped.open(member, "w") as target:
        shutil.copyfileobj(source, target)


def unpack(archive: Path, folder: Path) -> None:
    """Make a new model folder from a .zip. Raises ModelError and writes nothing if the archive is invalid."""
    refuse_existing_folder(folder)
    if not archive.is_file():
        raise UsageError(f"there is no archive {archive}")
    try:
        with BoundedReader(archive) as file:
            with named_errors(archive):
                zipped = zipfile.ZipFile(file)
            check_members(zipped.infolist(), archive)
            with committed_folder(folder) as staged:
                extract(zipped, archive, staged)
    except OSError as error:
        raise WeftError(f"{folder} could not be made from {archive}: {error.strerror}") from error


@contextmanager
def named_errors(archive: Path) -> Iterator[None]:
    """Convert the errors that zipfile raises for a damaged or encrypted file to ModelError."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise ModelError(archive, [Problem("the archive", f"cannot be read: {error}")]) from None


class BoundedReader(FileIO):
    """A file that rejects reads above LARGEST_DIRECTORY, since zipfile reads a table of contents of any size."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > LARGEST_DIRECTORY:
            raise zipfile.BadZipFile("its table of contents is too large for a model")
        return super().read(size)


def check_members(members: list[zipfile.ZipInfo], archive: Path) -> None:
    """Raise ModelError with every problem in the table of contents."""
    if len(members) > MOST_FILES:
        raise ModelError(
            archive, [Problem("the archive", f"holds {len(members):,} files; a model has at most {MOST_FILES}")]
        )
    problems, archive_size = [], archive.stat().st_size
    if (size := sum(member.file_size for member in members)) > LARGEST_MODEL:
        problems.append(Problem("the archive", f"would take {size:,} bytes, more than {LARGEST_MODEL:,}"))
    if sum(member.compress_size for member in members) > archive_size:
        problems.append(Problem("the archive", "holds less than it declares: its files overlap or are cut short"))
    names: set[str] = set()
    for member in members:
        name = member.orig_filename
        problems += [Problem(name, what) for what in member_problems(member, archive_size)]
        if name.casefold() in names:
            problems.append(Problem(name, "has the name of another file, except perhaps for upper and lower case"))
        names.add(name.casefold())
    if problems:
        raise ModelError(archive, problems)


def member_problems(member: zipfile.ZipInfo, archive_size: int) -> list[str]:
    """Return the problems of one member that the table of contents shows."""
    problems = []
    if not PLAIN_NAME.fullmatch(member.orig_filename):
        problems.append("leads out of the folder or into another, or is not a plain name")
    if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
        problems.append("is a link, a device or a folder, not a plain file")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        problems.append("is compressed in a way that weft does not read; use deflate, or none")
    if not 0 <= member.header_offset < archive_size:
        problems.append("is not within the archive")
    if member.file_size > MOST_GROWTH * member.compress_size:
        problems.append(f"would grow from {member.compress_size:,} to {member.file_size:,} bytes")
    if member.orig_filename == CARD and member.file_size > LARGEST_CARD:
        problems.append(ENDLESS_CARD)
    if member.orig_filename.endswith(PICKLED):
        problems.append(f"may hold a pickle: {HOW_TO_CONVERT}")
    return problems


def extract(zipped: zipfile.ZipFile, archive: Path, staged: Path) -> None:
    """Write the members into an empty folder; raises ModelError if they are not a complete model."""
    with named_errors(archive):
        zipped.extractall(staged)  # stops at the size in the table of contents
    sizes = {member.orig_filename: member.file_size for member in zipped.infolist()}
    problems = [
        Problem(name, "is not as large as the archive says")
        for name, size in sizes.items()
        if (staged / name).stat().st_size != size
    ]
    try:
        if not problems:
            model = check_model(staged)
            of_model = {CONFIG, WEIGHTS, *vocabulary_files(model.recipe, model.vocabularies), MANIFEST, CARD}
            problems = [Problem(name, "is not a file of this model") for name in sorted(sizes.keys() - of_model)]
        if problems:
            raise ModelError(archive, problems)
    except ModelError as error:  # names the temporary folder, which will not exist when the message is read
        raise ModelError(archive, error.problems) from None
