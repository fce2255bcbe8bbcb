"""A prepared corpus: what cleaning leaves, kept as ids for as long as files and recipe stay the same."""

import json
import os
import shutil
import subprocess
import sys
import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.watching import Watcher, losses, tiny_recipe

import weft
from weft.data.store import open_store
from weft.errors import CorpusError, RunError, UsageError
from weft.preparing import preparation
from weft.preparing.corpora import find_recipe
from weft.preparing.preparation import Account
from weft.runs.prepare import prepare_run
from weft.runs.train import train


@pytest.fixture
def root(tiny_run: Path, tmp_path: Path) -> Path:
    """tiny_run's pairs to train on, and behind them one that is held out, the first one again, and one with markup."""
    text = (tiny_run / "train.tsv").read_text(encoding="utf-8")
    held_out, first = "这是别的句子。\tThis is another sentence.", text.splitlines()[1]
    rows = f"{held_out}\n{first}\n<b>我有</b>\t<b>I have</b>\n"
    (tmp_path / "train.tsv").write_text(text + rows, encoding="utf-8")
    (tmp_path / "valid.tsv").write_text(f"zh\ten\n{held_out}\n你们有几把椅子？\tHow many chairs?\n", encoding="utf-8")
    return tmp_path


def recipe(**tables: dict[str, Any]) -> dict[str, Any]:
    training = {"batch_sentences": 12, "steps": 4, **tables.get("training", {})}
    return tiny_recipe(**{**tables, "training": training})


def prepared(root: Path, name: str = "run", **tables: dict[str, Any]) -> tuple[Account, list[str], Path]:
    listener = Watcher()
    found, folder = prepare_run(recipe(**tables), run=root / name, data=root, listener=listener)
    return found.account, listener.messages, folder


def test_without_rules_every_pair_is_kept_and_a_leak_is_told(root: Path) -> None:
    account, messages, _ = prepared(root)
    assert (account.read, account.clean, account.stored, account.removed) == (45, 45, 45, {})
    assert any("share a side with the held-out files: 1 pair, such as train.tsv:44" in message for message in messages)


def test_the_rules_of_the_recipe_remove_pairs_and_say_which(root: Path) -> None:
    account, messages, folder = prepared(root, cleaning={"markup": True})
    assert account.removed == {"leaks": 1, "markup": 1, "duplicates": 1} and account.clean == 42
    assert [example["line"] for rule in account.removed for example in account.examples[rule]] == [44, 46, 45]
    assert any(message.startswith("[cleaning] removed 3 of 45 pairs (6.67 %): ") for message in messages)
    assert not any("held-out files" in message for message in messages)
    table = account.table(examples=1)
    assert "kept                    42   93.33 %" in table and "train.tsv:46\n    <b>我有</b>" in table
    assert json.loads((folder / "account.json").read_text(encoding="utf-8"))["clean"] == 42


def test_rules_that_leave_nothing_are_named(root: Path) -> None:
    with pytest.raises(CorpusError, match=r"\[cleaning\] +removes every pair: min_length 45"):
        prepared(root, cleaning={"min_length": 100, "leaks": False, "markup": False, "copies": False})


def test_a_recipe_that_no_model_folder_could_hold_is_refused_before_the_work(root: Path) -> None:
    names = [f"{'part-' * 48}{number}.tsv" for number in range(600)]
    for name in names:
        os.link(root / "train.tsv", root / name)
    with pytest.raises(UsageError, match="the recipe takes more than 128 KiB; put the training pairs in fewer files"):
        prepared(root, data={"train": names})
    assert not (root / "run").exists()


def test_training_takes_what_was_prepared_and_is_the_same_as_without(root: Path) -> None:
    prepared(root, "ahead", cleaning={})
    written = (root / "ahead" / "corpus" / "manifest.json").stat().st_mtime_ns
    listener = Watcher()
    train(recipe(cleaning={}), run=root / "ahead", data=root, listener=listener)
    train(recipe(cleaning={}), run=root / "at-once", data=root)
    assert losses(root / "ahead") == losses(root / "at-once")
    assert (root / "ahead" / "corpus" / "manifest.json").stat().st_mtime_ns == written
    assert any("is up to date with these files and this recipe" in message for message in listener.messages)
    assert any(message.startswith("[cleaning] removed 3 of 45 pairs") for message in listener.messages)


