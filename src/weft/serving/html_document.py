"""Reads HTML: its texts are translated, and every tag stays as it is and in its order.

The page is cut into tags, comments and text without repairing it, so everything but text stays byte for byte. A
translation is escaped: no character of it can begin a tag. Code, scripts, styles and elements with translate="no" are
not translated.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from weft.serving.document_parts import Document, Inline, Original, Passed, Unclear, document_of
from weft.text.markup import BLOCK_NAMES, VOID

RAW = frozenset(
    ("script", "style", "xmp", "iframe", "noembed", "noframes", "noscript", "textarea", "title", "plaintext")
)
"""Elements whose content is text up to their own end tag."""
OPAQUE = RAW - {"title"} | {"template", "object", "svg", "math", "pre", "code", "kbd", "samp", "var"}
"""Elements whose content is not translated."""
UNSEEN = frozenset(("script", "style", "template", "svg", "iframe", "noembed", "noframes"))
"""Opaque elements without words that a reader of the page would miss."""
READ_AS_WORDS = frozenset(("code", "kbd", "samp", "var", "math", "svg", "img"))
"""Elements that act like a word of the sentence."""
READINGS = ("rt", "rp")
"""How a ruby is read. Their end tags may be left out, and then they are text."""
READING = re.compile(r"</?(?:rt|rp|ruby)(?=[\t\n\f\r />])", re.IGNORECASE)
FOREIGN = frozenset(("svg", "math"))
"""Elements of other languages than HTML, which may be self-closing: <svg/>."""
BLOCKS = re.compile(BLOCK_NAMES)
BESIDE = frozenset(
    ["input", "label", "iframe", "object", "embed", "video", "audio", "canvas", "progress", "meter", "pre", "xmp"]
)
"""Elements that end a sentence as blocks do, since they stand beside it."""


@dataclass(frozen=True)
class Slice:
    """A piece of the page: a tag with its name, text, or anything else, which stays unchanged."""

    raw: str
    kind: Literal["begin", "end", "text", "other"]
    name: str = ""
    is_opaque: bool = False
    """Whether the content up to the matching end tag is not translated."""
    is_closed: bool = True
    """Whether an opaque element has an end tag; browsers end some elements without one, and weft does not."""


def read_html(page: str) -> Document:
    return document_of(html_parts(page))


def html_parts(page: str) -> list[str | Inline]:
    """Cut a page, or a piece of one, into what stays and texts to translate."""
    parts: list[str | Inline] = []
    for run in runs_of(slices_of(page)):
        text = "".join(piece.raw for piece in run if piece.kind == "text").strip()
        if any(character.isalnum() for character in html.unescape(text)):
            parts.append(HtmlInline.of(items_of(run)))
        else:
            raw = "".join(piece.raw for piece in run)
            is_passed = any(piece.is_opaque and piece.name not in UNSEEN for piece in run)
            is_clear = all(piece.is_closed for piece in run)
            parts.append((Passed(raw) if is_passed else raw) if is_clear else Unclear(raw))
    return parts


class HtmlInline(Inline):
    def write(self, translation: str) -> str:
        """Return the translation with its own characters escaped, so that none of them can begin a tag."""
        return "".join(
            html.escape(item, quote=False) if isinstance(item, str) else item.text for item in self.restore(translation)
        )


SPACES = " \t\n\f\r"
"""Characters that HTML takes for one space, together; a no-break space stays one."""


def items_of(run: Sequence[Slice]) -> list[str | Original]:
    return [
        re.sub(f"[{SPACES}]+", " ", html.unescape(piece.raw))
        if piece.kind == "text"
        else Original(piece.raw, role_of(piece), piece.name)
        for piece in run
    ]


def role_of(piece: Slice) -> Literal["begin", "end", "word", "point"]:
    if piece.kind in ("begin", "end") and not piece.is_opaque and piece.name not in VOID:
        return piece.kind
    return "word" if piece.name in READ_AS_WORDS else "point"


def runs_of(slices: Sequence[Slice]) -> list[list[Slice]]:
    """Group pieces that are translated together: text with its tags between two blocks. Each block tag is alone."""
    runs: list[list[Slice]] = [[]]
    for piece in with_opaque_whole(slices):
        is_declaration = piece.raw.startswith(("<!", "<?")) and not is_comment(piece)
        if piece.name in BESIDE or BLOCKS.fullmatch(piece.name) is not None or is_declaration:
            runs += [[piece], []]
        elif piece.kind == "text":
            words = piece.raw.strip(SPACES)
            begin = piece.raw.index(words)
            cut = piece.raw[:begin], words, piece.raw[begin + len(words) :]
            runs[-1] += [Slice(raw, "text") for raw in cut if raw]
        else:
            runs[-1].append(piece)
    return [part for run in runs for part in without_comments_around(run) if part]


def without_comments_around(run: Sequence[Slice]) -> tuple[list[Slice], list[Slice], list[Slice]]:
    """Split a run into the comments and white space before its words, the words, and those after. A comment within a
    sentence belongs to its text."""
    matters = [index for index, piece in enumerate(run) if not (is_comment(piece) or piece.raw.isspace())]
    first, last = (matters[0], matters[-1] + 1) if matters else (len(run), len(run))
    return list(run[:first]), list(run[first:last]), list(run[last:])


def is_comment(piece: Slice) -> bool:
    return piece.raw.startswith("<!--")


def with_opaque_whole(slices: Sequence[Slice]) -> Iterator[Slice]:
    """Join the pieces of each opaque element into one, up to the end of the page if it is not closed."""
    each = iter(slices)
    for first in each:
        if not first.is_opaque:
            yield first
            continue
        inside, open_elements = [first.raw], 1
        while open_elements and (piece := next(each, None)) is not None:
            inside.append(piece.raw)
            if piece.name == first.name:
                open_elements += {"begin": 1, "end": -1}.get(piece.kind, 0)
        yield Slice("".join(inside), "other", first.name, True, not open_elements)


# Cut as the HTML standard cuts it (section 13.2.5, tokenization), in one pass however hostile the page

TAG_NAME = re.compile(r"</?([A-Za-z][^\t\n\f\r />]*)")
GAP = re.compile(r"[\t\n\f\r /]*")
ATTRIBUTE = re.compile(
    r"(?P<name>[^\t\n\f\r />][^\t\n\f\r />=]*)"
    r"(?:[\t\n\f\r ]*=[\t\n\f\r ]*(?P<value>\"[^\"]*\"|'[^']*'|[^\t\n\f\r >\"'][^\t\n\f\r >]*|(?=>)))?"
)
VALUE = re.compile(r"[\t\n\f\r ]*=")


def slices_of(page: str) -> list[Slice]:
    """Cut the page into pieces; joined, they are the page."""
    slices: list[Slice] = []
    begin = foreign = 0
    while begin < len(page):
        piece = slice_at(page, begin)
        begin += len(piece.raw)
        slices.append(piece)
        if piece.name in FOREIGN:
            foreign += {"begin": 1, "end": -1}.get(piece.kind, 0)
        is_empty = foreign > 0 and piece.raw.endswith("/>")  # <style/> in an <svg>
        if piece.kind == "begin" and piece.name in RAW and not is_empty:
            closing = re.compile(rf"</{piece.name}(?=[\t\n\f\r />])", re.IGNORECASE).search(page, begin)
            end = len(page) if closing is None or piece.name == "plaintext" else closing.start()
            slices.append(Slice(page[begin:end], "text" if piece.name == "title" else "other"))
            begin = end
    return [piece for piece in slices if piece.raw]


def slice_at(page: str, begin: int) -> Slice:
    """Return the piece that begins here; an unclosed one extends to the end of the page."""
    if page.startswith("<!--", begin):
        end = page.find("-->", begin + 2)  # also <!-->
        return Slice(page[begin : end + 3] if end >= 0 else page[begin:], "other")
    tag = TAG_NAME.match(page, begin)
    if tag is not None:
        return tag_at(page, begin, tag)
    if page.startswith(("<!", "<?", "</"), begin):
        end = page.find(">", begin)
        return Slice(page[begin : end + 1] if end >= 0 else page[begin:], "other")
    end = page.find("<", begin + 1)
    return Slice(page[begin:end] if end >= 0 else page[begin:], "text")


def tag_at(page: str, begin: int, opening: re.Match[str]) -> Slice:
    name, place = opening[1].lower(), opening.end()
    kind = "end" if page[begin + 1] == "/" else "begin"
    is_opaque = kind == "begin" and name in OPAQUE
    while True:
        gap = GAP.match(page, place)
        assert gap is not None  # it may be empty
        place = gap.end()
        if page.startswith(">", place):
            if name in READINGS and kind == "begin":
                following = READING.search(page, place)
                is_opaque = following is not None and following[0].lower() == f"</{name}"
            if name in FOREIGN and kind == "begin" and gap[0].endswith("/"):
                return Slice(page[begin : place + 1], "other", name)  # in HTML's own elements the slash means nothing
            return Slice(page[begin : place + 1], kind, name, is_opaque)
        attribute = ATTRIBUTE.match(page, place)
        if attribute is None or (attribute["value"] is None and VALUE.match(page, attribute.end())):
            return Slice(page[begin:], "other")  # a quotation mark that is not closed
        value = (attribute["value"] or "").strip("\"'").lower()
        says_no = (attribute["name"].lower(), value) == ("translate", "no")
        is_opaque = is_opaque or (kind == "begin" and says_no and name not in VOID)
        place = attribute.end()
