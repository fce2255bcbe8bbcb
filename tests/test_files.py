"""Files under names and with texts that are as odd as a file system allows."""

import json
from pathlib import Path

import pytest

from weft.errors import WeftError
from weft.files import staged_beside, write_atomically


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


def test_what_is_staged_lies_beside_its_place_and_no_two_files_share_a_place(tmp_path: Path) -> None:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    assert staged_beside(one).parent == tmp_path and staged_beside(one) != staged_beside(other)
    assert staged_beside(one).name.startswith(".") and staged_beside(one).name.endswith(".partial")
