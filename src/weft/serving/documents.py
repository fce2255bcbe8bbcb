"""Reads uploaded files: texts to translate, and the same file with translations in place of the texts.

Everything else comes out as it went in: times of subtitles, Markdown syntax, tags, styles, pictures.
"""

import io
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

from weft.files import as_utf_8
from weft.serving.document_parts import (
    MOST_WORD_XML,
    Document,
    Inline,
    Original,
    Unclear,
    document_of,
    lines_of,
    without_outer_spaces,
)
from weft.serving.html_document import read_html
from weft.serving.markdown_document import read_markdown
from weft.serving.refusals import Refused
from weft.serving.word_document import read_word


def read_document(name: str, data: bytes) -> Document:
    """Read an uploaded file, in UTF-8 or an encoding that `as_utf_8` knows; it is written in UTF-8. Raises Refused if
    its format is unknown or its content is not of that format."""
    suffix = suffix_of(name)
    if suffix not in MEDIA_TYPES:
        raise Refused(400, f"cannot translate {suffix or 'files without a suffix'}; known: {', '.join(FORMATS)}")
    if suffix == ".docx":
        return read_word(data)
    data = as_utf_8(data)
    if suffix in (".html", ".htm"):  # also one in ASCII, which its translation need not be
        data = DECLARED_CHARSET.sub(as_declared, data, count=1)
    document = READERS[suffix](decoded(data.removeprefix(BYTE_ORDER_MARK)))
    if not data.startswith(BYTE_ORDER_MARK):
        return document
    return replace(document, write=lambda translations: BYTE_ORDER_MARK + document.write(translations))


BYTE_ORDER_MARK = b"\xef\xbb\xbf"
DECLARED_CHARSET = re.compile(rb"(<meta\s[^<>]{0,200}?charset\s*=\s*[\"']?)([\w-]+)", re.IGNORECASE)


def as_declared(charset: re.Match[bytes]) -> bytes:
    return charset[0] if charset[2].lower() == b"utf-8" else charset[1] + b"utf-8"


def unpacked_size(name: str, data: bytes) -> int:
    """Estimate the bytes of text in a file without unpacking it."""
    if suffix_of(name) != ".docx":
        return len(data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(max(0, file.file_size) for file in archive.infolist() if file.filename.endswith(".xml"))
            return min(size, MOST_WORD_XML) // 4  # XML is about a quarter text
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError):
        return len(data)  # reading it will raise


def suffix_of(name: str) -> str:
    match = re.search(r"\.[A-Za-z0-9]{1,8}$", name)
    return match[0].lower() if match else ""


def decoded(data: bytes) -> str:
    """Decode UTF-8. Raises Refused with the place of the first wrong byte."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{data[error.start]:02x} at {error.start + 1}"
        raise Refused(400, f"the file is not UTF-8 ({byte}); convert it first") from None


def read_text(text: str) -> Document:
    """Read plain text: every line with words is one text; the spaces around it stay."""
    return document_of(part for line in lines_of(text) for part in (*without_outer_spaces(line[:1]), line[1]))


TIMES = re.compile(r"\s*\d[\d:：.,， ]{0,30}\s*(?:-+>|[—–]+>|→|⇒)\s*\d[\d:：.,，]{0,30}(?:\s.*)?")
"""In any of the forms in which programs and people write them: without milliseconds, hours or the second hyphen."""
LIKE_TIMES = re.compile(r"[^\w]*\d+[:：]\d[\d\s:：.,，\-—–→>]*")
OVERRIDE = re.compile(r"(\{\\[^{}]*\})")
r"""An instruction within a caption, such as its place on the screen: {\an8}."""
SPEAKER = re.compile(r"(?:</?\w[^<>]{0,100}>|\{\\[^{}]{0,100}\})*\s*(?:[-‐–—－]+|>>+)\s*(?=\S)")
"""Before the words of one of several speakers."""


def read_subtitles(text: str) -> Document:
    """Read SubRip: numbers, times and places stay; the lines of a speaker become one text and one line. All other lines
    are text too, wherever they stand."""
    lines = lines_of(text)
    if not any(TIMES.fullmatch(line) for line, _ in lines):
        raise Refused(400, "not an .srt file: there is no line of times such as 00:00:01,000 --> 00:00:02,000")
    return document_of(subtitle_parts(lines))


def subtitle_parts(lines: list[tuple[str, str]]) -> Iterator[str | Inline]:
    caption: list[tuple[str, str]] = []
    for (line, end), (following, _) in pairwise([*lines, ("", "")]):
        is_times, is_unclear = TIMES.fullmatch(line) is not None, LIKE_TIMES.fullmatch(line) is not None
        is_number = line.strip().isdecimal() and bool(TIMES.fullmatch(following) or LIKE_TIMES.fullmatch(following))
        is_text = bool(line.strip()) and not (is_number or is_unclear or is_times)
        if caption and (not is_text or SPEAKER.match(line)):
            yield from caption_of(caption)
            caption = []
        if is_text:
            caption.append((line, end))
        else:
            yield Unclear(line) if is_unclear and not is_times else line
            yield end
    if caption:
        yield from caption_of(caption)


def caption_of(lines: list[tuple[str, str]]) -> list[str | Inline]:
    """The parts of the words of one speaker."""
    text, end = " ".join(line.strip() for line, _ in lines), lines[-1][1]
    speaker = SPEAKER.match(text)
    before, text = (speaker[0], text[speaker.end() :]) if speaker else ("", text)
    words = OVERRIDE.split(text)
    if not "".join(words[::2]).strip():
        return [before, text, end]
    items = [Original(word, "point") if number % 2 else word for number, word in enumerate(words)]
    return [before, *without_outer_spaces(items), end]


READERS: dict[str, Callable[[str], Document]] = {
    ".txt": read_text,
    ".md": read_markdown,
    ".srt": read_subtitles,
    ".html": read_html,
    ".htm": read_html,
}
"""Readers of the formats that are text."""
MEDIA_TYPES = {
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".srt": "application/x-subrip",
    ".html": "text/html; charset=utf-8",
    ".htm": "text/html; charset=utf-8",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
FORMATS = tuple(MEDIA_TYPES)
