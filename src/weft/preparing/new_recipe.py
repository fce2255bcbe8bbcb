"""Write a recipe for files that somebody has: what they hold, how much, and what weft chooses for that.

The files are read once, so that all problems are reported before anything is written.
"""

import csv
import json
import os
import re
import shlex
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from weft.config import resolve
from weft.config.toml import read_toml, write_value
from weft.data.corpus import CorpusEntry, Layout, file_names, group_files, language_in_name
from weft.data.lines import Lines, read_lines, without_end
from weft.data.pair_files import OTHER_KINDS, TABLES, XML, collecting, delimiter_of, in_file, is_jsonl, suffix_of
from weft.data.splitting import is_whole, read, split
from weft.errors import CorpusError, Problem, UsageError, WeftError
from weft.files import decode_lines, lines_of, open_bytes, reporting_read_errors
from weft.folders.recipes import RECIPES
from weft.preparing import defaults
from weft.text.japanese import KANA
from weft.text.language import code_of, in_one_spelling, is_common, is_known, is_one_language
from weft.text.normalization import is_blank

PARTS = {
    "train": {"train", "training"},
    "valid": {"valid", "validation", "val", "dev"},
    "test": {"test", "eval"},
}
"""Part -> words in the names of its files, between dots, dashes and underscores."""
REASONS = {
    ".png .jpg .jpeg .gif .bmp .webp .npy .npz": "weft trains on images in Python only (docs/en/memories.md)",
    ".conllu .conll": "weft train has no task for tags and trees",
    ".zip .tar .tgz .7z .rar": "is an archive; unpack it, and name what is in it",
    ".toml": "is a recipe or a study; weft new takes files of data and writes a recipe",
}
UNKNOWN = {**OTHER_KINDS, **{suffix: reason for some, reason in REASONS.items() for suffix in some.split()}}
"""Suffixes of files that no recipe can name."""
LANGUAGES = re.compile(rb"""\blang=["']([A-Za-z]{2,3}(?:[-_][A-Za-z0-9]+)*)["']""")
LOOKED_AT = 1 << 20
"""Bytes of a translation memory in which languages are looked for."""
MOST_HELD_OUT, SHARE_HELD_OUT = 1_000, 20
"""Where no file is for validation: so many pairs are held out, but at most one in SHARE_HELD_OUT."""
VALID_SHARE = 0.05
"""Share of running or single texts that are held out."""
BLANK_SHARE, RUNNING_LENGTH = 0.01, 50_000
"""Share of blank lines, and number of characters, from which a text is taken to run on from line to line."""

TABLE_ORDER = ("tokenizer", "model", "training")
"""The tables of a recipe as they are written."""
Parts = Mapping[str, list[Path]]
NAME_LANGUAGES = "name the languages: --source CODE --target CODE"


@dataclass(frozen=True)
class Asked:
    """What the user says of the files, where they do not say it themselves."""

    source: str | None
    target: str | None
    layout: Callable[[str, str, Sequence[CorpusEntry]], Layout]
    """Returns how entries in these languages are read."""


@dataclass
class Draft:
    """A recipe to be written."""

    task: str
    about: list[str]
    """Sentences for the head of the file."""
    data: dict[str, Any]
    notes: dict[str, str] = field(default_factory=dict)
    """Comments on keys of [data]."""
    chosen: dict[str, Any] = field(default_factory=dict)
    why: str = ""
    made: list[Path] = field(default_factory=list)
    """Files that were written besides."""


