"""`weft compare`: which of several systems is better on a file of pairs, whether by more than chance, and where."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Option

from weft.cli.displays import Counter
from weft.cli.evaluate import check_confidence
from weft.cli.loading import note_opened, require_task
from weft.cli.options import (
    Comet,
    Confidence,
    HasHeader,
    Html,
    JsonFile,
    KeyOverrides,
    Latex,
    Markdown,
    Methods,
    PairColumns,
    Pairs,
    SourceLanguage,
    TargetLanguage,
    Threads,
    layout_of,
)
from weft.cli.outputs import give_results, refuse_places
from weft.cli.rules import Rule, check_options
from weft.errors import CorpusError, Problem, RecipeError, UsageError

if TYPE_CHECKING:
    from weft.data.corpus import DataConfig, ParallelText
    from weft.decoding.search import DecodingConfig
    from weft.evaluating.comparison import System
    from weft.evaluating.seeds import Seeds
    from weft.translating.translator import Translator

USAGE = "weft compare A.txt B.txt --data FILE.tsv --source zh --target en"

Systems = Annotated[
    list[str],
    Argument(
        metavar="SYSTEM...",
        help="Models (folders, runs, names) and text files of translations, one per line. The first is the baseline.",
    ),
]
TrainingFiles = Annotated[
    list[str] | None,
    Option(
        "--train", metavar="FILE", help="Training pairs, to find near-duplicates and to count rare words; repeatable."
    ),
]
BySeeds = Annotated[
    bool, Option("--seeds", help="The systems are runs of one recipe with different seeds: show mean and deviation.")
]
Against = Annotated[
    list[str] | None,
    Option("--against", metavar="SYSTEM", help="With --seeds: a run of the other recipe. Repeat it for each run."),
]
Seed = Annotated[int, Option("--seed", min=0, help="Seed of the resamples.")]
Show = Annotated[int, Option("--show", min=0, help="How many changed sentences to show for each system.")]

RULES = [
    Rule(("--against",), needs=("--seeds",), why="without it name all systems one after the other"),
    Rule(
        ("--seeds",),
        without=("--train", "--methods", "--comet", "--confidence", "--seed", "--show"),
        why="it shows scores, their mean and their deviation alone",
    ),
]


def compare(
    context: Context,
    systems: Systems,
    data: Pairs,
    train: TrainingFiles = None,
    methods: Methods = None,
    seeds: BySeeds = False,
    against: Against = None,
    source: SourceLanguage = None,
    target: TargetLanguage = None,
    columns: PairColumns = None,
    header: HasHeader = None,
    overrides: KeyOverrides = None,
    confidence: Confidence = 0.95,
    seed: Seed = 12345,
    show: Show = 10,
    comet: Comet = None,
    json: JsonFile = None,
    markdown: Markdown = None,
    latex: Latex = None,
    html: Html = None,
    threads: Threads = None,
) -> None:
    """Compare systems on the same sentences: scores, significance, faults, buckets, the sentences that changed most."""
    check_options(context, RULES)
    check_confidence(confidence)
    if not confidence:
        raise UsageError("--confidence 0 is for weft evaluate; here give at least 0.5 and less than 1")
    names = [*systems, *(against or [])]
    check_systems(systems, seeds, against or [], methods)
    inputs = [*data, *map(Path, train or []), *(Path(name) for name in names if Path(name).is_file())]
    refuse_places({"--json": json, "--markdown": markdown, "--latex": latex, "--html": html}, inputs)

    from weft.analysis.comparison_report import as_html, as_latex, as_markdown, as_text
    from weft.evaluating.comparison import compare as compare_systems
    from weft.metrics.comet import refuse_unusable
    from weft.metrics.translation import bleu_metric

    refuse_unusable(comet)
    translators = load_models(names, overrides or [], methods)
    config = pairs_config(names, translators, data, source, target, columns, header)
    bleu_metric(config.target, None)  # raises before hours of translation
    pairs, training = read_pairs(data, train or [], config)
    note_opened([name for name, model in zip(names, translators, strict=True) if model], pairs.sha256)
    made = make_systems(names, translators, pairs, methods)
    if seeds:
        compared = compare_seeds(made, translators, len(systems), pairs, config.target)
        content = compared.as_dict()
    else:
        languages = config.source, config.target
        compared = compare_systems(made, pairs, languages, training=training, confidence=confidence, seed=seed)
        compared = compared.with_comet(comet)
        content = compared.as_dict(show)
    files = [
        (markdown, lambda: as_markdown(compared, show)),
        (latex, lambda: as_latex(compared)),
        (html, lambda: as_html(compared, show)),
    ]
    give_results(as_text(compared, show), content, json, files)


def check_systems(systems: Sequence[str], seeds: bool, against: Sequence[str], methods: str | None) -> None:
    """Raise UsageError for too few systems, and for one that is named twice."""
    if len(systems) * (1 + (methods or "").count(",")) < 2 or (seeds and len(against) == 1):
        if seeds:
            example = "weft compare runs/a1 runs/a2 --against runs/b1 --against runs/b2 --seeds --data test.tsv"
            raise UsageError(
                f"--seeds needs at least two runs, and at least two with --against if it is given, such as: {example}"
            )
        raise UsageError(f"give at least two systems, such as: {USAGE}")
    names = [*systems, *against]
    places = [Path(name).resolve() for name in names]
    if repeated := sorted({name for name, place in zip(names, places, strict=True) if places.count(place) > 1}):
        raise UsageError(f"{', '.join(repeated)}: named more than once")


def load_models(names: Sequence[str], overrides: list[str], methods: str | None) -> list["Translator | None"]:
    """The model of each name, None for a file of translations; raises RecipeError with all that cannot be loaded."""
    from weft.translating.exported import load_for

    found: list[Translator | None] = []
    problems: list[Problem] = []
    for name in names:
        try:
            if is_model := not Path(name).is_file():
                require_task([name], "compare")
            found.append(load_for(name, overrides) if is_model else None)
        except UsageError as error:
            what = str(error).replace("there is no model", "there is no file of translations and no model", 1)
            problems.append(Problem(name, what))
    if problems:
        raise RecipeError("the list of systems", problems)
    if (overrides or methods) and not any(found):
        what = "--set changes keys" if overrides else "--methods are searches"
        raise UsageError(f"{what} of models, and these systems are all files of translations")
    return found


def pairs_config(
    names: Sequence[str],
    translators: Sequence["Translator | None"],
    data: Sequence[Path],
    source: str | None,
    target: str | None,
    columns: str | None,
    header: bool | None,
) -> "DataConfig":
    """How to read the pairs: as the models read theirs, or without a model as the command line says.

    Raises UsageError where the models read pairs in different ways or translate different languages.
    """
    from weft.data.corpus import Columns, CorpusEntry, DataConfig, common_reading, group_files

    models = [
        (name, translator.model.recipe.data)
        for name, translator in zip(names, translators, strict=True)
        if translator is not None
    ]
    if not models:
        entries = [CorpusEntry(path=str(data[0]))] if len(data) == 1 else group_files(data)
        layout = layout_of(source, target, columns, header, entries, USAGE)
        files = tuple(map(str, data))
        return DataConfig(
            source=layout.source,
            target=layout.target,
            # two text files have no columns, but those of one language have to be told apart
            columns=layout.columns or (Columns(source="1", target="2") if layout.source == layout.target else None),
            header=layout.header,
            train=files,
            valid=files,
        )
    given = {"--source": source, "--target": target, "--columns": columns, "--header": header}
    if named := [option for option, value in given.items() if value is not None]:
        raise UsageError(
            f"{', '.join(named)}: a model knows its languages and how to read pairs; to read the file otherwise, set "
            "data.columns or data.header by --set"
        )
    languages = {(model.source, model.target): f"{model.source} to {model.target}" for _, model in models}
    if len(languages) > 1:
        raise UsageError(f"the models translate different languages: {'; '.join(languages.values())}")
    return common_reading(models, str(data[0]))


def read_pairs(
    data: Sequence[Path], train: Sequence[str], config: "DataConfig"
) -> tuple["ParallelText", "ParallelText | None"]:
    """The pairs to compare on, and the training pairs if any; raises CorpusError with all problems of both."""
    from weft.data.corpus import read_given

    training = config.model_copy(update={"empty_sides": "drop"})
    found, problems = [], []
    for files, how in ((data, config), ([Path(name) for name in train], training)):
        try:
            found.append(read_given(files, how) if files else None)
        except CorpusError as error:
            problems += error.problems
    if problems:
        raise CorpusError("the corpus", problems)
    pairs, trained = found
    assert pairs is not None  # --data is required
    return pairs, trained


def make_systems(
    names: Sequence[str], translators: Sequence["Translator | None"], pairs: "ParallelText", methods: str | None
) -> list["System"]:
    """The translations of every system, of a model those by each of the methods; files are read first, so that a wrong
    one fails before the translating."""
    from weft.evaluating.comparison import read_translations, translate_with
    from weft.evaluating.evaluation import parse_methods
    from weft.translating.exported import check_methods

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
    decodings: list[dict[str, DecodingConfig]] = []  # all are checked before the first system translates
    for translator in translators:
        decodings.append(
            {} if translator is None or methods is None else parse_methods(methods, translator.model.resolved)
        )
        if translator:
            check_methods(translator, decodings[-1])
    made: list[System] = []
    for title, translator, named in zip(titles, translators, decodings, strict=True):
        if translator is None:
            made.append(files[title])
            continue
        if not named:
            made.append(translate_with(translator, title, pairs.sources, tell=Counter(title)))
        for method, decoding in named.items():
            name = f"{title} {method}"
            made.append(translate_with(translator, name, pairs.sources, decoding, Counter(name)))
    return made


def compare_seeds(
    made: Sequence["System"],
    translators: Sequence["Translator | None"],
    count: int,
    pairs: "ParallelText",
    language: str,
) -> "Seeds":
    """Compare two groups of runs: the first `count` systems, and the rest if any."""
    from weft.evaluating.seeds import Seeds, group_of_seeds

    parts = [(made[:count], translators[:count]), (made[count:], translators[count:])]
    groups = [group_of_seeds(systems, pairs, language, models) for systems, models in parts if systems]
    return Seeds(pairs.sha256, groups)
