"""A recipe becomes a run: begun, stopped, gone on with, extended, begun from another; with every kind of model."""

import gzip
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch
from safetensors.torch import load_file
from tests.command_line import Weft
from tests.watching import Watcher, losses, rows, status, tiny_recipe

from weft.config import render, resolve
from weft.errors import CorpusError, ModelError, RecipeError, RunError, Stopped, UsageError, WeftError, WorkerLost
from weft.folders.finding import find_model
from weft.folders.model_folder import TranslationModel, load_model
from weft.folders.recipes import TranslationRecipe
from weft.metrics.references import reference_sets
from weft.metrics.translation import score_translations
from weft.preparing import first_model
from weft.preparing.corpora import find_recipe, read_all, recipe_given
from weft.preparing.preparation import prepare
from weft.runs import train as training
from weft.runs.making import warn_of_schedule
from weft.runs.train import Silent, train
from weft.tasks.translation import TRANSLATION
from weft.training.config import TrainingConfig
from weft.training.run_folder import STATE, RunFolder, RunStatus
from weft.training.trainer import Trainer
from weft.translating.loading import load_translator
from weft.translating.translator import Translator

STEPS_PER_EPOCH = 2


def recipe(**tables: dict[str, Any]) -> dict[str, Any]:
    return tiny_recipe(**{**tables, "training": {"epochs": 4, **tables.get("training", {})}})


class Trained(Protocol):
    def __call__(self, given: dict[str, Any], stop: int | None = None, name: str = "run") -> Path: ...


@pytest.fixture(scope="module")
def trained_runs() -> dict[str, Path]:
    return {}


@pytest.fixture
def trained(
    tiny_run: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, trained_runs: dict[str, Path]
) -> Trained:
    """Make tmp_path / name a run by this recipe, stopped after a step or finished: trained once, then copied."""

    def trained(given: dict[str, Any], stop: int | None = None, name: str = "run") -> Path:
        if (key := json.dumps([given, stop])) not in trained_runs:
            trained_runs[key] = tmp_path_factory.mktemp("trained") / "run"
            with nullcontext() if stop is None else pytest.raises(Stopped):
                train(given, run=trained_runs[key], data=tiny_run, listener=Watcher(signal_at=stop))
        return shutil.copytree(trained_runs[key], tmp_path / name)

    return trained


