"""`weft analyze`: why a model translates sentences as it does, as text, JSON, or one page of figures."""

import json
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.lines import open_input, read_texts
from weft.cli.options import only_model
from weft.cli.outputs import refuse_place
from weft.errors import UsageError
from weft.files import write_atomically


def analyze(
    text: Annotated[list[str] | None, typer.Argument(help="Sentences to explain.")] = None,
    models: Annotated[
        list[str] | None,
        typer.Option("--model", help="A model folder, a run folder, or the name of a model that comes with weft."),
    ] = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", help="A text file, one sentence a line; .gz too.", show_default=False)
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="TEXT", help="A translation to explain instead of the model's own."),
    ] = None,
    beam_size: Annotated[
        int | None, typer.Option("--beam", metavar="N", min=1, help="Search with a beam of so many hypotheses.")
    ] = None,
    best: Annotated[int, typer.Option("--best", metavar="K", min=1, help="Alternatives to tell at each step.")] = 5,
    layer: Annotated[
        int | None,
        typer.Option(
            "--layer",
            metavar="N",
            min=1,
            help="The decoder layer whose attention is shown, from 1; left out: the mean of all.",
        ),
    ] = None,
    occlusion: Annotated[
        bool,
        typer.Option("--occlusion/--no-occlusion", help="Take out each source word in turn, to see what it did."),
    ] = True,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a decoding key, such as decoding.length_penalty=none."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line instead of tables.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Also write one page that opens from disk.")] = None,
) -> None:
    """Explain translations: alternatives at every step, attention, what each source word did, the beam as a tree.

    The sentences are the arguments, the lines of --input, or else of standard input.
    """
    if not models:
        raise UsageError("--model is missing: a model or run folder, or a model that comes with weft, such as zh-en")
    model = only_model(models, "weft analyze explains")
    if text and input_file:
        raise UsageError("give either sentences or --input, not both")
    if html == Path("-"):
        raise UsageError("--html is a page to open; name a file, such as --html explained.html")
    refuse_place("--html", html, [input_file])
    from weft.analysis.explanation_report import as_html, as_text
    from weft.tasks.explanation import LongTranslationError, explain, refuse_unexplainable
    from weft.tasks.exported import load_for
    from weft.text.sentence_splitting import split_sentences

    translator = load_for(model, overrides or ())
    with open_input(text, input_file) as lines:
        texts = list(read_texts(lines, input_file))
    if not texts:
        raise UsageError("there is no sentence to explain; give one, such as: weft analyze --model runs/starter 你好。")
    if target is not None and len(texts) > 1:
        raise UsageError(f"--target is the translation of one sentence; there are {len(texts):,}")
    refuse_unexplainable(translator, texts, beam_size=beam_size, target=target, layer=layer)
    explained, too_long = [], 0
    language = translator.model.recipe.data.source
    if several := sum(len(split_sentences(one, language)) > 1 for one in texts):
        what = "the text is" if len(texts) == 1 else f"{several:,} of the {len(texts):,} texts are"
        typer.echo(f"{what} of several sentences, explained as one; weft translate takes such apart first", err=True)
    for number, one in enumerate(texts):
        try:
            found = explain(
                translator, one, best=best, beam_size=beam_size, occlusion=occlusion, target=target, layer=layer
            )
        except LongTranslationError as error:  # which nobody knew before the search
            typer.echo(f"text {number + 1}: {error}", err=True)
            too_long += 1
            continue
        shown = json.dumps(found.as_json(), ensure_ascii=False) if as_json else as_text(found)
        typer.echo(shown if as_json or number == 0 else f"\n\n{shown}")
        if html is not None:
            explained.append(found)
    if html is not None and explained:
        write_atomically(html, as_html(explained, model))
    if too_long:
        raise typer.Exit(1)
