"""When the Trainer steps, validates, saves and stops; on a task of four numbers, so that all of it is quick."""

import json
import math
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from weft.errors import Stopped, WeftError
from weft.training.losses import Loss
from weft.training.run_folder import RunFolder, RunStatus
from weft.training.task import Evaluation
from weft.training.trainer import MOST_SKIPPED, Interval, Progress, Trainer, TrainingConfig, stop_on_signal

STEPS_PER_EPOCH = 4


class Numbers:
    """Four batches an epoch, each a function of the epoch and its place."""

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Tensor]:
        for place in range(start, STEPS_PER_EPOCH):
            yield torch.tensor([[1.0 + epoch, 2.0 + place]])

    def steps_per_epoch(self) -> int:
        return STEPS_PER_EPOCH


class Fit:
    """Fits a number through dropout; validations find the given metrics, one after the other."""

    def __init__(self, metrics: list[dict[str, float]] | None = None) -> None:
        self.metrics = iter(metrics) if metrics is not None else None
        self.steps: list[int] = []
        self.poisoned: set[int] = set()
        self.signal_at: int | None = None

    def loss(self, model: nn.Module, batch: Tensor) -> Loss:
        self.steps.append(len(self.steps) + 1)
        if self.steps[-1] == self.signal_at:
            os.kill(os.getpid(), signal.SIGTERM)
        total = (model(batch) - 3).square().sum()
        if self.steps[-1] in self.poisoned:
            total = total * math.nan
        return Loss(total=total, nll=float(total.detach()), correct=0, tokens=2)

    def evaluate(self, model: nn.Module) -> Evaluation:
        assert not model.training
        metrics = {"valid_loss": float(model(torch.ones(1, 2)).square()), "valid_accuracy": 0.5, "valid_bleu": 1.0}
        found = metrics if self.metrics is None else {**metrics, **next(self.metrics)}
        return Evaluation(metrics=found, samples=[{"source": "a", "reference": "b", "hypothesis": "c"}])


def train(trainer: Trainer) -> Progress:
    with stop_on_signal() as stop:
        return trainer.train(stop)


class Watcher:
    def __init__(self) -> None:
        self.best: list[int] = []
        self.validated: list[int] = []

    def on_message(self, text: str) -> None: ...

    def on_log(self, row: dict[str, Any], total_steps: int) -> None: ...

    def on_validation(self, row: dict[str, Any], samples: list[dict[str, str]], is_best: bool) -> None:
        self.validated.append(row["step"])
        self.best += [row["step"]] if is_best else []


def make_trainer(folder: Path, task: Fit, **settings: Any) -> Trainer[nn.Module, Tensor]:
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.3), nn.Linear(8, 1))

    def write_model(folder: Path, _: object) -> None:
        save_file(dict(model.state_dict()), folder / "weights.safetensors")

    run = RunFolder(folder)
    run.checkpoints.mkdir(parents=True, exist_ok=True)
    return Trainer(
        model,
        task,
        Numbers(),
        TrainingConfig(**{"epochs": 3, "log_every": 1, "select_by": "loss", **settings}),
        run=run,
        write_model=write_model,
        listener=Watcher(),
        seed=1,
        model_dim=2,
        device=torch.device("cpu"),
        identity={"who": "a test"},
    )


def weights(trainer: Trainer[nn.Module, Tensor]) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in trainer.model.parameters()]


