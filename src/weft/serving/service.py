"""What the routes of every API share: which model answers, who may ask, and how a translation is asked for."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from starlette.requests import Request

from weft.errors import WeftError
from weft.serving.admission import House
from weft.serving.detection import Detection, Detector
from weft.serving.documents import Document, words_of
from weft.serving.html_document import read_html
from weft.serving.models import Models, ServedModel
from weft.serving.refusals import Refused, busy, wrong_key
from weft.serving.room import Room
from weft.serving.streams import in_time
from weft.serving.translating import Answer, StreamedSentence, Wish, stream, translate
from weft.text.language import code_of

log = logging.getLogger("weft.serving.texts")

AUTO = "auto"
NAMES = {
    **{"ar": "Arabic", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "es": "Spanish"},
    **{"fa": "Persian", "fi": "Finnish", "fr": "French", "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian"},
    **{"id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean", "nl": "Dutch", "no": "Norwegian"},
    **{"pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sv": "Swedish", "th": "Thai"},
    **{"tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese", "yue": "Cantonese", "zh": "Chinese"},
}
"""In English, as LibreTranslate's clients show them; another code is its own name."""


AT_ONCE = 8
"""Bodies as large as can be whose texts are in the house at once, taken apart."""
PATIENCE = 0.5
"""Share of the time for an answer that a text waits for room."""
Value = TypeVar("Value")


@dataclass
class Service:
    models: Models
    house: House
    detector: Detector
    logs_texts: bool = False
    documents: Room = field(init=False)
    """For files and streams, whose translation may take minutes, ..."""
    texts: Room = field(init=False)
    """... and for the texts of other requests."""
    document_threads: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.documents, self.texts = (Room(AT_ONCE * self.house.limits.body_bytes) for _ in range(2))
        self.document_threads = ThreadPoolExecutor(2, "weft reads")

    def refuse_without_key(self, request: Request, key: str | None) -> None:
        """For paths where the key may stand in the body: the one in the header was looked at before."""
        if not (request.scope["state"]["has_key"] or (key and self.house.keys.admit(key.encode("utf-8")))):
            raise wrong_key(may_be_in_body=True)

    async def detect(self, text: str, *, is_page: bool = False) -> Detection:
        """Of a page the text alone tells its language, which has more tags than words or fewer."""

        def work() -> Detection:
            return self.detector.detect(words_of(read_html(text).texts) if is_page else text)

        return await asyncio.to_thread(work)

    def model_between(self, source: str, target: str, name: str | None = None) -> ServedModel | None:
        """Which model translates so; None where there is nothing to translate. Raises Refused where there is none."""
        if code_of(source) == code_of(target):
            return None
        model = self.models.named(name) if name else self.models.between(source, target)
        if model is not None and model.direction == (code_of(source), code_of(target)):
            return model
        if name:
            raise Refused(
                400, f"no model {name} translates {named(source)} to {named(target)}; GET /v1/models lists them"
            )
        into = ", ".join(self.models.targets_of(code_of(source))) or "nothing"
        raise Refused(400, f"{named(source)} is not translated to {named(target)} here, but to {into}")

    async def translate(
        self,
        model: ServedModel | None,
        texts: Sequence[str],
        wish: Wish,
        *,
        form: Literal["text", "html"] = "text",
    ) -> list[Answer]:
        """An answer a text; `html` texts are pages or pieces of them.

        Raises Refused for what the model cannot do.
        """
        if model is None:
            return [Answer((text,)) for text in texts]
        async with self._in_room(self.texts, sum(map(len, texts))):
            if form == "html":
                return await self._translate_pages(model, texts, wish)
            return await self._translate(model, texts, wish, keeps_markup=False)

    async def _translate(
        self, model: ServedModel, texts: Sequence[str], wish: Wish, *, keeps_markup: bool
    ) -> list[Answer]:
        self.count(model, texts)
        try:
            answers = await translate(model, texts, wish, keeps_markup=keeps_markup)
        except WeftError as error:
            raise Refused(400, str(error)) from None
        for answer in answers:
            self.count_flags(model, answer.flags)
        self.log_texts(model, [(text, answer.text) for text, answer in zip(texts, answers, strict=True)])
        return answers

    async def _translate_pages(self, model: ServedModel, pages: Sequence[str], wish: Wish) -> list[Answer]:
        documents = [await asyncio.to_thread(read_html, page) for page in pages]
        every = [text for document in documents for text in document.texts]
        found = iter(await self._translate(model, every, wish, keeps_markup=True) if every else [])

        def write() -> list[Answer]:
            answers = []
            for document in documents:
                own = [next(found) for _ in document.texts]
                written = [document.write([one.places[number] for one in own]) for number in range(wish.best)]
                flags = frozenset().union(*(one.flags for one in own))
                answers.append(Answer(tuple(each.decode() for each in written), flags))
            return answers

        return await asyncio.to_thread(write)

    async def stream(self, model: ServedModel, text: str, wish: Wish, ends: float) -> AsyncGenerator[StreamedSentence]:
        """The sentences of a text of any length, from when there is room for it until the time `ends`. Raises Refused
        as `translate` does and when the time is over, and counts it: the answer has begun, and ends with a word of it.
        """
        self.count(model, [text])
        try:
            async with aclosing(in_time(self._stream(model, text, wish), ends, self.house.limits)) as sentences:
                async for sentence in sentences:
                    self.count_flags(model, sentence.flags)
                    self.log_texts(model, [(sentence.source, sentence.text)])
                    yield sentence
        except Refused as refused:
            self.house.count_refusal(refused)
            raise

    async def _stream(self, model: ServedModel, text: str, wish: Wish) -> AsyncGenerator[StreamedSentence]:
        async with self.room_for_document(len(text)), aclosing(stream(model, text, wish)) as sentences:
            try:
                async for sentence in sentences:
                    yield sentence
            except WeftError as error:
                raise Refused(400, str(error)) from None

    async def translate_document(self, model: ServedModel | None, document: Document, wish: Wish) -> bytes:
        """Whoever read the document holds room for it."""
        translated = document.texts
        if model is not None and document.texts:
            answers = await self._translate(model, document.texts, wish, keeps_markup=True)
            translated = [answer.text for answer in answers]
        return await self.beside_all(document.write, translated)

    def room_for_document(self, size: int) -> AbstractAsyncContextManager[None]:
        """Room for a file or a stream of so many bytes; raises Refused where there is none for a long time."""
        return self._in_room(self.documents, size)

    @asynccontextmanager
    async def _in_room(self, room: Room, size: int) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(room.taken(size, PATIENCE * self.house.limits.seconds))
            except TimeoutError:
                raise busy("other long texts are being worked on; try again soon") from None
            yield

    async def beside_all(self, work: Callable[..., Value], *arguments: Any) -> Value:
        """What the work on a document comes to, done in a thread of documents: it may take seconds, which the threads
        that all requests share have not."""
        return await asyncio.get_running_loop().run_in_executor(self.document_threads, work, *arguments)

    def log_texts(self, model: ServedModel, pairs: Sequence[tuple[str, str]]) -> None:
        """Texts and their translations, where whoever runs the server wants them in the log."""
        if self.logs_texts:
            log.info("%s %s", model.id, list(pairs))

    def count(self, model: ServedModel, texts: Sequence[str]) -> None:
        self.house.metrics.characters.labels(model.id).inc(sum(map(len, texts)))

    def count_flags(self, model: ServedModel, flags: frozenset[str]) -> None:
        for flag in flags:
            self.house.metrics.flagged.labels(model.id, flag).inc()


def named(code: str) -> str:
    return NAMES.get(code_of(code), code)
