"""Which options of a verb go together: each verb has a table of rules, and one function checks them all."""

from collections.abc import Iterable
from dataclasses import dataclass

import typer

from weft.cli.options import NAME_A_MODEL
from weft.errors import UsageError


@dataclass(frozen=True)
class Rule:
    """What must hold where one of `options` is given; without `options`, for every command."""

    options: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    """Options that must not be given as well."""
    needs: tuple[str, ...] = ()
    """Options that must all be given as well."""
    only_with: tuple[str, ...] | None = None
    """The only other options that may be given."""
    why: str = ""
    """What the message ends with."""


SENTENCES_OR_FILE = Rule(("--input",), without=("TEXT",), why="give either sentences or a file of them")
MODEL_NEEDED = Rule(needs=("--model",), why=NAME_A_MODEL)


def check_options(context: typer.Context, rules: Iterable[Rule]) -> None:
    """Raise UsageError for the first rule that the command line breaks."""
    given = given_options(context)
    for rule in rules:
        option = next((name for name in given if name in rule.options), "")
        if rule.options and not option:
            continue
        why = f": {rule.why}" if rule.why else ""
        if rule.only_with is None:
            clashes = [name for name in given if name in rule.without]
        else:
            clashes = [name for name in given if name not in (*rule.options, *rule.only_with)]
        if clashes:
            raise UsageError(f"{option} cannot be combined with {' and '.join(clashes)}{why}")
        if missing := " and ".join(name for name in rule.needs if name not in given):
            raise UsageError(f"{option} needs {missing}{why}" if option else f"missing {missing}{why}")


def given_options(context: typer.Context) -> list[str]:
    """The names, such as --json or TEXT, of the parameters whose value is not the default."""
    given = []
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        if value in (None, (), parameter.default):
            continue
        if parameter.param_type_name == "argument":
            given.append(str(parameter.metavar or parameter.name).upper().removesuffix("..."))
        else:
            given.append((parameter.secondary_opts if value is False else parameter.opts)[0])
    return given
