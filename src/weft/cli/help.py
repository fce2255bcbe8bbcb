"""What `--help` says of a verb besides its own text: an example, and the kinds of values in plain words."""

from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from typer.core import TyperGroup
from typer.models import OptionInfo

EXAMPLES = {
    "new": "weft new pairs.tsv --to mine.toml",
    "plan": "weft plan mine.toml --seconds 60",
    "prepare": "weft prepare mine.toml --processes 4",
    "train": "weft train mine.toml --set seed=2 --run runs/second",
    "watch": "weft watch runs/mine --until finished",
    "report": "weft report runs/mine --figures figures",
    "tune": "weft tune study.toml --workers 2 --markdown table.md",
    "ablate": "weft ablate mine.toml --without model.dropout --steps 2000",
    "diagnose": "weft diagnose runs/mine",
    "check-gradients": "weft check-gradients mine.toml --set model.norm=post",
    "analyze": "weft analyze --model zh-en 我昨天买了三本书。 --html page.html",
    "translate": "weft translate --model zh-en --input talk.zh --output talk.en",
    "generate": "weft generate 'Once upon a time' --model runs/stories --top-p 0.9",
    "serve": "weft serve --model zh-en --model en-zh",
    "export": "weft export --model runs/mine --to onnx --output mine-onnx",
    "evaluate": "weft evaluate --model runs/mine --data test.tsv",
    "compare": "weft compare runs/old runs/new --data test.tsv",
    "score": "weft score --hypotheses out.en --references test.en --language en",
    "rescore": "weft rescore --model zh-en --reverse en-zh --data valid.tsv --scores lists.jsonl",
    "import": "weft import marian-model --output mine --source zh --target en",
    "doctor": "weft doctor pairs.tsv --source zh --target en",
    "tokenize": "weft tokenize --model zh-en 我昨天买了三本书。",
    "detokenize": "weft detokenize --model zh-en --side target '▁I ▁see .'",
}
KINDS = {int: "N", float: "NUMBER", str: "TEXT", Path: "PATH", bool: ""}
"""Type -> what stands for a value of it."""


class Verbs(TyperGroup):
    """A group of verbs whose help has them under the headings of their panels, each with its whole first sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, verb in self.commands.items():
            panel = getattr(verb, "rich_help_panel", None) or "Commands"
            panels.setdefault(panel, []).append((name, verb.get_short_help_str(limit=1000)))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


def group_of_verbs(text: str) -> typer.Typer:
    """A Typer of verbs. Its help is plain text: at 80 columns a table of Rich cuts off long names of options."""
    return typer.Typer(
        help=text, cls=Verbs, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
    )


def with_plain_values(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Name the value of every option that does not name its own: `N` instead of `<int>`, and nothing for a flag."""
    for annotation in verb.__annotations__.values():
        for option in getattr(annotation, "__metadata__", ()):
            if isinstance(option, OptionInfo) and option.metavar is None:
                option.metavar = kind_of(annotation)
    return verb


def kind_of(annotation: Any) -> str:
    """The kind of value in a word; the choices, where there are some."""
    if get_origin(annotation) is Literal:
        return "|".join(get_args(annotation))
    inside = get_args(annotation)[:1] if get_origin(annotation) is Annotated else get_args(annotation)
    return next((kind_of(inner) for inner in inside if inner is not NoneType), "") or KINDS.get(annotation, "")
