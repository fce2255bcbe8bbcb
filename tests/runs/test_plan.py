"""What a run will take: steps counted by hand, memory that is really held, nothing written where the run will be."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.watching import Watcher, losses, tiny_recipe, values

from weft.errors import MissingExtraError, RunError
from weft.preparing.corpora import find_recipe, read_all
from weft.preparing.first_model import first_model
from weft.preparing.preparation import prepare
from weft.runs.making import trainer_for_a_trial
from weft.runs.plan import Plan, activation_bytes, batches_of, kept_bytes, largest_batches, memory_by_use, plan
from weft.runs.train import Silent, train

PAIRS, VALID_PAIRS = 42, 5


def recipe(**settings: Any) -> dict[str, Any]:
    return tiny_recipe(training={"epochs": 4, **settings})


@pytest.fixture(scope="module")
def planned(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return plan(recipe(), run=tmp_path_factory.mktemp("planned") / "run", data=tiny_run, seconds=None)


@pytest.fixture(scope="module")
def tried(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """With a trial."""
    return plan(recipe(), run=tmp_path_factory.mktemp("tried") / "run", data=tiny_run, seconds=0.0)


def test_a_library_that_the_tokenizer_needs_is_missed_at_once(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for run in (plan, train):
        with pytest.raises(MissingExtraError, match=r"pip install '\.\[tokenizers\]'"):
            run(recipe(), run=tmp_path / "run", data=tiny_run, overrides=["tokenizer.kind=wordpiece"])


def test_steps_are_batches_rounded_up_times_epochs(tiny_run: Path, tmp_path: Path) -> None:
    planned = plan(recipe(batch_sentences=8, epochs=3), run=tmp_path / "run", data=tiny_run, seconds=None)
    assert (planned.pairs, planned.valid_pairs) == (PAIRS, VALID_PAIRS)
    assert planned.batches == 6  # of 8 pairs, the last of 2
    assert planned.steps == 18
    assert planned.validations == 3
    accumulated = recipe(batch_sentences=8, epochs=3, accumulate=4)
    planned = plan(accumulated, run=tmp_path / "run", data=tiny_run, seconds=None)
    assert (planned.batches, planned.steps) == (6, 6)
    assert "steps        6 = ceil(6 / 4) an epoch x 3 epochs\n" in planned.table()


def test_epochs_that_nobody_gave_do_not_end_a_run_whose_steps_somebody_gave(tiny_run: Path, tmp_path: Path) -> None:
    given = recipe(steps=45)
    del given["training"]["epochs"]
    planned = plan(given, run=tmp_path / "run", data=tiny_run, seconds=None)
    assert (planned.steps, planned.epochs) == (45, None)
    assert "steps        45 (training.steps) = 2 an epoch x 22.5 epochs\n" in planned.table()


def test_the_plan_has_as_many_steps_and_validations_as_training_takes(tiny_run: Path, tmp_path: Path) -> None:
    given = recipe(steps=5, validate_every="2 steps", log_every=1, batch_sentences=8, accumulate=4)
    planned = plan(given, run=tmp_path / "run", data=tiny_run, seconds=None)
    run = train(given, run=tmp_path / "run", data=tiny_run)
    assert planned.steps == len(losses(run))
    assert planned.validations == len(values(run, "valid_loss"))


def test_nothing_is_written_to_the_run_folder(tiny_run: Path, tmp_path: Path) -> None:
    plan(recipe(), run=tmp_path / "run", data=tiny_run, seconds=0.0)
    assert list(tmp_path.iterdir()) == []


def test_without_a_trial_there_is_no_time(planned: Plan) -> None:
    assert (planned.trial, planned.seconds, planned.ends_at()) == (None, None, None)
    table = planned.table()
    assert "steps        8 = 2 an epoch x 4 epochs\n" in table
    step, rate = planned.highest_rate
    assert step == 1 and f"rate         highest {rate:.3g}, at step 1\n" in table
    assert "speed" not in table and "peak" not in table


def test_a_trial_tells_speed_and_the_time_to_the_end_part_by_part(tried: Plan) -> None:
    assert tried.trial is not None and tried.seconds is not None
    pace = tried.trial.pace
    assert tried.seconds["steps"] == pytest.approx(8 * pace.step)
    assert tried.seconds["validations"] == pytest.approx(4 * pace.validation)
    assert tried.seconds["preparation"] > 0
    names = [line.split()[0] for line in tried.table().splitlines() if line and not re.match(r" {13}\S", line)]
    rooms = ["embeddings", "encoder", "decoder", "output", "all"]
    assert names == [
        *("run", "pairs", "batches", "tokens", "steps", "rate", "parameters", "forward", *rooms),
        *("memory", "peak", "speed", "validation", "time", "end"),
    ]


def test_all_of_the_plan_is_json(tried: Plan) -> None:
    read = json.loads(json.dumps(tried.as_dict()))
    assert read["steps"] == 8 and read["trial"]["pace"]["step"] > 0
    assert sum(read["parameters"].values()) == 14176
    assert read["multiply_adds_of_an_update"] == {room: 3 * count for room, count in read["multiply_adds"].items()}


def test_with_r_drop_an_update_takes_two_passes(planned: Plan, tiny_run: Path, tmp_path: Path) -> None:
    once = planned.as_dict()
    twice = plan(recipe(r_drop=5), run=tmp_path / "run", data=tiny_run, seconds=None).as_dict()
    assert once["multiply_adds"] == twice["multiply_adds"]
    for room, count in once["multiply_adds_of_an_update"].items():
        assert twice["multiply_adds_of_an_update"][room] == 2 * count


# A run that has begun


def test_of_a_run_that_has_begun_the_rest_is_planned_with_its_vocabulary(tiny_run: Path, tmp_path: Path) -> None:
    run = train(recipe(epochs=2), run=tmp_path / "run", data=tiny_run)
    before = sorted(run.rglob("*"))
    planned = plan(recipe(epochs=10), run=run, data=tiny_run, seconds=None, listener=(watcher := Watcher()))
    assert (planned.steps, planned.steps_done, planned.validations) == (20, 4, 8)
    assert "10 epochs; 4 steps are done" in planned.table()
    assert watcher.messages and not any("vocabulary" in message for message in watcher.messages)
    assert sorted(run.rglob("*")) == before


def test_a_finished_run_and_a_changed_recipe_are_refused_as_training_would(tiny_run: Path, tmp_path: Path) -> None:
    run = train(recipe(epochs=1), run=tmp_path / "run", data=tiny_run)
    with pytest.raises(RunError, match=r"is finished \(step 2\); raise training.epochs to continue, or plan a new run"):
        plan(recipe(epochs=1), run=run, data=tiny_run, seconds=None)
    with pytest.raises(RunError, match=r"training\.label_smoothing: was 0\.1, is 0\.2"):
        plan(recipe(epochs=2, label_smoothing=0.2), run=run, data=tiny_run, seconds=None)
    with pytest.raises(RunError, match=r"is finished \(step 2\); raise training.steps to continue, or plan a new run"):
        plan(recipe(epochs=2, steps=1), run=run, data=tiny_run, seconds=None)


def test_a_folder_that_training_would_refuse_is_not_planned_for(tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    for run, why in ((tmp_path, "is not a run: it holds mine.txt"), (tmp_path / "mine.txt", "it is a file")):
        with pytest.raises(RunError, match=why):
            plan(recipe(), run=run, data=tiny_run, seconds=None)


def test_pairs_that_come_more_than_once_an_epoch_are_counted_apart(
    planned: Plan, tiny_run: Path, tmp_path: Path
) -> None:
    weighted = recipe()
    weighted["data"]["train"] = [{"path": "train.tsv", "weight": 3}]
    thrice = plan(weighted, run=tmp_path / "run", data=tiny_run, seconds=None)
    assert (thrice.pairs, thrice.pairs_an_epoch) == (planned.pairs, 3 * planned.pairs)
    assert f"{planned.pairs:,} for training ({3 * planned.pairs:,} an epoch), " in thrice.table()


# Memory


@pytest.fixture
def planning(tiny_run: Path, tmp_path: Path):
    """A trainer, as `plan` has it, whose batches hold up to 20 pairs."""
    resolved, root, _ = find_recipe(
        recipe(batch_sentences=20, optimizer="adamw"), run=tmp_path / "run", data=tiny_run, overrides=()
    )
    corpora = read_all(resolved.recipe, root, Silent())
    prepared = prepare(resolved, corpora, tmp_path / "corpus", Silent())
    with trainer_for_a_trial(first_model(prepared), prepared.store, corpora, Silent()) as trainer:
        yield trainer


def test_parameters_and_gradients_take_four_bytes_a_number_and_adamw_two_numbers_more(planning) -> None:
    memory = memory_by_use(planning)
    assert memory["parameters"] == memory["gradients"] == 4 * 14176
    counters = 4 * len(list(planning.model.parameters()))  # AdamW counts its steps for each of them
    assert memory["optimizer"] == 2 * 4 * 14176 + counters


def test_a_moving_average_takes_as_much_as_the_parameters(tiny_run: Path, tmp_path: Path) -> None:
    memory = plan(recipe(ema_decay=0.9), run=tmp_path / "run", data=tiny_run, seconds=None).memory
    assert memory["average"] == memory["parameters"]


def test_the_activations_of_a_batch_follow_from_a_part_of_it(planning) -> None:
    batch = largest_batches(batches_of(planning))[0]
    assert len(batch.source) == 20
    assert activation_bytes(planning, batch) == pytest.approx(kept_bytes(planning, batch), rel=0.02)


def test_what_is_kept_for_the_way_back_grows_with_the_layers_also_with_those_that_are_dropped(
    planned: Plan, tiny_run: Path, tmp_path: Path
) -> None:
    def activations(**model: Any) -> int:
        given = recipe() | {"model": {**recipe()["model"], **model}}
        return plan(given, run=tmp_path / "run", data=tiny_run, seconds=None).memory["activations"]

    one, two, three = planned.memory["activations"], activations(encoder_layers=2), activations(encoder_layers=3)
    assert three - two == two - one > 0
    assert activations(encoder_layers=3, layer_dropout=0.9) == three
