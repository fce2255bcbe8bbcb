"""Files as texts to translate, and as the same files again with translations in place of the texts.

What a file has beside its texts comes out as it went in: times of subtitles, marks of Markdown, tags, styles, pictures.
"""

import io
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from string import ascii_lowercase
from typing import Literal

from weft.serving.refusals import Refused
from weft.text.markup import GLUE


@dataclass(frozen=True)
class Document:
    texts: Sequence[str]
    """To be translated with their markup kept."""
    write: Callable[[Sequence[str]], bytes]
    """The file, given a translation a text."""


@dataclass(frozen=True)
class Original:
    """What stands in a text and is not to be translated: where a span begins or ends, or something like a word."""

    text: str
    kind: Literal["begin", "end", "word", "point"]
    """A point is something between two characters, such as a comment."""
    name: str = ""
    """What ends a span has the name of what began it; else it is the end of something else."""


@dataclass(frozen=True)
class Inline:
    """A text in which marks of our own stand for the originals, so that theirs can be of any form.

    What begins and what ends a span are the tags of one element, which goes where its words go in the translation;
    unless spans have to keep their order.
    """

    text: str
    originals: Mapping[str, Original]

    @classmethod
    def of(cls, items: Sequence[str | Original], *, keeps_order: bool = False) -> "Inline":
        name = free_name("".join(item for item in items if isinstance(item, str)))
        originals: dict[str, Original] = {}
        written: list[str] = []
        begun: list[tuple[str, str]] = []  # the name of the original, and the one that stands for it
        for number, item in enumerate(items):
            if isinstance(item, str):
                written.append(item)
                continue
            own = f"{name}0{len(originals)}"
            if item.kind == "begin":
                begun.append((item.name, own))
            elif item.kind == "end" and not keeps_order and begun and begun[-1][0] == item.name:
                own = begun.pop()[1]
            mark = form_of(item, items, number).format(own)
            originals[mark] = item
            written.append(mark)
        return cls("".join(written), originals)

    def restore(self, translation: str) -> list[str | Original]:
        """The translation with the originals in it, each of them once."""
        restored: list[str | Original] = []
        begin, left = 0, dict(self.originals)
        for found in MARK.finditer(translation):
            if found[0] in left:  # or it is a text that has the form of a mark
                restored += [translation[begin : found.start()], left.pop(found[0])]
                begin = found.end()
        return [*restored, translation[begin:]]


def words_of(texts: Sequence[str]) -> str:
    """What a reader sees of the texts of a document: no mark of ours."""
    return " ".join(MARK.sub("", text) for text in texts)


FORMS = {"begin": "<{}>", "end": "</{}>", "word": "{{{}}}", "point": "<{}/>"}
MARK = re.compile(r"</?[a-z]+0\d+/?>|\{[a-z]+0\d+\}")
LONGEST_NAME = 8


def free_name(text: str) -> str:
    """A name that the text nowhere has before a 0. It is short, however many x the text has."""
    text = text.lower()
    longest = max(map(len, re.findall(r"(?<!x)x+(?=0)", text)), default=0)
    if longest < LONGEST_NAME:
        return "x" * (longest + 1)
    taken = set(re.findall(r"(?=([a-z]{5})0)", text))
    return next(name for name in map("".join, product(ascii_lowercase, repeat=5)) if name not in taken)


def form_of(item: Original, items: Sequence[str | Original], number: int) -> str:
    """Of a mark. Something like a word that touches another would take that with it, so it counts as a point."""
    left = "".join(one for one in items[max(0, number - 1) : number] if isinstance(one, str))[-1:]
    right = "".join(one for one in items[number + 1 : number + 2] if isinstance(one, str))[:1]
    touches = any(character in GLUE for character in left + right)
    return FORMS["point" if item.kind == "word" and touches else item.kind]


def read_document(name: str, data: bytes) -> Document:
    """The document of an uploaded file. Raises Refused where its kind is unknown or it is none of its kind."""
    suffix = suffix_of(name)
    if suffix not in READERS:
        raise Refused(
            400, f"files of the kind {suffix or 'without a name'} are not translated, but {', '.join(FORMATS)}"
        )
    document = READERS[suffix](data.removeprefix(BYTE_ORDER_MARK))
    if not data.startswith(BYTE_ORDER_MARK):
        return document
    return Document(document.texts, lambda translations: BYTE_ORDER_MARK + document.write(translations))


BYTE_ORDER_MARK = b"\xef\xbb\xbf"


MOST_XML = 8 << 20
"""Bytes of XML in a Word file that is read."""