def same(left: list[Tensor], right: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def logged(trainer: Trainer[nn.Module, Tensor]) -> list[dict[str, Any]]:
    text = (trainer.run.path / "metrics.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def watched(trainer: Trainer[nn.Module, Tensor]) -> Watcher:
    assert isinstance(trainer.listener, Watcher)
    return trainer.listener


# Resume


@pytest.mark.parametrize("stop_after", [1, 4, 7])
def test_a_resumed_run_takes_the_steps_of_an_uninterrupted_one_bit_for_bit(tmp_path: Path, stop_after: int) -> None:
    straight = make_trainer(tmp_path / "straight", Fit())
    train(straight)

    task = Fit()
    task.signal_at = stop_after
    first = make_trainer(tmp_path / "run", task)
    with pytest.raises(Stopped, match=f"stopped at step {stop_after} and saved"):
        train(first)

    resumed = make_trainer(tmp_path / "run", Fit())
    status = resumed.run.status()
    assert status is not None and status.last == stop_after
    resumed.model.load_state_dict(load_file(resumed.run.checkpoint(stop_after) / "weights.safetensors"))
    resumed.restore(stop_after)
    train(resumed)

    assert same(weights(resumed), weights(straight))
    clocks = {"seconds", "target_tokens_per_second"}
    rows = [[{k: v for k, v in row.items() if k not in clocks} for row in logged(t)] for t in (resumed, straight)]
    assert rows[0] == rows[1] and len(rows[0]) == 12 + 3


def test_the_first_signal_asks_and_the_second_interrupts() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signal() as stop:
        assert not stop.requested
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_in_the_last_step_stops_with_everything_saved(tmp_path: Path) -> None:
    task = Fit()
    task.signal_at = 12
    trainer = make_trainer(tmp_path, task)
    with pytest.raises(Stopped, match="stopped at step 12 and saved"):
        train(trainer)
    assert trainer.run.status() == RunStatus(last=12, best=trainer.progress.best_step)


# Gradients that are no numbers


def test_an_update_with_a_nan_gradient_is_left_out(tmp_path: Path) -> None:
    task = Fit()
    trainer = make_trainer(tmp_path, task)
    first, second, third = Numbers().epoch(0, 1)
    trainer.update(first)
    before = weights(trainer)
    task.poisoned = {2}
    trainer.update(second)
    assert same(weights(trainer), before)
    assert trainer.progress.skipped == 1 and math.isnan(trainer.grad_norm)
    trainer.update(third)
    assert not same(weights(trainer), before)
    assert trainer.progress.skipped == 0


def test_too_many_nan_gradients_in_a_row_end_the_run_with_one_message_and_the_weights_as_they_were(
    tmp_path: Path,
) -> None:
    task = Fit()
    task.poisoned = set(range(3, 100))
    trainer = make_trainer(tmp_path, task, epochs=10, validate_every="2 steps")
    with pytest.raises(WeftError) as caught:
        train(trainer)
    assert f"in {MOST_SKIPPED} updates in a row, the last at step {2 + MOST_SKIPPED}" in str(caught.value)
    assert "lower training.learning_rate" in str(caught.value)
    assert len(task.steps) == 2 + MOST_SKIPPED
    last = trainer.run.status()
    assert last is not None
    saved = load_file(trainer.run.checkpoint(last.last) / "weights.safetensors")
    assert same(weights(trainer), list(saved.values()) and [saved[n] for n, _ in trainer.model.named_parameters()])


# Validation, the best weights, patience


@pytest.mark.parametrize(
    ("metric", "values", "best"),
    [
        ("loss", [3.0, 2.0, 2.5, 2.0, 1.0], [4, 8, 20]),
        ("accuracy", [0.3, 0.2, 0.4, 0.4, 0.1], [4, 12]),
        ("bleu", [10.0, 12.0, 11.0, 30.0, 29.0], [4, 8, 16]),
        ("loss", [math.nan, 5.0, math.nan, 4.0, 6.0], [4, 8, 16]),
    ],
    ids=["loss falls", "accuracy rises", "bleu rises", "nan is never better than a number"],
)
def test_the_best_weights_are_those_of_the_best_metric(
    tmp_path: Path, metric: str, values: list[float], best: list[int]
) -> None:
    task = Fit([{f"valid_{metric}": value} for value in values])
    trainer = make_trainer(tmp_path, task, epochs=5, select_by=metric)
    train(trainer)
    assert watched(trainer).validated == [4, 8, 12, 16, 20]
    assert watched(trainer).best == best
    assert trainer.run.status() == RunStatus(last=20, best=best[-1])
    kept = {folder.name for folder in trainer.run.checkpoints.iterdir()}
    assert kept == {"step-20", f"step-{best[-1]}"}


def test_training_stops_when_patience_is_lost_and_the_best_weights_are_kept(tmp_path: Path) -> None:
    task = Fit([{"valid_bleu": bleu} for bleu in (5.0, 9.0, 8.0, 9.0, 99.0)])
    trainer = make_trainer(tmp_path, task, epochs=50, select_by="bleu", patience=2)
    assert train(trainer).step == 16  # two validations, at steps 12 and 16, without anything better than 9
    assert trainer.run.status() == RunStatus(last=16, best=8)
    assert trainer.is_finished()


def test_better_at_the_last_moment_of_patience_goes_on(tmp_path: Path) -> None:
    task = Fit([{"valid_bleu": bleu} for bleu in (5.0, 4.0, 6.0, 5.0, 5.0)])
    trainer = make_trainer(tmp_path, task, epochs=50, select_by="bleu", patience=2)
    assert train(trainer).step == 20


def test_the_last_step_is_always_validated(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, Fit(), validate_every="5 steps")
    train(trainer)
    assert watched(trainer).validated == [5, 10, 12]


def test_checkpoints_may_come_more_often_than_validations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer(tmp_path, Fit(), validate_every="2 epochs", checkpoint_every="3 steps")
    saved: list[int] = []
    monkeypatch.setattr(trainer, "checkpoint", lambda: saved.append(trainer.progress.step))
    train(trainer)
    assert saved == [3, 6, 8, 9, 12]
    assert watched(trainer).validated == [8, 12]


def test_dropout_is_on_in_training_and_off_in_validation(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, Fit())
    train(trainer)  # the task asserts the second half
    trainer.update(next(Numbers().epoch(0)))
    assert trainer.model.training


# Logs


def test_the_logged_loss_is_the_mean_over_the_tokens_since_the_last_line(tmp_path: Path) -> None:
    every, fourth = (make_trainer(tmp_path / str(n), Fit(), log_every=n, epochs=1) for n in (1, 4))
    train(every)
    train(fourth)
    losses = [row["loss"] for row in logged(every) if "loss" in row]
    (row,) = [row for row in logged(fourth) if "loss" in row]
    assert row["loss"] == pytest.approx(sum(losses) / 4)
    assert (row["step"], row["epoch"]) == (4, 1.0)
    assert {"learning_rate", "grad_norm", "target_tokens_per_second", "seconds"} <= row.keys()


def test_each_validation_leaves_a_line_and_its_samples(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, Fit(), log_every=100)
    train(trainer)
    assert [row["step"] for row in logged(trainer)] == [4, 8, 12]
    samples = (tmp_path / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(samples[0]) == {
        "step": 4,
        "epoch": 1.0,
        "samples": [{"source": "a", "reference": "b", "hypothesis": "c"}],
    }


# Intervals


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("3 steps", [3, 6, 9]),
        ("1 step", list(range(1, 11))),
        ("1 epoch", [5, 10]),
        ("2 epochs", [10]),
        ("0.4 epoch", [2, 4, 6, 8, 10]),
        ("0.01 epoch", list(range(1, 11))),
        ("4steps", [4, 8]),
    ],
)
def test_intervals_in_steps_and_epochs(text: str, due: list[int]) -> None:
    interval = Interval(text, steps_per_epoch=5)
    assert [step for step in range(1, 11) if interval.is_due(step, seconds_since=1e9)] == due


@pytest.mark.parametrize(("text", "seconds"), [("5m", 300), ("1.5 h", 5400), ("0.5m", 30)])
def test_intervals_in_time(text: str, seconds: float) -> None:
    interval = Interval(text, steps_per_epoch=5)
    assert [interval.is_due(7, since) for since in (seconds - 0.1, seconds, seconds + 1)] == [False, True, True]


def test_an_interval_in_time_counts_from_the_last_validation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(0, 10_000, 25))  # every look at the clock is 25 seconds after the one before
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)))
    trainer = make_trainer(tmp_path, Fit(), validate_every="2m", epochs=4)
    train(trainer)
    # A step is one look at the clock; a validation one, which is over when the interval begins; a checkpoint two.
    assert watched(trainer).validated == [5, 8, 11, 14, 16]


@pytest.mark.parametrize("text", ["0 steps", "0.0m", "5", "soon", "-1 epoch", "1 epoch ", "5 minutes", "1e3 steps", ""])
def test_other_words_are_no_interval(text: str) -> None:
    with pytest.raises(ValidationError, match="expected a time such as"):
        TrainingConfig(validate_every=text)


def test_one_way_to_say_the_batch_size() -> None:
    assert TrainingConfig().batch_tokens == 4096
    assert TrainingConfig(batch_sentences=32).batch_tokens is None
    with pytest.raises(ValidationError, match="is given beside batch_tokens"):
        TrainingConfig(batch_tokens=100, batch_sentences=32)
