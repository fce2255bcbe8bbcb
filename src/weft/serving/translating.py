"""Texts of a request into translations: taken apart, searched in batches with those of other requests, put together.

A translation that has gone wrong shows it by its form alone: it repeats itself where its source does not, or was cut
where translations end at the latest. One that repeats itself is searched again with repetitions forbidden; both are
flagged.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from weft.decoding.search import DecodingConfig
from weft.serving.batching import Abandoned, Job
from weft.serving.models import ServedModel
from weft.tasks.exported import ExportedTranslator
from weft.tasks.glossary import Glossary
from weft.tasks.passages import Sentence, sentences_of, within
from weft.tasks.translation import Translation, Translator, changed_decoding

Value = TypeVar("Value")

LONGEST_RATIO, LONGEST_EXTRA = 2.0, 50
"""A translation has at most so many times the pieces of its source and so many more, whatever a model's recipe says."""

MARKED_AT_ONCE = 16
"""Translations that get their marks while others wait for the model."""

SHORT_CHARACTERS = 500
"""Of texts that are taken apart within a millisecond."""

Flags = frozenset[str]
"""What is suspicious of a translation: `repetition`, `length`."""


@dataclass(frozen=True)
class Wish:
    """How a request wants its texts translated; two that are equal may share a batch."""

    best: int = 1
    """Translations of each text."""
    beam_size: int | None = None
    """Left out: the model's own. It is never less than `best`."""
    terms: tuple[tuple[str, str], ...] = ()
    """A glossary of this request's own."""


@dataclass(frozen=True)
class Found:
    """Translations of a sentence, best first, and what is suspicious of the first."""

    translations: tuple[Translation, ...]
    flags: Flags

    def place(self, number: int) -> Translation:
        """The translation of this place, or the last one."""
        return self.translations[min(number, len(self.translations) - 1)]


@dataclass(frozen=True)
class Answer:
    """A translated text: as many translations of it as were wished, best first; some may be the same."""

    places: tuple[str, ...]
    flags: Flags = frozenset()

    @property
    def text(self) -> str:
        return self.places[0]

    @property
    def alternatives(self) -> list[str]:
        """The others, each different."""
        return list(dict.fromkeys(place for place in self.places if place != self.text))


@dataclass(frozen=True)
class StreamedSentence:
    """A sentence of a longer text. What comes `before` each and its `text`, one after the other, are the whole."""

    index: int
    source: str
    before: str
    text: str
    flags: Flags


async def translate(
    model: ServedModel, texts: Sequence[str], wish: Wish, *, keeps_markup: bool = False
) -> list[Answer]:
    """An answer a text, in order. Raises UsageError where the model cannot do what is wished."""
    passages_of = model.marked if keeps_markup else model.plain
    passages = await beside_the_loop(texts, lambda: passages_of.take_apart(texts))
    found = await search_job(model, sentences_of(passages), wish).all()
    by_place = [[one.place(number) for one in found] for number in range(wish.best)]
    by_place = [await marked(model, within(passages), place, wish) for place in by_place]

    def put_together() -> list[Answer]:
        of_places = [passages_of.put_together(texts, passages, place) for place in by_place]
        each = iter(found)
        flags = [frozenset().union(*(next(each).flags for _ in sentences_of([passage]))) for passage in passages]
        written = zip(*([translation.text for translation in place] for place in of_places), strict=True)
        return [Answer(places, of_text) for places, of_text in zip(written, flags, strict=True)]

    return await beside_the_loop(texts, put_together)


async def marked(
    model: ServedModel, sentences: Sequence[Sentence], found: Sequence[Translation], wish: Wish
) -> list[Translation]:
    """The translations with the marks of their sentences; others may have the model between any MARKED_AT_ONCE."""
    glossary = glossary_of(model.translator, wish)
    numbers = [number for number, sentence in enumerate(sentences) if sentence.marks]
    with_marks = list(found)
    for first in range(0, len(numbers), MARKED_AT_ONCE):
        some = numbers[first : first + MARKED_AT_ONCE]
        pairs = [(sentences[number], found[number]) for number in some]
        done = await call(model, partial(model.marked.marked, pairs, glossary))
        for number, translation in zip(some, done, strict=True):
            with_marks[number] = translation
    return with_marks


async def stream(model: ServedModel, text: str, wish: Wish) -> AsyncGenerator[StreamedSentence]:
    """The sentences of a text of any length, in order, each as soon as it is translated."""
    (passage,) = await beside_the_loop([text], lambda: model.plain.take_apart([text]))
    job = search_job(model, sentences_of([passage]), wish, grows=True)
    index, before, written = 0, "", ""
    async with aclosing(job.in_order()) as answers:
        for item in passage:
            if not isinstance(item, Sentence):
                before += item
                continue
            found = await anext(answers)
            answer = found.place(0).text
            before = before or model.plain.glue(written, answer)
            yield StreamedSentence(index, item.text, before, answer, found.flags)
            index, before, written = index + 1, "", answer or written


