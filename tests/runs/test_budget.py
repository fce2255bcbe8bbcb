"""How long a run is: training.steps, and the steps that a budget has time for, chosen once and kept."""

import os
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.watching import Watcher, rows, status, tiny_recipe

from weft.errors import RunError, Stopped, UsageError
from weft.folders.model_folder import load_model
from weft.preparing.defaults import size_for
from weft.runs import train as training
from weft.runs.budget import LEAVING, LONGEST_TRIAL, SAFETY, Budget, describe_outcome, duration, steps_beside
from weft.runs.train import train
from weft.runs.trial import Pace, Trial
from weft.training.config import Interval

STEPS_PER_EPOCH = 2


def recipe(**settings: Any) -> dict[str, Any]:
    return tiny_recipe(training=settings)


def whole(recipe: dict[str, Any]) -> dict[str, Any]:
    """The same with all of the model given, so that no budget chooses another."""
    return {**recipe, "model": {**recipe["model"], "dropout": 0.1}}


def steps_of(run: Path) -> list[int]:
    return [row["step"] for row in rows(run) if "loss" in row]


# training.steps


def test_a_run_ends_with_its_steps_in_the_middle_of_an_epoch_and_is_validated_there(
    tiny_run: Path, tmp_path: Path
) -> None:
    run = train(recipe(epochs=5, steps=3), run=tmp_path / "run", data=tiny_run)
    assert steps_of(run) == [1, 2, 3]
    assert [row["step"] for row in rows(run) if "valid_loss" in row] == [2, 3]
    assert status(run).last == 3 and status(run).finished


def test_the_fewer_of_steps_and_epochs_count_and_the_schedule_is_theirs(tiny_run: Path, tmp_path: Path) -> None:
    few_epochs = train(recipe(epochs=2, steps=100), run=tmp_path / "epochs", data=tiny_run)
    few_steps = train(recipe(epochs=50, steps=4), run=tmp_path / "steps", data=tiny_run)
    assert steps_of(few_epochs) == steps_of(few_steps) == [1, 2, 3, 4]
    rates = [[row["learning_rate"] for row in rows(run) if "loss" in row] for run in (few_epochs, few_steps)]
    assert rates[0] == rates[1]


