"""Word documents (.docx) as texts to translate, and the same documents again: paragraph by paragraph, formats kept.

The words of a paragraph that share a format are a span; the spans go through translation as markup does, so bold words
are bold again. Paragraphs of headers, footers, tables, text boxes and notes are translated as those of the body are.
"""

import io
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from weft.errors import MissingExtraError
from weft.serving.documents import Document, Inline, Original
from weft.serving.refusals import Refused

MOST_FILES, MOST_BYTES = 2000, 64 << 20
"""Inside the archive, unpacked."""
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
STORIES = ("document.main+xml", "header+xml", "footer+xml", "footnotes+xml", "endnotes+xml")


@dataclass(frozen=True)
class Paragraph:
    spans: Sequence[Sequence[Any]]
    """Of each format the elements that hold its words."""
    inline: Inline


def read_word(data: bytes) -> Document:
    refuse_hostile(data)
    try:
        import docx
        import lxml.etree
    except ImportError:
        raise MissingExtraError("python-docx", "serve") from None
    try:
        package: Any = docx.Document(io.BytesIO(data)).part.package
        stories = [Story.of(part, lxml.etree) for part in package.iter_parts() if is_story(part)]
    except Exception as error:  # whatever a spoiled file makes of the library
        raise Refused(400, f"the file is no Word document that can be read: {type(error).__name__}") from None
    paragraphs = [paragraph for story in stories for paragraph in paragraphs_of(story.root)]

    def write(translations: Sequence[str]) -> bytes:
        for paragraph, translation in zip(paragraphs, translations, strict=True):
            fill(paragraph, translation)
        for story in stories:
            story.put_back(lxml.etree)
        written = io.BytesIO()
        package.save(written)
        return written.getvalue()

    return Document([paragraph.inline.text for paragraph in paragraphs], write)


def refuse_hostile(data: bytes) -> None:
    """Raise Refused for what is no archive, would unpack to too much, or declares entities."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = archive.infolist()
            if len(files) > MOST_FILES or sum(file.file_size for file in files) > MOST_BYTES:
                raise Refused(400, f"the document unpacks to more than {MOST_FILES:,} files or {MOST_BYTES >> 20} MiB")
            if "word/document.xml" not in archive.namelist():
                raise Refused(400, "the file is an archive, but no Word document (.docx)")
            for file in files:
                if file.filename.endswith((".xml", ".rels")):
                    refuse_declarations(archive.read(file))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError, zlib.error) as error:
        raise Refused(400, f"the file is no Word document (.docx): {type(error).__name__}") from None


def refuse_declarations(xml: bytes) -> None:
    if b"<!DOCTYPE" in xml or b"<!ENTITY" in xml or b"\0" in xml:  # UTF-16 would hide the first two
        raise Refused(400, "the document declares entities, or is not UTF-8; Word writes neither")


@dataclass(frozen=True)
class Story:
    """A part of the package that holds paragraphs."""

    part: Any
    root: Any
    is_parsed: bool
    """Whether the library writes the part from its own tree."""

    @classmethod
    def of(cls, part: Any, etree: Any) -> "Story":
        if hasattr(part, "element"):
            return cls(part, part.element, True)
        parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)
        return cls(part, etree.fromstring(part.blob, parser), False)

    def put_back(self, etree: Any) -> None:
        if not self.is_parsed:
            self.part._blob = etree.tostring(self.root, xml_declaration=True, encoding="UTF-8", standalone=True)


def is_story(part: Any) -> bool:
    return part.content_type.endswith(STORIES)


def paragraphs_of(root: Any) -> Iterator[Paragraph]:
    """Those with words in them."""
    for element in root.iter(f"{W}p"):
        spans = list(spans_of(element))
        words = ["".join(text.text or "" for text in span) for span in spans]
        if not any(character.isalnum() for character in "".join(words)):
            continue
        if len(spans) == 1:
            yield Paragraph(spans, Inline(words[0], {}))
            continue
        items: list[str | Original] = []
        for number, word in enumerate(words):
            items += [Original(str(number), "begin"), word, Original(str(number), "end")]
        yield Paragraph(spans, Inline.of(items))


def spans_of(paragraph: Any) -> Iterator[list[Any]]:
    """The elements with words of a paragraph's own, those together that follow each other in the same format."""
    last: tuple[Any, bytes] | None = None
    span: list[Any] = []
    for element in paragraph.iter():
        if nearest(element, "p") is not paragraph:
            continue
        if element.tag in (f"{W}br", f"{W}tab", f"{W}drawing", f"{W}noBreakHyphen"):
            last = None
        if element.tag != f"{W}t":
            continue
        run = nearest(element, "r")
        here = (run.getparent() if run is not None else None, format_of(run))
        if here != last and span:
            yield span
            span = []
        last = here
        span.append(element)
    if span:
        yield span


def nearest(element: Any, name: str) -> Any:
    return next((one for one in element.iterancestors(f"{W}{name}")), None)


def format_of(run: Any) -> bytes:
    import lxml.etree

    properties = None if run is None else run.find(f"{W}rPr")
    return b"" if properties is None else lxml.etree.tostring(properties, method="c14n")


def fill(paragraph: Paragraph, translation: str) -> None:
    """Put the words of the translation where those of the source were. What came to stand between two spans, such as a
    space, goes with the one before."""
    if len(paragraph.spans) == 1:
        put(paragraph.spans[0], translation)
        return
    words = [""] * len(paragraph.spans)
    current = 0
    for item in paragraph.inline.restore(translation):
        if isinstance(item, Original):
            current = int(item.text)
        else:
            words[current] += item
    for span, word in zip(paragraph.spans, words, strict=True):
        put(span, word)


def put(span: Sequence[Any], text: str) -> None:
    first, *others = span
    first.text = text
    first.set(SPACE, "preserve")
    for other in others:
        other.text = ""
