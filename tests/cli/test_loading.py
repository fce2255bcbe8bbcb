"""Before a model is loaded: models of another task are refused by name, and imports are not slowed by collections."""

import gc
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.command_line import Weft

from weft.cli import loading


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "--model", "triples"),
        ("translate", "--model", "lm", "你好"),
        ("analyze", "--model", "lm", "你好"),
        ("score", "--model", "lm", "--data", "p.tsv"),
        ("compare", "lm", "zh-en", "--data", "p.tsv"),
        ("export", "--model", "lm", "--to", "onnx", "--output", "out"),
        ("augment", "self-train", "--model", "lm", "--input", "p.txt", "--output", "o.tsv"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_model_of_another_task_is_refused_by_name(
    weft: Weft, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, task in (("lm", "language-model"), ("triples", "knowledge")):
        config = Path(shutil.copytree(tiny_run / "run", name)) / "config.toml"
        config.write_text(config.read_text(encoding="utf-8").replace('"translation"', f'"{task}"', 1), "utf-8")
    code, out, error = weft(*arguments)
    assert (code, out) == (2, "")
    needed = "translation or language-model; triples is one for knowledge"
    needed = needed if arguments[0] == "serve" else "translation; lm is one for language-model"
    assert f"weft {arguments[0]} needs a model for {needed}" in error


def test_a_wrong_path_is_refused_before_torch_is_imported() -> None:
    program = """
import sys
from weft.cli.main import app
from weft.errors import UsageError
for command in ("translate --model no x", "analyze --model no x", "export --model no --to onnx --output y",
                "serve --model no", "evaluate --model no --data p", "score --model no --data p", "train no.toml",
                "plan no.toml"):
    try:
        app(command.split(), standalone_mode=False)
    except UsageError as error:
        print(error)
print("torch" in sys.modules)
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    *errors, torch_is_imported = answer.stdout.splitlines()
    assert [error[: len("there is no model no")] for error in errors[:6]] == ["there is no model no"] * 6
    assert errors[6:] == ["there is no recipe no.toml"] * 2 and torch_is_imported == "False"


def test_nothing_is_collected_while_torch_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    frozen = gc.get_freeze_count()
    try:
        with loading.without_collections():
            assert not gc.isenabled()
        assert gc.isenabled() and gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()


def test_where_torch_is_there_already_collections_go_on() -> None:
    import torch

    assert torch.__name__ in sys.modules
    frozen = gc.get_freeze_count()
    with loading.without_collections():
        assert gc.isenabled()
    assert gc.get_freeze_count() == frozen
