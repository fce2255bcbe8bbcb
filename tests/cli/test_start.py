"""Before it trains the command starts anew with a setting that glibc reads only then; once, and only for
that."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.command_line import Weft

from weft.cli import main, start, without_torch

pytestmark = pytest.mark.skipif(not start.is_glibc(), reason="the C library is not glibc")
SETTING = "glibc.malloc.tcache_count=0"


class Began(Exception):
    """Instead of a new program."""


@pytest.fixture
def began(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the command went on with: the tunables of a new start, or `run`."""
    found: list[str] = []

    def execve(path: str, arguments: list[str], environment: dict[str, str]) -> None:
        assert path == sys.executable and arguments == [sys.executable, *sys.orig_argv[1:]]
        found.append(environment["GLIBC_TUNABLES"])
        raise Began

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr(main, "run", lambda: found.append("run"))
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    return found


def begin(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["weft", *arguments])
    with contextlib.suppress(Began):
        start.start()


@pytest.mark.parametrize("arguments", [("train", "a.toml"), ("--debug", "train", "a.toml"), ("plan",), ("ablate",)])
def test_what_trains_starts_anew(began: list[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    begin(monkeypatch, *arguments)
    assert began == [SETTING]


@pytest.mark.parametrize("arguments", [(), ("translate", "--model", "train"), ("--help",)])
def test_nothing_else_does(began: list[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    begin(monkeypatch, *arguments)
    assert began == ["run"]


@pytest.mark.parametrize(("file", "stands_in"), [("export.json", False), ("manifest.json", True)])
def test_torch_counts_the_parameters_of_exported_models(
    began: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str, stands_in: bool
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / file).touch()
    monkeypatch.setattr(without_torch, "stand_in_for_torch", lambda: began.append("stand-in"))
    for arguments in (("models", "show", str(tmp_path / "model")), ("models", "list", str(tmp_path))):
        began.clear()
        begin(monkeypatch, *arguments)
        assert began == ["stand-in"] * stands_in + ["run"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, ("10000", None)),
        ({"GOMP_SPINCOUNT": "5"}, ("5", None)),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, (None, "ACTIVE")),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, (None, "PASSIVE")),
        ({"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "7"}, ("7", "PASSIVE")),
        ({"OMP_NUM_THREADS": "1"}, ("10000", None)),
    ],
)
def test_threads_spin_for_a_short_time_unless_the_environment_says_how_long(
    began: list[str],
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, str],
    found: tuple[str | None, str | None],
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    for verb in ("train", "translate"):
        begin(monkeypatch, verb)
        assert (os.environ.get("GOMP_SPINCOUNT"), os.environ.get("OMP_WAIT_POLICY")) == found


def test_the_start_of_a_process_is_before_that_of_its_modules() -> None:
    code = "import time; a = time.monotonic(); from weft.cli.train import process_began; print(a - process_began())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 0 < float(found) < 30


def test_other_settings_stay_and_a_choice_of_the_users_own_counts(
    began: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    begin(monkeypatch, "train")
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=4")
    begin(monkeypatch, "train")
    assert began == [f"glibc.malloc.hugetlb=1:{SETTING}", "run"]


def test_the_new_program_is_the_same_process_with_the_same_arguments(tmp_path: Path) -> None:
    """In earnest: a stand-in for the command's rooms that says what it was started with."""
    room = tmp_path / "weft" / "cli"
    room.mkdir(parents=True)
    (tmp_path / "weft" / "__init__.py").touch()
    (room / "__init__.py").touch()
    (room / "start.py").write_text(Path(start.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "weft" / "__main__.py").write_text("from weft.cli.start import start\nstart()\n", encoding="utf-8")
    tell = "import os, sys\ndef run(): print(os.getpid(), os.environ['GLIBC_TUNABLES'], *sys.argv[1:])\n"
    (room / "main.py").write_text(tell, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
    with subprocess.Popen(
        [sys.executable, "-m", "weft", "train", "ä b.toml"],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        said, _ = process.communicate(timeout=60)
    assert said == f"{process.pid} {SETTING} train ä b.toml\n"


@pytest.mark.parametrize("verb", [("models", "list"), ("models", "show", "zh-en"), ("config", "explain", "model.norm")])
def test_what_only_reads_says_the_same_without_torch(weft: Weft, verb: tuple[str, ...]) -> None:
    program = (
        "import atexit, sys; from weft.cli.start import start;"
        "atexit.register(lambda: print(sys.modules['torch'].__version__, file=sys.stderr)); start()"
    )
    alone = subprocess.run([sys.executable, "-c", program, *verb], capture_output=True, text=True, check=True)
    assert (alone.stdout, alone.stderr) == (weft(*verb)[1], "0\n")  # the version of the stand-in for torch
