"""Markdown as texts to translate and the same Markdown again.

Code, link targets, escaped signs and front matter stay, and so do the marks of headings, lists, quotations, tables and
emphasis, and what indents a block: it says to which item of a list the block belongs. The lines of a paragraph are one
text, and one line again. A link whose label is its target gets that as a target of its own, since the label is
translated.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeGuard

from weft.serving.documents import Document, Hole, Inline, Original, around, lines_of, with_holes
from weft.text.chinese import HAN
from weft.text.japanese import KANA
from weft.text.markup import TAG_OR_COMMENT

QUOTES = re.compile(r"(?:\s{0,3}>\s?)*")
ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])(?:\s{1,4}(?!\s)|\s|$)")
"""The mark of an item of a list, and what stands between it and its text."""
NOTE = r"\[\^[^\[\]\s]+\]"
BEFORE = re.compile(
    r"(?:\s*(?:(?P<heading>#{1,6})(?:\s+|$)|>\s?|[-*+](?:\s+|$)(?:\[[ xX]\]\s+)?|\d{1,9}[.)](?:\s+|$)"
    rf"|(?P<note>{NOTE}:)))*\s*"
)
"""What of a block comes before its text."""
BEHIND_HEADING = re.compile(r"(?:^|(?<=\s))#+\s*$")
FENCE = re.compile(r"(`{3,})[^`]*$|~{3,}")
HTML_BLOCK = re.compile(
    r" {0,3}(?:<(?P<tag>pre|script|style|textarea)(?=[\s>]|$)"
    r"|(?P<comment><!--)|(?P<instruction><\?)|(?P<data><!\[CDATA\[))",
    re.IGNORECASE,
)
"""What begins HTML that is not read as Markdown (CommonMark 0.31, section 4.6, kinds 1 to 3 and 5)."""
ENDS_OF_HTML = {"tag": "</{}>", "comment": "-->", "instruction": "?>", "data": "]]>"}
RULE = re.compile(r"\s*(?:[-=*_|:+]\s*){2,}")
"""Rules, and lines between the head and the body of a table."""
TITLE = r"(?:\"[^\"]*\"|'[^']*'|\([^()]*\))"
DEFINITION = re.compile(rf"\s*\[(?!\^)(?P<label>[^\[\]]+)\]:\s*(?:<[^<>]*>|[^\s<]\S*)(?:\s+{TITLE})?\s*")
"""Of the target of links."""
BELOW_HEAD = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)+\|?\s*|\s*\|\s*:?-+:?\s*\|\s*")
"""The line between the head and the body of a table."""
WITHIN_CHINESE = re.compile(r"(?<=[{0}])\n(?=[{0}])".format(f"{HAN}{KANA}・゠\u3001-\u303f\uff01-\uff60"))
"""The end of a line where no space belongs."""
FRONT_MATTER = ("---", "+++")
UNDERLINE_OR_RULE = re.compile(r"\s*(?:(?:=+|-+)\s*|(?:\*\s*){3,}|(?:_\s*){3,})")
"""What ends a paragraph that goes on."""
BORDER = re.compile(r"(?<!\\)\|")
CODE_INDENT = 4
"""Columns further than the block that it stands in, where no paragraph goes on."""


def read_markdown(text: str) -> Document:
    lines = lines_of(text)
    rows = rows_of_tables([without_quotes(line) for line, _ in lines])
    reader = Reader()
    fence = lines[0][0].strip() if lines else ""
    if fence in FRONT_MATTER and any(closes(line, fence) for line, _ in lines[1:]):
        reader.closing = fence
    for number, (line, end) in enumerate(lines):
        if not reader.goes_on_with_code(line, end, is_first=number == 0):
            reader.read(line, end, is_row=number in rows)
    reader.finish()
    return with_holes([inline_of(part[0], reader.labels) if isinstance(part, tuple) else part for part in reader.parts])


def without_quotes(line: str) -> str:
    quotes = QUOTES.match(line)
    return line[quotes.end() :] if quotes else line


def rows_of_tables(lines: Sequence[str]) -> set[int]:
    """The lines of tables: the one above each line of dashes, and those below up to an empty one."""
    rows: set[int] = set()
    for number, line in enumerate(lines):
        if number and BELOW_HEAD.fullmatch(line) and BORDER.search(lines[number - 1]):
            rows |= {number - 1, number}
        elif number - 1 in rows and number - 2 in rows and line.strip():
            rows.add(number)
    return rows


@dataclass
class Reader:
    """Where a file has been read to."""

    parts: list[str | Hole] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)
    """What targets of links are defined for, folded."""
    paragraph: list[tuple[str, str]] = field(default_factory=list)
    """Lines of the paragraph that goes on, each with what ends it."""
    depth: int = 0
    """How many quotations the last block stands in."""
    items: list[int] = field(default_factory=list)
    """The columns, counted from the innermost quotation, at which the text of the open items of lists stands."""
    closing: str | None = None
    """What ends the code, or the front matter, that goes on."""
    is_quoted: bool = False
    """Whether the code stands in a quotation."""
    html_end: str | None = None
    """What ends the HTML that goes on."""
    is_broken: bool = False
    """Whether a hard line break has ended a text within a paragraph."""

    def goes_on_with_code(self, line: str, end: str, *, is_first: bool) -> bool:
        if self.html_end is not None and not self.leaves_container(line):
            self.keep_html(line, end)
            return True
        self.html_end = None
        if self.is_quoted and not line.lstrip().startswith(">"):
            self.closing = None  # code ends where its quotation does
        if self.closing is None:
            return False
        self.parts += [line, end]
        if not is_first and closes(line.lstrip("> \t") if self.is_quoted else line, self.closing):
            self.closing = None
        return True

    def leaves_container(self, line: str) -> bool:
        """Whether a line ends the quotation or the item of a list that HTML stands in, and the HTML with it."""
        if self.is_quoted and not line.lstrip().startswith(">"):
            return True
        columns = line.expandtabs(CODE_INDENT)
        indent = len(columns) - len(columns.lstrip())
        return not self.is_quoted and bool(self.items) and bool(columns.strip()) and indent < self.items[-1]

    def keep_html(self, line: str, end: str) -> None:
        """Keep a line up to the end of the HTML; what follows there is text."""
        assert self.html_end is not None
        found = re.search(re.escape(self.html_end), line, re.IGNORECASE)
        if found is None:
            self.parts += [line, end]
            return
        self.html_end = None
        self.parts += [line[: found.end()], *around(line[found.end() :]), end]

    def read(self, line: str, end: str, *, is_row: bool = False) -> None:
        quotes = QUOTES.match(line)
        assert quotes is not None  # it may be empty
        inner = line[quotes.end() :]
        if not inner.strip():
            self.finish()
            self.parts += [line, end]
            return
        html = HTML_BLOCK.match(inner)
        if html is not None and html.lastgroup is not None:
            self.finish()
            self.enter(inner, quotes[0].count(">"), is_note=False)
            self.is_quoted = ">" in quotes[0]
            self.html_end = ENDS_OF_HTML[html.lastgroup].format((html["tag"] or "").lower())
            self.keep_html(line, end)
            return
        before = BEFORE.match(inner)
        assert before is not None
        fence = FENCE.match(inner, before.end())
        cells = masked(inner)
        depth = quotes[0].count(">")
        if depth > self.depth:
            self.finish()  # no paragraph goes on in a quotation that begins
        goes_on = (bool(self.paragraph) or self.is_broken) and not before[0].strip()
        is_code = not goes_on and self.enter(inner, depth, is_note=before["note"] is not None)
        definition = None if goes_on or is_code else DEFINITION.fullmatch(cells)
        if definition is not None:
            self.labels.add(folded(inner[slice(*definition.span("label"))]))
        if definition or is_code or (not goes_on and RULE.fullmatch(inner)) or UNDERLINE_OR_RULE.fullmatch(inner):
            self.finish()
            self.parts += [line, end]
        elif fence is not None and before["heading"] is None:
            self.finish()
            self.closing, self.is_quoted = fence[1] or fence[0], depth > 0 or ">" in before[0]
            self.parts += [line, end]
        elif cells.count("|") > 1 or (is_row and "|" in cells):
            self.finish()
            self.parts.append(quotes[0])
            begin = 0
            for found in BORDER.finditer(cells):
                self.parts += [*around(inner[begin : found.start()]), "|"]
                begin = found.end()
            self.parts += [*around(inner[begin:]), end]
        elif goes_on and self.paragraph:
            self.paragraph.append((inner, end))
            self.finish_at_break()
        else:
            self.finish()
            self.parts.append(quotes[0] + before[0])
            text = inner[before.end() :]
            if before["heading"] is not None:
                words = BEHIND_HEADING.sub("", text)
                self.parts += [*around(words), text[len(words) :], end]
                return
            self.paragraph = [(text, end)]
            self.finish_at_break()

    def enter(self, inner: str, depth: int, *, is_note: bool) -> bool:
        """Leave the quotations and the items of lists that a block is not in, and enter those that it begins. Whether
        it is code by what indents it."""
        columns = inner.expandtabs(CODE_INDENT)
        indent = len(columns) - len(columns.lstrip())
        if depth != self.depth:
            self.depth, self.items = depth, []
        while self.items and indent < self.items[-1]:
            self.items.pop()
        if not (self.paragraph or self.is_broken) and indent - (self.items[-1] if self.items else 0) >= CODE_INDENT:
            return True
        place = 0
        while (item := ITEM.match(columns, place)) is not None:
            place = item.end()
            self.items.append(place)
        if is_note:
            self.items.append(indent + CODE_INDENT)
        return False

    def finish_at_break(self) -> None:
        """A hard line break ends a text, as <br> does; the paragraph goes on with another one."""
        line = self.paragraph[-1][0] if self.paragraph else ""
        is_break = line.endswith("  ") or (len(line) - len(line.rstrip("\\"))) % 2 == 1
        if is_break and not has_open_span(self.paragraph):
            self.finish()
            self.is_broken = True

    def finish(self) -> None:
        self.is_broken = False
        if self.paragraph:
            last, end = self.paragraph.pop()
            words = last.removesuffix("\\").rstrip()
            text = "\n".join([*(line.strip() for line, _ in self.paragraph), words.lstrip()])
            text = WITHIN_CHINESE.sub("", text).replace("\n", " ")
            self.parts += [*around(text), last[len(words) :], end]
            self.paragraph = []


def has_open_span(paragraph: Sequence[tuple[str, str]]) -> bool:
    """Whether a link or code has begun in the last of these lines, and not ended."""
    text = masked("\n".join(line for line, _ in paragraph[-LINES_OF_SPAN:]))
    return text.rfind("[") > text.rfind("]") or "`" in text


LINES_OF_SPAN = 12
"""Lines before a line break in which a link or code that goes on behind it is looked for."""


def closes(line: str, closing: str) -> bool:
    return line.strip().startswith(closing) and not line.strip().strip(closing[0])


# What stands within a text

TARGET = (
    r"(?:\(\s*+(?:<[^<>\n]*>|(?!<)[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)"
    rf"(?:\s++{TITLE})?\s*+\)|\[[^\[\]\n]*\])"
)
IMAGE = rf"!\[[^\[\]\n]*(?:\[[^\[\]\n]*\][^\[\]\n]*)*\]{TARGET}"
LABEL = rf"[^\[\]\n]*(?:(?:{IMAGE}|\[[^\[\]\n]*\](?![(\[]))[^\[\]\n]*)*"
SPANS = re.compile(
    rf"(?P<kept>\0+|{NOTE}|{IMAGE})"
    rf"|\[(?P<label>{LABEL})\](?P<to>{TARGET})?"
    r"|(?P<marks>~~|\*+|_+)"
)
"""In a text that is masked: what stays as it is, notes and images among it; links; and signs of emphasis."""
TICKS = re.compile(r"`+")
ESCAPED = re.compile(r"\\(?:[\\`*_\[\]<>|#~()\"'$+=-]|(?<=\d\\)\.)")
"""A sign that would be a mark within a text or where it begins."""
AUTOLINK = re.compile(r"<[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*>|<[^\s<>@]+@[^\s<>@]+>")


def masked(text: str) -> str:
    """The text with a zero character for every character of code in it, of escaped signs and of addresses in pointed
    brackets; as long as the text.

    Code begins at a run of backticks and ends at the next run of the same length, which is looked up, not searched for:
    a text may have as many runs as characters.
    """
    runs = [found.span() for found in TICKS.finditer(text)]
    closing: list[int | None] = [None] * len(runs)
    next_of_length: dict[int, int] = {}
    for number in range(len(runs) - 1, -1, -1):
        begin, end = runs[number]
        closing[number] = next_of_length.get(end - begin)
        next_of_length[end - begin] = number
    written = []
    place = number = 0
    while number < len(runs):
        last = closing[number]
        if last is not None:
            begin, end = runs[number][0], runs[last][1]
            written += [text[place:begin], "\0" * (end - begin)]
            place, number = end, last
        number += 1
    mask = "".join([*written, text[place:]])
    for pattern in (AUTOLINK, ESCAPED):
        mask = pattern.sub(lambda found: "\0" * len(found[0]), mask)
    return mask


def folded(label: str) -> str:
    """What the labels of links are compared by."""
    return " ".join(label.casefold().split())


class MarkdownInline(Inline):
    def restore(self, translation: str) -> list[str | Original]:
        """As of any text. But within a word `_` is no mark, and Chinese has no spaces between words: where one comes to
        stand beside a letter, all of them give way to `*`."""
        restored = super().restore(translation)
        if not any(stands_in_word(restored, number) for number in range(1, len(restored), 2)):
            return restored
        return [Original("*" * len(item.text), item.kind) if is_underscore(item) else item for item in restored]


def stands_in_word(restored: Sequence[str | Original], number: int) -> bool:
    mark = restored[number]
    if not is_underscore(mark):
        return False
    beside = restored[number - 1] if mark.kind == "begin" else restored[number + 1]
    return isinstance(beside, str) and (beside[-1:] if mark.kind == "begin" else beside[:1]).isalnum()


def is_underscore(item: str | Original) -> TypeGuard[Original]:
    return isinstance(item, Original) and item.text in ("_", "__")


def inline_of(text: str, labels: Set[str]) -> Inline:
    mask = TAG_OR_COMMENT.sub(lambda tag: "\1" * len(tag[0]), masked(text))  # no sign in a tag is a mark
    return MarkdownInline.of(items_of(text, mask, labels))


def items_of(text: str, mask: str, labels: Set[str]) -> list[str | Original]:
    items: list[str | Original] = []
    begin = 0
    opened: dict[str, list[int]] = defaultdict(list)
    """Which items are marks that nothing has closed yet."""
    for found in SPANS.finditer(mask):
        items.append(text[begin : found.start()])
        begin = found.end()
        whole = text[found.start() : begin]
        if found["kept"]:
            items.append(Original(whole, "word"))
        elif found["marks"]:
            may_open, may_close = flanks(mask, *found.span())
            for mark in single_marks(whole, opened if may_close else {}):
                if may_close and opened[mark]:
                    close(mark, items, opened)
                    continue
                if may_open:
                    opened[mark].append(len(items))
                items.append(mark)  # text, unless something closes it
        else:
            label = slice(*found.span("label"))
            before, to = Original("[", "begin"), Original(text[label.stop : begin], "end")
            if not found["to"] and folded(text[label]) not in labels:
                before, to = "[", "]"
            elif found["to"] in (None, "[]"):
                to = Original(f"][{text[label]}]", "end")
            items += [before, *items_of(text[label], mask[label], labels), to]
    return [*items, text[begin:]]


def flanks(mask: str, begin: int, end: int) -> tuple[bool, bool]:
    """Whether emphasis may begin, and may end, at these signs. Within a word it does at `*` alone (CommonMark 0.31,
    section 6.2)."""
    before, behind = mask[begin - 1 : begin], mask[end : end + 1]
    may_open, may_close = bool(behind.strip()), bool(before.strip())
    if mask[begin] == "_":
        return may_open and not before.isalnum(), may_close and not behind.isalnum()
    return may_open, may_close


def single_marks(run: str, opened: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """A run of signs as marks of one or two. Of three or more those come first that were opened last."""
    left = len(run)
    while left:
        fitting = [mark for mark in (run[0] * 2, run[0]) if left > 2 and opened.get(mark)]
        mark = max(fitting, key=lambda mark: opened[mark][-1], default=run[0] * min(left, 2))
        yield mark
        left -= len(mark)


def close(mark: str, items: list[str | Original], opened: Mapping[str, list[int]]) -> None:
    number = opened[mark].pop()
    items[number] = Original(mark, "begin")
    items.append(Original(mark, "end"))
    for others in opened.values():  # what was opened within stays text
        while others and others[-1] > number:
            others.pop()
