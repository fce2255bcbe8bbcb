"""What the routes of every API share: which model answers, who may ask, and how a translation is asked for."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request

from weft.errors import WeftError
from weft.serving.admission import House
from weft.serving.detection import Detection, Detector
from weft.serving.documents import Document, words_of
from weft.serving.html_document import read_html
from weft.serving.models import Models, ServedModel
from weft.serving.refusals import Refused, wrong_key
from weft.serving.translating import Answer, Wish, translate
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


@dataclass(frozen=True)
class Service:
    models: Models
    house: House
    detector: Detector
    logs_texts: bool = False

    def refuse_without_key(self, request: Request, key: str | None) -> None:
        """For paths where the key may stand in the body: the one in the header was looked at before."""
        if not (request.scope["state"]["has_key"] or (key and self.house.keys.admit(key.encode("utf-8")))):
            raise wrong_key()

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
        form: Literal["text", "html", "marked"] = "text",
    ) -> list[Answer]:
        """An answer a text. `html` texts are pages or pieces of them; `marked` ones have marks to be kept.

        Raises Refused for what the model cannot do.
        """
        if model is None:
            return [Answer((text,)) for text in texts]
        if form == "html":
            return await self._translate_pages(model, texts, wish)
        self.count(model, texts)
        try:
            answers = await translate(model, texts, wish, keeps_markup=form == "marked")
        except WeftError as error:
            raise Refused(400, str(error)) from None
        for answer in answers:
            self.count_flags(model, answer.flags)
        self.log_texts(model, [(text, answer.text) for text, answer in zip(texts, answers, strict=True)])
        return answers

    async def _translate_pages(self, model: ServedModel, pages: Sequence[str], wish: Wish) -> list[Answer]:
        documents = [await asyncio.to_thread(read_html, page) for page in pages]
        every = [text for document in documents for text in document.texts]
        found = iter(await self.translate(model, every, wish, form="marked") if every else [])

        def write() -> list[Answer]:
            answers = []
            for document in documents:
                own = [next(found) for _ in document.texts]
                written = [document.write([one.places[number] for one in own]) for number in range(wish.best)]
                flags = frozenset().union(*(one.flags for one in own))
                answers.append(Answer(tuple(each.decode() for each in written), flags))
            return answers

        return await asyncio.to_thread(write)

    async def translate_document(self, model: ServedModel | None, document: Document, wish: Wish) -> bytes:
        answers = await self.translate(model, document.texts, wish, form="marked") if document.texts else []
        return await asyncio.to_thread(document.write, [answer.text for answer in answers])

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
