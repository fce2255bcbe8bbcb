"""`weft export`: a model for CTranslate2 or ONNX Runtime, compared with the original before it is kept."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Option, echo

from weft.cli.loading import require_task
from weft.cli.options import FolderToMake, KeyOverrides, OneModel, only_model

To = Annotated[Literal["ctranslate2", "onnx"], Option("--to", help="The engine that will run the model.")]
Precision = Annotated[
    Literal["fp32", "int8"], Option("--precision", help="How to store weights; int8 is smaller and often faster.")
]
Data = Annotated[
    Path | None, Option("--data", help="Pairs whose sources are translated to compare; by default the starter corpus.")
]
SentenceCount = Annotated[
    int, Option("--sentences", min=0, help="How many sentences to compare; 0 skips the comparison.")
]
AcceptDifferences = Annotated[
    bool, Option("--accept-differences", help="Write the folder even if fp32 gives other translations.")
]


def export(
    engine: To,
    output: FolderToMake,
    models: OneModel = None,
    precision: Precision = "fp32",
    overrides: KeyOverrides = None,
    data: Data = None,
    sentences: SentenceCount = 200,
    accept_differences: AcceptDifferences = False,
) -> None:
    """Write a model for another engine, and compare the translations of both."""
    model = only_model(models, "export")
    require_task([model], "export")
    from weft.export.folder import export_model

    export_model(
        model,
        output,
        engine=engine,
        precision=precision,
        overrides=overrides or (),
        data=data,
        sentences=sentences,
        accepts_differences=accept_differences,
        say=lambda text: echo(text, err=True),
    )
    echo(f"{output} holds the model for {engine}: weft translate --model {output} TEXT", err=True)
