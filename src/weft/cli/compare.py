"""`weft compare`: which of several systems is better on a file of pairs, whether by more than chance, and where."""

import json as json_format
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.evaluate import check_confidence
from weft.cli.lines import shown_in_the_end
from weft.cli.options import HasHeader, PairColumns, SourceLanguage, TargetLanguage, layout_of, refuse_beside
from weft.cli.outputs import refuse_places
from weft.errors import CorpusError, Problem, RecipeError, UsageError
from weft.files import write_atomically

if TYPE_CHECKING:
    from weft.data.corpus import DataConfig, ParallelText
    from weft.tasks.comparison import Comparison, Seeds, System
    from weft.tasks.translation import Translator

USAGE = "weft compare A.txt B.txt --data FILE.tsv --source zh --target en"


def compare(
    systems: Annotated[
        list[str],
        typer.Argument(
            metavar="SYSTEM...",
            help="Models (folders, runs, names) and text files of translations, one a line. The first is the baseline.",
            show_default=False,
        ),
    ],
    data: Annotated[Path, typer.Option("--data", help="Pairs to compare on: TSV or JSONL; .gz too.")],
    train: Annotated[
        list[str] | None,
        typer.Option(
            "--train",
            metavar="FILE",
            help="What was trained on, to find near-duplicates and count words. May be repeated.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[
        bool, typer.Option("--seeds", help="The systems are runs that differ in their seed: mean and deviation.")
    ] = False,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            metavar="SYSTEM",
            help="With --seeds: a run of the other recipe. Give the option once for each run.",
            show_default=False,
        ),
    ] = None,
    source: SourceLanguage = None,
    target: TargetLanguage = None,
    columns: PairColumns = None,
    header: HasHeader = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key of every model, such as decoding.beam_size=5."),
    ] = None,
    confidence: Annotated[float, typer.Option("--confidence", help="Of the intervals, such as 0.95.")] = 0.95,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Where resamples and trials come from.")] = 12345,
    show: Annotated[int, typer.Option("--show", min=0, help="Changed sentences to show of each pair.")] = 10,
    comet: Annotated[
        Path | None,
        typer.Option("--comet", help="Checkpoint of a COMET model that you have, to score by.", show_default=False),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option("--json", help="Also write everything to this file; - for stdout instead of the tables."),
    ] = None,
    markdown: Annotated[Path | None, typer.Option("--markdown", help="Also write the tables as Markdown.")] = None,
    latex: Annotated[Path | None, typer.Option("--latex", help="Also write the tables of figures as LaTeX.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Also write one page that opens from disk.")] = None,
    *,
    context: typer.Context,
) -> None:
    """Compare systems on the same sentences: scores, significance, faults, buckets, the sentences that changed most."""
    check_confidence(confidence)
    if not confidence:
        raise UsageError("--confidence 0 is for weft evaluate; here give a share from 0.5 to below 1")
    refuse_wrong_numbers(systems, seeds, against or [])
    if seeds:  # scores, their mean and deviation: nothing is drawn, bucketed or shown
        refuse_beside(context, "--seeds", ("train", "comet", "confidence", "seed", "show"))
    outputs = {"--json": json, "--markdown": markdown, "--latex": latex, "--html": html}
    names = [*systems, *(against or [])]
    inputs = [
        data,
        *map(Path, train or []),
        *(Path(name) for name in names if Path(name).is_file()),
    ]
    refuse_places(outputs, inputs)

    from weft.analysis.comparison_report import as_html, as_latex, as_markdown, as_text
    from weft.metrics.comet import refuse_unusable
    from weft.metrics.translation import bleu_metric

    refuse_unusable(comet)
    translators = load_models(names, overrides or [])
    config = pairs_config(names, translators, str(data), source, target, columns, header)
    bleu_metric(config.target, None)  # raises before hours of translation
    pairs, training = read_pairs(data, train or [], config)
    made = make_systems(names, translators, pairs)
    compared: Comparison | Seeds
    if seeds:
        compared = compare_seeds(made, translators, len(systems), pairs, config.target)
        content = compared.as_dict()
    else:
        from weft.tasks.comparison import compare as compare_systems

        languages = config.source, config.target
        compared = compare_systems(made, pairs, languages, training=training, confidence=confidence, seed=seed)
        compared = compared.with_comet(comet)
        content = compared.as_dict(show)
    as_json = json_format.dumps(content, indent=1, ensure_ascii=False) + "\n"
    writers: list[tuple[Path | None, Callable[[], str]]] = [
        (json if json != Path("-") else None, lambda: as_json),
        (markdown, lambda: as_markdown(compared, show)),
        (latex, lambda: as_latex(compared)),
        (html, lambda: as_html(compared, show)),
    ]
    with shown_in_the_end(as_json.rstrip() if json == Path("-") else as_text(compared, show)):
        for path, write in writers:
            if path is not None:
                write_atomically(path, write())


