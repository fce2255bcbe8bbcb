"""A file that grows in chunks: wherever a process dies, the next one ends with the same file."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from weft.errors import RunError, UsageError, WeftError
from weft.files import staging_path
from weft.translating import growing_file
from weft.translating.growing_file import GrowingFile

CHUNKS = ["zh\ten\n", "一\tone\n二\ttwo\n", "", "三\tthree\n"]
WHOLE = "".join(CHUNKS)
MADE_OF = {"method": "test", "decoding.betas": (1, 2)}


class Killed(BaseException):
    """The end of a process, but for what it would clean up."""


def grow(path: Path, *, chunks: int = len(CHUNKS), made_of: dict[str, Any] = MADE_OF) -> GrowingFile:
    """Write the chunks that are missing, this many at most, and finish if all are there."""
    file = GrowingFile(path, made_of)
    with file.opened():
        if file.is_finished:
            return file
        for number in range(file.state.get("chunks", 0), chunks):
            file.append(CHUNKS[number], {"chunks": number + 1})
        if chunks == len(CHUNKS):
            file.finish()
    return file


def chunks_of(manifest: Path) -> int:
    """How many chunks the one that died has told to be there."""
    return json.loads(manifest.read_text(encoding="utf-8"))["state"].get("chunks", 0) if manifest.exists() else 0


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_it_appears_under_its_name_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "bt.tsv"
    for chunks in range(1, len(CHUNKS)):
        grow(path, chunks=chunks)
        assert names(tmp_path) == {".bt.tsv.unfinished", "bt.tsv.json"}
    assert grow(path).is_finished
    assert names(tmp_path) == {"bt.tsv", "bt.tsv.json"}
    assert path.read_text(encoding="utf-8") == WHOLE
    known = json.loads((tmp_path / "bt.tsv.json").read_text(encoding="utf-8"))
    assert known["state"] == {"chunks": 4} and known["finished"]


def test_wherever_a_process_dies_the_next_one_ends_with_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Die at the first moment that touches the disk, the second, and so on, until there is none left to die at."""
    fsync, replace, write_atomically = os.fsync, os.replace, growing_file.write_atomically
    append = GrowingFile.append
    left = 0
    written: list[str] = []
    kept: list[int] = []

    def noting(file: GrowingFile, chunk: str, state: dict[str, Any]) -> None:
        written.append(chunk)
        append(file, chunk, state)

    def die(work: Any) -> Any:
        def dying(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed
            return work(*arguments)

        return dying

    for moment in range(1, 100):
        folder = tmp_path / str(moment)
        folder.mkdir()
        left = moment
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", die(fsync))
            patch.setattr(os, "replace", die(replace))
            patch.setattr(growing_file, "write_atomically", die(write_atomically))
            try:
                grow(folder / "bt.tsv")
                died = False
            except Killed:
                died = True
        kept.append(chunks_of(folder / "bt.tsv.json"))
        written.clear()
        with monkeypatch.context() as patch:
            patch.setattr(GrowingFile, "append", noting)
            grow(folder / "bt.tsv")
        assert written == CHUNKS[kept[-1] :]
        assert (folder / "bt.tsv").read_text(encoding="utf-8") == WHOLE
        assert names(folder) == {"bt.tsv", "bt.tsv.json"}
        if not died:
            assert moment > 10
            assert kept == sorted(kept) and set(kept) == set(range(len(CHUNKS) + 1))
            return
    raise AssertionError("it never came through")


def test_what_was_written_behind_the_last_chunk_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "bt.tsv"
    grow(path, chunks=2)
    with open(tmp_path / ".bt.tsv.unfinished", "ab") as file:
        file.write("三\tthr".encode())
    grow(path)
    assert path.read_text(encoding="utf-8") == WHOLE


def test_beginning_anew_deletes_no_file_of_somebody_else(tmp_path: Path) -> None:
    path = tmp_path / "bt.tsv"
    path.write_text("precious", encoding="utf-8")
    with (
        pytest.raises(UsageError, match="exists, and nothing says how it was made"),
        GrowingFile(path, MADE_OF).opened(anew=True),
    ):
        raise AssertionError
    assert path.read_text(encoding="utf-8") == "precious" and names(tmp_path) == {"bt.tsv"}


def test_what_a_killed_process_was_writing_of_the_manifest_is_cleared_away(tmp_path: Path) -> None:
    path = tmp_path / "bt.tsv"
    grow(path, chunks=1)
    mine = staging_path(tmp_path / "bt.tsv.json")
    mine.with_name(mine.name.replace(f".{os.getpid()}.", ".999999.")).write_text("{", encoding="utf-8")
    grow(path)
    assert names(tmp_path) == {"bt.tsv", "bt.tsv.json"}


def test_without_its_chunks_it_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "bt.tsv"
    grow(path, chunks=2)
    (tmp_path / ".bt.tsv.unfinished").unlink()
    assert grow(path).path.read_text(encoding="utf-8") == WHOLE
    path.unlink()
    assert grow(path).path.read_text(encoding="utf-8") == WHOLE


def test_a_finished_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "bt.tsv"
    grow(path)
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    file = grow(path)
    assert file.is_finished and file.state == {"chunks": 4}
    assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == before


@pytest.mark.parametrize("chunks", [2, 4])
def test_a_file_of_something_else_is_not_gone_on_with(tmp_path: Path, chunks: int) -> None:
    grow(tmp_path / "bt.tsv", chunks=chunks)
    before = names(tmp_path)
    with pytest.raises(
        UsageError, match=r"was made with other settings:\n  method: was 'test', is 'other'\nundo the change"
    ):
        grow(tmp_path / "bt.tsv", made_of={**MADE_OF, "method": "other"})
    assert names(tmp_path) == before


@pytest.mark.parametrize(
    ("existing", "says"),
    [
        ({"bt.tsv": "mine"}, "bt.tsv exists, and nothing says how it was made; name another file"),
        ({"bt.tsv.json": "{}"}, "bt.tsv.json does not say how"),
        ({"bt.tsv.json": "[1]"}, "bt.tsv.json does not say how"),
        ({"bt.tsv.json": "{"}, "bt.tsv.json does not say how"),
        (
            {"bt.tsv.json": '{"made_of": {}, "state": {}, "bytes": "1", "finished": false}'},
            "bt.tsv.json does not say how",
        ),
        ({"bt.tsv.json": '{"made_of": {}, "state": {}, "bytes": 1, "finished": true}'}, "bt.tsv.json does not say how"),
    ],
)
def test_what_is_not_its_own_is_never_replaced(tmp_path: Path, existing: dict[str, str], says: str) -> None:
    for name, content in existing.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=says):
        grow(tmp_path / "bt.tsv")
    assert {name: (tmp_path / name).read_text(encoding="utf-8") for name in names(tmp_path)} == existing