def test_a_vocabulary_that_the_corpus_made_smaller_is_found_again_with_its_size(root: Path) -> None:
    tokenizer = {"source_size": 5000, "target_size": 5000}
    prepared(root, "ahead", tokenizer=tokenizer)
    for name in ("ahead", "at-once"):
        train(recipe(tokenizer=tokenizer), run=root / name, data=root)
    assert (root / "ahead" / "config.toml").read_bytes() == (root / "at-once" / "config.toml").read_bytes()
    assert "# corpus instead of 5000" in (root / "ahead" / "config.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "is_kept"),
    [
        ({"training": {"learning_rate": 0.1}, "model": {"model_dim": 32}}, True),
        ({"tokenizer": {"source_size": 290}}, False),
        ({"cleaning": {"markup": False}}, False),
        ({"data": {"max_length": 9}}, False),
        ({"augmentation": {"joining": 0.5}}, False),
    ],
    ids=["training", "tokenizer", "cleaning", "length", "joining"],
)
def test_a_corpus_is_made_anew_only_when_what_it_depends_on_changed(
    root: Path, changes: dict[str, Any], is_kept: bool
) -> None:
    prepared(root)
    before = (root / "run" / "corpus" / "manifest.json").stat().st_mtime_ns
    prepared(root, **changes)
    assert ((root / "run" / "corpus" / "manifest.json").stat().st_mtime_ns == before) == is_kept


def test_a_changed_file_makes_it_anew(root: Path) -> None:
    assert prepared(root)[0].read == 45
    with open(root / "train.tsv", "a", encoding="utf-8") as file:
        file.write("我有三本书。\tI have three books.\n")
    assert prepared(root)[0].read == 46


def test_a_damaged_corpus_is_made_anew(root: Path) -> None:
    _, _, folder = prepared(root)
    whole = (folder / "source.ids").read_bytes()
    (folder / "source.ids").write_bytes(whole[:-2] + b"\0\0")
    _, messages, _ = prepared(root)
    assert any("source.ids" in message and "making a new one" in message for message in messages)
    assert (folder / "source.ids").read_bytes() == whole


def test_a_run_goes_on_without_its_prepared_corpus_as_with_it(root: Path) -> None:
    for name in ("whole", "parted"):
        train(recipe(training={"steps": 2}), run=root / name, data=root)
    shutil.rmtree(root / "parted" / "corpus")
    for name in ("whole", "parted"):
        train(recipe(training={"steps": 4}), run=root / name, data=root)
    assert losses(root / "parted") == losses(root / "whole")
    assert len(open_store(root / "parted" / "corpus")) == 45


def test_the_corpus_of_a_run_that_has_begun_stays_as_it_is(root: Path) -> None:
    train(recipe(), run=root / "run", data=root)
    with pytest.raises(RunError, match=r"is a run that has begun; prepare a new one: --run .*run-2"):
        prepared(root, tokenizer={"source_size": 290})


def test_nothing_but_the_corpus_is_left_and_no_scratch(root: Path) -> None:
    prepared(root)
    assert sorted(path.name for path in (root / "run").iterdir()) == ["corpus"]
    with pytest.raises(CorpusError, match=r"(?s)missing\.tsv.*data paths +begin in .* \(of --data, else WEFT_DATA"):
        prepared(root, "other", data={"train": ["missing.tsv"]})
    assert not (root / "other").exists()


