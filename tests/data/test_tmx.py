"""TMX files: what the standard allows is read, what it does not is named by line, and nothing that is hostile works."""

import gzip
import tracemalloc
from pathlib import Path

import pytest

from weft.data import tmx
from weft.data.pair_files import Reading
from weft.data.tmx import is_of, read_tmx
from weft.errors import CorpusError

# The shape of the example in the standard: a DOCTYPE, header notes and properties, languages by region, inline codes.
STANDARD = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
 <header creationtool="a" creationtoolversion="1" datatype="plaintext" segtype="sentence" adminlang="en-us"
  srclang="EN" o-tmf="b"><note>A note.</note><prop type="x">y</prop></header>
 <body>
  <tu tuid="1" usagecount="2"><note>About it</note><prop type="client">c</prop>
   <tuv xml:lang="EN-US" creationdate="19970212T153400Z"><seg>data &amp; <hi type="term">files</hi></seg></tuv>
   <tuv xml:lang="zh_CN"><seg>数据和文件</seg></tuv>
   <tuv xml:lang="FR-CA"><seg>données</seg></tuv>
  </tu>
  <tu tuid="2" srclang="*all*">
   <tuv lang="en"><seg>A <bpt i="1">&lt;b&gt;</bpt>bold<ept i="1">&lt;/b&gt;</ept> word<ph x="2">{0}</ph>.</seg></tuv>
   <tuv xml:lang="zh"><seg>一个<bpt i="1">&lt;b&gt;</bpt>粗体<ept i="1">&lt;/b&gt;</ept>词。</seg></tuv>
   <tuv xml:lang="zh-TW"><seg>一個粗體詞。</seg></tuv>
  </tu>
  <tu><tuv xml:lang="fr"><seg>seul</seg></tuv><tuv xml:lang="en"><seg>alone</seg></tuv></tu>
 </body>
