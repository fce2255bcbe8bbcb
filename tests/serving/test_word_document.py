"""Word documents: words change, formats stay; what is no document, or a bomb, is refused."""

import bz2
import gc
import io
import re
import struct
import subprocess
import sys
import time
import tracemalloc
import zipfile
import zlib

import docx
import pytest
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml

from weft.serving.document_parts import MOST_WORD_XML
from weft.serving.documents import read_document, unpacked_size
from weft.serving.refusals import Refused


def test_a_document_in_strict_open_xml_is_refused(word_file: bytes) -> None:
    transitional = b"http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(word_file)) as old, zipfile.ZipFile(written, "w") as new:
        for name in old.namelist():
            new.writestr(
                name, old.read(name).replace(transitional, b"http://purl.oclc.org/ooxml/wordprocessingml/main")
            )
    with pytest.raises(Refused, match="Strict Open XML"):
        read_document("a.docx", written.getvalue())


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
    assert sorted(source.texts) == sorted(["title", "plain <x00>bold</x00> and <x02>more</x02>", "cell", "head", "12"])
    texts = {"plain <x00>bold</x00> and <x02>more</x02>": "PLAIN <x00>BOLD</x00> AND <x02>MORE</x02>"}
    after = docx.Document(io.BytesIO(source.write([texts.get(text, text.upper()) for text in source.texts])))
    title, paragraph, empty = after.paragraphs
    assert title.style is not None
    assert (title.text, title.style.name, empty.text) == ("TITLE", "Heading 1", "")
    assert [(run.text, run.bold, run.italic) for run in paragraph.runs] == [
        ("PLAIN ", None, None),
        ("BOLD", True, None),
        (" AND ", None, None),
        ("MORE", None, True),
    ]
    assert [cell.text for cell in after.tables[0].rows[0].cells] == ["CELL", "12"]
    assert after.sections[0].header.paragraphs[0].text == "HEAD"


BOLD, ITALIC = "<w:rPr><w:b/></w:rPr>", "<w:rPr><w:i/></w:rPr>"


def run(text: str, properties: str = "") -> str:
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def translated(word_file: bytes, content: str, translation: str) -> tuple[str, str]:
    """The text of a document of one paragraph, and the XML of the paragraph with a translation."""
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = f'<w:document xmlns:w="{space}"><w:body><w:p>{content}</w:p></w:body></w:document>'
    source = read_document("a.docx", changed(word_file, "word/document.xml", body.encode()))
    number = next(number for number, text in enumerate(source.texts) if text not in ("head", "12"))
    texts = [translation if at == number else text for at, text in enumerate(source.texts)]
    written = zipfile.ZipFile(io.BytesIO(source.write(texts))).read("word/document.xml").decode()
    return source.texts[number], written[written.index("<w:p>") + 5 : written.index("</w:p>")]


def test_runs_and_links_change_places_where_their_words_do(word_file: bytes) -> None:
    link = f'<w:hyperlink w:anchor="a">{run("three", ITALIC)}{run(" books", ITALIC)}</w:hyperlink>'
    content = f'{run("I bought ")}{link}<w:proofErr w:type="gramStart"/>{run(" ")}{run("yesterday", BOLD)}{run(".")}'
    text, written = translated(word_file, content, "<x02>昨天</x02>我买了<x00>三本书</x00>。")
    assert text == "I bought <x00>three books</x00> <x02>yesterday</x02>."
    link = f'<w:hyperlink w:anchor="a">{run("三本书", ITALIC)}{run("", ITALIC)}</w:hyperlink>'
    moved = f"{run('昨天', BOLD)}{run('我买了')}{link}{run('。')}"
    assert written.replace('<w:t xml:space="preserve"/>', '<w:t xml:space="preserve"></w:t>') == (
        f'{moved}<w:proofErr w:type="gramStart"/>'
    )


