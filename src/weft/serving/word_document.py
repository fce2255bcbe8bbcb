"""Reads Word documents (.docx): their paragraphs are texts to translate, and their formats are kept.

Words of a paragraph with the same format are a span. Spans pass through translation as markup does, so bold words are
bold again, and runs move with their words. In paragraphs with more than words and links, such as fields, bookmarks or
tracked changes, every run keeps its place. What Word computes, such as the number of a page, acts like a word of the
sentence and is not translated. A line break or a tab ends a text, as <br> does in HTML. Headers, footers, tables, text
boxes, comments, footnotes and endnotes are translated like the body.

The XML is read by lxml and not by python-docx, which unpacks all pictures into memory, writes parts anew that were not
changed, has no bounds against hostile archives (word_archive.py), and does not reach text boxes and footnotes.
"""

import copy
import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import lxml.etree as etree

from weft.serving.document_parts import Document, Inline, Original
from weft.serving.refusals import Refused
from weft.serving.word_archive import MOST_BYTES, W, refuse_hostile, stories_of, with_stories

SPACE = "{http://www.w3.org/XML/1998/namespace}space"
BREAKS = (f"{W}br", f"{W}cr", f"{W}tab", f"{W}ptab")
PARTING = (
    *(f"{W}{name}" for name in ("drawing", "footnoteReference", "endnoteReference", "sym", "object")),
    "{http://schemas.openxmlformats.org/officeDocument/2006/math}oMath",
)
"""Elements that separate spans of the same format."""
RUN, LINK = f"{W}r", f"{W}hyperlink"
FIELD, FIELD_CODE, SIMPLE_FIELD = f"{W}fldChar", f"{W}instrText", f"{W}fldSimple"
FIELDS_OF_WORDS = ("HYPERLINK", "TOC", "INDEX", "QUOTE", "FORMTEXT", "MACROBUTTON", "IF")
"""Fields that show words; what the others show is computed."""
IN_RUNS = (f"{W}rPr", f"{W}t", f"{W}lastRenderedPageBreak")
"""Elements of a run that may move."""
BETWEEN_RUNS = (f"{W}proofErr",)
"""Elements between runs that may move."""
LONGEST_FORMAT = 4096
"""Longest format, in bytes of XML, that is copied for every stretch of words."""


@dataclass(frozen=True)
class Format:
    """The format of a run, by the digest of its XML: the same XML may occur thousands of times."""

    digest: bytes
    size: int
    """Bytes of XML."""


@dataclass(frozen=True)
class Span:
    """Consecutive words of the same format."""

    format: Format
    texts: list[Any]
    """The elements with the words."""
    is_computed: bool = False
    """Whether it is what a field shows, which is not translated."""


@dataclass(frozen=True)
class Paragraph:
    """A paragraph, or the part of one between two breaks."""

    spans: Sequence[Span]
    inline: Inline
    carriers: Sequence[Sequence[Any]] | None = None
    """For each span the runs or the link that hold it, if they may move. Spans without placeholders have the most
    frequent format."""


def read_word(data: bytes) -> Document:
    """Read a document. Raises Refused if it is not one, or a hostile one."""
    refuse_hostile(data)
    try:
        stories = stories_of(data)
    except etree.XMLSyntaxError as error:
        raise Refused(400, f"not a readable Word document: {type(error).__name__}") from None
    if any(not root.tag.startswith(W) for root in stories.values()):
        raise Refused(400, "the document is Strict Open XML; save it as an ordinary .docx")
    paragraphs = [paragraph for root in stories.values() for paragraph in paragraphs_of(root)]

    def write(translations: Sequence[str]) -> bytes:
        for paragraph, translation in zip(paragraphs, translations, strict=True):
            fill(paragraph, translation)
        return with_stories(data, stories)

    passed = sum(span.is_computed for paragraph in paragraphs for span in paragraph.spans)
    return Document([paragraph.inline.text for paragraph in paragraphs], write, passed)


def paragraphs_of(root: Any) -> Iterator[Paragraph]:
    """Yield the texts between breaks of all paragraphs with words."""
    for spans in spans_of(root):
        words = ["".join(text.text or "" for text in span.texts) for span in spans]
        own = (word for span, word in zip(spans, words, strict=True) if not span.is_computed)
        if not any(character.isalnum() for character in "".join(own)):
            continue
        if len(spans) == 1:
            yield Paragraph(spans, Inline(words[0], {}))
            continue
        computed = {number for number, span in enumerate(spans) if span.is_computed}
        carriers = None if computed else carriers_of(spans)
        usual = in_usual_format(spans, words, carriers) if carriers is not None else None
        if usual is None:
            yield Paragraph(spans, Inline.of(items_of(words, computed=computed), keeps_order=True))
        else:
            yield Paragraph(spans, Inline.of(items_of(words, usual)), carriers)