def new_recipe(files: Sequence[Path], to: Path | None, asked: Asked) -> tuple[Path, Draft]:
    """Write a recipe that trains on these files, or on those of a folder. Returns its path and what is in it.

    Raises CorpusError with the problems of all files, and UsageError if the recipe exists already.
    """
    parts, unused = parts_of(files)
    path = to or Path(f"{name_for(files[0])}.toml")
    if path.suffix != ".toml":
        raise UsageError(f"{path}: a recipe is a TOML file; name it {path.name}.toml")
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path} exists already; name another file with --to")
    if not path.resolve().parent.is_dir():
        raise UsageError(f"{path} cannot be written: {path.resolve().parent} is not a folder")
    found = {file: unfit(file) for some in parts.values() for file in some}
    problems, languages = [problem for some in found.values() for problem in some], None
    try:
        languages = languages_of([file for file in parts["train"] if not found[file]], asked.source, asked.target)
    except CorpusError as error:
        problems += in_file(error) if error.subject != "the data" else error.problems
    if problems:
        raise CorpusError("the data", problems)
    draft = of_texts(parts, asked, path) if languages is None else of_pairs(parts, languages, asked, path)
    if unused:
        names = ", ".join(file.name for file in unused)
        draft.about.append(
            f"Not used: {names}. Of a folder, files called train, valid or test are taken, except those whose names "
            "add words to another's; name the files themselves to use them."
        )
    text = written(draft, path)
    model: Any = RECIPES[draft.task]
    resolve(read_toml(text), model, path, text=text)  # what is written can be read
    try:
        with open(path, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        if not isinstance(error, FileExistsError):
            path.unlink(missing_ok=True)  # the disk may be full
        for folder in {file.parent for file in draft.made}:
            shutil.rmtree(folder)
        raise WeftError(f"{path} could not be written: {error.strerror}") from error
    return path, draft


# What the files are


def parts_of(files: Sequence[Path]) -> tuple[Parts, list[Path]]:
    """The files of each part, by the words in their names; of a folder also those that are left out: they have none of
    these words, or add words to the name of another file, as train.attribution.tsv does to train.tsv."""
    is_folder = len(files) == 1 and files[0].is_dir()
    given = sorted(f for f in files[0].iterdir() if f.is_file() and is_data(f)) if is_folder else list(files)
    parts: dict[str, list[Path]] = {part: [] for part in (*PARTS, "other")}
    for file in given:
        parts[next((part for part, words in PARTS.items() if words & words_of(file)), "other")].append(file)
    if not parts["train"]:
        parts["train"], parts["other"] = parts["other"], []
    if not parts["train"]:
        raise UsageError(f"{', '.join(map(str, files))}: no file to train on, such as train.tsv, train.zh or train.txt")
    if is_folder:
        parts = {part: [f for f in some if not any(stem_words(other) < stem_words(f) for other in some)]
                 for part, some in parts.items() if part != "other"}  # fmt: skip
    elif parts["other"]:
        others = ", ".join(map(str, parts["other"]))
        raise UsageError(f"{others}: to train on or to validate on? Put the word train or valid into the name")
    return parts, sorted(set(given) - {file for some in parts.values() for file in some})


def words_of(file: Path) -> set[str]:
    """The words of a name; the code of a common language at its end is one, with a region or without."""
    code, rest = language_in_name(file.name) or ("", file.name)
    if not is_common(code):
        code, rest = "", file.name
    return {*filter(None, [code, *re.split("[._*-]", rest.lower().removesuffix(".gz"))])}


def stem_words(file: Path) -> set[str]:
    """The words of a name without its suffix, which tells the type or the language."""
    return words_of(file) - {suffix_of(file.name)[1:]}


def is_data(file: Path) -> bool:
    suffix = suffix_of(file.name)
    is_known = suffix in (*TABLES, *XML, ".txt", *UNKNOWN) and suffix != ".toml"
    return is_known or language_in_name(file.name) is not None


def name_for(first: Path) -> str:
    """The name of the folder, or of the file unless that is only called train."""
    first = first.resolve()
    named = first.parent if not first.is_dir() and PARTS["train"] & words_of(first) else first
    return named.name.removesuffix(".gz").split(".")[0] or "new"


def unfit(file: Path) -> list[Problem]:
    """Why a file cannot be trained on, if its name or its first lines tell."""
    if reason := UNKNOWN.get(suffix_of(file.name)):
        return [Problem(str(file), reason)]
    if suffix_of(file.name) in XML:
        return []  # its encoding and its lines are known to its reader
    problems: list[Problem] = []
    try:
        head = [text for _, text in decode_lines(islice(lines_of(file), 100), problems)]
    except CorpusError as error:
        return [Problem(str(file), problem.what) for problem in error.problems]
    if any("\0" in text for text in head):
        return [Problem(str(file), "is not text: it contains zero bytes")]
    if not head and not problems:
        return [Problem(str(file), "is empty")]
    if suffix_of(file.name) == ".txt" and head and all("\t" in text for text in head):
        return [Problem(str(file), "has a tab in every line, as a table has; give it a name that ends with .tsv")]
    return [Problem(f"{file}: {problem.where}", problem.what) for problem in problems[:1]]


def languages_of(train: Sequence[Path], source: str | None, target: str | None) -> tuple[str, str] | None:
    """The languages of pairs, the source first; None for texts of one language. Raises CorpusError where they cannot be
    told, and UsageError for a language that is asked for and that the files do not have."""
    if source and target:
        return source, target
    problems, found = list[Problem](), set[tuple[str, ...]]()
    for file in train:
        if suffix_of(file.name) not in (*TABLES, *XML):
            continue
        columns = columns_of(file)
        codes = tuple(filter(is_code, columns))
        found.add(codes)
        rare = [column for column in columns if is_known(column) and not is_common(column)]
        if len(codes) == 1 and len(rare) == 1:
            what = f"is {rare[0]} a language? If it is, {NAME_LANGUAGES}; if not, rename that column"
            problems.append(Problem(str(file), what))
        elif len(codes) > 2 or not codes:
            named = ", ".join(columns)[:200] or "none"
            problems.append(Problem(str(file), f"which columns are a pair? It has {named}; {NAME_LANGUAGES}"))
    texts = [file for file in train if suffix_of(file.name) not in (*TABLES, *XML)]
    codes = dict.fromkeys(code for file in texts if (code := (language_in_name(file.name) or ("",))[0]))
    found |= {tuple(codes)[:2]} if len(codes) > 1 else set()
    if len(codes) > 2 or len(found) > 1:
        problems.append(Problem(", ".join(map(str, train)), f"hold several languages; {NAME_LANGUAGES}"))
    if len(texts) == 2 and not codes:
        what = f"if they translate each other, {NAME_LANGUAGES}; for a language model, name one file"
        problems.append(Problem(" and ".join(map(str, texts)), what))
    if problems:
        raise CorpusError("the data", problems)
    (languages,) = found or {()}
    if len(languages) != 2:
        if target:
            raise UsageError(f"--target {target}: there are texts of one language only; {NAME_LANGUAGES}")
        return None
    return in_direction((languages[0], languages[1]), source, target)


def in_direction(languages: tuple[str, str], source: str | None, target: str | None) -> tuple[str, str]:
    """The two languages in the order that --source or --target alone gives them."""
    spelled = [*map(in_one_spelling, languages)]  # of two in one language, such as zh-CN and zh-TW, regions tell
    for code, wanted in ((source, 0), (target, 1)):
        if code and in_one_spelling(code) in spelled:
            return languages if spelled.index(in_one_spelling(code)) == wanted else (languages[1], languages[0])
    for option, code, place in (("--source", source, 0), ("--target", target, 1)):
        if code and not any(is_one_language(code, language) for language in languages):
            raise UsageError(f"{option} {code}: the files hold {' and '.join(languages)}; {NAME_LANGUAGES}")
        if code and not is_one_language(code, languages[place]):
            return languages[1], languages[0]
    return languages


def is_code(column: str) -> bool:
    """Whether a column or a file is named after a language that has a code of two letters, or is Chinese; codes of
    three letters are also words, such as idx, uid and new, and `id` is taken for the number of a row."""
    return is_common(column) and column.lower() != "id"


def columns_of(file: Path) -> list[str]:
    """The names that a file of pairs gives its columns or texts."""
    if suffix_of(file.name) in XML:
        with reporting_read_errors(file), open_bytes(file) as memory:
            return list(dict.fromkeys(code.decode() for code in LANGUAGES.findall(memory.read(LOOKED_AT))))
    problems: list[Problem] = []
    first = next((text for _, text in decode_lines(islice(lines_of(file), 1), problems)), "")
    if is_jsonl(file.name):
        try:
            row = json.loads(first)
        except (ValueError, RecursionError):
            return []
        return [key for key, value in row.items() if isinstance(value, str)] if isinstance(row, dict) else []
    if suffix_of(file.name) == ".csv":
        try:
            return [cell.strip() for cell in next(csv.reader([first], delimiter=delimiter_of(first)), [])]
        except csv.Error:
            return []  # reading the rows says why
    return [cell.strip() for cell in first.split("\t")]


# Pairs


def of_pairs(parts: Parts, languages: tuple[str, str], asked: Asked, path: Path) -> Draft:
    entries = {part: group_files(parts[part], languages) for part in ("train", "valid")}
    layout = asked.layout(*languages, entries["train"] + entries["valid"])
    problems, counts, blank = list[Problem](), {"train": 0, "valid": 0}, 0
    for part, some in entries.items():
        for entry in some:
            with collecting(problems):
                for pairs in read(entry, layout):
                    whole = sum(map(is_whole, pairs))
                    counts[part], blank = counts[part] + whole, blank + len(pairs) - whole
    if not counts["train"] and not problems:
        problems.append(Problem(", ".join(map(str, parts["train"])), "contains no sentence pair"))
    if problems:
        raise CorpusError("the data", problems)
    notes, made, about = {}, list[Path](), []
    if not entries["valid"]:
        folder = path.with_suffix("")
        if folder.exists():
            folder = path.with_name(f"{path.stem}-split")
        held_out = max(1, min(MOST_HELD_OUT, counts["train"] // SHARE_HELD_OUT))
        drawn, test = ["valid", "test"], " and as many for a last test"
        if parts["test"]:
            drawn, test = ["valid"], f"; the last test is {', '.join(map(str, parts['test']))}"
        try:
            came = split(entries["train"], layout, folder, dict.fromkeys(drawn, held_out), seed=1)
        except UsageError as error:
            raise UsageError(
                f"{str(error).partition('; ask')[0]}; name a file for validation, such as valid.tsv"
            ) from None
        made = [folder / f"{part}.tsv" for part in came.pairs]
        entries = {part: [CorpusEntry(path=str(folder / f"{part}.tsv"))] for part in entries}
        counts, blank = dict(came.pairs), 0
        columns = ("source", "target") if layout.source == layout.target else ()
        about = [
            f"No file was for validation, so {held_out:,} pairs were drawn for it{test}. None of the drawn sentences "
            "is in train.tsv. If the corpus consists of conversations or documents, hold out whole ones instead: "
            "neighboring sentences are too similar for a fair test."
        ]
        lost = {"pairs with an empty side": came.dropped_empty, "further copies of held-out pairs": came.copies}
        about += (
            [f"In no part: {', '.join(f'{n:,} {what}' for what, n in lost.items() if n)}."]
            if any(lost.values())
            else []
        )
    else:
        columns = layout.columns.names if layout.columns else ()
    data: dict[str, Any] = {"source": layout.source, "target": layout.target}
    data |= {part: [written_entry(entry, path) for entry in some] for part, some in entries.items()}
    if columns:
        data["columns"] = {"source": columns[0], "target": columns[1]}
    if not layout.header and not made:
        data["header"] = False
    if blank:
        data["empty_sides"] = "drop"
        notes["empty_sides"] = f"{blank:,} pairs have an empty side"
    notes["train"], notes["valid"] = (f"{counts[part]:,} pairs" for part in ("train", "valid"))
    model: Any = RECIPES["translation"]
    resolved = resolve({"data": data}, model, path)
    kinds = {"tokenizer.kind": resolved.recipe.tokenizer.kind, "model.kind": resolved.recipe.model.kind}
    chosen = kinds | defaults.choose_open_settings(resolved, counts["train"])
    chosen = dict(sorted(chosen.items(), key=lambda item: TABLE_ORDER.index(item[0].partition(".")[0])))
    return Draft("translation", about, data, notes, chosen, reasons(chosen, counts["train"], "pairs", AGAIN), made)


def written_entry(entry: CorpusEntry, path: Path) -> Any:
    names = [relative(Path(name), path) for name in file_names(entry)]
    return names[0] if entry.path is not None else dict(zip(("source", "target"), names, strict=True))


def relative(file: Path, recipe: Path) -> str:
    """The name of a file as `weft train` looks for it."""
    root = os.environ.get("WEFT_DATA") or recipe.resolve().parent
    return Path(os.path.relpath(file.resolve(), Path(root).resolve())).as_posix()


# Texts


def of_texts(parts: Parts, asked: Asked, path: Path) -> Draft:
    train = parts["train"]
    tables = [file for file in train if suffix_of(file.name) in (*TABLES, *XML)]
    named = next(filter(is_code, columns_of(tables[0]))) if tables else None
    if named is not None and asked.source is not None and code_of(asked.source) != code_of(named):
        raise CorpusError("the data", [Problem(str(tables[0]), f"has a column {named}, and none for {asked.source}")])
    if wrong := [file for file in tables if suffix_of(file.name) in XML]:
        what = "has texts of one language; a language model learns from text files and from a column of a table"
        raise CorpusError("the data", [Problem(str(file), what) for file in wrong])
    ends = {file: (language_in_name(file.name) or ("",))[0] for file in (*train, *parts["valid"])}
    codes = {file: code for file, code in ends.items() if is_code(code)}
    told = asked.source or named or next(iter(codes.values()), "")
    if not asked.source and (others := [file for file, code in codes.items() if not is_one_language(code, told)]):
        what = f"the training data in {told}; for a translator give both sides of each part, else --source {told}"
        raise CorpusError("the data", [Problem(str(file), f"is in {codes[file]}, {what}") for file in others])
    texts = read_lines([str(file) for file in train], Path(), keeps_blank=True, column=named)
    valid = read_lines([str(f) for f in parts["valid"]], Path(), column=named) if parts["valid"] else None
    rows = [text for text in texts.texts if not is_blank(text)]
    if not rows:
        raise CorpusError("the data", [Problem(", ".join(map(str, train)), "holds no text")])
    runs_on = named is None and len(texts) - len(rows) > BLANK_SHARE * len(texts)
    runs_on = runs_on and sum(map(len, rows)) > RUNNING_LENGTH
    data: dict[str, Any] = {"language": told or guessed_language(rows)}
    notes = {"train": f"{len(rows):,} texts, one per line"}
    if not told:
        notes["language"] = "guessed from the script"
    data["train"] = [relative(file, path) for file in train]
    if valid is not None:
        data["valid"] = [relative(file, path) for file in parts["valid"]]
        notes["valid"] = f"{len(valid):,} texts"
    else:
        without_end(Lines(rows, [], {}), VALID_SHARE)  # refuse what training refuses
        data["valid_share"] = VALID_SHARE
        notes["valid_share"] = "no file was for validation: the last lines are held out"
    if named is not None:
        data["column"] = named
    if runs_on:
        data["running"] = True
        notes["running"] = "blank lines separate paragraphs, so each line is read as a continuation of the one before"
        notes["train"] = f"{len(rows):,} lines"
    chosen = language_model_settings(len(rows), data, path)
    return Draft("language-model", [], data, notes, chosen, reasons(chosen, len(rows), "lines", AT_ONCE))


def guessed_language(texts: Sequence[str]) -> str:
    some = "".join(islice(texts, 1000))
    if len(re.findall(f"[{KANA}]", some)) > 0.2 * len(some):
        return "ja"
    return "zh" if len(re.findall("[\u4e00-\u9fff]", some)) > 0.2 * len(some) else "en"


def language_model_settings(rows: int, data: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The shape of the translator's decoder for as many pairs, and how it is trained."""
    size, model = defaults.size_for(rows), RECIPES["language-model"]
    recipe: Any = resolve({"data": data}, model, path).recipe
    return {
        "tokenizer.kind": "bpe",
        "tokenizer.size": size.vocabulary,
        "model.kind": "transformer",
        "model.model_dim": size.model_dim,
        "model.num_heads": defaults.heads_for("rotary", size.model_dim),
        "model.num_layers": size.layers,
        "model.ff_dim": defaults.FF_FACTOR * size.model_dim,
        "model.dropout": size.dropout,
        "model.positions": "rotary",
        "training.batch_tokens": size.batch_tokens,
        "training.optimizer": "muon",
        "training.learning_rate": defaults.rate_for(recipe.training, "muon", size, size.model_dim),
        "training.epochs": size.epochs,
        "training.patience": 5,
    }


# The file


AGAIN = (
    "Remove a line, and weft train chooses it anew: for the pairs that are there then, and for the time of a --budget."
)
AT_ONCE = "Patience ends the run where the validation loss has stopped falling."


def reasons(chosen: Mapping[str, Any], rows: int, unit: str, more: str) -> str:
    """Why these values were chosen, in sentences."""
    why = [defaults.SIZE_MATTERS.replace("pairs", unit)]
    why += [reason for item, reason in defaults.REASONS.items() if item in chosen.items()]
    return f"Chosen for {rows:,} training {unit}: {'; '.join(why)}. {more}"


def written(draft: Draft, path: Path) -> str:
    """The recipe as TOML with comments."""
    shown = shlex.quote(str(path))
    lines = [f"# Written by weft new. weft plan {shown} tells how long it takes; weft train {shown} trains it."]
    lines += [line for sentence in draft.about for line in comment(sentence)]
    lines += [f'task = "{draft.task}"', "seed = 1", "", "[data]"]
    for key, value in draft.data.items():
        lines.append(f"{key} = {write_value(value)}{f'  # {note}' if (note := draft.notes.get(key)) else ''}")
    lines += ["", *comment(draft.why)]
    table = ""
    for key, value in draft.chosen.items():
        of, _, name = key.rpartition(".")
        if of != table:
            lines += [*([""] if table else []), f"[{of}]"]
            table = of
        lines.append(f"{name} = {write_value(value)}")
    return "\n".join(lines) + "\n"


def comment(sentence: str) -> list[str]:
    return textwrap.wrap(sentence, 100, initial_indent="# ", subsequent_indent="# ")
