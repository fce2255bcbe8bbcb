"""`weft score`: scores a file of hypotheses against files of references. Counts nothing itself: `metrics` does."""

import json
from pathlib import Path
from typing import Annotated

import typer

from weft.errors import CorpusError, Problem
from weft.files import decode_lines, read_bytes, refuse_replacing, split_lines, write_atomically


def score(
    hypotheses: Annotated[Path, typer.Option("--hypotheses", help="Text file, one translation a line.")],
    references: Annotated[
        list[Path],
        typer.Option(
            "--references",
            help="Text file, one reference a line. Give the option once for each file: --references a.txt "
            "--references b.txt. A blank line says that this file has no reference for the sentence.",
        ),
    ],
    language: Annotated[str, typer.Option("--language", help="Code of the target language, such as en or zh.")],
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
    """Score translations: the courses' BLEU-1 to BLEU-4 and exact match, sacreBLEU, chrF, TER."""
    from weft.metrics.translation import score_translations

    refuse_replacing("--json", json_file, [hypotheses, *references])
    hypothesis_lines, *reference_sets = _read_parallel([hypotheses, *references])
    scores = score_translations(hypothesis_lines, reference_sets, language, ignore_punctuation, tokenizer)
    as_json = json.dumps(scores.as_dict(), indent=2, ensure_ascii=False) + "\n"
    if json_file == Path("-"):
        typer.echo(as_json, nl=False)
        return
    if json_file is not None:
        write_atomically(json_file, as_json)
    typer.echo(scores.table())


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