def test_more_steps_go_on_and_fewer_are_refused_while_it_runs(tiny_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(Stopped):
        train(recipe(epochs=5, steps=3), run=run, data=tiny_run, listener=Watcher(signal_at=1))
    with pytest.raises(RunError, match=r"was started with another recipe:\n  training\.steps: was 3, is 2"):
        train(recipe(epochs=5, steps=2), run=run, data=tiny_run)
    train(recipe(epochs=5, steps=3), run=run, data=tiny_run)
    watcher = Watcher()
    train(recipe(epochs=5, steps=3), run=run, data=tiny_run, listener=watcher)
    assert watcher.messages == [f"{run} is finished (step 3); raise training.steps to continue"]
    train(recipe(epochs=5, steps=5), run=run, data=tiny_run)
    assert steps_of(run) == [1, 2, 3, 4, 5]


# How a budget is said


@pytest.mark.parametrize(
    ("text", "seconds"), [("45s", 45), ("30m", 1800), ("1.5h", 5400), ("1h30m", 5400), ("1h0m5s", 3605)]
)
def test_a_time_has_hours_minutes_and_seconds(text: str, seconds: float) -> None:
    assert Budget.parse(text).seconds == seconds


@pytest.mark.parametrize("text", ["", "30", "0m", "m", "30m1h", "-5m", "30 m", "half an hour", "1e3s"])
def test_any_other_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match='expected a time such as "30m", "1h30m" or "45s"'):
        Budget.parse(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0s"), (59.6, "1m"), (65, "1m05s"), (1800, "30m"), (4865, "1h21m05s"), (3600, "1h00m")]
)
def test_a_time_is_written_as_it_is_read(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_trial_takes_a_small_share_of_the_budget() -> None:
    assert Budget.parse("10m").trial_seconds == pytest.approx(18)
    assert Budget.parse("5h").trial_seconds == LONGEST_TRIAL


@pytest.mark.parametrize(
    ("steps", "interval", "after"),
    [
        (1010, "1000 steps", 10),
        (1300, "1000 steps", 0),
        (3001, "1000 steps", 1),
        (1249, "1000 steps", 0),  # a fifth of all steps
        (2000, "1000 steps", 0),
        (10, "1000 steps", 0),  # nothing before it
        (1010, "5m", 0),
        (101, "1 epoch", 1),
    ],
)
def test_no_validation_stands_right_beside_the_last(steps: int, interval: str, after: int) -> None:
    assert steps_beside(steps, Interval(interval, 50)) == after


# A run with a budget

PACE = Pace(step=10.0, validation=0.0, checkpoint=0.0, ending=0.0)
"""So slow that what the tests themselves take is nothing beside it."""
SECONDS = 103
STEPS = int((1 - SAFETY) * (SECONDS - LEAVING) / PACE.step)
"""9, with seven seconds left over."""


@pytest.fixture
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial finds PACE, whatever the machine does."""

    def try_out(*_: Any, **__: Any) -> Trial:
        return Trial(PACE, steps=3, seconds=30.0, target_tokens_per_second=1.0, validated=5, peak_bytes=1)

    monkeypatch.setattr(training, "try_out", try_out)


@pytest.mark.usefixtures("slow_machine")
def test_a_budget_becomes_steps_that_are_written_down_as_measured(tiny_run: Path, tmp_path: Path) -> None:
    watcher = Watcher()
    run = train(recipe(epochs=1), run=tmp_path / "run", data=tiny_run, budget=f"{SECONDS}s", listener=watcher)
    assert steps_of(run) == list(range(1, STEPS + 1))
    assert any(f"{STEPS} steps fit into 1m43s: 10.000 s a step" in message for message in watcher.messages)
    training_table = load_model(run).resolved
    assert training_table.recipe.training.steps == STEPS
    assert training_table.recipe.training.epochs == -(-STEPS // STEPS_PER_EPOCH)  # the recipe's one epoch gives way
    assert {training_table.origins[key] for key in ("training.steps", "training.epochs")} == {"measured"}


@pytest.mark.usefixtures("slow_machine")
def test_a_run_with_a_budget_is_the_run_with_these_steps_bit_for_bit(tiny_run: Path, tmp_path: Path) -> None:
    fitted = train(whole(recipe()), run=tmp_path / "fitted", data=tiny_run, budget=f"{SECONDS}s")
    given = train(whole(recipe(steps=STEPS, epochs=100)), run=tmp_path / "given", data=tiny_run)
    names = ["model.safetensors", f"checkpoints/step-{STEPS}/training.safetensors"]
    assert [(fitted / name).read_bytes() == (given / name).read_bytes() for name in names] == [True, True]


@pytest.mark.usefixtures("slow_machine")
def test_a_model_whose_size_is_open_is_made_for_the_budget_and_goes_on_with_it(tiny_run: Path, tmp_path: Path) -> None:
    run, budget, watcher = tmp_path / "run", f"{SECONDS}s", Watcher(signal_at=3)
    given = {**recipe(), "model": {"num_heads": 2}}
    with pytest.raises(Stopped):
        train(given, run=run, data=tiny_run, budget=budget, listener=watcher)
    assert any(
        re.search(r"4\.5 of the \d+ epochs that suit this many pairs; chosen instead: ", text)
        for text in watcher.messages
    )
    train(given, run=run, data=tiny_run, budget=budget)
    model = load_model(run)
    assert model.network.config.model_dim < size_for(42).model_dim
    assert {model.resolved.origins[f"model.{key}"] for key in ("model_dim", "ff_dim", "dropout")} == {"budget"}
    assert steps_of(run) == list(range(1, STEPS + 1))


def test_where_not_one_step_of_the_usual_model_fits_a_smaller_one_is_tried(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paces = iter([replace(PACE, step=1000.0), PACE])
    monkeypatch.setattr(training, "try_out", lambda *_, **__: Trial(next(paces), 3, 30.0, 1.0, 5, 1))
    given = {**recipe(), "model": {"num_heads": 2}}
    run = train(given, run=tmp_path / "run", data=tiny_run, budget=f"{SECONDS}s")
    assert steps_of(run) == list(range(1, STEPS + 1))
    assert load_model(run).network.config.model_dim < size_for(42).model_dim


@pytest.mark.usefixtures("slow_machine")
def test_where_no_time_is_left_no_smaller_model_is_tried(tiny_run: Path, tmp_path: Path) -> None:
    watcher = Watcher()
    given = {**recipe(), "model": {"num_heads": 2}}
    with pytest.raises(UsageError, match=r"the budget leaves [01]s for training"):
        train(given, run=tmp_path / "run", data=tiny_run, budget="1s", listener=watcher)
    assert not any("chosen instead" in message for message in watcher.messages)


@pytest.mark.usefixtures("slow_machine")
@pytest.mark.parametrize(("epochs", "is_named"), [(12, True), (10, True), (9, False), (8, False), (None, False)])
def test_a_budget_that_buys_few_of_the_epochs_of_a_recipe_says_so(
    tiny_run: Path, tmp_path: Path, epochs: int | None, is_named: bool
) -> None:
    watcher = Watcher(signal_at=1)
    given = whole(recipe(**({} if epochs is None else {"epochs": epochs})))
    with pytest.raises(Stopped):
        train(given, run=tmp_path / "run", data=tiny_run, budget=f"{SECONDS}s", listener=watcher)
    said = [text for text in watcher.messages if " buy 4.5 of the " in text]
    assert bool(said) is is_named
    if said:
        assert f"of the {epochs} epochs of this recipe, which would take " in said[0] and "[model]" in said[0]


@pytest.mark.usefixtures("slow_machine")
def test_how_a_run_came_out_is_recorded(tiny_run: Path, tmp_path: Path) -> None:
    run = train(recipe(), run=tmp_path / "run", data=tiny_run, budget=f"{SECONDS}s")
    last = rows(run)[-1]
    assert last.keys() == {"step", "budget_seconds", "used_seconds"}
    assert (last["step"], last["budget_seconds"]) == (STEPS, SECONDS)
    trained = max(row["seconds"] for row in rows(run)[:-1])
    assert trained < last["used_seconds"] < trained + 60
    assert describe_outcome(run, since=0.0).startswith("budget 1m43s, used ")
    too_late = describe_outcome(run, since=SECONDS)
    assert too_late.endswith(f", {duration(last['used_seconds'])} too long")


@pytest.mark.usefixtures("slow_machine")
def test_a_sitting_that_was_killed_in_its_ending_leaves_one_outcome_with_the_longer_time(
    tiny_run: Path, tmp_path: Path
) -> None:
    run = train(recipe(), run=tmp_path / "run", data=tiny_run, budget=f"{SECONDS}s")
    log, state = run / "metrics.jsonl", run / "run.json"
    used = rows(run)[-1]["used_seconds"]
    longer = log.read_text(encoding="utf-8").replace(f'"used_seconds": {used}', f'"used_seconds": {used + 1000}')
    log.write_text(longer, encoding="utf-8")
    state.write_text(state.read_text(encoding="utf-8").replace("true", "false"), encoding="utf-8")
    train(recipe(), run=run, data=tiny_run, budget=f"{SECONDS}s")
    outcomes = [row for row in rows(run) if "budget_seconds" in row]
    assert [row["used_seconds"] for row in outcomes] == [pytest.approx(used + 1000)]


def test_the_same_budget_goes_on_with_the_steps_that_were_chosen(
    tiny_run: Path, tmp_path: Path, slow_machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, budget = tmp_path / "run", f"{SECONDS}s"
    with pytest.raises(Stopped):
        train(recipe(), run=run, data=tiny_run, budget=budget, listener=Watcher(signal_at=3))
    monkeypatch.delattr(training, "try_out")  # nothing is tried out again
    watcher = Watcher()
    train(recipe(), run=run, data=tiny_run, budget="1m43s", listener=watcher)
    assert f"continuing from step 3 of {STEPS}" in watcher.messages
    assert steps_of(run) == list(range(1, STEPS + 1))

    again = Watcher()
    train(recipe(), run=run, data=tiny_run, budget=budget, listener=again)
    assert again.messages == [f"{run} is finished (step {STEPS}); its budget is used"]
    train(recipe(epochs=1000), run=run, data=tiny_run, budget=budget, listener=again)  # the budget decides, not this
    assert again.messages[-1] == again.messages[0]


@pytest.mark.usefixtures("slow_machine")
def test_the_time_of_earlier_sittings_counts(tiny_run: Path, tmp_path: Path) -> None:
    run, budget = tmp_path / "run", Budget(SECONDS, began=Budget(SECONDS).began - 20)  # begun 20 seconds ago
    with pytest.raises(Stopped):
        train(recipe(), run=run, data=tiny_run, budget=budget, listener=Watcher(signal_at=2))
    train(recipe(), run=run, data=tiny_run, budget=f"{SECONDS}s")
    assert 20 < rows(run)[-1]["used_seconds"] < 80


@pytest.mark.usefixtures("slow_machine")
@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ("100s", "200s", "started with --budget 1m40s and cannot continue with --budget 3m20s"),
        ("100s", None, "started with --budget 1m40s and cannot continue with no --budget"),
        (None, "100s", "started with no --budget and cannot continue with --budget 1m40s"),
    ],
)
def test_another_budget_is_refused(
    tiny_run: Path, tmp_path: Path, first: str | None, second: str | None, says: str
) -> None:
    run = tmp_path / "run"
    with pytest.raises(Stopped):
        train(recipe(epochs=3), run=run, data=tiny_run, budget=first, listener=Watcher(signal_at=1))
    with pytest.raises(RunError, match=says):
        train(recipe(epochs=3), run=run, data=tiny_run, budget=second)


def test_steps_and_a_budget_are_refused_before_anything_is_made(tiny_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--budget and training\.steps both say how many steps"):
        train(recipe(steps=5), run=tmp_path / "run", data=tiny_run, budget="30m")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("slow_machine")
def test_a_budget_that_is_too_short_says_what_a_step_takes_and_leaves_nothing(tiny_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the budget leaves \d+s for training, and one step .* takes 13s here"):
        train(recipe(), run=tmp_path / "run", data=tiny_run, budget="5s")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("slow_machine")
def test_a_signal_in_the_trial_stops_at_once_and_the_same_command_starts_over(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def signalled(*_: Any, **given: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        pytest.fail("the trial went on")

    with monkeypatch.context() as patched, pytest.raises(Stopped, match="stopped before its first step"):
        patched.setattr("weft.runs.train.try_out", signalled)
        train(recipe(), run=tmp_path / "run", data=tiny_run, budget="1m")
    assert steps_of(train(recipe(), run=tmp_path / "run", data=tiny_run, budget="1m"))