def refuse_wrong_numbers(systems: Sequence[str], seeds: bool, against: Sequence[str]) -> None:
    if against and not seeds:
        raise UsageError("--against is for --seeds; without it name all systems one after the other")
    if len(systems) < 2 or (seeds and len(against) == 1):
        what = "two runs at least on either side" if seeds else "two systems at least"
        raise UsageError(f"give {what}, such as: {USAGE}")
    names = [*systems, *against]
    places = [Path(name).resolve() for name in names]
    if repeated := sorted({name for name, place in zip(names, places, strict=True) if places.count(place) > 1}):
        raise UsageError(f"{', '.join(repeated)} stands there more than once")


def load_models(names: Sequence[str], overrides: list[str]) -> list["Translator | None"]:
    """The model that each name means, None for a file of translations; raises with all that cannot be loaded."""
    from weft.tasks.translation import load_translator

    found: list[Translator | None] = []
    problems: list[Problem] = []
    for name in names:
        try:
            found.append(None if Path(name).is_file() else load_translator(name, overrides))
        except UsageError as error:
            problems.append(Problem(name, str(error)))
    if problems:
        raise RecipeError("the list of systems", problems)
    if overrides and not any(found):
        raise UsageError("--set changes settings of models; these are all files of translations")
    return found


def pairs_config(
    names: Sequence[str],
    translators: Sequence["Translator | None"],
    data: str,
    source: str | None,
    target: str | None,
    columns: str | None,
    header: bool | None,
) -> "DataConfig":
    """How the pairs are read: as the models read theirs, which must all do it alike and translate the same languages;
    without a model as the command line says."""
    from weft.data.corpus import CorpusEntry, DataConfig, common_reading

    models = [
        (name, translator.model.recipe.data)
        for name, translator in zip(names, translators, strict=True)
        if translator is not None
    ]
    if not models:
        layout = layout_of(source, target, columns, header, [CorpusEntry(path=data)], USAGE)
        files = (data,)
        return DataConfig(
            source=layout.source,
            target=layout.target,
            columns=layout.columns,
            header=layout.header,
            train=files,
            valid=files,
        )
    given = {"--source": source, "--target": target, "--columns": columns, "--header": header}
    if named := [option for option, value in given.items() if value is not None]:
        raise UsageError(
            f"{', '.join(named)}: a model says itself which languages it translates and how to read pairs; to read "
            "others set data.columns or data.header by --set"
        )
    languages = {(model.source, model.target): f"{model.source} to {model.target}" for _, model in models}
    if len(languages) > 1:
        raise UsageError(f"the models translate other languages: {'; '.join(languages.values())}")
    return common_reading(models, data)


def read_pairs(data: Path, train: Sequence[str], config: "DataConfig") -> tuple["ParallelText", "ParallelText | None"]:
    """The pairs to compare on and those that were trained on, if any; raises CorpusError with all that is wrong."""
    from weft.data.corpus import group_files, read_corpora

    training = config.model_copy(update={"empty_sides": "drop"})
    found, problems = [], []
    for entries, how in (([str(data)], config), (group_files(train), training)):
        try:
            found.append(read_corpora(entries, how, Path()) if entries else None)
        except CorpusError as error:
            problems += error.problems
    if problems:
        raise CorpusError("the corpus", problems)
    pairs, trained = found
    assert pairs is not None  # --data is required
    return pairs, trained


def make_systems(
    names: Sequence[str], translators: Sequence["Translator | None"], pairs: "ParallelText"
) -> list["System"]:
    """Every system's translations; files are read first, so that a wrong one is known before anything is translated."""
    from weft.tasks.comparison import read_translations, translate_with

    short = [Path(name).name for name in names]
    titles = short if len(set(short)) == len(short) and all(short) else list(names)
    files: dict[str, System] = {}
    problems: list[Problem] = []
    for name, title, translator in zip(names, titles, translators, strict=True):
        try:
            if translator is None:
                files[title] = read_translations(Path(name), title, len(pairs))
        except CorpusError as error:
            problems += [Problem(f"{name}, {problem.where}", problem.what) for problem in error.problems]
    if problems:
        raise CorpusError("the set of translations", problems)
    return [
        files[title] if translator is None else translate_with(translator, title, pairs.sources)
        for title, translator in zip(titles, translators, strict=True)
    ]


def compare_seeds(
    made: Sequence["System"],
    translators: Sequence["Translator | None"],
    count: int,
    pairs: "ParallelText",
    language: str,
) -> "Seeds":
    """The first `count` systems are one group, the others, if any, the other."""
    from weft.tasks.comparison import Seeds, group_of_seeds

    parts = [(made[:count], translators[:count]), (made[count:], translators[count:])]
    groups = [group_of_seeds(systems, pairs, language, models) for systems, models in parts if systems]
    return Seeds(pairs.sha256, groups)
