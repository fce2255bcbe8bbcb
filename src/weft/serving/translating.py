"""Translates the texts of a request: splits them, searches their sentences in batches with others, and joins them.

Some bad translations can be told by their form: they repeat themselves where their source does not, or reach the
maximum length. Both are flagged; one that repeats itself is searched again with repetitions forbidden.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from weft.decoding.demands import NO_DEMANDS
from weft.decoding.search import DecodingConfig, most_pieces
from weft.serving.batching import AfterStep, Job
from weft.serving.models import ServedModel, ServedWriter
from weft.text.chinese import Script
from weft.translating.arguments import changed_decoding
from weft.translating.batches import copies_in, encode_sources
from weft.translating.exported import ExportedTranslator
from weft.translating.glossary import Glossary
from weft.translating.passages import Sentence, sentence_texts, sentences_in
from weft.translating.translation import Translation
from weft.translating.translator import Translator

Value = TypeVar("Value")

MAX_RATIO, MAX_EXTRA = 2.0, 50
"""A translation has at most MAX_RATIO times the pieces of its source plus MAX_EXTRA, whatever the recipe says."""

MARKED_AT_ONCE = 16
"""Translations that get their markup in one call; other requests may use the model between calls."""

SHORT_CHARACTERS = 500
"""Texts up to this length are split within a millisecond."""

Flags = frozenset[str]
"""Why a translation is suspicious: `repetition`, `length`, `numbers`."""


@dataclass(frozen=True)
class TranslationOptions:
    """How a request wants its texts translated; requests with equal options may share a batch."""

    best: int = 1
    """Translations of each text."""
    beam_size: int | None = None
    """None: the model's own. Never less than `best`."""
    terms: tuple[tuple[str, str], ...] = ()
    """The request's own glossary."""
    script: Script = "keep"
    """The script of Chinese translations; "keep": the model's own."""


@dataclass(frozen=True)
class TranslatedSentence:
    """Translations of a sentence, best first, and the flags of the first."""

    translations: tuple[Translation, ...]
    flags: Flags

    def ranked(self, rank: int) -> Translation:
        """The translation of this rank from 0, or the last one."""
        return self.translations[min(rank, len(self.translations) - 1)]


@dataclass(frozen=True)
class TranslatedText:
    """As many translations of a text as were asked for, best first; some may be equal."""

    ranked: tuple[str, ...]
    flags: Flags = frozenset()

    @property
    def text(self) -> str:
        return self.ranked[0]

    @property
    def alternatives(self) -> list[str]:
        """The others, without duplicates."""
        return list(dict.fromkeys(text for text in self.ranked if text != self.text))


@dataclass(frozen=True)
class StreamedSentence:
    """A sentence of a longer text. `before` and `text` of all sentences, joined, are the whole translation, without the
    white space around the text."""

    index: int
    source: str
    before: str
    text: str
    flags: Flags


async def translate(
    model: ServedModel, texts: Sequence[str], options: TranslationOptions, *, keeps_markup: bool = False
) -> list[TranslatedText]:
    """Translate each text. Raises UsageError if the model does not support the options."""
    passages_of = model.marked if keeps_markup else model.plain
    passages = await off_loop(texts, lambda: passages_of.take_apart(texts))
    found = await search_job(model, sentence_texts(passages), options).all()
    by_rank = [[one.ranked(rank) for one in found] for rank in range(options.best)]
    by_rank = [await marked(model, sentences_in(passages), translations, options) for translations in by_rank]

    def put_together() -> list[TranslatedText]:
        joined = [passages_of.put_together(texts, passages, translations) for translations in by_rank]
        each = iter(found)
        flags = [frozenset().union(*(next(each).flags for _ in sentence_texts([passage]))) for passage in passages]
        ranked = zip(*([translation.text for translation in translations] for translations in joined), strict=True)
        return [TranslatedText(each, of_text) for each, of_text in zip(ranked, flags, strict=True)]

    return await off_loop(texts, put_together)


async def marked(
    model: ServedModel, sentences: Sequence[Sentence], found: Sequence[Translation], options: TranslationOptions
) -> list[Translation]:
    """The translations with the markup of their sentences, MARKED_AT_ONCE in a call."""
    glossary = glossary_of(model, options)
    numbers = [number for number, sentence in enumerate(sentences) if sentence.marks]
    script = model.translator.decoding.script if options.script == "keep" else options.script
    with_marks = list(found)
    for first in range(0, len(numbers), MARKED_AT_ONCE):
        some = numbers[first : first + MARKED_AT_ONCE]
        pairs = [(sentences[number], found[number]) for number in some]
        done = await call(model, partial(model.marked.marked, pairs, glossary, script))
        for number, translation in zip(some, done, strict=True):
            with_marks[number] = translation
    return with_marks


async def stream(model: ServedModel, text: str, options: TranslationOptions) -> AsyncGenerator[StreamedSentence]:
    """Translate a text of any length; yields its sentences in order, each as soon as it is done."""
    (passage,) = await off_loop([text], lambda: model.plain.take_apart([text]))
    job = search_job(model, sentence_texts([passage]), options, grows=True)
    index, before, written = 0, "", ""
    async with aclosing(job.in_order()) as answers:
        for item in passage:
            if not isinstance(item, Sentence):
                before += item
                continue
            found = await anext(answers)
            answer = found.ranked(0).text
            before = before or model.plain.separator(written, answer)
            yield StreamedSentence(index, item.text, before, answer, found.flags)
            index, before, written = index + 1, "", answer or written


