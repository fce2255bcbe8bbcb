"""The `[data]` table of a recipe, and the parallel text that its files hold. Knows no tokenizer and no tensor.

A corpus entry is one file of pairs (TSV, CSV, JSONL or TMX) or two files of sentences, one for each language.
Monolingual text is a file of sentences or one column of a file of pairs. How the files are parsed: pair_files.py.
"""

import json
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from weft.config import FieldProblem, Settings
from weft.data.pair_files import (
    TABLES,
    XML,
    Parse,
    Piece,
    Reading,
    Row,
    collecting,
    is_jsonl,
    open_pairs,
    open_texts,
    parse_row,
    parsed,
    pieces_of_rows,
    refuse_other_kinds,
    suffix_of,
    texts_of,
)
from weft.data.tmx import read_tmx
from weft.errors import CorpusError, Problem, UsageError
from weft.files import reporting_read_errors, sha256
from weft.text.detokenization import detokenize
from weft.text.language import NOT_A_CODE, in_one_spelling, is_common, is_known, is_language_code
from weft.text.normalization import is_blank
from weft.text.vocabulary import SPECIAL_PIECES

TAG = re.compile("<[A-Za-z][A-Za-z0-9_-]*>")


class Columns(Settings):
    source: str = Field(min_length=1)
    """Name of the source column (in the header of a TSV, or a key of JSONL), or its number from 1 without a header."""
    target: str | tuple[str, ...] = Field(min_length=1)
    """Name of the target column, or several names: the first is trained on, all are references in evaluation."""

    @property
    def names(self) -> tuple[str, ...]:
        """The source column, then the target columns."""
        return (self.source, self.target) if isinstance(self.target, str) else (self.source, *self.target)


class CorpusEntry(Settings):
    path: str | None = None
    """A TSV, CSV, JSONL or TMX file of pairs."""
    source: str | None = None
    """A text file of source sentences, one a line; needs `target`."""
    target: str | None = None
    """The text file of their translations, in the same order."""

    @model_validator(mode="after")
    def _one_file_or_two(self) -> "CorpusEntry":
        if (self.path is None) == (self.source is None and self.target is None):
            raise ValueError("give either `path`, or `source` and `target`")
        if self.path is None and (self.source is None or self.target is None):
            raise ValueError("a pair of text files needs both `source` and `target`")
        return self


class TrainingCorpus(CorpusEntry):
    weight: float = Field(default=1.0, gt=0, le=1000)
    """How often each pair occurs in an epoch: 2 means twice, 0.5 means half of the pairs, drawn anew for each epoch."""
    tag: str | None = None
    """A token such as "<bt>" that is put before every source sentence of this corpus."""

    @field_validator("tag")
    @classmethod
    def _is_a_word_in_angle_brackets(cls, tag: str | None) -> str | None:
        if tag is not None and (not TAG.fullmatch(tag) or tag in SPECIAL_PIECES):
            raise ValueError(
                f'expected a word in angle brackets, such as "<bt>", and none of {", ".join(SPECIAL_PIECES)}'
            )
        return tag


