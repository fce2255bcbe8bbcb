"""`weft check-gradients`: whether the gradients that training follows are right."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from weft.cli.options import JsonFile, Overrides, Threads
from weft.cli.outputs import give_results, refuse_place
from weft.errors import WeftError


def check_gradients(
    model: Annotated[str, Argument(metavar="MODEL|RECIPE", help="A model, a run or a recipe.", show_default=False)],
    overrides: Overrides = None,
    json: JsonFile = None,
    threads: Threads = None,
) -> None:
    """Compare all gradients of a network with central differences, in float64. Exits with 1 if one is wrong.

    Of a recipe it is the network that it describes, with new weights and a small vocabulary.
    """
    refuse_place("--json", json, [Path(model)])
    from weft.analysis.gradient_check import TOLERANCE, check_model

    found = check_model(model, overrides or ())
    give_results(found.table(), found.as_dict(), json)
    if wrong := found.wrong:
        places = "".join(f"\n  {each.part}: {each.place} ({each.error:.1e})" for each in wrong[:5])
        raise WeftError(f"{len(wrong)} gradients are wrong by more than {TOLERANCE:g}, the innermost first:{places}")
