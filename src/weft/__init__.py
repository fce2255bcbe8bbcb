"""weft trains, tunes, explains and serves small sequence models, Chinese <-> English translation first.

    translator = weft.load("runs/zh-en")
    translator.translate(["你好。"])[0].text

Importing weft imports nothing heavy; the names below come from their rooms when they are first used.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Translator", "__version__", "load", "report", "train"]

if TYPE_CHECKING:
    from weft.analysis.report import write_report as report
    from weft.tasks.training import train
    from weft.tasks.translation import Translator

    load = Translator.load


def __getattr__(name: str) -> Any:
    if name == "train":
        from weft.tasks.training import train

        return train
    if name in ("Translator", "load"):
        from weft.tasks.translation import Translator

        return Translator if name == "Translator" else Translator.load
    if name == "report":
        from weft.analysis.report import write_report

        return write_report
    raise AttributeError(f"module 'weft' has no attribute {name!r}")
