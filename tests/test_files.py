"""Files under names and with texts that are as odd as a file system allows."""

import ast
import json
import os
import sys
from pathlib import Path

import pytest

import weft
from weft.errors import UsageError, WeftError
from weft.files import chinese_encoding, read_bytes, refuse_replacing, staging_path, try_lock, write_atomically


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


@pytest.mark.parametrize(
    ("text", "encoding", "named"),
    [
        ("我昨天买了三本书。", "gb18030", "GB18030"),
        ("我昨天買了三本書。", "big5", "BIG5"),
        ("Tom 说：“你好！”", "gb18030", "GB18030"),
        ("我昨天買了三本書。", "gb18030", None),  # one of two characters is rare in GB 18030
        ("café crème à là carte", "latin-1", None),
        ("Это русский текст", "cp1251", None),
        ("これは日本語です", "shift-jis", None),
        ("é", "latin-1", None),
    ],
)
def test_an_older_encoding_of_chinese_is_known_by_its_common_characters(
    text: str, encoding: str, named: str | None
) -> None:
    assert chinese_encoding(text.encode(encoding)) == named
