"""What the benchmarks have in common that measure each of several models on zh-en-50k/valid.tsv, one after another."""

import argparse
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.machine import Line, append_line, circumstances, show_last_session

from weft.folders.finding import find_model
from weft.translating.loading import load_translator
from weft.translating.translator import Translator

FILE = "zh-en-50k/valid.tsv"


def measure_each(
    about: str | None,
    lines: Path,
    page: str,
    measure: Callable[[Translator, Path], Iterable[Line]],
    table: Callable[[list[Line], str], str],
) -> None:
    """The command of such a benchmark: every line that `measure` gives of a model, with the folder of the data, goes
    into `lines`; then the table of the last session is shown, and with --docs put into the page."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="a model's name, or a folder")
    parser.add_argument("--data", type=Path, default=os.environ.get("WEFT_DATA"), help="where zh-en-50k lies")
    parser.add_argument("--docs", action="store_true", help="also put the last session's table into the docs")
    options = parser.parse_args()
    if options.models and options.data is None:
        parser.error("say where zh-en-50k lies: --data DIR, or WEFT_DATA in the environment")
    session = time.strftime("%Y-%m-%dT%H:%M:%S")
    for name in options.models:
        translator = load_translator(find_model(name))
        facts = {**circumstances(), "session": session, "model": Path(name).name, "file": FILE}
        for line in measure(translator, options.data):
            append_line(lines, {**facts, **line})
    show_last_session(lines, table, page, lines.stem, docs=options.docs)