@pytest.mark.parametrize(
    "between",
    [
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r>',
        '<w:bookmarkStart w:id="1" w:name="a"/>',
        f"<w:ins>{run('really ', ITALIC)}</w:ins>",
        f"<w:hyperlink>{run('a')}{run('b', ITALIC)}</w:hyperlink>",
        "<w:r><w:endnoteReference/></w:r>",
        f"<w:r>{'<w:rPr>' + '<w:i/>' * 2000 + '</w:rPr>'}<w:footnoteReference/><w:t>a</w:t></w:r>",
    ],
)
def test_where_more_than_words_stands_in_a_paragraph_every_run_keeps_its_place(word_file: bytes, between: str) -> None:
    content = f"{run('I came ')}{between}{run('today', BOLD)}"
    text, _ = translated(word_file, content, "")
    begin, end = re.findall(r"</?x\d+>", text)[-2:]
    assert text.startswith("<x00>I came </x01>") and begin != end.replace("/", "")
    _, written = translated(word_file, content, f"{begin}今天{end}<x00>我来了</x01>")
    assert written.index("我来了") < written.index("<w:b/>") < written.index("今天")


def test_a_note_stands_behind_its_claim_and_a_hyphen_within_its_number(word_file: bytes) -> None:
    note = "<w:r><w:footnoteReference/></w:r>"
    _, written = translated(word_file, f"{run('One.')}{note}{run(' Two.')}", "<x00>一。</x01><x02>二。</x03>")
    assert written.index("一") < written.index("footnoteReference") < written.index("二")
    number = "<w:r><w:t>138</w:t><w:noBreakHyphen/><w:t>0013</w:t></w:r>"
    assert translated(word_file, number, "")[0] == "138-0013"


