"""`weft export`: a model for CTranslate2 or ONNX Runtime, compared with the original before it is kept, or n-grams as
ARPA."""

import shlex
from pathlib import Path
from typing import Annotated, Literal

from typer import Context, Option, echo

from weft.cli.loading import require_task
from weft.cli.options import A_FILE_OF_PAIRS, KeyOverrides, OneModel, Threads, only_model
from weft.cli.rules import Rule, check_options

To = Annotated[
    Literal["ctranslate2", "onnx", "arpa"],
    Option("--to", help="The engine that will run the model, or the file format of an n-gram model."),
]
Output = Annotated[Path, Option("--output", help="The folder to make; with --to arpa the file, .gz too.")]
Precision = Annotated[
    Literal["fp32", "int8"], Option("--precision", help="How to store weights; int8 is smaller and often faster.")
]
Data = Annotated[
    list[Path] | None,
    Option("--data", help=f"Pairs to compare on: {A_FILE_OF_PAIRS} By default those that the run was validated on."),
]
SentenceCount = Annotated[
    int, Option("--sentences", min=0, help="How many sentences to compare; 0 skips the comparison.")
]
AcceptDifferences = Annotated[
    bool, Option("--accept-differences", help="Write the folder even if fp32 gives other translations.")
]


def export(
    context: Context,
    engine: To,
    output: Output,
    models: OneModel = None,
    precision: Precision = "fp32",
    overrides: KeyOverrides = None,
    data: Data = None,
    sentences: SentenceCount = 200,
    accept_differences: AcceptDifferences = False,
    threads: Threads = None,
) -> None:
    """Write a model for another engine, and compare the translations of both; or n-grams as ARPA."""
    model = only_model(models, "export")
    if engine == "arpa":
        from weft.export.arpa import export_arpa

        check_options(context, [Rule(("--to",), only_with=("--output", "--model"), why="--to arpa writes all it has")])
        require_task([model], "export --to arpa", "language-model")
        export_arpa(model, output)
        return
    require_task([model], "export")
    from weft.export.folder import export_model

    export_model(
        model,
        output,
        engine=engine,
        precision=precision,
        overrides=overrides or (),
        data=data or (),
        sentences=sentences,
        accepts_differences=accept_differences,
        say=lambda text: echo(text, err=True),
    )
    echo(f"{output} holds the model for {engine}: weft translate --model {shlex.quote(str(output))} TEXT", err=True)
