"""An HTML page that needs no network: its style and figures are in it."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from weft.errors import UsageError
from weft.figures.table import Table
from weft.figures.words import Say, say_from


def page_of_tables(kind: str, title: str, subtitle: str, tables: Sequence[Table], *, made_by: str) -> str:
    """A page with a section for each table, made by the command `made_by`; all other arguments are text."""
    sections = (f"<section>\n<h2>{escape(table.title)}</h2>\n{table.html()}\n</section>" for table in tables)
    footer = f"Written by <code>{escape(made_by)}</code>."
    return page(kind=kind, title=title, subtitle=subtitle, main="\n".join(sections), footer=footer)


def page(
    *, kind: str, title: str, subtitle: str, main: str, footer: str, header: str = "", language: str = "en"
) -> str:
    """The whole page; `main`, `footer` and `header`, which follows the subtitle, are HTML, the rest is text."""
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    written = f"""<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)} · {escape(kind)}</title>
<style>
{style}</style>
</head>
<body>
<header>
<p class="kicker">{escape(kind)}</p>
<h1>{escape(title)}</h1>
<p class="subtitle">{escape(subtitle)}</p>
{header}</header>
<main>
{main}
</main>
<footer>{footer}</footer>
</body>
</html>
"""
    # A lone surrogate, which no file can hold, must not lose the user the whole page.
    return written.encode("utf-8", errors="replace").decode("utf-8")


def say_in(language: str) -> Say:
    """The words of reports in a language, "en" or "zh". Raises UsageError for another."""
    if language not in ("en", "zh"):
        raise UsageError(f'language {language!r}: expected "en" or "zh"')
    return say_from(Path(__file__).parent, "report", language)
