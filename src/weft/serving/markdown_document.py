"""Reads Markdown: which of a file is text to translate, and the same file with translations.

markdown-it-py finds the blocks, and the syntax within their text: CommonMark 0.31 with tables, strikethrough and
footnotes. The rest of the file stays byte for byte: code, link targets, escaped characters, front matter, indentation
and the marks of headings, lists, quotations and tables. The lines of a paragraph become one text and one line. A link
whose label is also its target is written with the target spelled out, since the label is translated.
"""

import re
from collections import ChainMap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, TypeGuard

from markdown_it import MarkdownIt, helpers
from markdown_it.common.utils import normalizeReference
from markdown_it.helpers import parseLinkDestination
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline, image, link
from markdown_it.rules_inline.state_inline import Scanned
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin

from weft.serving.document_parts import (
    Document,
    Inline,
    Original,
    Passed,
    Unclear,
    document_of,
    lines_of,
    without_outer_spaces,
)
from weft.serving.html_document import html_parts
from weft.text.chinese import HAN
from weft.text.japanese import KANA

FRONT_MATTER = ("---", "+++")
DEEPEST_BLOCK, DEEPEST_SPAN = 100, 4
"""Levels of nested lists and quotations, and of nested links. The parser's time grows with the second."""
HEADING = re.compile(r"[^#]*#{1,6}\s*")
CONTAINERS = re.compile(r"\s*(?:(?:>|(?:[-*+]|\d{1,9}[.)])(?=\s))\s*)*")
"""The marks of quotations and list items before a row of a table."""
ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:\s+|$)")
TASK = re.compile(r"\[[ xX]\]\s+")
NOTE = re.compile(r"\[\^[^\[\]\s]+\]")
LABEL = re.compile(r"\[([^\[\]\n]+)\]")
LINE_END = re.compile(r"(?<![ \t])[ \t]*+\n[ \t]*")
WITHIN_CHINESE = re.compile(r"(?<=[{0}])\n(?=[{0}])".format(f"{HAN}{KANA}・゠\u3001-\u303f\uff01-\uff60"))
"""The end of a line where no space belongs."""


def read_markdown(text: str) -> Document:
    lines = lines_of(text)
    fence = lines[0][0].strip() if lines else ""
    closing = (number for number, (line, _) in enumerate(lines[1:], 2) if line.rstrip() == fence)
    first = next(closing, 0) if fence in FRONT_MATTER else 0
    return document_of([kept(lines[:first]), *parts_of(lines[first:])])


def kept(lines: Sequence[tuple[str, str]]) -> str:
    """Lines that are not translated: code, front matter, definitions of links, or only marks."""
    text = "".join(line + end for line, end in lines)
    return Passed(text) if any(map(str.isalpha, text)) else text


def parts_of(lines: Sequence[tuple[str, str]]) -> Iterator[str | Inline]:
    parser = MarkdownIt("commonmark", {"maxNesting": DEEPEST_BLOCK})
    parser.inline = SpanParser()
    # A link is looked for again from within each that could hold it: 40,000 times "![a](" took four times as long.
    cached: Any = SimpleNamespace(**{**vars(helpers), "parseLinkDestination": lru_cache(parseLinkDestination)})
    parser.helpers = cached
    parser.enable("table").disable("linkify").use(footnote_plugin, inline=False, move_to_end=False)
    parser.inline.ruler.at("footnote_ref", note)  # its own takes the square of the number of unfinished notes
    parser.core.ruler.enableOnly(["normalize", "block"])
    env: dict[str, Any] = {"references": {}}
    source = "\n".join(line for line, _ in lines)
    if "][" in source:
        parser.inline.ruler.after("image", "undefined_reference", undefined_reference)
    tokens = parser.parse(source, env)
    parser.options["maxNesting"] = DEEPEST_SPAN
    done = 0
    for opening, token in zip([None, *tokens], tokens, strict=False):
        if token.type not in ("inline", "tr_open", "html_block") or not token.map or token.map[0] < done:
            continue  # cells are read with their row
        begin, end = token.map
        yield kept(lines[done:begin])
        done = end
        if token.type == "html_block":
            yield from html_block_parts(token.content, lines[begin:end])
        elif token.type == "tr_open":
            yield from row_parts(*lines[begin], parser, env)
        else:
            is_heading = opening is not None and opening.markup.startswith("#")
            words_of = token.content.split("\n")
            # The parser leaves out lines that are white space of Unicode, such as U+3000, before the text and after it.
            ending = words_of[0].rstrip()
            first = next((n for n in range(begin, end) if lines[n][0].rstrip().endswith(ending)), begin)
            last = min(end, first + len(words_of))
            yield kept(lines[begin:first])
            cut = [
                cut_line(line, words.strip(), line_end, is_heading=is_heading)
                for (line, line_end), words in zip(lines[first:last], words_of, strict=False)
            ]
            for group in between_items(cut):
                yield from text_parts(group, parser, env)
            done = last
    yield kept(lines[done:])


