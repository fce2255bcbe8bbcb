"""A table of texts and figures, as plain text, Markdown, LaTeX or HTML. Does not know what the figures are."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape


def signed(number: float, decimals: int) -> str:
    """Format a number with its sign, but never as -0.00."""
    return f"{round(number, decimals) + 0.0:+.{decimals}f}"


WIDTH = 80
"""Columns of a terminal for which text is set."""


@dataclass(frozen=True)
class Table:
    """Rows under a header; every row has as many cells as the header."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: Sequence[str] = ()
    """Lines below the table: signatures, and what was left out and why."""
    texts: frozenset[int] = field(default=frozenset({0}))
    """Columns of text, aligned left; the others are numbers, aligned right."""
    keys: int = 1
    """Number of first columns that tell the rows apart."""

    def text(self, width: int = WIDTH) -> str:
        """Format for a terminal of this width, with aligned columns; Han characters are two columns wide there.

        Columns for which there is no room follow in blocks of their own, each with the keys before them. If the keys
        leave no room, the rows are numbered instead.
        """
        cells = [self.header, *self.rows]
        widths = [max(width_of(row[column]) for row in cells) for column in range(len(self.header))]
        keys = [*range(self.keys)]
        if len(keys) > 1 and sum(widths[key] + 2 for key in keys) + max(widths[self.keys :], default=0) > width:
            rows = [(str(number), *row) for number, row in enumerate(self.rows, start=1)]
            texts = frozenset(column + 1 for column in self.texts)
            return replace(self, header=("#", *self.header), rows=rows, texts=texts, keys=1).text(width)
        blocks = [[*keys]]
        for column in range(self.keys, len(self.header)):
            taken = sum(widths[other] + 2 for other in blocks[-1]) + widths[column]
            if taken > width and len(blocks[-1]) > self.keys:
                blocks.append([*keys])
            blocks[-1].append(column)
        lines = [
            line
            for block in blocks
            for line in (
                *([""] if block != blocks[0] else []),
                *(
                    "  ".join(padded(row[column], widths[column], column in self.texts) for column in block).rstrip()
                    for row in cells
                ),
            )
        ]
        notes = [wrapped(note, width) for note in self.notes]
        return "\n".join([*([self.title] if self.title else []), *lines, *notes])

    def markdown(self) -> str:
        """Format as a heading, a table and its notes in GitHub's Markdown."""
        rules = ["---" if column in self.texts else "---:" for column in range(len(self.header))]
        rows = [[in_markdown(cell) for cell in row] for row in (self.header, *self.rows)]
        lines = [f"| {' | '.join(row)} |" for row in (rows[0], rules, *rows[1:])]
        notes = [f"- {in_markdown(note)}" for note in self.notes]
        return "\n".join(
            [*([f"### {in_markdown(self.title)}", ""] if self.title else []), *lines, *(["", *notes] if notes else [])]
        )

    def latex(self) -> str:
        """Format as a `table` for booktabs; Han characters need XeLaTeX or LuaLaTeX with a CJK font."""
        columns = "".join("l" if column in self.texts else "r" for column in range(len(self.header)))
        cells = [
            [in_latex(cell if column in self.texts else MINUS.sub("−", cell)) for column, cell in enumerate(row)]
            for row in (self.header, *self.rows)
        ]
        # {}: a row that begins with [ or * would be read as an argument of the \\ before it.
        rows = ["{}" + " & ".join(row) + r" \\" for row in cells]
        notes = [rf"\par\footnotesize {in_latex(note)}" for note in self.notes]
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{in_latex(self.title)}}}",
                rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                rows[0],
                r"\midrule",
                *rows[1:],
                r"\bottomrule",
                r"\end{tabular}",
                *notes,
                r"\end{table}",
            ]
        )

    def html(self) -> str:
        """A table with its notes below it; text may be of any language and direction.

        Signatures are long and have no spaces: they may break after each part.
        """

        def cells(row: tuple[str, ...], tag: str) -> str:
            kinds = (' dir="auto"' if column in self.texts else ' class="number"' for column in range(len(row)))
            texts = (escape(cell).replace("|", "|<wbr>") for cell in row)
            return "".join(f"<{tag}{kind}>{text}</{tag}>" for text, kind in zip(texts, kinds, strict=True))

        rows = "\n".join(f"<tr>{cells(row, 'td')}</tr>" for row in self.rows)
        notes = "\n".join(f'<p class="note">{escape(note)}</p>' for note in self.notes)
        return (
            f'<div class="scroll"><table>\n<thead><tr>{cells(self.header, "th")}</tr></thead>\n'
            f"<tbody>\n{rows}\n</tbody></table></div>\n{notes}"
        )


def wrapped(line: str, width: int = WIDTH, hang: int = 2) -> str:
    """The line, broken at its spaces into lines of at most this width, of which all but the first are indented."""
    lines = [line[: len(line) - len(line.lstrip())]]
    for word in re.findall(r"\S+\s*", line):
        if width_of(lines[-1] + word.rstrip()) > width and lines[-1].strip():
            lines.append(" " * hang)
        lines[-1] += word
    return "\n".join(text.rstrip() for text in lines)


def width_of(text: str) -> int:
    """The columns that a text takes in a terminal."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines with aligned columns of text."""
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(padded(*cell, True) for cell in zip(row, widths, strict=True)).rstrip() for row in rows]


def padded(text: str, width: int, is_left: bool) -> str:
    space = " " * (width - width_of(text))
    return text + space if is_left else space + text


def in_markdown(text: str) -> str:
    r"""Escape Markdown syntax. A cell of a table ends at any bar, even one within `code`."""
    return MARKUP.sub(r"\\\g<0>", " ".join(text.splitlines()))


MARKUP = re.compile(r"[\\`*_<>|\[\]~$]|&(?=[#\w])")


def in_latex(text: str) -> str:
    """Escape LaTeX commands and ligatures, such as the hyphens of --train, which would become a dash."""
    escaped = "".join(LATEX.get(character, character) for character in " ".join(text.splitlines()))
    return re.sub("-(?=-)", "-{}", escaped)


LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "−": "$-$",
    "→": r"$\rightarrow$",
    "≤": r"$\le$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}

MINUS = re.compile(r"(?<!\w)-(?=\d)")
"""The hyphen of a number; that of a name such as zh-2 follows a letter."""