def items_of(words: Sequence[str], bare: Collection[int] = (), computed: Collection[int] = ()) -> list[str | Original]:
    """Put the words of each span between a begin and an end with its number, except for the `bare` ones. What is
    computed is a word of its own."""
    items: list[str | Original] = []
    for number, word in enumerate(words):
        begin, end = Original(str(number), "begin"), Original(str(number), "end")
        if number in computed:
            items.append(Original(str(number), "word"))
        else:
            items += [word] if number in bare else [begin, word, end]
    return items


def carriers_of(spans: Sequence[Span]) -> list[list[Any]] | None:
    """Return for each span the runs, or the link, that hold it. None if something else in or between them has its
    place among the words."""
    holds_words: dict[Any, bool] = {}
    found: list[list[Any]] = []
    for span in spans:
        carriers: dict[Any, None] = {}
        for text in span.texts:
            run = text.getparent()
            if run.tag != RUN or run.getparent() is None:
                return None
            carrier = run.getparent() if run.getparent().tag == LINK else run
            if carrier not in holds_words:
                runs = list(carrier) if carrier.tag == LINK else [carrier]
                holds_words[carrier] = all(one.tag == RUN and all(part.tag in IN_RUNS for part in one) for one in runs)
            if not holds_words[carrier]:
                return None
            carriers[carrier] = None
        found.append(list(carriers))
    every = list(chain(*found))
    return found if len(set(every)) == len(every) and are_together(every) else None


def are_together(carriers: Sequence[Any]) -> bool:
    """Whether these elements are consecutive in one paragraph."""
    if any(carrier.getparent() is None or carrier.getparent().tag != f"{W}p" for carrier in carriers):
        return False
    waiting = iter([*carriers[1:], None])
    expected = next(waiting)
    for element in carriers[0].itersiblings():
        if expected is None:
            break
        if element is expected:
            expected = next(waiting)
        elif element.tag not in BETWEEN_RUNS:
            return False
    return expected is None


def in_usual_format(spans: Sequence[Span], words: Sequence[str], carriers: Sequence[Sequence[Any]]) -> set[int] | None:
    """Return the spans of the most frequent format outside links; None if all are links, or the format is too long to
    be copied often."""
    formats = {number: spans[number].format for number, of_span in enumerate(carriers) if of_span[0].tag == RUN}
    lengths: Counter[Format] = Counter()
    for number, one in formats.items():
        lengths[one] += len(words[number])
    usual = max(lengths, key=lambda one: lengths[one], default=None)
    if usual is None or usual.size > LONGEST_FORMAT:
        return None
    return {number for number, one in formats.items() if one == usual}


@dataclass
class Pieces:
    """The spans of each text of a paragraph that is being read."""

    texts: list[list[Span]] = field(default_factory=lambda: [[]])
    last: tuple[Any, Format] | None = None
    """The parent and the format of the last words, if the next ones may join them."""

    def part(self) -> None:
        self.last = None
        self.texts.append([])

    def add(self, element: Any, here: tuple[Any, Format], *, is_computed: bool) -> None:
        if here != self.last or self.texts[-1][-1].is_computed != is_computed:
            self.texts[-1].append(Span(here[1], [], is_computed))
        self.last = here
        self.texts[-1][-1].texts.append(element)


@dataclass
class Fields:
    """The fields around the element that is being read, which may reach over several paragraphs."""

    codes: list[str] = field(default_factory=list)
    """The codes of open fields, such as PAGE; of the innermost last."""
    computed: list[bool] = field(default_factory=list)
    """Whether what is being read is shown by this field, and computed."""
    depth: int = 0
    """How many of these are True."""

    def read(self, element: Any, event: str) -> None:
        """Read an element that begins or ends a field, or a part of its code."""
        kind = element.get(f"{W}fldCharType")
        is_simple = element.tag == SIMPLE_FIELD
        if event == "end" and not is_simple:
            return
        if kind == "begin" or (is_simple and event == "start"):
            self.codes.append(element.get(f"{W}instr") or "")
            self.computed.append(False)
        if not self.codes:
            return
        if kind == "separate" or (is_simple and event == "start"):
            name = self.codes[-1].split(maxsplit=1)[:1]
            self.computed[-1] = bool(name) and name[0].upper() not in FIELDS_OF_WORDS
            self.depth += self.computed[-1]
        elif kind == "end" or is_simple:
            self.codes.pop()
            self.depth -= self.computed.pop()
        elif element.tag == FIELD_CODE:
            self.codes[-1] += element.text or ""


