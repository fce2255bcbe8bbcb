"""Translate lines: of a stream as they arrive, or of a file of any size, resuming after an interruption.

While a file is translated, a GrowingFile (growing_file.py) keeps the finished part next to the output:

    .new.en.partial.unfinished   the translations so far
    new.en.partial.json          the settings, and how far the input is read
    new.en                       appears when all lines are done; the other two are removed

The input is identified by the digest of the part that was read, so the rest may change. Memory holds one block of lines
(on a cluster a few), whatever the size of the file.
"""

import gzip
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import Any

from weft.data.cluster import cluster_workers
from weft.errors import CorpusError, Problem, UsageError, WeftError
from weft.files import (
    READ_AT_ONCE,
    arriving_lines,
    decode_lines,
    in_utf_8,
    is_gzipped,
    open_to_write,
    reporting_read_errors,
    sha256,
    sync,
)
from weft.folders.finding import find_model
from weft.folders.manifest import MANIFEST
from weft.folders.model_folder import TranslationModel, load_model, save_model
from weft.runtime import return_memory_pages
from weft.text.sentence_splitting import LINE_END
from weft.training.signals import stop_on_signal
from weft.translating.growing_file import GrowingFile
from weft.translating.passages import PassageTranslator
from weft.translating.translation import Translation
from weft.translating.translator import Translator

LINES_AT_ONCE = 1024
BYTES_AT_ONCE = 2**20
"""Lines, or their bytes, after which a block ends: the most work that is lost when the process is killed."""


@dataclass(frozen=True)
class Place:
    """A position in a file: lines and (uncompressed) bytes before it, and the sha256 of these bytes."""

    lines: int = 0
    bytes: int = 0
    sha256: str = hashlib.sha256().hexdigest()


@dataclass(frozen=True)
class Block:
    """Consecutive lines, and the position after them."""

    texts: list[str]
    place: Place


@dataclass(frozen=True)
class Form:
    """The output format: by default one line per text with its translation."""

    as_json: bool = False
    """Write a JSON object per line."""
    best: int | None = None
    """Write up to this many translations per text: as lines with the text's number and a score, or in the object."""
    least_similarity: float | None = None
    """Add the memory's matches of at least this similarity to the object."""


@dataclass(frozen=True)
class Done:
    """The result for a block: the text to write, and how many texts were cut inside a sentence."""

    written: str
    place: Place
    cut_texts: int


@dataclass(frozen=True)
class Progress:
    """Finished lines, their bytes, and all bytes of the file (both as stored on disk; if that is not the text in
    UTF-8, the bytes are in proportion to those of the text)."""

    lines: int
    bytes: int
    all_bytes: int


