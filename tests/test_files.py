"""Files under names and with texts that are as odd as a file system allows."""

import ast
import gzip
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from weft.cli.lines import open_output
from weft.errors import Problem, UsageError, WeftError
from weft.files import (
    as_utf_8,
    chinese_encoding,
    decode_lines,
    lines_of,
    read_bytes,
    refuse_replacing,
    staging_path,
    try_lock,
    write_atomically,
)


def test_a_name_as_long_as_a_file_system_allows_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("语" * 83 + ".json")  # 254 bytes
    write_atomically(path, "{}")
    assert path.read_text(encoding="utf-8") == "{}" and list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_is_told_though_clearing_away_fails_too(tmp_path: Path) -> None:
    with pytest.raises(WeftError, match="could not be written: File name too long"):
        write_atomically(tmp_path / ("a" * 256), "")
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_not_utf_8_stands_in_json_as_an_escape(tmp_path: Path) -> None:
    name = b"\xff.tsv".decode("utf-8", "surrogateescape")
    write_atomically(tmp_path / "out.json", json.dumps({"data": name}, ensure_ascii=False))
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8")) == {"data": name}


def test_a_file_whose_name_ends_with_gz_is_zipped_and_the_same_again(tmp_path: Path) -> None:
    for name in ("one.tsv.gz", "two.tsv.gz"):
        write_atomically(tmp_path / name, "一\t1\n")
        assert read_bytes(tmp_path / name).decode() == "一\t1\n"
    assert (tmp_path / "one.tsv.gz").read_bytes() == (tmp_path / "two.tsv.gz").read_bytes()


@pytest.mark.parametrize("path", ["/dev/fd/{0}", "/proc/self/fd/{0}", "/proc/thread-self/fd/{0}", "link", "of a link"])
@pytest.mark.parametrize("by", ["write_atomically", "open_output"])
def test_an_open_file_is_written_where_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, by: str
) -> None:
    """As with `>> file`: what it held stays, and what is written next follows."""
    monkeypatch.chdir(tmp_path)
    Path("kept").write_text("old\n", encoding="utf-8")
    with open("kept", "a", encoding="utf-8") as kept:
        Path("link").symlink_to(f"/dev/fd/{kept.fileno()}")
        Path("of a link").symlink_to("link")
        path = path.format(kept.fileno())
        refuse_replacing("--output", Path(path), [])
        write_atomically(Path(path), "新\n") if by == "write_atomically" else write_line(Path(path), "新\n")
        kept.write("next\n")
    assert Path("kept").read_text(encoding="utf-8") == "old\n新\nnext\n"
    assert sorted(os.listdir()) == ["kept", "link", "of a link"]


def write_line(path: Path, line: str) -> None:
    with open_output(path) as output:
        output.write(line)


