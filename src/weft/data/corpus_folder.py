"""Get a corpus of the catalog into a folder: download its files or find them in a mirror, check and convert them.

    DIR/published/NAME      the published files; they are not downloaded again, and may be deleted
    DIR/train.tsv ...       the converted files
    DIR/README.md           source, license, citation, counts

Files are moved into place only after all of them are made. An existing file with different content is replaced only on
request.
"""

import difflib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, runtime_checkable

from weft.data.catalog import Corpus, Input, Part, PublishedFile
from weft.data.conversion import Converted, Published, convert
from weft.data.download import download
from weft.errors import CorpusError, Problem, UsageError, WeftError
from weft.files import remove_staged, sha256, staging_path, sync, write_atomically

PUBLISHED = "published"
README = "README.md"


@runtime_checkable
class Listener(Protocol):
    """Receives messages and progress."""

    def on_message(self, text: str) -> None: ...

    def on_progress(self, name: str, done: int, total: int | None) -> None:
        """Called with the bytes of a file that have arrived, and its size if known."""


@dataclass(frozen=True)
class Request:
    """The options of `get`."""

    parts: Sequence[str] = ()
    """Names of parts; empty for all."""
    mirror: str | None = None
    """URL of a directory, or a folder, with the published files under the names of the catalog."""
    accept_unverified: bool = False
    """Whether to use files without a known digest."""
    force: bool = False
    """Whether to replace existing files with different content."""


def get(name: str, corpus: Corpus, folder: Path, request: Request, listener: Listener) -> dict[str, Converted]:
    """Write the parts of a corpus and its README.md into `folder`, made if missing; return file name -> counts.

    Raises UsageError for an invalid request, WeftError or CorpusError if something fails; then no part is written.
    """
    parts = choose_parts(corpus, request.parts)
    try:
        published = gather(corpus, parts, folder, request, listener)
        refuse_unverified(name, corpus, published, request)
        folder.mkdir(parents=True, exist_ok=True)
        with staged_files([folder / part.file for part in parts]) as staged:
            converted = {
                part.file: convert(part.format, inputs_of(part, published), part.columns, staged[folder / part.file])
                for part in parts
            }
            refuse_replacing(staged, folder, name, request.force)
            for target, file in staged.items():
                put(file, target)
        write_atomically(folder / README, describe(name, corpus, converted, published, folder))
    except OSError as error:
        where = error.filename or folder
        raise WeftError(
            f"cannot read or write {where}: {error.strerror}; choose another folder with --output"
        ) from error
    return converted


def choose_parts(corpus: Corpus, names: Sequence[str]) -> list[Part]:
    """Return the parts with these names in the order of the catalog; all parts if there are none."""
    known = [part.name for part in corpus.parts]
    problems = []
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            problems.append(f"{name!r}" + (f" (did you mean {near[0]}?)" if near else ""))
    if problems:
        raise UsageError(f"this corpus has no part {' and no part '.join(problems)}; it has {', '.join(known)}")
    return [part for part in corpus.parts if not names or part.name in names]


