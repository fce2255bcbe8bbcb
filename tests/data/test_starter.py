"""The starter corpus: its content, its disjoint splits, and how it is written."""

import hashlib
import os
import re
from itertools import chain

import pytest
from typer.testing import CliRunner

from weft.cli import corpus as cli
from weft.data import starter
from weft.errors import UsageError

SHA256 = {
    "train.tsv": "30ed6cf6193683113eaea623de9591313cef4b0fb7e4fcdfc8d167a3c8b99613",
    "valid.tsv": "3e021c102c0f092fc17a5fc00bffbd89f7de6ebaaafba7e966b7efe03417ba25",
    "test.tsv": "347e07f35a40ca05497f4040aa25b9bad4ba3909a4631dfb5dd96b5e8f31f64c",
}


def test_it_has_20000_pairs_to_train_on_and_500_each_to_validate_and_test() -> None:
    corpus = starter.load()
    assert {part: len(pairs) for part, pairs in corpus.items()} == {"train": 20_000, "valid": 500, "test": 500}


def test_no_two_sentences_are_alike_on_either_side_up_to_case_and_punctuation() -> None:
    corpus = starter.load()
    for side in zip(*chain.from_iterable(corpus.values()), strict=True):
        assert len({re.sub(r"\W", "", sentence).casefold() for sentence in side}) == 21_000


def test_every_word_and_character_that_is_held_out_occurs_in_train() -> None:
    corpus = starter.load()
    known = {token for pair in corpus["train"] for token in tokens(*pair)}
    assert all(known.issuperset(tokens(*pair)) for pair in corpus["valid"] + corpus["test"])


def tokens(chinese: str, english: str) -> set[str]:
    return {*chinese, *re.findall(r"[\w']+", english)}


def test_the_command_writes_these_files_and_reports_on_stderr_alone(tmp_path) -> None:
    folder = tmp_path / "new" / "starter"
    result = CliRunner().invoke(cli.app, ["get", "starter", "--output", str(folder)])
    assert result.exit_code == 0 and result.stdout == "" and "20,000 pairs" in result.stderr
    assert {path.name for path in folder.iterdir()} == {*SHA256, "README.md"}
    assert {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in SHA256} == SHA256
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert "synthetic" in readme and "Apache-2.0" in readme


def test_files_with_the_right_content_are_left_untouched(tmp_path) -> None:
    starter.write(tmp_path)
    (tmp_path / "valid.tsv").write_text("cut sho")
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    starter.write(tmp_path, force=True)
    assert [path.name for path in tmp_path.iterdir() if path.stat().st_mtime > 0] == ["valid.tsv"]
    assert (tmp_path / "valid.tsv").read_text(encoding="utf-8").startswith("zh\ten\n")


def test_files_with_different_content_are_replaced_only_by_force(tmp_path) -> None:
    (tmp_path / "train.tsv").write_text("mine")
    with pytest.raises(UsageError, match=r"already holds a different train\.tsv; .* --output, .* with --force"):
        starter.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["train.tsv"]
    starter.write(tmp_path, force=True)
    assert len((tmp_path / "train.tsv").read_text(encoding="utf-8").splitlines()) == 20_001


def test_the_readme_of_another_version_of_weft_is_replaced(tmp_path) -> None:
    (tmp_path / "README.md").write_text("# The starter corpus\n\nAs version 0.1 described it.\n")
    starter.write(tmp_path)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == starter.DESCRIPTION
