"""weft trains, tunes, explains and serves small sequence models, Chinese <-> English translation first.

    translator = weft.load("runs/zh-en")
    translator.translate(["你好。"])[0].text

Importing weft imports nothing heavy; the names below come from their rooms when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.version import __version__

__all__ = ["Translator", "__version__", "load", "report", "train"]

if TYPE_CHECKING:
    from weft.analysis.report import write_report as report
    from weft.runs.train import train
    from weft.tasks import load
    from weft.translating.translator import Translator

HOMES = {
    "Translator": ("weft.translating.translator", "Translator"),
    "load": ("weft.tasks", "load"),
    "report": ("weft.analysis.report", "write_report"),
    "train": ("weft.runs.train", "train"),
}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    module, attribute = HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
