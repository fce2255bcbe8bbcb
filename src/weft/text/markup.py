"""Markup and placeholders, taken out of a text before it is translated and put back into the translation.

A model that never saw `{name}` or `<b>` would lose or spoil it. So the text without them is translated, and each goes
back between two words of the translation, where the words around it suggest: numbers and names that stand in both texts
are anchors, and between two anchors the share of the words decides. Order and spelling do not change. Block elements (a
paragraph, a table cell) divide a text into parts that are translated apart. Knows nothing of translation; where a model
tells what it looked at, aligned_marks.py knows better.
"""

import html
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise
from math import ceil, floor

from weft.text.chinese import HAN
from weft.text.japanese import KANA
from weft.text.punctuation import PROTECTED
from weft.text.words import mark_ranges


@dataclass(frozen=True)
class Mark:
    """What was taken out of a text, and the place in what is left where it stood."""

    text: str
    place: int

    @property
    def leans(self) -> bool:
        """Tags lean on the words that they enclose, comments and signs on those beside them; any other mark stands
        between words like one of them."""
        return TAG_OR_COMMENT.fullmatch(self.text) is not None or kind_of_entity(self.text) in LEANING

    @property
    def is_closing(self) -> bool:
        return self.text.startswith("</")


@dataclass(frozen=True)
class Part:
    """A piece of a text: a block element's tag, or what lies between two of them, as `text` and the marks in it."""

    whole: str
    text: str = ""
    marks: tuple[Mark, ...] = ()


def take_apart(text: str) -> list[Part]:
    """The text in parts; what they were as a `whole`, joined, is the text."""
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


def put_back(source: str, marks: Sequence[Mark], translation: str, whole: Sequence[str] = ()) -> str:
    """The translation of `source` with its marks: all of them, in their order, and nothing else changed but spaces.

    No mark comes to stand inside one of the phrases that are to stay `whole`.
    """
    if not marks:
        return translation
    words = Words(translation)
    spans = joined_where_they_overlap([span for phrase in whole for span in words.spans_of(phrase)])
    return written_with(words, zip(places_of(marks, Words(source), words, spans), marks, strict=True))


def written_with(words: "Words", marks: Iterable[tuple[int, Mark]]) -> str:
    """A text with marks at these places, in their order."""
    at: dict[int, list[Mark]] = {}
    for place, mark in marks:
        at.setdefault(place, []).append(mark)
    written: list[str] = []
    for place in range(len(words) + 1):
        left, gap, right = words.around(place)
        written += [between(left, gap, right, at[place]) if place in at else gap, right]
    return "".join(written)


# What is taken out


ATTRIBUTES = r"(?:\s[^<>]*|/)?"
BLOCK_NAMES = (
    "address article aside blockquote body br caption center col colgroup dd details div dl dt fieldset figcaption "
    "figure footer form h[1-6] head header hr html legend li link main meta nav ol optgroup option p section select "
    "summary table tbody td textarea tfoot th thead title tr ul"
).replace(" ", "|")

VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
"""Elements of HTML that are one tag."""


def element(kind: str, names: str) -> str:
    """The pattern of an element of one of these names with all that is in it, but no element of its own name."""
    name = rf"(?P={kind})(?=[\s/>])"
    return rf"<(?P<{kind}>{names}){ATTRIBUTES}>(?:[^<]++|<(?!/?{name}))*+</(?P={kind})\s*>"


COMMENT = r"<!--(?:-?>|(?:[^<-]++|-(?!->)|<(?!!--))*+-->)"
WHOLE = rf"{COMMENT}|{element('words', 'code|kbd|samp|var')}"
"""What is a mark with all that is in it, block elements too."""
BLOCK = re.compile(
    rf"(?P<whole>{WHOLE})|{element('raw', 'script|style|pre')}|</?(?:{BLOCK_NAMES}){ATTRIBUTES}>|<!doctype[^<>]*>",
    re.ASCII | re.IGNORECASE,
)
TAG = re.compile(rf"</?[a-z][\w:.-]*{ATTRIBUTES}>", re.ASCII | re.IGNORECASE)
BRACES = r"[$%#]?\{[\w.:!,\[\]()|+*#'-]{0,80}\}|\{\{[^{}<>]{0,80}\}\}|\{%[^{}<>]{0,80}%\}"
CONVERSIONS = r"%%|(?<![\w%])%(?:\d+\$|\(\w{1,80}\))?[-+0#]{0,4}\d{0,4}(?:\.\d{1,4})?(?:hh|h|ll|l|z)?[diouxXeEfFgGcrs@]"
MARK = re.compile(
    rf"{WHOLE}|{TAG.pattern}|{BRACES}|{CONVERSIONS}"
    rf"|{PROTECTED.pattern}",  # a URL, an e-mail address, an HTML entity
    re.ASCII | re.IGNORECASE,
)
TAG_OR_COMMENT = re.compile(rf"{TAG.pattern}|{COMMENT}", re.ASCII | re.IGNORECASE)
GLUE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$")
"""What belongs to a mark beside it: AT&amp;T, {count}th, v{version}, 100%%."""