async def beside_the_loop(texts: Sequence[str], work: Callable[[], Value]) -> Value:
    """What the work on these texts comes to: done in another thread where it may take a while. A change of threads has
    to wait for those that search, which takes far longer than the work on a short text."""
    if sum(map(len, texts)) <= SHORT_CHARACTERS:
        return work()
    return await asyncio.to_thread(work)


async def call(model: ServedModel, function: Callable[[Callable[[], None]], Value]) -> Value:
    """What the function returns, which has the model for itself while it runs. After each step of the model it calls
    what it is given, which ends it where nobody waits any more."""

    def run(_: Sequence[str], are_wanted: Callable[[], bool]) -> list[Value]:
        return [function(ending(are_wanted))]

    (value,) = await submitted(model, Job([""], run, kind=object())).all()
    return value


def search_job(model: ServedModel, sentences: Sequence[str], wish: Wish, *, grows: bool = False) -> Job[Found]:
    """The sentences on their way to the model."""
    return submitted(model, Job(sentences, partial(search, model.translator, wish), kind=wish, grows=grows))


def submitted(model: ServedModel, job: Job[Value]) -> Job[Value]:
    if job.sentences:
        model.worker.submit(job)
    return job


# What the thread of a model does


def glossary_of(translator: Translator, wish: Wish) -> Glossary | None:
    return Glossary(wish.terms, translator.languages) if wish.terms else None


def search(translator: Translator, wish: Wish, sentences: Sequence[str], are_wanted: Callable[[], bool]) -> list[Found]:
    """Raises Abandoned, between two steps, when the answers are not wanted any more."""
    config = changed_decoding(translator.decoding, changes_for(wish, translator.decoding))
    ask: dict[str, Any] = {**dict(config), "after_step": ending(are_wanted), "glossary": glossary_of(translator, wish)}
    found = [
        Found(tuple(translations), flags_of(sentence, translations[0].text, config, translator))
        for sentence, translations in zip(
            sentences, translator.translate_n_best(sentences, wish.best, **ask), strict=True
        )
    ]
    looping = [index for index, one in enumerate(found) if "repetition" in one.flags]
    if looping and not wish.terms and can_forbid_repetitions(translator):
        again = [sentences[index] for index in looping]
        ask |= {"no_repeat_ngram": FORBIDDEN_NGRAM}
        for index, translations in zip(looping, translator.translate_n_best(again, wish.best, **ask), strict=True):
            flags = flags_of(sentences[index], translations[0].text, config, translator)
            found[index] = Found(tuple(translations), flags | {"repetition"})
    return found


def ending(are_wanted: Callable[[], bool]) -> Callable[[], None]:
    """What to call after each step of a model: it raises Abandoned where the answers are not wanted any more."""

    def after_step() -> None:
        if not are_wanted():
            raise Abandoned

    return after_step


def changes_for(wish: Wish, config: DecodingConfig) -> dict[str, Any]:
    """What is set anew of a model's decoding."""
    changes: dict[str, Any] = {
        "max_length_ratio": min(config.max_length_ratio, LONGEST_RATIO),
        "max_length_extra": min(config.max_length_extra, LONGEST_EXTRA),
    }
    needs_beam = wish.best > 1 or wish.beam_size is not None or bool(wish.terms)
    if needs_beam:
        changes["beam_size"] = max(wish.best, wish.beam_size or config.beam_size)
        if config.method == "greedy":
            changes["method"] = "beam"
    return changes


FORBIDDEN_NGRAM = 3
REPEATED = re.compile(r"(\S(?:.{0,58}?\S)?)(?:\s*\1){3,}", re.DOTALL)
LETTER = re.compile(r"[^\W\d_]")


def flags_of(source: str, text: str, config: DecodingConfig, translator: Translator) -> Flags:
    """`repetition`: four times the same in a row, unless the source does so too; `length`: as long as it could be."""
    import torch

    flags = set()
    if repeats_itself(text) and not repeats_itself(source):
        flags.add("repetition")
    model = translator.model
    pieces, source_pieces = (
        len(tokenizer.encode([one])[0])
        for tokenizer, one in ((model.target_tokenizer, text), (model.source_tokenizer, source))
    )
    if pieces >= config.max_lengths(torch.tensor([source_pieces])).item():
        flags.add("length")
    return frozenset(flags)


def repeats_itself(text: str) -> bool:
    return any(LETTER.search(found[1]) for found in REPEATED.finditer(text))


def can_forbid_repetitions(translator: Translator) -> bool:
    return not (isinstance(translator, ExportedTranslator) and translator.export.engine == "ctranslate2")
