"""`weft watch`, from the command line and in a terminal."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from tests.analysis.test_watching import step, validation, write
from tests.command_line import Weft

from weft.analysis.watching import RunWatch
from weft.cli import watch as verb
from weft.cli.watch import OneRun
from weft.cli.watch_many import RunsOfFolder
from weft.files import try_lock


@pytest.mark.parametrize(
    ("width", "height"),
    [(80, 24), (200, 50), (40, 24), (40, 10)],
)
def test_a_picture_fits_the_terminal(width: int, height: int, tmp_path: Path) -> None:
    """With a Chinese name, whose characters are two columns wide."""
    rows = [step(n, 9 / n**0.3) for n in range(20, 2000, 20)]
    rows += [validation(n, 9 / n**0.3, valid_bleu=n / 100, valid_accuracy=0.5) for n in range(100, 2000, 100)]
    write(tmp_path / "早先的实验", *rows, finished=True)
    watch = write(tmp_path / "中英翻译模型的第三次实验", *rows[:50], rows[100])
    console = Console(width=width, height=height)
    lines = [line for text in followed(watch).picture(width, height, console) for line in text.wrap(console, width)]
    assert all(line.cell_len <= width for line in lines)
    assert height < 20 or len(lines) == height
    assert ("BLEU  validation" in "".join(map(str, lines))) == (height >= 20)


def followed(watch: RunWatch) -> OneRun:
    found = OneRun(watch, None)
    found.read()
    return found


def test_in_a_pipe_there_are_plain_lines_until_the_run_is_finished(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [step(20), validation(20, 2.0, valid_bleu=1.0), step(40, 2.5)]
    folder = tmp_path / "run"
    with open(write(folder, *rows[:2]).folder / "lock", "a") as lock:
        assert try_lock(lock)
        later = iter(
            [
                lambda: write(folder, *rows),
                lambda: write(folder, *rows, validation(40, 1.5, valid_bleu=2.0), finished=True),
                lock.close,
            ]
        )
        monkeypatch.setattr(verb.time, "sleep", lambda seconds: next(later)())
        code, out, error = weft("watch", str(folder))
    assert (code, error) == (0, "")
    assert [re.sub("  .*", "", line) for line in out.splitlines()] == [
        "validation at step 20 (epoch 2.00, 0:10): loss 2.0000, BLEU 1.00, the best so far",
        "step 20/300",
        "run: training",
        "step 40/300",
        "validation at step 40 (epoch 4.00, 0:20): loss 1.5000, BLEU 2.00, the best so far",
        "run: finished",
    ]


@pytest.mark.parametrize(
    ("until", "rows", "held", "code"),
    [
        ("finished", [step(20)], False, 3),
        ("sick", [step(20)], False, 3),
        ("sick", [step(20), step(40, None)], True, 1),
    ],
)
def test_the_exit_code_tells_how_it_ended(
    until: str, rows: list[dict[str, object]], held: bool, code: int, weft: Weft, tmp_path: Path
) -> None:
    with open(write(tmp_path / "run", *rows).folder / "lock", "a") as lock:
        assert not held or try_lock(lock)
        assert weft("watch", str(tmp_path / "run"), "--until", until)[0] == code


def test_once_shows_how_it_stands(weft: Weft, tiny_run: Path, tmp_path: Path) -> None:
    code, out, _ = weft("watch", str(tiny_run / "run"), "--once")
    assert code == 0 and "run  finished" in out and "BLEU" in out
    write(tmp_path / "broken", step(20, None), validation(20, None, valid_bleu=None, **{"valid_\x1b[2J": 1.0}))
    code, out, _ = weft("watch", str(tmp_path / "broken"), "--once")
    assert code == 0 and "loss nan, BLEU nan, \\x1b[2J 1" in " ".join(out.split()) and "infinite or NaN" in out
    code, out, _ = weft("watch", str(tmp_path / "to come"), "--once")
    assert (code, out) == (0, "to come  not begun: waiting for weft train\n")


def test_no_name_in_the_files_of_a_run_steers_the_terminal(weft: Weft, tmp_path: Path) -> None:
    recipe = 'task = "unknown"\n[training]\nepochs = 30\n'
    rows = [step(20, **{"\x1b[1A_per_second": 9.0}), *(validation(n, **{"valid_\x1b[2J": 1.0}) for n in (20, 40))]
    write(tmp_path / "run", *rows, recipe=recipe)
    write(tmp_path / "other", *rows, recipe=recipe, finished=True)
    for watched in (tmp_path / "run", tmp_path):
        code, out, _ = weft("watch", str(watched), "--once")
        assert code == 0 and "\\x1b[2J" in out and "\x1b" not in out


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("metrics.jsonl", '{"step": 20, "loss": 3.0}\n'),
        ("metrics.jsonl", json.dumps(step(20) | {"loss": "x"}) + "\n"),
        ("checkpoints/step-0/training.json", '{"data": {"train": ["x"]}}'),
    ],
)
def test_json_of_another_shape_is_said_to_be_so(file: str, content: str, weft: Weft, tmp_path: Path) -> None:
    write(tmp_path / "run", step(20))
    (tmp_path / "run" / file).write_text(content, encoding="utf-8")
    code, _, error = weft("watch", str(tmp_path / "run"), "--once")
    assert code == 1 and "does not hold what weft writes there" in error


def test_a_folder_whose_first_run_begins_later_is_watched_as_one_of_runs(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs" / "first").mkdir(parents=True)
    monkeypatch.setattr(verb.time, "sleep", lambda seconds: write(tmp_path / "runs" / "first", step(20), finished=True))
    code, out, _ = weft("watch", str(tmp_path / "runs"))
    assert code == 0 and out.splitlines()[-1] == "runs  1 run: 1 finished"


def test_runs_are_counted_in_the_order_of_their_states_and_are_news_once(tmp_path: Path) -> None:
    for age, name in enumerate(("b", "c", "a")):
        write(tmp_path / "runs" / name, step(20), finished=name != "c")
        for path in (tmp_path / "runs" / name).rglob("*"):
            os.utime(path, (1e9 - age, 1e9 - age))
    runs = RunsOfFolder(tmp_path / "runs")
    assert runs.read() and [run.name for run in runs.runs] == ["b", "c", "a"]
    assert runs.counts() == "runs  3 runs: 1 stopped, 2 finished" and not runs.read()


def test_what_cannot_be_watched_is_refused(weft: Weft, tmp_path: Path) -> None:
    code, _, error = weft("watch", str(tmp_path / "a/b/c"))
    assert code == 2 and "there is no folder" in error
    code, _, error = weft("watch", str(tmp_path), "--against", str(tmp_path))
    assert code == 2 and "has no metrics.jsonl" in error
    folder = write(tmp_path / "run", step(20)).folder
    (folder / "run.json").write_text("{")
    code, _, error = weft("watch", str(folder), "--once")
    assert code == 1 and "run.json is not JSON" in error


def test_a_terminal_is_drawn_over_and_left_as_it_was(tmp_path: Path) -> None:
    """Without flicker: the screen is never cleared between two pictures."""
    write(tmp_path / "run", *(step(n) for n in range(20, 400, 20)), step(400, None))
    inside, outside = pty.openpty()
    command = [sys.executable, "-m", "weft", "watch", "run", "--until", "sick"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    with open(tmp_path / "run/lock", "a") as lock:
        assert try_lock(lock)
        (tmp_path / "run/metrics.jsonl").write_text(json.dumps(step(20)) + "\n", encoding="utf-8")
        watching = subprocess.Popen(command, stdin=outside, stdout=outside, env=environment, cwd=tmp_path)
        shown = b""
        while shown.count(b"step 20") < 1:
            shown += os.read(inside, 65536)
        with open(tmp_path / "run/metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(step(40, None)) + "\n")
        while b"\x1b[?1049l" not in shown:  # back from the alternate screen
            shown += os.read(inside, 65536)
        assert watching.wait(timeout=60) == 1
        os.close(outside)
    assert shown.count(b"\x1b[?1049h") == 1 and shown.count(b"\x1b[2J") <= 1
