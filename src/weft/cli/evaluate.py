"""`weft evaluate`: how good a model is on a file of pairs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Context, Exit, Option, echo

from weft.cli.displays import Counter
from weft.cli.loading import note_opened, require_task
from weft.cli.options import (
    Comet,
    Confidence,
    Engine,
    Ensemble,
    GlossaryFile,
    Html,
    JsonFile,
    KeyOverrides,
    Latex,
    Markdown,
    Methods,
    Pairs,
    Threads,
)
from weft.cli.outputs import STDOUT, give_results, refuse_places
from weft.cli.rules import MODEL_NEEDED, Rule, check_options
from weft.errors import CorpusError, Problem, UsageError

if TYPE_CHECKING:
    from weft.data.corpus import ParallelText
    from weft.decoding.search import DecodingConfig
    from weft.figures.table import Table
    from weft.metrics.requirements import RequirementResult
    from weft.translating.glossary import Glossary
    from weft.translating.translator import Translator

Output = Annotated[
    Path | None, Option("--output", help="Write each sentence, its translation and its scores to this TSV.")
]
Noise = Annotated[bool, Option("--noise", help="Also translate the sources with noise added, and show what it costs.")]

OF_ANSWERS = Rule(
    ("--model",), only_with=("--data", "--json", "--output", "--threads"), why="the model answers questions"
)
OF_TEXT = Rule(("--model",), only_with=("--data", "--json", "--set", "--threads"), why="the model is a language model")
RULES = [MODEL_NEEDED, Rule(("--methods",), without=("--noise",), why="noise is measured for one decoding")]


@dataclass
class Results:
    """What an evaluation found, in the forms that it is written in."""

    content: dict[str, Any]
    rows: Iterable[Sequence[str]]
    tables: list["Table"]
    requirements: Sequence["RequirementResult"] = field(default_factory=list)


def evaluate(
    context: Context,
    data: Pairs,
    models: Ensemble = None,
    json: JsonFile = None,
    output: Output = None,
    methods: Methods = None,
    noise: Noise = False,
    glossary: GlossaryFile = None,
    confidence: Confidence = 0.95,
    comet: Comet = None,
    markdown: Markdown = None,
    latex: Latex = None,
    html: Html = None,
    engine: Engine = None,
    overrides: KeyOverrides = None,
    threads: Threads = None,
) -> None:
    """Translate held-out sentences or answer questions and score the result, or compute a language model's perplexity.

    Exits with 1 if a requirement of the recipe's table `require` is not met. With --methods, a column shows which
    requirements are met, and the exit code is 0.
    """
    check_options(context, RULES)
    check_confidence(confidence)
    outputs = {"--json": json, "--output": output, "--markdown": markdown, "--latex": latex, "--html": html}
    refuse_places(outputs, [*data, glossary])
    first, *others = models or []
    from weft.folders.finding import find_model, task_of

    task = task_of(find_model(first)) if not others else ""
    if task == "knowledge":
        check_options(context, [OF_ANSWERS])
        return evaluate_answers(first, data, json, output)
    if task == "language-model":
        check_options(context, [OF_TEXT])
        return evaluate_text(first, data, json, overrides or ())
    require_task([first, *others], "evaluate")

    from weft.analysis.page import page_of_tables
    from weft.data.corpus import common_reading, read_given
    from weft.evaluating.evaluation import parse_methods
    from weft.metrics.comet import refuse_unusable
    from weft.metrics.translation import bleu_metric
    from weft.translating.exported import check_methods, load_for

    refuse_unusable(comet)
    translator = load_for(first, overrides or (), engine, others=others)
    bleu_metric(translator.model.recipe.data.target, None)  # raises before hours of translation
    terms = translator.as_glossary(glossary)
    named = None if methods is None else parse_methods(methods, translator.model.resolved)
    check_methods(translator, named or {})
    if terms is not None:
        for decoding in (named or {"": translator.decoding}).values():
            translator.check_glossary(terms, **decoding.model_dump())
    recipes = zip([first, *others], (member.recipe.data for member in translator.members), strict=True)
    pairs = read_given(data, common_reading(list(recipes), str(data[0])))
    note_opened([first, *others], pairs.sha256)
    if named is None:
        found = evaluate_once(translator, pairs, confidence, comet, noise=noise, glossary=terms)
    else:
        found = compare_methods(translator, pairs, named, confidence, comet, terms)

    def as_page() -> str:
        name = " + ".join(Path(model).name or Path(model).resolve().name for model in (first, *others))
        return page_of_tables(
            "weft evaluation", name, " and ".join(map(str, data)), found.tables, made_by="weft evaluate"
        )

    files = [
        (output, lambda: "".join("\t".join(row) + "\n" for row in found.rows)),
        (markdown, lambda: "\n\n".join(table.markdown() for table in found.tables) + "\n"),
        (latex, lambda: "\n\n".join(table.latex() for table in found.tables) + "\n"),
        (html, as_page),
    ]
    give_results("\n\n".join(table.text() for table in found.tables), found.content, json, files)
    for requirement in found.requirements:
        echo(requirement.text, err=json == STDOUT)
    if not all(requirement.passed for requirement in found.requirements):
        raise Exit(1)


def evaluate_answers(model: str, data: Sequence[Path], json: Path | None, output: Path | None) -> None:
    """Answer the questions of a file, and score the answers if the file has its own beside them."""
    from weft import load
    from weft.data.questions import read_questions
    from weft.metrics.answers import score_answers

    given = read_questions([str(file) for file in data], Path(), answered=False)
    note_opened([model], given.sha256)
    lacking = [place for place, answer in zip(given.places, given.answers, strict=True) if not answer]
    if 0 < len(lacking) < len(given.answers):
        listed = [Problem(f"{file}: line {line}", "has no answer, though others have") for file, line in lacking]
        raise CorpusError("the questions", listed)
    from weft.evaluating.evaluation import on_one_line

    answers = load(model).answer(given.questions)
    names = ("question", "answer", "reference") if all(given.answers) else ("question", "answer")
    rows = [row[: len(names)] for row in zip(given.questions, answers, given.answers, strict=True)]
    text, content = f"{len(rows):,} questions answered; {data[0]} has no answers to compare them with", dict[str, Any]()
    if len(names) == 3:
        scores = score_answers(answers, given.answers)
        text, content = scores.table().text(), scores.as_dict()
    content |= {"data": given.sha256, "answers": [dict(zip(names, row, strict=True)) for row in rows]}
    lines = ["\t".join(map(on_one_line, row)) + "\n" for row in rows]
    give_results(text, content, json, [(output, lambda: "".join(lines))])


def evaluate_text(model: str, data: Sequence[Path], json: Path | None, overrides: Sequence[str]) -> None:
    """The perplexity of a text file, read as the recipe of a language model reads its own."""
    from weft import load
    from weft.data.lines import read_lines, refuse_tables
    from weft.tasks.language_modelling import score

    learned = load(model, overrides).learned
    given = learned.recipe.data
    refuse_tables(map(str, data), given.column)
    lines = read_lines([str(file) for file in data], Path(), keeps_blank=given.running, column=given.column)
    note_opened([model], lines.sha256)
    scored = score(learned, lines)
    give_results(scored.table, scored.sets[0], json)


def evaluate_once(
    translator: "Translator",
    pairs: "ParallelText",
    confidence: float,
    comet: Path | None,
    *,
    noise: bool,
    glossary: "Glossary | None",
) -> Results:
    """Results with the model's own decoding, and what `noise` on the sources costs."""
    from weft.evaluating.evaluation import evaluate as evaluate_translator
    from weft.evaluating.robustness import measure_noise, noise_table

    result = (
        evaluate_translator(translator, pairs, glossary=glossary, tell=Counter("translating"))
        .with_intervals(confidence)
        .with_comet(comet)
    )
    found = Results(result.as_dict(), result.rows(), result.tables(), result.requirements)
    if noise:

        def translate(texts: Sequence[str]) -> list[str]:
            return [translation.text for translation in translator.translate(texts, glossary=glossary)]

        under = measure_noise(translate, translator.can_read, pairs, result)
        found.tables.append(noise_table(under, result))
        found.content["noise"] = [one.as_dict() for one in under]
    return found


def compare_methods(
    translator: "Translator",
    pairs: "ParallelText",
    methods: "dict[str, DecodingConfig]",
    confidence: float,
    comet: Path | None,
    glossary: "Glossary | None",
) -> Results:
    """Results of several decodings of the same model, next to each other."""
    from weft.evaluating.evaluation import evaluate_methods, methods_rows, methods_table

    several = {
        name: one.with_intervals(confidence).with_comet(comet)
        for name, one in evaluate_methods(translator, pairs, methods, glossary, Counter).items()
    }
    table = methods_table(several)
    content = {"methods": {name: one.as_dict() for name, one in several.items()}}
    return Results(content, methods_rows(several), [table])


def check_confidence(confidence: float) -> None:
    """Raise UsageError for what is not a share from 0.5 to below 1, or 0."""
    if confidence and not 0.5 <= confidence < 1:
        raise UsageError(f"--confidence must be at least 0.5 and below 1, or 0 for no intervals; got {confidence:g}")
