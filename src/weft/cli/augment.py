"""`weft augment`: training pairs that a model makes, from monolingual text or from the sources of a corpus."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option, echo

from weft.cli.help import group_of_verbs
from weft.cli.loading import require_task
from weft.cli.options import KeyOverrides, ModelName, Threads

if TYPE_CHECKING:
    from weft.runs.augment import Method

app = group_of_verbs("Make training pairs with a model; the same command continues after a stop.")

MAX_RATIO = 2.5
"""4 in 1,000 genuine pairs of Chinese and English dialogue have a larger ratio than this."""

Text = Annotated[
    Path, Option("--input", help="Sentences to read: a text file, one per line, or a TSV, CSV or JSONL; .gz too.")
]
Column = Annotated[
    str | None,
    Option(help="Column of a TSV, CSV or JSONL; by default the one named after the model's source language."),
]
Output = Annotated[Path, Option("--output", help="The TSV to write; OUTPUT.json says how it was made.")]
MaxRatio = Annotated[
    float, Option(min=1, help="Drop a pair if one side has more than this many times the pieces of the other.")
]


@app.command("back-translate")
def back_translate(
    model: ModelName,
    input_file: Text,
    output: Output,
    column: Column = None,
    max_ratio: MaxRatio = MAX_RATIO,
    overrides: KeyOverrides = None,
    threads: Threads = None,
) -> None:
    """Turn text of the target language into pairs, with a model that translates from target to source."""
    make_pairs("back-translation", model, input_file, output, column, max_ratio, overrides)
    say(f'to train on it, add to data.train: {{ path = "{output}", tag = "<bt>" }}')


@app.command("self-train")
def self_train(
    model: ModelName,
    input_file: Text,
    output: Output,
    column: Column = None,
    max_ratio: MaxRatio = MAX_RATIO,
    overrides: KeyOverrides = None,
    threads: Threads = None,
) -> None:
    """Turn text of the source language into pairs, with a model that translates from source to target."""
    make_pairs("self-training", model, input_file, output, column, max_ratio, overrides)


def make_pairs(
    method: "Method",
    model: str,
    text: Path,
    output: Path,
    column: str | None,
    max_ratio: float,
    overrides: list[str] | None,
) -> None:
    require_task([model], "augment")
    from weft.runs.augment import from_text

    given = overrides or ()
    from_text(method, model, text, output, column=column, max_ratio=max_ratio, overrides=given, say=say)


@app.command()
def distill(
    model: Annotated[
        list[str], Option("--model", help="A teacher: a model or run folder. Repeat the option for an ensemble.")
    ],
    data: Annotated[Path, Option("--data", help="Pairs whose sources are read: TSV, CSV, JSONL or TMX; .gz too.")],
    output: Output,
    max_ratio: MaxRatio = MAX_RATIO,
    overrides: KeyOverrides = None,
    threads: Threads = None,
) -> None:
    """Replace the targets of a corpus by the translations of teachers, for a student to learn from."""
    require_task(model, "augment")
    from weft.runs import augment

    augment.distill(model, data, output, max_ratio=max_ratio, overrides=overrides or (), say=say)


def say(message: str) -> None:
    echo(message, err=True)
