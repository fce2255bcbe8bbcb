"""`weft export`: a model for CTranslate2 or ONNX Runtime, compared with the model itself before it gets its name."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from weft.cli.options import only_model


def export(
    models: Annotated[
        list[str],
        typer.Option("--model", help="A model folder, a run folder, or the name of a model that comes with weft."),
    ],
    engine: Annotated[Literal["ctranslate2", "onnx"], typer.Option("--to", help="The engine that is to run it.")],
    output: Annotated[Path, typer.Option("--output", help="The folder to make.")],
    precision: Annotated[
        Literal["fp32", "int8"],
        typer.Option("--precision", help="What weights are stored in; int8 is smaller and often faster."),
    ] = "fp32",
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change a key that the folder keeps: decoding.stopping=first-k."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="Pairs whose sources are translated to compare; left out: the starter corpus.",
            show_default=False,
        ),
    ] = None,
    sentences: Annotated[
        int, typer.Option("--sentences", min=0, help="How many sentences are compared; 0 compares none.")
    ] = 200,
    accept_differences: Annotated[
        bool, typer.Option("--accept-differences", help="Write the folder even where fp32 translates otherwise.")
    ] = False,
) -> None:
    """Write a model for another engine, and compare what both say."""
    from weft.export.folder import export_model

    export_model(
        only_model(models, "weft export writes"),
        output,
        engine=engine,
        precision=precision,
        overrides=overrides or (),
        data=data,
        sentences=sentences,
        accepts_differences=accept_differences,
        say=lambda text: typer.echo(text, err=True),
    )
    typer.echo(f"{output} holds the model for {engine}: weft translate --model {output} TEXT", err=True)
