"""Recorded passes are those of a step that is not recorded, whatever else a run does meanwhile.

There need not be a GPU: here a graph is the work itself, done again on the same places in memory, which is what a GPU's
graph does. tests/test_devices.py has it with a GPU.
"""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from tests.watching import losses, values
from torch import Tensor

from weft.runs.plan import plan
from weft.runs.train import train
from weft.training import trainer
from weft.training.recording import Recorded

UNRECORDED: dict[tuple[str, ...], list[float]] = {}
"""The losses of runs that are not recorded, by their overrides."""
MORE_STEPS = [
    *("training.epochs=6", "training.validate_every=6 epochs", "training.log_every=1"),
    *("training.schedule=constant", "training.warmup=0"),
]


class Again:
    """A graph of a processor."""

    replays = 0

    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work

    def replay(self) -> None:
        Again.replays += 1
        self.work()


class RecordedHere(Recorded[Any, Any]):
    failing: str | None = None
    """What there is no memory to record."""
    made: ClassVar[list[str]] = []
    """What has been recorded."""

    def open(self) -> None:
        pass

    @contextlib.contextmanager
    def on_stream(self) -> Iterator[None]:
        yield

    def recorded(self, work: Callable[[], object], what: str) -> Again:
        if what == self.failing:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        if what == "step":  # a graph repeats the numbers that it was recorded with, but reads tensors anew
            groups = work.__self__.param_groups  # type: ignore[attr-defined]
            assert all(isinstance(group["lr"], Tensor) and group["capturable"] for group in groups)
        self.made.append(what)
        return Again(work)


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> type[RecordedHere]:
    """Where the recipe does not say otherwise, passes are recorded."""
    unrecorded = trainer.make_replica

    def make_replica(ranks: Any, model: Any, task: Any, device: Any, **switches: Any) -> Any:
        if switches["records"]:
            return RecordedHere(ranks, model, task, device, switches["say"])
        return unrecorded(ranks, model, task, device, **switches)

    monkeypatch.setattr(trainer, "make_replica", make_replica)
    monkeypatch.setattr(RecordedHere, "failing", None)
    monkeypatch.setattr(RecordedHere, "made", [])
    Again.replays = 0
    return RecordedHere


def both(tiny_run: Path, work: Path, *overrides: str) -> tuple[list[float], list[float]]:
    """The losses of a run that is recorded and of one that is not, without dropout."""
    given = [*MORE_STEPS, "model.dropout=0", *overrides]
    recorded = losses(train(tiny_run / "tiny.toml", run=work / "true", overrides=given))
    if overrides not in UNRECORDED:
        given.append("training.graphs=false")
        UNRECORDED[overrides] = losses(train(tiny_run / "tiny.toml", run=work / "false", overrides=given))
    return recorded, UNRECORDED[overrides]


@pytest.mark.parametrize(
    "overrides",
    [
        ["training.optimizer=adamw", "training.ema_decay=0.9", "training.validate_every=3 steps"],
        ["training.optimizer=adam", "training.accumulate=2"],
        ["training.optimizer=sgd", "training.learning_rate=0.1"],
        ["training.optimizer=adafactor"],  # whose steps are not recorded
        ["training.optimizer=muon", "model.positions=learned", "model.max_positions=33", "data.max_length=31"],
        ["training.schedule=onecycle", "training.warmup=0.1"],
    ],
    ids=lambda overrides: overrides[0],
)
@pytest.mark.usefixtures("recording")
def test_recorded_steps_are_those_that_are_not(tiny_run: Path, tmp_path: Path, overrides: list[str]) -> None:
    recorded, plain = both(tiny_run, tmp_path, *overrides)
    steps = 0 if "training.optimizer=adafactor" in overrides else len(recorded) - 1
    assert Again.replays == 12 - 2 + steps  # all but the first batch of both shapes, all steps but the first
    assert recorded == pytest.approx(plain, rel=1e-4)
    assert recorded[-1] < recorded[0]


@pytest.mark.usefixtures("recording")
def test_two_passes_with_other_dropout_can_be_recorded(tiny_run: Path, tmp_path: Path) -> None:
    found = losses(train(tiny_run / "tiny.toml", run=tmp_path / "run", overrides=[*MORE_STEPS, "training.r_drop=1"]))
    assert Again.replays == 21 and found[-1] < found[0]


@pytest.mark.usefixtures("recording")
def test_going_back_to_the_best_weights_makes_the_optimizers_step_anew(tiny_run: Path, tmp_path: Path) -> None:
    trials = ["training.schedule=plateau-trials", "training.patience=1", "training.trials=3"]
    overrides = [*trials, "training.learning_rate=0.1", "training.validate_every=2 steps", "training.divergence=inf"]
    recorded, plain = both(tiny_run, tmp_path, *overrides)
    assert recorded == pytest.approx(plain, rel=1e-5)
    times_back = len(set(values(tmp_path / "true", "learning_rate"))) - 1  # each halves the rate
    assert times_back >= 1 and RecordedHere.made.count("step") == 1 + times_back


@pytest.mark.parametrize("what", ["passes", "step"])
def test_what_there_is_no_memory_to_record_is_computed_and_said(
    tiny_run: Path, tmp_path: Path, recording: type[RecordedHere], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(recording, "failing", what)
    said: list[str] = []
    monkeypatch.setattr(recording, "say", property(lambda self: said.append, lambda self, say: None), raising=False)
    recorded, plain = both(tiny_run, tmp_path)
    assert recorded == pytest.approx(plain, rel=1e-4)
    assert said == ["not enough memory to record the steps of this model; they are computed normally"]


def test_memory_that_runs_out_is_first_taken_from_recordings(
    tiny_run: Path, tmp_path: Path, recording: type[RecordedHere], monkeypatch: pytest.MonkeyPatch
) -> None:
    computed, failures = Recorded.backward, []

    def fail_once(replica: RecordedHere, batch: Any) -> Any:
        if not failures and Again.replays >= 3:
            failures.append(replica.fits)
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return computed(replica, batch)

    monkeypatch.setattr(recording, "backward", fail_once)
    recorded, plain = both(tiny_run, tmp_path)
    assert failures == [True] and recorded == pytest.approx(plain, rel=1e-4)
    state = max((tmp_path / "true").glob("checkpoints/*/training.json"))
    assert json.loads(state.read_text(encoding="utf-8"))["progress"]["parts"] == 1  # the batch was not split


@pytest.mark.usefixtures("recording")
def test_a_trial_times_steps_that_are_replayed_and_a_plan_counts_what_recordings_keep(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.training.recording.SETTLED", 3)
    planned = plan(tiny_run / "tiny.toml", run=tmp_path / "run", data=tiny_run, seconds=1.0)
    assert planned.trial is not None and planned.trial.steps >= 3
    assert Again.replays >= 3
    assert planned.memory["recordings"] == planned.memory["activations"]