def translate_file(
    passages: PassageTranslator,
    source: Path,
    output: Path,
    *,
    form: Form = Form(),
    restart: bool = False,
    cluster: bool = False,
    say: Callable[[str], None] = lambda message: None,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> Place:
    """Translate a text file line by line into another; either name may end with .gz.

    Resumes an interrupted call with the same settings and model folders, or starts over with `restart`. With `cluster`
    (data/cluster.py) blocks are translated in parallel, with the same results. `say` gets messages, `tell` the progress
    after each block. Raises CorpusError for a line that cannot be read, UsageError if the unfinished output was made
    with other settings, RunError if another process writes it, and Stopped after a signal.
    """
    output = output.resolve()  # writes the target of a link
    settings = made_of(passages, form)
    names = {"model": " + ".join(map(str, passages.translator.folders)), "input": str(source)}
    remedy = "start over: --restart"
    file = GrowingFile(output.with_name(f"{output.name}.partial"), settings, names, remedy=remedy)
    with stop_on_signal() as stop, file.opened(anew=restart):
        place = Place(**file.state) if file.state else Place()
        if place.lines:
            say(f"continuing after line {place.lines:,}")
        with opened(source) as (raw, lines), answering(passages, form, cluster=cluster) as answers:
            place, digest = skip_to(lines, place, source, output)
            has_said = False
            for done in answers(blocks(lines, source, place, digest)):
                file.append(done.written, asdict(done.place))
                place = done.place
                if done.cut_texts and not has_said:
                    say(cut_warning(passages))
                    has_said = True
                done_bytes = raw.tell() * place.bytes // lines.tell()  # more is read than was translated
                tell(Progress(place.lines, done_bytes, os.fstat(raw.fileno()).st_size))
                return_memory_pages()
                stop.honor(f"stopped after line {place.lines:,}")
        put_into_place(file, output)
    return place


def digest_of(language_model: str | None) -> str | None:
    return None if language_model is None else sha256(find_model(language_model) / MANIFEST)


def made_of(passages: PassageTranslator, form: Form) -> dict[str, Any]:
    """Everything except the text that the translations depend on. Models are identified by their manifests."""
    translator = passages.translator
    if not translator.folders:
        raise UsageError(
            "translate_file continues what it has begun, so it needs a model from a folder: load_translator"
        )
    return {
        "model": "+".join(sha256(folder / MANIFEST) for folder in translator.folders),
        "data.tag": translator.model.recipe.data.tag,
        **{f"decoding.{key}": value for key, value in translator.decoding},
        "language-model": digest_of(translator.decoding.language_model),
        "split": passages.split,
        "markup": "keep" if passages.keeps_markup else "off",
        "glossary": None if passages.glossary is None else passages.glossary.digest,
        "memory": None if passages.memory is None else passages.memory.digest,
        "memory-use": None if passages.memory is None else passages.memory_use,
        "json": form.as_json,
        "best": form.best,
        "memory-similarity": form.least_similarity,
    }


def cut_warning(passages: PassageTranslator) -> str:
    """The message for a text that was cut inside a sentence."""
    return (
        f"there is text with no end of a sentence within the {passages.longest:,} pieces that the model reads; it is "
        "cut, at a comma or a space where there is one"
    )


def put_into_place(file: GrowingFile, output: Path) -> None:
    """Rename the complete translations to the output, gzipped if its name ends with .gz."""
    written = file.complete()
    try:
        if output.suffix == ".gz":
            staged = output.with_name(f".{output.name}.partial.gz")
            try:
                with open(written, "rb") as text, open_to_write(staged) as zipped:
                    shutil.copyfileobj(text, zipped)
                sync(staged)
                os.replace(staged, output)
            finally:
                staged.unlink(missing_ok=True)
            written.unlink()
        else:
            os.replace(written, output)
        sync(output.parent)
        file.manifest.unlink(missing_ok=True)  # missing for an empty input
    except OSError as error:
        raise WeftError(f"{output} could not be written: {error.strerror}; the same command continues") from error


# Reading


@contextmanager
def opened(path: Path) -> Iterator[tuple[BufferedReader, BufferedIOBase]]:
    """Open a file, and yield it as stored on disk and as a stream of its text in UTF-8, uncompressed (.gz)."""
    with reporting_read_errors(path):
        raw = open(path, "rb")  # noqa: SIM115 (closed below; later errors are not about this file)
    with raw:
        with reporting_read_errors(path):
            lines = in_utf_8(gzip.GzipFile(fileobj=raw) if is_gzipped(path) else raw)
        yield raw, lines


def skip_to(file: BufferedIOBase, place: Place, source: Path, output: Path) -> tuple[Place, "hashlib._Hash"]:
    """Read up to a position, and return it with the digest so far. Raises UsageError if the text before it has changed.

    A last line without a line end may have got one since; the position returned is after it.
    """
    digest = hashlib.sha256()
    left, last = place.bytes, b"\n"
    with reporting_read_errors(source):
        while left and (data := file.read(min(left, READ_AT_ONCE))):
            digest.update(data)
            left, last = left - len(data), data[-1:]
        behind = file.read(1) if last != b"\n" else b""
    if digest.hexdigest() != place.sha256 or behind not in (b"", b"\n"):
        raise UsageError(
            f"{source} has changed: its first {place.lines:,} lines, which are translated in {output}, are different "
            "now; put the old ones back, or start over: --restart"
        )
    digest.update(behind)
    return Place(place.lines, place.bytes + len(behind), digest.hexdigest()), digest


def blocks(
    file: BufferedIOBase,
    source: Path | None = None,
    place: Place | None = None,
    digest: "hashlib._Hash | None" = None,
    *,
    as_they_come: bool = False,
) -> Iterator[Block]:
    """Yield the lines of a binary file after a position, in blocks; `source` is its name in errors.

    With `as_they_come`, a block also ends when the next line has not arrived yet. Raises CorpusError for a line that
    is not UTF-8 or too long, and if reading fails.
    """
    name, place, digest = source or Path("the input"), place or Place(), digest or hashlib.sha256()
    block: list[bytes] = []
    size = 0
    for lines in arriving_lines(file, name, place.lines):
        for number, line in enumerate(lines, start=1):
            block.append(line)
            size += len(line)
            none_waits = as_they_come and number == len(lines)
            if len(block) == LINES_AT_ONCE or size >= BYTES_AT_ONCE or none_waits:
                yield (made := as_block(block, name, place, digest))
                block, size, place = [], 0, made.place
    if block:
        yield as_block(block, name, place, digest)


def as_block(lines: list[bytes], name: Path, place: Place, digest: "hashlib._Hash") -> Block:
    """Decode the lines after a position. Raises CorpusError for a line that is not UTF-8: skipping it would shift the
    lines after it."""
    problems: list[Problem] = []
    numbered = decode_lines((line.removesuffix(b"\n") for line in lines), problems, place.lines + 1)
    texts = [text for _, text in numbered]
    if problems:
        raise CorpusError(name, problems)
    for line in lines:
        digest.update(line)
    size = sum(map(len, lines))
    return Block(texts, Place(place.lines + len(lines), place.bytes + size, digest.hexdigest()))


# Translating


@contextmanager
def answering(
    passages: PassageTranslator, form: Form, *, cluster: bool
) -> Iterator[Callable[[Iterator[Block]], Iterator[Done]]]:
    """Yield a function that maps blocks to their results, in order, in this process or on a cluster."""
    if not cluster:
        yield partial(map, partial(answer, passages, form=form))
        return
    work = ClusterWork.of(passages, form)
    with cluster_workers() as each:
        yield partial(each, work)


def answer(passages: PassageTranslator, block: Block, form: Form) -> Done:
    """Translate a block, and format the translations."""
    cut_before = passages.cut_texts
    if form.best is None:
        found = [[translation] for translation in passages.translate(block.texts)]
    else:
        found = passages.translate_n_best(block.texts, form.best)
    first = block.place.lines - len(block.texts) + 1
    lines = (line for number, of_text in enumerate(found, first) for line in as_lines(number, of_text, passages, form))
    return Done("".join(f"{line}\n" for line in lines), block.place, passages.cut_texts - cut_before)


def as_lines(number: int, found: Sequence[Translation], passages: PassageTranslator, form: Form) -> Iterator[str]:
    """Format the translations of a text: a line for each, with its line ends replaced by spaces, or one object for
    all."""
    if form.as_json:
        yield json.dumps(as_object(found, passages, form), ensure_ascii=False)
        return
    for translation in found:
        text = LINE_END.sub(" ", translation.text)
        in_column = text.replace("\t", " ")
        yield text if form.best is None else f"{number}\t{translation.score:.4f}\t{in_column}"


def as_object(found: Sequence[Translation], passages: PassageTranslator, form: Form) -> dict[str, Any]:
    """The best translation as a JSON object, with all translations and the memory's matches if the form has them."""
    written: dict[str, Any] = dict(vars(found[0]))
    if passages.translator.has_other_numbers(found[0].source, found[0].text):
        written["flags"] = ["numbers"]
    if form.best is not None:
        written["best"] = [{"text": one.text, "score": one.score, "log_prob": one.log_prob} for one in found]
    if form.least_similarity is not None and passages.memory is not None:
        matches = passages.memory.similar(found[0].source, least=form.least_similarity)
        written["memory"] = [vars(match) for match in matches]
    return written


Files = tuple[tuple[str, bytes], ...]
"""File names and their contents."""


@dataclass(frozen=True)
class ClusterWork:
    """Translates blocks on a machine that has weft but not the user's files, so the model's files are sent along."""

    models: tuple[Files, ...]
    """For each member of the ensemble, the files of its folder."""
    options: dict[str, Any]
    """The other arguments of the PassageTranslator."""
    form: Form

    @staticmethod
    def of(passages: PassageTranslator, form: Form) -> "ClusterWork":
        """Raises UsageError if the translator runs on another engine, which can only read its files from disk."""
        if type(passages.translator) is not Translator:
            raise UsageError("--cluster computes with weft's own engine; name a model that was not exported")
        if passages.translator.decoding.language_model is not None:
            raise UsageError("--cluster cannot send a language model along; leave out --lm and decoding.language_model")
        names = ("split", "keeps_markup", "glossary", "memory", "memory_use")
        options = {name: getattr(passages, name) for name in names}
        return ClusterWork(tuple(map(packed, passages.translator.members)), options, form)

    def __call__(self, block: Block) -> Done:
        return answer(PassageTranslator(unpacked(self.models), **self.options), block, self.form)


def packed(model: TranslationModel) -> Files:
    with tempfile.TemporaryDirectory() as temporary:
        save_model(Path(temporary), model, card="")
        return tuple((file.name, file.read_bytes()) for file in sorted(Path(temporary).iterdir()))


@lru_cache(maxsize=1)
def unpacked(models: tuple[Files, ...]) -> Translator:
    with tempfile.TemporaryDirectory() as temporary:
        folders = [Path(temporary) / str(number) for number in range(len(models))]
        for folder, files in zip(folders, models, strict=True):
            folder.mkdir()
            for name, content in files:
                (folder / name).write_bytes(content)
        first, *others = map(load_model, folders)
        return Translator(first, others=others)
