"""`weft inspect`: what is inside a model: its attention heads, positions, layers, embeddings and errors."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from weft.cli.analyze import write_figures
from weft.cli.displays import Counter
from weft.cli.help import group_of_verbs
from weft.cli.loading import note_opened, require_task
from weft.cli.options import A_MODEL, Figures, JsonFile, Pairs, TakesPairs, Threads
from weft.cli.outputs import give_results, refuse_place
from weft.cli.rules import Rule, check_options

if TYPE_CHECKING:
    from weft.figures.table import Table
    from weft.translating.translator import Translator

app = group_of_verbs("Look into a model: heads, positions, layers, embeddings, errors.")

Model = Annotated[str, typer.Argument(metavar="MODEL", help=A_MODEL)]
Prune = Annotated[
    float | None,
    typer.Option("--prune", metavar="SHARE", min=0.0, max=1.0, help="Cut out this share of the heads, such as 0.5."),
]
By = Annotated[
    Literal["gradient", "ablation"],
    typer.Option("--by", help="Measure of importance that decides which heads are cut out."),
]
Output = Annotated[Path | None, typer.Option("--output", help="The folder to make of the model with fewer heads.")]
PRUNING = [
    Rule(("--prune",), needs=("--output",), why="the model with fewer heads is written there"),
    Rule(("--by", "--output"), needs=("--prune",), why="they are about the heads to cut out"),
]


@app.command(cls=TakesPairs)
def heads(
    context: typer.Context,
    model: Model,
    data: Pairs,
    prune: Prune = None,
    by: By = "ablation",
    output: Output = None,
    json: JsonFile = None,
    figures: Figures = None,
    threads: Threads = None,
) -> None:
    """Measure how much each attention head matters on pairs, what it reads, and cut out the least important ones.

    Cutting makes a new, smaller model folder. Train it further with training.init, and export it to ONNX, as any other.
    """
    check_options(context, PRUNING)
    translator = opened(model, "inspect heads", json, data)
    from weft.analysis.inspection import head_figures
    from weft.evaluating.heads import examine_heads, to_prune, transformer_of
    from weft.files import refuse_existing_folder
    from weft.folders.pruning import save_pruned
    from weft.models.pruning import heads_of

    if output is not None:
        refuse_existing_folder(output)
    if prune is not None:
        to_prune(dict.fromkeys(heads_of(transformer_of(translator, "weft inspect heads")), 0.0), prune)  # not too many
    found = examine_heads(translator, given_pairs(translator, data), Counter("heads left out", "heads"))
    tables, content = found.tables(), found.as_dict()
    if prune is not None and output is not None:
        chosen = to_prune(found.importance[by], prune)
        smaller = save_pruned(model, translator.model, chosen, output)
        before, after = translator.model.count_parameters(), smaller.count_parameters()
        content["pruned"] = {"heads": len(chosen), "by": by, "parameters": [before, after]}
        typer.echo(f"{output}: {smaller.recipe.model.describe()}; {before:,} -> {after:,} parameters", err=True)
    give(tables, content, json, figures, lambda: head_figures(found))


@app.command()
def positions(model: Model, json: JsonFile = None, figures: Figures = None) -> None:
    """Compare position encodings at the width of a model: sinusoidal, scaled-sinusoidal, and its learned vectors."""
    translator = opened(model, "inspect positions", json, [])
    from weft.analysis.inspection import position_figures
    from weft.evaluating.heads import transformer_of
    from weft.evaluating.positions import examine_positions

    found = examine_positions(transformer_of(translator, "weft inspect positions"))
    give([found.table()], found.as_dict(), json, figures, lambda: position_figures(found))


@app.command(cls=TakesPairs)
def layers(model: Model, data: Pairs, json: JsonFile = None, figures: Figures = None, threads: Threads = None) -> None:
    """Measure loss, accuracy and BLEU on pairs with fewer and fewer layers of the encoder and of the decoder."""
    translator = opened(model, "inspect layers", json, data)
    from weft.analysis.inspection import layer_figures
    from weft.evaluating.layers import examine_layers

    found = examine_layers(translator, given_pairs(translator, data), Counter("layers left out", "depths"))
    give([found.table()], found.as_dict(), json, figures, lambda: layer_figures(found))


@app.command()
def embeddings(
    model: Model,
    words: Annotated[list[str] | None, typer.Argument(help="Words whose nearest pieces are shown.")] = None,
    side: Annotated[Literal["source", "target"], typer.Option("--side", help="The language of the words.")] = "source",
    count: Annotated[
        Path | None, typer.Option("--input", help="A text file in that language, in which pieces are counted.")
    ] = None,
    json: JsonFile = None,
    figures: Figures = None,
) -> None:
    """Show the pieces whose embeddings are nearest to those of words, and draw the most frequent ones on a plane."""
    translator = opened(model, "inspect embeddings", json, [count])
    from weft.analysis.inspection import embedding_figures
    from weft.cli.lines import open_input, read_texts
    from weft.evaluating.embeddings import examine_embeddings

    texts = None
    if count is not None:
        with open_input(None, count) as lines:
            texts = read_texts(lines, count)
    found = examine_embeddings(translator, words or [], side, texts)
    give([found.table()], found.as_dict(), json, figures, lambda: embedding_figures(found))


@app.command(cls=TakesPairs)
def errors(
    model: Model,
    data: Pairs,
    train: Annotated[
        list[Path] | None, typer.Option("--train", help="The training pairs, in which words are counted.")
    ] = None,
    json: JsonFile = None,
    figures: Figures = None,
    threads: Threads = None,
) -> None:
    """Translate pairs and count omissions, additions, wrong words and words out of order, with examples of each.

    Also shows how well rare and frequent words are translated, and the faults of weft evaluate.
    """
    translator = opened(model, "inspect errors", json, [*data, *(train or ())])
    from weft.analysis.inspection import error_figures
    from weft.data.corpus import read_given
    from weft.evaluating.word_errors import examine_errors

    training = read_given(train, translator.model.recipe.data) if train else None
    found = examine_errors(translator, given_pairs(translator, data), training, Counter("translating"))
    give(found.tables(), found.as_dict(), json, figures, lambda: error_figures(found), found.text())


def opened(model: str, verb: str, json: Path | None, inputs: Iterable[Path | None]) -> "Translator":
    """The model, if `verb` is for it and the JSON file would not replace one of the inputs."""
    refuse_place("--json", json, inputs)
    require_task([model], verb)
    from weft.translating.exported import load_for

    return load_for(model, ())


def given_pairs(translator: "Translator", data: list[Path]) -> Any:
    from weft.data.corpus import read_given

    pairs = read_given(data, translator.model.recipe.data)
    note_opened(map(str, translator.folders), pairs.sha256)
    return pairs


def give(
    tables: "list[Table]",
    content: dict[str, Any],
    json: Path | None,
    folder: Path | None,
    draw: Callable[[], Mapping[str, str]],
    more: str = "",
) -> None:
    """Give the tables with `more` below them, or JSON, then write the figures, if they are wanted."""
    text = "\n\n".join(table.text() for table in tables)
    give_results(f"{text}\n{more}" if more else text, content, json)
    if folder is not None:
        write_figures(folder, dict(draw()))
