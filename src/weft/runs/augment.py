"""Training pairs that a model makes.

from_text        back-translation: a target -> source model reads text of the target language, and its answers become
                 the sources (Sennrich et al. 2016, "Improving Neural Machine Translation Models with Monolingual
                 Data"); self-training: a source -> target model reads text of the source language, and its answers
                 become the targets (Zhang & Zong 2016, "Exploiting Source-side Monolingual Data in Neural Machine
                 Translation")
distill          a teacher, or an ensemble of some, reads the sources of a corpus, and its answers take the place of the
                 targets (Kim & Rush 2016, "Sequence-Level Knowledge Distillation", section 3.2)

The pairs come as a TSV; what would teach nothing good is left out and counted. The work is done in chunks, and the same
call continues after the last one that was written (growing_file.py). Nothing here knows how the pairs are trained on.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from weft.data.corpus import CorpusEntry, read_entry, read_monolingual
from weft.data.doctor.checks import in_another_language
from weft.data.pair_files import ONE_TABLE, Reading
from weft.data.splitting import column_names
from weft.errors import CorpusError, Problem, UsageError, WeftError
from weft.evaluating.evaluation import on_one_line
from weft.files import sha256
from weft.folders.card import recorded_files
from weft.folders.finding import find_model
from weft.folders.manifest import MANIFEST
from weft.folders.model_folder import load_model
from weft.folders.summary import read_card
from weft.preparing.parents import parent_of
from weft.text.copying import has_word
from weft.text.growing import REPLACEMENT
from weft.text.normalization import is_blank, normalize
from weft.training.signals import stop_on_signal
from weft.translating.files import digest_of
from weft.translating.growing_file import GrowingFile
from weft.translating.loading import load_translator
from weft.translating.translator import Translator

ALWAYS_ALLOWED = 5
"""Pieces that one side may have more than the other whatever the ratio, since short sentences are unequal."""

TEXTS_AT_ONCE = 1024
"""Texts that are translated and written before the next ones: what a killed process loses at most."""

FIRST_TEXTS = 300
"""Texts by which a file is taken to be in another language than the model reads, where most of them are."""

SECONDS_BETWEEN_MESSAGES = 10.0

Method = Literal["back-translation", "self-training"]
ANSWER_IS: dict[Method, Literal["source", "target"]] = {"back-translation": "source", "self-training": "target"}
"""The side of a pair that the model writes."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Made:
    """How many pairs were made of how many texts, and why the others were left out: reason -> count."""

    texts: int
    pairs: int
    left_out: dict[str, int]

    def __str__(self) -> str:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.items())
        return f"{self.pairs:,} pairs of {self.texts:,} texts; left out: {reasons or 'none'}"


def from_text(
    method: Method,
    model: str | Path,
    text: Path,
    output: Path,
    *,
    max_ratio: float,
    column: str | None = None,
    overrides: Sequence[str] = (),
    say: Say = lambda message: None,
) -> Made:
    """Pairs to train with: by back-translation the other direction than the model's, what it writes being the source;
    by self-training the model's own direction, what it writes being the target.

    `text` is a text file, one sentence a line, or a TSV or JSONL with this `column` (left out: the one named as the
    language that the model reads). `output` is a TSV. Each override is "KEY=VALUE" with a key of
    translating.translator.CHANGEABLE. A pair is left out where one side has more than `max_ratio` times the pieces of
    the other (and ALWAYS_ALLOWED).
    """
    reader = load_reader([model], overrides)
    texts = monolingual(reader, text, column)
    return write_pairs(method, reader, texts, output, ANSWER_IS[method], max_ratio, say)


