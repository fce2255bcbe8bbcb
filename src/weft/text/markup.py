"""Markup and placeholders, taken out of a text before it is translated (mark_placement.py puts them back).

A model that never saw `{name}` or `<b>` would lose or spoil it, so the text without them is translated. Block elements
(a paragraph, a table cell) divide a text into parts that are translated separately.
"""

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from weft.text.punctuation import PROTECTED


@dataclass(frozen=True)
class Mark:
    """What was taken out of a text, and its place in the text that is left."""

    text: str
    place: int

    @property
    def leans(self) -> bool:
        """Whether it has no spaces of its own: tags lean on the words that they enclose, comments and signs on those
        next to them. Any other mark stands between words like one of them."""
        return TAG_OR_COMMENT.fullmatch(self.text) is not None or kind_of_entity(self.text) in LEANING

    @property
    def is_closing(self) -> bool:
        return self.text.startswith("</")


@dataclass(frozen=True)
class Part:
    """A part of a text: a tag of a block element, or what lies between two of them, as `text` and the marks in it."""

    whole: str
    text: str = ""
    marks: tuple[Mark, ...] = ()


def take_apart(text: str) -> list[Part]:
    """The text in parts, whose `whole`, joined, is the text."""
    parts = []
    begin = 0
    for block in BLOCK.finditer(text):
        if block["whole"]:
            continue
        if between := text[begin : block.start()]:
            parts.append(without_marks(between))
        parts.append(Part(block[0]))
        begin = block.end()
    if rest := text[begin:]:
        parts.append(without_marks(rest))
    return parts


# What is taken out


ATTRIBUTES = r"(?:\s[^<>]*|/)?"
BLOCK_NAMES = (
    "address article aside blockquote body br button caption center col colgroup dd details dialog div dl dt fieldset "
    "figcaption figure footer form h[1-6] head header hgroup hr html legend li link main menu meta nav ol optgroup "
    "option p search section select summary table tbody td textarea tfoot th thead title tr ul"
).replace(" ", "|")

VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
"""HTML elements without a closing tag."""


def element(kind: str, names: str) -> str:
    """The pattern of an element with one of these names and all its content, except an element of the same name."""
    name = rf"(?P={kind})(?=[\s/>])"
    return rf"<(?P<{kind}>{names}){ATTRIBUTES}>(?:[^<]++|<(?!/?{name}))*+</(?P={kind})\s*>"


COMMENT = r"<!--(?:-?>|(?:[^<-]++|-(?!->)|<(?!!--))*+-->)"
WHOLE = rf"{COMMENT}|{element('words', 'code|kbd|samp|var')}"
"""A mark together with all its content, block elements too."""
BLOCK = re.compile(
    rf"(?P<whole>{WHOLE})|{element('raw', 'script|style|pre')}|</?(?:{BLOCK_NAMES}){ATTRIBUTES}>|<!doctype[^<>]*>",
    re.ASCII | re.IGNORECASE,
)
TAG = re.compile(rf"</?[a-z][\w:.-]*{ATTRIBUTES}>", re.ASCII | re.IGNORECASE)
SMALL = (
    rf"(?<![A-Za-z\d.,])(?:\d[\d.,]*(?:<(?P<small>[a-z][\w:.-]*){ATTRIBUTES}>[-+\d]{{1,4}}</(?P=small)\s*>[A-Za-z\d]*)+"
    r"|(?-i:(?:[A-Z][a-z]?\d*)+)(?:<sub>[-+\d]{1,4}</sub>[A-Za-z\d]*)+|[kcdm]?m<sup>[-\d]{1,4}</sup>)"
)
"""A number, a formula or a meter with a small number, which would be one word without the tags: 10<sup>6</sup>."""
BRACES = (
    r"[$%#]?\{[\w.:!,\[\]()|+*#'-]{0,80}\}|\{\{[^{}<>]{0,80}\}\}|\{%[^{}<>]{0,80}%\}"
    r"|(?:[$%#]|(?<![a-z])(?<![a-z] ))\{(?u:\w){1,8}\}"  # a Chinese name, but no text: \textbf{很好}, other {三个}
)
CONVERSIONS = r"%%|(?<![\w%])%(?:\d+\$|\((?u:\w){1,80}\))?[-+0#]{0,4}\d{0,4}(?:\.\d{1,4})?(?:hh?|ll?|z)?[diouxefgcrs@]"
MARK = re.compile(
    rf"{WHOLE}|{SMALL}|{TAG.pattern}|{BRACES}|{CONVERSIONS}"
    rf"|{PROTECTED.pattern}",  # a URL, an e-mail address, an HTML entity
    re.ASCII | re.IGNORECASE,
)
TAG_OR_COMMENT = re.compile(rf"{TAG.pattern}|{COMMENT}", re.ASCII | re.IGNORECASE)
GLUE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$")
"""Characters that belong to the mark next to them: AT&amp;T, {count}th, v{version}, 100%%."""


def without_marks(text: str) -> Part:
    plain: list[str] = []
    marks = []
    begin = length = 0
    divides = False  # whether a sign was taken out after the last word
    for start, end in [*spans_of_marks(text), (len(text), len(text))]:
        if between := text[begin:start]:
            if divides and plain and joins_words(plain[-1][-1]) and joins_words(between[0]):
                between = f" {between}"
            plain.append(between)
            length += len(between)
            divides = False
        mark = Mark(text[start:end], length)
        marks += [mark] if mark.text else []
        divides = divides or kind_of_entity(mark.text)[:1] in ("Z", "P", "S")
        begin = end
    return Part(text, "".join(plain), tuple(marks))


def spans_of_marks(text: str) -> Iterator[tuple[int, int]]:
    """The spans of the marks in a text, in order and without overlap."""
    begin = end = 0  # of the one that may still grow
    for found in MARK.finditer(text):
        first, last = found.span()
        if is_glued(found):
            while first > end and text[first - 1] in GLUE:
                first -= 1
            while last < len(text) and text[last] in GLUE:
                last += 1
        if first < end:  # {a}https://b.c
            end = max(end, last)
            continue
        if end:
            yield begin, end
        begin, end = first, last
    if end:
        yield begin, end


def is_glued(mark: re.Match[str]) -> bool:
    """Whether letters and digits next to a mark belong to it. Among the entities they belong to letters, and within a
    word to & and the apostrophe."""
    if not ENTITY.fullmatch(mark[0]):
        return not TAG_OR_COMMENT.fullmatch(mark[0])
    around = mark.string[max(0, mark.start() - 1)], mark.string[mark.end() : mark.end() + 1]
    is_within_word = all(character in GLUE for character in around)
    character = html.unescape(mark[0])
    return character.isalnum() or (is_within_word and character in "&'’")


def kind_of_entity(mark: str) -> str:
    """The Unicode category of the character that an HTML entity stands for; empty for &amp; and any other mark."""
    character = html.unescape(mark) if ENTITY.fullmatch(mark) else "&"
    return unicodedata.category(character) if len(character) == 1 and character != "&" else ""


ENTITY = re.compile(r"&#?\w{1,31};", re.ASCII)
LEANING = ("Zs", "Pi", "Pf", "Ps", "Pe", "Po", "Cf")
"""Categories of spaces, quotation marks, parentheses and points, which have no space on each side, unlike a dash."""


def joins_words(character: str) -> bool:
    """Whether this character and another one next to it would be one word."""
    return character.isalnum() and not is_wide(character)


def is_wide(character: str) -> bool:
    """Whether it is a wide character, as in Chinese and Japanese, where words are written without spaces."""
    return unicodedata.east_asian_width(character) in "WF"
