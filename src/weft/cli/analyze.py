"""`weft analyze`: why a model translates sentences as it does, as text, JSON, or one page of figures."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Exit, Option, echo

from weft.cli.lines import open_input, read_texts, refuse_misread
from weft.cli.loading import require_task
from weft.cli.options import Figures, Html, InputFile, JsonLines, KeyOverrides, OneModel, Threads, only_model
from weft.cli.outputs import STDOUT, refuse_place, tell_figures
from weft.cli.rules import SENTENCES_OR_FILE, check_options
from weft.errors import UsageError
from weft.files import write_atomically

if TYPE_CHECKING:
    from weft.translating.translator import Translator

Sentences = Annotated[list[str] | None, Argument(help="Sentences to explain.")]
Target = Annotated[
    str | None, Option("--target", metavar="TEXT", help="Explain this translation instead of the model's own.")
]
BeamSize = Annotated[int | None, Option("--beam", metavar="N", min=1, help="Search with a beam of N hypotheses.")]
Best = Annotated[int, Option("--best", metavar="K", min=1, help="How many alternatives to show at each step.")]
Layer = Annotated[
    int | None,
    Option(
        "--layer",
        metavar="N",
        min=1,
        help="The decoder layer whose attention is shown, counted from 1; by default the mean of all.",
    ),
]
Occlusion = Annotated[
    bool, Option("--occlusion/--no-occlusion", help="Remove each source word in turn, to see its effect.")
]


def analyze(
    context: Context,
    text: Sentences = None,
    models: OneModel = None,
    input_file: InputFile = None,
    target: Target = None,
    beam_size: BeamSize = None,
    best: Best = 5,
    layer: Layer = None,
    occlusion: Occlusion = True,
    overrides: KeyOverrides = None,
    as_json: JsonLines = False,
    html: Html = None,
    figures: Figures = None,
    threads: Threads = None,
) -> None:
    """Explain translations: alternatives at every step, attention, the effect of each source word, the beam as a tree.

    The sentences are the arguments, the lines of --input, or else of stdin.
    """
    check_options(context, [SENTENCES_OR_FILE])
    refuse_misread(text, input_file)
    model = only_model(models, "analyze")
    if html == STDOUT:
        raise UsageError("--html takes the name of a file, such as explained.html")
    refuse_place("--html", html, [input_file])
    require_task([model], "analyze")
    from weft.analysis.explanation_report import as_html, as_text, figures_of
    from weft.evaluating.explanation import LongTranslationError, explain, refuse_unexplainable
    from weft.translating.exported import load_for

    translator = load_for(model, overrides or ())
    with open_input(text, input_file) as lines:
        texts = read_texts(lines, input_file)
    if not texts:
        raise UsageError("there is no sentence to explain; give one, such as: weft analyze --model runs/starter 你好。")
    if target is not None and len(texts) > 1:
        raise UsageError(f"--target is the translation of one sentence; there are {len(texts):,}")
    refuse_unexplainable(translator, texts, beam_size=beam_size, target=target, layer=layer)
    warn_of_several_sentences(translator, texts)
    explained, failed = [], False
    for number, one in enumerate(texts):
        try:
            found = explain(
                translator,
                one,
                best=best,
                beam_size=beam_size,
                occlusion=occlusion,
                target=target,
                layer=layer,
                self_attention=figures is not None,
            )
        except LongTranslationError as error:  # known only after the search
            echo(f"text {number + 1}: {error}", err=True)
            failed = True
            continue
        shown = json.dumps(found.as_json(), ensure_ascii=False) if as_json else as_text(found)
        echo(shown if as_json or number == 0 else f"\n\n{shown}")
        explained.append(found)
        if figures is not None:
            before = f"{number + 1}-" if len(texts) > 1 else ""
            write_figures(figures, {f"{before}{name}": svg for name, svg in figures_of(found).items()})
    if html is not None and explained:
        write_atomically(html, as_html(explained, model))
    if failed:
        raise Exit(1)


def write_figures(folder: Path, figures: dict[str, str]) -> None:
    """Write the figures and say on stderr where they are."""
    from weft.analysis.pictures import write_pictures

    tell_figures(folder, write_pictures(folder, figures))


def warn_of_several_sentences(translator: "Translator", texts: Sequence[str]) -> None:
    """Say on stderr that a text of several sentences is explained as one."""
    from weft.text.sentence_splitting import split_sentences

    language = translator.model.recipe.data.source
    if several := sum(len(split_sentences(text, language)) > 1 for text in texts):
        what = "the text has" if len(texts) == 1 else f"{several:,} of the {len(texts):,} texts have"
        echo(f"{what} several sentences, explained as one; weft translate splits such a text first", err=True)