def without_marks(text: str) -> Part:
    plain: list[str] = []
    marks = []
    begin = length = 0
    divides = False  # whether a sign was taken out behind the last word
    for start, end in [*spans_of_marks(text), (len(text), len(text))]:
        if between := text[begin:start]:
            if divides and plain and melts(plain[-1][-1]) and melts(between[0]):
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
    """Where marks stand; none overlaps the next."""
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
    """Whether letters and digits beside a mark belong to it: of the entities to those of letters, and within a word to
    the & and the apostrophe."""
    if not ENTITY.fullmatch(mark[0]):
        return not TAG_OR_COMMENT.fullmatch(mark[0])
    beside = mark.string[max(0, mark.start() - 1)], mark.string[mark.end() : mark.end() + 1]
    is_within_word = all(character in GLUE for character in beside)
    character = html.unescape(mark[0])
    return character.isalnum() or (is_within_word and character in "&'’")


def kind_of_entity(mark: str) -> str:
    """The Unicode category of what an HTML entity stands for; empty where the mark is none, or one of the word &."""
    character = html.unescape(mark) if ENTITY.fullmatch(mark) else "&"
    return unicodedata.category(character) if len(character) == 1 and character != "&" else ""


ENTITY = re.compile(r"&#?\w{1,31};", re.ASCII)
LEANING = ("Zs", "Pi", "Pf", "Ps", "Pe", "Po", "Cf")
"""Of spaces, quotation marks, parentheses and points, which have no space on each side as a dash has one."""


def melts(character: str) -> bool:
    """Whether it would be one word with another one beside it."""
    return character.isalnum() and not is_wide(character)


# Where it goes