def without_clocks(run: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl but for what a clock says."""
    clocks = ("seconds", "target_tokens_per_second")
    return [{key: value for key, value in row.items() if key not in clocks} for row in rows(run)]


def validations(run: Path) -> list[dict[str, Any]]:
    return [row for row in without_clocks(run) if "valid_loss" in row]


def content(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"listener": object()}, "a listener has the methods on_message, on_log and on_validation"),
        ({"listener": Silent}, r"a listener is an object, not a class; pass Silent\(\)"),
        ({"budget": 30}, "--budget 30: expected a time"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_trained(
    tiny_run: Path, tmp_path: Path, given: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        train(recipe(), run=tmp_path / "run", data=tiny_run, **given)
    assert not (tmp_path / "run").exists()


def test_other_weights_than_those_in_fp32_are_refused_before_anything_is_trained(
    tiny_run: Path, tmp_path: Path
) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(UsageError, match="weights are trained in fp32"):
            train(recipe(), run=tmp_path / "run", data=tiny_run)
    finally:
        torch.set_default_dtype(torch.float32)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "mode", [torch.no_grad, torch.inference_mode, partial(torch.autocast, "cpu", torch.bfloat16)], ids=str
)
def test_a_run_is_the_same_whatever_mode_of_torch_the_program_around_it_is_in_and_draws(
    tiny_run: Path, tmp_path: Path, trained: Trained, mode
) -> None:
    alone = trained(recipe(training={"epochs": 1}), name="alone")
    torch.manual_seed(123)
    before = torch.get_rng_state()
    with mode():
        run = train(recipe(training={"epochs": 1}), run=tmp_path / "run", data=tiny_run)
    assert torch.equal(torch.get_rng_state(), before)
    assert (run / "model.safetensors").read_bytes() == (alone / "model.safetensors").read_bytes()


# Stopped and gone on with


@pytest.mark.parametrize("stops", [[1], [2, 5], [3, 4, 7]], ids=str)
def test_a_run_that_was_stopped_ends_bit_for_bit_like_one_that_was_not(
    tiny_run: Path, tmp_path: Path, trained: Trained, stops: list[int]
) -> None:
    given, run = recipe(training={"validate_every": "3 steps"}), tmp_path / "run"
    uninterrupted = trained(given, name="uninterrupted")
    for step in stops:
        with pytest.raises(Stopped, match=f"stopped at step {step} and saved; the same command continues from here"):
            train(given, run=run, data=tiny_run, listener=Watcher(signal_at=step))
        assert status(run).last == step and not status(run).finished
        assert not (run / "model.safetensors").exists()
    watcher = Watcher()
    train(given, run=run, data=tiny_run, listener=watcher)
    assert f"continuing from step {stops[-1]} of 8" in watcher.messages
    assert without_clocks(run) == without_clocks(uninterrupted) and len(without_clocks(run)) == 8 + 3
    names = ["model.safetensors", "config.toml", "manifest.json", "samples.jsonl", "tokenizer.source.model", "run.json"]
    for name in [*names, "checkpoints/step-8/training.safetensors"]:
        assert (run / name).read_bytes() == (uninterrupted / name).read_bytes(), name


def test_a_signal_stops_the_command_with_exit_code_3_and_the_command_goes_on(tiny_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = ["training.epochs=5000", "training.log_every=1", 'training.validate_every="9 epochs"']
    command = [sys.executable, "-m", "weft", "train", str(tiny_run / "tiny.toml"), "--run", str(run)]
    options = [word for setting in settings for word in ("--set", setting)]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while not (line := process.stderr.readline()).startswith("step 1/"):
            assert line, "the command ended before its first step"
        process.terminate()
        out, error = process.communicate(timeout=60)
    last = status(run).last
    assert (process.returncode, out) == (3, "")
    assert error.endswith(f"weft: stopped at step {last} and saved; the same command continues from here\n")
    assert "Traceback" not in error

    watcher = Watcher(signal_at=last + 1)
    with pytest.raises(Stopped):
        train(tiny_run / "tiny.toml", run=run, overrides=settings, listener=watcher)
    assert f"continuing from step {last} of 10000" in watcher.messages


# Finished, and asked for more


def test_a_finished_run_says_so_and_stays_as_it_is(tiny_run: Path, trained: Trained) -> None:
    run = trained(recipe())
    before, watcher = content(run), Watcher()
    assert train(recipe(), run=run, data=tiny_run, listener=watcher) == run
    assert watcher.messages == [f"{run} is finished (step 8); raise training.epochs to continue"]
    assert content(run) == before


def test_more_epochs_go_on_and_fewer_change_nothing(tiny_run: Path, trained: Trained) -> None:
    run = trained(recipe(training={"epochs": 2}))
    first = without_clocks(run)
    train(recipe(training={"epochs": 2}), run=run, data=tiny_run, overrides=["training.epochs=3"])
    assert without_clocks(run)[: len(first)] == first
    assert [row["step"] for row in without_clocks(run) if "loss" in row] == [1, 2, 3, 4, 5, 6]
    assert status(run).last == 6 and status(run).finished
    assert "epochs = 3  # command line\n" in (run / "checkpoints/step-6/config.toml").read_text(encoding="utf-8")
    before = content(run)
    train(recipe(training={"epochs": 2}), run=run, data=tiny_run)
    assert content(run) == before  # finished is finished


def test_a_run_keeps_its_epochs_where_the_recipe_no_longer_names_them(tiny_run: Path, trained: Trained) -> None:
    given, watcher = recipe(training={"epochs": 1}), Watcher()
    run = trained(given)
    before = content(run)
    del given["training"]["epochs"]
    train(given, run=run, data=tiny_run, listener=watcher)
    assert "is finished (step 2); raise training.epochs to continue" in watcher.messages[-1] and content(run) == before


def test_a_key_that_was_left_to_weft_may_be_left_to_it_in_words(tiny_run: Path, trained: Trained) -> None:
    run = trained(recipe(), stop=2)
    train(recipe(tokenizer={"source_script": "auto"}), run=run, data=tiny_run)
    assert status(run).finished


@pytest.mark.parametrize("change", [("rate_scale", 0.25), ("epoch", 7), ("validations_since_best", None)], ids=str)
def test_a_changed_progress_of_the_run_is_refused(tiny_run: Path, change: tuple[str, Any], trained: Trained) -> None:
    run, (key, value) = trained(recipe(), stop=2), change
    file = run / "checkpoints" / "step-2" / "training.json"
    state = json.loads(file.read_text(encoding="utf-8"))
    state["progress"][key] = value
    file.write_text(json.dumps(state), encoding="utf-8")
    with pytest.raises(ModelError, match=r"training\.json +was changed or damaged"):
        train(recipe(), run=run, data=tiny_run)


@pytest.mark.parametrize("change", [{"log_every": 2}, {"checkpoint_every": "1 step"}], ids=str)
def test_what_is_written_on_the_way_may_change_and_changes_no_number(
    tiny_run: Path, change: dict[str, Any], trained: Trained
) -> None:
    given = recipe(training={"validate_every": "3 steps"})
    whole, run = trained(given, name="whole"), trained(given, stop=3)
    train(recipe(training={"validate_every": "3 steps", **change}), run=run, data=tiny_run)
    assert validations(run) == validations(whole)
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_other_validations_would_choose_other_weights_and_are_refused(tiny_run: Path, trained: Trained) -> None:
    run = trained(recipe(), stop=2)
    with pytest.raises(RunError, match=r"training\.validate_every: was '1 epoch', is '3 steps'"):
        train(recipe(training={"validate_every": 3}), run=run, data=tiny_run)


def test_a_run_under_way_cannot_be_made_shorter(tiny_run: Path, trained: Trained) -> None:
    run = trained(recipe(training={"epochs": 3}), stop=2)
    with pytest.raises(RunError, match=r"was started with another recipe:\n  training\.epochs: was 3, is 2"):
        train(recipe(training={"epochs": 2}), run=run, data=tiny_run)


def test_a_run_cannot_be_made_shorter_after_a_sitting_that_did_not_name_its_epochs(
    tiny_run: Path, tmp_path: Path
) -> None:
    given, run = recipe(), tmp_path / "run"
    del given["training"]["epochs"]
    with pytest.raises(Stopped):
        train(given, run=run, data=tiny_run, overrides=["training.epochs=30"], listener=Watcher(signal_at=1))
    for step in (2, 3):
        watcher = Watcher(signal_at=step)
        with pytest.raises(Stopped):
            train(given, run=run, data=tiny_run, listener=watcher)
        assert f"continuing from step {step - 1} of 60" in watcher.messages
    config = (run / "checkpoints/step-3/config.toml").read_text(encoding="utf-8")
    assert "epochs = 30  # command line\n" in config
    shorter = (
        ("epochs=25", r"epochs: was 30, is 25"),
        ("steps=50", r"epochs: was 30, is not set\n.*steps: was not set, is 50"),
    )
    for setting, says in shorter:
        with pytest.raises(RunError, match=rf"was started with another recipe:\n  training\.{says}\nundo"):
            train(given, run=run, data=tiny_run, overrides=[f"training.{setting}"])


def test_steps_may_take_the_place_of_epochs_where_they_are_more(tiny_run: Path, trained: Trained) -> None:
    given = recipe(training={"epochs": 2})
    run = trained(given, stop=1)
    del given["training"]["epochs"]
    train(given, run=run, data=tiny_run, overrides=["training.steps=5"])
    assert status(run).last == 5 and status(run).finished
    watcher = Watcher()
    train(given, run=run, data=tiny_run, listener=watcher)
    assert watcher.messages[-1] == f"{run} is finished (step 5); raise training.epochs to continue"


def test_who_wants_another_recipe_is_told_how_to_begin_with_these_weights(tiny_run: Path, trained: Trained) -> None:
    run = trained(recipe(training={"epochs": 3}), stop=2)
    changed = recipe(training={"epochs": 3, "label_smoothing": 0.2})
    with pytest.raises(RunError, match=r"training\.label_smoothing: was .*, is 0\.2") as refused:
        train(changed, run=run, data=tiny_run)
    advice = re.search(r"start a new run: --run (\S+), from its weights with --set (\S+)$", str(refused.value))
    assert advice
    untrained = {"learning_rate": 1e-30}
    followed = train(
        {**changed, "training": {**changed["training"], **untrained}},
        run=advice[1],
        data=tiny_run,
        overrides=[advice[2]],
    )
    weights = [load_model(find_model(folder)).network.state_dict() for folder in (run / "checkpoints/step-2", followed)]
    torch.testing.assert_close(weights[1], weights[0])


AS_A_FACTOR = "at step 2; a factor of"
TOO_FEW_EPOCHS = "training.epochs = 1 ends this run after 2 steps, before the 7 of training.steps; 4 epochs hold"
LONG_WARMUP = "training.warmup = 2 steps last as long as the whole run of 2: the rate only rises; below 1 it is a share"


@pytest.mark.parametrize(
    ("settings", "about", "said"),
    [
        ({"schedule": "noam", "learning_rate": 1e-3, "warmup": 4}, "noam", f"e-05, {AS_A_FACTOR}"),
        ({"schedule": "noam", "learning_rate": 5e-4, "warmup": 4000}, "noam", AS_A_FACTOR),
        ({"schedule": "noam", "learning_rate": 1.0, "warmup": 4}, "noam", None),
        ({"schedule": "noam", "learning_rate": 2.0, "warmup": 1}, "noam", None),
        ({"schedule": "inverse-sqrt", "learning_rate": 2e-5}, "noam", None),
        ({"schedule": "constant", "learning_rate": 1e-5}, "noam", None),
        ({"steps": 7}, "", TOO_FEW_EPOCHS),
        ({"warmup": 2}, "", LONG_WARMUP),
        ({"warmup": 1}, "", None),
        ({"warmup": 0.5}, "", None),
    ],
    ids=str,
)
def test_a_factor_of_noam_and_odd_lengths_of_a_run_or_its_warm_up_are_named(
    settings: dict[str, Any], about: str, said: str | None
) -> None:
    watcher = Watcher()
    warn_of_schedule(TrainingConfig(epochs=1, **settings), 2, 16, watcher)
    found = [message for message in watcher.messages if about in message]
    assert (found == []) if said is None else (len(found) == 1 and said in found[0])


@pytest.mark.parametrize(
    ("precision", "has_bf16", "warned"), [("bf16", False, True), ("fp32", False, False), ("bf16", True, False)]
)
def test_a_processor_that_can_only_imitate_bf16_is_named_before_hours_are_spent_on_it(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str, has_bf16: bool, warned: bool
) -> None:
    monkeypatch.setattr("weft.runs.making.has_native_bf16", lambda device: has_bf16)
    watcher = Watcher(signal_at=1)
    with pytest.raises(Stopped):
        train(recipe(training={"precision": precision}), run=tmp_path / "run", data=tiny_run, listener=watcher)
    assert any("emulates" in message for message in watcher.messages) == warned


@pytest.mark.parametrize(
    ("tables", "fits"),
    [
        ({"model": {"positions": "learned"}}, False),
        ({"tokenizer": {"source_size": 280}}, False),
        ({"model": {"dropout": 0.2}}, True),
        ({"model": {"positions": "sinusoidal"}}, True),
        ({"data": {"source": "en", "target": "zh"}}, False),
        ({"data": {"train": [{"path": "train.tsv", "tag": "<bt>"}]}}, False),
    ],
    ids=str,
)
def test_weights_are_offered_only_to_a_recipe_that_they_fit(
    tiny_run: Path, tables: dict[str, Any], fits: bool, trained: Trained
) -> None:
    run = trained(recipe(training={"epochs": 3}), stop=2)
    with pytest.raises(RunError, match="start a new run: --run") as refused:
        train(recipe(training={"epochs": 3}, **tables), run=run, data=tiny_run)
    assert ("training.init" in str(refused.value)) == fits


def test_a_run_under_way_cannot_be_given_less_patience_which_would_end_it_at_once(
    tiny_run: Path, trained: Trained
) -> None:
    standstill = {"learning_rate": 1e-30, "select_by": "loss", "epochs": 9}
    run = trained(recipe(training=standstill), stop=6)
    before = content(run)
    with pytest.raises(RunError, match=r"was started with another recipe:\n  training\.patience: was not set, is 1"):
        train(recipe(training={**standstill, "patience": 1}), run=run, data=tiny_run)
    assert content(run) == before


def test_a_run_that_died_before_its_first_checkpoint_begins_again(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PowerCutError(BaseException): ...

    def checkpoint(self: Trainer[Any, Any]) -> None:
        assert (self.run.path / "doctor.json").is_file()
        raise PowerCutError

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "checkpoint", checkpoint)
        with pytest.raises(PowerCutError):
            train(recipe(), run=tmp_path / "run", data=tiny_run)
    assert not (tmp_path / "run").exists()  # this process could still tidy up; one that is killed leaves all of it
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "doctor.json").write_text("{", encoding="utf-8")
    train(recipe(), run=tmp_path / "run", data=tiny_run)
    assert status(tmp_path / "run").finished
    assert "pairs" in (tmp_path / "run" / "doctor.json").read_text(encoding="utf-8")


def test_layers_that_training_leaves_out_have_a_momentum_when_they_take_part(trained: Trained) -> None:
    settings = {"optimizer": "sgd", "learning_rate": 0.05, "epochs": 4}
    run = trained(recipe(training=settings, model={"layer_dropout": 0.5}))
    assert status(run).finished and all(math.isfinite(loss) for loss in losses(run))
    state = load_file(run / "checkpoints" / f"step-{status(run).last}" / "training.safetensors")
    momenta = {name for name in state if "momentum" in name}
    assert len(momenta) == len(load_file(run / "model.safetensors")), sorted(state)


def test_noise_never_makes_a_pair_longer_than_the_positions(tiny_run: Path, tmp_path: Path) -> None:
    overrides = [*LEARNED, "augmentation.subword_sampling=1.0", "training.epochs=2"]
    assert status(train(tiny_run / "tiny.toml", run=tmp_path / "run", overrides=overrides)).finished


def test_what_looks_like_a_mistake_is_named_when_a_run_begins(tiny_run: Path, tmp_path: Path) -> None:
    settings = {"epochs": 1, "steps": 7, "schedule": "noam", "learning_rate": 1e-4, "warmup": 2}
    watcher = Watcher()
    train(recipe(training=settings), run=tmp_path / "run", data=tiny_run, listener=watcher)
    for part in (TOO_FEW_EPOCHS, LONG_WARMUP, "as a factor"):
        assert sum(part in message for message in watcher.messages) == 1


def test_a_run_that_came_to_two_limits_at_once_names_the_one_that_is_left(tiny_run: Path, trained: Trained) -> None:
    def given(**changes: Any) -> dict[str, Any]:
        standstill = {"learning_rate": 1e-30, "epochs": 3, "patience": 2, "select_by": "loss"}
        return recipe(training={**standstill, **changes})

    run = trained(given())
    before = content(run)
    for changes, limit in (({"epochs": 6}, "patience"), ({"patience": 3}, "epochs")):
        watcher = Watcher()
        train(given(**changes), run=run, data=tiny_run, listener=watcher)
        assert watcher.messages[-1] == f"{run} is finished (step 6); raise training.{limit} to continue"
    assert content(run) == before
    train(given(epochs=6, patience=3), run=run, data=tiny_run)
    assert status(run).last == 8  # one validation more than before


def test_training_stops_when_patience_is_lost_and_more_patience_goes_on(
    tiny_run: Path, tmp_path: Path, trained: Trained
) -> None:
    def given(**changes: Any) -> dict[str, Any]:
        standstill = {"learning_rate": 1e-30, "epochs": 50, "patience": 2, "select_by": "loss"}
        return recipe(training={**standstill, **changes})

    run = trained(given())
    assert len(validations(run)) == 3  # the first is the best, and two are not better
    assert status(run) == RunStatus(last=6, best=2, finished=True)
    assert Translator(load_model(run)).translate(["我"])

    watcher = Watcher()
    train(given(epochs=60), run=run, data=tiny_run, listener=watcher)
    assert watcher.messages == [f"{run} is finished (step 6); raise training.patience to continue"]
    train(given(patience=3), run=run, data=tiny_run)
    assert status(run).last == 8
    train(given(patience=None, epochs=6), run=train(given(epochs=6), run=tmp_path / "2", data=tiny_run), data=tiny_run)
    assert status(tmp_path / "2").last == 12


@pytest.mark.parametrize("metric", ["chrf", "ter", "bleu_2"])
def test_any_score_of_the_translations_may_choose_the_weights(tiny_run: Path, metric: str, trained: Trained) -> None:
    settings = {"select_by": metric, "learning_rate": 0.01, "epochs": 3}
    run = trained(recipe(training=settings))
    found = {row["step"]: row[f"valid_{metric}"] for row in validations(run)}
    losses = {row["step"]: row["valid_loss"] for row in validations(run)}
    sign = -1 if metric == "ter" else 1
    assert status(run).best == max(found, key=lambda step: (sign * found[step], -losses[step]))
    corpus = read_all(load_model(run).recipe, tiny_run, Silent()).valid
    greedy = Translator(load_model(run)).translate(corpus.sources, method="greedy")
    scores = score_translations([t.text for t in greedy], reference_sets(corpus.references), "en")
    assert found[status(run).best] == pytest.approx(scores[metric].value)
    assert f"by `valid_{metric}` on the valid files, translated greedily" in (run / "README.md").read_text("utf-8")


def test_stopping_changes_no_recipe_that_looks_back(tiny_run: Path, tmp_path: Path) -> None:
    """The trainer's tests have each way of looking back by itself."""
    settings = {"learning_rate": 0.05, "select_by": "loss", "validate_every": "1 step"}
    settings |= {"schedule": "plateau-trials", "patience": 1, "trials": 9, "ema_decay": 0.5, "keep_within": 0.2}
    straight = train(recipe(training=settings), run=tmp_path / "straight", data=tiny_run)
    for step in (3, 6):
        with pytest.raises(Stopped):
            train(recipe(training=settings), run=tmp_path / "run", data=tiny_run, listener=Watcher(signal_at=step))
    train(recipe(training=settings), run=tmp_path / "run", data=tiny_run)
    assert without_clocks(tmp_path / "run") == without_clocks(straight)
    for file in ("model.safetensors", "run.json", "checkpoints/step-8/training.safetensors"):
        assert (tmp_path / "run" / file).read_bytes() == (straight / file).read_bytes()
    kept = [{folder.name for folder in (run / "checkpoints").iterdir()} for run in (tmp_path / "run", straight)]
    assert kept[0] == kept[1]


def test_trials_that_are_lost_end_a_run_and_more_trials_go_on(tiny_run: Path, trained: Trained) -> None:
    standstill = {"learning_rate": 1e-30, "min_learning_rate": 0.0, "epochs": 50, "patience": 1, "select_by": "loss"}

    def given(trials: int) -> dict[str, Any]:
        return recipe(training={**standstill, "schedule": "plateau-trials", "trials": trials})

    run = trained(given(2))
    assert status(run) == RunStatus(last=6, best=2, finished=True)  # the first is the best, and two are not better
    watcher = Watcher()
    train(given(2), run=run, data=tiny_run, listener=watcher)
    assert watcher.messages == [f"{run} is finished (step 6); raise training.trials to continue"]
    train(given(3), run=run, data=tiny_run)
    assert status(run) == RunStatus(last=8, best=2, finished=True)


def test_the_best_weights_by_loss_are_those_of_the_least_loss(trained: Trained) -> None:
    settings = {"select_by": "loss", "schedule": "constant", "learning_rate": 0.05, "epochs": 8}
    run = trained(recipe(training=settings))
    best = min(validations(run), key=lambda row: row["valid_loss"])
    assert status(run).best == best["step"]
    assert f"`valid_loss` on the valid files: {best['valid_loss']:.4f}" in (run / "README.md").read_text(
        encoding="utf-8"
    )
    assert [(run / name).is_dir() for name in ("checkpoints/step-16", f"checkpoints/step-{best['step']}")] == [True] * 2


def test_what_the_machine_chose_is_written_down_as_measured(trained: Trained) -> None:
    run = trained(recipe(training={"precision": "auto", "epochs": 1}))
    line = next(line for line in (run / "config.toml").read_text().splitlines() if line.startswith("precision"))
    assert line in ('precision = "fp32"  # measured', 'precision = "bf16"  # measured')


def test_a_run_goes_on_with_the_threads_of_the_machine_that_it_goes_on_on(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, run = recipe(), tmp_path / "run"
    for cores, stop in ((1, 2), (3, 4), (3, 6)):
        monkeypatch.setattr(first_model, "choose_threads", lambda cores=cores: cores)
        watcher = Watcher(signal_at=stop)
        with pytest.raises(Stopped):
            train(given, run=run, data=tiny_run, listener=watcher)
        changed = "training.threads was 1, is 3 from here on: sums round differently"
        assert (changed in watcher.messages) == (stop == 4)
        written = (run / "checkpoints" / f"step-{stop}" / "config.toml").read_text(encoding="utf-8")
        assert f"\nthreads = {cores}  # measured\n" in written
    train(given, run=run, data=tiny_run, overrides=["training.threads=2"])
    written = (run / "checkpoints" / "step-8" / "config.toml").read_text(encoding="utf-8")
    assert "\nthreads = 2  # command line\n" in written


def test_a_run_repeated_by_its_config_asks_the_machine_for_threads_and_precision_again(
    tmp_path: Path, trained: Trained
) -> None:
    given = recipe(training={"precision": "auto", "epochs": 1})
    run = trained(given)
    config = tmp_path / "elsewhere.toml"
    text, count = re.subn(
        r"\nthreads = \d+  # measured\n", "\nthreads = 77  # measured\n", (run / "config.toml").read_text()
    )
    config.write_text(text)
    found, *_ = find_recipe(config, run=None, data=None, overrides=())
    assert count == 1 and found.recipe.training.threads is None and found.recipe.training.precision == "auto"
    ours, theirs = found.recipe.model, load_model(run).recipe.model
    assert ours == theirs and found.origins["model.ff_dim"] == "recipe"


def test_a_run_with_a_retired_key_is_shown_and_continued_by_its_folder(
    tiny_run: Path, tmp_path: Path, weft: Weft
) -> None:
    config = shutil.copytree(tiny_run / "run", tmp_path / "run") / "config.toml"
    written = config.read_text(encoding="utf-8")
    config.write_text(written.replace("[training]\n", '[training]\nparallel = "ddp"  # recipe\n'), encoding="utf-8")
    code, out, error = weft("config", "show", str(config))
    assert code == 0 and "parallel" not in out, error
    train(config, data=tiny_run, overrides=["training.epochs=2"])
    assert status(tmp_path / "run").last == 4


def test_a_signal_that_ends_the_processes_that_prepare_pairs_has_stopped_the_run(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(*_: Any, **kept: Any) -> None:
        if asked:
            os.kill(os.getpid(), signal.SIGTERM)  # to the process group: this process and its workers
        raise WorkerLost("a process was ended")

    monkeypatch.setitem(training.TASKS, "translation", replace(TRANSLATION, prepare=prepare))
    for asked, error in ((True, Stopped), (False, WorkerLost)):
        with pytest.raises(error, match="stopped while preparing pairs" if asked else "a process was ended"):
            train(recipe(), run=tmp_path / "run", data=tiny_run)


# From another model


def test_a_run_from_another_model_begins_where_that_one_ended(tiny_run: Path, tmp_path: Path) -> None:
    settings = {"learning_rate": 0.02, "epochs": 3}
    other = train(recipe(training=settings), run=tmp_path / "other", data=tiny_run)
    watcher = Watcher()
    shapeless = {**recipe(), "model": {"dropout": 0.3}, "tokenizer": {}}
    shapeless["training"] |= {"learning_rate": 1e-30, "epochs": 1, "init": str(other)}
    run = train(shapeless, run=tmp_path / "run", data=tiny_run, listener=watcher)
    assert f"weights and vocabulary from {other}" in watcher.messages

    best = next(row for row in validations(other) if row["step"] == status(other).best)
    first = validations(run)[0]
    assert {key: first[key] for key in first if key.startswith("valid")} == {
        key: best[key] for key in best if key.startswith("valid")
    }
    ours, theirs = load_model(find_model(run)), load_model(find_model(other))
    assert ours.vocabularies["source"].model == theirs.vocabularies["source"].model
    assert ours.recipe.model.dropout == 0.3 and ours.recipe.model.ff_dim == 16
    assert ours.resolved.origins["model.ff_dim"] == "init"
    again = Watcher()
    train(shapeless, run=run, data=tiny_run, listener=again)
    assert "is finished" in again.messages[-1]


def test_a_dropout_that_the_recipe_leaves_out_is_that_of_the_model_it_begins_with(
    tiny_run: Path, tmp_path: Path
) -> None:
    shape = recipe()["model"]
    other = train(
        recipe(model={**shape, "dropout": 0.25, "attention_dropout": 0.05}), run=tmp_path / "1", data=tiny_run
    )
    begun = {"init": str(other), "epochs": 1}
    run = train(recipe(model={"attention_dropout": 0.0}, training=begun), run=tmp_path / "2", data=tiny_run)
    model = load_model(find_model(run)).resolved
    assert (model.recipe.model.dropout, model.origins["model.dropout"]) == (0.25, "init")
    assert (model.recipe.model.attention_dropout, model.origins["model.attention_dropout"]) == (0.0, "recipe")


def test_positions_without_weights_may_be_exchanged_for_others_without(tiny_run: Path, tmp_path: Path) -> None:
    other, watcher = tiny_run / "run", Watcher()
    begun = {"init": str(other), "learning_rate": 1e-30, "epochs": 1}
    added = recipe(model={"positions": "sinusoidal"}, training=begun)
    run = train(added, run=tmp_path / "run", data=tiny_run, listener=watcher)
    model, before = load_model(find_model(run)), load_model(other)
    says = f"sinusoidal positions instead of the rotary ones of {other}: the weights have to adapt to them"
    assert says in watcher.messages
    assert (model.recipe.model.positions, model.resolved.origins["model.positions"]) == ("sinusoidal", "recipe")
    assert model.recipe.model.ff_dim == before.recipe.model.ff_dim
    assert all(torch.equal(a, b) for a, b in zip(model.network.parameters(), before.network.parameters(), strict=True))

    learned = recipe(model={"positions": "learned"}, training=begun)
    with pytest.raises(RecipeError, match=r"model.positions = learned +the model .* has rotary"):
        train(learned, run=tmp_path / "2", data=tiny_run)


def test_the_wave_length_of_positions_without_weights_may_be_exchanged(
    tiny_run: Path, tmp_path: Path, trained: Trained
) -> None:
    def waves(max_positions: int | None, **training: Any) -> dict[str, Any]:
        given = {} if max_positions is None else {"max_positions": max_positions}
        return recipe(model={"positions": "scaled-sinusoidal", **given}, training={"epochs": 1, **training})

    other = trained(waves(64))
    with pytest.raises(RunError, match=r"max_positions: was 64, is 128\n.* with --set training\.init=") as refused:
        train(waves(128), run=other, data=tiny_run)
    init, watcher = str(refused.value).rpartition("training.init=")[2], Watcher()
    run = train(waves(128, init=init), run=tmp_path / "run-2", data=tiny_run, listener=watcher)
    says = f"scaled-sinusoidal positions with other wavelengths than in {init}: the weights have to adapt to them"
    assert says in watcher.messages
    assert load_model(find_model(run)).recipe.model.max_positions == 128
    again = train(waves(None, init=init), run=tmp_path / "run-3", data=tiny_run)
    assert load_model(find_model(again)).recipe.model.max_positions == 64


def test_rotary_positions_are_refused_where_the_models_heads_are_oddly_wide(tiny_run: Path, tmp_path: Path) -> None:
    odd = {"model_dim": 18, "num_heads": 2, "positions": "sinusoidal"}
    other = train(recipe(model=odd, training={"epochs": 1}), run=tmp_path / "odd", data=tiny_run)
    shapeless = {**recipe(training={"init": str(other), "epochs": 1}), "model": {"positions": "rotary"}}
    watcher = Watcher()
    with pytest.raises(
        RecipeError, match=r"positions = rotary +rotates pairs of dimensions, and heads of .* are 9 wide"
    ):
        train(shapeless, run=tmp_path / "run", data=tiny_run, listener=watcher)
    assert not any("have to adapt" in message for message in watcher.messages)


def test_a_vocabulary_that_a_corpus_made_smaller_is_inherited_from_run_to_run(tiny_run: Path, tmp_path: Path) -> None:
    asked = {"source_size": 5000, "target_size": 5000}
    run = train(recipe(tokenizer=asked, training={"epochs": 1}), run=tmp_path / "0", data=tiny_run)
    for generation in (1, 2):
        begun = {"epochs": 1, "init": str(run)}
        run = train(recipe(tokenizer=asked, training=begun), run=tmp_path / str(generation), data=tiny_run)
    model = load_model(find_model(run))
    assert model.vocabularies["source"].vocab_size < 5000
    assert model.resolved.origins["tokenizer.source_size"] == "corpus instead of 5000"
    taught = {"epochs": 1, "teachers": [str(run)]}
    train(recipe(tokenizer=asked, training=taught), run=tmp_path / "taught", data=tiny_run)


def test_weights_that_do_not_fit_are_refused_with_every_reason(tiny_run: Path, tmp_path: Path) -> None:
    init = str(tiny_run / "run")
    wrong = recipe(
        data={"source": "en", "target": "zh"},
        model={"model_dim": 32},
        tokenizer={"kind": "unigram"},
        training={"init": init},
    )
    with pytest.raises(RecipeError) as caught:
        train(wrong, run=tmp_path / "run", data=tiny_run)
    says = str(caught.value)
    for fragment in (
        f"model.model_dim = 32  the model {init} has 16; weights cannot be carried over; leave the key out",
        "tokenizer.kind = unigram",
        f"data.source = en      the model {init} was trained with zh",
        "data.target = zh",
    ):
        assert " ".join(fragment.split()) in " ".join(says.split())
    assert not (tmp_path / "run").exists()


# Every kind of model learns and reloads


@pytest.mark.parametrize(
    "tables",
    [
        {
            "tokenizer": {"kind": "unigram", "source_size": 290, "target_size": 290},
            "model": {"norm": "post", "tie": "none", "activation": "silu"},
        },
        {
            "tokenizer": {"shared": True, "target_size": None},
            "model": {"tie": "all"},
            "training": {"batch_sentences": None, "batch_tokens": 128},
        },
        {
            "augmentation": {"token_dropout": 0.3, "token_dropout_by": "mask", "punctuation": 0.3, "joining": 0.2},
            "training": {"schedule": "noam", "learning_rate": 0.2, "warmup": 4},
        },
        {"training": {"optimizer": "muon", "ema_decay": 0.3, "precision": "bf16"}},
        {"training": {"optimizer": "sgd", "nesterov": True, "learning_rate": 0.5, "schedule": "plateau"}},
        {"training": {"optimizer": "adafactor", "learning_rate": 0.1, "accumulate": 2, "average_last": 2}},
    ],
    ids=[
        "unigram, post-norm",
        "one vocabulary, all tied, token batches",
        "augmented, noam",
        "muon, averaged, bf16",
        "sgd, plateau",
        "adafactor, accumulated",
    ],
)
def test_it_learns_and_reloads(tables: dict[str, dict[str, Any]], trained: Trained) -> None:
    training = {"learning_rate": 0.02, "epochs": 5, **tables.get("training", {})}
    run = trained(recipe(**{**tables, "training": training}))
    assert losses(run)[-1] < 0.85 * losses(run)[0]
    model = load_model(run)
    weights = load_file(run / "model.safetensors").values()
    assert all(weight.dtype == torch.float32 for weight in weights)
    assert sum(weight.numel() for weight in weights) == model.count_parameters()
    evaluated = json.loads((run / "scores.json").read_text(encoding="utf-8"))[0]
    assert evaluated["sentences"] == 5 and evaluated["parameters"] == model.count_parameters()
    lines = (run / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    best = {row["step"]: row["samples"] for row in map(json.loads, lines)}[status(run).best]
    found = Translator(model).translate([sample["source"] for sample in best], method="greedy")
    assert [translation.text for translation in found] == [sample["hypothesis"] for sample in best]


def test_bf16_learns_like_fp32(tiny_run: Path, tmp_path: Path) -> None:
    runs = [
        train(
            recipe(training={"learning_rate": 0.02, "precision": precision}, model={"dropout": 0.0}),
            run=tmp_path / precision,
            data=tiny_run,
        )
        for precision in ("fp32", "bf16")
    ]
    exact, rounded = (losses(run) for run in runs)
    assert exact != rounded
    assert rounded == pytest.approx(exact, rel=0.02)


def test_english_to_chinese_writes_chinese_without_spaces_and_is_scored_as_chinese(trained: Trained) -> None:
    given = recipe(
        data={"source": "en", "target": "zh"},
        model={"model_dim": 32, "ff_dim": 64, "dropout": 0.0},
        training={"learning_rate": 0.02, "epochs": 15},
    )
    run = trained(given)
    translator = load_translator(run)
    recipe_used = translator.model.recipe.tokenizer
    assert (recipe_used.source_script, recipe_used.target_script) == ("keep", "keep")
    (scores,) = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    assert "tok:zh" in scores["scores"]["sacrebleu"]["signature"]
    assert "unit:character" in scores["scores"]["bleu_1"]["signature"]
    texts = [found.text for found in translator.translate(["I have one apple.", "I have two cups."])]
    assert all(text and not any(character.isspace() for character in text) for text in texts)
    assert all(text.startswith("我有") for text in texts)


# The corpus


def test_the_same_pairs_from_several_files_of_several_kinds_train_the_same_model(
    tiny_run: Path, tmp_path: Path, trained: Trained
) -> None:
    lines = (tiny_run / "train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    pairs = [line.split("\t") for line in lines]
    first, second, third = pairs[:10], pairs[10:25], pairs[25:]
    (tmp_path / "a.tsv").write_text("".join(f"{x}\t{y}\n" for x, y in [("zh", "en"), *first]), encoding="utf-8")
    with gzip.open(tmp_path / "b.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"zh": x, "en": y}) + "\n" for x, y in second)
    for side, name in enumerate(("c.zh", "c.en")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in third), encoding="utf-8")
    files = ["a.tsv", "b.jsonl.gz", {"source": "c.zh", "target": "c.en"}]
    (tmp_path / "valid.tsv").write_bytes((tiny_run / "valid.tsv").read_bytes())

    one = trained(recipe(), name="one")
    several = train(recipe(data={"train": files}), run=tmp_path / "several", data=tmp_path)
    assert without_clocks(several) == without_clocks(one)
    assert (several / "model.safetensors").read_bytes() == (one / "model.safetensors").read_bytes()


def test_pairs_over_the_longest_length_are_counted_and_left_out(tiny_run: Path, tmp_path: Path) -> None:
    watcher = Watcher()
    shortest = min(len(ids) for ids in targets(load_model(tiny_run / "run"), tiny_run))
    given = recipe(data={"max_length": shortest + 1}, training={"epochs": 1})
    train(given, run=tmp_path / "run", data=tiny_run, listener=watcher)
    dropped = next(message for message in watcher.messages if "dropped" in message)
    kept = next(message for message in watcher.messages if "training pairs, " in message)
    assert f"training pairs over data.max_length = {shortest + 1} pieces dropped" in dropped
    assert int(dropped.split()[0]) + int(kept.split()[0]) == 42


def targets(model: TranslationModel, folder: Path) -> list[list[int]]:
    lines = (folder / "train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return model.vocabularies["target"].encode([line.split("\t")[1] for line in lines])


def test_moved_data_are_the_same_data(tiny_run: Path, tmp_path: Path, trained: Trained) -> None:
    run = trained(recipe(training={"epochs": 1}))
    for name in ("train.tsv", "valid.tsv"):
        (tmp_path / name).write_bytes((tiny_run / name).read_bytes())
    train(recipe(training={"epochs": 2}), run=run, data=tmp_path)
    assert status(run).last == 2 * STEPS_PER_EPOCH
    assert all(math.isfinite(loss) for loss in losses(run))


def test_a_shared_vocabulary_learns_each_side_in_the_script_it_is_encoded_in(tmp_path: Path) -> None:
    lines = ["zh\tvi", *("湯姆說他愛書\t湯姆 yêu 愛 sách",) * 8]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "valid.tsv").write_text("zh\tvi\n湯姆\t湯姆\n", encoding="utf-8")
    resolved = resolve(
        {
            "data": {"source": "zh", "target": "vi", "train": ["pairs.tsv"], "valid": ["valid.tsv"]},
            "tokenizer": {"shared": True, "source_size": 300},
        },
        TranslationRecipe,
        "the recipe",
    )
    corpora = read_all(resolved.recipe, tmp_path, Silent())
    source, target = prepare(resolved, corpora, tmp_path / "corpus", Silent()).vocabularies.values()
    assert source.normalize("湯姆愛") == "汤姆爱"
    assert target.normalize("湯姆愛") == "湯姆愛"
    simplified, kept = source.encode(["湯姆愛"])[0], target.encode(["湯姆愛"])[0]
    assert max(len(simplified), len(kept)) <= 4  # pieces, not the three bytes of each character


def test_a_language_that_could_not_be_scored_is_refused_before_anything_is_made(tiny_run: Path, tmp_path: Path) -> None:
    data = {"target": "english", "columns": {"source": "zh", "target": "en"}}
    with pytest.raises(WeftError, match="is not a language code"):
        train(recipe(data=data), run=tmp_path / "run", data=tiny_run)
    assert list(tmp_path.iterdir()) == []


# What may not be measured on


def test_a_file_that_is_trained_on_may_not_choose_the_weights_whatever_it_is_called(
    tiny_run: Path, tmp_path: Path
) -> None:
    for name in ("train.tsv", "valid.tsv"):
        shutil.copy(tiny_run / name, tmp_path)
    shutil.copy(tiny_run / "train.tsv", tmp_path / "again.tsv")
    given = recipe(data={"valid": ["valid.tsv", "again.tsv"]})
    with pytest.raises(CorpusError, match=r"again\.tsv .*in data\.valid holds the same as train\.tsv in data\.train"):
        train(given, run=tmp_path / "run", data=tmp_path)
    assert not (tmp_path / "run").exists()


def test_validation_pairs_that_are_also_trained_on_are_counted_aloud(tiny_run: Path, tmp_path: Path) -> None:
    training, held_out = shutil.copy(tiny_run / "train.tsv", tmp_path), tmp_path / "valid.tsv"
    header, *pairs = Path(training).read_text(encoding="utf-8").splitlines()
    held_out.write_text("\n".join([header, *pairs[:3], "别的句子。\tAnother sentence."]) + "\n", encoding="utf-8")
    watcher = Watcher()
    train(recipe(training={"epochs": 1}), run=tmp_path / "run", data=tmp_path, listener=watcher)
    said = next(message for message in watcher.messages if "held-out" in message)
    assert said.startswith("data error: training pairs that share a side with the held-out files: 3 pairs")
    assert said.endswith("(3 source and 3 target sides of the 4 pairs of valid occur in train)")
    assert json.loads((tmp_path / "run" / "doctor.json").read_text(encoding="utf-8"))["with_error"] == 3


LEARNED = ['model.positions="learned"', "model.max_positions=20", "data.max_length=18"]


@pytest.mark.parametrize(
    ("clauses", "settings", "says"),
    [
        (9, LEARNED, r"the validation corpus has 1 problem\n .*line 3 +has \d+ tokens; the model learns 20 positions"),
        (900, [], r"valid\.tsv, line 3 +has a source of \d,\d+ pieces; at most 4,096 are translated at once"),
    ],
)
def test_a_validation_pair_that_is_too_long_is_named_before_anything_is_trained(
    tiny_run: Path, tmp_path: Path, clauses: int, settings: list[str], says: str
) -> None:
    pairs = ["我有一个梨。\tI have a pear.", f"{'我有一个梨，' * clauses}\tI have pears."]
    (tmp_path / "valid.tsv").write_text("\n".join(["zh\ten", *pairs, ""]), encoding="utf-8")
    overrides = [*settings, f'data.valid=["{tmp_path / "valid.tsv"}"]']
    with pytest.raises(CorpusError, match=says):
        train(tiny_run / "tiny.toml", run=tmp_path / "run", overrides=overrides)
    assert not list((tmp_path / "run").glob("checkpoints/*"))


def test_a_run_goes_on_by_its_folder_and_then_by_its_recipe_again(tiny_run: Path, tmp_path: Path) -> None:
    recipe = tiny_recipe(tokenizer={"source_size": 5000}, training={"steps": 1})
    run = train(recipe, run=tmp_path / "run", data=tiny_run)
    assert "source_size = 5000" not in (run / "config.toml").read_text(encoding="utf-8")  # there are not so many pieces
    train(run / "config.toml", data=tiny_run, overrides=["training.steps=2"])
    train(recipe, run=run, data=tiny_run, overrides=["training.steps=3"])
    assert status(run).last == 3


def test_steps_take_the_place_of_epochs_that_a_run_named_by_its_folder_left_open(tmp_path: Path) -> None:
    left_open = resolve(tiny_recipe(), TranslationRecipe, "a test")
    place = RunFolder(tmp_path).checkpoint(0)
    place.mkdir(parents=True)
    (place / STATE).write_text(json.dumps({"recipe": render(left_open)}), encoding="utf-8")
    went_on = recipe_given(tmp_path, left_open, ["training.steps=3"]).recipe.training
    assert left_open.recipe.training.epochs == 20 and (went_on.steps, went_on.epochs) == (3, None)
