"""`weft doctor`: what a bug report needs to know about this machine."""

from typing import Annotated

import typer

from weft.errors import UsageError


def doctor(
    machine: Annotated[bool, typer.Option("--machine", help="Describe this machine and what weft runs on.")] = False,
) -> None:
    """Describe this machine: versions, processor, device, threads."""
    if not machine:
        raise UsageError("say what to look at: weft doctor --machine")
    from weft.runtime import describe_machine

    facts = describe_machine()
    width = max(map(len, facts))
    for name, value in facts.items():
        typer.echo(f"{name:<{width}}  {value}")