def test_a_script_without_a_main_guard_can_prepare_with_several_processes(root: Path) -> None:
    script = root / "script.py"
    script.write_text(
        f"import pathlib, weft.data.pair_files\nprint('once')\nweft.data.pair_files.LINES_AT_ONCE = 5\n"
        f"from weft.runs.prepare import prepare_run\nfrom weft.runs.train import Silent\n"
        f"root = pathlib.Path({str(root)!r})\n"
        f"prepare_run({recipe()!r}, run=root / 'run', data=root, processes=2, listener=Silent())\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout == "once\n"


def test_a_folder_named_corpus_that_is_none_is_never_replaced(root: Path) -> None:
    (root / "mine" / "corpus").mkdir(parents=True)
    (root / "mine" / "corpus" / "train.tsv").write_text("mine", encoding="utf-8")
    for begin in (lambda: prepared(root, "mine"), lambda: train(recipe(), run=root / "mine", data=root)):
        with pytest.raises(RunError, match=r"is not a prepared corpus: it holds train\.tsv, which would be lost"):
            begin()
    assert (root / "mine" / "corpus" / "train.tsv").read_text(encoding="utf-8") == "mine"


def test_what_a_killed_preparation_left_is_swept_up(root: Path) -> None:
    for name in ("fresh", "begun"):
        if name == "begun":
            train(recipe(training={"steps": 2}), run=root / name, data=root)
        (root / name / ".corpus.1.clean.partial" / "keys").mkdir(parents=True)
        train(recipe(), run=root / name, data=root)
        assert not list((root / name).glob(".*"))


def test_a_run_that_has_begun_keeps_its_corpus_under_another_weft(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(recipe(training={"steps": 2}), run=root / "run", data=root)
    before = (root / "run" / "corpus" / "manifest.json").stat().st_mtime_ns
    monkeypatch.setattr(preparation, "code_digest", lambda: "another")
    train(recipe(), run=root / "run", data=root)
    assert (root / "run" / "corpus" / "manifest.json").stat().st_mtime_ns == before
    assert prepared(root, "new")[0].read == 45


def test_what_reads_cleans_and_cuts_is_known_by_its_code_and_by_the_unicode_of_this_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = shutil.copytree(
        Path(weft.__file__).parent, tmp_path / "weft", ignore=shutil.ignore_patterns("pretrained")
    )
    monkeypatch.setattr(weft, "__file__", str(package / "__init__.py"))
    digests = [preparation.code_digest.__wrapped__()]
    for name in ("files.py", "data/keys.py", "text/chinese.py", "folders/model_folder.py", "serving/app.py"):
        (package / name).write_text("another = True\n", encoding="utf-8")
        digests.append(preparation.code_digest.__wrapped__())
    monkeypatch.setattr(unicodedata, "unidata_version", "1.1.5")
    digests.append(preparation.code_digest.__wrapped__())
    assert [one == other for one, other in pairwise(digests)] == [False, False, False, False, True, False]


def test_sides_of_the_held_out_files_that_change_places_make_it_anew(root: Path) -> None:
    sides: list[list[str]] = [["这是别的句子。"], ["This is another sentence."]]
    for name, texts in zip(("v.zh", "v.en"), sides, strict=True):
        (root / name).write_text("\n".join(texts) + "\n", encoding="utf-8")

    def leaks(source: str, target: str) -> int:
        valid = [{"source": source, "target": target}]
        return prepared(root, data={"valid": valid}, cleaning={})[0].removed.get("leaks", 0)

    assert (leaks("v.en", "v.zh"), leaks("v.zh", "v.en")) == (0, 1)


def test_the_same_pair_behind_another_tag_is_another_one(root: Path) -> None:
    files = [{"path": "train.tsv", "tag": "<a>"}, {"path": "train.tsv", "tag": "<b>"}]
    account, _, _ = prepared(root, data={"train": files}, cleaning={})
    assert account.removed["duplicates"] == 2 and account.clean == 2 * 42


def test_pairs_that_are_added_are_not_counted_as_kept(root: Path) -> None:
    table = prepared(root, augmentation={"joining": 1.0})[0].table(0)
    assert "kept                    45  100.00 %" in table and "joined" in table


def test_the_recipe_of_a_run_is_that_runs(tiny_run: Path) -> None:
    for written in (tiny_run / "run" / "config.toml", *(tiny_run / "run" / "checkpoints").glob("*/config.toml")):
        assert find_recipe(written, run=None, data=None, overrides=())[1:] == (Path(), tiny_run / "run")
        assert find_recipe(written, run="a", data="b", overrides=())[1:] == (Path("b"), Path("a"))
    assert find_recipe(tiny_run / "tiny.toml", run=None, data=None, overrides=())[1:] == (tiny_run, Path("runs/tiny"))