class DataConfig(Settings):
    source: str
    """Code of the language to translate from, such as zh."""
    target: str
    """Code of the language to translate into, such as en."""
    train: tuple[str | TrainingCorpus, ...] = Field(min_length=1)
    """Files to train on: TSV, CSV, JSONL or TMX paths, or two text files as { source = "a.zh", target = "a.en" }, also
    written as "a.zh", "a.en" if their names end in the two codes; .gz too."""
    valid: tuple[str | CorpusEntry, ...] = Field(min_length=1)
    """Files to validate on, which select the best checkpoint; never trained on."""
    columns: Columns | None = None
    """Columns that hold the pair. Default: those named like the languages, or without a header the first two."""
    header: bool = True
    """Whether the first line of a TSV or CSV names its columns."""
    empty_sides: Literal["error", "drop"] = "error"
    """What to do with a pair that has an empty side."""
    detokenize: bool = False
    """Undo tokenization with spaces, as in "do n't ." or "你 好 ！", on both sides of all files."""
    max_length: int = Field(default=256, ge=1)
    """Drop training pairs with more than this many pieces on a side. Dropped pairs are counted and reported."""
    tag: str | None = None
    """Tag of one of the training corpora, put before every sentence that is validated or translated."""

    @field_validator("source", "target")
    @classmethod
    def _is_a_language_code(cls, code: str) -> str:
        if not is_language_code(code):
            raise ValueError(NOT_A_CODE)
        return code

    @model_validator(mode="before")
    @classmethod
    def _two_text_files(cls, values: Any) -> Any:
        """Join names of text files that end in the two codes to one entry."""
        if not isinstance(values, dict) or not all(isinstance(values.get(side), str) for side in ("source", "target")):
            return values
        languages = values["source"], values["target"]
        lists = {key: values[key] for key in ("train", "valid") if isinstance(values.get(key), (list, tuple))}
        return {**values, **{key: join_texts(entries, languages) for key, entries in lists.items()}}

    def misfits(self) -> Iterator[FieldProblem]:
        if self.source == self.target and self.columns is None:
            yield FieldProblem("target", "is also the source language; name the two columns in data.columns")
        if self.tag is not None and self.tag not in self.tags:
            known = f"known: {', '.join(self.tags)}" if self.tags else "none of them has a tag"
            yield FieldProblem("tag", f"must be the tag of a corpus in data.train; {known}")

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the training corpora, without repetition, in order."""
        tags = [entry.tag for entry in self.train if not isinstance(entry, str) and entry.tag is not None]
        return tuple(dict.fromkeys(tags))


@dataclass(frozen=True)
class Layout:
    """Languages, columns and tokenization of files that no recipe names; the fields are those of DataConfig."""

    source: str
    target: str
    columns: Columns | None = None
    header: bool = True
    detokenize: bool = False

    @property
    def languages(self) -> tuple[str, str]:
        return self.source, self.target


@dataclass(frozen=True)
class Part:
    """A number of consecutive pairs from one corpus, with its weight and tag, and their file and line numbers."""

    pairs: int
    weight: float = 1.0
    tag: str | None = None
    file: str = ""
    lines: Sequence[int] = ()


@dataclass(frozen=True)
class ParallelText:
    """Sentence pairs in memory: `references[i]` holds one or more translations of `sources[i]`.

    The pairs of `parts` add up to all pairs. Without parts every pair has weight 1 and no tag.
    """

    sources: list[str]
    references: list[tuple[str, ...]]
    sha256: dict[str, str]
    dropped_empty: int = 0
    parts: tuple[Part, ...] = ()

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def targets(self) -> list[str]:
        """The first reference of each pair."""
        return [reference[0] for reference in self.references]

    def every(self, stride: int, start: int = 0) -> "ParallelText":
        """Every `stride`-th item, beginning with number `start`."""
        return replace(self, sources=self.sources[start::stride], references=self.references[start::stride], parts=())

    def describe(self, pair: int) -> dict[str, Any]:
        """Return the two sides of a pair, and its file and line (counted from 1) if they are known."""
        sides = {"source": self.sources[pair], "target": self.references[pair][0]}
        before = 0
        for part in self.parts:
            if part.lines and before <= pair < before + part.pairs:
                return {"file": part.file, "line": part.lines[pair - before], **sides}
            before += part.pairs
        return sides


def read_corpora(entries: Sequence[str | CorpusEntry], config: DataConfig, root: Path) -> ParallelText:
    """Read all pairs of these entries, in order; paths are relative to `root`.

    Raises CorpusError that names every wrong line of every file.
    """
    texts, problems = [], []
    given = as_entries(entries)
    for entry, name in zip(given, different_names(given), strict=True):
        with collecting(problems):
            texts.append(read_entry(entry, Reading(name), config, root))
    if problems:
        raise CorpusError("the corpus", problems)
    return ParallelText(
        sources=[source for text in texts for source in text.sources],
        references=[reference for text in texts for reference in text.references],
        sha256={name: digest for text in texts for name, digest in text.sha256.items()},
        dropped_empty=sum(text.dropped_empty for text in texts),
        parts=tuple(part for text in texts for part in text.parts),
    )


def read_given(files: Sequence[Path], config: DataConfig) -> ParallelText:
    """Read what a command line names: one file of pairs, or text files two by two, whose names tell source and target
    where they end in the codes of the languages."""
    if len(files) == 1:
        refuse_other_kinds(str(files[0]))
        return read_corpora([str(files[0])], config, Path())
    return read_corpora(group_files(files, (config.source, config.target)), config, Path())


def read_entry(entry: CorpusEntry, reading: Reading, config: DataConfig, root: Path) -> ParallelText:
    """Read the pairs of one entry; the subject of the reading stands for it in errors and in the result."""
    sources, references = [], []
    lines = array("I")
    dropped = 0
    for number, source, targets in parsed(*open_entry(entry, config, root, reading), reading):
        if not (is_blank(source) or is_blank(targets[0])):
            sources.append(source)
            references.append(targets)
            lines.append(number)
        elif config.empty_sides == "drop":
            dropped += 1
        else:
            reading.add_empty(number, source)
    reading.raise_problems()
    if not sources:
        raise CorpusError(reading.subject, [Problem("the whole file", "contains no sentence pair")])
    part = Part(len(sources), *weight_and_tag(entry), reading.subject, lines)
    with reporting_read_errors(root / file_names(entry)[0]):
        digests = {file: sha256(root / file) for file in file_names(entry)}
    return ParallelText(sources, references, digests, dropped, (part,))


def read_monolingual(path: Path, column: str) -> list[str]:
    """Read the sentences of a text file, one a line, or of one column of a table with a header or a JSONL; .gz too.

    Raises CorpusError that names every wrong line, UsageError for a file of another kind.
    """
    reading = Reading(path.name, "name one of them by --column")
    texts = [text for _, text in texts_of(path, column, reading)]
    reading.raise_problems()
    return texts


def common_reading(configs: Sequence[tuple[str, DataConfig]], name: str) -> DataConfig:
    """Return the config by which all of these named models read a file of pairs called `name`.

    Raises UsageError with every key in which they differ: the models would be scored on different sentences.
    """
    has_columns = suffix_of(name) in TABLES  # two text files and TMX have none
    ways = [
        {
            "columns": list(named_columns(name, config).names) if has_columns else None,
            "header": is_jsonl(name) or config.header or not has_columns,
            "empty_sides": config.empty_sides,
            "detokenize": config.detokenize,
        }
        for _, config in configs
    ]
    found, keys = [], []
    for key in ways[0]:
        values = [json.dumps(way[key], ensure_ascii=False) for way in ways]
        if len(set(values)) > 1:
            by_model = [f"{value} for {model}" for value, (model, _) in zip(values, configs, strict=True)]
            found.append(f"data.{key} is {', '.join(by_model)}")
            keys.append(f"--set data.{key}=...")
    if found:
        raise UsageError(
            f"the models read pairs in different ways: {'; '.join(found)}; set one for all with {' '.join(keys)}"
        )
    return configs[0][1]


# Entries


def as_entries(entries: Sequence[str | CorpusEntry]) -> tuple[CorpusEntry, ...]:
    return tuple(CorpusEntry(path=entry) if isinstance(entry, str) else entry for entry in entries)


def group_files(names: Sequence[str | Path], languages: tuple[str, str] | None = None) -> list[CorpusEntry]:
    """Return the entries for file names on a command line: files of pairs, or text files two by two.

    Text files whose names end in the codes of the languages belong together in any order.
    """
    joined = join_texts([str(name) for name in names], languages) if languages else [str(name) for name in names]
    entries: list[CorpusEntry] = []
    texts: list[str] = []
    for name in joined:
        if isinstance(name, dict):
            entries.append(CorpusEntry(**name))
        elif suffix_of(name) in (*TABLES, *XML):
            entries.append(CorpusEntry(path=name))
        else:
            texts.append(name)
    for name in texts:
        refuse_other_kinds(name)
    if len(texts) % 2:
        if Path(texts[-1]).is_dir():
            raise UsageError(f"{texts[-1]} is a folder; name the files of pairs in it, or a recipe")
        raise UsageError(
            f"{texts[-1]} has no partner: files of pairs end with .tsv, .csv, .jsonl, .json or .tmx (.gz too); text "
            "files come two by two, source then target"
        )
    pairs = zip(texts[::2], texts[1::2], strict=True)
    return entries + [CorpusEntry(source=source, target=target) for source, target in pairs]


LANGUAGE_IN_NAME = re.compile(r"(.*?[._-])([a-z]{2,3}(?:[-_][a-z]+)?)((?:\.txt)?(?:\.gz)?)", re.IGNORECASE)
"""train.zh and news_en.txt.gz: the code at the end of a text file's name."""


