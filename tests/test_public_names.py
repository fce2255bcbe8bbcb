"""The names that a program may count on, and that they cost nothing until they are used."""

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from weft.analysis.report import write_report
from weft.errors import UsageError
from weft.runs.train import train
from weft.tasks import load
from weft.text.kinds import train_tokenizer
from weft.translating.translator import Translator


def test_these_are_the_public_names() -> None:
    assert weft.__all__ == ["Translator", "__version__", "load", "report", "train"]


def test_each_name_is_what_stands_in_its_room() -> None:
    assert (weft.Translator, weft.load, weft.report, weft.train) == (Translator, load, write_report, train)


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
        (lambda run: train_tokenizer("abc", kind="bpe", vocab_size=300, language="zh"), "text"),
    ],
)
def test_one_string_is_no_list(call: Callable[[Path], object], one: str, tiny_run: Path) -> None:
    with pytest.raises(UsageError, match=rf"takes a list of {one}s, found one string; write \[{one}\]"):
        call(tiny_run / "run")


REFUSED = {
    "weft.load(None)": "a model is named by a string or a path, found NoneType",
    "weft.load(run, None)": "load takes a list of overrides, found NoneType",
    "weft.load(run, others={run: 1})": "load takes a list of models, found dict",
    "weft.train({}, run=run, overrides=None)": "a recipe takes a list of overrides, found NoneType",
    "weft.train({}, run=run, overrides=[('training.epochs', 2)])": "expected KEY=VALUE, such as training.epochs=30",
    "weft.train(None)": "a recipe is named by a string or a path, found NoneType",
    "weft.report(None)": "a run is named by a string or a path, found NoneType",
    "weft.report(run, 'de')": 'language \'de\': expected "en" or "zh"',
    "translator.translate({'a': '我'})": "translate takes a list of texts, found dict",
    "translator.translate(['我'], prefixes=[None])": "prefix 1 is not a string: found NoneType",
    "translator.translate(['我'], prefixes=5)": "prefixes= takes a list of strings, found int",
    "translator.translate(['我'], phrases='cat')": "phrases= takes a list of lists, found one string",
    "translator.translate(['我'], phrases=[None])": "each of phrases= takes a list of strings, found NoneType",
    "translator.translate(['我'], phrases=[[5]])": "phrase 1 is not a string: found int",
    "translator.translate_n_best(['我'], '3')": "a number of translations from 1, found '3'",
    "translator.translate_n_best(['我'], 2.5)": "a number of translations from 1, found 2.5",
    "translator.alternatives('我', 'I', '3')": "the number of alternatives is from 1 to 64, found '3'",
    "translator.alternatives('我', None)": "prefix 1 is not a string: found NoneType",
    "translator.as_memory({'我': 'I'}).similar('我', best=0)": "best is a number from 1, found 0",
    "explain(translator, '我', best='3')": "best is a number from 1, found '3'",
}


def test_what_is_of_another_type_is_refused_in_words(distinct_model: Path) -> None:
    # In a process of its own: while tests run annotations are checked, before anything else is.
    program = f"""
import json, weft
from weft.errors import UsageError
from weft.evaluating.explanation import explain
run = {str(distinct_model)!r}
translator, said = weft.load(run), []
for call in {list(REFUSED)!r}:
    try:
        eval(call)
    except UsageError as error:
        said.append(str(error))
print(json.dumps(said))
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    said = json.loads(answer.stdout)
    assert [found for found, expected in zip(said, REFUSED.values(), strict=True) if expected not in found] == []


def test_a_program_loads_and_translates(tiny_run: Path) -> None:
    translator = weft.load(tiny_run / "run")
    (translation,) = translator.translate(["我有一个梨。"], beam_size=2)
    assert isinstance(translator, weft.Translator)
    assert (translation.source, type(translation.text)) == ("我有一个梨。", str)
    assert translation.score < 0
