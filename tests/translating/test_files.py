"""A file of any size, translated block by block: however often it is stopped, the output is that of one go."""

import errno
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from weft.errors import CorpusError, RunError, Stopped, UsageError, WeftError
from weft.files import TOO_LONG
from weft.folders.model_folder import TranslationModel
from weft.translating import files as bulk
from weft.translating.files import Form, Place, blocks, translate_file
from weft.translating.glossary import Glossary
from weft.translating.loading import load_translator
from weft.translating.passages import PassageTranslator
from weft.translating.translator import Translator

LINES = ["我有一个苹果。", "", "两个朋友", " \t", "书包", "三个杯子", "我有梨。", "", "四个问题", "五个书包", "六个"]
LINES += ["\u3000", "我有十个朋友。", "杯子", "一个问题。", "我有两个梨。你呢？"]
TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "LINES_AT_ONCE", 3)


@pytest.fixture
def passages(distinct_model: Path) -> PassageTranslator:
    return PassageTranslator(load_translator(distinct_model))


@pytest.fixture
def expected(passages: PassageTranslator) -> str:
    answers = [translation.text for translation in passages.translate(LINES)]
    assert len(set(answers)) == len({line.strip() for line in LINES})  # so that two that change places are seen
    return "".join(f"{answer}\n" for answer in answers)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with in.txt."""
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path


def test_a_translator_that_comes_from_no_folder_is_refused(passages: PassageTranslator, place: Path) -> None:
    unknown = PassageTranslator(Translator(passages.translator.model))
    with pytest.raises(UsageError, match="needs a model from a folder"):
        translate_file(unknown, Path("in.txt"), Path("out.txt"))
    assert [path.name for path in place.iterdir()] == ["in.txt"]


class Killed(BaseException):
    """The end of a process, but for what it would clean up."""


def stopping_after(number: int) -> Callable[[object], None]:
    """A listener in whose presence the process dies when so many blocks are done."""
    left = [number]

    def tell(_: object) -> None:
        left[0] -= 1
        if not left[0]:
            raise Killed

    return tell


def names() -> set[str]:
    return {path.name for path in Path().iterdir()}


def read(name: str) -> str:
    content = Path(name).read_bytes()
    return (gzip.decompress(content) if name.endswith(".gz") else content).decode()


# From beginning to end


@pytest.mark.parametrize("source", ["in.txt", "in.txt.gz"])
@pytest.mark.parametrize("output", ["out.txt", "out.txt.gz"])
def test_lines_come_out_in_order_whatever_is_zipped(
    passages: PassageTranslator, place: Path, expected: str, source: str, output: str
) -> None:
    Path("in.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    Path(output).write_text("old", encoding="utf-8")
    read_to = translate_file(passages, Path(source), Path(output))
    assert read(output) == expected
    assert (read_to.lines, read_to.bytes) == (len(LINES), len(TEXT.encode()))
    assert names() == {"in.txt", "in.txt.gz", output}


def test_an_empty_file_gives_an_empty_one(passages: PassageTranslator, place: Path) -> None:
    Path("in.txt").write_bytes(b"")
    assert translate_file(passages, Path("in.txt"), Path("out.txt")) == Place()
    assert read("out.txt") == "" and names() == {"in.txt", "out.txt"}


@pytest.mark.parametrize("name", ["in.txt", "in.txt.gz", "gb.txt"])
def test_progress_counts_lines_and_bytes(passages: PassageTranslator, place: Path, name: str) -> None:
    Path("in.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    Path("gb.txt").write_bytes(TEXT.encode("gb18030"))
    seen: list[bulk.Progress] = []
    translate_file(passages, Path(name), Path("out.txt"), tell=seen.append)
    assert [progress.lines for progress in seen] == [3, 6, 9, 12, 15, 16]
    size = Path(name).stat().st_size
    sizes = [size * len("\n".join([*LINES[: progress.lines], ""]).encode()) // len(TEXT.encode()) for progress in seen]
    assert [(progress.bytes, progress.all_bytes) for progress in seen] == [(done, size) for done in sizes]


def test_json_says_what_was_translated(passages: PassageTranslator, place: Path, expected: str) -> None:
    translate_file(passages, Path("in.txt"), Path("out.txt"), form=Form(as_json=True))
    rows = [json.loads(line) for line in read("out.txt").splitlines()]
    assert [row["source"] for row in rows] == LINES
    assert [row["text"] for row in rows] == expected.splitlines()


# Stopped and gone on with


@pytest.mark.parametrize("source", ["in.txt", "in.txt.gz"])
def test_wherever_it_is_stopped_the_output_is_that_of_one_go(
    passages: PassageTranslator, place: Path, expected: str, source: str
) -> None:
    Path("in.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    for moment in (1, 2, 4, 6):
        for _ in range(8):
            try:
                translate_file(passages, Path(source), Path("out.txt"), tell=stopping_after(moment))
                break
            except Killed:
                assert not Path("out.txt").exists() or moment == 6
        assert read("out.txt") == expected
        assert names() == {"in.txt", "in.txt.gz", "out.txt"}
        Path("out.txt").unlink()


def test_it_says_where_it_goes_on_and_translates_only_the_rest(
    passages: PassageTranslator, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Killed):
        translate_file(passages, Path("in.txt"), Path("out.txt"), tell=stopping_after(4))
    assert names() == {"in.txt", ".out.txt.partial.unfinished", "out.txt.partial.json"}
    asked: list[str] = []
    answer = bulk.answer
    monkeypatch.setattr(bulk, "answer", lambda p, block, **o: asked.extend(block.texts) or answer(p, block, **o))
    said: list[str] = []
    translate_file(passages, Path("in.txt"), Path("out.txt"), say=said.append)
    assert asked == LINES[12:] and said == ["continuing after line 12"]


def test_terms_that_cannot_be_promised_are_refused_before_the_first_line(random_model: TranslationModel) -> None:
    glossary = Glossary([("从来没有的词", "word")], ("zh", "en"))
    greedy = Translator(random_model)
    greedy.decoding = greedy.decoding.model_copy(update={"method": "greedy"})
    with pytest.raises(UsageError, match=r"decoding\.method"):
        PassageTranslator(greedy, glossary=glossary)


def test_killed_between_its_last_two_steps_it_only_gives_the_file_its_name(
    passages: PassageTranslator, place: Path, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(bulk, "put_into_place", dies)
        translate_file(passages, Path("in.txt"), Path("out.txt"))
    with monkeypatch.context() as patch:
        patch.setattr(bulk, "answer", dies)
        translate_file(passages, Path("in.txt"), Path("out.txt"))
    assert read("out.txt") == expected and names() == {"in.txt", "out.txt"}


@pytest.mark.parametrize("output", ["out.txt", "out.txt.gz"])
def test_what_only_lacks_its_name_follows_the_input(
    passages: PassageTranslator, place: Path, expected: str, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(WeftError, match="the same command continues"):
        patch.setattr(os, "replace", no_space_for(output))
        translate_file(passages, Path("in.txt"), Path(output))
    before = names()
    Path("in.txt").write_text(TEXT.replace("两个", "三个", 1), encoding="utf-8")
    with pytest.raises(UsageError, match=r"in.txt has changed: its first 16 lines"):
        translate_file(passages, Path("in.txt"), Path(output))
    assert names() == before
    Path("in.txt").write_text(f"{TEXT}书包\n", encoding="utf-8")
    assert translate_file(passages, Path("in.txt"), Path(output)).lines == 17
    assert read(output).startswith(expected) and read(output).count("\n") == 17


def no_space_for(name: str) -> Callable[[Path, Path], None]:
    """os.replace of a disk that is full when a file is to have this name."""
    replace = os.replace

    def refusing(source: Path, target: Path) -> None:
        if target.name == name:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    return refusing


@pytest.mark.parametrize("before", [TEXT, TEXT.replace("两个", "三个", 1)], ids=["same input", "other input"])
def test_killed_before_its_very_last_step_it_begins_anew(
    passages: PassageTranslator, place: Path, expected: str, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    unlink = Path.unlink

    def dies_at_the_manifest(path: Path, **options: bool) -> None:
        if path.name == "out.txt.partial.json":
            raise Killed
        unlink(path, **options)

    Path("in.txt").write_text(before, encoding="utf-8")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Path, "unlink", dies_at_the_manifest)
        translate_file(passages, Path("in.txt"), Path("out.txt"))
    assert "out.txt" in names() and "out.txt.partial.json" in names()
    Path("in.txt").write_text(TEXT, encoding="utf-8")
    translate_file(passages, Path("in.txt"), Path("out.txt"))
    assert read("out.txt") == expected and names() == {"in.txt", "out.txt"}


def test_of_a_link_what_it_points_to_is_written(passages: PassageTranslator, place: Path, expected: str) -> None:
    Path("elsewhere").mkdir()
    Path("out.txt").symlink_to("elsewhere/real.txt")
    translate_file(passages, Path("in.txt"), Path("out.txt"))
    assert Path("out.txt").is_symlink() and read("elsewhere/real.txt") == expected
    assert names() == {"in.txt", "out.txt", "elsewhere"}


def test_a_signal_stops_it_where_it_can_go_on(passages: PassageTranslator, place: Path, expected: str) -> None:
    with pytest.raises(Stopped, match="stopped after line 3; the same command continues from here") as stopped:
        translate_file(
            passages,
            Path("in.txt"),
            Path("out.txt"),
            tell=lambda progress: os.kill(os.getpid(), signal.SIGTERM),
        )
    assert stopped.value.exit_code == 3
    translate_file(passages, Path("in.txt"), Path("out.txt"))
    assert read("out.txt") == expected


def test_the_input_may_grow_or_be_mended_behind_the_place(
    passages: PassageTranslator, place: Path, expected: str
) -> None:
    Path("in.txt").write_bytes(TEXT.encode() + b"\xff\n")
    with pytest.raises(CorpusError, match="line 17"):
        translate_file(passages, Path("in.txt"), Path("out.txt"))
    Path("in.txt").write_text(TEXT + "书包\n", encoding="utf-8")
    assert translate_file(passages, Path("in.txt"), Path("out.txt")).lines == 17
    assert read("out.txt").startswith(expected)


# What is not gone on with


def test_another_input_is_refused_and_restart_begins_anew(
    passages: PassageTranslator, place: Path, expected: str
) -> None:
    with pytest.raises(Killed):
        translate_file(passages, Path("in.txt"), Path("out.txt"), tell=stopping_after(2))
    before = names()
    for other in (
        TEXT.replace("两个", "三个", 1),
        TEXT[:5],
        TEXT.encode()[: len("".join(LINES[:2])) + 2].decode("utf-8", "ignore"),
    ):
        Path("in.txt").write_text(other, encoding="utf-8")
        with pytest.raises(UsageError, match=r"in.txt has changed: its first 6 lines, .* start over: --restart"):
            translate_file(passages, Path("in.txt"), Path("out.txt"))
        assert names() == before
    Path("in.txt").write_text(TEXT, encoding="utf-8")
    translate_file(passages, Path("in.txt"), Path("out.txt"), restart=True)
    assert read("out.txt") == expected and names() == {"in.txt", "out.txt"}


def test_a_last_line_may_get_its_line_end(passages: PassageTranslator, place: Path, expected: str) -> None:
    lines = TEXT.splitlines(keepends=True)
    Path("in.txt").write_text("".join(lines[:6]).removesuffix("\n"), encoding="utf-8")
    with pytest.raises(Killed):
        translate_file(passages, Path("in.txt"), Path("out.txt"), tell=stopping_after(2))
    Path("in.txt").write_text(TEXT, encoding="utf-8")
    for bound in (1, 1):  # stopped and gone on with once more behind it
        with pytest.raises(Killed):
            translate_file(passages, Path("in.txt"), Path("out.txt"), tell=stopping_after(bound))
    assert translate_file(passages, Path("in.txt"), Path("out.txt")).lines == len(lines)
    assert read("out.txt") == expected


def test_a_last_line_that_was_continued_is_another_one(passages: PassageTranslator, place: Path) -> None:
    Path("in.txt").write_text("我\n有\n书", encoding="utf-8")
    with pytest.raises(Killed):
        translate_file(passages, Path("in.txt"), Path("out.txt"), tell=stopping_after(1))
    Path("in.txt").write_text("我\n有\n书包", encoding="utf-8")
    with pytest.raises(UsageError, match=r"its first 3 lines"):
        translate_file(passages, Path("in.txt"), Path("out.txt"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"overrides": ["decoding.beam_size=2"]}, "decoding.beam_size: was 3, is 2"),
        ({"split": "never"}, "split: was 'always', is 'never'"),
        ({"keeps_markup": True}, "markup: was 'off', is 'keep'"),
    ],
)
def test_other_settings_are_refused_with_the_difference(
    passages: PassageTranslator, distinct_model: Path, place: Path, change: dict[str, object], says: str
) -> None:
    with pytest.raises(Killed):
        translate_file(passages, Path("in.txt"), Path("out.txt"), tell=stopping_after(1))
    settings = dict(change)
    overrides = settings.pop("overrides", ())
    assert isinstance(overrides, list | tuple)
    other = PassageTranslator(load_translator(distinct_model, overrides), **settings)  # pyright: ignore[reportArgumentType]
    with pytest.raises(
        UsageError, match=f"was made with other settings:\n  {says}\nundo the change, or start over: --restart"
    ):
        translate_file(other, Path("in.txt"), Path("out.txt"))


def test_two_do_not_write_one_file(passages: PassageTranslator, place: Path) -> None:
    def begin_another(_: object) -> None:
        with pytest.raises(RunError, match="another process is writing"):
            translate_file(passages, Path("in.txt"), Path("out.txt"), restart=True)

    translate_file(passages, Path("in.txt"), Path("out.txt"), tell=begin_another)


# Reading


def texts(data: bytes) -> list[list[str]]:
    return [block.texts for block in blocks(io.BufferedReader(io.BytesIO(data)))]


def test_blocks_end_after_so_many_lines_or_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert texts(b"a\nb\nc\nd") == [["a", "b", "c"], ["d"]]
    assert texts(b"a\nb\nc\n") == [["a", "b", "c"]]
    assert texts(b"") == [] and texts(b"\n") == [[""]]
    monkeypatch.setattr(bulk, "BYTES_AT_ONCE", 4)
    assert texts(b"abc\nb\nccccccc\nd") == [["abc"], ["b", "ccccccc"], ["d"]]


def test_a_line_may_be_longer_than_what_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.files.READ_AT_ONCE", 2)
    assert texts("你好吗\nabcdefgh\n\n我".encode()) == [["你好吗", "abcdefgh", ""], ["我"]]


def test_a_line_without_end_is_an_error_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.files.LONGEST_LINE", 100_000)

    class Endless(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return b"a" * (size or 1)

    with pytest.raises(CorpusError, match=f"line 1 +{re.escape(TOO_LONG)}"):
        list(blocks(Endless()))


def test_what_comes_late_is_not_waited_for() -> None:
    class Slow(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return next(parts, b"")

    parts: Iterator[bytes] = iter([b"a\nb", b"c\n", b"d"])
    found = blocks(Slow(), as_they_come=True)
    assert next(found).texts == ["a"] and next(parts) == b"c\n"
    assert [block.texts for block in found] == [["bd"]]


# Over a cluster


@pytest.mark.slow
def test_over_a_cluster_the_output_is_the_same(distinct_model: Path, place: Path, expected: str) -> None:
    pytest.importorskip("ray")
    command = [
        sys.executable,
        "-m",
        "weft",
        "translate",
        "--model",
        str(distinct_model),
        "--input",
        "in.txt",
        "--cluster",
    ]
    own = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    done = subprocess.run([*command, "--output", "out.txt"], env=own, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "out.txt: 16 lines\n")
    assert read("out.txt") == expected


def test_a_block_is_answered_elsewhere_as_here(passages: PassageTranslator) -> None:
    block = bulk.Block(LINES, Place())
    work = bulk.ClusterWork.of(passages, Form(as_json=True))
    assert work(block) == bulk.answer(passages, block, Form(as_json=True))