def spans_of(root: Any) -> Iterator[list[Span]]:
    """Yield the spans of each text of all paragraphs, which may be nested, in one pass."""
    every: list[Pieces] = []
    opened: list[Pieces] = []
    formats: dict[Any, Format] = {}  # by run
    size = 0
    fields = Fields()
    for hyphen in [*root.iter(f"{W}noBreakHyphen")]:  # as text it stays within its number or word
        if nearest(hyphen, "del") is None:
            hyphen.tag, hyphen.text = f"{W}t", "-"
    tags = (f"{W}p", f"{W}t", FIELD, FIELD_CODE, SIMPLE_FIELD, *BREAKS, *PARTING)
    for event, element in etree.iterwalk(root, events=("start", "end"), tag=tags):
        if element.tag == f"{W}p":
            if event == "end":
                opened.pop()
                continue
            opened.append(Pieces())
            every.append(opened[-1])
        elif element.tag in (FIELD, FIELD_CODE, SIMPLE_FIELD):
            fields.read(element, event)
        elif event == "end" or not opened or nearest(element, "rt") is not None:  # how a ruby is read is not its text
            continue
        elif element.tag in BREAKS:
            opened[-1].part()
        elif element.tag in PARTING:
            opened[-1].last = None
        else:
            run = nearest(element, "r")
            if run not in formats:
                formats[run] = format_of(run)
                size += formats[run].size
                if size > MOST_BYTES:  # each repeats its namespaces
                    raise Refused(400, f"the formats of the document take more than {MOST_BYTES >> 20} MiB")
            here = (run.getparent() if run is not None else None, formats[run])
            opened[-1].add(element, here, is_computed=fields.depth > 0)
    for pieces in every:
        yield from pieces.texts


def nearest(element: Any, name: str) -> Any:
    return next((one for one in element.iterancestors(f"{W}{name}")), None)


def format_of(run: Any) -> Format:
    properties = None if run is None else run.find(f"{W}rPr")
    try:
        xml = b"" if properties is None else etree.tostring(properties, method="c14n", exclusive=True)
    except etree.C14NError:
        raise Refused(400, "the document has a namespace whose name is not a URI") from None
    return Format(hashlib.sha256(xml).digest(), len(xml))


def fill(paragraph: Paragraph, translation: str) -> None:
    """Replace the words of a paragraph by their translation. Characters between two spans, such as a space, join the
    span before; those after what is computed join the span after it, if there is one."""
    if len(paragraph.spans) == 1:
        put(paragraph.spans[0].texts, translation)
        return
    if paragraph.carriers is not None:
        fill_in_order(paragraph, paragraph.carriers, translation)
        return
    own = [number for number, span in enumerate(paragraph.spans) if not span.is_computed]
    words = dict.fromkeys(own, "")
    current = own[0]
    for item in paragraph.inline.restore(translation):
        if isinstance(item, Original):
            place = int(item.text)
            current = next((number for number in own if number >= place), own[-1])
        else:
            words[current] += item
    for number, word in words.items():
        put(paragraph.spans[number].texts, word)


def fill_in_order(paragraph: Paragraph, carriers: Sequence[Sequence[Any]], translation: str) -> None:
    """Order the spans as in the translation, with the words between them in runs of the most frequent format."""
    marked = {int(original.text) for original in paragraph.inline.originals.values()}
    usual = next(of_span[0] for number, of_span in enumerate(carriers) if number not in marked).find(f"{W}rPr")
    words = dict.fromkeys(marked, "")
    ordered: list[Any] = []
    current = None
    for item in paragraph.inline.restore(translation):
        if isinstance(item, Original):
            current = int(item.text) if item.kind == "begin" else None
            ordered += carriers[int(item.text)] if item.kind == "begin" else []
        elif current is not None:
            words[current] += item
        elif item:
            ordered.append(run_of(carriers[0][0], usual, item))
    place = carriers[0][0].makeelement(RUN)
    carriers[0][0].addprevious(place)
    for carrier in chain(*carriers):
        carrier.getparent().remove(carrier)
    for number, text in words.items():
        put(paragraph.spans[number].texts, text)
    for carrier in ordered:
        place.addprevious(carrier)
    place.getparent().remove(place)


def run_of(other: Any, properties: Any, text: str) -> Any:
    """Make a run with this text, in the document of `other`, with a copy of these properties if any."""
    run, words = other.makeelement(RUN), other.makeelement(f"{W}t")
    run.extend([words] if properties is None else [copy.deepcopy(properties), words])
    put([words], text)
    return run


def put(texts: Sequence[Any], text: str) -> None:
    """Write the text into the first of these elements and empty the others."""
    first, *others = texts
    first.text = text
    first.set(SPACE, "preserve")
    for other in others:
        other.text = ""