def unpacked_size(name: str, data: bytes) -> int:
    """About how many bytes of text are in a file, as far as its head says it: XML is about a quarter text."""
    if suffix_of(name) != ".docx":
        return len(data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(max(0, file.file_size) for file in archive.infolist() if file.filename.endswith(".xml"))
            return min(size, MOST_XML) // 4
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError):
        return len(data)  # it is refused when it is read


def suffix_of(name: str) -> str:
    match = re.search(r"\.[A-Za-z0-9]{1,8}$", name)
    return match[0].lower() if match else ""


def decoded(data: bytes) -> str:
    """Raises Refused where the file is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{data[error.start]:02x} at {error.start + 1}"
        raise Refused(400, f"the file is not UTF-8 ({byte}); convert it first") from None


LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|$)")


def lines_of(text: str) -> list[tuple[str, str]]:
    """Each line and what ends it; joined, they are the text."""
    return [(line, end) for line, end in LINE.findall(text) if line or end]


def read_text(data: bytes) -> Document:
    """Plain text: every line that is not empty is a text; what comes before and behind its words stays."""
    return with_holes([part for line, end in lines_of(decoded(data)) for part in (*around(line), end)])


Hole = tuple[str]
"""A text to translate, between strings that stay."""


def around(line: str) -> list["str | Hole"]:
    words = line.strip()
    if not words:
        return [line]
    begin = line.index(words)
    return [line[:begin], (words,), line[begin + len(words) :]]


def with_holes(parts: Sequence["str | Hole | Inline"]) -> Document:
    """A document of strings that stay and texts between them."""
    texts = [part[0] if isinstance(part, tuple) else part.text for part in parts if not isinstance(part, str)]

    def fill(translations: Sequence[str]) -> bytes:
        each = iter(translations)
        written = []
        for part in parts:
            if isinstance(part, str):
                written.append(part)
            elif isinstance(part, tuple):
                written.append(next(each))
            else:
                restored = part.restore(next(each))
                written += [item if isinstance(item, str) else item.text for item in restored]
        return "".join(written).encode()

    return Document(texts, fill)


# Subtitles

TIMES = re.compile(r"\s*\d+:\d{2}:\d{2}[,.]\d{1,3}\s*-->\s*\d+:\d{2}:\d{2}[,.]\d{1,3}.*")
OVERRIDE = re.compile(r"(\{\\[^{}]*\})")
"""Where a caption stands on the screen, and the like: {\\an8}."""


def read_subtitles(data: bytes) -> Document:
    """SubRip: numbers, times and places stay; the lines of a caption are one text, and one line again."""
    lines = lines_of(decoded(data))
    if not any(TIMES.fullmatch(line) for line, _ in lines):
        raise Refused(400, "the file has no line of times such as 00:00:01,000 --> 00:00:02,000; it is no .srt")
    parts: list[str | Hole | Inline] = []
    caption: list[tuple[str, str]] = []
    is_caption = False

    def finish() -> None:
        nonlocal caption
        if caption:
            parts.extend([*caption_of(" ".join(line.strip() for line, _ in caption)), caption[-1][1]])
            caption = []

    for line, end in lines:
        is_times = TIMES.fullmatch(line) is not None
        if is_caption and line.strip() and not is_times:
            caption.append((line, end))
            continue
        # Where no empty line ends a caption, its last line is the number of the next
        number = caption.pop() if is_times and caption and caption[-1][0].strip().isdecimal() else ()
        finish()
        parts += [*number, line, end]
        is_caption = is_times
    finish()
    return with_holes(parts)


def caption_of(text: str) -> list["str | Hole | Inline"]:
    words = OVERRIDE.split(text)
    if not "".join(words[::2]).strip():
        return [text]
    if len(words) == 1:
        return [(text,)]
    return [Inline.of([Original(word, "point") if number % 2 else word for number, word in enumerate(words)])]


def read_markdown_file(data: bytes) -> Document:
    from weft.serving.markdown_document import read_markdown

    return read_markdown(decoded(data))


def read_html_file(data: bytes) -> Document:
    from weft.serving.html_document import read_html

    return read_html(decoded(data))


def read_word_file(data: bytes) -> Document:
    from weft.serving.word_document import read_word

    return read_word(data)


READERS: dict[str, Callable[[bytes], Document]] = {
    ".txt": read_text,
    ".md": read_markdown_file,
    ".srt": read_subtitles,
    ".html": read_html_file,
    ".htm": read_html_file,
    ".docx": read_word_file,
}
FORMATS = tuple(READERS)
MEDIA_TYPES = {
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".srt": "application/x-subrip",
    ".html": "text/html; charset=utf-8",
    ".htm": "text/html; charset=utf-8",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
