"""The worked examples of docs/en/reading-the-code.md: a second kind of model, and a second task, through one engine."""

import json
import math
from pathlib import Path

import pytest
import torch
from tests.command_line import Weft
from tests.watching import Watcher, losses

from weft import load
from weft.errors import RecipeError, Stopped, UsageError
from weft.runs.plan import plan
from weft.runs.train import train
from weft.tasks.generating import LanguageModel, settings_of

RECURRENT = """\
[data]
source = "zh"
target = "en"
train = ["train.tsv"]
valid = ["valid.tsv"]
[tokenizer]
source_size = 300
target_size = 300
[model]
kind = "recurrent"
embedding_dim = 16
hidden_dim = 16
convolution = 2
coverage = 1.0
copying = true
scheduled_sampling = 0.3
weight_drop = 0.2
[training]
batch_sentences = 12
epochs = 3
log_every = 1
precision = "fp32"
[decoding]
max_length_ratio = 1.0
"""
CHARACTERS = """\
task = "language-model"
[data]
language = "en"
train = ["train.txt"]
valid = ["valid.txt"]
[tokenizer]
size = 300
[model]
kind = "recurrent"
cell = "gru"
model_dim = 16
[training]
batch_sentences = 12
epochs = 3
log_every = 1
precision = "fp32"
learning_rate = 1e-2
"""
KNOWLEDGE = """\
task = "knowledge"
[data]
language = "en"
train = ["train.txt", "train.tsv"]
valid = ["valid.tsv"]
context = 48
[model]
model_dim = 16
num_heads = 2
num_layers = 1
ff_dim = 32
[training]
batch_sentences = 6
accumulate = 2
epochs = 2
log_every = 1
precision = "fp32"
"""
RECIPES = {"recurrent": RECURRENT, "characters": CHARACTERS, "knowledge": KNOWLEDGE}
RUNNING = ["data.running=true", "data.context=8", "data.overlap=3", "training.batch_sentences=3", "training.steps=9"]
LANGUAGE_MODELS = {
    "window": ["model.kind=window"],
    "rnn": [
        "model.kind=recurrent",
        "model.cell=rnn",
        "model.num_layers=2",
        "model.variational=true",
        "model.weight_drop=0.3",
    ],
    "lstm": ["model.kind=recurrent", "model.cell=lstm", "model.tie=false"],
    "transformer": ["model.kind=transformer", "model.num_heads=2", "model.num_layers=1", "model.layer_dropout=0.3"],
}
"""Overrides of the recipe `characters` without its cell."""


