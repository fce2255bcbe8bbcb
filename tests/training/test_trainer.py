"""When the Trainer steps, validates, saves and stops; on a task of four numbers, so that all of it is quick."""

import copy
import dataclasses
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from tests.watching import Watcher
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from weft.errors import Stopped, UsageError, WeftError
from weft.training.config import GuidedLossConfig, Interval, TrainingConfig
from weft.training.metric import Metric
from weft.training.optimizers import Both
from weft.training.progress import LossLevel, Progress, Window
from weft.training.run_folder import RunFolder, RunStatus
from weft.training.signals import stop_on_signal
from weft.training.task import Evaluation, Loss
from weft.training.trainer import Trainer

STEPS_PER_EPOCH = 4


class Config(TrainingConfig, GuidedLossConfig):
    """Every key that any task has."""


class Numbers:
    """Four batches an epoch, each a function of the epoch and its place: a row, or as many as `rows` says.

    With `together` neighbors are one batch.
    """

    def __init__(self, rows: tuple[int, ...] = (1, 1, 1, 1), together: int = 1) -> None:
        self.rows, self.together = rows, together

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Tensor]:
        batches = [torch.tensor([[1.0 + epoch, 2.0 + place]]).repeat(rows, 1) for place, rows in enumerate(self.rows)]
        for place in range(start, self.steps_per_epoch()):
            yield torch.cat(batches[self.together * place : self.together * (place + 1)])

    def steps_per_epoch(self) -> int:
        return len(self.rows) // self.together


class Fit:
    """Fits a number through dropout; validations find the given metrics, one after the other.

    Things go wrong where a test says so: in batches, by (epoch, place); in epochs whose training loss is set; where a
    batch has more rows than fit into memory.
    """

    metrics = (Metric("loss", "min", "loss"), Metric("accuracy", "max", "accuracy"), Metric("bleu", "max", "BLEU"))
    counts = "numbers"

    def __init__(self, found: list[dict[str, float]] | None = None) -> None:
        self.found = iter(found) if found is not None else None
        self.steps: list[int] = []
        self.validated: list[list[Tensor]] = []
        self.signal_at: int | None = None
        self.poisoned: set[int] = set()
        self.bad_batches: set[tuple[int, int]] = set()
        self.nll_of_epoch: dict[int, float] = {}
        self.most_rows = 1_000_000

    def loss(self, model: nn.Module, batch: Tensor) -> Loss:
        self.steps.append(len(self.steps) + 1)
        if self.steps[-1] == self.signal_at:
            os.kill(os.getpid(), signal.SIGTERM)
        if len(batch) > self.most_rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        total = (model(batch) - 3).square().sum()
        nll = total.detach()
        if self.bad_batches or self.nll_of_epoch:
            epoch, place = int(batch[0, 0]) - 1, int(batch[0, 1]) - 2
            total = total * math.nan if (epoch, place) in self.bad_batches else total
            nll = nll * 0 + 2 * len(batch) * self.nll_of_epoch.get(epoch, 1.0)
        if self.steps[-1] in self.poisoned:
            total = total * math.nan
        return Loss(total, 2 * len(batch), {"nll": nll})

    def evaluate(self, model: nn.Module) -> Evaluation:
        assert not model.training
        self.validated.append([parameter.detach().clone() for parameter in model.parameters()])
        metrics = {"valid_loss": float(model(torch.ones(1, 2)).square()), "valid_accuracy": 0.5, "valid_bleu": 1.0}
        found = metrics if self.found is None else {**metrics, **next(self.found)}
        return Evaluation(metrics=found, samples=[{"source": "a", "reference": "b", "hypothesis": "c"}])


def train(trainer: Trainer) -> None:
    with stop_on_signal() as stop:
        trainer.train(stop)


def make_trainer(
    folder: Path, task: Fit, *, batches: Numbers | None = None, dropout: float = 0.3, **settings: Any
) -> Trainer[nn.Module, Tensor]:
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(2, 8), nn.Dropout(dropout), nn.Linear(8, 1))

    def write_model(folder: Path, _: object) -> None:
        save_file(dict(model.state_dict()), folder / "weights.safetensors")

    run = RunFolder(folder)
    run.checkpoints.mkdir(parents=True, exist_ok=True)
    return Trainer(
        model,
        task,
        batches or Numbers(),
        TrainingConfig(**{"epochs": 3, "log_every": 1, **settings}),
        run=run,
        write_model=write_model,
        read_weights=lambda folder: load_file(folder / "weights.safetensors"),
        describe_batch=lambda batch: {"rows": batch.tolist()},
        listener=Watcher(),
        seed=1,
        width=2,
        device=torch.device("cpu"),
        identity={"who": "a test"},
    )


def trained(folder: Path, task: Fit, *, begin: int | None = None, **settings: Any) -> Trainer[nn.Module, Tensor]:
    """A trainer that has taken all its steps, from the checkpoint `begin` on if there is one."""
    trainer = make_trainer(folder, task, **settings)
    if begin is not None:
        trainer.restore(begin)
    train(trainer)
    return trainer


def weights(trainer: Trainer[nn.Module, Tensor]) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in trainer.model.parameters()]


def saved(trainer: Trainer[nn.Module, Tensor], step: int) -> list[Tensor]:
    """The model of a checkpoint."""
    found = load_file(trainer.run.checkpoint(step) / "weights.safetensors")
    return [found[name] for name, _ in trainer.model.named_parameters()]


def kept(trainer: Trainer[nn.Module, Tensor]) -> set[int]:
    """The steps of all checkpoints."""
    return {int(folder.name.removeprefix("step-")) for folder in trainer.run.checkpoints.iterdir()}


def same(left: list[Tensor], right: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def logged(trainer: Trainer[nn.Module, Tensor]) -> list[dict[str, Any]]:
    text = (trainer.run.path / "metrics.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def skipped(trainer: Trainer[nn.Module, Tensor]) -> list[dict[str, Any]]:
    """The lines of skipped.jsonl."""
    path = trainer.run.path / "skipped.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def watched(trainer: Trainer[nn.Module, Tensor]) -> Watcher:
    assert isinstance(trainer.listener, Watcher)
    return trainer.listener


# Resume


RECIPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "sgd": {"optimizer": "sgd", "learning_rate": 0.01, "nesterov": True},
    "adam": {"optimizer": "adam"},
    "adafactor": {"optimizer": "adafactor", "learning_rate": 0.01},
    "muon": {"optimizer": "muon", "learning_rate": 0.01},
    "cosine": {"schedule": "cosine", "learning_rate": 0.01},
    "plateau": {"schedule": "plateau", "plateau_patience": 0, "learning_rate": 0.01},
    "trials": {"schedule": "plateau-trials", "patience": 1, "trials": 9, "learning_rate": 0.01},
    "trials of an average": {"schedule": "plateau-trials", "patience": 1, "trials": 9, "ema_decay": 0.8},
    "moving average": {"ema_decay": 0.8, "learning_rate": 0.01},
    "accumulated": {"accumulate": 3, "validate_every": "2 epochs"},
    "mean of the last": {"average_last": 3},
    "mean of the best": {"average_best": 2, "epochs": 6},
    "near the best": {"keep_within": 0.4},
}


@pytest.mark.parametrize(
    ("precision", "has_bf16", "products"),
    [
        ("fp32", True, torch.float32),
        ("bf16", False, torch.bfloat16),
        ("auto", True, torch.bfloat16),
        ("auto", False, torch.float32),
    ],
)
def test_muon_multiplies_in_the_precision_of_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str, has_bf16: bool, products: torch.dtype
) -> None:
    monkeypatch.setattr("weft.runtime.has_native_bf16", lambda device: has_bf16)
    trainer = make_trainer(tmp_path, Fit([]), optimizer="muon", precision=precision)
    assert isinstance(trainer.optimizer, Both)
    assert trainer.optimizer.muon.precision == products


