"""What the routes of all APIs share: which model answers, whose key is valid, and how texts are translated."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from starlette.requests import Request

from weft.errors import WeftError
from weft.serving.admission import ServerState
from weft.serving.capacity import Capacity
from weft.serving.detection import Detection, Detector
from weft.serving.document_parts import Document, words_of
from weft.serving.html_document import read_html
from weft.serving.models import Models, ServedModel
from weft.serving.refusals import Refused, busy, wrong_key
from weft.serving.streams import until_deadline
from weft.serving.translating import StreamedSentence, TranslatedText, TranslationOptions, stream, translate
from weft.text.chinese import convert_translation
from weft.text.language import code_of

log = logging.getLogger("weft.serving.texts")

AUTO, TRADITIONAL = "auto", "zh-Hant"
NAMES = {
    **{"ar": "Arabic", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "es": "Spanish"},
    **{"fa": "Persian", "fi": "Finnish", "fr": "French", "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian"},
    **{"id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean", "nl": "Dutch", "no": "Norwegian"},
    **{"pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sv": "Swedish", "th": "Thai"},
    **{"tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese", "yue": "Cantonese", "zh": "Chinese"},
}
"""English names, as LibreTranslate's clients show them; the name of another code is the code."""


BODIES_AT_ONCE = 8
"""How many bodies of the largest size are split and translated at once."""
PATIENCE = 0.5
"""Share of the time for a response that a text waits for capacity."""
Value = TypeVar("Value")