class Words:
    """A text cut into words, signs and single Chinese characters; a place is the number of those before it."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = list(word_or_sign().finditer(text))
        self.starts = [word.start() for word in found]
        self.ends = [word.end() for word in found]
        self.words = [word[0].casefold().translate(NARROW) for word in found]

    def __len__(self) -> int:
        return len(self.words)

    def place_of(self, index: int) -> Fraction:
        """The place of a character of the text; inside a word it is a fraction."""
        before = bisect_right(self.ends, index)
        if before == len(self) or index <= self.starts[before]:
            return Fraction(before)
        return before + Fraction(index - self.starts[before], self.ends[before] - self.starts[before])

    def around(self, place: int) -> tuple[str, str, str]:
        """The word before a place, what lies between, and the word behind it; no word is the empty string."""
        begin = self.ends[place - 1] if place else 0
        end = self.starts[place] if place < len(self) else len(self.text)
        left = self.text[self.starts[place - 1] : begin] if place else ""
        return left, self.text[begin:end], self.text[end : self.ends[place]] if place < len(self) else ""

    def spans_of(self, phrase: str) -> Iterator[tuple[int, int]]:
        """The places between which the words of this phrase stand."""
        words = Words(phrase).words
        for begin in range(len(self) - len(words) + 1):
            if words and self.words[begin : begin + len(words)] == words:
                yield begin, begin + len(words)

    @cached_property
    def without_last_signs(self) -> int:
        """The place before the signs that end the text."""
        return next((n for n in range(len(self), 0, -1) if self.words[n - 1][0].isalnum()), len(self))


@cache
def word_or_sign() -> re.Pattern[str]:
    """A vowel of Hindi or Thai is a mark behind its consonant, and part of the word."""
    letters = rf"(?:[^\W{HAN}{KANA}][{mark_ranges()}]*)+"
    return re.compile(rf"[{HAN}{KANA}]|{letters}(?:['’.,:-]{letters})*|[^\w\s]")


NARROW = str.maketrans("，、。．！？；：（）", ",,..!?;:()")


def places_of(
    marks: Sequence[Mark],
    source: Words,
    target: Words,
    spans: Sequence[tuple[int, int]] = (),
    links: Iterable[tuple[int, int]] = (),
) -> Iterator[int]:
    """The place of each mark in the target, never before that of the mark before it, and never within a span; `links`
    are words of the source and of the target that belong together.

    What begins goes a little to the left and what closes to the right, so that an element keeps a word.
    """
    anchors = list(anchors_of(source, target, links))
    last = 0
    for mark in marks:
        exact = interpolate(anchors, source.place_of(mark.place))
        place = ceil(exact) if mark.is_closing else floor(exact) if mark.leans else floor(exact + Fraction(1, 2))
        for begin, end in spans:
            if begin < place < end:
                place = end if mark.is_closing else begin
        last = max(last, place)
        yield last


def joined_where_they_overlap(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in their order, none of which begins within the one before."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if joined and begin < joined[-1][1]:
            begin, end = joined[-1][0], max(end, joined.pop()[1])
        joined.append((begin, end))
    return joined


def anchors_of(source: Words, target: Words, links: Iterable[tuple[int, int]] = ()) -> Iterator[tuple[int, int]]:
    """Places of the source and where they are in the target: both ends, the last word's end, and both sides of each
    word and sign that stands once in both, or is linked, as far as these come in the same order."""
    yield 0, 0
    same = same_words(source, target)
    taken = set(same.values())
    linked = {ours: theirs for ours, theirs in links if ours not in same and theirs not in taken}
    for ours, theirs in in_same_order(sorted((same | linked).items())):
        yield ours, theirs
        yield ours + 1, theirs + 1
    yield source.without_last_signs, target.without_last_signs
    yield len(source), len(target)


def same_words(source: Words, target: Words) -> dict[int, int]:
    """The words and signs that stand once in both."""
    return {source.words.index(word): target.words.index(word) for word in once(source.words) & once(target.words)}


def once(words: Sequence[str]) -> set[str]:
    return {word for word, count in Counter(words).items() if count == 1}


def in_same_order(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The most of these pairs, sorted by their first numbers, whose second numbers rise too."""
    chains: list[list[tuple[int, int]]] = []  # of each length the one that ends lowest
    for pair in pairs:
        length = bisect_left([chain[-1][1] for chain in chains], pair[1])
        chain = [*(chains[length - 1] if length else []), pair]
        chains[length : length + 1] = [chain]
    return chains[-1] if chains else []


def interpolate(anchors: Sequence[tuple[int, int]], place: Fraction) -> Fraction:
    for (ours, theirs), (next_ours, next_theirs) in pairwise(anchors):
        if place <= next_ours and next_ours > ours:
            return theirs + (place - ours) * Fraction(next_theirs - theirs, next_ours - ours)
    return Fraction(anchors[-1][1])


# How it is spaced


def between(left: str, gap: str, right: str, marks: Sequence[Mark]) -> str:
    """The marks between two words, with the gap that was there, and with spaces around marks that are like words."""
    number_closing = next((n for n, mark in enumerate(marks) if not mark.is_closing), len(marks))
    written = [*(mark.text for mark in marks[:number_closing]), gap]
    is_apart = bool(gap) or not left or left in OPENING or is_wide(left[-1])
    is_before_word = right[:1].isalnum() and not is_wide(right[0])
    is_owed = False  # a space between a mark like a word and the next word
    last_place = None
    for mark in marks[number_closing:]:
        if not mark.leans:
            written += [" "] if not is_apart and mark.place != last_place else []
            is_apart, is_owed, last_place = False, is_before_word, mark.place
        elif not mark.is_closing and is_owed:
            written.append(" ")
            is_apart, is_owed = True, False
        written.append(mark.text)
    return "".join([*written, " "] if is_owed else written)


OPENING = "([{<\"'“‘„«¿¡"


def is_wide(character: str) -> bool:
    """Whether it is of Chinese, Japanese or their print, where words stand without spaces."""
    return unicodedata.east_asian_width(character) in "WF"
