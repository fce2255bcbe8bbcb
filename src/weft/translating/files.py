"""Translating lines: of a stream as they come, and of a file of any size, going on where a killed process left off.

While a file is translated, a GrowingFile (growing_file.py) keeps what is done beside the output:

    .new.en.partial.unfinished   the translations so far
    new.en.partial.json          what they were made with, and how far the input is read
    new.en                       appears in one step when all lines are done; then the two others are gone

The input is known by the digest of the part that was read, so it may grow meanwhile, or be mended behind that place.
Memory holds a block of lines, over a cluster some blocks, whatever the size of the file.
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
    open_bytes,
    open_to_write,
    reporting_read_errors,
    sha256,
    sync,
)
from weft.folders.model_folder import MANIFEST, TranslationModel, load_model, save_model
from weft.runtime import return_memory_pages
from weft.text.sentence_splitting import LINE_END
from weft.training.signals import stop_on_signal
from weft.translating.glossary import Glossary
from weft.translating.growing_file import GrowingFile
from weft.translating.memory import TranslationMemory
from weft.translating.passages import MemoryUse, PassageTranslator, Split
from weft.translating.translator import Translation, Translator

LINES_AT_ONCE = 1024
BYTES_AT_ONCE = 2**20
"""Lines, or bytes of them, after which a block ends: what a killed process loses at most."""


@dataclass(frozen=True)
class Place:
    """How far a file was read: lines and bytes (unzipped), and the sha256 of these bytes."""

    lines: int = 0
    bytes: int = 0
    sha256: str = hashlib.sha256().hexdigest()


@dataclass(frozen=True)
class Block:
    """Some lines, and the place behind them."""

    texts: list[str]
    place: Place


@dataclass(frozen=True)
class Form:
    """What is written of a text: a line with its translation, unless something else is asked for."""

    as_json: bool = False
    """An object a line."""
    best: int | None = None
    """Up to so many translations: a line each with the number of the text and the score before it, or in the object."""
    least_similarity: float | None = None
    """In the object also what the memory has that is so similar."""


@dataclass(frozen=True)
class Done:
    """What was made of a block: lines to write, and how many texts had to be cut where no sentence ends."""

    written: str
    place: Place
    cut_texts: int


@dataclass(frozen=True)
class Progress:
    """Lines that are done, and how many of all bytes of the file (as it lies on disk) were read for them."""

    lines: int
    bytes: int
    all_bytes: int


def translate_file(
    passages: PassageTranslator,
    model: Path,
    source: Path,
    output: Path,
    *,
    others: Sequence[Path] = (),
    form: Form = Form(),
    restart: bool = False,
    cluster: bool = False,
    say: Callable[[str], None] = lambda message: None,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> Place:
    """Translate a text file line by line into another; either may end with .gz. Where a call with the same settings was
    stopped, this one goes on, and with `restart` begins anew.

    `model` is the folder that the translator was loaded from, with `others` where it is an ensemble. Over a `cluster`
    (data/cluster.py) blocks are translated at the same time, to the same texts. Raises CorpusError for a line that
    cannot be read, UsageError where what lies beside the output was made otherwise, RunError where another process is
    at it, Stopped when a signal asks for it.
    """
    output = output.resolve()  # of a link, what it points to is written
    settings = made_of(passages, (model, *others), form)
    names = {"model": " + ".join(map(str, (model, *others))), "input": str(source)}
    remedy = "begin anew: --restart"
    file = GrowingFile(output.with_name(f"{output.name}.partial"), settings, names, remedy=remedy)
    with stop_on_signal() as stop, file.opened(anew=restart):
        if file.gone is not None and output.exists():
            digest, state = file.gone
            if sha256_unzipped(output) == digest and sha256_unzipped(source) == Place(**state).sha256:
                file.manifest.unlink()  # which a process that was killed had left to do
                return Place(**state)
        place = Place(**file.state) if file.state else Place()
        if file.is_finished:
            with opened(source) as (_, lines):
                read_again(lines, place, source, output)
                if lines.read(1):
                    say(f"{source} has grown behind line {place.lines:,}, where its translation was done; run it again")
        else:
            if place.lines:
                say(f"going on behind line {place.lines:,}")
            with opened(source) as (raw, lines), answering(passages, form, cluster=cluster) as answers:
                place, digest = read_again(lines, place, source, output)
                has_said = False
                for done in answers(blocks(lines, source, place, digest)):
                    file.append(done.written, asdict(done.place))
                    place = done.place
                    if done.cut_texts and not has_said:
                        say(about_cuts(passages))
                        has_said = True
                    tell(Progress(place.lines, raw.tell(), os.fstat(raw.fileno()).st_size))
                    return_memory_pages()
                    stop.honor(f"stopped behind line {place.lines:,}")
            file.finish()
        put_into_place(file, output)
    return place


def made_of(passages: PassageTranslator, models: Sequence[Path], form: Form) -> dict[str, Any]:
    """All that the translations follow from, but for the text. Models are known by their manifests."""
    translator = passages.translator
    return {
        "model": "+".join(sha256(model / MANIFEST) for model in models),
        "data.tag": translator.model.recipe.data.tag,
        **{f"decoding.{key}": value for key, value in translator.decoding},
        "split": passages.split,
        "markup": "keep" if passages.keeps_markup else "off",
        "glossary": None if passages.glossary is None else passages.glossary.digest,
        "memory": None if passages.memory is None else passages.memory.digest,
        "memory-use": None if passages.memory is None else passages.memory_use,
        "json": form.as_json,
        "best": form.best,
        "memory-similarity": form.least_similarity,
    }


def about_cuts(passages: PassageTranslator) -> str:
    return (
        f"there is text with no end of a sentence within the {passages.longest:,} pieces that the model reads; it is "
        "cut, at a comma or a space where there is one"
    )


def put_into_place(file: GrowingFile, output: Path) -> None:
    """Give what is finished the output's name, zipped where that asks for it."""
    try:
        if output.suffix == ".gz":
            staged = output.with_name(f".{output.name}.partial.gz")
            try:
                with open(file.path, "rb") as text, open_to_write(staged) as zipped:
                    shutil.copyfileobj(text, zipped)
                sync(staged)
                os.replace(staged, output)
            finally:
                staged.unlink(missing_ok=True)
            file.path.unlink()
        else:
            os.replace(file.path, output)
        sync(output.parent)
        file.manifest.unlink()
    except OSError as error:
        raise WeftError(f"{output} could not be written: {error.strerror}; the same command goes on") from error


