"""`weft models`: what there is, what one is, whether it is whole; and models that come with weft, by their names."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Weft
from tests.conftest import copy_model

import weft as package
from weft.errors import UsageError
from weft.folders import finding, manifest
from weft.folders.finding import find_model
from weft.folders.model_folder import load_model
from weft.folders.summary import summarize


@pytest.fixture
def shipped(tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Models named zh-en and en-zh that come with weft, in an otherwise empty working directory beside them."""
    for name in ("zh-en", "en-zh"):
        copy_model(tiny_run, tmp_path / "pretrained" / name)
    monkeypatch.setattr(finding, "PRETRAINED", tmp_path / "pretrained")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "pretrained"


# By name


def test_a_model_that_comes_with_weft_is_found_by_its_name(weft: Weft, shipped: Path) -> None:
    assert find_model("zh-en") == shipped / "zh-en" and find_model(Path("en-zh")) == shipped / "en-zh"
    assert package.load("zh-en").model.recipe.data.source == "zh"
    exit_code, out, error = weft("translate", "--model", "zh-en", "我有一个梨。")
    assert (exit_code, error) == (0, "") and out.count("\n") == 1


def test_a_folder_comes_before_a_model_of_its_name_and_a_path_is_never_a_name(tiny_run: Path, shipped: Path) -> None:
    mine = copy_model(tiny_run, Path("zh-en").absolute())
    assert find_model("zh-en").absolute() == mine
    for path in ("./en-zh", "en-zh/", "work/en-zh"):
        with pytest.raises(UsageError, match="there is no model"):
            find_model(path)


def test_the_shipped_models_are_listed_whatever_lies_under_their_names(
    weft: Weft, tiny_run: Path, shipped: Path
) -> None:
    before = weft("models", "list")
    Path("zh-en").mkdir()
    copy_model(tiny_run, Path("en-zh").absolute())
    assert weft("models", "list") == before and before[1].split()[0] == "en-zh"


def test_a_folder_that_hides_a_model_of_its_name_is_told_of(shipped: Path) -> None:
    Path("zh-en").mkdir()
    says = r"zh-en is neither a model folder .* nor a run .*; to use the model zh-en that comes with weft, rename"
    with pytest.raises(UsageError, match=says):
        find_model("zh-en")