def distill(
    models: Sequence[str | Path],
    data: Path,
    output: Path,
    *,
    max_ratio: float,
    overrides: Sequence[str] = (),
    say: Say = lambda message: None,
) -> Made:
    """The sources of a file of pairs with what the teachers make of them together. The rest is as in from_text.

    The file is read and the answers are searched as the first teacher's recipe says. The teachers need the same
    target vocabulary; raises ProblemsError where they have not.
    """
    reader = load_reader(models, overrides)
    reading = Reading(str(data), texts_hint=ONE_TABLE)
    pairs = read_entry(CorpusEntry(path=str(data)), reading, reader.model.recipe.data, Path())
    texts = Texts(data, pairs.sha256[str(data)], pairs.sources)
    return write_pairs("distillation", reader, texts, output, "target", max_ratio, say)


@dataclass(frozen=True)
class Texts:
    """What is read, from which file (its sha256 is that of the file as it lies on disk)."""

    file: Path
    sha256: str
    texts: list[str]
    column: str | None = None


def load_reader(models: Sequence[str | Path], overrides: Sequence[str]) -> Translator:
    """The overrides are the first model's, which settles how all of them search."""
    if not models:
        raise UsageError("no model is given; name a model folder or a run folder")
    folders = [find_model(model) for model in models]
    first = load_translator(folders[0], overrides).model
    reader = Translator(first, others=[load_model(folder) for folder in folders[1:]])
    reader.folders = tuple(folders)
    return reader


def monolingual(reader: Translator, file: Path, column: str | None) -> Texts:
    texts = read_monolingual(file, column or reader.model.recipe.data.source)
    if not texts:
        raise CorpusError(file, [Problem("the file", "is empty")])
    return Texts(file, sha256(file), texts, column)


def write_pairs(
    method: str,
    reader: Translator,
    texts: Texts,
    output: Path,
    answer_is: Literal["source", "target"],
    max_ratio: float,
    say: Say,
) -> Made:
    """Write a TSV whose header names the languages, and beside it OUTPUT.json, which says what it was made of.

    Raises UsageError where the texts are what a model was validated on, or the output was started with other settings;
    Stopped when a signal asks for it; WeftError if no pair is left.
    """
    refuse_held_out(reader, texts)
    if output.suffix != ".tsv":
        raise UsageError(f"{output} must be a TSV; give it a name that ends with .tsv")
    languages = reader.model.recipe.data
    header = on_sides(*column_names(languages.source, languages.target), answer_is)
    if languages.source == languages.target:
        header = "source\ttarget\n"
    makers = [asdict(parent_of("maker", str(folder))) for folder in reader.folders]
    sources = {"makers": makers, "texts": str(texts.file)}
    file = GrowingFile(output, made_of(method, reader, texts, max_ratio), sources)
    with stop_on_signal() as stop, file.opened():
        if file.is_finished:
            made = Made(**file.state)
            say(f"{output} is finished: {made}")
            return made
        made = Made(**file.state) if file.state else Made(0, 0, {})
        if made.texts:
            say(f"continuing after text {made.texts:,} of {len(texts.texts):,}")
        warn_of_another_language(texts, languages.source, say)
        pace = Pace(made.texts, len(texts.texts), say)
        while made.texts < len(texts.texts):
            chunk = texts.texts[made.texts : made.texts + TEXTS_AT_ONCE]
            pairs, left_out = label(reader, chunk, max_ratio)
            rows = "".join(on_sides(text, answer, answer_is) for text, answer in pairs)
            content = rows if made.texts else header + rows
            made = Made(made.texts + len(chunk), made.pairs + len(pairs), dict(Counter(made.left_out) + left_out))
            file.append(content, vars(made))
            pace.tell(made.texts)
            stop.honor(f"stopped after text {made.texts:,} of {len(texts.texts):,}")
        if not made.pairs:
            file.give_up()
            raise WeftError(f"{texts.file} gave {made}; is it {languages.source} text, and is the model any good?")
        file.finish()
    say(f"{output}: {made}")
    return made


