"""The names that a program may count on, and that they cost nothing until they are used."""

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from weft.errors import UsageError


def test_these_are_the_public_names() -> None:
    assert weft.__all__ == ["Translator", "__version__", "load", "report", "train"]


def test_each_name_is_what_stands_in_its_room() -> None:
    from weft.analysis.report import write_report
    from weft.tasks.training import train
    from weft.tasks.translation import Translator, load_translator

    found = {name: getattr(weft, name) for name in weft.HOMES}
    assert found == {
        "Translator": Translator,
        "load": load_translator,
        "report": write_report,
        "train": train,
    }


def test_what_a_type_checker_sees_is_what_is_found() -> None:
    tree = ast.parse(Path(weft.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name: (statement.module, alias.name)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert seen == weft.HOMES


def test_a_name_is_resolved_when_it_is_first_used() -> None:
    program = """
import json, sys
import weft
before = "torch" in sys.modules
from weft import report
between = "torch" in sys.modules
weft.load
print(json.dumps([before, between, "torch" in sys.modules, callable(report)]))
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == [False, False, True, True]


def test_the_public_names_are_listed_and_their_types_are_told() -> None:
    program = "import sys, weft; print(set(weft.__all__) <= set(dir(weft)), 'torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "True False\n"
    assert Path(weft.__file__).with_name("py.typed").is_file()


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'weft' has no attribute 'lode'"):
        weft.lode  # noqa: B018
    assert not hasattr(weft, "Trainer")


@pytest.mark.parametrize(
    ("call", "one"),
    [
        (lambda run: weft.load(run, "decoding.beam_size=3"), "override"),
        (lambda run: weft.load(run, others=str(run)), "model"),
        (lambda run: weft.train({}, run="runs/none", overrides="training.steps=3"), "override"),
    ],
)
def test_one_string_is_no_list(call: Callable[[Path], object], one: str, tiny_run: Path) -> None:
    with pytest.raises(UsageError, match=rf"takes a list of {one}s, found one string; write \[{one}\]"):
        call(tiny_run / "run")


def test_a_program_loads_and_translates(tiny_run: Path) -> None:
    translator = weft.load(tiny_run / "run")
    (translation,) = translator.translate(["我有一个梨。"], beam_size=2)
    assert isinstance(translator, weft.Translator)
    assert (translation.source, type(translation.text)) == ("我有一个梨。", str)
    assert translation.score < 0
