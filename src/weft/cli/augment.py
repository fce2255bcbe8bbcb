"""`weft augment`: training pairs that a model makes, from monolingual text or from the sources of a corpus."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True, help="Make training pairs by a model; the same command goes on with what was stopped."
)

MAX_RATIO = 2.5
"""Of genuine pairs of Chinese and English dialogue 4 in 1,000 are more unequal than this."""

Model = Annotated[
    str, typer.Option("--model", help="A model folder, a run folder, or the name of a model that comes with weft.")
]
Text = Annotated[
    Path, typer.Option("--input", help="Sentences to read: a text file, one a line, or a TSV or JSONL; .gz too.")
]
Column = Annotated[
    str | None,
    typer.Option(
        help="Column of a TSV or JSONL; left out: the one named as the language that the model reads.",
        show_default=False,
    ),
]
Output = Annotated[Path, typer.Option("--output", help="The TSV to write; OUTPUT.json beside it says how it was made.")]
MaxRatio = Annotated[
    float,
    typer.Option(min=1, help="Leave out a pair when one side has more than this many times the pieces of the other."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key, such as decoding.method=sample; may be repeated."),
]


@app.command("back-translate")
def back_translate(
    model: Model,
    input_file: Text,
    output: Output,
    column: Column = None,
    max_ratio: MaxRatio = MAX_RATIO,
    overrides: Overrides = None,
) -> None:
    """Turn text of the target language into pairs, by a model that translates from target to source."""
    from weft.runs import augment

    augment.back_translate(
        model, input_file, output, column=column, max_ratio=max_ratio, overrides=overrides or (), say=say
    )
    say(f'train on it: {{ path = "{output}", tag = "<bt>" }} beside your own files in data.train')


@app.command("self-train")
def self_train(
    model: Model,
    input_file: Text,
    output: Output,
    column: Column = None,
    max_ratio: MaxRatio = MAX_RATIO,
    overrides: Overrides = None,
) -> None:
    """Turn text of the source language into pairs, by a model that translates from source to target."""
    from weft.runs import augment

    augment.self_train(
        model, input_file, output, column=column, max_ratio=max_ratio, overrides=overrides or (), say=say
    )


@app.command()
def distill(
    model: Annotated[
        list[str],
        typer.Option("--model", help="A teacher: a model folder or a run folder. Repeated: an ensemble of teachers."),
    ],
    data: Annotated[Path, typer.Option("--data", help="Pairs whose sources are read: TSV or JSONL; .gz too.")],
    output: Output,
    max_ratio: MaxRatio = MAX_RATIO,
    overrides: Overrides = None,
) -> None:
    """Put what teachers write in the place of a corpus's targets, for a student to learn from."""
    from weft.runs import augment

    augment.distill(model, data, output, max_ratio=max_ratio, overrides=overrides or (), say=say)


def say(message: str) -> None:
    typer.echo(message, err=True)
