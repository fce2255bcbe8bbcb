"""The archive of a Word document: its parts that hold paragraphs, read with bounds against hostile archives."""

import io
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import lxml.etree as etree

from weft.serving.document_parts import MOST_WORD_XML
from weft.serving.refusals import Refused

MOST_FILES, MOST_BYTES = 2000, 64 << 20
"""Bounds of the unpacked archive."""
LONGEST_NAME = 0xFFFF
"""Bytes of the name of a file in a zip archive."""
MOST_TAGS = 500_000
"""Tags and attributes of its XML together; a tree takes many times the memory of its XML."""
CHUNK = 1 << 16
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The compression methods that Word uses; Python unpacks others without a bound."""
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
MAIN = "document.main+xml"
STORIES = (MAIN, "header+xml", "footer+xml", "footnotes+xml", "endnotes+xml", "comments+xml")
"""Content types of the parts that hold paragraphs, in reading order."""


def stories_of(data: bytes) -> dict[str, Any]:
    """Parse the parts that hold paragraphs, by name. Nothing else is unpacked: a picture may be a thousand times its
    packed size."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        content_types = ContentTypes.of(archive)
        kinds = {name: content_types.kind_of(name) for name in archive.namelist()}
        names = [name for story in STORIES for name, kind in kinds.items() if kind.endswith(story)]
        return {name: etree.fromstring(archive.read(name), careful_parser()) for name in names}


def with_stories(data: bytes, stories: Mapping[str, Any]) -> bytes:
    """Write the document with these trees in place of its own."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(written, "w") as after:
        for name in dict.fromkeys(before.namelist()):
            file = before.getinfo(name)
            copied = zipfile.ZipInfo(name, file.date_time)
            copied.compress_type = file.compress_type
            if name in stories:
                xml = etree.tostring(stories[name], xml_declaration=True, encoding="UTF-8", standalone=True)
                after.writestr(copied, xml)
                continue
            with before.open(file) as source, after.open(copied, "w") as target:
                shutil.copyfileobj(source, target, CHUNK)
    return written.getvalue()


def refuse_hostile(data: bytes) -> None:
    """Raise Refused for data that is not an archive, unpacks to too much, or has XML with declarations."""
    size = xml_size = tags = 0
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = archive.infolist()
            for file in files:
                if len(file.filename.encode(errors="surrogateescape")) > LONGEST_NAME:
                    raise Refused(400, "the document has a file whose name is too long")
                xml: list[bytes] = []
                for chunk in chunks_of(archive, file):
                    size += len(chunk)
                    if len(files) > MOST_FILES or size > MOST_BYTES:
                        most = f"{MOST_FILES:,} files or {MOST_BYTES >> 20} MiB"
                        raise Refused(400, f"the document unpacks to more than {most}")
                    if not is_xml(file.filename):
                        continue
                    xml.append(chunk)
                    xml_size += len(chunk)
                    tags += chunk.count(b"<") + chunk.count(b"=")
                    if xml_size > MOST_WORD_XML or tags > MOST_TAGS:
                        most = f"{MOST_WORD_XML >> 20} MiB or {MOST_TAGS:,} tags and attributes"
                        raise Refused(400, f"the XML of the document unpacks to more than {most}")
                if is_xml(file.filename):
                    refuse_declarations(b"".join(xml))
            names = archive.namelist()
            if not any(name.startswith("word/") for name in names):
                raise Refused(400, "an archive, but not a Word document (.docx)")
            content_types = ContentTypes.of(archive)
            content_types.refuse_hidden_xml()
            if not any(content_types.kind_of(name).endswith(MAIN) for name in names):
                raise Refused(400, "not a .docx but a similar format, such as a template")
    except NOT_READ as error:
        raise Refused(400, f"not a Word document (.docx): {type(error).__name__}") from None


NOT_READ = (
    *(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError, ValueError),
    *(KeyError, SyntaxError),  # no [Content_Types].xml, or one that is broken
)


def chunks_of(archive: zipfile.ZipFile, file: zipfile.ZipInfo) -> Iterator[bytes]:
    """Unpack a member of an archive. Raises Refused if its size or compression is not as declared."""
    if file.compress_type not in METHODS:
        raise Refused(400, "the document is compressed by another method than Word's")
    declared, file.file_size = file.file_size, MOST_BYTES + 1  # otherwise reading stops at the declared size
    size = 0
    with archive.open(file) as opened:
        while chunk := opened.read(CHUNK):
            size += len(chunk)
            yield chunk
    file.file_size = declared
    if size != declared:
        raise Refused(400, "the document unpacks to another size than it declares")


def is_xml(name: str) -> bool:
    return name.lower().endswith((".xml", ".rels"))


ENCODING = re.compile(rb"[^<>]{0,9}<\?xml[^<>]*?\sencoding\s*=\s*[\"']([^\"'<>]*)")
EBCDIC = "<?xm".encode("cp037")


def refuse_declarations(xml: bytes) -> None:
    encoding = ENCODING.match(xml)
    is_utf_8 = encoding is None or encoding[1].lower() in (b"utf-8", b"utf8", b"us-ascii")
    is_utf_8 = is_utf_8 and b"\0" not in xml and not xml.startswith(EBCDIC)
    if b"<!DOCTYPE" in xml or b"<!ENTITY" in xml or not is_utf_8:  # another encoding would hide the first two
        raise Refused(400, "the document declares entities, or is not UTF-8; Word writes neither")


PICTURE = "image/svg+xml"
"""The only XML that Word packs under another suffix than .xml; it is not read here."""


@dataclass(frozen=True)
class ContentTypes:
    """The content type of each part of a document; names are case-insensitive."""

    of_names: Mapping[str, str]
    """By name, or by suffix such as `.png`."""

    @classmethod
    def of(cls, archive: zipfile.ZipFile) -> "ContentTypes":
        root = etree.fromstring(archive.read("[Content_Types].xml"), careful_parser())
        kinds = root.iter("{*}Default", "{*}Override")
        return cls(
            {
                (kind.get("PartName") or f".{kind.get('Extension')}").lower(): kind.get("ContentType") or ""
                for kind in kinds
            }
        )

    def kind_of(self, name: str) -> str:
        own = self.of_names.get(f"/{name}".lower())
        return own or self.of_names.get(f".{name.rpartition('.')[2]}".lower(), "")

    def refuse_hidden_xml(self) -> None:
        """Raise Refused for XML under another suffix, which was not checked as XML."""
        for name, kind in self.of_names.items():
            if kind.endswith("+xml") and kind != PICTURE and not is_xml(name):
                raise Refused(400, "the document has XML under another name than .xml")


def careful_parser() -> Any:
    return etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)