def test_a_finished_file_that_was_changed_is_not_taken_for_it(tmp_path: Path) -> None:
    grow(tmp_path / "bt.tsv")
    (tmp_path / "bt.tsv").write_text(WHOLE + "四\tfour\n", encoding="utf-8")
    with pytest.raises(UsageError, match="was changed since it was made"):
        grow(tmp_path / "bt.tsv")


def test_a_file_that_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    grow(tmp_path / "bt.tsv", chunks=2)
    (tmp_path / "bt.tsv").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="is not what"):
        grow(tmp_path / "bt.tsv")


def test_two_do_not_write_one_file(tmp_path: Path) -> None:
    with (
        GrowingFile(tmp_path / "bt.tsv", MADE_OF).opened(),
        pytest.raises(RunError, match="another process is writing"),
    ):
        grow(tmp_path / "bt.tsv")
    assert names(tmp_path) == set()


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on file sizes")
def test_a_full_disk_is_one_clear_error_and_the_same_work_goes_on(tmp_path: Path) -> None:
    import resource

    path = tmp_path / "out.txt"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    file = GrowingFile(path, MADE_OF)
    try:
        with pytest.raises(WeftError, match=r"written: File too large; the same command continues"), file.opened():
            file.append(CHUNKS[0], {"chunks": 1})
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(CHUNKS[0]) + 3, before[1]))
            file.append(CHUNKS[1], {"chunks": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert grow(path).is_finished and path.read_text(encoding="utf-8") == WHOLE


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> bool:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(growing_file, "try_lock", refuse)
    with pytest.raises(UsageError, match=r"its file system has no locks \(No locks available\)"):
        grow(tmp_path / "out.txt")
    assert names(tmp_path) == set()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written: No such file or directory"):
        grow(tmp_path / "nowhere" / "bt.tsv")
