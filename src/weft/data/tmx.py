"""Read TMX 1.4, the exchange format of translation memories, and TBX, that of term bases (ISO 30042, both versions).

    <tmx version="1.4"><header srclang="zh" .../><body>
      <tu><tuv xml:lang="zh"><seg>你好。</seg></tuv><tuv xml:lang="en"><seg>Hello.</seg></tuv></tu>
    </body></tmx>
    <tbx><text><body><conceptEntry>
      <langSec xml:lang="zh"><termSec><term>苹果</term></termSec></langSec> <langSec xml:lang="en"> ...
    </conceptEntry></body></text></tbx>

The files are untrusted. The parser reads no other file, expands only the five entities of XML, and keeps one unit in
memory at a time. File size, nesting depth and text length are bounded.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from weft.data.pair_files import Reading, Row
from weft.files import open_bytes, reporting_read_errors
from weft.text.language import code_of, in_one_spelling

LARGEST = 2**30
"""Bytes of a file, unzipped."""
DEEPEST = 32
"""Nested elements; TMX has about ten levels."""
LONGEST = 100_000
"""Characters of one text."""
MOST_PAIRS = 100
"""Most pairs of one unit, which pairs each of its texts in one language with each in the other."""
READ_AT_ONCE = 2**16

CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})
"""Elements that hold markup of another format instead of text."""
UNITS = frozenset({"tu", "termEntry", "conceptEntry"})
VARIANTS = frozenset({"tuv", "langSet", "langSec"})
TEXTS = frozenset({"seg", "term"})
"""The elements of a unit, of one language in it, and of a text, as TMX and both versions of TBX name them."""
ROOTS = frozenset({"tmx", "martif", "tbx"})


def read_tmx(path: Path, languages: tuple[str, str], reading: Reading) -> Iterator[Row]:
    """Yield the pairs of a TMX or TBX file (.gz too) with the first line of their unit; problems go to `reading`.

    A unit with several texts in a language gives every combination. A unit that lacks one of the languages is skipped;
    it is a problem if all do. Raises CorpusError at once for a file that is not XML, declares or needs entities, or
    exceeds the bounds.
    """
    units = Units(languages, reading)
    size = 0
    with reporting_read_errors(path), open_bytes(path) as file:
        while data := file.read(READ_AT_ONCE):
            size += len(data)
            if size > LARGEST:
                units.refuse(f"the file has more than {LARGEST:,} bytes; split it")
            yield from units.feed(data)
            if reading.has_enough:
                return
    yield from units.feed(b"", is_last=True)
    units.note_absent_languages()


class Units:
    """Parses the bytes of a file piece by piece, and returns the pairs of the units that each piece completes."""

    def __init__(self, languages: tuple[str, str], reading: Reading) -> None:
        self.languages, self.reading = languages, reading
        self.open: list[str] = []
        """The elements that enclose the current position."""
        self.unit: list[tuple[str, str]] | None = None
        """The (language, text) pairs of the <tu> that is being read, and its first line."""
        self.unit_line = 0
        self.language = ""
        self.has_segment = False
        self.segment: list[str] | None = None
        self.in_codes = 0
        self.length = 0
        self.found: list[Row] = []
        self.has_pairs = False
        self.seen: dict[str, None] = {}
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.EntityDeclHandler = self._refuse_entities
        self.parser.UnparsedEntityDeclHandler = self._refuse_entities
        self.parser.SkippedEntityHandler = self._refuse_unknown_entity

    def feed(self, data: bytes, *, is_last: bool = False) -> list[Row]:
        try:
            self.parser.Parse(data, is_last)
        except expat.ExpatError as error:
            self.refuse(f"is not XML: {expat.errors.messages[error.code]}", error.lineno)
        except (LookupError, ValueError) as error:
            if self.open or self.seen:
                raise
            # No element has been read yet, so the error concerns the encoding named in the first line.
            self.refuse(f"cannot be read: {error}; save it in UTF-8")
        found, self.found = self.found, []
        return found

    def note_absent_languages(self) -> None:
        if self.has_pairs or self.reading.problems:
            return
        there = f"the file has {', '.join(self.seen)[:200]}" if self.seen else "the file has no <tuv> or <langSet>"
        self.reading.add(1, f"no unit has both {self.languages[0]} and {self.languages[1]}; {there}")

    def refuse(self, what: str, line: int | None = None) -> NoReturn:
        self.reading.refuse(self.parser.CurrentLineNumber if line is None else line, what)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.open.append(name)
        if len(self.open) > DEEPEST:
            self.refuse(f"has more than {DEEPEST} nested elements; this is not TMX or TBX")
        if len(self.open) == 1 and name not in ROOTS:
            self.refuse(f"starts with <{name[:40]}>; a translation memory starts with <tmx>, a term base with <tbx>")
        if name in UNITS:
            if self.unit is not None:
                self.refuse(f"has a <{name}> inside a <{name}>; close the first one")
            self.unit, self.unit_line = [], self.parser.CurrentLineNumber
        elif name in VARIANTS:
            self.language = attributes.get("xml:lang", attributes.get("lang", ""))
            self.seen[self.language] = None
            self.has_segment = False
            if not self.language:
                self.reading.add(self.parser.CurrentLineNumber, f"a <{name}> does not say its language; add xml:lang")
        elif name in TEXTS:
            self.segment, self.length = [], 0
        self.in_codes += name in CODES

    def _text(self, text: str) -> None:
        if self.segment is None or self.in_codes:
            return
        self.length += len(text)
        if self.length > LONGEST:
            self.refuse(f"a text has more than {LONGEST:,} characters; split it")
        self.segment.append(text)

    def _end(self, name: str) -> None:
        self.open.pop()
        self.in_codes -= name in CODES
        if name in TEXTS and self.segment is not None:
            if self.unit is not None and self.language:
                self.unit.append((self.language, "".join(self.segment)))
            self.segment, self.has_segment = None, True
        elif name in VARIANTS:
            if not self.has_segment:
                self.reading.add(
                    self.parser.CurrentLineNumber, f"a <{name}> has no text; add it or remove the <{name}>"
                )
            self.language = ""
        elif name in UNITS and self.unit is not None:
            self._pair(self.unit)
            self.unit = None

    def _pair(self, unit: list[tuple[str, str]]) -> None:
        first, second = map(in_one_spelling, self.languages)
        others = (second, first) if first != second else ("", "")  # zh-TW is no variant of zh where it is the other one
        sides = [
            [text for code, text in unit if is_of(code, language) and in_one_spelling(code) != other]
            for language, other in zip(self.languages, others, strict=True)
        ]
        if not all(sides):
            return
        self.has_pairs = True
        if (pairs := len(sides[0]) * len(sides[1])) > MOST_PAIRS:
            counts = " and ".join(f"{len(side):,} in {code}" for side, code in zip(sides, self.languages, strict=True))
            what = (
                f"a unit has {counts}, which makes {pairs:,} pairs; split it into units of at most {MOST_PAIRS} pairs"
            )
            self.reading.add(self.unit_line, what)
            return
        self.found += [(self.unit_line, source, (target,)) for source in sides[0] for target in sides[1]]

    def _refuse_entities(self, name: str, *_: object) -> None:
        self.refuse(f"declares the entity {name[:40]!r}, which no such file needs; remove it")

    def _refuse_unknown_entity(self, name: str, is_parameter: int) -> None:
        """Refuse an entity declared in another file: that file is not read, so the text would be missing."""
        if not is_parameter:
            self.refuse(f"uses the entity '&{name[:40]};', which the file does not declare; replace it with its text")


def is_of(code: str, language: str) -> bool:
    """Whether a code such as zh-CN or EN_us names the language or a variant of it."""
    asked, given = map(in_one_spelling, (language, code))
    return given == asked or given.startswith(f"{asked}-") or (asked.isalpha() and code_of(given) == code_of(asked))
