"""What a figure was measured on, and with which weft; and where figures are kept: one JSON object a line."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from weft.runtime import choose_device, describe_machine

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"

LANGUAGES = ("en", "zh")
"""Of the docs."""
SEPARATORS = {"en": ", ", "zh": "、"}
"""Between the members of a list."""
WIDTHS = {"cpu": 2048, "cuda": 8192}
"""Of the square matrices whose product counts as the most that a device can do."""

Line = dict[str, Any]


def circumstances() -> Line:
    """What belongs to every figure: when, with which weft, on which machine."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "cores": os.cpu_count(),
        **{key: value for key, value in describe_machine().items() if key not in ("threads", "system")},
    }


def new_session() -> Line:
    """`circumstances`, and what tells the lines that are measured together from others: the second they began in."""
    return {"session": datetime.now(UTC).isoformat(timespec="seconds"), **circumstances()}


def name_of_machine(line: Line) -> str:
    """What a line was measured on: the processor, or the GPU where there was one."""
    return line["processor"] if line["device"] == "cpu" else line["device"]


def commit() -> str:
    """The commit that is checked out, with a + where files of src/ differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout

    try:
        return git("rev-parse", "--short", "HEAD").strip() + (
            "+" if git("status", "--porcelain", "src").strip() else ""
        )
    except (OSError, subprocess.CalledProcessError):  # a copy without its history
        return "unknown"


def environment(threads: int, data_root: Path) -> dict[str, str]:
    """The environment of a program that is measured: this many threads, whichever library makes them."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(names, str(threads)), "WEFT_DATA": str(data_root.resolve())}


def peak_gflops(dtype: torch.dtype, threads: int) -> float:
    """The best of several products of two square matrices: 2 n^3 operations, in 10^9 a second."""
    device = choose_device()
    seconds = 3.0 if device.type == "cpu" else 0.5
    torch.set_num_threads(threads)
    width = WIDTHS[device.type]
    a, b = (torch.randn(width, width, device=device).to(dtype) for _ in range(2))
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        torch.mm(a, b)
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begin)
    return 2 * width**3 / best / 1e9


def read_lines(path: Path) -> list[Line]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def last_session(lines: list[Line]) -> list[Line]:
    """Those that were measured together with the last one; ends the program where there is none."""
    if not lines:
        raise SystemExit("no measurement yet")
    return [line for line in lines if line["session"] == lines[-1]["session"]]


def append_line(path: Path, line: Line) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def fill_page(name: str, marker: str, texts: dict[str, str]) -> None:
    """Put a text for each language between `<!-- MARKER -->` and `<!-- end of MARKER -->` of docs/LANGUAGE/NAME."""
    for language, text in texts.items():
        path = ROOT / "docs" / language / name
        before, begin, rest = path.read_text(encoding="utf-8").partition(f"<!-- {marker} -->\n")
        _, end, after = rest.partition(f"<!-- end of {marker} -->")
        if not (begin and end):
            raise SystemExit(f"{path} has no place for {marker}")
        path.write_text(f"{before}{begin}\n{text.strip()}\n\n{end}{after}", encoding="utf-8")


def show_last_session(
    path: Path, table: Callable[[list[Line], str], str], page: str, marker: str, *, docs: bool
) -> None:
    """Print the English table of the lines that were written last; with `docs`, put both into the pages."""
    session = last_session(read_lines(path))
    tables = {language: table(session, language) for language in LANGUAGES}
    print(tables["en"])
    if docs:
        fill_page(page, marker, tables)


def markdown_table(header: list[str], rows: list[list[str]], *, text_columns: int = 1) -> str:
    """The first `text_columns` columns left-aligned, the numbers after them right-aligned."""
    rule = ["---"] * text_columns + ["---:"] * (len(header) - text_columns)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, rule, *rows])


def spread(values: list[float], form: str) -> str:
    """The median with the least and the most; of one value, the value."""
    middle = format(statistics.median(values), form)
    return middle if len(values) == 1 else f"{middle} [{min(values):{form}}, {max(values):{form}}]"


def say(text: str) -> None:
    """Progress, which is no data."""
    print(text, file=sys.stderr, flush=True)
