"""A corpus becomes a folder: its parts whole or not at all, nothing of the user's replaced, nothing used unchecked."""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from weft.data import corpus_folder
from weft.data.catalog import Corpus
from weft.data.conversion import Converted
from weft.data.corpus_folder import Request, get, locked
from weft.errors import CorpusError, UsageError, WeftError

PUBLISHED = {
    "train.zh": "一\n二\n三\n",
    "train.en": "one\ntwo\n\n",
    "val.zh": "四\n",
    "val.en": "four\n",
}


def corpus(**changes: object) -> Corpus:
    """Two parts made of four files, all of them known."""
    files = [
        {
            "name": name,
            "address": f"https://corpora.invalid/{name}",
            "bytes": len(content.encode()),
            "sha256": hashlib.sha256(content.encode()).hexdigest(),
        }
        for name, content in PUBLISHED.items()
    ]
    parts = [
        {"name": part, "file": f"{part}.tsv", "format": "lines", "inputs": inputs, "columns": ["zh", "en"]}
        for part, inputs in (("train", ["train.zh", "train.en"]), ("valid", ["val.zh", "val.en"]))
    ]
    return Corpus.model_validate(
        {
            "title": "Numbers",
            "languages": ["zh", "en"],
            "license": "CC0",
            "commercial": "yes",
            "citation": "nobody",
            "homepage": "https://corpora.invalid",
            "files": files,
            "parts": parts,
            **changes,
        }
    )


Get = Callable[..., dict[str, Converted]]


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    folder = tmp_path / "mirror"
    folder.mkdir()
    for name, content in PUBLISHED.items():
        (folder / name).write_bytes(content.encode())
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "numbers"


@pytest.fixture
def made(mirror: Path, folder: Path) -> Get:
    """Gets the corpus from the mirror; what is given goes into the request."""

    def made(wanted: Corpus | None = None, **request: Any) -> dict[str, Converted]:
        return get("numbers", wanted or corpus(), folder, Request(**{"mirror": str(mirror), **request}), Mock())

    return made


def written(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.is_file()}


# What is written


def test_the_parts_and_a_readme_are_written(made: Get, folder: Path) -> None:
    converted = made()
    assert {file: outcome.rows for file, outcome in converted.items()} == {"train.tsv": 2, "valid.tsv": 1}
    files = written(folder)
    assert files["train.tsv"] == "zh\ten\n一\tone\n二\ttwo\n" and files["valid.tsv"] == "zh\ten\n四\tfour\n"
    readme = files.pop("README.md")
    assert set(files) == {"train.tsv", "valid.tsv"}
    for said in (
        "# numbers",
        "License: CC0",
        "Please cite: nobody",
        "| `train.tsv` | 2 | left out, with an empty side: 1 |",
    ):
        assert said in readme
    assert f"https://corpora.invalid/val.en: sha256 {hashlib.sha256(b'four' + bytes([10])).hexdigest()}" in readme


def test_only_the_parts_that_are_asked_for_are_made_and_only_their_files_needed(
    made: Get, mirror: Path, folder: Path
) -> None:
    (mirror / "train.zh").unlink()
    made(parts=["valid"])
    assert set(written(folder)) == {"valid.tsv", "README.md"}
    assert "train" not in (folder / "README.md").read_text(encoding="utf-8")


def test_the_readme_keeps_what_it_says_of_parts_that_are_there(made: Get, folder: Path) -> None:
    made()
    whole = written(folder)
    for name in written(folder):
        (folder / name).unlink()
    made(parts=["valid"])
    made(parts=["train"])
    assert written(folder) == whole


def test_the_same_again_leaves_the_files_untouched(made: Get, folder: Path) -> None:
    made()
    before = (folder / "train.tsv").stat()
    made()
    assert (folder / "train.tsv").stat().st_ino == before.st_ino


def test_parts_that_are_not_there_are_named_with_those_that_are(made: Get, folder: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no part 'trian' \(did you mean train\?\) and no part 'x'; it has train, valid"
    ):
        made(parts=["trian", "valid", "x"])
    assert not folder.exists()


# What is not replaced


def test_an_existing_file_with_another_content_is_only_replaced_by_force(made: Get, folder: Path) -> None:
    folder.mkdir()
    (folder / "train.tsv").write_text("mine")
    with pytest.raises(UsageError, match=r"already holds a different train.tsv; .* --force"):
        made()
    assert written(folder) == {"train.tsv": "mine"}
    made(force=True)
    assert written(folder)["train.tsv"].startswith("zh\ten\n")


def test_a_folder_in_the_place_of_a_part_is_refused_before_any_part_is_written(made: Get, folder: Path) -> None:
    (folder / "valid.tsv").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"valid.tsv in .* is not a file"):
        made(force=True)
    assert not (folder / "train.tsv").exists()


