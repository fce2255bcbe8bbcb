"""What the readers of all file formats share: a document, its parts, and the marks that stand for formatting in a text.

A reader cuts a file into parts. A string is written back unchanged; an `Inline` is a text to translate, in which
placeholders stand for markup that the translator must not touch. Strings that a reader of the translation might miss
are counted: `Passed` and `Unclear`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from string import ascii_lowercase
from typing import Literal

from weft.text.markup import GLUE

MOST_WORD_XML = 8 << 20
"""Bytes of XML in a Word document that is read."""


@dataclass(frozen=True)
class Document:
    """The texts of a file, and a function that writes the file with their translations."""

    texts: Sequence[str]
    """To be translated with their markup kept."""
    write: Callable[[Sequence[str]], bytes]
    """Return the file, given one translation for each text."""
    passed: int = 0
    """Parts with words that are not to be translated."""
    unclear: int = 0
    """Parts that the reader did not understand and left as they are."""


class Passed(str):
    """A part with words that is not to be translated, such as code."""


class Unclear(str):
    """A part that the reader does not understand."""


@dataclass(frozen=True)
class Original:
    """Markup within a text that is not translated: the begin or end of a span, or something that acts like a word."""

    text: str
    kind: Literal["begin", "end", "word", "point"]
    """A "point" stands between two characters, such as a comment."""
    name: str = ""
    """An end closes the last open begin if both have the same name; otherwise it stands alone."""


@dataclass(frozen=True)
class Inline:
    """A text in which placeholders stand for the originals, whatever their own syntax is.

    A begin and its end become the two tags of one element, so they follow their words to another place in the
    translation, unless spans have to keep their order.
    """

    text: str
    originals: Mapping[str, Original]

    @classmethod
    def of(cls, items: Sequence[str | Original], *, keeps_order: bool = False) -> "Inline":
        name = free_name("".join(item for item in items if isinstance(item, str)))
        originals: dict[str, Original] = {}
        written: list[str] = []
        begun: list[tuple[str, str]] = []  # the name of the original, and the name of its placeholder
        for number, item in enumerate(items):
            if isinstance(item, str):
                written.append(item)
                continue
            own = f"{name}0{len(originals)}"
            if item.kind == "begin":
                begun.append((item.name, own))
            elif item.kind == "end" and not keeps_order and begun and begun[-1][0] == item.name:
                own = begun.pop()[1]
            mark = placeholder_form(item, items, number).format(own)
            originals[mark] = item
            written.append(mark)
        return cls("".join(written), originals)

    def restore(self, translation: str) -> list[str | Original]:
        """Split the translation at its placeholders and put the originals back, each of them once."""
        restored: list[str | Original] = []
        begin, left = 0, dict(self.originals)
        for found in PLACEHOLDER.finditer(translation):
            if found[0] in left:  # otherwise the text itself looks like a placeholder
                restored += [translation[begin : found.start()], left.pop(found[0])]
                begin = found.end()
        return [*restored, translation[begin:]]

    def write(self, translation: str) -> str:
        """Return the translation in the syntax of the file."""
        return "".join(item if isinstance(item, str) else item.text for item in self.restore(translation))


def document_of(parts: Iterable[str | Inline]) -> Document:
    """Return the document that consists of these parts in this order."""
    parts = list(parts)

    def write(translations: Sequence[str]) -> bytes:
        each = iter(translations)
        return "".join(part if isinstance(part, str) else part.write(next(each)) for part in parts).encode()

    passed, unclear = (sum(isinstance(part, kind) for part in parts) for kind in (Passed, Unclear))
    return Document([part.text for part in parts if isinstance(part, Inline)], write, passed, unclear)


def without_outer_spaces(items: Sequence[str | Original], kind: type[Inline] = Inline) -> list[str | Inline]:
    """Return the items as one text between the spaces before and after it; without words they are not a text."""
    items, before, after = list(items), "", ""
    if isinstance(first := items[0], str):
        items[0] = first.lstrip()
        before = first.removesuffix(items[0])
    if isinstance(last := items[-1], str):
        items[-1] = last.rstrip()
        after = last.removeprefix(items[-1])
    if not "".join(item for item in items if isinstance(item, str)).strip():  # a picture or code alone
        raw = "".join(item if isinstance(item, str) else item.text for item in items)
        return [before, Passed(raw), after] if raw else [before]
    return [before, kind.of(items), after]


def words_of(texts: Sequence[str]) -> str:
    """Join what a reader sees of the texts: everything but placeholders."""
    return " ".join(PLACEHOLDER.sub("", text) for text in texts)


FORMS = {"begin": "<{}>", "end": "</{}>", "word": "{{{}}}", "point": "<{}/>"}
PLACEHOLDER = re.compile(r"</?[a-z]+0\d+/?>|\{[a-z]+0\d+\}")
LONGEST_NAME = 8


def free_name(text: str) -> str:
    """Return a short name that stands nowhere in the text before a 0."""
    text = text.lower()
    longest = max(map(len, re.findall(r"(?<!x)x+(?=0)", text)), default=0)
    if longest < LONGEST_NAME:
        return "x" * (longest + 1)
    taken = set(re.findall(r"(?=([a-z]{5})0)", text))
    return next(name for name in map("".join, product(ascii_lowercase, repeat=5)) if name not in taken)


def placeholder_form(item: Original, items: Sequence[str | Original], number: int) -> str:
    """Return the form of a placeholder. A word that touches another word would be joined to it, so it is a point."""
    left = "".join(one for one in items[max(0, number - 1) : number] if isinstance(one, str))[-1:]
    right = "".join(one for one in items[number + 1 : number + 2] if isinstance(one, str))[:1]
    touches = any(character in GLUE for character in left + right)
    return FORMS["point" if item.kind == "word" and touches else item.kind]


LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|$)")


def lines_of(text: str) -> list[tuple[str, str]]:
    """Return each line and its line ending; joined, they are the text."""
    return [(line, end) for line, end in LINE.findall(text) if line or end]