@pytest.fixture(scope="module")
def home(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recipes, their corpora, and a finished run of each."""
    folder = tmp_path_factory.mktemp("kinds")
    for part in ("train", "valid"):
        lines = (tiny_run / f"{part}.tsv").read_text(encoding="utf-8").splitlines()
        (folder / f"{part}.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        (folder / f"{part}.txt").write_text(
            "".join(f"{line.split(chr(9))[1]}\n" for line in lines[1:]), encoding="utf-8"
        )
    for name, recipe in RECIPES.items():
        (folder / f"{name}.toml").write_text(recipe, encoding="utf-8")
        train(folder / f"{name}.toml", run=folder / name)
    return folder


@pytest.mark.parametrize("name", RECIPES)
def test_a_run_that_was_stopped_takes_the_steps_of_one_that_was_not(home: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(Stopped):
        train(home / f"{name}.toml", run=tmp_path / "run", listener=Watcher(signal_at=4))
    train(home / f"{name}.toml", run=tmp_path / "run")
    assert losses(tmp_path / "run") == losses(home / name)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (home / name / "model.safetensors").read_bytes()


@pytest.mark.parametrize("kind", LANGUAGE_MODELS)
def test_every_language_model_that_was_stopped_takes_the_steps_of_one_that_was_not(
    home: Path, tmp_path: Path, kind: str
) -> None:
    recipe, overrides = tmp_path / "recipe.toml", LANGUAGE_MODELS[kind] + RUNNING
    recipe.write_text(CHARACTERS.replace('cell = "gru"\n', ""), encoding="utf-8")
    train(recipe, run=tmp_path / "whole", data=home, overrides=overrides)
    with pytest.raises(Stopped):
        train(recipe, run=tmp_path / "run", data=home, overrides=overrides, listener=Watcher(signal_at=4))
    train(recipe, run=tmp_path / "run", data=home, overrides=overrides)
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "whole")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("name", RECIPES)
def test_a_run_is_planned_reported_shown_and_begun_with(weft: Weft, home: Path, tmp_path: Path, name: str) -> None:
    planned = plan(home / f"{name}.toml", run=tmp_path / "planned", seconds=None)
    assert planned.steps == len(losses(home / name))
    assert planned.multiply_adds is not None
    assert f"\n{'pairs' if name == 'recurrent' else 'texts'}        " in planned.table()
    code, out, _ = weft("models", "show", str(home / name))
    sizes = {"recurrent": "hidden_dim 16", "characters": "cell gru", "knowledge": "num_layers 1"}
    assert code == 0 and f"kind {'transformer' if name == 'knowledge' else 'recurrent'}" in out and sizes[name] in out
    code, _, _ = weft("report", str(home / name))
    page = (home / name / "report.html").read_text(encoding="utf-8")
    assert code == 0 and "valid" in page and "<dt>Parameters</dt>" in page
    again = train(
        home / f"{name}.toml", run=tmp_path / "again", overrides=[f"training.init={home / name}", "training.epochs=1"]
    )
    assert losses(again)[0] < losses(home / name)[0]


def test_a_recurrent_model_is_evaluated_and_explained(weft: Weft, home: Path) -> None:
    code, out, _ = weft("evaluate", "--model", str(home / "recurrent"), "--data", str(home / "valid.tsv"))
    assert code == 0 and "sacrebleu" in out
    code, out, _ = weft("analyze", "--model", str(home / "recurrent"), "我有一个苹果。")
    assert code == 0 and out


def test_a_language_model_loads_as_the_object_of_its_task_and_its_perplexity_is_that_of_its_texts(home: Path) -> None:
    model = load(home / "characters")
    assert isinstance(model, LanguageModel)
    texts = (home / "valid.txt").read_text(encoding="utf-8").splitlines()
    tokens = sum(len(ids) + 1 for ids in model.learned.vocabularies["text"].encode(texts))
    (scores,) = json.loads((home / "characters" / "scores.json").read_text(encoding="utf-8"))
    perplexity = math.exp(-sum(model.log_probs(texts)) / tokens)
    assert scores["scores"]["perplexity"]["value"] == pytest.approx(perplexity, rel=1e-5)


def test_a_language_model_writes_scores_lines_and_is_evaluated_by_the_verbs(weft: Weft, home: Path) -> None:
    model, folder = load(home / "characters"), str(home / "characters")
    code, out, _ = weft("generate", "--model", folder, "I have", "--length", "9", "--method", "greedy")
    assert code == 0 and out == f"I have{model.generate('I have', settings_of(9, method='greedy'))[0]}\n"
    code, out, _ = weft("score", "--model", folder, "--input", str(home / "valid.txt"))
    texts = (home / "valid.txt").read_text(encoding="utf-8").splitlines()
    scored = [f"{log_prob:10.4f}  {text}" for log_prob, text in zip(model.log_probs(texts), texts, strict=True)]
    assert code == 0 and out.splitlines() == scored
    table = ("score", "--model", folder, "--input", str(home / "valid.tsv"))
    code, out, _ = weft(*table, "--set", "data.column=en")
    assert code == 0 and out.splitlines() == scored
    code, out, _ = weft("score", "--model", folder, "--input", str(home / "valid.txt"), "--set", "data.column=en")
    assert code == 0 and out.splitlines() == scored  # lines have no columns
    code, _, error = weft(*table)
    assert code == 2 and "name the column of its text by data.column" in error
    code, out, _ = weft("evaluate", "--model", folder, "--data", str(home / "valid.txt"), "--json", "-")
    (scores,) = json.loads((home / "characters" / "scores.json").read_text(encoding="utf-8"))
    assert code == 0 and json.loads(out)["scores"] == scores["scores"]
    code, _, error = weft("generate", "--model", str(home / "recurrent"))
    assert code == 2 and "needs a model for language-model" in error


def test_the_probabilities_of_all_next_characters_add_up_to_one(home: Path) -> None:
    network = load(home / "characters").network
    with torch.inference_mode():
        probabilities = network.output(network(torch.tensor([[2, 5, 6]]))).softmax(-1)
    assert probabilities.sum(-1).tolist() == [pytest.approx([1.0] * 3)]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("model.kind=recurent", "expected one of transformer, recurrent; did you mean `recurrent`"),
        ("model.num_heads=4", 'belongs to kind = "transformer"; this is kind = "recurrent"'),
        ("task=language-modle", "did you mean `language-model`"),
    ],
)
def test_a_wrong_kind_a_key_of_another_and_a_wrong_task_are_named(home: Path, override: str, said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        train(home / "recurrent.toml", run=home / "none", overrides=[override])


def test_a_search_that_the_model_cannot_have_is_refused_before_it_is_trained(home: Path, tmp_path: Path) -> None:
    recipe = (home / "recurrent.toml").read_text(encoding="utf-8").replace("coverage = 1.0\ncopying = true\n", "")
    (home / "no-attention.toml").write_text(recipe, encoding="utf-8")
    for overrides, said in (
        (["decoding.coverage_penalty=0.2", "decoding.method=beam", "model.attention=none"], "coverage_penalty"),
        (["decoding.language_model=nothing"], "nothing"),
        ([f"decoding.language_model={home / 'characters'}"], "another vocabulary"),
    ):
        with pytest.raises(UsageError, match=said):
            train(home / "no-attention.toml", run=tmp_path / "run", overrides=overrides)
        assert not (tmp_path / "run" / "checkpoints").exists()


def test_what_a_kind_cannot_do_is_refused_by_name(weft: Weft, home: Path, tmp_path: Path) -> None:
    export = ("export", "--model", str(home / "recurrent"), "--output", str(tmp_path / "x"), "--to")
    code, _, error = weft(*export, "ctranslate2")
    assert code == 2 and 'writes models of kind "transformer"; this one is "recurrent"' in error
    code, _, error = weft(*export, "onnx")
    assert code == 2 and "model.coverage  is not written to ONNX" in error
    for verb in (["translate", "x"], ["analyze", "x"]):
        code, _, error = weft(*verb, "--model", str(home / "characters"))
        assert code == 2 and "language-model" in error, verb
    with pytest.raises(UsageError, match="an ensemble takes models that translate"):
        load(home / "characters", others=[home / "characters"])
    with pytest.raises(UsageError, match="takes neither overrides nor other models"):
        load(home / "knowledge", others=[home / "knowledge"])


def test_an_ngram_model_is_counted_validated_scored_and_finished_without_a_step(
    home: Path, tmp_path: Path, weft: Weft
) -> None:
    recipe, run, watcher = home / "ngram.toml", tmp_path / "run", Watcher()
    recipe.write_text(
        CHARACTERS.replace('kind = "recurrent"\ncell = "gru"\nmodel_dim = 16', 'kind = "ngram"\norder = 4'),
        encoding="utf-8",
    )
    train(recipe, run=run, listener=watcher)
    assert losses(run) == [] and any("give no Kneser-Ney discounts" in message for message in watcher.messages)
    (scores,) = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    model, texts = load(run), (home / "valid.txt").read_text(encoding="utf-8").splitlines()
    tokens = sum(len(ids) + 1 for ids in model.learned.vocabularies["text"].encode(texts))
    perplexity = math.exp(-sum(model.log_probs(texts)) / tokens)
    assert scores["scores"]["perplexity"]["value"] == pytest.approx(perplexity, rel=1e-5)

    assert ", counted by weft " in (run / "README.md").read_text(encoding="utf-8")
    weights = (run / "model.safetensors").read_bytes()
    run_state = (run / "run.json").read_text(encoding="utf-8")
    (run / "run.json").write_text(run_state.replace("true", "false"), encoding="utf-8")  # as if killed before its end
    train(recipe, run=run, overrides=["training.epochs=7"], listener=watcher)
    assert (run / "run.json").read_text(encoding="utf-8") == run_state
    for overrides in ([], ["training.epochs=9"]):
        train(recipe, run=run, overrides=overrides, listener=watcher)
        assert "is finished" in watcher.messages[-1] and "its n-grams are counted" in watcher.messages[-1]
    assert (run / "model.safetensors").read_bytes() == weights

    code, _, error = weft("plan", str(recipe), "--run", str(tmp_path / "none"))
    assert code == 2 and "there are no steps to plan" in error
    code, _, _ = weft("models", "copy", str(run), str(tmp_path / "small"), "--weights", "fp16")
    assert code == 0 and load(tmp_path / "small").log_probs(texts[:3]) == pytest.approx(
        model.log_probs(texts[:3]), rel=1e-2
    )
