"""`weft score`: score a file of hypotheses against files of references, or a file of pairs by a model.

Measures nothing itself: the scores are made in weft.metrics and in evaluating/forced.py.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from typer import Context, Option

from weft.cli.loading import note_opened, require_task
from weft.cli.options import JsonFile, KeyOverrides, OneModel, SomePairs, Threads, only_model
from weft.cli.outputs import give_results, refuse_places
from weft.cli.rules import Rule, check_options
from weft.errors import CorpusError, Problem, UsageError
from weft.files import as_utf_8, decode_lines, read_bytes, sha256, split_lines

Hypotheses = Annotated[Path | None, Option("--hypotheses", help="Text file, one translation per line.")]
References = Annotated[
    list[Path] | None,
    Option(
        "--references",
        help="Text file, one reference per line; repeatable: --references a.txt --references b.txt. A blank line means "
        "that this file has no reference for the sentence.",
    ),
]
Language = Annotated[str | None, Option("--language", help="Code of the target language, such as en or zh.")]
Input = Annotated[Path | None, Option("--input", help="With --model: the lines to score by a language model; .gz too.")]
Output = Annotated[
    Path | None, Option("--output", help="With --model: write each pair or line and its log-probability to this TSV.")
]
IgnorePunctuation = Annotated[bool, Option("--ignore-punctuation", help="Leave punctuation out of BLEU-1 to BLEU-4.")]
BleuTokenizer = Annotated[
    str | None, Option("--tokenizer", help="Tokenizer of sacreBLEU; by default that of the language.")
]

REFERENCES = ("--hypotheses", "--references", "--language")
HOW = "give --hypotheses, --references and --language, or --model and --data, or --model and --input"
RULES = [
    Rule(("--model", "--data", "--input"), without=(*REFERENCES, "--ignore-punctuation", "--tokenizer"), why=HOW),
    Rule(("--input",), without=("--data",), needs=("--model",), why=HOW),
    Rule(("--data", "--output", "--set"), needs=("--model",), why=HOW),
]


def score(
    context: Context,
    hypotheses: Hypotheses = None,
    references: References = None,
    language: Language = None,
    models: OneModel = None,
    data: SomePairs = None,
    lines: Input = None,
    output: Output = None,
    overrides: KeyOverrides = None,
    ignore_punctuation: IgnorePunctuation = False,
    tokenizer: BleuTokenizer = None,
    json_file: JsonFile = None,
    threads: Threads = None,
) -> None:
    """Score translations against references, or by a model.

    With --hypotheses and --references: the courses' BLEU-1 to BLEU-4 and exact match, sacreBLEU, chrF, TER. With
    --model and --data: the log-probability that the model gives to each pair, and the perplexity of all. With a
    language model and --input: the log-probability of each line.
    """
    check_options(context, RULES)
    if models and lines is not None:
        score_lines(only_model(models, "score"), lines, json_file, output, overrides or ())
        return
    if models and not data:
        raise UsageError("--model needs --data, or --input for a language model")
    if models and data:
        score_by_model(only_model(models, "score"), data, json_file, output, overrides or ())
        return
    check_options(context, [Rule(needs=REFERENCES, why=HOW)])
    assert hypotheses is not None and references and language is not None
    score_by_references(hypotheses, references, language, json_file, ignore_punctuation, tokenizer)


def score_by_references(
    hypotheses: Path,
    references: list[Path],
    language: str,
    json_file: Path | None,
    ignore_punctuation: bool,
    tokenizer: str | None,
) -> None:
    from weft.metrics.translation import score_translations
    from weft.text.language import refuse_unknown

    refuse_unknown(language, "--language")
    refuse_places({"--json": json_file}, [hypotheses, *references])
    hypothesis_lines, *reference_sets = _read_parallel([hypotheses, *references])
    scores = score_translations(hypothesis_lines, reference_sets, language, ignore_punctuation, tokenizer)
    give_results(scores.table().text(), scores.as_dict(), json_file)


def score_by_model(
    model: str, data: list[Path], json_file: Path | None, output: Path | None, overrides: Sequence[str]
) -> None:
    refuse_places({"--json": json_file, "--output": output}, data)
    require_task([model], "score")
    from weft.data.corpus import read_given
    from weft.evaluating.forced import score_pairs
    from weft.translating.exported import load_for

    translator = load_for(model, overrides)
    pairs = read_given(data, translator.model.recipe.data)
    note_opened([model], pairs.sha256)
    found = score_pairs(translator, pairs)
    rows = (output, lambda: "".join("\t".join(row) + "\n" for row in found.rows()))
    give_results(found.table(), found.as_dict(), json_file, [rows])


def score_lines(model: str, lines: Path, json_file: Path | None, output: Path | None, overrides: Sequence[str]) -> None:
    """Print the log-probability of each line in nats, and the line, or of a table the cell of the column that the
    recipe or --set names; with a tab between them in --output."""
    refuse_places({"--json": json_file, "--output": output}, [lines])
    require_task([model], "score", "language-model")
    from weft import load
    from weft.data.lines import read_lines, refuse_tables
    from weft.data.pair_files import TABLES, suffix_of
    from weft.evaluating.evaluation import on_one_line

    opened = load(model, overrides)
    column = opened.learned.recipe.data.column
    if suffix_of(lines.name) in TABLES:
        refuse_tables([str(lines)], column)
        texts = read_lines([str(lines)], Path(), keeps_blank=True, column=column).texts
    else:  # it may be a pipe
        texts = _read_parallel([lines])[0]
    note_opened([model], {str(lines): sha256(lines)} if lines.is_file() else {})
    found = opened.log_probs(texts)
    scored = list(zip(found, texts, strict=True))
    table = "\n".join(f"{log_prob:10.4f}  {text}" for log_prob, text in scored)
    content = [{"text": text, "log_prob": log_prob} for log_prob, text in scored]
    rows = (output, lambda: "".join(f"{log_prob}\t{on_one_line(text)}\n" for log_prob, text in scored))
    give_results(table, content, json_file, [rows])


def _read_parallel(paths: list[Path]) -> list[list[str]]:
    """The lines of each file; raises CorpusError with the problems of all files."""
    problems: list[Problem] = []
    files = [_read_lines(path, problems) for path in paths]
    if not problems:
        first, *others = zip(paths, files, strict=True)
        problems += [
            Problem(
                str(path),
                f"has {len(lines)} lines, but {first[0]} has {len(first[1])}; they must have the same number of lines",
            )
            for path, lines in others
            if len(lines) != len(first[1])
        ]
    if problems:
        raise CorpusError("the text to score", problems)
    return files


def _read_lines(path: Path, problems: list[Problem]) -> list[str]:
    try:
        content = as_utf_8(read_bytes(path))
    except CorpusError as error:
        problems.extend(Problem(str(path), problem.what) for problem in error.problems)
        return []
    if not content:
        problems.append(Problem(str(path), "is empty"))
    found: list[Problem] = []
    lines = [line for _, line in decode_lines(split_lines(content), found)]
    problems.extend(Problem(f"{path}, {problem.where}", problem.what) for problem in found)
    return lines
