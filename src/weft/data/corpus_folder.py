"""A corpus of the catalog -> a folder with its files: fetched or found in a mirror, checked, converted, described.

    DIR/published/NAME      the files as they were published; what is there is not fetched again, and may be deleted
    DIR/train.tsv ...       what was made of them
    DIR/README.md           source, license, citation, counts

No file is put in its place before all are made; an existing one with another content is only replaced where that is
asked for. What the catalog is stands in `weft.data.catalog`, how a file travels in `weft.data.download`.
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
    """Who is told how it goes."""

    def on_message(self, text: str) -> None: ...

    def on_progress(self, name: str, done: int, total: int | None) -> None:
        """So many bytes of a file are here, of so many in all where that is known."""


@dataclass(frozen=True)
class Request:
    """What a user asks for beside the corpus."""

    parts: Sequence[str] = ()
    """Names of parts; none stands for all."""
    mirror: str | None = None
    """The address of a place, or a folder, that holds the published files under the names of the catalog."""
    accept_unverified: bool = False
    """Whether a file is used of which no digest is known."""
    force: bool = False
    """Whether existing files with another content are replaced."""


def get(name: str, corpus: Corpus, folder: Path, request: Request, listener: Listener) -> dict[str, Converted]:
    """Write the parts of a corpus and its README.md into `folder`, made if missing; file name -> what it holds.

    Raises UsageError for what cannot be, WeftError and CorpusError for what went wrong; then no part was written.
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
            f"{where} cannot be read or written: {error.strerror}; name another folder by --output"
        ) from error
    return converted


def choose_parts(corpus: Corpus, names: Sequence[str]) -> list[Part]:
    """The parts of these names in the catalog's order; all of them for no name."""
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
    """Name -> place of every published file that these parts need, each checked as far as the catalog can."""
    needed = [corpus.file(name) for name in dict.fromkeys(name for part in parts for name in part.files)]
    if request.mirror is not None and "://" not in request.mirror:
        return found_in(Path(request.mirror), needed)
    places = {file.name: folder / PUBLISHED / file.name for file in needed}
    check([(file, places[file.name]) for file in needed if places[file.name].exists()], folder / PUBLISHED)
    (folder / PUBLISHED).mkdir(parents=True, exist_ok=True)
    with locked(folder / PUBLISHED):
        for file in needed:
            if places[file.name].exists():
                listener.on_message(f"{file.name} is here already")
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
            "weft locks the folder that it downloads into, for which this system has no means; use WSL"
        ) from None
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems of a network cannot lock a folder; then the digests alone watch
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise WeftError(
                    f"another process is downloading into {folder}; wait for it, or name another folder by --output"
                ) from None
        yield
    finally:
        os.close(handle)


def found_in(mirror: Path, needed: Sequence[PublishedFile]) -> dict[str, Path]:
    """The files in a folder of the user's, used where they lie."""
    if not mirror.is_dir():
        raise UsageError(f"--from {mirror} is neither a folder nor an address that begins with http:// or https://")
    missing = [file for file in needed if not (mirror / file.name).is_file()]
    if missing:
        problems = [Problem(file.name, f"is not there; it is published as {file.address}") for file in missing]
        raise CorpusError(f"--from {mirror}", problems)
    check([(file, mirror / file.name) for file in needed], mirror, "put the published file into its place")
    return {file.name: mirror / file.name for file in needed}


def check(
    found: Sequence[tuple[PublishedFile, Path]],
    where: Path,
    remedy: str = "move it away, then the same command fetches it anew",
) -> None:
    """Raise CorpusError naming all files that are not the published ones; they stay as they are."""
    different = [(file, file.expected.difference(path)) for file, path in found]
    problems = [
        Problem(file.name, f"is not the published file: {what}; {remedy}")
        for file, what in different
        if what is not None
    ]
    if problems:
        raise CorpusError(where, problems)


def refuse_unverified(name: str, corpus: Corpus, places: dict[str, Path], request: Request) -> None:
    """Raise WeftError with the digests that were found, where nobody has said what they should be."""
    unknown = [place for file, place in places.items() if not corpus.file(file).expected.has_digest]
    if unknown and not request.accept_unverified:
        width = max(len(place.name) for place in unknown)
        found = [f"  {place.name:<{width}}  {sha256(place)}  {place.stat().st_size:,} bytes" for place in unknown]
        raise WeftError(
            f"{name} cannot be verified, since weft knows no digest of these files; their sha256 is\n"
            + "\n".join(found)
            + f"\nthey are in {unknown[0].parent}; to use them, run the same command with --accept-unverified"
        )


def inputs_of(part: Part, places: dict[str, Path]) -> list[Published]:
    return [
        Published(places[given.file], given.member) if isinstance(given, Input) else Published(places[given])
        for given in part.inputs
    ]


@contextmanager
def staged_files(targets: Sequence[Path]) -> Iterator[dict[Path, Path]]:
    """target -> a place beside it to write to; whatever is left there at the end is deleted."""
    staged = {target: staging_path(target) for target in targets}
    try:
        yield staged
    finally:
        for file in staged.values():
            remove_staged(file)


def refuse_replacing(staged: dict[Path, Path], folder: Path, name: str, force: bool) -> None:
    """Raise UsageError where something else is at a target, a README.md of another corpus included."""
    blocked = [path.name for path in (*staged, folder / README) if path.exists() and not path.is_file()]
    if blocked:
        raise UsageError(f"{folder} holds {' and '.join(blocked)}, which is no file; name another folder by --output")
    if force:
        return
    other = [target.name for target, file in staged.items() if target.exists() and not same(target, file)]
    readme = folder / README
    if readme.exists() and not readme.read_bytes().startswith(f"{title(name)}\n".encode()):
        other.append(README)
    if other:
        raise UsageError(
            f"{folder} holds {' and '.join(other)} with another content; name another folder by --output, or replace "
            "it by --force"
        )


def same(one: Path, other: Path) -> bool:
    return one.is_file() and one.stat().st_size == other.stat().st_size and sha256(one) == sha256(other)


def put(file: Path, target: Path) -> None:
    """Move a staged file to its place in one step; one that reads the same already is left untouched."""
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
    """The README.md: what this is, whose it is, what may be done with it, and what was made of which file."""
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
        "The same command writes this file anew.",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def written_before(name: str, folder: Path) -> dict[str, str]:
    """File name -> the line about it that an earlier call has written into the README.md of this corpus."""
    readme = folder / README
    lines = readme.read_text(encoding="utf-8", errors="replace").splitlines() if readme.is_file() else []
    if lines[:1] != [title(name)]:
        return {}
    return {line.split("`")[1]: line for line in lines if line.startswith("| `") and line.count("`") > 1}


def digest(file: PublishedFile, place: Path | None) -> str:
    """What the file was checked by, or what it was where nothing could be checked."""
    if file.sha256 is not None:
        return f"sha256 {file.sha256}"
    if file.git_blob is not None:
        return f"git blob {file.git_blob}"
    found = "" if place is None else f"sha256 {sha256(place)}, "
    return f"{found}not verified to be what lies there"