@pytest.mark.parametrize("by", [write_atomically, write_line])
def test_a_pipe_gets_the_content_and_stays_a_pipe(tmp_path: Path, by: Callable[[Path, str], None]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    refuse_replacing("--json", pipe, [])
    by(pipe, "{}\n")
    assert os.read(reader, 100) == b"{}\n" and pipe.is_fifo() and os.listdir(tmp_path) == ["pipe"]
    os.close(reader)


@pytest.mark.parametrize("path", ["/dev/fd/{0}", "/dev/fd/999", "link"])
def test_a_descriptor_that_is_not_open_for_writing_is_refused_before_the_work(tmp_path: Path, path: str) -> None:
    (tmp_path / "read").touch()
    (tmp_path / "link").symlink_to("/dev/fd/999")
    with open(tmp_path / "read", "rb") as read, pytest.raises(UsageError, match="cannot be written: "):
        refuse_replacing("--output", tmp_path / path.format(read.fileno()), [])


def test_standard_output_that_is_an_input_is_refused(tmp_path: Path) -> None:
    with open(tmp_path / "in.txt", "a") as file, pytest.raises(UsageError, match="would overwrite an input"):
        refuse_replacing("--output", Path(f"/dev/fd/{file.fileno()}"), [tmp_path / "in.txt"])


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to_is_named_before_the_work(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(UsageError, match="is not writable"):
        refuse_replacing("--output", tmp_path / "out.tsv", [])


def test_what_is_staged_lies_beside_its_place_and_no_two_files_share_a_place(tmp_path: Path) -> None:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    assert staging_path(one).parent == tmp_path and staging_path(one) != staging_path(other)
    assert staging_path(one).name.startswith(".") and staging_path(one).name.endswith(".partial")


def test_where_files_cannot_be_locked_wsl_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with open(tmp_path / "lock", "w") as lock, pytest.raises(WeftError, match="does not support; use WSL"):
        try_lock(lock)


def test_no_module_needs_what_windows_lacks_to_be_imported() -> None:
    names = {"fcntl", "grp", "pwd", "resource", "termios"}
    for file in Path(weft.__file__).parent.rglob("*.py"):
        body = ast.parse(file.read_text(encoding="utf-8")).body
        imported = {name.name for node in body if isinstance(node, ast.Import) for name in node.names}
        assert not imported & names, file


SIMPLIFIED, TRADITIONAL = "你好，世界。\n他走了\r\n我有 2 个苹果\n", "這是一個測試。\n他走了\n"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (SIMPLIFIED, "gb18030"),
        (SIMPLIFIED, "gbk"),
        (SIMPLIFIED * 5000, "gb18030"),  # more than is looked at
        (TRADITIONAL, "big5"),
        (SIMPLIFIED, "utf-16"),
        (TRADITIONAL * 5000, "utf-16-le"),
        (SIMPLIFIED, "utf-16-be"),
        ("Grüße aus Köln\n", "utf-16-be"),
        (SIMPLIFIED, "utf-8"),
    ],
)
def test_a_text_in_another_encoding_is_read_as_utf_8(tmp_path: Path, text: str, encoding: str) -> None:
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode(encoding)))
    for name in ("a.txt", "a.txt.gz"):
        assert list(lines_of(tmp_path / name)) == text.encode().removesuffix(b"\n").split(b"\n")
    assert as_utf_8(text.encode(encoding)) == text.encode()


@pytest.mark.parametrize(
    "data",
    [
        "Grüße\n".encode("latin-1"),
        "안녕하세요 세계\n".encode("euc-kr"),
        "今日はいい天気です。\n".encode("euc-jp"),
        "Привет\n".encode("cp1251"),
        bytes(range(256)) * 9,
        b"\0" * 99,
        SIMPLIFIED.encode("gb18030") + b"\xff\xff\n",
        SIMPLIFIED.encode() + b"\xff\n",
    ],
)
def test_what_cannot_be_told_stays_as_it_is(data: bytes) -> None:
    assert as_utf_8(data) == data


def test_a_byte_that_its_encoding_does_not_have_is_not_utf_8() -> None:
    assert as_utf_8(TRADITIONAL.encode("utf-16") + b"\x00\xd8\n\x00") == f"{TRADITIONAL}".encode() + b"\xff\n"


@pytest.mark.parametrize("encoding", ["UTF-32", "UTF-32-BE", "UTF-16", "UTF-16-BE"])
def test_an_encoding_is_named_by_its_byte_order_mark(encoding: str) -> None:
    problems: list[Problem] = []
    assert not [*decode_lines([f"\ufeff{SIMPLIFIED}".encode(encoding)], problems)]
    assert f"convert the file from {encoding.removesuffix('-BE')}: iconv -f" in problems[0].what


@pytest.mark.parametrize(
    ("text", "encoding", "named", "perhaps"),
    [
        ("我昨天买了三本书。", "gb18030", "GB18030", "GB18030"),
        ("我昨天買了三本書。", "big5", "BIG5", "BIG5"),
        ("Tom 说：“你好！”", "gb18030", "GB18030", "GB18030"),
        ("我昨天買了三本書。", "gb18030", None, "GB18030"),  # one of two characters is rare in GB 18030
        ("葡萄\tgrape", "gb18030", None, "GB18030"),  # neither is frequent
        ("café crème à là carte", "latin-1", None, None),
        ("Это русский текст", "cp1251", None, None),
        ("これは日本語です", "shift-jis", None, None),
        ("é", "latin-1", None, None),
    ],
)
def test_an_older_encoding_of_chinese_is_known_by_its_common_characters(
    text: str, encoding: str, named: str | None, perhaps: str | None
) -> None:
    assert chinese_encoding(text.encode(encoding)) == named
    assert chinese_encoding(text.encode(encoding), any) == perhaps