def language_in_name(name: str) -> tuple[str, str] | None:
    """The language code at the end of a text file's name in lower case, and the rest of the name."""
    found = LANGUAGE_IN_NAME.fullmatch(Path(name).name)
    if found is None:
        return None
    before, code, behind = found.groups()
    first, sign, last = re.fullmatch("([a-z]+)([-_]?)(.*)", code, re.IGNORECASE).groups()  # type: ignore[union-attr]
    is_region = last.isupper() and not first.isupper()  # ast-ES
    if sign and not is_region and not is_common(first) and is_common(last):  # ted.dev_en: dev is no language
        before, code = f"{before}{first}{sign}", last
    return (in_one_spelling(code), str(Path(name).with_name(f"{before}*{behind}"))) if is_known(code) else None


def join_texts(entries: Sequence[Any], languages: tuple[str, str]) -> list[Any]:
    """Replace two names that differ only in ending with the codes of the languages by {"source": ..., "target": ...},
    at the place of the first; other entries stay."""
    codes = [*map(in_one_spelling, languages)]
    joined: list[Any] = []
    alone: dict[tuple[str, str], int] = {}  # code and rest of a name -> its place
    for entry in entries:
        code, rest = (isinstance(entry, str) and language_in_name(entry)) or ("", "")
        place = alone.pop((codes[1 - codes.index(code)], rest), None) if code in codes else None
        if place is None:
            alone[code, rest] = len(joined)
            joined.append(entry)
        else:
            sides = (joined[place], entry)[:: 1 if code == codes[1] else -1]
            joined[place] = dict(zip(("source", "target"), sides, strict=True))
    return joined