# Blocks


class Line(NamedTuple):
    before: str
    words: str
    after: str


def cut_line(line: str, words: str, end: str, *, is_heading: bool) -> Line:
    """Cut a line of a block, of which the parser tells the words, into what comes before, in and after its text."""
    if not is_heading:
        place = len(line.rstrip()) - len(words)
        return Line(line[:place], line[place:], end)
    found = HEADING.match(line)
    place = found.end() if found else 0
    return Line(line[:place], line[place : place + len(words)], line[place + len(words) :] + end)


def between_items(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Split a paragraph where a line begins like a list item, though it is indented too far or numbered too high to be
    one; such marks, and boxes to tick, are not part of the text."""
    group: list[Line] = []
    for line in lines:
        item = ITEM.match(line.words) if group else None
        task = TASK.match(line.words, item.end() if item else 0)
        place = task.end() if task else item.end() if item else 0
        if item and group:
            yield group
            group = []
        group.append(Line(line.before + line.words[:place], line.words[place:], line.after))
    yield group


def text_parts(lines: Sequence[Line], parser: MarkdownIt, env: dict[str, Any]) -> Iterator[str | Inline]:
    """The parts of some lines of one paragraph or heading; a hard line break ends a text, as <br> does."""
    breaks = [line.after + following.before for line, following in pairwise(lines)]
    yield lines[0].before
    yield from between_breaks(items_of("\n".join(line.words for line in lines), breaks, parser, env))
    yield lines[-1].after


def row_parts(line: str, end: str, parser: MarkdownIt, env: dict[str, Any]) -> Iterator[str | Inline]:
    """The cells of a row of a table. A border in code is not one, though GitHub takes it for one."""
    containers = CONTAINERS.match(line)
    begin = containers.end() if containers else 0
    yield line[:begin]
    items: list[str | Original | Break] = []
    for item in items_of(line[begin:], (), parser, env):
        cells = item.split("|") if isinstance(item, str) else [item]
        items += [part for cell in cells for part in (Break("|"), cell)][1:]
    yield from between_breaks(items)
    yield end


def html_block_parts(content: str, lines: Sequence[tuple[str, str]]) -> Iterator[str | Inline]:
    """The parts of a block of HTML, of which the parser tells the content without the marks of its containers. These
    are written for each line as they are for the last."""
    words = content.rstrip("\n").split("\n")
    # The parser writes a tab of which a list takes a part as spaces.
    words = [word if line.endswith(word) else word.lstrip(" ") for word, (line, _) in zip(words, lines, strict=False)]
    parts = html_parts("\n".join(words))
    if not any(isinstance(part, Inline) for part in parts):
        kinds = {type(part) for part in parts}
        kind = Unclear if Unclear in kinds else Passed if Passed in kinds else str
        yield kind("".join(line + end for line, end in lines))
        return
    (first, first_end), (last, last_end) = lines[0], lines[len(words) - 1]
    between = first_end + last.removesuffix(words[-1])
    yield first.removesuffix(words[0])
    yield from (type(part)(part.replace("\n", between)) if isinstance(part, str) else part for part in parts)
    yield last_end + "".join(line + end for line, end in lines[len(words) :])


# Within a text


@dataclass(frozen=True)
class Break:
    """The end of one text and the begin of another in the same block, and what is written there."""

    text: str


def between_breaks(items: Sequence[str | Original | Break]) -> Iterator[str | Inline]:
    for is_break, group in groupby(items, lambda item: isinstance(item, Break)):
        if is_break:
            yield from (item.text for item in group if isinstance(item, Break))
        else:
            yield from without_outer_spaces([item for item in group if not isinstance(item, Break)], MarkdownInline)


def items_of(
    source: str, breaks: Sequence[str], parser: MarkdownIt, env: dict[str, Any]
) -> list[str | Original | Break]:
    """Cut a text into words and syntax; `breaks` are what is written at the ends of its lines that are kept."""
    items: list[str | Original | Break] = []
    place, counted, line, words, depth = 0, 0, 0, "", 0
    for token in parser.inline.parse(source, parser, env, []):
        kind = kind_of(token)
        if kind is None:
            continue
        begin, end = place_of(token)
        line += source.count("\n", counted, begin)
        counted = begin
        words += source[place:begin]
        place, mark = end, source[begin:end]
        depth += token.nesting if token.type.startswith("link") and token.markup != "autolink" else 0
        if kind == "break" and depth:
            words += "\n"
            continue
        items.append(joined(words))
        words = ""
        if kind == "break":
            items.append(Break(mark.rstrip() + breaks[line]))
        elif token.type == "link_close" and mark in ("]", "][]"):
            items.append(Original(f"][{joined(token.meta['label'])}]", "end"))
        else:
            items.append(Original(joined(mark), kind))
    words += source[place:]
    is_open = words.endswith("\\")
    return [*items, joined(words.removesuffix("\\")), *([Break("\\")] if is_open else [])]


def joined(text: str) -> str:
    """Join lines, with a space where their language has one."""
    return WITHIN_CHINESE.sub("", LINE_END.sub("\n", text)).replace("\n", " ")


WORDS = ("code_inline", "image", "footnote_ref")


def kind_of(token: Token) -> Literal["begin", "end", "word", "break"] | None:
    """Return what a token is within a text; None if it is part of the text."""
    if not token.meta or token.type == "text":
        return None
    if token.type in WORDS or token.markup == "autolink" or token.info == "escape":
        return "word"
    if token.type == "hardbreak":
        return "break"
    return "begin" if token.nesting == 1 else "end" if token.nesting == -1 else None


def place_of(token: Token) -> tuple[int, int]:
    begin, end = token.meta["place"]
    if token.type == "strong_open":
        return begin - 1, end  # of its two signs the token has the place of the inner one
    return (begin, end + 1) if token.type == "strong_close" else (begin, end)


class SpanParser(ParserInline):
    """markdown-it-py's parser of what stands within a block; its tokens get their places in the source."""

    def parse(self, src: str, md: MarkdownIt, env: Any, tokens: list[Token]) -> list[Token]:
        state = SpanState(src, md, env, tokens)
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens

    def tokenize(self, state: StateInline) -> None:
        rules = self.ruler.getRules("")
        is_deep = state.level >= state.md.options["maxNesting"]
        while state.pos < state.posMax:
            begin, known = state.pos, len(state.tokens)
            for rule in () if is_deep else rules:
                if rule(state, False):
                    break
            else:
                state.append_pending(state.src[begin])
                state.pos += 1
            if len(state.tokens) > known:
                set_places(state, begin, state.tokens[known:])
        if state.pending:
            state.pushPending()


def set_places(state: StateInline, begin: int, tokens: Sequence[Token]) -> None:
    """Tell the tokens that one rule has written from `begin` on where their syntax stands."""
    last, end = tokens[-1], state.pos
    if last.type == "text":  # signs of emphasis, one or two a token
        for token in reversed(tokens):
            place = end - len(token.content)
            token.meta = {"place": (place, end)}
            end = place
            if end == begin:
                break
    elif last.type == "link_close" and last.markup != "autolink":
        label_end = state.md.helpers.parseLinkLabel(state, begin, True)
        opening = next(token for token in tokens if token.type == "link_open")
        opening.meta = {"place": (begin, begin + 1)}
        last.meta = {"place": (label_end, end), "label": state.src[begin + 1 : label_end]}
    else:
        last.meta = {**last.meta, "place": (begin, end)}


class SpanState(StateInline):
    def scanDelims(self, start: int, canSplitWord: bool) -> Scanned:
        """Whether emphasis may begin and end at these signs. Punctuation does not matter, unlike in CommonMark, where
        **注意：**请 is not emphasis."""
        end = start + super().scanDelims(start, canSplitWord).length
        before = self.src[start - 1 : start]
        behind = self.src[end] if end < self.posMax else ""
        return Scanned(
            bool(behind.strip()) and (canSplitWord or not before.isalnum()),
            bool(before.strip()) and (canSplitWord or not behind.isalnum()),
            end - start,
        )


def note(state: StateInline, silent: bool) -> bool:
    """A rule for the mark of a footnote, defined or not."""
    found = NOTE.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        state.push("footnote_ref", "", 0)
    state.pos = found.end()
    return True


def undefined_reference(state: StateInline, silent: bool) -> bool:
    """A rule for [text][label] and ![text][label] where the label may be defined in another file, or by a plugin."""
    begin = state.src.find("[", state.pos, state.pos + 2)
    rule = link if begin == state.pos else image
    end = state.md.helpers.parseLinkLabel(state, begin, rule is link) if begin >= 0 else -1
    label = LABEL.match(state.src, end + 1) if end >= 0 else None
    if label is None:
        return False
    references = state.env["references"]
    state.env["references"] = ChainMap({normalizeReference(label[1]): {"href": "#", "title": ""}}, references)
    is_found = rule(state, silent)
    state.env["references"] = references
    return is_found


class MarkdownInline(Inline):
    def restore(self, translation: str) -> list[str | Original]:
        """Put the originals back, with `*` for `_` where a mark came to stand in a word: there `_` is not a mark, and
        Chinese has no spaces between words."""
        restored = super().restore(translation)
        if not any(stands_in_word(restored, number) for number in range(1, len(restored), 2)):
            return restored
        return [Original("*" * len(item.text), item.kind) if is_underscore(item) else item for item in restored]


def stands_in_word(restored: Sequence[str | Original], number: int) -> bool:
    mark = restored[number]
    if not is_underscore(mark):
        return False
    neighbor = restored[number - 1] if mark.kind == "begin" else restored[number + 1]
    return isinstance(neighbor, str) and (neighbor[-1:] if mark.kind == "begin" else neighbor[:1]).isalnum()


def is_underscore(item: str | Original) -> TypeGuard[Original]:
    return isinstance(item, Original) and item.text in ("_", "__")