</tmx>
"""


def read(path: Path, languages: tuple[str, str] = ("zh", "en")) -> list[tuple[int, str, str]]:
    reading = Reading(path.name)
    rows = [(line, source, target) for line, source, (target,) in read_tmx(path, languages, reading)]
    reading.raise_problems()
    return rows


def written(folder: Path, text: str | bytes, name: str = "memory.tmx") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def unit(first: str, second: str) -> str:
    return f'<tu><tuv xml:lang="zh">{first}</tuv><tuv xml:lang="en">{second}</tuv></tu>\n'


def around(units: str, before: str = "") -> str:
    return f'{before}<tmx version="1.4"><header/><body>\n{units}</body></tmx>'


def test_a_file_as_the_standard_shows_one_is_read_whole(tmp_path: Path) -> None:
    expected = [
        (7, "数据和文件", "data & files"),
        (12, "一个粗体词。", "A bold word."),
        (12, "一個粗體詞。", "A bold word."),
    ]
    assert read(written(tmp_path, STANDARD)) == expected
    assert read(written(tmp_path, STANDARD), ("en", "zh")) == [(line, en, zh) for line, zh, en in expected]
    assert read(written(tmp_path, gzip.compress(STANDARD.encode()), "memory.tmx.gz")) == expected
    utf_16 = STANDARD.replace("UTF-8", "UTF-16").encode("utf-16")
    assert read(written(tmp_path, utf_16)) == expected


@pytest.mark.parametrize(
    ("code", "language", "names"),
    [
        *(("zh-CN", "zh", True), ("EN_us", "en", True), ("zh", "zh-CN", False), ("zhx", "zh", False)),
        *(("", "zh", False), ("cmn-Hans", "zh", True), ("eng", "en", True), ("zh", "cmn", True)),
        ("cmn", "zh-CN", False),
    ],
)
def test_a_region_is_a_form_of_its_language_by_any_of_its_codes(code: str, language: str, names: bool) -> None:
    assert is_of(code, language) is names


def test_a_file_of_any_size_is_read_unit_by_unit(tmp_path: Path) -> None:
    path = written(tmp_path, around(unit(f"<seg>{'一' * 500}</seg>", f"<seg>{'one ' * 300}</seg>") * 2000))
    tracemalloc.start()
    assert sum(1 for _ in read_tmx(path, ("zh", "en"), Reading(path.name))) == 2000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20 < path.stat().st_size / 4


TERMS = {
    "first": "<martif><text><body><termEntry>{}</termEntry></body></text></martif>",
    "third": '<tbx style="dca"><text><body><conceptEntry id="c">{}</conceptEntry></body></text></tbx>',
}
SETS = {
    "first": '<langSet xml:lang="{}"><descrip type="definition">fruit</descrip><tig><term>{}</term></tig></langSet>',
    "third": '<langSec xml:lang="{}"><termSec><term>{}</term><termNote>noun</termNote></termSec></langSec>',
}


@pytest.mark.parametrize("version", TERMS)
def test_both_versions_of_a_term_base_are_read(tmp_path: Path, version: str) -> None:
    sets = "".join(SETS[version].format(*pair) for pair in (("zh-CN", "苹果"), ("en", "apple"), ("de", "Apfel")))
    path = written(tmp_path, TERMS[version].format(sets), "terms.tbx")
    assert [(zh, en) for _, zh, en in read(path)] == [("苹果", "apple")]
    assert [(de, zh) for _, de, zh in read(path, ("de", "zh"))] == [("Apfel", "苹果")]


# What is wrong


def test_every_unit_that_is_wrong_is_named_by_its_line(tmp_path: Path) -> None:
    units = (
        unit("<seg>一</seg>", "<seg>one</seg>")
        + unit("<seg> </seg>", "<seg>two</seg>")  # who reads it decides about empty sides
        + '<tu><tuv><seg>三</seg></tuv><tuv xml:lang="en"><seg>three</seg></tuv></tu>\n'
        + unit("<seg>四</seg>", "<seg><ph>x</ph></seg>")
        + unit("<seg>五</seg>", "<prop>five</prop>")
    )
    with pytest.raises(CorpusError) as raised:
        read(written(tmp_path, around(units)))
    assert [problem.where for problem in raised.value.problems] == ["line 4", "line 6"]
    assert "a <tuv> has no text" in str(raised.value) and "add xml:lang" in str(raised.value)


def test_a_variant_that_is_the_other_language_does_not_translate_itself(tmp_path: Path) -> None:
    texts = "<tuv xml:lang='zh-CN'><seg>软件</seg></tuv><tuv xml:lang='zh-TW'><seg>軟體</seg></tuv>"
    file = written(tmp_path, around(f"<tu>{texts}</tu>"))
    assert read(file, ("zh", "zh-TW")) == [(2, "软件", "軟體")] and read(file, ("zh-TW", "zh")) == [(2, "軟體", "软件")]


def test_a_unit_of_many_texts_makes_no_more_pairs_than_somebody_would_mean(tmp_path: Path) -> None:
    def of(sources: int, targets: int) -> str:
        texts = "<tuv xml:lang='zh'><seg>一</seg></tuv>" * sources + "<tuv xml:lang='en'><seg>x</seg></tuv>" * targets
        return f"<tu>{texts}</tu>\n"

    assert len(read(written(tmp_path, around(of(4, 25) + of(1, 100))))) == 200
    with pytest.raises(CorpusError) as raised:
        read(written(tmp_path, around(of(1, 1) + of(101, 1) + of(1000, 2000))))
    assert [(problem.where, problem.what.partition(";")[0]) for problem in raised.value.problems] == [
        ("line 3", "a unit has 101 in zh and 1 in en, which makes 101 pairs"),
        ("line 4", "a unit has 1,000 in zh and 2,000 in en, which makes 2,000,000 pairs"),
    ]


def test_a_text_that_needs_an_entity_of_another_file_is_refused_and_not_shortened(tmp_path: Path) -> None:
    units = unit("<seg>一</seg>", "<seg>one</seg>") + unit("<seg>咖啡</seg>", "<seg>caf&eacute;</seg>")
    with pytest.raises(CorpusError, match=r"line 3 +uses the entity '&eacute;'.*replace it with its text"):
        read(written(tmp_path, around(units, '<!DOCTYPE tmx SYSTEM "tmx14.dtd">')))


def test_a_file_without_the_two_languages_says_which_it_has(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"no unit has both de and en; the file has EN-US, zh_CN, FR-CA"):
        read(written(tmp_path, STANDARD), ("de", "en"))
    with pytest.raises(CorpusError, match="the file has no <tuv>"):
        read(written(tmp_path, around("")))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1 +is not XML: no element found"),
        ("zh\ten\n", "line 1 +is not XML"),
        ("<html><body/></html>", r"line 1 +starts with <html>; a translation memory starts with <tmx>"),
        (around("<tu><tuv></tu>"), "line 2 +is not XML: mismatched tag"),
        (around("<tu>")[:40], "is not XML"),
        (around("&unknown;"), "line 2 +is not XML: undefined entity"),
        (b"<tmx>\xff\xfe</tmx>", "is not XML: not well-formed"),
        (around("<x>" * 40 + "</x>" * 40), "more than 32 nested elements"),
        (around("<tu><tu></tu></tu>"), "line 2 +has a <tu> inside a <tu>"),
    ],
)
def test_what_is_no_tmx_is_one_clear_error(tmp_path: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(CorpusError, match=says):
        read(written(tmp_path, text))


# What is hostile

LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
BOMB = f'<!DOCTYPE tmx [<!ENTITY l0 "ha">{LAUGHS}]>'
REACHING_OUT = '<!DOCTYPE tmx [<!ENTITY file SYSTEM "secret.txt">]>'
BY_PARAMETER = '<!DOCTYPE tmx [<!ENTITY % more SYSTEM "more.dtd"> %more;]>'


@pytest.mark.parametrize("before", [BOMB, REACHING_OUT, BY_PARAMETER], ids=["bomb", "file", "parameter"])
def test_a_file_that_declares_an_entity_is_refused_before_it_is_used(tmp_path: Path, before: str) -> None:
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    (tmp_path / "more.dtd").write_text("<!ENTITY x 'y'>", encoding="utf-8")
    name = {BOMB: "l11", REACHING_OUT: "file", BY_PARAMETER: "amp"}[before]
    path = written(tmp_path, around(unit(f"<seg>&{name};</seg>", "<seg>x</seg>"), before))
    tracemalloc.start()
    with pytest.raises(CorpusError, match=r"line 1 +declares the entity '(l0|file|more)'.*remove it"):
        read(path)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_a_text_or_a_file_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = around(unit(f"<seg>{'一' * 100_001}</seg>", "<seg>x</seg>"))
    with pytest.raises(CorpusError, match="a text has more than 100,000 characters"):
        read(written(tmp_path, long))
    monkeypatch.setattr(tmx, "LARGEST", 2**17)
    zipped = gzip.compress(around(" " * 2**18).encode())
    assert len(zipped) < 2**11
    with pytest.raises(CorpusError, match="more than 131,072 bytes"):
        read(written(tmp_path, zipped, "bomb.tmx.gz"))