def gather(
    corpus: Corpus, parts: Sequence[Part], folder: Path, request: Request, listener: Listener
) -> dict[str, Path]:
    """Return name -> path of every published file that these parts need, downloaded and checked."""
    needed = [corpus.file(name) for name in dict.fromkeys(name for part in parts for name in part.files)]
    if request.mirror is not None and "://" not in request.mirror:
        return found_in(Path(request.mirror), needed)
    places = {file.name: folder / PUBLISHED / file.name for file in needed}
    check([(file, places[file.name]) for file in needed if places[file.name].exists()], folder / PUBLISHED)
    (folder / PUBLISHED).mkdir(parents=True, exist_ok=True)
    with locked(folder / PUBLISHED):
        for file in needed:
            if places[file.name].exists():
                listener.on_message(f"{file.name} exists already")
                continue
            address = file.address if request.mirror is None else f"{request.mirror.rstrip('/')}/{file.name}"
            listener.on_message(f"{file.name} from {address}")
            on_progress = partial(listener.on_progress, file.name)
            download(address, places[file.name], file.expected, on_progress, listener.on_message)
    return places


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep another process from writing to the same unfinished files while the block runs."""
    try:
        import fcntl
    except ImportError:
        raise WeftError(
            "weft locks the folder that it downloads into, which this system does not support; use WSL"
        ) from None
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems cannot lock a folder; then only the digests protect
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise WeftError(
                    f"another process is downloading into {folder}; wait for it, or choose another folder with --output"
                ) from None
        yield
    finally:
        os.close(handle)


def found_in(mirror: Path, needed: Sequence[PublishedFile]) -> dict[str, Path]:
    """Return name -> path of the files in a folder of the user, after checking them."""
    if not mirror.is_dir():
        raise UsageError(f"--from {mirror} is neither a folder nor an address that starts with http:// or https://")
    missing = [file for file in needed if not (mirror / file.name).is_file()]
    if missing:
        problems = [Problem(file.name, f"is missing; it is published as {file.address}") for file in missing]
        raise CorpusError(f"--from {mirror}", problems)
    check([(file, mirror / file.name) for file in needed], mirror, "replace it by the published file")
    return {file.name: mirror / file.name for file in needed}


def check(
    found: Sequence[tuple[PublishedFile, Path]],
    where: Path,
    remedy: str = "move it away; then the same command downloads it again",
) -> None:
    """Raise CorpusError that names all files that differ from the published ones; they are left untouched."""
    different = [(file, file.expected.difference(path)) for file, path in found]
    problems = [
        Problem(file.name, f"is not the published file: {what}; {remedy}")
        for file, what in different
        if what is not None
    ]
    if problems:
        raise CorpusError(where, problems)


def refuse_unverified(name: str, corpus: Corpus, places: dict[str, Path], request: Request) -> None:
    """Raise WeftError with the digests of the files whose digest is not known, unless the user accepts them."""
    unknown = [place for file, place in places.items() if not corpus.file(file).expected.has_digest]
    if unknown and not request.accept_unverified:
        width = max(len(place.name) for place in unknown)
        found = [f"  {place.name:<{width}}  {sha256(place)}  {place.stat().st_size:,} bytes" for place in unknown]
        raise WeftError(
            f"cannot verify {name}: weft does not know the digests of these files; their sha256 is\n"
            + "\n".join(found)
            + f"\nThey are in {unknown[0].parent}; to use them, run the same command with --accept-unverified"
        )


def inputs_of(part: Part, places: dict[str, Path]) -> list[Published]:
    return [
        Published(places[given.file], given.member) if isinstance(given, Input) else Published(places[given])
        for given in part.inputs
    ]


@contextmanager
def staged_files(targets: Sequence[Path]) -> Iterator[dict[Path, Path]]:
    """Yield target -> temporary path next to it; temporary files that are left at the end are deleted."""
    staged = {target: staging_path(target) for target in targets}
    try:
        yield staged
    finally:
        for file in staged.values():
            remove_staged(file)


def refuse_replacing(staged: dict[Path, Path], folder: Path, name: str, force: bool) -> None:
    """Raise UsageError if a target exists with different content, including a README.md of another corpus."""
    blocked = [path.name for path in (*staged, folder / README) if path.exists() and not path.is_file()]
    if blocked:
        raise UsageError(f"{' and '.join(blocked)} in {folder} is not a file; choose another folder with --output")
    if force:
        return
    other = [target.name for target, file in staged.items() if target.exists() and not same(target, file)]
    readme = folder / README
    if readme.exists() and not readme.read_bytes().startswith(f"{title(name)}\n".encode()):
        other.append(README)
    if other:
        raise UsageError(
            f"{folder} already holds a different {' and '.join(other)}; choose another folder with --output, or "
            "replace the files with --force"
        )


def same(one: Path, other: Path) -> bool:
    return one.is_file() and one.stat().st_size == other.stat().st_size and sha256(one) == sha256(other)


def put(file: Path, target: Path) -> None:
    """Move a staged file to its target atomically; an equal target is left untouched."""
    if target.exists() and same(target, file):
        return
    sync(file)
    os.replace(file, target)
    sync(target.parent)


def title(name: str) -> str:
    return f"# {name}"


def describe(
    name: str, corpus: Corpus, converted: dict[str, Converted], published: dict[str, Path], folder: Path
) -> str:
    """Return the README.md: description, license, citation, counts, and the source of each file."""
    rows = written_before(name, folder) | {
        file: f"| `{file}` | {outcome.rows:,} | {'; '.join(outcome.described())} |"
        for file, outcome in converted.items()
    }
    parts = [part for part in corpus.parts if part.file in rows and (folder / part.file).is_file()]
    files = [corpus.file(file) for file in dict.fromkeys(file for part in parts for file in part.files)]
    sections = [
        title(name),
        f"{corpus.title}. Languages: {', '.join(corpus.languages)}.",
        corpus.note,
        f"License: {corpus.license}. Commercial use: {corpus.commercial}. {corpus.terms}".strip(),
        f"Please cite: {corpus.citation}.",
        f"Described at {corpus.homepage}",
        "\n".join(
            [f"| file | {corpus.unit} | remarks |", "| --- | ---: | --- |", *(rows[part.file] for part in parts)]
        ),
        "Made by `weft corpus get` of:",
        "\n".join(f"- {file.address}: {digest(file, published.get(file.name))}" for file in files),
        "The same command writes this file again.",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def written_before(name: str, folder: Path) -> dict[str, str]:
    """Return file name -> its line in the README.md of this corpus that an earlier call has written."""
    readme = folder / README
    lines = readme.read_text(encoding="utf-8", errors="replace").splitlines() if readme.is_file() else []
    if lines[:1] != [title(name)]:
        return {}
    return {line.split("`")[1]: line for line in lines if line.startswith("| `") and line.count("`") > 1}


def digest(file: PublishedFile, place: Path | None) -> str:
    """Return the digest that the file was checked against, or the digest found if none is known."""
    if file.sha256 is not None:
        return f"sha256 {file.sha256}"
    if file.git_blob is not None:
        return f"git blob {file.git_blob}"
    found = "" if place is None else f"sha256 {sha256(place)}, "
    return f"{found}not verified"