@pytest.mark.parametrize("stop_after", [3, 8, 10, 17])
@pytest.mark.parametrize("name", RECIPES)
def test_a_resumed_run_is_an_uninterrupted_one_with_every_recipe(tmp_path: Path, name: str, stop_after: int) -> None:
    losses = [{"valid_loss": loss} for loss in (5.0, 3.0, 4.0, 6.0, 2.5, 3.5, 2.0, 2.0)]
    settings = {"epochs": 5, **RECIPES[name]}
    assert_resumes(tmp_path, lambda validated: Fit(losses[validated:]), stop_after, settings, name=name)


UNINTERRUPTED: dict[str, Trainer[nn.Module, Tensor]] = {}
"""The run of a recipe that nothing stopped, by its name: it is trained once."""


def assert_resumes(
    tmp_path: Path,
    task_after: Callable[[int], Fit],
    stop_after: int,
    settings: dict[str, Any],
    batches: Numbers | None = None,
    name: str = "",
) -> Trainer[nn.Module, Tensor]:
    """A run stopped in the batch `stop_after` and resumed is a straight one, which is returned; `task_after(n)` is the
    task with what is left of its metrics after n validations."""
    straight = UNINTERRUPTED.get(name) or trained(tmp_path / "straight", task_after(0), batches=batches, **settings)
    UNINTERRUPTED.update({name: straight} if name else {})

    task = task_after(0)
    task.signal_at = stop_after
    first = make_trainer(tmp_path / "run", task, batches=batches, **settings)
    with pytest.raises(Stopped, match=r"stopped at step \d+ and saved; the same command continues") as stopped:
        train(first)
    status = first.run.status()
    assert status is not None and status.last == first.progress.step < straight.progress.step
    assert f"step {status.last} and" in str(stopped.value)
    rest = task_after(len(watched(first).validated))
    resumed = trained(tmp_path / "run", rest, begin=first.progress.step, batches=batches, **settings)

    assert watched(first).validated + watched(resumed).validated == watched(straight).validated
    assert same(weights(resumed), weights(straight))
    assert resumed.run.status() == straight.run.status()
    assert kept(resumed) == kept(straight)
    for step in kept(straight):
        for file in ("weights.safetensors", "training.safetensors"):
            paths = [trainer.run.checkpoint(step) / file for trainer in (resumed, straight)]
            assert paths[0].read_bytes() == paths[1].read_bytes()
    clocks = {"seconds", "numbers_per_second"}
    rows = [[{k: v for k, v in row.items() if k not in clocks} for row in logged(t)] for t in (resumed, straight)]
    assert rows[0] == rows[1]
    assert skipped(resumed) == skipped(straight)
    return straight


def test_the_first_signal_asks_and_the_second_interrupts() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signal() as stop:
        assert not stop.requested
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before


WORKER = """
import sys, time
from weft.training.signals import stop_on_signal, stop_with_parent
with stop_on_signal() as stop:
    stop_with_parent(int(sys.argv[1]))
    print("ready", flush=True)
    deadline = time.monotonic() + 20
    while not stop.requested and time.monotonic() < deadline:
        time.sleep(0.01)
    print(stop.requested)
"""


def test_a_worker_stops_once_the_process_that_started_it_was_killed() -> None:
    command = ["sh", "-c", '"$0" -c "$1" $$ & wait', sys.executable, WORKER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.kill()
        assert process.stdout.read() == "True\n"


def test_where_torchrun_ends_the_others_an_error_is_still_said() -> None:
    """It sends SIGTERM to all as soon as one has ended, and that may come before this one has said why it ends."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        with pytest.raises(ValueError, match="lost touch"), stop_on_signal(second_interrupts=False):
            raise ValueError("lost touch")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGTERM):
            os.kill(os.getpid(), number)  # by default each ends the process, or interrupts it
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)


def test_a_signal_in_the_last_step_stops_with_everything_saved(tmp_path: Path) -> None:
    task = Fit()
    task.signal_at = 12
    trainer = make_trainer(tmp_path, task)
    with pytest.raises(Stopped, match="stopped at step 12 and saved"):
        train(trainer)
    assert trainer.run.status() == RunStatus(last=12, best=trainer.progress.best_step)


# One update


@pytest.mark.parametrize("clip_norm", [0.01, 1e3, math.inf], ids=["shortened", "short enough", "never shortened"])
def test_the_gradient_is_that_of_the_mean_over_all_tokens_and_shortened_as_torch_does(
    tmp_path: Path, clip_norm: float
) -> None:
    batches = list(Numbers((1, 3, 2, 2)).epoch(0))
    trainer = make_trainer(tmp_path, Fit(), dropout=0.0, clip_norm=clip_norm)
    twin = copy.deepcopy(trainer.model)
    (Fit().loss(twin, torch.cat(batches)).total / 16).backward()
    norm = nn.utils.clip_grad_norm_(twin.parameters(), clip_norm)
    trainer.update(*batches)
    assert float(trainer.grad_norm) == pytest.approx(float(norm))
    for mine, theirs in zip(trainer.model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_two_accumulated_batches_are_one_batch_of_both(tmp_path: Path, optimizer: str) -> None:
    settings: dict[str, Any] = {"optimizer": optimizer, "dropout": 0.0, "learning_rate": 0.01, "epsilon": 1e-9}
    small = trained(tmp_path / "small", Fit(), batches=Numbers((1, 3, 2, 2)), accumulate=2, **settings)
    large = trained(tmp_path / "large", Fit(), batches=Numbers((1, 3, 2, 2), together=2), **settings)
    assert small.progress.step == large.progress.step == 6
    for mine, theirs in zip(weights(small), weights(large), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)
    for mine, theirs in zip(logged(small), logged(large), strict=True):
        for key in mine.keys() & {"step", "epoch", "loss", "nll", "learning_rate", "grad_norm", "valid_loss"}:
            assert mine[key] == pytest.approx(theirs[key], rel=1e-5)


def test_the_last_update_of_an_epoch_is_made_from_what_is_left(tmp_path: Path) -> None:
    task = Fit()
    trainer = make_trainer(tmp_path, task, accumulate=3, epochs=2)
    assert trainer.steps_per_epoch == 2 and trainer.horizon.total_steps == 4
    train(trainer)
    assert len(task.steps) == 8  # batches, all of them once an epoch
    assert watched(trainer).validated == [2, 4]
    assert [row["epoch"] for row in logged(trainer) if "loss" in row] == [0.5, 1.0, 1.5, 2.0]
    assert trained(tmp_path / "all", Fit(), accumulate=100).progress.step == 3  # one update an epoch


class Reads(TorchDispatchMode):
    """Counts how often a tensor's number is looked at, for which an accelerator would be waited for."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("settings", [{}, {"ema_decay": 0.9}, {"optimizer": "sgd"}, {"optimizer": "muon"}], ids=str)
def test_an_update_looks_at_one_number_of_the_device(tmp_path: Path, settings: dict[str, Any]) -> None:
    trainer = make_trainer(tmp_path, Fit(), **settings)
    for batch in Numbers().epoch(0):
        with Reads() as reads:
            trainer.update(batch)
        assert reads.count == 1


# Losses and gradients that are no numbers


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["loss", "gradient", "loss alone"])
def test_an_update_whose_loss_or_gradient_is_no_number_moves_nothing(tmp_path: Path, where: str, number: float) -> None:
    task = Fit()
    trainer = make_trainer(tmp_path, task)
    trainer.update(next(Numbers().epoch(0)))
    usual = task.loss

    def spoiled(model: nn.Module, batch: Tensor) -> Loss:
        loss = usual(model, batch)
        if where == "gradient":
            loss.total.register_hook(lambda gradient: gradient * number)
            return loss
        return dataclasses.replace(loss, total=loss.total * number if where == "loss" else loss.total + number)

    task.loss = spoiled  # type: ignore[method-assign]
    before, moments = weights(trainer), copy.deepcopy(trainer.optimizer.state_dict())
    window = copy.deepcopy(trainer.progress.window)
    trainer.update(next(Numbers().epoch(0, 1)))
    assert same(weights(trainer), before)
    assert str(trainer.optimizer.state_dict()) == str(moments)
    assert trainer.progress.window == window
    assert trainer.progress.skipped == trainer.progress.skipped_in_a_row == 1
    assert watched(trainer).messages == [
        f"step 1 is skipped, since its {'gradient' if where == 'gradient' else 'loss'} is infinite or NaN; "
        f"what was in it is in {tmp_path / 'skipped.jsonl'}"
    ]
    task.loss = usual  # type: ignore[method-assign]
    trainer.update(next(Numbers().epoch(0, 2)))
    assert not same(weights(trainer), before)
    assert trainer.progress.skipped == 1 and trainer.progress.skipped_in_a_row == 0