async def off_loop(texts: Sequence[str], work: Callable[[], Value]) -> Value:
    """The result of `work`, run in another thread unless the texts are short: switching threads means waiting for those
    that search, which takes far longer than the work on a short text."""
    if sum(map(len, texts)) <= SHORT_CHARACTERS:
        return work()
    return await asyncio.to_thread(work)


async def call(model: ServedModel | ServedWriter, function: Callable[[AfterStep], Value]) -> Value:
    """The result of a function that has the model to itself, except for the pauses that its argument makes."""

    def run(_: Sequence[str], after_step: AfterStep) -> list[Value]:
        return [function(after_step)]

    (value,) = await submitted(model, Job([""], run, kind=object(), is_long=True)).all()
    return value


def search_job(
    model: ServedModel, sentences: Sequence[str], options: TranslationOptions, *, grows: bool = False
) -> Job[TranslatedSentence]:
    """Submit the sentences to the model."""
    work = partial(search, model, options)
    return submitted(model, Job(sentences, work, kind=options, is_long=bool(options.terms), grows=grows))


def submitted(model: ServedModel | ServedWriter, job: Job[Value]) -> Job[Value]:
    if job.sentences:
        model.worker.submit(job)
    return job


# In the thread of a model


def glossary_of(model: ServedModel, options: TranslationOptions) -> Glossary | None:
    """The server's glossary, in which the request's terms replace those with the same source."""
    if not options.terms:
        return model.glossary
    own = Glossary(options.terms, model.translator.languages)
    if model.glossary is None:
        return own
    return model.glossary.replaced_by(model.translator.as_read(own))


def search(
    model: ServedModel, options: TranslationOptions, sentences: Sequence[str], after_step: AfterStep
) -> list[TranslatedSentence]:
    translator, glossary = model.translator, glossary_of(model, options)
    changes = changes_for(options, translator.decoding, has_terms=glossary is not None)
    config = changed_decoding(translator.decoding, changes)
    ask: dict[str, Any] = {
        **dict(config),
        "after_step": after_step,
        "glossary": glossary,
        "memory": model.memory,
    }
    found, looping = list[TranslatedSentence](), list[int]()
    for index, translations in enumerate(translator.translate_n_best(sentences, options.best, **ask)):
        flags = flags_of(sentences[index], translations[0].text, config, translator)
        if model.memory is not None and model.memory.exact(sentences[index]):
            flags -= {"length"}  # nothing has cut it
        elif "repetition" in flags:
            looping.append(index)
        found.append(TranslatedSentence(tuple(translations), flags))
    if looping and glossary is None and can_forbid_repetitions(translator):
        again = [sentences[index] for index in looping]
        ask |= {"no_repeat_ngram": FORBIDDEN_NGRAM}
        for index, translations in zip(looping, translator.translate_n_best(again, options.best, **ask), strict=True):
            flags = flags_of(sentences[index], translations[0].text, config, translator)
            found[index] = TranslatedSentence(tuple(translations), flags | {"repetition"})
    return found


def changes_for(options: TranslationOptions, config: DecodingConfig, *, has_terms: bool) -> dict[str, Any]:
    """The decoding keys to change in the model's own configuration."""
    changes: dict[str, Any] = {
        "max_length_ratio": min(config.max_length_ratio, MAX_RATIO),
        "max_length_extra": min(config.max_length_extra, MAX_EXTRA),
    }
    if options.script != "keep":
        changes["script"] = options.script
    needs_beam = options.best > 1 or options.beam_size is not None or has_terms
    if needs_beam:
        groups = config.diverse_groups  # which have equally many hypotheses
        changes["beam_size"] = max(-(-options.best // groups) * groups, options.beam_size or config.beam_size)
        if config.method == "greedy":
            changes["method"] = "beam"
    return changes


FORBIDDEN_NGRAM = 3
REPEATED = re.compile(r"(\S(?:.{0,58}?\S)?)(?:\s*\1){3,}", re.DOTALL)
LETTER = re.compile(r"[^\W\d_]")


def flags_of(source: str, text: str, config: DecodingConfig, translator: Translator) -> Flags:
    """`repetition`: the same four times in a row, unless the source has that too; `length`: the maximum length;
    `numbers`: a number that the source does not have, or none where it has one."""
    import torch

    flags = set()
    if repeats_itself(text) and not repeats_itself(source):
        flags.add("repetition")
    model, longest = translator.model, translator.longest_sentence()
    written = copies_in(model, source).in_text(translator.as_written(text, config.script))
    pieces = len(model.vocabularies["target"].encode([written])[0])
    read = torch.from_numpy(encode_sources(model, [source]).lengths - 1)
    if pieces >= most_pieces(config, read, NO_DEMANDS, longest and longest - 1).item():  # as the search counts them
        flags.add("length")
    if translator.has_other_numbers(source, text):
        flags.add("numbers")
    return frozenset(flags)


def repeats_itself(text: str) -> bool:
    return any(LETTER.search(found[1]) for found in REPEATED.finditer(text))


def can_forbid_repetitions(translator: Translator) -> bool:
    return not (isinstance(translator, ExportedTranslator) and translator.export.engine == "ctranslate2")
