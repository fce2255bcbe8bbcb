"""`weft prepare`: options that exclude each other, and signals."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest
from tests.command_line import Weft
from tests.corpora import write_tsv

from weft.data import starter


def test_processes_of_this_machine_and_a_cluster_are_not_both(weft: Weft, tiny_run: Path) -> None:
    code, out, error = weft("prepare", str(tiny_run / "tiny.toml"), "--cluster", "--processes", "2")
    assert (code, out) == (2, "") and "--cluster cannot be combined with --processes" in error


@pytest.mark.parametrize("option", [("--cluster",), ("--processes", "2")])
def test_texts_of_a_language_model_are_not_shared_out(weft: Weft, tmp_path: Path, option: tuple[str, ...]) -> None:
    recipe = 'task = "language-model"\n[data]\nlanguage = "en"\ntrain = ["a.txt"]\nvalid = ["b.txt"]\n'
    (tmp_path / "lm.toml").write_text(recipe, encoding="utf-8")
    code, _, error = weft("prepare", str(tmp_path / "lm.toml"), *option)
    assert code == 2 and "this one is for language-model" in error


@pytest.fixture(scope="module")
def long_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe over as many pairs as take some seconds to clean."""
    folder = tmp_path_factory.mktemp("long")
    pairs = starter.load()
    rows = ((f"{zh} {number}", f"{en} {number}") for number, (zh, en) in product(range(20), pairs["train"]))
    write_tsv(folder / "train.tsv", rows)
    write_tsv(folder / "valid.tsv", pairs["valid"])
    recipe = '[data]\nsource = "zh"\ntarget = "en"\ntrain = ["train.tsv"]\nvalid = ["valid.tsv"]\n'
    (folder / "recipe.toml").write_text(recipe, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("number", "is_for_all", "times"),
    [(signal.SIGTERM, False, 1), (signal.SIGINT, True, 1), (signal.SIGINT, True, 2)],
    ids=["SIGTERM to the first", "Ctrl-C", "Ctrl-C twice"],
)
def test_a_signal_ends_it_at_once_and_nothing_is_left_behind(
    long_corpus: Path, tmp_path: Path, number: signal.Signals, is_for_all: bool, times: int
) -> None:
    run = tmp_path / "run"
    command = ["prepare", long_corpus / "recipe.toml", "--data", long_corpus, "--run", run, "--processes", "2"]
    with subprocess.Popen(
        [sys.executable, "-m", "weft", *map(str, command)], stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        began = time.monotonic()
        while not [*run.glob(".corpus.*.partial")]:
            assert process.poll() is None and time.monotonic() - began < 60
            time.sleep(0.05)
        time.sleep(1)  # the workers come up, or are at work
        assert process.poll() is None
        for _ in range(times):
            with suppress(ProcessLookupError):
                (os.killpg if is_for_all else os.kill)(process.pid, number)
            time.sleep(0.05)
        try:
            _, error = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if times == 1:  # a second one may come when there is nothing left to end but Python
        assert process.returncode == 3
        assert error.splitlines()[-1] == "weft: stopped while preparing pairs; the same command starts over"
    assert not run.exists()