# Reading


def sha256_unzipped(path: Path) -> str:
    digest = hashlib.sha256()
    with reporting_read_errors(path), open_bytes(path) as file:
        while read := file.read(READ_AT_ONCE):
            digest.update(read)
    return digest.hexdigest()


@contextmanager
def opened(path: Path) -> Iterator[tuple[BufferedReader, BufferedIOBase]]:
    """The file as it lies on disk, and as it is read: unzipped where its name ends with .gz."""
    with reporting_read_errors(path):
        raw = open(path, "rb")  # noqa: SIM115 (closed below; what goes wrong meanwhile is not about this file)
    with raw:
        yield raw, gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw


def read_again(file: BufferedIOBase, place: Place, source: Path, output: Path) -> tuple[Place, "hashlib._Hash"]:
    """Read up to the place, and return it with the digest so far; raises UsageError where something else lies there
    now. A last line that had no line end may have got one."""
    digest = hashlib.sha256()
    left, last = place.bytes, b"\n"
    with reporting_read_errors(source):
        while left and (data := file.read(min(left, READ_AT_ONCE))):
            digest.update(data)
            left, last = left - len(data), data[-1:]
        behind = file.read(1) if last != b"\n" else b""
    if digest.hexdigest() != place.sha256 or behind not in (b"", b"\n"):
        raise UsageError(
            f"{source} has changed: its first {place.lines:,} lines, which are translated beside {output}, are others "
            "now; put the old ones back, or begin anew: --restart"
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
    """The lines of a binary file from a place on, in blocks; `source` is its name in errors.

    `as_they_come`: a block also ends where the next line is not there yet, so that nobody waits for it. Raises
    CorpusError for a line that is not UTF-8 or too long, and where the file cannot be read on.
    """
    name, place, digest = source or Path("the input"), place or Place(), digest or hashlib.sha256()
    block: list[bytes] = []
    size = 0
    for lines in arriving_lines(file, name, place.lines):
        for line in lines:
            block.append(line)
            size += len(line)
            if len(block) == LINES_AT_ONCE or size >= BYTES_AT_ONCE:
                yield (made := as_block(block, name, place, digest))
                block, size, place = [], 0, made.place
        if block and as_they_come:
            yield (made := as_block(block, name, place, digest))
            block, size, place = [], 0, made.place
    if block:
        yield as_block(block, name, place, digest)


def as_block(lines: list[bytes], name: Path, place: Place, digest: "hashlib._Hash") -> Block:
    """The lines that follow a place, decoded; a line that cannot be is an error, since leaving it out would shift the
    rest."""
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
    """What turns blocks into answers, in order: this process, or a cluster."""
    if not cluster:
        yield partial(map, partial(answer, passages, form=form))
        return
    work = ElsewhereWork.of(passages, form)
    with cluster_workers() as each:
        yield partial(each, work)


def answer(passages: PassageTranslator, block: Block, form: Form) -> Done:
    cut_before = passages.cut_texts
    if form.best is None:
        found = [[translation] for translation in passages.translate(block.texts)]
    else:
        found = passages.translate_n_best(block.texts, form.best)
    first = block.place.lines - len(block.texts) + 1
    lines = (line for number, of_text in enumerate(found, first) for line in as_lines(number, of_text, passages, form))
    return Done("".join(f"{line}\n" for line in lines), block.place, passages.cut_texts - cut_before)


def as_lines(number: int, found: Sequence[Translation], passages: PassageTranslator, form: Form) -> Iterator[str]:
    """What is written of the translations of a text: for each of them one line, whatever line ends are in it, or one
    object for all."""
    if form.as_json:
        yield json.dumps(as_object(found, passages, form), ensure_ascii=False)
        return
    for translation in found:
        text = LINE_END.sub(" ", translation.text)
        yield text if form.best is None else f"{number}\t{translation.score:.4f}\t{text}"


def as_object(found: Sequence[Translation], passages: PassageTranslator, form: Form) -> dict[str, Any]:
    """The best translation, and under keys of their own all of them and what the memory has, if asked for."""
    written: dict[str, Any] = dict(vars(found[0]))
    if form.best is not None:
        written["best"] = [{"text": one.text, "score": one.score, "log_prob": one.log_prob} for one in found]
    if form.least_similarity is not None and passages.memory is not None:
        matches = passages.memory.similar(found[0].source, least=form.least_similarity)
        written["memory"] = [vars(match) for match in matches]
    return written


Files = tuple[tuple[str, bytes], ...]
"""Names and contents."""


@dataclass(frozen=True)
class ElsewhereWork:
    """Answers blocks on a machine that has weft and nothing of the user's: the files of the model come along."""

    models: tuple[Files, ...]
    """Of each member of the ensemble, the files of its folder."""
    split: Split
    keeps_markup: bool
    glossary: Glossary | None
    memory: TranslationMemory | None
    memory_use: MemoryUse
    form: Form

    @staticmethod
    def of(passages: PassageTranslator, form: Form) -> "ElsewhereWork":
        """Raises UsageError where the translator computes with another engine, which knows only files."""
        if type(passages.translator) is not Translator:
            raise UsageError("--cluster computes with weft's own engine; name a model that was not exported")
        return ElsewhereWork(
            tuple(map(packed, passages.translator.members)),
            passages.split,
            passages.keeps_markup,
            passages.glossary,
            passages.memory,
            passages.memory_use,
            form,
        )

    def __call__(self, block: Block) -> Done:
        translator = unpacked(self.models)
        passages = PassageTranslator(
            translator,
            self.split,
            keeps_markup=self.keeps_markup,
            glossary=self.glossary,
            memory=self.memory,
            memory_use=self.memory_use,
        )
        return answer(passages, block, self.form)


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
