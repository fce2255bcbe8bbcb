"""`weft evaluate`: how good a model is on a file of pairs."""

import json as json_format
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from weft.cli.lines import shown_in_the_end
from weft.cli.outputs import refuse_places
from weft.errors import UsageError
from weft.errors import shown as escaped
from weft.files import write_atomically

if TYPE_CHECKING:
    from weft.figures.table import Table


def evaluate(
    models: Annotated[
        list[str],
        typer.Option(
            "--model",
            help="A model folder, a run folder, or the name of a model that comes with weft. Repeated: their ensemble.",
        ),
    ],
    data: Annotated[Path, typer.Option("--data", help="Pairs to translate and compare: TSV or JSONL; .gz too.")],
    json: Annotated[
        Path | None,
        typer.Option("--json", help="Also write everything to this file; - for stdout instead of the table."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="Write each sentence, its translation and its scores to this TSV.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            help="Decodings to compare instead of the model's own, such as greedy,beam:5,beam:5+length_penalty=none.",
            show_default=False,
        ),
    ] = None,
    noise: Annotated[
        bool, typer.Option("--noise", help="Also translate the same sources with noise, and show what it costs.")
    ] = False,
    confidence: Annotated[
        float, typer.Option("--confidence", help="Of the intervals behind the scores; 0 leaves them out.")
    ] = 0.95,
    comet: Annotated[
        Path | None,
        typer.Option("--comet", help="Checkpoint of a COMET model that you have, to score by.", show_default=False),
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Also write the tables to this file, as Markdown.")
    ] = None,
    latex: Annotated[Path | None, typer.Option("--latex", help="Also write the tables as LaTeX.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Also write one page that opens from disk.")] = None,
    engine: Annotated[
        Literal["native", "ctranslate2", "onnx"] | None,
        typer.Option("--engine", help="What computes; left out: what the folder was made for.", show_default=False),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change a key, such as decoding.beam_size=5 or data.header=false."
        ),
    ] = None,
) -> None:
    """Translate held-out sentences and score the result; the recipe's require table decides the exit code, but for
    --methods."""
    check_confidence(confidence)
    if methods is not None and noise:
        raise UsageError("--noise takes one decoding; give it without --methods, and --set for another decoding")
    if methods is not None and any(override.strip().startswith("require.") for override in overrides or ()):
        raise UsageError("--methods compares decodings and checks no requirement; leave --set require... out")
    outputs = {"--json": json, "--output": output, "--markdown": markdown, "--latex": latex, "--html": html}
    refuse_places(outputs, [data])

    from weft.analysis.page import page_of_tables
    from weft.data.corpus import common_reading, read_corpora
    from weft.metrics.comet import refuse_unusable
    from weft.metrics.translation import bleu_metric
    from weft.tasks.evaluation import evaluate as evaluate_translator
    from weft.tasks.evaluation import evaluate_methods, methods_rows, methods_table, parse_methods
    from weft.tasks.exported import load_for, refuse_methods
    from weft.tasks.robustness import measure_noise, noise_table

    refuse_unusable(comet)
    translator = load_for(models[0], overrides or (), engine, others=models[1:])
    bleu_metric(translator.model.recipe.data.target, None)  # raises before hours of translation
    named = None if methods is None else parse_methods(methods, translator.model.resolved)
    refuse_methods(translator, named or {})
    recipes = zip(models, (member.recipe.data for member in translator.members), strict=True)
    pairs = read_corpora([str(data)], common_reading(list(recipes), str(data)), Path())
    tables: list[Table] = []
    if named is not None:
        several = {
            name: one.with_intervals(confidence).with_comet(comet)
            for name, one in evaluate_methods(translator, pairs, named).items()
        }
        tables.append(methods_table(several))
        shown, rows, requirements = tables[0].text(), methods_rows(several), []
        content: dict[str, Any] = {"methods": {name: one.as_dict() for name, one in several.items()}}
    else:
        result = evaluate_translator(translator, pairs).with_intervals(confidence).with_comet(comet)
        shown, rows, requirements = result.table(), result.rows(), result.requirements
        content = result.as_dict()
        tables += result.tables()
        if noise:

            def translate(texts: Sequence[str]) -> list[str]:
                return [translation.text for translation in translator.translate(texts)]

            under = measure_noise(translate, translator.can_read, pairs, result)
            tables.append(noise_table(under, result))
            shown += f"\n\n{tables[-1].text()}"
            content["noise"] = [one.as_dict() for one in under]

    as_json = json_format.dumps(content, indent=1, ensure_ascii=False) + "\n"
    with shown_in_the_end(as_json.rstrip() if json == Path("-") else escaped(shown, len(shown))):
        if json is not None and json != Path("-"):
            write_atomically(json, as_json)
        if output is not None:
            write_atomically(output, "".join("\t".join(row) + "\n" for row in rows))
        if markdown is not None:
            write_atomically(markdown, "\n\n".join(table.markdown() for table in tables) + "\n")
        if latex is not None:
            write_atomically(latex, "\n\n".join(table.latex() for table in tables) + "\n")
        if html is not None:
            name = " + ".join(Path(model).name or Path(model).resolve().name for model in models)
            page = page_of_tables("weft evaluation", name, str(data), tables, made_by="weft evaluate")
            write_atomically(html, page)
    for requirement in requirements:
        typer.echo(requirement.text, err=json == Path("-"))
    if not all(requirement.passed for requirement in requirements):
        raise typer.Exit(1)


def check_confidence(confidence: float) -> None:
    if confidence and not 0.5 <= confidence < 1:
        raise UsageError(
            f"--confidence is a share from 0.5 to below 1, such as 0.95, or 0 for none; got {confidence:g}"
        )
