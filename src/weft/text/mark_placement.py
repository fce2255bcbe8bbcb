"""Marks put back into a translation: around the words that translate what they enclosed.

An element, a tag with the one that closes it, encloses the run of words that gave most of their attention to its words
in the source, so elements change places where words do, and nest as they did. Any other mark stands where the
translation divides best into what translates the text before it and what translates the text after it. Words that
occur once in both texts count as translations of each other. Without attention, as from an exported model, the others
do in proportion to their place, and the tags of an element without such a word stand on their own.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from weft.text.chinese import HAN
from weft.text.japanese import KANA
from weft.text.markup import TAG, VOID, Mark, is_wide
from weft.text.words import mark_ranges

LEAST_SHARE, LEAST_OF_PEAK = 0.5, 0.8
"""A word belongs to an element if it gives this share of its attention to the element's words in the source, or this
part of the largest such share. A run may hold words with less, if others make up for it."""
LEAST_PEAK = 0.1
"""If no word gives more than this to an element, its tags are placed on their own."""
PROPORTION = 0.01
"""The attention that a word is taken to give to the word in its place."""
MOST_CELLS = 2_000_000
"""The most marks times words of a translation for which elements are placed as such."""


@dataclass
class Element:
    """The numbers of two tags among the marks, and what lies between them."""

    opening: int
    closing: int
    inside: "list[Element | int]" = field(default_factory=list)


Span = tuple[int, int]
"""The places before the first word and after the last."""
Node = Element | int
"""An element, or the number of any other mark."""


def put_back(
    source: str,
    marks: Sequence[Mark],
    translation: str,
    attention: Float[np.ndarray, "target source"] | None = None,
    whole: Sequence[str] = (),
) -> str:
    """The translation of `source` with all its marks, and nothing else changed but spaces.

    `attention` is that of each character of the translation to each of the source. Marks keep their order, except for
    elements. None is put inside one of the phrases that are to stay `whole`.
    """
    if not marks:
        return translation
    theirs, ours = Words(translation), Words(source)
    spans = joined_where_they_overlap([span for phrase in whole for span in theirs.spans_of(phrase)])
    of_words = between_words(attention, theirs, ours)
    alone = list(places_of(marks, ours, best_divisions(of_words), spans))
    nodes = elements_of(marks)
    if nodes is None or len(marks) * len(theirs) > MOST_CELLS:
        return written_with(theirs, zip(alone, marks, strict=True))
    places = Places(marks, ours, theirs, of_words, spans, alone)
    return written_with(theirs, [(place, marks[number]) for place, number in places.of(nodes, 0, len(theirs))])


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

    def around(self, place: int) -> tuple[str, str, str]:
        """The word before a place, the gap there, and the word after it; no word is the empty string."""
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


@cache
def word_or_sign() -> re.Pattern[str]:
    """The pattern of a word, a sign or a Chinese character. A vowel sign of Hindi or Thai is part of its word."""
    letters = rf"(?:[^\W{HAN}{KANA}][{mark_ranges()}]*)+"
    return re.compile(rf"[{HAN}{KANA}]|{letters}(?:['’.,:-]{letters})*|[^\w\s]")


NARROW = str.maketrans("，、。．！？；：（）", ",,..!?;:()")


# Which words translate which


def between_words(
    weights: Float[np.ndarray, "target source"] | None, theirs: Words, ours: Words
) -> Float[np.ndarray, "words source_words"]:
    """The share of each word's attention that each word of the source has; all 0 for a word without attention. A word
    that occurs once in both texts attends to itself alone."""
    of_words = np.zeros((len(theirs), len(ours)), dtype=np.float32)
    for number, (begin, end) in enumerate(zip(theirs.starts, theirs.ends, strict=True)):
        if weights is not None:
            row = weights[begin:end].sum(0)
            of_words[number] = [row[first:last].sum() for first, last in zip(ours.starts, ours.ends, strict=True)]
    for word in once(ours.words) & once(theirs.words):
        of_words[theirs.words.index(word)] = np.arange(len(ours)) == ours.words.index(word)
    return of_words / np.maximum(of_words.sum(1, keepdims=True), 1e-9)


def once(words: Sequence[str]) -> set[str]:
    return {word for word, count in Counter(words).items() if count == 1}


def best_divisions(attention: Float[np.ndarray, "words source_words"]) -> Int[np.ndarray, "leanings source_places"]:
    """For each place of the source the place of the translation that divides it best: the words before it attend most
    to what is before, those after it to what is after.

    Words without attention attend in proportion to their place. One that is divided itself belongs to what follows for
    a mark that leans to the left (0), to what it is more of (1), or to what is before for one that leans to the right
    (2), so that an element keeps a word.
    """
    votes = attention + PROPORTION * in_proportion(attention)
    before = np.cumsum(np.pad(votes, ((0, 0), (1, 0))), axis=1)
    gains = 2 * before - votes.sum(1, keepdims=True)
    leanings = PROPORTION * np.array([-0.999, 0, 0.999])[:, None, None]
    return np.cumsum(np.pad(gains + leanings, ((0, 0), (1, 0), (0, 0))), axis=1).argmax(1)


def in_proportion(attention: Float[np.ndarray, "words source_words"]) -> Float[np.ndarray, "words source_words"]:
    """How much of each word covers each word of the source, if those that are certain of none divide the text alike."""
    found = np.zeros(attention.shape)
    rows, columns = ((attention.max(axis, initial=0) < 1).nonzero()[0] for axis in (1, 0))
    theirs, ours = (np.linspace(0, len(rows), len(of) + 1) for of in (rows, columns))
    overlap = np.minimum(theirs[1:, None], ours[1:]) - np.maximum(theirs[:-1, None], ours[:-1])
    found[np.ix_(rows, columns)] = np.maximum(overlap, 0)
    return found


def places_of(
    marks: Sequence[Mark],
    ours: Words,
    divisions: Int[np.ndarray, "leanings source_places"],
    spans: Sequence[tuple[int, int]],
) -> Iterator[int]:
    """The place of each mark on its own, never before that of the mark before it, and never within a span."""
    last = 0
    for mark in marks:
        before = bisect_right(ours.ends, mark.place)
        is_inside_word = before < len(ours) and ours.starts[before] < mark.place
        leaning = 2 if mark.is_closing else 0 if mark.leans else 1
        place = int(divisions[leaning, before + (is_inside_word and mark.is_closing)])
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


# Elements


DEEPEST = 100
"""The most levels of nested elements."""


def name_of(mark: Mark) -> str | None:
    """The name of the element that a tag opens or closes; None for any other mark."""
    if TAG.fullmatch(mark.text) is None or mark.text.endswith("/>"):
        return None
    name = re.split(r"[\s/>]", mark.text.lstrip("</"))[0].lower()
    return None if name in VOID else name


def elements_of(marks: Sequence[Mark]) -> list[Node] | None:
    """The marks as nested elements. None if a tag is not closed, for example because its sentence ends first, or closes
    nothing, or the nesting is too deep: then all marks keep their order."""
    levels: list[tuple[str, int, list[Node]]] = [("", -1, [])]
    for number, mark in enumerate(marks):
        name = name_of(mark)
        if name is None:
            levels[-1][2].append(number)
        elif not mark.is_closing:
            levels.append((name, number, []))
        elif levels[-1][0] == name:
            _, opening, inside = levels.pop()
            levels[-1][2].append(Element(opening, number, inside))
        else:
            return None
        if len(levels) > DEEPEST:
            return None
    return levels[0][2] if len(levels) == 1 else None


@dataclass(frozen=True)
class Places:
    """Places the marks of a text in its translation; `alone` has the place of each mark on its own."""

    marks: Sequence[Mark]
    ours: Words
    theirs: Words
    attention: Float[np.ndarray, "words source_words"]
    whole: Sequence[Span]
    alone: Sequence[int]

    def of(self, nodes: Sequence[Node], begin: int, end: int) -> Iterator[tuple[int, int]]:
        """The place of every mark, with its number, in the order in which they are written, between two places."""
        spans = self.spans_of([node for node in nodes if isinstance(node, Element)], begin, end)
        filled = [span for span in spans.values() if span[1] - span[0] > 1]
        placed = []
        for number, node in enumerate(nodes):
            if isinstance(node, Element):
                first, last = spans[node.opening]
            else:
                first = last = self.next_to_element(node, nodes[max(0, number - 1) : number + 2], spans)
                if first is None:
                    first = last = clamped(self.alone[node], begin, end, filled)
            placed.append((first, last, number, node))
        for first, last, _, node in sorted(placed, key=lambda one: one[:3]):
            if isinstance(node, Element):
                yield first, node.opening
                yield from self.of(node.inside, first, last)
                yield last, node.closing
            else:
                yield first, node

    def spans_of(self, elements: Sequence[Element], begin: int, end: int) -> dict[int, Span]:
        """The words that each element encloses, by its opening tag. No two elements share a word; the one with the
        largest share of some word chooses first."""
        shares = {element.opening: self.share(element)[begin:end] for element in elements}
        highest = np.max(list(shares.values()), axis=0, initial=0) if shares else np.zeros(end - begin)
        is_free = np.ones(end - begin, dtype=bool)
        spans: dict[int, Span] = {}
        filled: list[Span] = []  # no more than there are words
        for element in sorted(elements, key=lambda one: -shares[one.opening].max(initial=0)):
            share = np.where(shares[element.opening] >= highest, shares[element.opening], 0)
            peak = share.max(initial=0)
            first, last = best_run(share - min(LEAST_SHARE, LEAST_OF_PEAK * peak), is_free)
            if peak < LEAST_PEAK:
                ends = self.alone[element.opening], self.alone[element.closing]
                first, last = (clamped(place, begin, end, filled) - begin for place in ends)
                last = last if is_free[first:last].all() else first
            if first == last and shares[element.opening][is_free].any():  # it keeps a word, if one is left
                likeliest = begin + int(np.where(is_free, shares[element.opening], 0).argmax())
                span = next((span for span in self.whole if span[0] <= likeliest < span[1]), (likeliest, likeliest + 1))
                first, last = span[0] - begin, span[1] - begin
            is_free[first:last] = False
            spans[element.opening] = begin + first, begin + last
            filled += [spans[element.opening]] if last - first > 1 else []
        return spans

    def next_to_element(self, mark: int, neighbors: Sequence[Node], spans: Mapping[int, Span]) -> int | None:
        """The place of a mark that touches a neighboring element in the source: at that end of the element."""
        for element in neighbors:
            if isinstance(element, Element):
                tag, place = (
                    (element.opening, spans[element.opening][0])
                    if mark < element.opening
                    else (element.closing, spans[element.opening][1])
                )
                ends = (self.marks[tag].place, self.marks[mark].place)
                if len({bisect_left(self.ours.starts, end) for end in ends}) == 1:  # no word between them
                    return place
        return None

    def share(self, element: Element) -> Float[np.ndarray, " words"]:
        """The share of each word's attention that the words of the element have. A sign has none, unless the element
        has only signs, or the sign occurs once in both texts and a word looked at the element; words that are to stay
        together have their mean."""
        inside = self.inside(element)
        share = self.attention[:, inside].sum(1)
        if any(self.ours.words[number][0].isalnum() for number in np.flatnonzero(inside)):
            is_word, is_certain = self.kinds_of_words
            if share.max(where=is_word, initial=0) >= LEAST_PEAK:
                is_word = is_word | is_certain
            share = np.where(is_word, share, 0)
        for begin, end in self.whole:
            share[begin:end] = share[begin:end].mean()
        return share

    @cached_property
    def kinds_of_words(self) -> tuple[Bool[np.ndarray, " words"], Bool[np.ndarray, " words"]]:
        """Which words of the translation are not signs, and which attend to one word of the source alone."""
        is_word = np.array([word[0].isalnum() for word in self.theirs.words], dtype=bool)
        return is_word, self.attention.max(1, initial=0) == 1

    def inside(self, element: Element) -> Bool[np.ndarray, " source_words"]:
        begin, end = self.marks[element.opening].place, self.marks[element.closing].place
        starts, ends = np.array(self.ours.starts, dtype=int), np.array(self.ours.ends, dtype=int)
        return (starts < end) & (ends > begin)


def clamped(place: int, begin: int, end: int, spans: Iterable[Span]) -> int:
    """The nearest place between two others and inside none of the spans."""
    place = min(max(place, begin), end)
    first, last = next((span for span in spans if span[0] < place < span[1]), (place, place))
    return first if place - first < last - place else last


def best_run(gains: Float[np.ndarray, " words"], is_free: Bool[np.ndarray, " words"]) -> tuple[int, int]:
    """The consecutive free words whose gains have the largest sum (Kadane); an empty run if no gain is positive."""
    best, found = 0.0, (0, 0)
    total, begin = 0.0, 0
    for number, (gain, free) in enumerate(zip(gains.tolist(), is_free.tolist(), strict=True)):
        if not free or total <= 0:
            total, begin = 0.0, number
        if not free:
            begin = number + 1
            continue
        total += gain
        if total > best:
            best, found = total, (begin, number + 1)
    return found


# Spaces


def written_with(words: Words, marks: Iterable[tuple[int, Mark]]) -> str:
    """A text with marks at these places, in their order."""
    at: dict[int, list[Mark]] = {}
    for place, mark in marks:
        at.setdefault(place, []).append(mark)
    written: list[str] = []
    for place in range(len(words) + 1):
        left, gap, right = words.around(place)
        written += [between(left, gap, right, at[place]) if place in at else gap, right]
    return "".join(written)


def between(left: str, gap: str, right: str, marks: Sequence[Mark]) -> str:
    """The marks between two words, with the gap there, and with spaces around marks that are like words."""
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
