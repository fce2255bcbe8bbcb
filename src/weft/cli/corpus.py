"""`weft corpus`: lists the corpora that weft knows by name, and writes one of them into a folder.

It knows the names and where each corpus comes from; what a corpus is made of stands with its maker in `weft.data`.
"""

import difflib
from pathlib import Path
from typing import Annotated

import typer

from weft.errors import UsageError, WeftError

app = typer.Typer(help="Corpora known by name: list them, get one.", no_args_is_help=True)

CORPORA = {
    "starter": "21,000 synthetic Chinese-English pairs (zh, en), generated here in a moment; Apache-2.0",
}


@app.command("list")
def list_corpora() -> None:
    """List the corpora known by name."""
    width = max(map(len, CORPORA))
    for name, description in CORPORA.items():
        print(f"{name:<{width}}  {description}")


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="A name from `weft corpus list`.")],
    output: Annotated[Path | None, typer.Option(help="Folder to write into; the corpus's name if left out.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other sentences.")] = 1,
) -> None:
    """Write a corpus into a folder: train.tsv, valid.tsv, test.tsv and a README.md."""
    _check_known(name)
    from weft.data import starter

    folder = output or Path(name)
    try:
        corpus = starter.write(folder, seed)
    except OSError as error:
        raise WeftError(
            f"cannot write the corpus to {folder}: {error.strerror}; name another folder by --output"
        ) from error
    for part, pairs in (("train", corpus.train), ("valid", corpus.valid), ("test", corpus.test)):
        typer.echo(f"{folder / part}.tsv  {len(pairs):>6,} pairs", err=True)
    chinese, english = corpus.train[0]
    typer.echo(f"for example: {chinese}  {english}", err=True)


def _check_known(name: str) -> None:
    if name in CORPORA:
        return
    near = difflib.get_close_matches(name, CORPORA, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(CORPORA)}"
    raise UsageError(f"no corpus is named {name!r}; {hint}")
