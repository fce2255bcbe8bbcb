"""The frame of an SVG with its style, and text that is escaped and fits."""

import re
import unicodedata
from collections.abc import Sequence
from html import escape
from itertools import accumulate, takewhile

from weft.figures.theme import STYLE


def svg_figure(
    title: str, description: str, body: Sequence[str], width: float, height: float, *, shrinks: bool = True
) -> str:
    """Return an SVG string that works inline in HTML and alone in a file, `width` by `height` pixels.

    Screen readers get title and description; no id is needed for it, so equal figures may stand on one page. It shrinks
    with its container unless that would make it illegible.
    """
    look, style = ("weft-figure shrinks", ' style="max-width:100%;height:auto"') if shrinks else ("weft-figure", "")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{look}" role="img" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}"{style} '
        f'aria-label="{escaped(f"{title}. {description}")}">\n'
        f"<title>{escaped(title)}</title>\n"
        f"<desc>{escaped(description)}</desc>\n"
        f"<style>{STYLE}</style>\n" + "\n".join(body) + "\n</svg>"
    )


def text_width(text: str) -> float:
    """Estimate the width in pixels at 12 px, without a font: full-width characters take a whole em."""
    return sum(12.0 if unicodedata.east_asian_width(letter) in "WF" else 6.8 for letter in text)


def title_width(title: str) -> float:
    """Estimate the width of a title, which is bold and 14 px high; in some fonts bold is an eighth wider."""
    return text_width(title) * 14 / 12 * 1.12


def fit(text: str, width: float) -> str:
    """Return the text, cut with an ellipsis if it is wider than `width` pixels."""
    if text_width(text) <= width:
        return text
    room = width - text_width("…")
    widths = accumulate(map(text_width, text))
    return text[: sum(1 for _ in takewhile(lambda taken: taken <= room, widths))] + "…"


def escaped(text: str) -> str:
    """Escape text for XML and replace the characters that XML forbids."""
    return escape(FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text))


FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