def a_field(code: str, shown: str) -> str:
    begin, separate, end = (f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end"))
    return f"{begin}<w:r><w:instrText> {code} </w:instrText></w:r>{separate}{run(shown)}{end}"


SIMPLE = '<w:fldSimple w:instr=" NUMPAGES ">{}</w:fldSimple>'.format
IN_A_FIELD = (
    '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>IF </w:instrText></w:r>'
    + a_field("PAGE", "3")
    + '<w:r><w:fldChar w:fldCharType="separate"/></w:r>{}<w:r><w:fldChar w:fldCharType="end"/></w:r>'
).format


@pytest.mark.parametrize(
    ("content", "texts", "after", "passed"),
    [
        (run("page ") + a_field("PAGE", "3") + run(" of ") + SIMPLE(run("10")), 1, ["PAGE ", "3", " OF ", "10"], 2),
        (a_field("PAGE", "3") + run(" pages"), 1, ["3", " PAGES"], 1),
        (a_field("page \\* roman", "iii"), 0, ["iii"], 0),
        (run("see ") + a_field('HYPERLINK "x"', "site") + run("."), 1, ["SEE SITE.", "", ""], 0),
        (a_field("TOC", run("chapter ") + a_field("PAGEREF x", "7")), 1, ["CHAPTER ", "7"], 1),
        (run("on ") + a_field("DATE", "may") + run(" we "), 1, ["ON ", "may", " WE "], 1),
        (IN_A_FIELD(run("yes")), 1, ["3", "YES"], 1),
        ('<w:r><w:fldChar w:fldCharType="end"/></w:r>' + run("one"), 1, ["ONE"], 0),
    ],
)
def test_what_word_computes_stays_in_its_place(content: str, texts: int, after: list[str], passed: int) -> None:
    content = content.replace('<w:r><w:t xml:space="preserve"><w:r>', "<w:r>").replace("</w:r></w:t></w:r>", "</w:r>")
    document = docx.Document()
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    document.element.body.insert(0, parse_xml(f'<w:p xmlns:w="{space}">{content}</w:p>'))
    held = io.BytesIO()
    document.save(held)
    found = read_document("a.docx", held.getvalue())
    assert (len(found.texts), found.passed) == (texts, passed)
    upper = [re.sub(r"([^<>{}]+)(?=$|[<{])", lambda words: words[0].upper(), text) for text in found.texts]
    paragraph = docx.Document(io.BytesIO(found.write(upper))).paragraphs[0]
    assert [words.text or "" for words in paragraph._p.iter(f"{{{space}}}t")] == after


def test_what_hostile_runs_hold_is_not_written_once_for_each_stretch_of_words(word_file: bytes) -> None:
    large = f'<w:r w:rsidR="{"A" * 500_000}">{"<w:t/>" * 1000}<w:t>I like </w:t></w:r>'
    content = large + (run("tea", BOLD) + run(" and ")) * 50
    marked = "".join(f"<x0{2 * number}>茶</x0{2 * number}>和" for number in range(50))
    text, written = translated(word_file, content, f"我喜欢{marked}")
    assert text.startswith("I like <x00>tea</x00> and <x02>tea</x02>") and written.count("茶</w:t>") == 50
    assert len(written) < 20_000


@pytest.mark.parametrize(
    ("begin", "words", "message"),
    [
        ('xmlns:x="AAAA"', "<w:r><w:rPr><x:b/></w:rPr><w:t>a</w:t></w:r>", "not a URI"),
        (
            f'xmlns:x="http://a/{"A" * 500_000}"',
            "<w:r><w:rPr><x:b/></w:rPr><w:t>a</w:t></w:r>" * 200,
            "take more than 64 MiB",
        ),
        ("", "<w:t>a</w:t><w:r><w:rPr><w:b/></w:rPr><w:t>b</w:t></w:r>", None),
    ],
)
def test_hostile_namespaces_are_refused_and_words_outside_runs_are_read(
    word_file: bytes, begin: str, words: str, message: str | None
) -> None:
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    data = changed(word_file, "word/document.xml", f'<w:p xmlns:w="{space}" {begin}>{words}</w:p>'.encode())
    if message is None:
        assert read_document("a.docx", data).texts[0] == "<x00>a</x01><x02>b</x03>"
    else:
        with pytest.raises(Refused, match=message):
            read_document("a.docx", data)


def test_what_is_no_text_is_held_packed_and_comes_out_byte_for_byte() -> None:
    document = docx.Document()
    document.add_paragraph("one")
    picture = Part(PackURI("/word/media/a.png"), "image/png", bytes(20 << 20), document.part.package)
    document.part.relate_to(picture, "http://schemas.openxmlformats.org/officeDocument/2006/relationships/image")
    saved = io.BytesIO()
    document.save(saved)
    del document, picture
    gc.collect()
    tracemalloc.start()
    try:
        source = read_document("a.docx", saved.getvalue())
        written = source.write(["ONE"])
        assert tracemalloc.get_traced_memory()[1] < 4 << 20  # at most, whether it was freed since then or not
    finally:
        tracemalloc.stop()
    before, after = (zipfile.ZipFile(io.BytesIO(data)) for data in (saved.getvalue(), written))
    assert [name for name in before.namelist() if after.read(name) != before.read(name)] == ["word/document.xml"]
    assert len(written) < 2 * len(saved.getvalue())


def test_breaks_and_tabs_part_a_paragraph_into_texts() -> None:
    document = docx.Document()
    run = document.add_paragraph().add_run("姓名\t日期\n第二行")
    run.add_text(" plain ")
    run.add_break()
    run.add_text("--")
    run.add_tab()
    bold = document.paragraphs[0].add_run("bold")
    bold.bold = True
    written = io.BytesIO()
    document.save(written)
    source = read_document("a.docx", written.getvalue())
    assert source.texts == ["姓名", "日期", "第二行 plain ", "bold"]
    (paragraph,) = docx.Document(io.BytesIO(source.write(["name", "date", "second line", "BOLD"]))).paragraphs
    assert paragraph.text == "name\tdate\nsecond line\n--\tBOLD"
    assert [run.bold for run in paragraph.runs] == [None, True]


def test_paragraphs_in_each_other_are_read_apart_and_in_one_pass(word_file: bytes) -> None:
    begin = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
    box = "<w:p><w:r><w:t>outer</w:t><w:pict>" * 60
    words = "<w:p>" + "<w:r><w:t>a</w:t></w:r><w:r><w:t>b</w:t><w:tab/></w:r>" * 10_000 + "</w:p>"
    ends = "</w:pict><w:t>end</w:t></w:r></w:p>" * 60 + "</w:body></w:document>"
    data = changed(word_file, "word/document.xml", f"{begin}{box}{words}{ends}".encode())
    began = time.process_time()
    texts = read_document("a.docx", data).texts
    assert time.process_time() - began < 5
    assert texts[:60] == ["outerend"] * 60
    assert texts[60:10_060] == ["ab"] * 10_000


def changed(word_file: bytes, name: str, content: bytes) -> bytes:
    """The document with another content of one of its files."""
    before, written = zipfile.ZipFile(io.BytesIO(word_file)), io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as after:
        for file in before.namelist():
            if file != name:
                after.writestr(file, before.read(file))
        after.writestr(name, content)
    return written.getvalue()


def test_how_a_ruby_is_read_is_not_its_text(word_file: bytes) -> None:
    ruby = f"<w:r><w:ruby><w:rt>{run('hàn')}</w:rt><w:rubyBase>{run('汉')}</w:rubyBase></w:ruby></w:r>"
    text, _ = translated(word_file, ruby + run("字很难。"), "x")
    assert re.sub(r"</?x\d+>", "", text) == "汉字很难。"


def test_the_main_part_may_have_another_name(word_file: bytes) -> None:
    before, written = zipfile.ZipFile(io.BytesIO(word_file)), io.BytesIO()
    with zipfile.ZipFile(written, "w") as after:
        for name in before.namelist():
            content = before.read(name).replace(b"word/document.xml", b"word/document2.xml")
            after.writestr(name.replace("word/document.xml", "word/document2.xml"), content)
    assert read_document("a.docx", written.getvalue()).texts == read_document("a.docx", word_file).texts


def test_what_is_hostile_or_no_document_is_refused(word_file: bytes) -> None:
    bomb = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "bbbb">]><a>&b;</a>'
    hostile = [
        (changed(word_file, "word/document.xml", bomb), "entities"),
        (changed(word_file, "word/document.xml", bomb.decode().encode("utf-16")), "entities"),
        (changed(word_file, "word/document.xml", b"<broken"), "not a (readable )?Word document"),
        (changed(word_file, "word/media/zeros", bytes(65 << 20)), "unpacks to more"),
        (b"PK\x03\x04", "not a (readable )?Word document"),
        (b"", "not a (readable )?Word document"),
        (word_file[:-100], "not a (readable )?Word document"),
        (word_file[:500] + bytes(200) + word_file[700:], "not a (readable )?Word document"),
    ]
    plain = io.BytesIO()
    with zipfile.ZipFile(plain, "w") as archive:
        archive.writestr("../../outside", "x")
    hostile.append((plain.getvalue(), "but not a Word document"))
    for data, message in hostile:
        with pytest.raises(Refused, match=message):
            read_document("a.docx", data)