@pytest.mark.parametrize(
    "files", [["config.json", "pytorch_model.bin"], ["config.yaml", "best.ckpt"], ["decoder.yml", "model.npz"]]
)
def test_a_folder_of_another_system_is_answered_with_how_to_import_it(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("opus").mkdir()
    for name in files:
        (Path("opus") / name).touch()
    with pytest.raises(UsageError, match=r"Marian, OPUS-MT or JoeyNMT: weft import opus --output FOLDER$"):
        find_model("opus")


def test_an_unknown_name_is_answered_with_those_that_there_are_and_the_near_one(weft: Weft, shipped: Path) -> None:
    for name, hint in (("zh-em", "; did you mean zh-en?"), ("de-fr", "")):
        exit_code, out, error = weft("translate", "--model", name, "你好")
        assert (exit_code, out) == (2, "")
        assert error == (
            f"weft: there is no model {name}; give a model folder or a run folder; weft comes with en-zh, zh-en{hint}\n"
        )


def test_an_archive_for_a_model_is_answered_with_how_to_unpack_it(weft: Weft, shipped: Path) -> None:
    Path("mine.zip").touch()
    exit_code, out, error = weft("translate", "--model", "mine.zip", "你好")
    assert (exit_code, out) == (2, "")
    assert error == "weft: there is no model mine.zip: it is an archive; unpack it first: " + (
        "weft models unpack mine.zip FOLDER\n"
    )


@pytest.mark.parametrize("name", ["n" * 5000, "a\0b"])
def test_a_name_that_no_file_can_have_is_an_error_like_any_other(weft: Weft, name: str) -> None:
    exit_code, out, error = weft("translate", "--model", name, "你好")
    assert (exit_code, out) == (2, "") and error.startswith("weft: the") and "bug in weft" not in error


# list


def test_the_models_that_come_with_weft_are_listed(weft: Weft, shipped: Path) -> None:
    exit_code, out, error = weft("models", "list")
    assert (exit_code, error) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["en-zh", "zh-en"]


def test_the_models_and_runs_in_a_folder_are_listed_and_nothing_inside_a_run(
    weft: Weft, tiny_run: Path, shipped: Path
) -> None:
    shutil.copytree(tiny_run / "run", "here/runs/tiny")
    copy_model(tiny_run, Path("here/mine"))
    copy_model(tiny_run, Path("here/.hidden"))
    os.symlink(Path("here/mine").absolute(), "here/again")
    exit_code, out, error = weft("models", "list", "here")
    assert (exit_code, error) == (0, "")
    parameters = load_model(tiny_run / "run").count_parameters()
    (name, *_, bleu), (run, *_, run_bleu) = (line.split("  ") for line in out.splitlines())
    assert (name.strip(), run.strip()) == ("here/mine", "here/runs/tiny")
    assert all(f"zh → en  {parameters:,} parameters  0.1 MB  " in line for line in out.splitlines())
    assert "  model  " in out and "  finished run, step 2  " in out
    assert bleu.strip() == run_bleu.strip() and bleu.strip().startswith("sacrebleu ")


def test_one_damaged_model_hides_none_of_the_others(weft: Weft, tiny_run: Path, shipped: Path) -> None:
    copy_model(tiny_run, Path("here/good"))
    copy_model(tiny_run, Path("here/spoiled")).joinpath("config.toml").write_text("seed = 'x'\n")
    exit_code, out, error = weft("models", "list", "here")
    assert exit_code == 0 and out.startswith("here/good ") and out.count("\n") == 1
    assert error.startswith("here/spoiled has 1 problem") and "seed" in error


def test_a_card_that_may_not_be_read_says_nothing(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_text = Path.read_text

    def read_other_files(path: Path, *arguments: Any, **settings: Any) -> str:
        if path.name == "README.md":  # whoever is root reads a file of any mode
            raise PermissionError(13, "Permission denied", str(path))
        return read_text(path, *arguments, **settings)

    assert summarize(tiny_run / "run").data
    monkeypatch.setattr(Path, "read_text", read_other_files)
    found = summarize(tiny_run / "run")
    assert (found.card, found.license, found.data, found.scores) == ("", "unknown", [], [])


def test_a_list_is_also_json(weft: Weft, shipped: Path) -> None:
    rows = json.loads(weft("models", "list", "--json")[1])
    assert [row["name"] for row in rows] == ["en-zh", "zh-en"]
    assert rows[0] == summarize("en-zh").as_dict()


def test_folders_however_deep_and_whatever_their_names_are_looked_into(
    weft: Weft, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    copy_model(tiny_run, Path("here/\x1b]0;x\x07\n"))
    deep = os.open("here", os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("a", dir_fd=deep)
        deep, before = os.open("a", os.O_RDONLY, dir_fd=deep), deep
        os.close(before)
    os.close(deep)
    exit_code, out, error = weft("models", "list", "here")
    assert exit_code == 0 and out.startswith("here/\\x1b]0;x\\x07\\n ")
    assert "bug in weft" not in error
    subprocess.run(["rm", "-rf", "here"], check=True)  # which Python's own, too, cannot do


@pytest.mark.parametrize("verb", ["report {}", "models unpack {} out", "models list {}", "models show {}"])
def test_a_name_that_is_too_long_is_no_bug_in_weft(
    weft: Weft, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, error = weft(*verb.format("n" * 300).split())
    assert code in (1, 2) and error.startswith("weft: ") and "bug in weft" not in error


def test_weights_of_nothing_are_refused_before_they_are_digested(weft: Weft, tiny_run: Path, tmp_path: Path) -> None:
    folder = copy_model(tiny_run, tmp_path / "model")
    os.truncate(folder / "model.safetensors", 1 << 42)
    exit_code, _, error = weft("models", "verify", str(folder))
    assert exit_code == 1 and "model.safetensors" in error


def test_prepared_pairs_of_a_run_that_has_not_begun_are_no_model(weft: Weft, tiny_run: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_run / "run" / "corpus", tmp_path / "mine" / "corpus")
    assert weft("models", "list", str(tmp_path)) == (0, "", f"no model or run in {tmp_path}\n")


def test_where_there_is_none_that_is_said_and_is_no_failure(weft: Weft, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(finding, "PRETRAINED", tmp_path / "nothing")
    assert weft("models", "list") == (0, "", "weft is installed without models\n")
    assert weft("models", "list", str(tmp_path)) == (0, "", f"no model or run in {tmp_path}\n")
    assert weft("models", "list", str(tmp_path), "--json") == (0, "[]\n", "")
    assert weft("models", "list", "nowhere") == (2, "", "weft: there is no folder nowhere\n")


# show


def test_a_model_is_shown_with_what_its_card_and_its_recipe_say(weft: Weft, tiny_run: Path) -> None:
    exit_code, out, error = weft("models", "show", str(tiny_run / "run"))
    assert (exit_code, error) == (0, "")
    lines = dict(line.split("  ", 1) for line in out.splitlines() if "  " in line)
    lines = {name: value.strip() for name, value in lines.items()}
    model = load_model(tiny_run / "run")
    assert lines["folder"] == f"{tiny_run / 'run'} (finished run, step 2)"
    assert (lines["languages"], lines["license"]) == ("zh → en", "unknown")
    assert lines["parameters"] == f"{model.count_parameters():,}"
    assert "model_dim 16, num_heads 2, encoder_layers 1, decoder_layers 1" in lines["model"]
    digest = hashlib.sha256((tiny_run / "valid.tsv").read_bytes()).hexdigest()
    assert f"valid valid.tsv (sha256 {digest})" in out
    assert "valid.tsv, 5 sentences, method beam" in out and "tok:13a" in out


def test_what_is_shown_as_json_agrees_with_the_scores_and_the_data_of_the_run(weft: Weft, tiny_run: Path) -> None:
    shown = json.loads(weft("models", "show", str(tiny_run / "run"), "--json")[1])
    (evaluation,) = json.loads((tiny_run / "run/scores.json").read_text(encoding="utf-8"))
    assert {row["score"]: row["value"] for row in shown["scores"]} == {
        name: round(score["value"], 4) for name, score in evaluation["scores"].items()
    }
    assert {row["signature"] for row in shown["scores"]} == {s["signature"] for s in evaluation["scores"].values()}
    rows = re.findall(r"^\|.*\|$", (tiny_run / "run/README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} == {5}  # three cells, as in their headers
    state = json.loads((tiny_run / "run/checkpoints/step-2/training.json").read_text(encoding="utf-8"))
    listed = {
        part: {row["file"]: row["sha256"] for row in shown["data"] if row["part"] == part} for part in state["data"]
    }
    assert listed == state["data"]
    assert shown["parameters"] == evaluation["parameters"]
    assert shown["bytes"] == sum(
        (tiny_run / "run" / name).stat().st_size for name in manifest.model_files(tiny_run / "run")
    )
    assert shown["recipe"]["model"]["ff_dim"] == 16


def test_a_card_that_people_wrote_is_shown_as_far_as_it_goes(weft: Weft, tiny_run: Path, tmp_path: Path) -> None:
    folder = copy_model(tiny_run, tmp_path / "model")
    for card, license in (
        ("---\nlicense: cc-by-4.0\n---\n# Mine\n", "cc-by-4.0"),
        ("license: not in a header\n", "unknown"),
        ("---\nlicense: \x1b[2J\u202e\n---\n", "\\x1b[2J\\u202e"),
        ("\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "unknown"),
    ):
        (folder / "README.md").write_text(card, encoding="utf-8")
        exit_code, out, _ = weft("models", "show", str(folder))
        assert exit_code == 0 and f"license     {license}\n" in out
    (folder / "README.md").unlink()
    assert weft("models", "show", str(folder))[0] == 0


def test_a_card_that_is_made_to_take_forever_is_read_like_any_other(weft: Weft, tiny_run: Path, tmp_path: Path) -> None:
    folder = copy_model(tiny_run, tmp_path / "model")
    tables = "".join(f"{number}:\n| s | 1.0 | `x` |\n" for number in range(4000))
    for card in ("| a" + " | `a" * 40_000 + "\n" + "| a | 1.0 | `" * 10_000, tables, f"| s | {'9' * 400}.0 | `x` |"):
        (folder / "README.md").write_text(card, encoding="utf-8")
        begin = time.process_time()
        assert weft("models", "show", str(folder))[0] == 0
        assert time.process_time() - begin < 1
        assert "Infinity" not in weft("models", "show", str(folder), "--json")[1]


# verify, pack, unpack


def test_a_whole_model_is_verified_with_the_digest_of_each_file(weft: Weft, tiny_run: Path) -> None:
    exit_code, out, error = weft("models", "verify", str(tiny_run / "run"))
    assert (exit_code, error) == (0, f"{tiny_run / 'run'} is complete and unaltered\n")
    lines = [line.split("  ") for line in out.splitlines()]
    assert {name for _, name in lines} == {
        *("config.toml", "model.safetensors", "tokenizer.source.model", "tokenizer.target.model")
    }
    for digest, name in lines:
        assert hashlib.sha256((tiny_run / "run" / name).read_bytes()).hexdigest() == digest


def test_of_a_model_that_is_not_whole_every_file_that_is_wrong_is_named(
    weft: Weft, tiny_run: Path, tmp_path: Path
) -> None:
    folder = copy_model(tiny_run, tmp_path / "model")
    (folder / "tokenizer.source.model").unlink()
    with open(folder / "config.toml", "a", encoding="utf-8") as file:
        file.write("\n")
    exit_code, out, error = weft("models", "verify", str(folder))
    assert (exit_code, out) == (1, "")
    assert error == (
        f"weft: {folder} has 2 problems\n"
        "  tokenizer.source.model  is missing\n"
        "  config.toml             was changed or damaged: its sha256 is not the manifest's\n"
    )


def test_of_several_models_each_is_checked_and_every_broken_one_named(
    weft: Weft, tiny_run: Path, tmp_path: Path
) -> None:
    broken, whole = copy_model(tiny_run, tmp_path / "broken"), copy_model(tiny_run, tmp_path / "whole")
    (broken / "tokenizer.source.model").unlink()
    exit_code, out, error = weft("models", "verify", str(broken), str(tmp_path / "none"), str(whole))
    assert exit_code == 1
    assert {name for _, name in (line.split("  ") for line in out.splitlines())} == {
        str(whole / name)
        for name in ("config.toml", "model.safetensors", "tokenizer.source.model", "tokenizer.target.model")
    }
    lines = error.splitlines()
    assert lines[0].startswith(f"weft: {broken}") and "tokenizer.source.model" in error
    assert any(str(tmp_path / "none") in line for line in lines)
    assert lines[-2:] == [f"{whole} is complete and unaltered", "weft: 2 of 3 models are missing or damaged"]


def test_what_does_not_fit_together_is_not_whole_though_no_file_was_altered(
    weft: Weft, tiny_run: Path, tmp_path: Path
) -> None:
    folder = copy_model(tiny_run, tmp_path / "model")
    config = folder / "config.toml"
    config.write_text(config.read_text(encoding="utf-8").replace("ff_dim = 16", "ff_dim = 24"), encoding="utf-8")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["config.toml"] = hashlib.sha256(config.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    exit_code, _, error = weft("models", "verify", str(folder))
    assert exit_code == 1 and "the recipe requires [24, 16]" in error


def test_a_model_goes_into_a_file_and_comes_out_again(weft: Weft, tiny_run: Path, shipped: Path) -> None:
    exit_code, out, error = weft("models", "pack", "zh-en", "mine.zip")
    assert (exit_code, out) == (0, "") and error.startswith("mine.zip holds the model ")
    exit_code, out, error = weft("models", "unpack", "mine.zip", "my own")
    assert (exit_code, out) == (0, "") and error == "my own holds the model: weft translate --model 'my own' TEXT\n"
    assert {f.name: f.read_bytes() for f in Path("my own").iterdir()} == {
        f.name: f.read_bytes() for f in (shipped / "zh-en").iterdir()
    }
    again = weft("models", "unpack", "mine.zip", "my own")
    assert again == (2, "", "weft: my own exists already; name a new folder\n")
    assert weft("models", "unpack", "yours.zip", "yours") == (2, "", "weft: there is no archive yours.zip\n")
    assert weft("models", "pack", "zh-en", "mine.tar")[0] == 2
    again = weft("models", "pack", str(tiny_run / "run"), "mine.zip")
    assert again == (2, "", "weft: mine.zip exists already; name another file\n")