def test_the_batch_that_was_left_out_is_named_with_its_content(tmp_path: Path) -> None:
    task = Fit()
    task.bad_batches = {(1, 2)}
    trainer = trained(tmp_path, task)
    assert skipped(trainer) == [
        {"step": 7, "epoch": 2, "batch": 3, "loss": None, "grad_norm": None, "rows": [[2.0, 4.0]]}
    ]
    counts = [row["skipped"] for row in logged(trainer) if "loss" in row]
    assert counts == [0] * 6 + [1] * 6


def test_of_several_accumulated_batches_only_the_bad_one_is_named(tmp_path: Path) -> None:
    task = Fit()
    task.bad_batches = {(0, 1), (2, 0), (2, 2)}
    trainer = trained(tmp_path, task, accumulate=3)
    assert [(row["step"], row["epoch"], row["batch"]) for row in skipped(trainer)] == [(1, 1, 2), (5, 3, 1), (5, 3, 3)]


def test_where_only_the_gradient_is_no_number_every_batch_of_the_update_is_named(tmp_path: Path) -> None:
    task = Fit()
    trainer = make_trainer(tmp_path, task, accumulate=2)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.register_hook(lambda gradient: gradient * math.inf)
    trainer.update(*Numbers().epoch(0, 2))
    assert [row["batch"] for row in skipped(trainer)] == [1, 2]
    assert all(row["loss"] > 0 and row["grad_norm"] is None for row in skipped(trainer))


def test_a_line_of_the_log_is_the_mean_of_the_updates_that_were_made(tmp_path: Path) -> None:
    task = Fit()
    task.bad_batches = {(0, 1), *((1, place) for place in range(4))}
    trainer = trained(tmp_path, task, log_every=4, dropout=0.0, learning_rate=1e-30)
    first, second, third = (row for row in logged(trainer) if "loss" in row)
    with torch.no_grad():
        means = [
            float((trainer.model(torch.cat([*batches])) - 3).square().mean()) / 2
            for batches in ([batch for place, batch in enumerate(Numbers().epoch(0)) if place != 1], Numbers().epoch(2))
        ]
    assert [first["loss"], third["loss"]] == pytest.approx(means, rel=1e-5)
    assert second["loss"] is None and second["numbers_per_second"] == 0  # no update at all
    assert [row["skipped"] for row in (first, second, third)] == [1, 5, 5]


def test_a_line_of_the_log_tells_how_far_the_weights_moved_and_how_many_gradients_were_clipped(tmp_path: Path) -> None:
    task = Fit()
    task.bad_batches = {(0, 2), (0, 3)}
    trainer = make_trainer(tmp_path, task, log_every=2, epochs=1, dropout=0.0, clip_norm=12.0)
    moves, norms = [], []
    for number, batch in enumerate(Numbers().epoch(0)):
        before = torch.cat([weight.flatten() for weight in weights(trainer)])
        trainer.update(batch)
        after = torch.cat([weight.flatten() for weight in weights(trainer)])
        moves.append(float((after - before).norm() / before.norm()))
        norms.append(float(trainer.grad_norm))
        trainer.progress.step = number + 1
        trainer.log_when_due()
    first, skipped = logged(trainer)
    assert first["update_ratio"] == pytest.approx(moves[1], rel=1e-5)
    assert first["clipped_share"] == sum(norm > 12.0 for norm in norms[:2]) / 2
    assert skipped["update_ratio"] is None and skipped["clipped_share"] is None
    assert "padding_share" not in first  # these batches are not padded


@pytest.mark.parametrize("stop_after", [6, 7, 8, 9])
def test_updates_that_were_left_out_are_left_out_again_when_a_run_is_resumed(tmp_path: Path, stop_after: int) -> None:
    def task(validated: int) -> Fit:
        fit = Fit()
        fit.bad_batches = {(1, 1), (1, 2), (2, 3)}
        return fit

    straight = assert_resumes(tmp_path, task, stop_after, {"validate_every": "3 steps", "most_skipped": 3})
    assert straight.progress.skipped == 3 and straight.progress.skipped_in_a_row == 1


def test_updates_left_out_in_a_row_are_counted_across_a_break(tmp_path: Path) -> None:
    task = Fit()
    task.bad_batches = {(0, 2), (0, 3), (1, 0)}
    task.signal_at = 4
    with pytest.raises(Stopped):
        trained(tmp_path, task, most_skipped=3)
    task.signal_at = None
    with pytest.raises(WeftError, match="in 3 updates in a row, the last at step 5"):
        trained(tmp_path, task, begin=4, most_skipped=3)


def test_weights_that_hold_no_numbers_are_never_saved(tmp_path: Path) -> None:
    trainer = trained(tmp_path, Fit())
    before = saved(trainer, 12)
    with torch.no_grad():
        next(trainer.model.parameters())[0, 0] = math.inf
    trainer.progress.step += 1
    with pytest.raises(WeftError, match=r"at step 13 the weights 0\.weight hold infinite numbers or NaN"):
        trainer.checkpoint()
    status = trainer.run.status()
    assert status is not None and status.last == 12 and same(saved(trainer, 12), before)