def archive_of(method: int, packed: bytes, declared: bytes, checked: bytes | None = None) -> bytes:
    """An archive of one file, word/b.xml, whose head says that it holds `declared`; the check sum may be of another."""
    name, checked = b"word/b.xml", declared if checked is None else checked
    head = struct.pack("<4HIII", 0, method, 0, 0, zlib.crc32(checked), len(packed), len(declared))
    local = b"PK\3\4" + struct.pack("<H", 20) + head + struct.pack("<HH", len(name), 0) + name + packed
    central = b"PK\1\2" + struct.pack("<HH", 20, 20) + head + struct.pack("<5HII", len(name), 0, 0, 0, 0, 0, 0) + name
    return local + central + b"PK\5\6" + struct.pack("<4HIIH", 0, 0, 1, 1, len(central), len(local), 0)


def deflated(data: bytes) -> bytes:
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packing.compress(data) + packing.flush()


def test_an_archive_that_declares_less_than_it_holds_is_refused() -> None:
    zeros, blanks = bytes(1 << 20), b" " * (1 << 20)
    for data, message in [
        (archive_of(8, deflated(b"<a/>"), b"<a/>"), "not a (readable )?Word document"),
        (
            archive_of(8, deflated(zeros), zeros[:100]),
            "not a (readable )?Word document",
        ),  # the check sum is of the first 100
        (archive_of(8, deflated(blanks), blanks[:100], blanks), "another size"),
        (archive_of(12, bz2.compress(zeros), zeros[:100]), "another method"),
        (archive_of(14, zeros, zeros), "another method"),
    ]:
        with pytest.raises(Refused, match=message):
            read_document("a.docx", data)


