"""Following a run by its files: what is read, what is judged, and how two runs stand at the same tokens."""

import fcntl
import json
import math
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from weft.analysis import watching
from weft.analysis.watching import RunWatch, Tail, earlier_run, on_steps_of, standing
from weft.files import is_locked, try_lock


def step(number: int, loss: float | None = 3.0, **more: Any) -> dict[str, Any]:
    """A line of training: 100 tokens and half a second a step, ten steps an epoch."""
    row = {"step": number, "epoch": number / 10, "loss": loss, "nll": loss, "learning_rate": 1e-3, "grad_norm": 1.0}
    return {**row, "skipped": 0, "target_tokens": 100, "target_tokens_per_second": 200.0, "seconds": number / 2, **more}


def validation(number: int, loss: float | None = 3.0, **more: Any) -> dict[str, Any]:
    return {"step": number, "epoch": number / 10, "valid_loss": loss, "seconds": number / 2, **more}


def write(folder: Path, *rows: dict[str, Any], finished: bool | None = False, recipe: str = "") -> RunWatch:
    """A run with these lines, and a checkpoint unless `finished` is None."""
    checkpoint = folder / "checkpoints/step-0"
    checkpoint.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    if finished is not None:
        (checkpoint / "config.toml").write_text(recipe or 'task = "translation"\n[training]\nepochs = 30\n')
        (checkpoint / "training.json").write_text(json.dumps({"data": {"train": {"train.tsv": "d1g357"}}}))
        state = {"last": "checkpoints/step-0", "best": None, "finished": finished}
        (folder / "run.json").write_text(json.dumps(state))
    (folder / "lock").touch()
    return looked_at(folder)


def looked_at(folder: Path) -> RunWatch:
    watch = RunWatch(folder)
    watch.read()
    return watch


# Reading


def test_a_file_is_read_as_it_grows_is_cut_back_and_is_replaced(tmp_path: Path) -> None:
    path, lines = tmp_path / "metrics.jsonl", [json.dumps(step(n)) + "\n" for n in range(1, 9)]
    tail = Tail(path)

    def steps() -> list[int]:
        tail.read()
        return [row["step"] for row in tail.rows]

    assert steps() == []
    path.write_text(lines[0] + lines[1][:20])  # the second line is being written
    assert steps() == [1]
    path.write_text(lines[0] + lines[1] + '{"torn\n' + "[1]\n" + lines[2])
    assert steps() == [1, 2, 3] and not tail.read()
    (tmp_path / "new").write_text(lines[0])  # as a resumed run cuts its logs
    os.replace(tmp_path / "new", path)
    assert steps() == [1]
    path.write_text("".join(lines[3:]))  # another run in the same folder, whose file is longer
    assert steps() == [4, 5, 6, 7, 8]
    path.unlink()
    assert steps() == [] and not tail.read()


def test_the_lock_tells_whether_a_process_trains_the_run_and_stays_with_it(tmp_path: Path) -> None:
    watch = RunWatch(tmp_path / "run")
    assert (watch.read(), watch.state) == (False, "not begun")
    (tmp_path / "run").mkdir()
    with open(tmp_path / "run/lock", "a") as lock:
        assert try_lock(lock) and is_locked(tmp_path / "run/lock")
        watch.read()
        assert watch.state == "preparing"
        assert write(tmp_path / "run", step(1)).state == "training"
        assert write(tmp_path / "run", step(1), finished=True).state == "training"  # its process is still ending
        with open(tmp_path / "run/lock", "a") as other:
            assert not try_lock(other)
    assert write(tmp_path / "run", step(1), finished=True).state == "finished"
    assert write(tmp_path / "run", step(1)).state == "stopped"
    with open(tmp_path / "run/lock", "a") as lock:
        assert try_lock(lock)


def test_who_looks_at_a_lock_keeps_nobody_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    path.touch()
    with open(path, "rb") as looking, open(path, "a") as lock:
        fcntl.flock(looking, fcntl.LOCK_SH)
        monkeypatch.setattr(time, "sleep", lambda seconds: looking.close())  # the look ends meanwhile
        assert try_lock(lock)


def test_the_end_is_that_of_the_recipe_and_the_pace_so_far(tmp_path: Path) -> None:
    watch = write(tmp_path, step(100))
    assert watch.total_steps == 30 * 10
    assert watch.seconds_left == pytest.approx(100, abs=1)
    assert write(tmp_path, step(100), recipe="[training]\nsteps = 250\nepochs = 30").total_steps == 250
    assert write(tmp_path, step(260), recipe="[training]\nsteps = 250").total_steps is None  # it was given more
    assert write(tmp_path / "new", step(100), finished=None).seconds_left is None