def on_sides(text: str, answer: str, answer_is: Literal["source", "target"]) -> str:
    """A line of the TSV, source first."""
    return f"{answer}\t{text}\n" if answer_is == "source" else f"{text}\t{answer}\n"


def refuse_held_out(reader: Translator, texts: Texts) -> None:
    """What models are chosen or tested by must not be trained on, not even in another's words."""
    for folder in reader.folders:
        name = recorded_files(read_card(folder), "valid").get(texts.sha256)
        if name is not None:
            raise UsageError(
                f"{texts.file} is what the model {folder} was validated on ({name}); pairs made of it would leak into "
                "training; give other text"
            )


def warn_of_another_language(texts: Texts, language: str, say: Say) -> None:
    """A model has an answer to text of any language."""
    first = list(islice((text for text in texts.texts if not is_blank(text)), FIRST_TEXTS))
    wrong = int(in_another_language(first, language).sum())
    if wrong > len(first) / 2:
        say(
            f"{wrong:,} of the first {len(first):,} texts of {texts.file} do not look like {language}, which the model "
            "reads"
        )


def made_of(method: str, reader: Translator, texts: Texts, max_ratio: float) -> dict[str, Any]:
    """All that the pairs follow from. A model is known by its manifest, which knows its files."""
    return {
        "method": method,
        "models": [sha256(folder / MANIFEST) for folder in reader.folders],
        "language-model": digest_of(reader.decoding.language_model),
        "texts": texts.sha256,
        "read": hashlib.sha256(json.dumps(texts.texts).encode()).hexdigest(),  # by what rules the file was read
        "column": texts.column,
        "max_ratio": max_ratio,
        "data.tag": reader.model.recipe.data.tag,
        **{f"decoding.{key}": value for key, value in reader.decoding},
    }


def label(translator: Translator, texts: Sequence[str], max_ratio: float) -> tuple[list[tuple[str, str]], Counter[str]]:
    """(text, answer) of each text that has a usable one, and for what reasons the others were left out."""
    longest, fitting = translator.longest_text(), translator.can_read(texts)
    read = [len(ids) for ids in translator.model.vocabularies["source"].encode(texts)]
    reasons = [
        "empty" if is_blank(text) else "too long" if pieces > longest or not fits else None
        for text, pieces, fits in zip(texts, read, fitting, strict=True)
    ]
    usable = [index for index, reason in enumerate(reasons) if reason is None]
    answers = translator.translate([texts[index] for index in usable])
    written = [len(ids) for ids in translator.model.vocabularies["target"].encode([answer.text for answer in answers])]
    pairs = []
    for index, found, pieces in zip(usable, answers, written, strict=True):
        shorter, longer = sorted((read[index], pieces))
        if not pieces:
            reasons[index] = "without an answer"
        elif REPLACEMENT in found.text and REPLACEMENT not in texts[index]:
            reasons[index] = "broken"
        elif found.text.casefold() == normalize(texts[index]).casefold() and (
            any(has_word(texts[index], language) for language in translator.languages)  # "25" is its own translation
        ):
            reasons[index] = "copied"
        elif longer > max_ratio * shorter + ALWAYS_ALLOWED:
            reasons[index] = "of unequal lengths"
        else:
            pairs.append((on_one_line(texts[index]), on_one_line(found.text)))
    return pairs, Counter(reason for reason in reasons if reason is not None)


class Pace:
    """Says now and then how far the work is."""

    def __init__(self, begin: int, end: int, say: Say) -> None:
        self.begin, self.end, self.say = begin, end, say
        self.began = self.said_at = time.monotonic()

    def tell(self, place: int) -> None:
        now = time.monotonic()
        if now - self.said_at >= SECONDS_BETWEEN_MESSAGES:
            self.said_at = now
            speed = (place - self.begin) / (now - self.began)
            left = (self.end - place) / speed
            self.say(f"{place:,} of {self.end:,} texts, {speed:,.1f} a second, {left:,.0f} s left")