MEASURED = """
import resource, sys
import lxml.etree
from weft.serving.documents import read_document
from weft.serving.refusals import Refused
data = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_document("a.docx", data)
except Refused:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.parametrize("method", [8, 12])
def test_a_bomb_is_refused_before_it_is_unpacked(method: int) -> None:
    zeros = bytes(200 << 20)
    packed = deflated(zeros) if method == 8 else bz2.compress(zeros)
    bomb = archive_of(method, packed, zeros[:100])
    found = subprocess.run([sys.executable, "-c", MEASURED], input=bomb, capture_output=True, check=True)
    assert int(found.stdout) < 100  # MiB


def test_xml_has_bounds_of_its_own(word_file: bytes) -> None:
    body = b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>%s</w:body></w:document>'
    for data, message in [
        (changed(word_file, "word/document.xml", body % (b"<w:p/>" * 600_000)), "8 MiB or 500,000 tags"),
        (changed(word_file, "word/more.XML", b"<a>%s</a>" % (b" " * (9 << 20))), "8 MiB or 500,000 tags"),
        (changed(word_file, "word/more.xml", b'<?xml version="1.0" encoding="utf-7"?><a/>'), "not UTF-8"),
        (
            changed(word_file, "word/more.xml", '<?xml version="1.0" encoding="cp037"?><a/>'.encode("cp037")),
            "not UTF-8",
        ),
    ]:
        with pytest.raises(Refused, match=message):
            read_document("a.docx", data)
    picture = changed(word_file, "word/media/a.png", b"<" * 600_000)  # no XML, so XML's bounds are not its
    assert read_document("a.docx", picture).texts == read_document("a.docx", word_file).texts


def test_xml_under_another_name_is_refused(word_file: bytes) -> None:
    before = zipfile.ZipFile(io.BytesIO(word_file)).read("[Content_Types].xml")
    kind = b"application/vnd.openxmlformats-officedocument.wordprocessingml.header+xml"
    for more, is_refused in [
        (b'<Override PartName="/word/a.png" ContentType="%s"/>' % kind, True),
        (b'<Default Extension="bin" ContentType="%s"/>' % kind, True),
        (b'<Default Extension="bin" ContentType="image/header+xml"/>', True),
        (b'<Default Extension="svg" ContentType="image/svg+xml"/>', False),
    ]:
        data = changed(word_file, "[Content_Types].xml", before.replace(b"</Types>", more + b"</Types>"))
        if is_refused:
            with pytest.raises(Refused, match="another name"):
                read_document("a.docx", data)
        else:
            assert read_document("a.docx", data).texts


def test_what_is_like_a_document_but_of_another_kind_is_refused(word_file: bytes) -> None:
    before = zipfile.ZipFile(io.BytesIO(word_file)).read("[Content_Types].xml")
    for kind in (b"template.main+xml", b"document.macroEnabled.main+xml", b"sheet.main+xml"):
        data = changed(word_file, "[Content_Types].xml", before.replace(b"document.main+xml", kind))
        with pytest.raises(Refused, match="such as a template"):
            read_document("a.docx", data)


def test_the_text_of_a_document_is_estimated_before_it_is_unpacked() -> None:
    def packed(**parts: int) -> bytes:
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, size in parts.items():
                archive.writestr(name.replace("_", "."), b" " * size)
        return written.getvalue()

    assert unpacked_size("a.txt", b"1234") == 4
    assert unpacked_size("a.docx", packed(document_xml=4000, header_xml=400, image_png=50_000)) == 1100
    assert unpacked_size("A.DOCX", packed(document_xml=MOST_WORD_XML + 1)) == MOST_WORD_XML // 4  # no more is read
    assert unpacked_size("a.docx", b"no archive") == 10
