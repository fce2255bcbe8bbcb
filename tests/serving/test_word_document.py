"""Word documents: words change, formats stay; what is no document, or a bomb, is refused."""

import io
import zipfile

import docx
import pytest

from weft.serving.documents import read_document
from weft.serving.refusals import Refused


@pytest.fixture
def word_file() -> bytes:
    document = docx.Document()
    document.add_heading("title", 1)
    paragraph = document.add_paragraph("plain ")
    paragraph.add_run("bold").bold = True
    paragraph.add_run(" and ")
    paragraph.add_run("more").italic = True
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "cell", "12"
    document.sections[0].header.paragraphs[0].text = "head"
    document.add_paragraph("")
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


def test_words_are_translated_and_formats_kept(word_file: bytes) -> None:
    source = read_document("a.docx", word_file)
    assert sorted(source.texts) == sorted(
        ["title", "<x00>plain </x01><x02>bold</x03><x04> and </x05><x06>more</x07>", "cell", "head", "12"]
    )
    texts = {
        "<x00>plain </x01><x02>bold</x03><x04> and </x05><x06>more</x07>": (
            "<x00>PLAIN</x01> <x02>BOLD</x03> <x04>AND </x05><x06>MORE</x07>"
        )
    }
    after = docx.Document(io.BytesIO(source.write([texts.get(text, text.upper()) for text in source.texts])))
    title, paragraph, empty = after.paragraphs
    assert title.style is not None
    assert (title.text, title.style.name, empty.text) == ("TITLE", "Heading 1", "")
    assert [(run.text, run.bold, run.italic) for run in paragraph.runs] == [
        ("PLAIN ", None, None),
        ("BOLD ", True, None),
        ("AND ", None, None),
        ("MORE", None, True),
    ]
    assert [cell.text for cell in after.tables[0].rows[0].cells] == ["CELL", "12"]
    assert after.sections[0].header.paragraphs[0].text == "HEAD"


def changed(word_file: bytes, name: str, content: bytes) -> bytes:
    """The document with another content of one of its files."""
    before, written = zipfile.ZipFile(io.BytesIO(word_file)), io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as after:
        for file in before.namelist():
            if file != name:
                after.writestr(file, before.read(file))
        after.writestr(name, content)
    return written.getvalue()


def test_what_is_hostile_or_no_document_is_refused(word_file: bytes) -> None:
    bomb = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "bbbb">]><a>&b;</a>'
    hostile = [
        (changed(word_file, "word/document.xml", bomb), "entities"),
        (changed(word_file, "word/document.xml", bomb.decode().encode("utf-16")), "entities"),
        (changed(word_file, "word/document.xml", b"<broken"), "no Word document"),
        (changed(word_file, "word/media/zeros", bytes(65 << 20)), "unpacks to more"),
        (b"PK\x03\x04", "no Word document"),
        (b"", "no Word document"),
        (word_file[:-100], "no Word document"),
        (word_file[:500] + bytes(200) + word_file[700:], "no Word document"),
    ]
    plain = io.BytesIO()
    with zipfile.ZipFile(plain, "w") as archive:
        archive.writestr("../../outside", "x")
    hostile.append((plain.getvalue(), "but no Word document"))
    for data, message in hostile:
        with pytest.raises(Refused, match=message):
            read_document("a.docx", data)
