"""`weft score`: scores a file of hypotheses against files of references, or a file of pairs by a model.

Counts nothing itself: `metrics` and tasks/forced.py do.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli.lines import shown_in_the_end
from weft.cli.options import only_model
from weft.cli.outputs import refuse_places
from weft.errors import CorpusError, Problem, UsageError
from weft.errors import shown as escaped
from weft.files import decode_lines, read_bytes, split_lines, write_atomically


def score(
    hypotheses: Annotated[
        Path | None, typer.Option("--hypotheses", help="Text file, one translation a line.", show_default=False)
    ] = None,
    references: Annotated[
        list[Path] | None,
        typer.Option(
            "--references",
            help="Text file, one reference a line. Give the option once for each file: --references a.txt "
            "--references b.txt. A blank line says that this file has no reference for the sentence.",
            show_default=False,
        ),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option("--language", help="Code of the target language, such as en or zh.", show_default=False),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option("--model", help="Instead: a model that tells how probable given translations are ..."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="... and the pairs: TSV or JSONL, .gz too.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="With --model: write each pair and its log-probability to this TSV."),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="With --model: change a key, such as data.header=false."),
    ] = None,
    ignore_punctuation: Annotated[
        bool, typer.Option("--ignore-punctuation", help="Leave punctuation out of BLEU-1 to BLEU-4.")
    ] = False,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            "--tokenizer", help="Tokenizer of sacreBLEU; left out, it follows the language.", show_default=False
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Also write the scores to this file; - prints JSON instead of the table."),
    ] = None,
) -> None:
    """Score translations: the courses' BLEU-1 to BLEU-4 and exact match, sacreBLEU, chrF, TER. With --model and --data
    the log-probability that a model gives to each pair, and the perplexity of all."""
    by_references = {"--hypotheses": hypotheses, "--references": references, "--language": language}
    only_so = {"--ignore-punctuation": ignore_punctuation, "--tokenizer": tokenizer}
    model = only_model(models, "weft score asks") if models else None
    by_model = {"--model": model, "--data": data}
    if model is not None and data is not None:
        if given := [name for name, value in {**by_references, **only_so}.items() if value]:
            raise UsageError(f"{given[0]} is for scoring by references; leave it out, or --model and --data")
        score_by_model(model, data, json_file, output, overrides or ())
        return
    if hypotheses is None or not references or language is None or model is not None or data is not None:
        wanted = by_model if model is not None or data is not None else by_references
        missing = [name for name, value in wanted.items() if not value]
        raise UsageError(
            f"{' and '.join(missing)} missing; give --hypotheses, --references and --language, or --model and --data"
        )
    if output is not None or overrides:
        raise UsageError(f"{'--output' if output else '--set'} is for scoring by --model and --data")
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

    refuse_places({"--json": json_file}, [hypotheses, *references])
    hypothesis_lines, *reference_sets = _read_parallel([hypotheses, *references])
    scores = score_translations(hypothesis_lines, reference_sets, language, ignore_punctuation, tokenizer)
    give_scores(scores.table(), scores.as_dict(), json_file)


def score_by_model(
    model: str, data: Path, json_file: Path | None, output: Path | None, overrides: Sequence[str]
) -> None:
    refuse_places({"--json": json_file, "--output": output}, [data])
    from weft.data.corpus import read_corpora
    from weft.tasks.exported import load_for
    from weft.tasks.forced import score_pairs

    translator = load_for(model, overrides)
    found = score_pairs(translator, read_corpora([str(data)], translator.model.recipe.data, Path()))
    rows = "".join("\t".join(row) + "\n" for row in found.rows())
    give_scores(found.table(), found.as_dict(), json_file, output, rows)


def give_scores(
    table: str, content: dict[str, Any], json_file: Path | None, output: Path | None = None, rows: str = ""
) -> None:
    """The table, and beside it or instead of it JSON; the rows go to the output."""
    as_json = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    with shown_in_the_end(as_json.rstrip() if json_file == Path("-") else escaped(table, len(table))):
        if output is not None:
            write_atomically(output, rows)
        if json_file is not None and json_file != Path("-"):
            write_atomically(json_file, as_json)


def _read_parallel(paths: list[Path]) -> list[list[str]]:
    """The lines of each file. All that is wrong with any of the files is reported at once."""
    problems: list[Problem] = []
    files = [_read_lines(path, problems) for path in paths]
    if not problems:
        first, *others = zip(paths, files, strict=True)
        problems += [
            Problem(
                str(path), f"has {len(lines)} lines, but {first[0]} has {len(first[1])}; they must pair line by line"
            )
            for path, lines in others
            if len(lines) != len(first[1])
        ]
    if problems:
        raise CorpusError("the text to score", problems)
    return files


def _read_lines(path: Path, problems: list[Problem]) -> list[str]:
    try:
        content = read_bytes(path)
    except CorpusError as error:
        problems.extend(Problem(str(path), problem.what) for problem in error.problems)
        return []
    if not content:
        problems.append(Problem(str(path), "is empty"))
    found: list[Problem] = []
    lines = [line for _, line in decode_lines(split_lines(content), found)]
    problems.extend(Problem(f"{path}, {problem.where}", problem.what) for problem in found)
    return lines
