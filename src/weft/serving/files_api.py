"""LibreTranslate's API for files: one is sent, a link to its translation comes back.

Translations lie in memory for some minutes, under a name that nobody can guess, and on no disk.
"""

import secrets
import time
from dataclasses import dataclass
from typing import Annotated

from fastapi import FastAPI, Request
from pydantic import BaseModel
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from weft.serving.documents import FORMATS, MEDIA_TYPES, read_document, suffix_of, unpacked_size, words_of
from weft.serving.openapi import WITH_BODY, WITHOUT_BODY, refusals
from weft.serving.reading import MULTIPART, checked, content_type, refuse_other_charset
from weft.serving.refusals import Refused
from weft.serving.requests import Key, codes_of
from weft.serving.service import AUTO, Service
from weft.serving.translating import Wish

KEPT_SECONDS = 600.0
MOST_KEPT_BYTES = 64 << 20
MOST_FIELD_BYTES = 4096
"""Of a field beside the file: codes of languages and a key."""
DETECTED_BY = 2000
"""Characters of a file that tell its language."""


class TranslatedFile(BaseModel):
    translatedFileUrl: str


@dataclass(frozen=True)
class Kept:
    data: bytes
    suffix: str
    until: float


class Shelf:
    """Translated files that wait to be fetched; the oldest goes where there is no room."""

    def __init__(self, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self.most_bytes = most_bytes
        self.kept: dict[str, Kept] = {}

    def put(self, data: bytes, suffix: str) -> str:
        """The name under which it lies."""
        self._forget()
        while self.kept and sum(len(one.data) for one in self.kept.values()) + len(data) > self.most_bytes:
            del self.kept[next(iter(self.kept))]
        name = secrets.token_urlsafe(24) + suffix
        self.kept[name] = Kept(data, suffix, time.monotonic() + KEPT_SECONDS)
        return name

    def get(self, name: str) -> Kept | None:
        self._forget()
        return self.kept.get(name)

    def _forget(self) -> None:
        now = time.monotonic()
        for name in [name for name, one in self.kept.items() if one.until < now]:
            del self.kept[name]


def add_routes(app: FastAPI, service: Service) -> None:
    shelf = Shelf()
    source_code, target_code = codes_of(service.models)

    class FileRequest(BaseModel):
        source: Annotated[str, source_code]
        target: Annotated[str, target_code]
        api_key: Key = ""

    schema = {
        "type": "object",
        "required": ["file", "source", "target"],
        "properties": {
            **FileRequest.model_json_schema()["properties"],
            "file": {"type": "string", "format": "binary", "description": f"One of {', '.join(FORMATS)}."},
        },
    }

    @app.post(
        "/translate_file",
        summary=f"Translate a file: {', '.join(FORMATS)}",
        responses={200: {"model": TranslatedFile}, **refusals(*WITH_BODY)},
        openapi_extra={"requestBody": {"required": True, "content": {MULTIPART: {"schema": schema}}}},
    )
    async def translate_file(request: Request) -> Response:
        name, data, fields = await read_upload(request)
        asked = checked(fields, FileRequest, is_form=True)
        service.refuse_without_key(request, asked.api_key)
        async with service.room_for_document(unpacked_size(name, data)):
            document = await service.beside_all(read_document, name, data)
            source = asked.source
            if source == AUTO:
                source = (await service.detect(words_of(document.texts)[:DETECTED_BY])).language
            model = service.model_between(source, asked.target)
            translated = await service.translate_document(model, document, Wish())
        link = request.url_for("download_file", name=shelf.put(translated, suffix_of(name)))
        return JSONResponse({"translatedFileUrl": str(link)})

    @app.get(
        "/download_file/{name}",
        summary="Fetch a translated file",
        response_class=Response,
        responses={200: {"content": {"application/octet-stream": {}}}, **refusals(404, *WITHOUT_BODY)},
    )
    async def download_file(name: str) -> Response:
        kept = shelf.get(name)
        if kept is None:
            raise Refused(404, "there is no such file any more; a translated file is kept for some minutes")
        headers = {"Content-Disposition": f'attachment; filename="translated{kept.suffix}"'}
        return Response(kept.data, media_type=MEDIA_TYPES[kept.suffix], headers=headers)


async def read_upload(request: Request) -> tuple[str, bytes, dict[str, str]]:
    """The name and the bytes of the one file of a form, and its other fields."""
    if content_type(request) != MULTIPART:
        raise Refused(415, f"a file is sent as {MULTIPART}, in the field file")
    refuse_other_charset(request)
    try:
        async with request.form(max_files=1, max_fields=16, max_part_size=MOST_FIELD_BYTES) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile):
                raise Refused(400, "Invalid request: missing file parameter")
            fields = {key: value for key, value in form.items() if isinstance(value, str)}
            return file.filename or "", await file.read(), fields
    except (HTTPException, ValueError, KeyError) as error:
        reason = error.detail if isinstance(error, HTTPException) else "it cannot be read"
        raise Refused(400, f"Invalid request: the form: {reason}") from None
