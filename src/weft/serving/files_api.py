"""LibreTranslate's API for files: a file is uploaded, a link to its translation comes back.

Translations are kept in memory for some minutes under an unguessable name, never on disk.
"""

import asyncio
import secrets
import time
from typing import Annotated

from fastapi import APIRouter, Form, UploadFile
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from weft.files import as_utf_8
from weft.serving.detection import DETECTION_CHARACTERS
from weft.serving.document_parts import words_of
from weft.serving.documents import FORMATS, MEDIA_TYPES, read_document, suffix_of, unpacked_size
from weft.serving.openapi import WITH_BODY, refusals
from weft.serving.refusals import Refused
from weft.serving.requests import MULTIPART, Current, Key, LanguageCode, Route
from weft.serving.translating import TranslationOptions
from weft.text.chinese import script_of_code

KEPT_SECONDS = 600.0
MAX_KEPT_BYTES = 64 << 20
BYTES_OF_ENTRY = 1024
"""Length of the beginning of a file by which its language is detected."""

router = APIRouter(route_class=Route)


class FileRequest(BaseModel):
    file: Annotated[UploadFile, Field(description=f"One of {', '.join(FORMATS)}.")]
    source: Annotated[str, LanguageCode("source")]
    target: Annotated[str, LanguageCode("target")]
    api_key: Key = ""


class Segments(BaseModel):
    """How many parts of a file were translated, left as they are because they are not to be translated, such as code,
    and left as they are because they were not understood."""

    translated: int
    passed: int
    notUnderstood: int


class TranslatedFile(BaseModel):
    translatedFileUrl: str
    segments: Segments
    """Weft's own field."""


class FileStore:
    """Translated files until they are downloaded or expire; when it is full the oldest are dropped."""

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self.max_bytes = max_bytes
        self.files: dict[str, tuple[float, bytes]] = {}
        """When each file expires, and its content; oldest first."""

    def put(self, data: bytes, suffix: str) -> str:
        """Store a file; returns its name."""
        name = secrets.token_urlsafe(24) + suffix
        self.files[name] = (time.monotonic() + KEPT_SECONDS, data)
        while len(self.files) > 1 and self.size > self.max_bytes:
            del self.files[next(iter(self.files))]
        return name

    @property
    def size(self) -> int:
        """Bytes of all files with what the store needs for each, so that even empty ones cannot fill the memory."""
        return sum(len(content) + BYTES_OF_ENTRY for _, content in self.files.values())

    def get(self, name: str) -> bytes | None:
        self.drop_expired()
        return self.files[name][1] if name in self.files else None

    def drop_expired(self) -> None:
        now = time.monotonic()
        self.files = {name: file for name, file in self.files.items() if file[0] >= now}


@router.post(
    "/translate_file",
    summary=f"Translate a file: {', '.join(FORMATS)}",
    responses=WITH_BODY,
    form_limits={"max_files": 1, "max_fields": 16, "max_part_size": 4096},
)
async def translate_file(
    asked: Annotated[FileRequest, Form(media_type=MULTIPART)], request: Request, service: Current
) -> TranslatedFile:
    service.check_key(request, asked.api_key)
    name, data = asked.file.filename or "", await asked.file.read()
    size = await service.in_document_thread(unpacked_size, name, data)
    async with service.hold_for_document(size):
        document = await service.in_document_thread(read_document, name, data)
        source = await service.resolve(asked.source, words_of(document.texts)[:DETECTION_CHARACTERS], asked.target)
        model = service.model_between(source, asked.target)
        options = TranslationOptions(script=script_of_code(asked.target))
        is_kept = model is None and options.script == "keep"
        translated = data if is_kept else await service.translate_document(model, document, options)
    files: FileStore = request.app.state.files
    stored = files.put(translated, suffix_of(name))
    asyncio.get_running_loop().call_later(KEPT_SECONDS + 1, files.drop_expired)
    number = 0 if is_kept else len(document.texts)
    passed = document.passed + len(document.texts) - number
    return TranslatedFile(
        translatedFileUrl=str(request.url_for("download_file", name=stored)),
        segments=Segments(translated=number, passed=passed, notUnderstood=document.unclear),
    )


@router.get(
    "/download_file/{name}",
    summary="Download a translated file",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}, **refusals(404, 421)},
)
async def download_file(name: str, request: Request) -> Response:
    data: bytes | None = request.app.state.files.get(name)
    if data is None:
        raise Refused(404, "there is no such file; a translated file is kept for some minutes")
    suffix = suffix_of(name)
    is_other = "charset" in MEDIA_TYPES[suffix] and as_utf_8(data) != data  # a file that came back as it was
    media_type = "application/octet-stream" if is_other else MEDIA_TYPES[suffix]
    headers = {"Content-Disposition": f'attachment; filename="translated{suffix}"'}
    return Response(data, media_type=media_type, headers=headers)