def file_names(entry: CorpusEntry) -> list[str]:
    return [name for name in (entry.path, entry.source, entry.target) if name is not None]


def different_names(entries: Sequence[CorpusEntry]) -> list[str]:
    """Return a distinct name for each entry: its first file, else both files, else with a number appended."""
    short = [file_names(entry)[0] for entry in entries]
    names = [
        name if short.count(name) == 1 else " + ".join(file_names(entry))
        for name, entry in zip(short, entries, strict=True)
    ]
    return [
        f"{name} ({names[:place].count(name) + 1})" if name in names[:place] else name
        for place, name in enumerate(names)
    ]


def weight_and_tag(entry: CorpusEntry) -> tuple[float, str | None]:
    return (entry.weight, entry.tag) if isinstance(entry, TrainingCorpus) else (1.0, None)


def open_entry(entry: CorpusEntry, config: DataConfig, root: Path, reading: Reading) -> tuple[Parse, Iterator[Piece]]:
    """Return the parser and the pieces of an entry; the parser detokenizes if the config says so."""
    parse, pieces = open_files(entry, config, root, reading)
    if config.detokenize:
        parse = partial(detokenized, parse=parse, languages=(config.source, config.target))
    return parse, pieces


def detokenized(piece: Piece, reading: Reading, *, parse: Parse, languages: tuple[str, str]) -> Iterator[Row]:
    for number, source, targets in parse(piece, reading):
        yield number, detokenize(source, languages[0]), tuple(detokenize(target, languages[1]) for target in targets)


def open_files(
    entry: CorpusEntry, layout: DataConfig | Layout, root: Path, reading: Reading
) -> tuple[Parse, Iterator[Piece]]:
    """Return the parser and the pieces of an entry, with the texts as they are in the files."""
    if entry.path is None:
        assert entry.source is not None and entry.target is not None  # CorpusEntry validates this
        return open_texts(root / entry.source, root / entry.target, reading)
    if suffix_of(entry.path) in XML:
        rows = read_tmx(root / entry.path, (layout.source, layout.target), reading)
        return parse_row, pieces_of_rows(rows)
    refuse_other_kinds(entry.path)
    return open_pairs(root / entry.path, columns_of(entry.path, layout, reading).names, layout.header, reading)


def read_rows(path: Path, languages: tuple[str, str], reading: Reading) -> Iterator[Row]:
    """Return the pairs of one file of pairs in these languages, which its header, keys or units have to name."""
    return parsed(*open_files(CorpusEntry(path=str(path)), Layout(*languages), Path(), reading), reading)


def columns_of(name: str, layout: DataConfig | Layout, reading: Reading) -> Columns:
    """Return the columns of a file of pairs; raises CorpusError if source and target are the same column."""
    columns = named_columns(name, layout)
    if columns.source in columns.names[1:]:
        reading.refuse(1, f"source and target are the same column, `{columns.source}`; {reading.column_hint}")
    return columns


def named_columns(name: str, layout: DataConfig | Layout) -> Columns:
    if layout.columns is not None:
        return layout.columns
    if layout.header or is_jsonl(name):
        return Columns(source=layout.source, target=layout.target)
    return Columns(source="1", target="2")
