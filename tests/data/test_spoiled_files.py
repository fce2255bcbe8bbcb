"""Files that were spoiled byte by byte are read, or refused by name: no other error ever comes out (T4)."""

import gzip
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from weft.data.conversion import Published, convert
from weft.data.corpus import CorpusEntry, DataConfig, read_corpora
from weft.data.pair_files import Reading
from weft.data.tmx import read_tmx
from weft.errors import CorpusError

TIMES = 150
PAIRS = [("你好。", "Hello."), ("他说：“谢谢！”", "He said: 'Thank you!'"), ("𠮷野家 100%", "Yoshinoya é 100%")]
TSV = "zh\ten\n" + "".join(f"{zh}\t{en}\n" for zh, en in PAIRS)
JSONL = "".join(json.dumps({"zh": zh, "en": en}, ensure_ascii=False) + "\n" for zh, en in PAIRS)
TMX = (
    '<?xml version="1.0" encoding="UTF-8"?><tmx version="1.4"><header srclang="zh"/><body>'
    + "".join(
        f'<tu><tuv xml:lang="zh"><seg>{zh}</seg></tuv><tuv xml:lang="en"><seg>{en}<ph>x</ph>&amp;</seg></tuv></tu>\n'
        for zh, en in PAIRS
    )
    + "</body></tmx>"
)
CONLLU = "".join(
    f"# sent_id = {number}\n# text = {en}\n1\tHello\thello\tINTJ\tUH\t_\t0\troot\t_\t_\n\n"
    for number, (_, en) in enumerate(PAIRS)
)
MANYTHINGS = "".join(f"{en}\t{zh}\tCC-BY 2.0 #1\n" for zh, en in PAIRS)
DIALOGUES = "Hi ! __eou__ Hello ! __eou__\t0 0\nBye . __eou__\t0\n"
CONFIG = DataConfig(source="zh", target="en", train=("x",), valid=("x",))

INSERTED = [b"\t", b"\r", b"\n", b"\0", b"\xff", b"\xed\xa0\x80", b"\xe2\x80\xa8", b'"', b"\\ud800", b"<", b"&", b"]]>"]
INSERTED += [b"<!DOCTYPE x [<!ENTITY a 'b'>]>", b"[" * 3000, b"<tu>" * 50, b"\xef\xbb\xbf", b"__eou__", b"1e999"]


def spoiled(content: bytes) -> Iterator[bytes]:
    """The content with one to three places cut out, changed, doubled or filled with what readers stumble over."""
    for seed in range(TIMES):
        dice, spoiled = random.Random(seed), bytearray(content)
        for _ in range(dice.randint(1, 3)):
            begin = dice.randrange(len(spoiled) + 1)
            end = min(len(spoiled), begin + dice.choice([0, 1, 1, 2, 5, 40]))
            new = dice.choice([b"", dice.randbytes(end - begin), bytes(spoiled[begin:end]) * 2, dice.choice(INSERTED)])
            spoiled[begin:end] = new
        yield bytes(spoiled)


@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize(("name", "content"), [("a.tsv", TSV), ("a.jsonl", JSONL)])
def test_a_spoiled_file_of_pairs_gives_pairs_or_one_error(
    name: str, content: str, gzipped: bool, tmp_path: Path
) -> None:
    name += ".gz" if gzipped else ""
    sound = gzip.compress(content.encode(), mtime=0) if gzipped else content.encode()

    def read() -> list[tuple[str, ...]]:
        corpus = read_corpora([name], CONFIG, tmp_path)
        return list(zip(corpus.sources, corpus.targets, strict=True))

    check(read, sound, tmp_path / name)


def test_a_spoiled_text_beside_another_gives_pairs_or_one_error(tmp_path: Path) -> None:
    (tmp_path / "a.zh").write_text("".join(f"{zh}\n" for zh, _ in PAIRS), encoding="utf-8")

    def read() -> list[tuple[str, ...]]:
        corpus = read_corpora([CorpusEntry(source="a.zh", target="a.en")], CONFIG, tmp_path)
        return list(zip(corpus.sources, corpus.targets, strict=True))

    check(read, "".join(f"{en}\n" for _, en in PAIRS).encode(), tmp_path / "a.en")


def test_a_spoiled_translation_memory_gives_pairs_or_one_error(tmp_path: Path) -> None:
    path = tmp_path / "memory.tmx"

    def read() -> list[tuple[str, ...]]:
        reading = Reading(path.name)
        rows = list(read_tmx(path, ("zh", "en"), reading))
        reading.raise_problems()
        return [(source, *targets) for _, source, targets in rows]

    check(read, TMX.encode(), path)


@pytest.mark.parametrize(
    ("kind", "content"),
    [("manythings", MANYTHINGS), ("dialogues", DIALOGUES), ("treebank-text", CONLLU), ("lines", "a\nb\n")],
)
def test_a_spoiled_file_of_a_published_corpus_is_converted_or_refused(kind: str, content: str, tmp_path: Path) -> None:
    (tmp_path / "sound").write_text(content, encoding="utf-8")

    def read() -> list[tuple[str, ...]]:
        others = [] if kind == "manythings" else [Published(tmp_path / "sound")]
        columns = ("zh", "en", "attribution")[: 3 if kind == "manythings" else 2]
        convert(kind, [Published(tmp_path / "spoiled"), *others], columns, tmp_path / "out.tsv")  # type: ignore[arg-type]
        lines = (tmp_path / "out.tsv").read_bytes().decode().split("\n")[1:-1]
        rows = [tuple(line.split("\t")) for line in lines]
        assert all(len(row) == len(columns) for row in rows)
        return rows

    check(read, content.encode(), tmp_path / "spoiled")


def check(read: Callable[[], list[tuple[str, ...]]], sound: bytes, path: Path) -> None:
    """Sound, the file is read; spoiled, it gives rows of one line and no surrogate each, or a CorpusError."""
    path.write_bytes(sound)
    assert read()
    outcomes = {"read": 0, "refused": 0}
    for content in spoiled(sound):
        path.write_bytes(content)
        try:
            rows = read()
        except CorpusError as error:
            assert path.name in str(error) and len(str(error)) < 5000
            outcomes["refused"] += 1
        else:
            assert all("\n" not in cell and cell.encode() is not None for row in rows for cell in row)
            outcomes["read"] += 1
    assert all(outcomes.values()), outcomes