@dataclass
class Service:
    models: Models
    state: ServerState
    detector: Detector
    logs_texts: bool = False
    documents: Capacity = field(init=False)
    """For files and streams, whose translation may take minutes."""
    texts: Capacity = field(init=False)
    """For the texts of other requests."""
    document_threads: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.documents, self.texts = (Capacity(BODIES_AT_ONCE * self.state.limits.body_bytes) for _ in range(2))
        self.document_threads = ThreadPoolExecutor(2, "weft documents")

    def check_key(self, request: Request, key: str) -> None:
        """Raises Refused if the key is valid neither in the header, which admission.py has checked, nor in the body."""
        if not (request.scope["state"]["has_key"] or (key and self.state.keys.admit(key.encode()))):
            raise wrong_key(was_given=bool(key), may_be_in_body=True)

    async def detect(self, text: str, *, is_page: bool = False) -> Detection:
        """The language of a text, or of the text of a page without its tags."""

        def work() -> Detection:
            return self.detector.detect(words_of(read_html(text).texts) if is_page else text)

        return await asyncio.to_thread(work)

    async def resolve(self, source: str, text: str, target: str) -> str:
        """The source language, detected if it is "auto"."""
        return self.source_of(await self.detect(text), target) if source == AUTO else source

    def source_of(self, found: Detection, target: str) -> str:
        """The language to translate a text from. If it has no letter, and no model translates from the language that
        was guessed, it is treated as being in the target language, and returned unchanged."""
        is_told = found.confidence > 0 or self.models.between(found.language, target) is not None
        return found.language if is_told else target

    def model_between(self, source: str, target: str, name: str = "") -> ServedModel | None:
        """The model for a direction; None if source and target are the same. Raises Refused if there is none."""
        if code_of(source) == code_of(target):
            return None
        model = self.models.loaded.get(name) if name else self.models.between(source, target)
        if model is not None and model.direction == (code_of(source), code_of(target)):
            return model
        if name:
            raise Refused(
                400, f"no model {name} translates {named(source)} to {named(target)}; GET /v1/models lists them"
            )
        into = ", ".join(map(named, self.models.targets_of(code_of(source))))
        raise Refused(400, f"{named(source)} is not translated to {named(target)} here" + (into and f", but to {into}"))

    async def translate(
        self,
        model: ServedModel | None,
        texts: Sequence[str],
        options: TranslationOptions,
        *,
        form: Literal["text", "html"] = "text",
    ) -> list[TranslatedText]:
        """Translate each text; in the form `html` they are pages or fragments. Without a model their Chinese is
        converted to the script of the options, or they are returned as they are. Raises WeftError if the model
        cannot."""
        if model is None and options.script == "keep":
            return [TranslatedText((text,)) for text in texts]
        async with self._hold(self.texts, sum(map(len, texts))):
            if form == "html":
                return await self._translate_pages(model, texts, options)
            inner = [text.strip() for text in texts]
            found = await self._translate(model, inner, options, keeps_markup=False)
            return [with_outer_spaces(text, translated) for text, translated in zip(texts, found, strict=True)]

    async def _translate(
        self, model: ServedModel | None, texts: Sequence[str], options: TranslationOptions, *, keeps_markup: bool
    ) -> list[TranslatedText]:
        if model is None:
            return [TranslatedText((convert_translation(text, options.script),)) for text in texts]
        self.count(model, texts)
        translated = await translate(model, texts, options, keeps_markup=keeps_markup)
        for one in translated:
            self.count_flags(model, one.flags)
        self.log_texts(model, [(text, one.text) for text, one in zip(texts, translated, strict=True)])
        return translated

    async def _translate_pages(
        self, model: ServedModel | None, pages: Sequence[str], options: TranslationOptions
    ) -> list[TranslatedText]:
        documents = [await asyncio.to_thread(read_html, page) for page in pages]
        texts = [text for document in documents for text in document.texts]
        translated = iter(await self._translate(model, texts, options, keeps_markup=True) if texts else [])
        ranks = range(options.best if model is not None else 1)

        def write(document: Document) -> TranslatedText:
            own = [next(translated) for _ in document.texts]
            ranked = tuple(document.write([one.ranked[rank] for one in own]).decode() for rank in ranks)
            return TranslatedText(ranked, frozenset().union(*(one.flags for one in own)))

        return await asyncio.to_thread(lambda: [write(document) for document in documents])

    async def stream(
        self, model: ServedModel, text: str, options: TranslationOptions, deadline: float
    ) -> AsyncGenerator[StreamedSentence]:
        """The sentences of a text of any length. Raises Refused if the model cannot and at the deadline, and counts it,
        since the response has begun and can only end with an error."""
        self.count(model, [text])
        sentences = until_deadline(self._stream(model, text, options), deadline, self.state.limits)
        try:
            async with aclosing(sentences):
                async for sentence in sentences:
                    self.count_flags(model, sentence.flags)
                    self.log_texts(model, [(sentence.source, sentence.text)])
                    yield sentence
        except Refused as refused:
            self.state.count_refusal(refused)
            raise

    async def _stream(
        self, model: ServedModel, text: str, options: TranslationOptions
    ) -> AsyncGenerator[StreamedSentence]:
        async with self.hold_for_document(len(text)), aclosing(stream(model, text, options)) as sentences:
            try:
                async for sentence in sentences:
                    yield sentence
            except WeftError as error:
                raise Refused(400, str(error)) from None

    async def translate_document(
        self, model: ServedModel | None, document: Document, options: TranslationOptions
    ) -> bytes:
        """The translated file. The caller holds capacity for it."""
        translated = document.texts
        if document.texts:
            answers = await self._translate(model, document.texts, options, keeps_markup=True)
            translated = [answer.text for answer in answers]
        return await self.in_document_thread(document.write, translated)

    def hold_for_document(self, size: int) -> AbstractAsyncContextManager[None]:
        """Hold capacity for a file or a stream of this many bytes. Raises Refused if none is free for long."""
        return self._hold(self.documents, size)

    @asynccontextmanager
    async def _hold(self, capacity: Capacity, size: int) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(capacity.hold(size, PATIENCE * self.state.limits.seconds))
            except TimeoutError:
                raise busy("other long texts are being translated; try again soon") from None
            yield

    async def in_document_thread(self, work: Callable[..., Value], *arguments: Any) -> Value:
        """Run work on a document, which may take seconds, outside the threads that all requests share."""
        return await asyncio.get_running_loop().run_in_executor(self.document_threads, work, *arguments)

    def log_texts(self, model: ServedModel, pairs: Sequence[tuple[str, str]]) -> None:
        """Log texts and their translations if --log-texts asks for it."""
        if self.logs_texts:
            log.info("%s %s", model.id, list(pairs))

    def count(self, model: ServedModel, texts: Sequence[str]) -> None:
        self.state.metrics.characters.labels(model.id).inc(sum(map(len, texts)))

    def count_flags(self, model: ServedModel, flags: frozenset[str]) -> None:
        for flag in flags:
            self.state.metrics.flagged.labels(model.id, flag).inc()


def with_outer_spaces(text: str, translated: TranslatedText) -> TranslatedText:
    """The translations between the white space that the text begins and ends with."""
    before, _, after = text.partition(text.strip()) if text.strip() else (text, "", "")
    return replace(translated, ranked=tuple(f"{before}{one}{after}" for one in translated.ranked))


def named(code: str) -> str:
    if code == TRADITIONAL:
        return "Chinese (Traditional)"
    return NAMES.get(code_of(code), code)
