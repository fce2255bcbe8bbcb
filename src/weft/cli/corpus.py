"""`weft corpus`: list the corpora known by name, get one into a folder, split one into parts.

weft.data.catalog describes the corpora, weft.data.corpus_folder downloads and converts one. The starter corpus comes
with weft (weft.data.starter).
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli.displays import choose_display
from weft.cli.help import group_of_verbs
from weft.cli.options import HasHeader, PairColumns, SourceLanguage, TargetLanguage, languages_in_header, layout_of
from weft.errors import Stopped, UsageError, WeftError
from weft.files import megabytes

app = group_of_verbs("Corpora: list those known by name, get one, split one.")


@app.command("list")
def list_corpora(
    as_json: Annotated[bool, typer.Option("--json", help="Print everything known about each as JSON.")] = False,
) -> None:
    """List the corpora known by name, with license and size."""
    from weft.data.catalog import STARTER, catalog
    from weft.figures.table import aligned, wrapped

    facts = [starter_facts(), *({"name": name, **corpus.model_dump(mode="json")} for name, corpus in catalog().items())]
    if as_json:
        typer.echo(json.dumps(facts, indent=1, ensure_ascii=False))
        return
    rows = [(STARTER, "zh en", "21,000 pairs", "")]
    for name, corpus in catalog().items():
        count = f"{corpus.rows:,} {corpus.unit}" if corpus.rows is not None else corpus.unit
        size = megabytes(corpus.bytes) if corpus.bytes is not None else "unknown size"
        rows.append((name, " ".join(corpus.languages), count, size))
    for line, fact in zip(aligned(rows), facts, strict=True):
        typer.echo(line)
        typer.echo(wrapped(f"    {fact['title']}", hang=4))
        typer.echo(f"    license: {fact['license']}; commercial use: {fact['commercial']}")
    opus = "any corpus of OPUS (https://opus.nlpl.eu): opus/CORPUS/VERSION/PAIR, such as opus/Tatoeba/v2023-04-12/de-en"
    typer.echo(wrapped(opus), err=True)


def starter_facts() -> dict[str, Any]:
    """The entry of the starter corpus in the list."""
    return {
        "name": "starter",
        "title": "Synthetic Chinese-English pairs that come with weft",
        "languages": ["zh", "en"],
        "license": "Apache-2.0",
        "commercial": "yes",
        "files": [],
        "parts": [{"name": part, "file": f"{part}.tsv"} for part in ("train", "valid", "test")],
    }


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="A name from `weft corpus list`, or opus/CORPUS/VERSION/PAIR.")],
    output: Annotated[Path | None, typer.Option(help="Folder to write into. Default: the name of the corpus.")] = None,
    mirror: Annotated[
        str | None,
        typer.Option("--from", metavar="URL|DIR", help="Mirror, or folder, that has the published files."),
    ] = None,
    part: Annotated[list[str] | None, typer.Option(help="Get only this part, such as test; may be repeated.")] = None,
    accept_unverified: Annotated[
        bool, typer.Option("--accept-unverified", help="Use files whose digest weft does not know.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files that differ.")] = False,
) -> None:
    """Write a corpus into a folder: its parts, and a README.md with source, license and counts."""
    from weft.data.catalog import STARTER, find_corpus

    folder = output or Path(name.replace("/", "-"))
    if name == STARTER:
        if mirror is not None or part or accept_unverified:
            raise UsageError("the starter corpus comes with weft as a whole and takes only --output and --force")
        get_starter(folder, force)
        return
    corpus = find_corpus(name)
    from weft.data.corpus_folder import Request, get

    request = Request(tuple(part or ()), mirror, accept_unverified, force)
    try:
        with choose_display() as display:
            converted = get(name, corpus, folder, request, display)
    except KeyboardInterrupt:
        raise Stopped("stopped; what has arrived is kept, and the same command continues from there") from None
    for file, outcome in converted.items():
        typer.echo("; ".join([f"{folder / file}  {outcome.rows:,} {corpus.unit}", *outcome.described()]), err=True)
    typer.echo(f"license: {corpus.license}; commercial use: {corpus.commercial}; see {folder / 'README.md'}", err=True)


def get_starter(folder: Path, force: bool) -> None:
    """Write the starter corpus and report its size and an example."""
    from weft.data import starter

    try:
        corpus = starter.write(folder, force=force)
    except OSError as error:
        raise WeftError(
            f"cannot write the corpus to {folder}: {error.strerror}; choose another folder with --output"
        ) from error
    for part, pairs in corpus.items():
        typer.echo(f"{folder / part}.tsv  {len(pairs):>6,} pairs", err=True)
    chinese, english = corpus["train"][0]
    typer.echo(f"for example: {chinese}  {english}", err=True)


@app.command("split")
def split_corpus(
    files: Annotated[
        list[str],
        typer.Argument(
            help="TSV, CSV, JSONL or TMX files of pairs, or text files two by two, source then target; .gz too.",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option(help="New folder for the parts.", show_default=False)],
    source: SourceLanguage = None,
    target: TargetLanguage = None,
    valid: Annotated[int, typer.Option(min=1, help="Number of pairs held out for validation.")] = 1_000,
    test: Annotated[int, typer.Option(min=0, help="Number of pairs held out for the final test.")] = 1_000,
    columns: PairColumns = None,
    header: HasHeader = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw; another seed holds out other pairs.")] = 1,
) -> None:
    """Split a corpus into train.tsv, valid.tsv and test.tsv that share no sentence.

    Held-out pairs have no side in common with any other pair. They are drawn by their text, so the order of the files
    does not matter.
    """
    from weft.data.corpus import group_files
    from weft.data.splitting import split
    from weft.training.signals import stopped_by_signal

    usage = "weft corpus split FILE... --source zh --target en"
    source, target = languages_in_header(files, source, target, columns, header)
    layout = layout_of(source, target, columns, header, group_files(files), usage)
    entries = group_files(files, (layout.source, layout.target))
    places = [Path(name).resolve() for name in files]
    if repeated := {name for name in files if places.count(Path(name).resolve()) > 1}:
        raise UsageError(f"{', '.join(sorted(repeated))} is named more than once")
    held_out = {"valid": valid, "test": test} if test else {"valid": valid}
    with stopped_by_signal(f"stopped before {output} was complete; nothing was written"):
        came = split(entries, layout, output, held_out, seed=seed)
    written = {part: f"{output / part}.tsv" for part in came.pairs}
    width = max(map(len, written.values()))
    for part, pairs in came.pairs.items():
        typer.echo(f"{written[part]:<{width}}  {pairs:>9,} pairs", err=True)
    if came.copies:
        typer.echo(f"{came.copies:,} further copies of held-out pairs are in no part", err=True)
    if came.dropped_empty:
        typer.echo(f"{came.dropped_empty:,} pairs with an empty side are in no part", err=True)
