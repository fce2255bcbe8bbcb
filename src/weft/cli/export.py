"""`weft export`: a model for CTranslate2 or ONNX Runtime, compared with the original before it is kept."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Option, echo

from weft.cli.loading import require_task
from weft.cli.options import OneModel, only_model

To = Annotated[Literal["ctranslate2", "onnx"], Option("--to", help="The engine that will run the model.")]
Output = Annotated[Path, Option("--output", help="The folder to make.")]
Precision = Annotated[
    Literal["fp32", "int8"], Option("--precision", help="How to store weights; int8 is smaller and often faster.")
]
KeyOverrides = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Change a key that the folder keeps, such as decoding.stopping=first-k."),
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
    output: Output,
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