# What is wrong


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ([step(20), step(40, None)], "at step 40 the loss is infinite or NaN"),
        ([step(n, skipped=max(0, n - 30)) for n in range(20, 60, 20)] + [step(80, skipped=10)], "10 of the last 60"),
        ([step(60), validation(60, 3.0), step(120), validation(120, 9.0, back_to=60)],
         "at step 120 training had diverged (validation loss 9): back to step 60"),
        ([step(60, 2.0), step(120, 5.0)], "the training loss has risen from 2 at step 60 to 5 at step 120"),
        ([step(60, 2.0), validation(60, 2.0), step(120, 5.0), validation(120, None)], "the training loss has risen"),
    ],
)  # fmt: skip
def test_this_is_sick(rows: list[dict[str, Any]], what: str, tmp_path: Path) -> None:
    (found,) = write(tmp_path, *rows).sickness()
    assert what in found


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [step(20), step(40, skipped=1)],
        [validation(60, 2.0), validation(120, 9.0, back_to=60), validation(180, 1.9)],
        [step(60, 2.0), validation(60, 2.0), step(120, 3.5), validation(120, 2.1)],  # a raised learning rate
        [step(60, 2.0), validation(60, 2.0), step(120, 1.0), validation(120, 4.0)],  # it overfits
        [step(60, 2.0), step(61, 9.0)],  # a single batch
    ],
)
def test_this_is_not(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    assert write(tmp_path, *rows).sickness() == []


def test_a_process_that_writes_nothing_for_long_is_sick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, *(step(n) for n in range(20, 200, 20)))
    with open(tmp_path / "lock", "a") as lock:
        assert try_lock(lock)
        watch = looked_at(tmp_path)
        now = time.time()
        monkeypatch.setattr(watching.time, "time", lambda: now + watching.LONGEST_SILENCE - 60)
        assert watch.sickness() == []
        monkeypatch.setattr(watching.time, "time", lambda: now + watching.LONGEST_SILENCE + 60)
        assert watch.sickness() == ["for 16 minutes its process has written nothing"]


# Beside an earlier run


def test_two_runs_are_compared_where_they_have_seen_as_many_tokens(tmp_path: Path) -> None:
    """The other run takes twice as many tokens a step, so its step 30 is step 60 here."""
    here = write(tmp_path / "here", *(step(n, 5 - n / 50, target_tokens=2000) for n in range(20, 61, 20)),
                 validation(60, 4.0, valid_bleu=10.0))  # fmt: skip
    there = write(
        tmp_path / "there",
        *(step(n, 4.5 - n / 25, target_tokens=2000) for n in range(10, 101, 10)),
        *(validation(n, 3.0, valid_bleu=float(n)) for n in (20, 40)),
        finished=True,
    )
    said = "0.50 nats above there at the same tokens: 3.800, there 3.300; BLEU 10.00, there 30.00"
    assert standing(here, there) == said
    assert standing(there, here) == "past the 6,000 target tokens of here"
    unknown = write(tmp_path / "new", step(20), finished=None)  # its recipe and data, before the first checkpoint
    assert standing(here, unknown) == "past the 100 target tokens of new"


def test_a_run_that_has_logged_a_validation_alone_is_compared(tmp_path: Path) -> None:
    here = write(tmp_path / "run", validation(5), recipe="[training]\nsteps = 9")
    assert here.tokens == [(0.0, 0.0), (5, 0.0)]
    other = write(tmp_path / "other", validation(5, 4.0), finished=True)
    assert standing(here, other) == "" and on_steps_of(here, other, "valid_loss").y == []


def test_the_newest_step_is_that_of_a_validation_after_the_last_logged_one(tmp_path: Path) -> None:
    validation = {"step": 25, "epoch": 2.5, "valid_loss": 3.0, "seconds": 99.0}
    last = write(tmp_path / "run", step(20), validation, finished=True).last
    assert (last["step"], last["epoch"], last["seconds"]) == (25, 2.5, 99.0) and last["loss"] == step(20)["loss"]


def test_an_earlier_run_is_the_newest_finished_one_of_the_same_data(tmp_path: Path) -> None:
    here = write(tmp_path / "here", step(20, target_tokens=2000))
    assert earlier_run(here) is None
    for age, name in enumerate(("newest", "older", "oldest")):
        write(tmp_path / name, step(20), finished=True)
        os.utime(tmp_path / name / "run.json", (1e9 - age, 1e9 - age))
    write(tmp_path / "unfinished", step(20))
    write(tmp_path / "tokenizer", step(20), finished=True, recipe='task = "translation"\n[tokenizer]\nkind = "words"')
    write(tmp_path / "data", step(20, target_tokens=2000), finished=True)
    (tmp_path / "data/checkpoints/step-0/training.json").write_text('{"data": {"train": {"train.tsv": "07h3r"}}}')
    found = earlier_run(here)
    assert found is not None and found.name == "newest"
    assert "(another data)" in standing(here, looked_at(tmp_path / "data"))


def test_a_real_run_is_followed(tiny_run: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_run / "run", tmp_path / "run")
    watch = looked_at(tmp_path / "run")
    assert (watch.state, watch.total_steps, watch.sickness()) == ("finished", 2, [])
    assert watch.headline is not None and watch.headline.name == "bleu"
    assert watch.data and math.isfinite(watch.heard_at)
