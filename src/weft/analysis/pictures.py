"""Write figures as files: SVG, and with the extra [figures] also PNG and PDF."""

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from weft.errors import UsageError
from weft.files import staged_file, write_atomically

PIXELS_PER_INCH = 216
"""Resolution of a PNG. At 72 it would have as many pixels as the SVG."""
MEDIA = re.compile(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*\s*\}")
VARIABLE = re.compile(r"(--[\w-]+):([^;}]+)")
UNSAFE = re.compile(r"[^\w.-]")
"""What is a hyphen in the name of a file: a figure may be called after a metric in somebody else's log."""
LONGEST_NAME = 60
"""Letters, which take up to 4 bytes each; a file system allows 255 bytes."""


def write_pictures(folder: Path, figures: Mapping[str, str]) -> list[Path]:
    """Write each SVG under its name into a folder, which is made if it is missing: NAME.svg, NAME.png, NAME.pdf.

    Without the library typst there are only the SVGs. Raises UsageError if the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the folder {folder} cannot be made: {error.strerror}") from None
    written = []
    for name, svg in figures.items():
        path = folder / f"{UNSAFE.sub('-', name)[:LONGEST_NAME]}.svg"
        path = path if path not in written else path.with_stem(f"{path.stem}-{len(written)}")
        write_atomically(path, f'<?xml version="1.0" encoding="UTF-8"?>\n{svg}\n')
        written.append(path)
        for suffix, content in rendered(svg).items():
            with staged_file(path.with_suffix(suffix)) as staged:
                staged.write_bytes(content)
            written.append(path.with_suffix(suffix))
    return written


def can_render() -> bool:
    try:
        import typst  # noqa: F401
    except ImportError:
        return False
    return True


def rendered(svg: str) -> dict[str, bytes]:
    """The figure as .png and .pdf, in the colors for light ground; empty without the library."""
    if not can_render():
        return {}
    import typst

    with tempfile.TemporaryDirectory() as home:
        Path(home, "figure.svg").write_text(in_light(svg), encoding="utf-8")
        page = Path(home, "figure.typ")
        page.write_text('#set page(width: auto, height: auto, margin: 6pt)\n#image("figure.svg")\n', encoding="utf-8")
        png = typst.compile(os.fspath(page), format="png", ppi=PIXELS_PER_INCH)
        return {".png": png, ".pdf": typst.compile(os.fspath(page), format="pdf")}


def in_light(svg: str) -> str:
    """The SVG without media queries and variables, which only browsers know."""
    svg = MEDIA.sub("", svg)
    values = dict(VARIABLE.findall(svg))
    return re.sub(r"var\((--[\w-]+)\)", lambda found: values[found[1]], svg)
