"""`weft config` shows, explains and describes the recipe of translation."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weft.cli.config import app
from weft.config import json_schema, read_recipe
from weft.errors import RecipeError, UsageError
from weft.folders.recipes import RECIPES, TranslationRecipe
from weft.preparing.defaults import OPEN, choose_open_settings

RECIPE = """
[data]
source = "zh"
target = "en"
train = ["train.tsv"]
valid = ["valid.tsv"]
[model]
num_heads = 4
"""


def run(*arguments: str):
    return CliRunner().invoke(app, arguments)


def test_explain_says_what_a_key_means():
    answer = run("explain", "model.num_heads")
    assert answer.exit_code == 0
    assert answer.stdout.startswith("model.num_heads\n") and "a whole number" in answer.stdout


def test_a_recipe_of_a_language_model_is_shown_and_its_keys_have_the_defaults_of_the_model(tmp_path: Path):
    recipe = tmp_path / "lm.toml"
    recipe.write_text('task = "language-model"\n[data]\nlanguage = "en"\ntrain = ["a.txt"]\nvalid_share = 0.1\n')
    assert "valid_share = 0.1" in run("show", str(recipe)).stdout
    assert "20" in run("explain", "training.epochs", "--task", "language-model").stdout
    recipe.write_text(recipe.read_text() + 'valid = ["b.txt"]\n')
    answer = run("show", str(recipe))
    assert "conflicts with valid_share" in str(answer.exception)


@pytest.mark.parametrize("state", ["{", "[]", "{}", '{"last": 1}', '{"last": "checkpoints/step-1"}'])
def test_a_run_whose_recipe_cannot_be_found_is_refused_in_words(tmp_path: Path, state: str):
    (tmp_path / "run.json").write_text(state)
    answer = run("show", str(tmp_path))
    assert isinstance(answer.exception, UsageError) and "name the TOML file" in str(answer.exception)


def test_explain_says_of_no_key_that_weft_chooses_a_default_that_no_run_gets():
    for key in ("training.epochs", "model.positions", "tokenizer.source_size"):
        assert "default  chosen from the training data" in run("explain", key).stdout


def test_explain_without_a_key_lists_the_tables():
    answer = run("explain").stdout
    for table in ("data", "tokenizer", "model", "training", "decoding", "require"):
        assert f"\n  {table} " in answer


def test_explain_of_an_unknown_task_names_the_tasks():
    answer = run("explain", "--task", "translatoin")
    assert isinstance(answer.exception, RecipeError)
    assert "did you mean `translation`?" in str(answer.exception)


def test_every_key_has_a_help_text():
    def without_help(schema, path):
        for name, field in schema.get("properties", {}).items():
            if "description" not in field and "$ref" not in field:
                yield f"{path}.{name}"

    schema = json.loads(run("schema").stdout)
    tables = {"recipe": schema, **schema["$defs"]}
    assert [key for name, table in tables.items() for key in without_help(table, name)] == []


def test_show_prints_toml_with_origins(tmp_path):
    path = tmp_path / "zh-en.toml"
    path.write_text(RECIPE, encoding="utf-8")
    answer = run("show", str(path), "--set", "model.dropout=0.3")
    assert answer.exit_code == 0
    shown = tomllib.loads(answer.stdout)
    assert shown["model"]["num_heads"] == 4 and shown["model"]["dropout"] == 0.3
    assert "num_heads = 4  # recipe\n" in answer.stdout
    assert "dropout = 0.3  # command line\n" in answer.stdout
    assert "seed = 1  # default\n" in answer.stdout


def test_show_of_a_run_has_the_origins_that_the_run_kept(tiny_run: Path):
    answer = run("show", str(tiny_run / "run"), "--set", "decoding.beam_size=2")
    assert "seed = 1  # default\n" in answer.stdout and "model_dim = 16  # recipe\n" in answer.stdout
    assert "beam_size = 2  # command line\n" in answer.stdout


def test_what_show_prints_leaves_to_weft_what_the_recipe_leaves_to_it(tmp_path):
    path, shown = tmp_path / "zh-en.toml", tmp_path / "shown.toml"
    path.write_text(RECIPE, encoding="utf-8")
    shown.write_text(run("show", str(path)).stdout, encoding="utf-8")
    assert "# model_dim is left out  # chosen from the training data" in shown.read_text(encoding="utf-8")
    chosen = [choose_open_settings(read_recipe(file, TranslationRecipe), 20_000) for file in (path, shown)]
    assert chosen[0] == chosen[1] and chosen[0].keys() == OPEN - {"model.num_heads"}


def test_show_of_a_broken_recipe_raises_all_its_problems(tmp_path):
    path = tmp_path / "zh-en.toml"
    path.write_text(RECIPE + "num_hads = 4\n[trainin]\n", encoding="utf-8")
    answer = run("show", str(path))
    assert isinstance(answer.exception, RecipeError)
    assert len(answer.exception.problems) == 2
    assert answer.stdout == ""


def test_the_verb_imports_nothing_heavy_before_it_runs():
    code = "import sys, weft.cli.config; sys.exit(not {'torch', 'pydantic'}.isdisjoint(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("task", RECIPES)
def test_the_settings_are_read_without_torch_and_are_the_same(task: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "weft", "config", "schema", "--task", task],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(answer.stdout) == json_schema(RECIPES[task])
    assert "torch._C" not in answer.stderr and "weft.cli.without_torch" in answer.stderr


def processor_seconds(*words: str) -> tuple[float, subprocess.CompletedProcess[str]]:
    """What a Python process takes of the processor, and its output."""
    before = os.times()
    answer = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system, answer


@pytest.fixture(scope="module")
def seconds_for_torch() -> float:
    """Importing torch takes a second to four, by the machine, and is what an answer must do without."""
    return processor_seconds("-c", "import torch")[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("explain", "modle"), "did you mean `model`?"),
        (("show", "missing.toml"), "there is no recipe missing.toml"),
        (("show", str(Path(__file__).parents[2] / "recipes" / "zh-en-50k.toml")), "model_dim"),
    ],
)
def test_a_key_or_a_path_is_answered_in_less_time_than_importing_torch_takes(
    arguments: tuple[str, ...], said: str, seconds_for_torch: float
) -> None:
    taken, answer = processor_seconds("-m", "weft", "config", *arguments)
    assert said in answer.stdout + answer.stderr
    assert taken < 0.8 * seconds_for_torch
