"""Keys: hashed in a file, compared to the end."""

import hashlib
import os
import secrets
from pathlib import Path

import pytest

from weft.errors import ProblemsError, UsageError
from weft.serving.keys import Keys, add_key, make_key, read_keys


def test_a_key_is_stored_as_its_hash(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    first, second = make_key(), make_key()
    add_key(file, first, "the library's\npage")
    add_key(file, second, "")
    assert first not in file.read_text() and second not in file.read_text()
    assert file.read_text().splitlines()[0] == f"{hashlib.sha256(first.encode()).hexdigest()}  the library's page"
    assert file.stat().st_mode & 0o077 == 0
    keys = read_keys(file)
    assert keys.admit(first.encode()) and keys.admit(second.encode())
    assert not any(
        keys.admit(key) for key in (b"", b"weft-", first[:-1].encode(), "钥匙".encode(), b"\xff" * 1_000_000)
    )


def test_a_key_is_a_line_of_its_own_where_the_last_line_has_no_end(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{'a' * 64}  somebody's")
    add_key(file, key := make_key(), "mine")
    assert [line.partition("  ")[2] for line in file.read_text().splitlines()] == ["somebody's", "mine"]
    keys = read_keys(file)
    assert len(keys.digests) == 2 and keys.admit(key.encode())


def test_every_digest_is_compared_whichever_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    digests = tuple(hashlib.sha256(str(number).encode()).digest() for number in range(5))

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return one == other

    monkeypatch.setattr(secrets, "compare_digest", compare)
    assert Keys(digests).admit(b"0")
    assert compared == list(digests)


def test_every_invalid_line_of_a_key_file_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# ours\n{'a' * 64}\nweft-abc\n{'g' * 64}  name\n")
    with pytest.raises(ProblemsError, match="2 problems") as refused:
        read_keys(file)
    assert [problem.where for problem in refused.value.problems] == ["line 3", "line 4"]
    file.write_text("# none yet\n")
    with pytest.raises(ProblemsError, match="holds no key"):
        read_keys(file)
    with pytest.raises(UsageError, match="cannot be read"):
        read_keys(tmp_path / "missing")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_keys(file)


def test_an_endless_file_is_not_read_and_no_key_is_added_to_a_device(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="larger than 1024 KiB"):
        read_keys(Path("/dev/zero"))
    os.mkfifo(tmp_path / "pipe")
    for place in (Path("/dev/full"), tmp_path / "pipe", tmp_path):
        with pytest.raises(UsageError, match="is not a file"):
            add_key(place, make_key(), "a")


def test_no_key_is_added_to_a_file_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text("zh\ten\n一\tone\n", encoding="utf-8")
    with pytest.raises(ProblemsError, match=r"line 1 +is not the SHA-256 of a key"):
        add_key(tmp_path / "p.tsv", make_key(), "a")
    assert (tmp_path / "p.tsv").read_text(encoding="utf-8") == "zh\ten\n一\tone\n"
    (tmp_path / "keys").write_text("# of the library\n", encoding="utf-8")
    add_key(tmp_path / "keys", key := make_key(), "a")
    assert read_keys(tmp_path / "keys").admit(key.encode())


@pytest.mark.parametrize(("name", "file", "says"), [("\udcff", "keys", "is not UTF-8"), ("a", "k" * 300, "too long")])
def test_a_name_that_cannot_be_written_is_refused(tmp_path: Path, name: str, file: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        add_key(tmp_path / file, "weft-x", name)
    assert list(tmp_path.iterdir()) == []
