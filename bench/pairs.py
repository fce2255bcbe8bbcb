"""Files of Chinese and English pairs with a header, which the benchmarks read and write."""

from collections.abc import Iterable
from pathlib import Path

from weft.files import write_atomically

Pair = tuple[str, str]


def read_pairs(path: Path, languages: tuple[str, str] = ("zh", "en")) -> list[Pair]:
    """Two columns of a file, by the names of the languages."""
    header, *rows = (row.split("\t") for row in path.read_text(encoding="utf-8").removesuffix("\n").split("\n"))
    source, target = map(header.index, languages)
    return [(row[source], row[target]) for row in rows]


def write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    write_atomically(path, "zh\ten\n" + "".join(f"{zh}\t{en}\n" for zh, en in pairs))
