"""`weft corpus`: what there is, and how one of them is got, from a folder or from a mirror on this machine."""

import hashlib
import json
import os
import signal
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Weft

from weft.data import corpus_folder, download, splitting

NAME = "opus/Tatoeba/v2023-04-12/de-en"
ACCEPT = "--accept-unverified"


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a zip as OPUS packs it, beside an empty working directory."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    with zipfile.ZipFile(folder / "de-en.txt.zip", "w") as archive:
        archive.writestr("Tatoeba.de-en.de", "Ein Hund.\nZwei Katzen.\n")
        archive.writestr("Tatoeba.de-en.en", "A dog.\nTwo cats.\n")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Not on the tests' stderr."""


@pytest.fixture
def address(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The same folder, served by the server of Python's own."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(mirror))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


# The list


def test_the_list_says_license_and_size_and_whether_commercial_use_is_allowed(weft: Weft) -> None:
    exit_code, out, error = weft("corpus", "list")
    assert exit_code == 0 and "opus/CORPUS/VERSION/PAIR" in error
    rows = out.splitlines()
    assert rows[0].startswith("starter ")
    (place,) = [place for place, row in enumerate(rows) if row.startswith("3am-zh-en ")]
    cells = ["3am-zh-en", "zh en", "25,931 pairs", "3.4 MB"]
    assert [" ".join(cell.split()) for cell in rows[place].split("  ") if cell] == cells
    assert rows[place + 2] == "    license: MIT, of the repository; commercial use: unclear"
    assert max(map(len, (*rows, *error.splitlines()))) <= 80


def test_the_list_as_json_holds_all_that_is_known(weft: Weft) -> None:
    _, out, _ = weft("corpus", "list", "--json")
    corpora = {corpus["name"]: corpus for corpus in json.loads(out)}
    assert "starter" in corpora and len(corpora["3am-zh-en"]["files"]) == 6
    assert {"license", "commercial", "citation", "files", "parts"} <= corpora["pud-zh-en"].keys()


# Getting one


def test_a_corpus_is_got_from_a_folder_of_files(weft: Weft, mirror: Path) -> None:
    exit_code, out, error = weft("corpus", "get", NAME, "--from", str(mirror), ACCEPT)
    assert (exit_code, out) == (0, "") and "pairs.tsv  2 pairs" in error and "commercial use: unclear" in error
    folder = Path("opus-Tatoeba-v2023-04-12-de-en")
    assert (folder / "pairs.tsv").read_text() == "de\ten\nEin Hund.\tA dog.\nZwei Katzen.\tTwo cats.\n"
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "pairs.tsv"]


def test_a_corpus_is_got_from_a_mirror_and_its_digest_told_before_it_is_used(
    weft: Weft, mirror: Path, address: str
) -> None:
    digest = hashlib.sha256((mirror / "de-en.txt.zip").read_bytes()).hexdigest()
    exit_code, out, error = weft("corpus", "get", NAME, "--output", "there", "--from", address)
    assert (exit_code, out) == (1, "") and digest in error and ACCEPT in error
    assert not Path("there/pairs.tsv").exists()
    (mirror / "de-en.txt.zip").unlink()  # it is not fetched twice
    exit_code, _, error = weft("corpus", "get", NAME, "--output", "there", "--from", address, ACCEPT)
    assert exit_code == 0 and "exists already" in error and Path("there/pairs.tsv").is_file()


def test_a_file_that_the_mirror_does_not_have_is_one_error(weft: Weft, mirror: Path, address: str) -> None:
    exit_code, out, error = weft("corpus", "get", "opus/Tatoeba/v1/en-fr", "--from", address)
    assert (exit_code, out) == (1, "") and "the server answers 404" in error and "Traceback" not in error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("stater",), "did you mean `starter`?"),
        (("opus/Tatoeba",), "must be opus/CORPUS/VERSION/PAIR"),
        (("3am-zh-en", "--part", "dev"), "it has train, valid, test"),
        (("starter", "--part", "test"), "takes only --output and --force"),
        (("3am-zh-en", "--from", "nowhere"), "neither a folder nor an address"),
        (("3am-zh-en", "--from", "ftp://127.0.0.1/"), "not an http or https address"),
    ],
)
def test_what_cannot_be_is_refused(weft: Weft, mirror: Path, arguments: tuple[str, ...], said: str) -> None:
    exit_code, out, error = weft("corpus", "get", *arguments)
    assert (exit_code, out) == (2, "") and said in error
    assert not any(path.is_file() for path in Path().rglob("*"))


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Fifty pairs as two text files in the working directory, and as a TSV without a header."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("a.zh", "第{}句。"), ("a.en", "Sentence {}."), ("b.tsv", "x\t第{0}句。\tSentence {0}.")):
        (tmp_path / name).write_text("".join(f"{text.format(n)}\n" for n in range(50)), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("files", [("a.zh", "a.en"), ("a.en", "a.zh"), ("b.tsv", "--columns", "2,3", "--no-header")])
def test_a_corpus_is_split_into_three_files(weft: Weft, pairs: Path, files: tuple[str, ...]) -> None:
    options = ("--source", "zh", "--target", "en", "--valid", "5", "--test", "3", "--output", "parts")
    assert weft("corpus", "split", *files, *options) == (
        0,
        "",
        "parts/train.tsv         42 pairs\nparts/valid.tsv          5 pairs\nparts/test.tsv           3 pairs\n",
    )
    for part, count in (("train", 42), ("valid", 5), ("test", 3)):
        head, *lines = (pairs / "parts" / f"{part}.tsv").read_text(encoding="utf-8").splitlines()
        assert head == "zh\ten" and len(lines) == count and all(line.startswith("第") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("one.txt", "two.txt"), "one.txt has 1 problem"),
        (("b.tsv", "--columns", "2,3"), "missing --source and --target: name both languages"),
        (("nowhere.tmx",), "the file  does not exist"),
        (("a.zh", "--source", "zh", "--target", "en"), "a.zh has no partner"),
        (("a.zh", "a.en", "a.zh", "a.en", "--source", "zh", "--target", "en"), "a.en, a.zh is named more than once"),
        (("b.tsv", "./b.tsv", "--source", "zh", "--target", "en"), "./b.tsv, b.tsv is named more than once"),
        (("a.zh", "a.en", "--source", "zh", "--target", "en"), "cannot hold out 2,000 pairs: of 50 different pairs"),
        (("b.tsv", "--source", "zh", "--target", "en"), "name the columns with --columns, or use --no-header"),
    ],
)
def test_what_cannot_be_split_is_refused(weft: Weft, pairs: Path, arguments: tuple[str, ...], said: str) -> None:
    code, _, stderr = weft("corpus", "split", *arguments, "--output", "parts")
    assert code in (1, 2) and said in stderr
    assert not (pairs / "parts").exists()


def test_nothing_is_fetched_by_the_list(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_folder, "download", None)
    monkeypatch.setattr(download, "request", None)
    assert weft("corpus", "list")[0] == 0


def test_a_signal_leaves_nothing_of_a_split_behind(weft: Weft, pairs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = splitting.write_parts
    before = sorted(pairs.iterdir())

    def write_and_stop(*arguments: Any) -> int:
        write(*arguments)
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the signal comes at once")

    monkeypatch.setattr(splitting, "write_parts", write_and_stop)
    code, _, stderr = weft(
        *("corpus", "split", "a.zh", "a.en", "--source", "zh", "--target", "en"),
        *("--valid", "5", "--test", "0", "--output", "parts"),
    )
    assert code == 3 and "stopped before parts was complete; nothing was written" in stderr
    assert sorted(pairs.iterdir()) == before