def test_too_many_nan_gradients_in_a_row_end_the_run_with_one_message_and_the_weights_as_they_were(
    tmp_path: Path,
) -> None:
    task = Fit()
    task.poisoned = set(range(3, 100))
    trainer = make_trainer(tmp_path, task, epochs=10, validate_every="2 steps", most_skipped=7)
    with pytest.raises(WeftError) as caught:
        train(trainer)
    assert "in 7 updates in a row, the last at step 9; the last checkpoint is intact" in str(caught.value)
    assert "lower training.learning_rate" in str(caught.value)
    assert len(task.steps) == 9
    last = trainer.run.status()
    assert last is not None
    assert same(weights(trainer), saved(trainer, last.last))


# Memory that does not suffice

FOUR_ROWS = Numbers((4, 4, 4, 4))


def limited(most_rows: int) -> Fit:
    task = Fit()
    task.most_rows = most_rows
    return task


@pytest.mark.parametrize(("most_rows", "parts"), [(1, 4), (2, 2), (3, 2), (4, 1)])
def test_a_batch_that_does_not_fit_into_memory_is_computed_in_parts_with_the_same_gradient(
    tmp_path: Path, most_rows: int, parts: int
) -> None:
    settings: dict[str, Any] = {"batches": FOUR_ROWS, "dropout": 0.0, "accumulate": 2, "learning_rate": 0.01}
    whole = trained(tmp_path / "whole", Fit(), **settings)
    trainer = trained(tmp_path / "parts", limited(most_rows), **settings)
    assert trainer.progress.parts == parts and trainer.progress.skipped == 0
    for mine, theirs in zip(weights(trainer), weights(whole), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    for mine, theirs in zip(logged(trainer), logged(whole), strict=True):
        for key in mine.keys() & {"step", "loss", "nll", "grad_norm", "valid_loss"}:
            assert mine[key] == pytest.approx(theirs[key], rel=1e-4)


def test_what_was_computed_before_memory_ran_out_counts_only_once(tmp_path: Path) -> None:
    batches = list(FOUR_ROWS.epoch(0))
    whole = make_trainer(tmp_path / "whole", Fit(), dropout=0.0)
    whole.update(*batches)
    task = Fit()
    trainer = make_trainer(tmp_path / "parts", task, dropout=0.0)
    usual = task.loss

    def runs_out_in_the_third(model: nn.Module, batch: Tensor) -> Loss:
        loss = usual(model, batch)
        if len(task.steps) == 3:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: not enough memory")
        return loss

    task.loss = runs_out_in_the_third  # type: ignore[method-assign]
    trainer.update(*batches)
    assert len(task.steps) == 3 + 8
    assert trainer.progress.window.count == whole.progress.window.count == 32
    for mine, theirs in zip(trainer.model.parameters(), whole.model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-5, atol=1e-7)
    assert watched(trainer).messages == [
        "memory ran out in step 1: from here on each batch is computed in 2 parts, whose gradients are added up to "
        "that of the whole"
    ]


@pytest.mark.parametrize("stop_after", [3, 10, 14])
def test_a_run_out_of_memory_is_resumed_bit_for_bit(tmp_path: Path, stop_after: int) -> None:
    straight = assert_resumes(
        tmp_path, lambda _: limited(2), stop_after, {"validate_every": "2 epochs"}, batches=FOUR_ROWS
    )
    assert straight.progress.parts == 2


def test_the_parts_are_saved_at_once_and_kept_where_memory_suffices_again(tmp_path: Path) -> None:
    straight = trained(tmp_path / "straight", limited(2), batches=FOUR_ROWS)
    first = make_trainer(tmp_path / "run", limited(2), batches=FOUR_ROWS)
    first.validate = lambda **_: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        train(first)  # killed in step 4, with nothing saved since the first
    assert first.run.status() == RunStatus(last=1)
    resumed = trained(tmp_path / "run", limited(4), begin=1, batches=FOUR_ROWS)
    assert same(weights(resumed), weights(straight))


def test_memory_for_not_even_a_row_is_one_clear_error(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, limited(0), batches=FOUR_ROWS)
    with pytest.raises(WeftError, match="memory ran out in step 1, even with one row of a batch at a time"):
        train(trainer)
    assert trainer.progress.parts == 4


def test_an_error_of_another_kind_is_not_taken_for_a_lack_of_memory(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, Fit(), batches=FOUR_ROWS)
    trainer.task.loss = lambda model, batch: model(batch.T)  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        train(trainer)
    assert trainer.progress.parts == 1


def test_a_validation_without_memory_is_one_clear_error(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, Fit())

    def evaluate(model: nn.Module) -> Evaluation:
        raise torch.OutOfMemoryError("CUDA out of memory")

    trainer.task.evaluate = evaluate  # type: ignore[method-assign]
    with pytest.raises(WeftError, match=r"in a validation or in the last scores \(lower decoding\.batch_tokens\)"):
        train(trainer)


# Divergence


@pytest.fixture
def judged_by_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The training loss is looked at once an epoch and not every fifty updates."""
    monkeypatch.setattr("weft.training.progress.JUDGED_OVER", STEPS_PER_EPOCH)


def diverging(nll: list[float], valid: list[float], validated: int = 0) -> Fit:
    """Training losses by epoch, and validation losses one after the other, of which some have been found."""
    task = Fit([{"valid_loss": loss} for loss in valid[validated:]])
    task.nll_of_epoch = dict(enumerate(nll))
    return task


@pytest.mark.usefixtures("judged_by_epoch")
def test_a_run_that_diverges_goes_back_to_its_best_weights_and_on_at_half_the_rate(tmp_path: Path) -> None:
    task = diverging([3.0, 2.0, 3.1, 2.0], [4.0, 3.0, 4.1, 2.9])
    trainer = trained(tmp_path, task, schedule="constant", warmup=1, learning_rate=0.01, epochs=4)
    assert watched(trainer).messages == [
        "training has diverged (validation loss 4.1 after 3 at step 8): back to the weights of that step, the learning "
        "rate is multiplied by 0.5 from here on (1 of 4)"
    ]
    assert [row.get("back_to") for row in logged(trainer) if "valid_loss" in row] == [None, None, 8, None]
    assert trainer.run.status() == RunStatus(last=16, best=16)
    # The same by hand: from the weights and moments of step 8 on, the batches of steps 13 to 16 at half the rate.
    trained(tmp_path / "twin", Fit(), schedule="constant", warmup=1, learning_rate=0.01, epochs=2)
    twin = make_trainer(tmp_path / "twin", Fit(), schedule="constant", warmup=1, learning_rate=0.005, epochs=4)
    twin.load(8)
    twin.progress.step = 12
    for batch in Numbers().epoch(3):
        twin.update(batch)
        twin.advance()
    assert same(weights(trainer), weights(twin))


@pytest.mark.usefixtures("judged_by_epoch")
def test_the_checkpoint_of_a_step_that_diverged_holds_the_best_weights(tmp_path: Path) -> None:
    task = diverging([2.0, 9.0], [3.0, 9.0])
    trainer = trained(tmp_path, task, epochs=2)
    assert kept(trainer) == {4, 8} and same(saved(trainer, 8), saved(trainer, 4))


@pytest.mark.usefixtures("judged_by_epoch")
@pytest.mark.parametrize(
    ("nll", "valid"),
    [
        ([3.0, 2.0, 1.0, 0.5], [3.0, 2.5, 4.0, 6.0]),  # learns its corpus by heart
        ([3.0, 2.0, 3.2, 4.4], [3.0, 2.5, 3.0, 3.4]),  # a trained model whose rate was raised anew
        ([3.0, 2.0, 2.9, 3.0], [3.0, 2.5, 3.5, 3.4]),  # a little worse in both
    ],
    ids=["overfitting", "a higher rate", "within the bounds"],
)
def test_what_is_no_divergence_is_left_alone(tmp_path: Path, nll: list[float], valid: list[float]) -> None:
    trainer = trained(tmp_path, diverging(nll, valid), epochs=4)
    assert watched(trainer).messages == [] and trainer.progress.fallbacks == 0
    assert trainer.progress.rate_scale == 1.0


@pytest.mark.usefixtures("judged_by_epoch")
def test_a_training_loss_that_explodes_is_validated_at_once(tmp_path: Path) -> None:
    task = diverging([2.0, 2.0, 9.0, 2.0, 2.0, 2.0], [3.0, 9.0, 2.5])
    trainer = make_trainer(tmp_path, task, epochs=6, validate_every="2 epochs")
    task.found = iter([{"valid_loss": loss} for loss in (3.0, 9.0, 2.5, 2.4)])
    train(trainer)
    assert watched(trainer).validated == [8, 12, 16, 24]
    assert trainer.progress.fallbacks == 1


@pytest.mark.usefixtures("judged_by_epoch")
@pytest.mark.parametrize(("last", "patience"), [(4.5, None), (4.0, 2)])
def test_an_alarm_that_the_validation_does_not_confirm_is_raised_only_once_and_costs_no_patience(
    tmp_path: Path, last: float, patience: int | None
) -> None:
    task = diverging([2.0, 2.0, 4.0, 4.0, last, 4.0], [3.0] * 9)
    trainer = trained(tmp_path, task, epochs=6, validate_every="2 epochs", patience=patience)
    assert watched(trainer).validated == [8, 12, 16, 24]  # 12 is not due: the second one without improvement is 24


@pytest.mark.usefixtures("judged_by_epoch")
def test_going_back_to_the_best_weights_of_a_trial_raises_no_alarm(tmp_path: Path) -> None:
    task = diverging([2.0, 2.0, 0.5, 0.5, 2.0, 2.0], [1.0, 2.0, 0.9])
    settings: dict[str, Any] = {"schedule": "plateau-trials", "patience": 1, "validate_every": "2 epochs"}
    trainer = trained(tmp_path, task, epochs=6, **settings)
    assert trainer.progress.trials_lost == 1 and watched(trainer).validated == [8, 16, 24]


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_validation_loss_that_is_no_number_is_a_divergence(tmp_path: Path, loss: float) -> None:
    trainer = trained(tmp_path, Fit([{"valid_loss": value} for value in (3.0, loss, 2.0)]))
    assert trainer.progress.fallbacks == 1 and trainer.run.status() == RunStatus(last=12, best=12)


def test_weights_whose_loss_is_no_number_are_not_the_best_for_long(tmp_path: Path) -> None:
    found = [{"valid_loss": loss, "valid_bleu": 0.0} for loss in (math.nan, 5.0, 4.0)]
    trainer = trained(tmp_path, Fit(found), select_by="bleu")
    assert (trainer.progress.best_step, trainer.progress.best_loss) == (12, 4.0)


def test_before_there_are_best_weights_there_is_nothing_to_go_back_to(tmp_path: Path) -> None:
    trainer = trained(tmp_path, Fit([{"valid_loss": value} for value in (math.nan, math.nan, 2.0)]))
    assert trainer.progress.fallbacks == 0 and trainer.run.status() == RunStatus(last=12, best=12)


@pytest.mark.usefixtures("judged_by_epoch")
def test_weights_that_are_ruined_again_before_their_level_is_first_judged_are_a_divergence_too(tmp_path: Path) -> None:
    with pytest.raises(WeftError, match="has diverged for the 5th time, at step 24"):
        trained(tmp_path, diverging([2.0] + [9.0] * 9, [3.0] + [9.0] * 9), epochs=10)


@pytest.mark.usefixtures("judged_by_epoch")
def test_a_level_that_one_validation_accepted_is_a_divergence_when_a_later_one_is_bad(tmp_path: Path) -> None:
    """As with a moving average, which is still good while the weights that it follows are not."""
    trainer = trained(tmp_path, diverging([2.0, 2.0, 3.2, 3.5], [3.0, 3.1, 3.5, 4.5]), epochs=4)
    assert [row.get("back_to") for row in logged(trainer) if "valid_loss" in row] == [None, None, None, 4]


@pytest.mark.usefixtures("judged_by_epoch")
def test_a_run_that_diverges_again_and_again_ends_with_one_clear_error_and_its_best_weights(tmp_path: Path) -> None:
    epochs = 20
    task = diverging([2.0, 9.0] * epochs, [3.0] + [9.0] * epochs)
    trainer = make_trainer(tmp_path, task, epochs=epochs)
    with pytest.raises(WeftError) as caught:
        train(trainer)
    assert "has diverged for the 5th time, at step 40" in str(caught.value)
    assert "with the learning rate at 0.0625 of the recipe's" in str(caught.value)
    status = trainer.run.status()
    assert status == RunStatus(last=36, best=4)
    assert watched(trainer).messages[-1].endswith("the learning rate is multiplied by 0.0625 from here on (4 of 4)")


@pytest.mark.usefixtures("judged_by_epoch")
def test_infinite_divergence_is_none(tmp_path: Path) -> None:
    task = diverging([2.0, 9.0, 9.0], [3.0, 9.0, math.nan])
    trainer = trained(tmp_path, task, divergence=math.inf)
    assert trainer.progress.fallbacks == 0 and watched(trainer).validated == [4, 8, 12]


DIVERGING_RECIPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "averaged": {"ema_decay": 0.8},
    "muon": {"optimizer": "muon", "learning_rate": 0.01},
    "mean of the best": {"average_best": 2},
    "trials": {"schedule": "plateau-trials", "patience": 2, "trials": 9},
}


@pytest.mark.usefixtures("judged_by_epoch")
@pytest.mark.parametrize("stop_after", [8, 11, 12, 13])
@pytest.mark.parametrize("name", DIVERGING_RECIPES)
def test_a_run_that_diverged_is_resumed_bit_for_bit(tmp_path: Path, name: str, stop_after: int) -> None:
    nll, valid = [2.0, 1.9, 9.0, 2.2, 2.0, 2.0], [3.0, 2.5, 9.0, 2.4, 9.0, 9.0, 2.0]

    def task(validated: int) -> Fit:
        return diverging(nll, valid, validated)

    straight = assert_resumes(
        tmp_path, task, stop_after, {"epochs": 6, **DIVERGING_RECIPES[name]}, name=f"diverging {name}"
    )
    assert straight.progress.fallbacks == 1


# Validation, the best weights, patience


@pytest.mark.parametrize(
    ("metric", "values", "best"),
    [
        ("loss", [3.0, 2.0, 2.5, 2.0, 1.0], [4, 8, 20]),
        ("accuracy", [0.3, 0.2, 0.4, 0.4, 0.1], [4, 12]),  # equal, and so is the loss
        ("bleu", [10.0, 12.0, 11.0, 30.0, 29.0], [4, 8, 16]),
        ("loss", [math.nan, 5.0, math.nan, 4.0, 6.0], [4, 8, 16]),
    ],
    ids=["loss falls", "accuracy rises", "bleu rises", "nan is never better than a number"],
)
def test_the_best_weights_are_those_of_the_best_metric(
    tmp_path: Path, metric: str, values: list[float], best: list[int]
) -> None:
    task = Fit([{"valid_loss": 2.0, f"valid_{metric}": value} for value in values])
    trainer = trained(tmp_path, task, epochs=5, select_by=metric)
    assert watched(trainer).validated == [4, 8, 12, 16, 20]
    assert watched(trainer).best == best
    assert trainer.run.status() == RunStatus(last=20, best=best[-1])
    assert kept(trainer) == {20, best[-1]}


@pytest.mark.parametrize(
    ("found", "patience", "epochs", "last", "best"),
    [
        ((5.0, 9.0, 8.0, 9.0, 99.0), 2, 50, 16, 8),  # two validations, at steps 12 and 16, without anything better
        ((5.0, 4.0, 6.0, 5.0, 5.0), 2, 50, 20, 12),  # better at the last moment
        ((5.0, 4.0), 1, 2, 8, 4),  # at the last step anyway
    ],
)
def test_training_stops_when_patience_is_lost_and_the_best_weights_are_kept(
    tmp_path: Path, found: tuple[float, ...], patience: int, epochs: int, last: int, best: int
) -> None:
    task = Fit([{"valid_loss": 2.0, "valid_bleu": bleu} for bleu in found])
    trainer = trained(tmp_path, task, epochs=epochs, select_by="bleu", patience=patience)
    assert trainer.progress.step == last and trainer.is_finished()
    assert trainer.run.status() == RunStatus(last=last, best=best)
    message = f"patience has run out: no better bleu in 2 validations; training ends at step {last} of 200"
    assert watched(trainer).messages == ([message] if last < 4 * epochs else [])


def test_the_last_step_is_always_validated(tmp_path: Path) -> None:
    trainer = trained(tmp_path, Fit(), validate_every="5 steps")
    assert watched(trainer).validated == [5, 10, 12]


def test_checkpoints_may_come_more_often_than_validations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer(tmp_path, Fit(), validate_every="2 epochs", checkpoint_every="3 steps")
    saved: list[int] = []
    monkeypatch.setattr(trainer, "checkpoint", lambda: saved.append(trainer.progress.step))
    train(trainer)
    assert saved == [3, 6, 8, 9, 12]
    assert watched(trainer).validated == [8, 12]


def test_dropout_is_on_in_training_and_off_in_validation(tmp_path: Path) -> None:
    trainer = trained(tmp_path, Fit())  # the task asserts the second half
    trainer.update(next(Numbers().epoch(0)))
    assert trainer.model.training


def test_a_metric_that_the_task_does_not_measure_is_refused_with_those_that_it_does(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="'blue' is not measured by this task, only loss, accuracy, bleu; did you mean b"
    ):
        make_trainer(tmp_path, Fit(), select_by="blue")


def test_a_checkpoint_of_the_time_when_sums_had_fixed_names_is_read() -> None:
    trained = Progress(step=7, window=Window({"loss": 3.0, "nll": 2.0}, 5, 1.5), level=LossLevel(2.5, 6, 4, newest=1.0))
    older = dataclasses.asdict(trained)
    older["window"] = {"loss": 3.0, "nll": 2.0, "tokens": 5, "seconds": 1.5}
    older["level"] = {"nll": 2.5, "tokens": 6, "updates": 4, "newest": 1.0, "lowest": None, "accepted": None}
    assert Progress.from_json(older) == Progress.from_json(dataclasses.asdict(trained)) == trained


@pytest.mark.parametrize(
    ("metric", "values", "steps"),
    [
        ("bleu", [20.0, 19.95, 19.0], {4, 8, 12}),
        ("bleu", [20.0, 19.95, 19.0, 18.0], {4, 8, 16}),
        ("bleu", [20.0, 19.95, 19.0, 20.04, 10.0], {4, 8, 16, 20}),  # 19.95 is within 0.5 % of 20.04
        ("bleu", [20.0, 19.95, 19.0, 20.2, 10.0], {16, 20}),
        ("loss", [2.0, 2.009, 2.011, 3.0], {4, 8, 16}),
        ("loss", [2.0, math.nan, 3.0], {4, 12}),
    ],
)
def test_checkpoints_near_the_best_are_kept_until_it_moves_away(
    tmp_path: Path, metric: str, values: list[float], steps: set[int]
) -> None:
    task = Fit([{f"valid_{metric}": value} for value in values])
    trainer = trained(tmp_path, task, epochs=len(values), select_by=metric, keep_within=0.005)
    assert kept(trainer) == steps


# Rates that validations lower


@pytest.mark.parametrize("metric", ["bleu", "loss"])
@pytest.mark.parametrize("patience", [0, 2])
def test_plateau_lowers_the_rate_when_torch_does(tmp_path: Path, metric: str, patience: int) -> None:
    torch.manual_seed(patience)
    values = torch.randint(1, 12, (60,)).double().tolist()
    settings: dict[str, Any] = {"plateau_factor": 0.5, "plateau_patience": patience, "min_learning_rate": 1e-4}
    task = Fit([{"valid_loss": 2.0, f"valid_{metric}": value} for value in values])
    trainer = make_trainer(
        tmp_path, task, select_by=metric, schedule="plateau", learning_rate=0.01, epochs=100, **settings
    )
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.01)
    mode = "max" if metric == "bleu" else "min"
    oracle = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, mode, factor=0.5, patience=patience, threshold=0, min_lr=1e-4, eps=0
    )
    rates = []
    for value in values:
        trainer.progress.step += 1
        trainer.validate(is_due=True)
        oracle.step(value)
        rates.append(0.01 * trainer.progress.rate_scale)
        assert rates[-1] == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
    assert rates[-1] == pytest.approx(1e-4) and len(set(rates)) > 5


def test_the_rate_of_plateau_rises_is_lowered_and_logged(tmp_path: Path) -> None:
    task = Fit([{"valid_loss": loss} for loss in (1.0, 2.0, 2.0, 2.0)])
    settings: dict[str, Any] = {"plateau_patience": 1, "plateau_factor": 0.5, "warmup": 2, "learning_rate": 0.01}
    trainer = trained(tmp_path, task, schedule="plateau", epochs=4, **settings)
    rates = [row["learning_rate"] for row in logged(trainer) if "loss" in row]
    assert rates == pytest.approx([0.005, *[0.01] * 11, *[0.005] * 4])
    assert watched(trainer).messages == ["no improvement: the learning rate is multiplied by 0.5 from here on"]


def test_on_a_plateau_at_the_least_rate_nothing_is_said_of_lowering_it(tmp_path: Path) -> None:
    task = Fit([{"valid_loss": 1.0}] * 5)
    settings: dict[str, Any] = {"plateau_patience": 0, "plateau_factor": 0.5, "min_learning_rate": 4e-3}
    trainer = trained(tmp_path, task, schedule="plateau", epochs=5, learning_rate=0.01, **settings)
    rates = ["no improvement: the learning rate is multiplied by 0.5 from here on"]
    assert watched(trainer).messages == [*rates, "no improvement: the learning rate is multiplied by 0.4 from here on"]


def trials_by_hand(values: list[float], patience: int, trials: int) -> tuple[list[int], int, int]:
    """Where a run of these validation losses goes back, which is its best and after which it stops, counted from 1."""
    went_back, best, bad, lost = [], 0, 0, 0
    for number, value in enumerate(values, start=1):
        if best == 0 or value < values[best - 1]:
            best, bad = number, 0
            continue
        bad += 1
        if bad == patience:
            lost, bad = lost + 1, 0
            if lost == trials:
                return went_back, best, number
            went_back.append(number)
    return went_back, best, len(values)


@pytest.mark.parametrize("seed", range(6))
def test_trials_go_back_and_stop_where_they_should(tmp_path: Path, seed: int) -> None:
    torch.manual_seed(seed)
    values = torch.randint(1, 30, (14,)).double().tolist()
    patience, trials = 1 + seed % 3, 1 + seed % 4
    task = Fit([{"valid_loss": value} for value in values])
    settings: dict[str, Any] = {"plateau_factor": 0.5, "learning_rate": 0.01, "warmup": 1, "min_learning_rate": 0.0}
    trainer = trained(
        tmp_path, task, schedule="plateau-trials", patience=patience, trials=trials, epochs=len(values), **settings
    )
    went_back, best, stopped = trials_by_hand(values, patience, trials)
    assert trainer.run.status() == RunStatus(last=4 * stopped, best=4 * best)
    rates = [row["learning_rate"] for row in logged(trainer) if "loss" in row]
    expected = [0.01 * 0.5 ** sum(back < number for back in went_back) for number in range(1, stopped + 1)]
    assert rates[::4] == pytest.approx(expected) and rates[3::4] == pytest.approx(expected)


def test_a_trial_begins_with_the_best_weights_and_the_optimizer_as_it_was_then(tmp_path: Path) -> None:
    task = Fit([{"valid_loss": loss} for loss in (2.0, 1.0, 3.0, 3.0)])
    settings: dict[str, Any] = {"patience": 1, "trials": 2, "epochs": 9, "learning_rate": 0.01, "warmup": 1}
    trainer = trained(tmp_path, task, schedule="plateau-trials", **settings)
    assert watched(trainer).messages == [
        "patience has run out (1 of 2): back to the weights of step 8, "
        "the learning rate is multiplied by 0.7 from here on",
        "patience has run out (2 of 2): no better loss in 1 validation; training ends at step 16 of 36",
    ]
    # The same by hand: from the weights and moments of step 8 on, the batches of steps 13 to 16 at the lower rate.
    twin = make_trainer(tmp_path / "twin", Fit(), schedule="constant", learning_rate=0.007, warmup=1, epochs=9)
    shutil.copytree(trainer.run.checkpoint(8), twin.run.checkpoint(8))
    twin.load(8)
    twin.progress.step = 12
    for batch in Numbers().epoch(3):
        twin.update(batch)
        twin.advance(1)
    assert same(weights(trainer), weights(twin))


def test_more_trials_go_on_as_if_they_had_been_there_from_the_start(tmp_path: Path) -> None:
    losses = [{"valid_loss": loss} for loss in (2.0, 1.0, 3.0, 3.0, 3.0, 3.0)]
    settings: dict[str, Any] = {"schedule": "plateau-trials", "patience": 1, "epochs": 9}
    straight = trained(tmp_path / "straight", Fit(losses), trials=4, **settings)
    first = trained(tmp_path / "run", Fit(losses), trials=2, **settings)
    assert (first.progress.step, straight.progress.step) == (16, 24)
    longer = trained(tmp_path / "run", Fit(losses[4:]), begin=16, trials=4, **settings)
    assert same(weights(longer), weights(straight)) and longer.run.status() == straight.run.status()


def test_a_trial_goes_back_to_a_mean_where_that_is_the_best(tmp_path: Path) -> None:
    losses = [{"valid_loss": loss} for loss in (2.0, 1.0, 3.0, 0.5)]  # the last one is that of the mean
    settings: dict[str, Any] = {"schedule": "plateau-trials", "patience": 1, "epochs": 9, "average_last": 2}
    first = trained(tmp_path, Fit(losses), trials=1, **settings)
    step = first.progress.step
    assert (step, first.progress.best_step) == (12, 12)
    longer = make_trainer(tmp_path, Fit(), trials=2, **settings)
    longer.restore(step)
    trained_on = weights(longer)
    longer.progress.validations_since_best = 1
    longer.restore_best_after_lost_patience()
    best = longer.read_weights(longer.run.checkpoint(step))
    assert all(torch.equal(best[name], weight) for name, weight in longer.model.named_parameters())
    assert not same(weights(longer), trained_on)


# Averages


def test_the_moving_average_is_validated_and_saved_and_the_raw_weights_are_trained(tmp_path: Path) -> None:
    raw = trained(tmp_path / "raw", Fit(), epochs=1, validate_every="1 step")
    task = Fit()
    trainer = make_trainer(tmp_path / "run", task, epochs=1, validate_every="1 step", ema_decay=0.25)
    average = weights(trainer)
    train(trainer)
    assert isinstance(raw.task, Fit)
    for seen, new, decay in zip(task.validated, raw.task.validated, (2 / 11, 0.25, 0.25, 0.25), strict=True):
        average = [decay * mine + (1 - decay) * its for mine, its in zip(average, new, strict=True)]
        for mine, its in zip(seen, average, strict=True):
            torch.testing.assert_close(mine, its)
    assert same(weights(trainer), weights(raw))  # the raw weights never know of their average
    assert same(saved(trainer, 4), task.validated[-1])
    tensors = load_file(trainer.run.checkpoint(4) / "training.safetensors")
    assert same([tensors[f"weights.{name}"] for name, _ in trainer.model.named_parameters()], weights(raw))


def test_an_update_that_is_left_out_moves_no_average(tmp_path: Path) -> None:
    task = Fit()
    task.poisoned = {1}
    trainer = make_trainer(tmp_path, task, ema_decay=0.5)
    assert trainer.average is not None
    before = [tensor.clone() for tensor in trainer.average.values()]
    trainer.update(next(Numbers().epoch(0)))
    assert same(list(trainer.average.values()), before)


def validated_with(losses: list[float], mean: float) -> Fit:
    return Fit([{"valid_loss": loss} for loss in (*losses, mean)])


@pytest.mark.parametrize(
    ("setting", "numbers"), [({"average_last": 2}, [3, 4]), ({"average_best": 3}, [1, 2, 4])], ids=["last", "best"]
)
def test_a_mean_of_checkpoints_that_is_better_becomes_the_model(
    tmp_path: Path, setting: dict[str, Any], numbers: list[int]
) -> None:
    task = validated_with([3.0, 2.0, 9.0, 4.0], mean=1.0)
    trainer = trained(tmp_path, task, epochs=4, **setting)
    steps = [4 * number for number in numbers]
    assert len(task.validated) == 5
    for index, found in enumerate(saved(trainer, 16)):
        exact = sum(task.validated[number - 1][index].double() for number in numbers) / len(numbers)
        assert torch.equal(found, torch.as_tensor(exact).float())
    assert same(task.validated[-1], saved(trainer, 16))
    assert trainer.run.status() == RunStatus(last=16, best=16) and trainer.progress.best_value == 1.0
    assert same(weights(trainer), task.validated[3])  # what training would go on with
    assert logged(trainer)[-1]["mean_of"] == steps and logged(trainer)[-1]["valid_loss"] == 1.0
    listed = ", ".join(map(str, steps))
    assert watched(trainer).messages == [
        f"the mean of the weights of steps {listed} is better and becomes the model: loss 1, the best so far 2"
    ]


def test_a_mean_of_checkpoints_that_is_not_better_is_dropped_and_said_to_be(tmp_path: Path) -> None:
    task = validated_with([3.0, 2.0, 9.0, 4.0], mean=2.0)
    trainer = trained(tmp_path, task, epochs=4, average_last=3)
    assert trainer.run.status() == RunStatus(last=16, best=8)
    assert same(saved(trainer, 16), weights(trainer))
    (message,) = watched(trainer).messages
    assert message.endswith("steps 8, 12, 16 is not better and is dropped: loss 2, the best so far 2")
    assert watched(trainer).best == [4, 8]


def test_only_the_checkpoints_that_the_mean_may_need_are_kept(tmp_path: Path) -> None:
    for key, steps in (("average_last", {4, 16, 20}), ("average_best", {4, 8, 20})):
        task = validated_with([1.0, 2.0, 4.0, 3.0, 9.0], mean=5.0)
        settings: dict[str, Any] = {"epochs": 5, key: 2}
        trainer = trained(tmp_path / key, task, **settings)
        assert kept(trainer) == steps


def test_a_mean_does_not_give_patience_back(tmp_path: Path) -> None:
    task = validated_with([2.0, 3.0, 3.0], mean=1.0)
    trainer = trained(tmp_path, task, epochs=50, patience=2, average_best=2)
    assert trainer.progress.step == 12 and trainer.is_finished()
    assert trainer.run.status() == RunStatus(last=12, best=12)


def test_more_epochs_after_a_mean_go_on_from_the_weights_before_it(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"schedule": "constant", "warmup": 1, "average_last": 2}
    straight = trained(tmp_path / "straight", validated_with([3.0, 2.5, 2.8], mean=2.0), epochs=3, **settings)
    first = trained(tmp_path / "run", validated_with([3.0, 2.5], mean=2.2), epochs=2, **settings)
    assert first.run.status() == RunStatus(last=8, best=8)
    longer = trained(tmp_path / "run", validated_with([2.8], mean=2.0), begin=8, epochs=3, **settings)
    assert longer.run.status() == RunStatus(last=12, best=12)
    assert same(weights(longer), weights(straight)) and same(saved(longer, 12), saved(straight, 12))


# Logs


def test_the_logged_loss_is_the_mean_over_the_tokens_since_the_last_line(tmp_path: Path) -> None:
    every, fourth = (trained(tmp_path / str(n), Fit(), log_every=n, epochs=1) for n in (1, 4))
    losses = [row["loss"] for row in logged(every) if "loss" in row]
    (row,) = [row for row in logged(fourth) if "loss" in row]
    assert row["loss"] == pytest.approx(sum(losses) / 4)
    assert row["numbers"] == sum(row["numbers"] for row in logged(every) if "loss" in row)
    assert (row["step"], row["epoch"]) == (4, 1.0)
    assert {"learning_rate", "grad_norm", "numbers_per_second", "seconds"} <= row.keys()


def test_each_validation_leaves_a_line_and_its_samples_and_the_last_step_a_line_of_training(tmp_path: Path) -> None:
    trainer = trained(tmp_path, Fit(), log_every=100)
    rows = logged(trainer)
    assert [row["step"] for row in rows if "valid_loss" in row] == [4, 8, 12]
    (last,) = (row for row in rows if "loss" in row)
    assert last["step"] == 12 and last["update_ratio"] is not None
    task = Fit()
    task.bad_batches = {(2, 3)}
    of_skipped = logged(trained(tmp_path / "skipped", task, log_every=11))
    assert [row["step"] for row in of_skipped if "loss" in row] == [11]  # step 12 has nothing to log
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
    trainer = trained(tmp_path, Fit(), validate_every="2m", epochs=4)
    # A step is one look at the clock; a validation one, which is over when the interval begins; a checkpoint two.
    assert watched(trainer).validated == [5, 8, 11, 14, 16]


@pytest.mark.parametrize("text", ["0 steps", "0.0m", "5", "soon", "-1 epoch", "1 epoch ", "5 minutes", "1e3 steps", ""])
def test_other_words_are_no_interval(text: str) -> None:
    with pytest.raises(ValidationError, match="expected an interval such as"):
        TrainingConfig(validate_every=text)


@pytest.mark.parametrize("key", ["validate_every", "checkpoint_every"])
def test_a_bare_whole_number_is_an_interval_in_steps(key: str) -> None:
    assert getattr(TrainingConfig.model_validate({key: 50}), key) == "50 steps"
    for value in (0, -3):
        with pytest.raises(ValidationError, match="expected an interval such as"):
            TrainingConfig.model_validate({key: value})


def test_one_way_to_say_the_batch_size() -> None:
    assert TrainingConfig().batch_tokens == 4096
    assert TrainingConfig(batch_sentences=32).batch_tokens is None
    with pytest.raises(ValidationError, match="conflicts with batch_tokens"):
        TrainingConfig(batch_tokens=100, batch_sentences=32)


@pytest.mark.parametrize(
    ("settings", "problems"),
    [
        ({"nesterov": True}, {"nesterov": 'has no effect with optimizer = "adamw", only with sgd; name one of them'}),
        ({"optimizer": "sgd", "epsilon": 1e-6}, {"epsilon": 'with optimizer = "sgd", only with adam, adamw, muon'}),
        (
            {"momentum": 0.9, "final_share": 0.1, "trials": 3},
            {"momentum": "with sgd, muon", "final_share": "with cosine, linear", "trials": "with plateau-trials"},
        ),
        ({"optimizer": "sgd", "nesterov": True, "momentum": 0.0}, {"nesterov": "above 0"}),
        ({"schedule": "plateau", "learning_rate": 1e-6}, {"min_learning_rate": "is above learning_rate = 1e-06"}),
        ({"schedule": "plateau", "min_learning_rate": 1e-2}, {"min_learning_rate": "= 0.001, its default; give both"}),
        ({"schedule": "plateau-trials"}, {"patience": "is required"}),
        (
            {"teachers": ("a",), "distill_weight": 1.0, "z_loss": 1e-4},
            {"z_loss": "has no effect with distill_weight = 1"},
        ),
        (
            {"teachers": ("a",), "distill_weight": 1.0, "label_smoothing": 0.2},
            {"label_smoothing": "has no effect with distill_weight = 1"},
        ),
        ({"average_last": 1}, {"average_last": "must be 0 or at least 2"}),
        ({"average_last": 2, "average_best": 2}, {"average_best": "conflicts with average_last"}),
        (
            {"ema_decay": 0.9, "average_last": 2, "average_best": 2},
            {"average_last": "with ema_decay", "average_best": "with ema_decay"},
        ),
    ],
    ids=str,
)
def test_keys_that_would_do_nothing_or_contradict_each_other_are_all_named(
    settings: dict[str, Any], problems: dict[str, str]
) -> None:
    with pytest.raises(ValidationError) as caught:
        Config(**settings)
    found = caught.value.errors()[0]["ctx"]["error"].problems  # type: ignore[typeddict-item]
    assert [problem.field for problem in found] == list(problems)
    assert all(problems[problem.field] in problem.what for problem in found)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_with_every_default_spelled_out_is_the_same_recipe(name: str) -> None:
    config = Config(**RECIPES[name])
    assert Config(**dict(config)) == config