def test_a_readme_says_nothing_of_the_files_of_another_corpus(made: Get, folder: Path) -> None:
    made()
    readme = folder / "README.md"
    readme.write_text(readme.read_text(encoding="utf-8").replace("# ", "# another of ", 1), encoding="utf-8")
    made(parts=["valid"], force=True)
    assert "| `valid.tsv` |" in (text := readme.read_text(encoding="utf-8")) and "train.tsv" not in text


def test_the_readme_of_something_else_is_not_replaced_either(made: Get, folder: Path) -> None:
    folder.mkdir()
    (folder / "README.md").write_text("# numbers and more\n")
    with pytest.raises(UsageError, match=r"different README.md"):
        made()
    assert written(folder) == {"README.md": "# numbers and more\n"}


def test_nothing_is_written_where_one_part_cannot_be_made(made: Get, folder: Path) -> None:
    table = corpus().model_dump()
    table["parts"][1]["format"] = "manythings"
    with pytest.raises(CorpusError, match="expected 3: English"):
        made(Corpus.model_validate(table))
    assert written(folder) == {}


def test_a_folder_that_cannot_be_made_is_named(made: Get, folder: Path) -> None:
    folder.write_text("a file")
    with pytest.raises(WeftError, match=r"cannot read or write .*numbers: .*; choose another folder with --output"):
        made()


# What is used


def test_all_files_that_a_mirror_lacks_are_named_with_their_addresses(made: Get, mirror: Path) -> None:
    (mirror / "train.zh").unlink()
    (mirror / "val.en").unlink()
    with pytest.raises(CorpusError) as error:
        made()
    assert [problem.where for problem in error.value.problems] == ["train.zh", "val.en"]
    assert "https://corpora.invalid/train.zh" in str(error.value)


def test_an_altered_file_is_refused_and_stays_as_it_is(made: Get, mirror: Path, folder: Path) -> None:
    (mirror / "train.en").write_bytes(PUBLISHED["train.en"].replace("two", "TWO").encode())
    with pytest.raises(CorpusError, match=r"train.en .*is not the published file: its sha256 is"):
        made()
    assert b"TWO" in (mirror / "train.en").read_bytes() and not folder.exists()


@pytest.mark.parametrize("kind", ["mirror", "published"])
def test_a_file_without_a_known_digest_is_used_only_where_that_is_accepted(
    made: Get, mirror: Path, folder: Path, kind: str
) -> None:
    files = [{key: file[key] for key in ("name", "address")} for file in corpus().model_dump()["files"]]
    unknown = corpus(files=files)
    if kind == "published":
        mirror.rename(mirror.parent / "elsewhere")
        folder.mkdir()
        (mirror.parent / "elsewhere").rename(folder / "published")
        made = partial(made, mirror=None)
    with pytest.raises(WeftError) as error:
        made(unknown, parts=["valid"])
    digest = hashlib.sha256(PUBLISHED["val.zh"].encode()).hexdigest()
    assert digest in str(error.value) and "--accept-unverified" in str(error.value)
    assert not (folder / "valid.tsv").exists()
    made(unknown, parts=["valid"], accept_unverified=True)
    assert f"val.zh: sha256 {digest}, not verified" in written(folder)["README.md"]


# What is fetched


def test_what_is_here_already_is_not_fetched_and_the_rest_is(
    made: Get, mirror: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []

    def fetch(address: str, target: Path, *rest: object) -> None:
        fetched.append(address)
        target.write_bytes(PUBLISHED[target.name].encode())

    monkeypatch.setattr(corpus_folder, "download", fetch)
    made(mirror=None, parts=["valid"])
    assert fetched == ["https://corpora.invalid/val.zh", "https://corpora.invalid/val.en"]
    made(mirror="http://127.0.0.1:9/a mirror/")
    assert fetched[2:] == ["http://127.0.0.1:9/a mirror/train.zh", "http://127.0.0.1:9/a mirror/train.en"]
    made(mirror=None)
    assert len(fetched) == 4


def test_two_processes_do_not_write_to_the_same_unfinished_files(made: Get, folder: Path) -> None:
    (folder / "published").mkdir(parents=True)
    with locked(folder / "published"), pytest.raises(WeftError, match="another process is downloading into"):
        made(mirror=None)
    assert list((folder / "published").iterdir()) == []


def test_a_published_file_that_was_altered_is_not_fetched_over(
    made: Get, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_folder, "download", None)
    (folder / "published").mkdir(parents=True)
    (folder / "published" / "val.en").write_text("five\n")
    with pytest.raises(CorpusError, match="move it away; then the same command downloads it again"):
        made(mirror=None)
    assert (folder / "published" / "val.en").read_text() == "five\n"
