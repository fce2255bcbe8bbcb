"""What every figure is made of: the frame of an SVG with its style in it, and text that is safe and fits."""

import re
import unicodedata
from collections.abc import Sequence
from html import escape
from itertools import accumulate, takewhile

from weft.figures.theme import STYLE


def svg_figure(
    title: str, description: str, body: Sequence[str], width: float, height: float, *, shrinks: bool = True
) -> str:
    """An SVG string that stands inline in HTML or alone in a file, `width` by `height` pixels.

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
    """About how many pixels the text takes at 12 px, measured without a font: full-width characters take a whole em."""
    return sum(12.0 if unicodedata.east_asian_width(letter) in "WF" else 6.8 for letter in text)


def title_width(title: str) -> float:
    """As text_width, of a title, which is bold and of 14 px; in some fonts bold letters are an eighth wider."""
    return text_width(title) * 14 / 12 * 1.12


def fit(text: str, width: float) -> str:
    """The text, or as much of its beginning as these pixels hold."""
    if text_width(text) <= width:
        return text
    room = width - text_width("…")
    widths = accumulate(map(text_width, text))
    return text[: sum(1 for _ in takewhile(lambda taken: taken <= room, widths))] + "…"


def escaped(text: str) -> str:
    """For XML, and without the characters that XML forbids."""
    return escape(FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text))


FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
