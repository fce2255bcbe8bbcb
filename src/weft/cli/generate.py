"""`weft generate`: what a language model writes after a prompt."""

import sys
from typing import Annotated, Literal

from typer import Argument, Context, Option

from weft.cli.loading import require_task, without_collections
from weft.cli.options import OneModel, Threads, only_model
from weft.cli.rules import Rule, check_options
from weft.errors import UsageError, shown

Prompt = Annotated[str, Argument(help="The text to continue; by default a new text is begun.")]
Length = Annotated[int, Option("--length", min=1, max=10_000, help="Most pieces to write.")]
Method = Annotated[
    Literal["sample", "greedy", "beam"],
    Option(
        "--method", help="Draw each piece (sample), take the best one (greedy), or search for the best text (beam)."
    ),
]
Temperature = Annotated[
    float, Option("--temperature", min=1e-3, max=100, help="Below 1 sharpens the distribution, above 1 flattens it.")
]
TopK = Annotated[int | None, Option("--top-k", min=1, help="Draw from this many of the most probable pieces.")]
TopP = Annotated[
    float,
    Option("--top-p", min=1e-6, max=1, help="Draw from the smallest set of pieces whose probabilities sum to this."),
]
BeamSize = Annotated[int, Option("--beam-size", min=1, max=64, help="Texts that beam search keeps open.")]
Seed = Annotated[
    int, Option("--seed", min=0, max=2**31 - 1, help="Seed of the random numbers; the same one gives the same text.")
]

DRAWING = ("--temperature", "--top-k", "--top-p", "--seed")


def generate(
    context: Context,
    prompt: Prompt = "",
    models: OneModel = None,
    length: Length = 256,
    method: Method = "sample",
    temperature: Temperature = 1.0,
    top_k: TopK = None,
    top_p: TopP = 1.0,
    beam_size: BeamSize = 3,
    seed: Seed = 1,
    threads: Threads = None,
) -> None:
    """Continue a text with a language model, and print it while it is written."""
    refuse_drawing = () if method == "sample" else ("--method",)
    refuse_beam = ("--method",) if method == "greedy" else ()
    rules = [
        Rule(DRAWING, without=refuse_drawing, why="only --method sample draws pieces"),
        Rule(("--beam-size",), without=refuse_beam, needs=("--method",), why="only --method beam keeps several texts"),
    ]
    check_options(context, rules)
    model = only_model(models, "generate")
    require_task([model], "generate", "language-model")
    with without_collections():
        from weft.tasks.generating import open_model, settings_of

    settings = settings_of(
        length, method=method, temperature=temperature, top_k=top_k, top_p=top_p, beam_size=beam_size, seed=seed
    )
    if sys.stdout is None:
        raise UsageError("standard output is closed, and the text is written there")
    sys.stdout.write(prompt)
    for part in open_model(model).stream(prompt, settings):
        sys.stdout.write(shown(part, len(part)))
        sys.stdout.flush()
    sys.stdout.write("\n")
