"""What the ordinary reader refuses is named by file and line, and the rest is read all the same."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data.corpus import Columns, CorpusEntry, Layout
from weft.data.doctor.reading import File
from weft.errors import CorpusError

ZH_EN = Layout("zh", "en")


def read(
    folder: Path, entry: CorpusEntry, layout: Layout = ZH_EN
) -> tuple[list[tuple[int, str, str]], list[tuple[str, int, str]]]:
    """The pairs of an entry and the faults, as (kind, line, note)."""
    file = File("name", "train", entry, folder, layout)
    pairs = [(number, source, targets[0]) for number, source, targets in file.pairs()]
    assert list(file.lines) == [number for number, _, _ in pairs]
    return pairs, [(fault.kind, fault.line, fault.note) for fault in file.faults]


def write(folder: Path, name: str, content: bytes) -> CorpusEntry:
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return CorpusEntry(path=name)


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_lines_with_too_few_columns_are_named_and_those_with_too_many_are_read_as_well(
    tmp_path: Path, name: str
) -> None:
    entry = write(tmp_path, name, "zh\ten\n一\tone\n二\n三\tthree\tdrei\n四\tfour\n".encode())
    pairs, faults = read(tmp_path, entry)
    assert pairs == [(2, "一", "one"), (4, "三", "three"), (5, "四", "four")]
    assert faults == [("columns", 3, "1, not 2"), ("columns", 4, "3, not 2")]


def test_a_line_that_is_not_utf8_is_named_with_the_byte_and_read_with_marks_for_what_is_lost(tmp_path: Path) -> None:
    entry = write(tmp_path, "a.tsv", b"zh\ten\n\xc4\xe3\tyou\n\xe5\xa5\xbd\tgood\n")
    pairs, faults = read(tmp_path, entry)
    assert pairs == [(2, "\ufffd\ufffd", "you"), (3, "好", "good")]
    assert faults == [("encoding", 2, "byte 0xc4 at 1")]


def test_a_byte_order_mark_is_no_fault_at_the_start_of_a_file_and_one_inside(tmp_path: Path) -> None:
    entry = write(tmp_path, "a.tsv", "\ufeffzh\ten\n一\tone\n\ufeff二\ttwo\n".encode())
    pairs, faults = read(tmp_path, entry)
    assert pairs == [(2, "一", "one"), (3, "二", "two")]
    assert faults == [("byte order mark", 3, "")]


def test_two_text_files_of_unequal_length_are_paired_as_far_as_they_go(tmp_path: Path) -> None:
    (tmp_path / "a.zh").write_text("一\n二\n三\n", encoding="utf-8")
    (tmp_path / "a.en").write_text("one\ntwo\n", encoding="utf-8")
    pairs, faults = read(tmp_path, CorpusEntry(source="a.zh", target="a.en"))
    assert pairs == [(1, "一", "one"), (2, "二", "two")]
    assert faults == [("unequal counts", 3, "a.zh has 3 lines, a.en 2")]


def test_lines_end_at_newline_alone_and_windows_line_ends_are_no_fault(tmp_path: Path) -> None:
    entry = write(tmp_path, "a.tsv", "zh\ten\r\n一\r\u2028二\tone\u0085two\r\n".encode())
    assert read(tmp_path, entry) == ([(2, "一\r\u2028二", "one\u0085two")], [])


def test_lines_of_jsonl_that_are_no_pair_are_named(tmp_path: Path) -> None:
    rows = ['{"zh": "一", "en": "one"}', "{", "[]", '{"zh": "二"}', '{"zh": "\\ud83d", "en": "x"}', "null"]
    entry = write(tmp_path, "a.jsonl", "\n".join(rows).encode())
    pairs, faults = read(tmp_path, entry)
    assert pairs == [(1, "一", "one")]
    assert [(kind, line) for kind, line, _ in faults] == [("json", line) for line in range(2, 7)]


def test_columns_are_chosen_by_name_or_without_a_header_by_number(tmp_path: Path) -> None:
    entry = write(tmp_path, "a.tsv", "x\t一\tone\n".encode())
    layout = Layout("zh", "en", Columns(source="2", target="3"), header=False)
    assert read(tmp_path, entry, layout)[0] == [(1, "一", "one")]
    entry = write(tmp_path, "b.jsonl", json.dumps({"s": "一", "t": "one"}).encode())
    assert read(tmp_path, entry, Layout("zh", "en", Columns(source="s", target="t")))[0] == [(1, "一", "one")]


def test_text_is_looked_at_as_training_reads_it(tmp_path: Path) -> None:
    entry = write(tmp_path, "a.tsv", "zh\ten\n你 好 ！\tI do n't .\n".encode())
    assert read(tmp_path, entry)[0] == [(2, "你 好 ！", "I do n't .")]
    assert read(tmp_path, entry, Layout("zh", "en", detokenize=True))[0] == [(2, "你好！", "I don't.")]


@pytest.mark.parametrize(
    ("name", "content", "says"), [("a.tsv", b"de\tfr\n", "no column `zh`"), ("b.tsv.gz", None, "does not exist")]
)
def test_without_a_file_or_its_columns_there_is_nothing_to_read(
    tmp_path: Path, name: str, content: bytes | None, says: str
) -> None:
    if content is not None:
        write(tmp_path, name, content)
    with pytest.raises(CorpusError, match=says):
        read(tmp_path, CorpusEntry(path=name))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_a_header_in_another_encoding_is_read(tmp_path: Path, encoding: str) -> None:
    entry = write(tmp_path, "a.tsv", "zh\ten\n一\tone\n".encode(encoding))
    assert read(tmp_path, entry)[0] == [(2, "一", "one")]


def test_a_header_in_another_encoding_names_its_columns(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="has no column `zh` and `en`; the header names: 中文, 英文"):
        read(tmp_path, write(tmp_path, "a.tsv", "中文\t英文\n一\tone\n".encode("gb18030")))


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl"])
def test_one_column_is_not_read_as_both_sides(tmp_path: Path, name: str) -> None:
    entry = write(tmp_path, name, b'{"zh": "1"}\n')
    for names in (("zh", "zh"), ("zh", ("en", "zh"))):
        layout = Layout("zh", "en", Columns(source=names[0], target=names[1]))
        with pytest.raises(CorpusError, match="source and target are the same column, `zh`"):
            read(tmp_path, entry, layout)


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz", "a.jsonl", "a.zh"])
@given(
    content=st.lists(
        st.sampled_from(
            [b"zh\ten\n", b'{"zh": "', b'", "en": "b"}', b"\t", b"\n", b"\r", b"\xef\xbb\xbf", "好".encode()]
        )
        | st.binary(max_size=8)
    ).map(b"".join)
)
def test_whatever_stands_in_a_file_is_read_or_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes
) -> None:
    folder = tmp_path_factory.mktemp("files")
    entry = write(folder, name, content)
    if name == "a.zh":
        (folder / "a.en").write_bytes(b"one\ntwo\n")
        entry = CorpusEntry(source="a.zh", target="a.en")
    try:
        pairs, faults = read(folder, entry)
    except CorpusError:
        return
    lines = {number for number, _, _ in pairs} | {line for _, line, _ in faults}
    assert lines >= set(range(2 if name.startswith("a.tsv") else 1, content.count(b"\n") + 1)) or name == "a.zh"
