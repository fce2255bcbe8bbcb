"""`weft ablate`: which key of a recipe makes the difference."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from weft.cli.options import DataRoot, JsonFile, Latex, Markdown, ReportLanguage, Threads
from weft.cli.outputs import refuse_places
from weft.cli.rules import Rule, check_options
from weft.cli.tune import PLAN_ALONE, Cluster, Plan, StudyFolder, Workers, give_study, tell_hours, train_study
from weft.errors import UsageError

Recipes = Annotated[
    list[Path], Argument(metavar="RECIPE [OTHER]", help="A recipe; or two, to find what sets them apart.")
]
Without = Annotated[list[str] | None, Option("--without", metavar="KEY", help="Switch this key off; may be repeated.")]
With = Annotated[list[str] | None, Option("--with", metavar="KEY=VALUE", help="Set this key; may be repeated.")]
Seeds = Annotated[int, Option("--seeds", min=1, max=100, help="Seeds for each recipe: 1, 2, 3, ...")]
Steps = Annotated[int | None, Option("--steps", min=1, help="Updates of each run; by default what the recipe says.")]
Margin = Annotated[float | None, Option("--margin", help="The smallest difference that matters.")]
Bisect = Annotated[
    bool,
    Option("--bisect", help="With two recipes: find one key that makes the difference by bisection, in fewer runs."),
]


def ablate(
    context: typer.Context,
    recipes: Recipes,
    without: Without = None,
    added: With = None,
    bisect: Bisect = False,
    seeds: Seeds = 5,
    steps: Steps = None,
    margin: Margin = None,
    folder: StudyFolder = None,
    data: DataRoot = None,
    workers: Workers = 1,
    cluster: Cluster = False,
    plan: Plan = False,
    json: JsonFile = None,
    markdown: Markdown = None,
    latex: Latex = None,
    language: ReportLanguage = "en",
    threads: Threads = None,
) -> None:
    """Train a recipe without some of its keys, or with others, and say which of them matter.

    With two recipes, train both, and each of them once for every key that differs, with the other recipe's value of
    that key. An ablation is a study: the same command goes on after a stop, and weft tune works on its folder.
    """
    check_options(context, [PLAN_ALONE, Rule(("--plan",), without=("--bisect",))])
    check_recipes(recipes, without or [], added or [], bisect)
    refuse_places({"--json": json, "--markdown": markdown, "--latex": latex}, recipes)
    from weft.cli.displays import PlainDisplay
    from weft.tuning.ablation import Ablation

    display = PlainDisplay()
    ablation = Ablation.of(
        recipes, without or [], added or [], seeds=seeds, steps=steps, margin=margin, folder=folder, data=data
    )
    study = ablation.open(workers, display, ends_alone=bisect)
    if plan:
        tell_hours(study, workers, display)
        return
    train_study(study, workers, cluster, display, threads)
    if bisect:
        typer.echo(ablation.bisect(study, lambda mixed: train_study(mixed, workers, cluster, display), display))
        study = ablation.open(workers, display, ends_alone=True)
    give_study(study, language, json, markdown, latex)


def check_recipes(recipes: list[Path], without: list[str], added: list[str], bisect: bool) -> None:
    if len(recipes) > 2:
        raise UsageError("give one recipe or two; to compare more, write a study for weft tune")
    if len(recipes) == 2 and (without or added):
        raise UsageError("--without and --with change one recipe; between two, every key that differs is tried")
    if len(recipes) == 1 and not without and not added:
        raise UsageError("say what to change: --without KEY, --with KEY=VALUE, or a second recipe")
    if bisect and len(recipes) == 1:
        raise UsageError("--bisect needs two recipes")
