"""Two processes that train one model on a CPU, each on its rows of every batch.

The tests compare them with one process on the whole batches. The two run this file as a program, once for all tests:
`main` goes through the scenarios below and leaves what it finds in a folder.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from weft.errors import (
    FailedElsewhere,
    LostTouch,
    MemoryRanOut,
    MissingExtraError,
    RunError,
    Stopped,
    UsageError,
)
from weft.training import distributed
from weft.training.config import TrainingConfig
from weft.training.distributed import ALONE, Ranks, buckets, join, joined
from weft.training.metric import Metric
from weft.training.run_folder import RunFolder, optimizer_tensors
from weft.training.signals import stop_on_signal
from weft.training.task import Evaluation, Loss
from weft.training.trainer import Trainer

ROWS = (5, 1, 4, 3)
"""Of the batches of an epoch: one process of two has fewer rows than the other, or none."""

TOLERANCE = 1e-6

PROCESSES = 2


class Net(nn.Module):
    """Layers whose rows are no multiple of the processes; each may be left out, as with layer_dropout."""

    def __init__(self, dropout: float, skipped: float, generator: torch.Generator | None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(5, 5) for _ in range(3))
        self.output = nn.Linear(5, 1)
        self.dropout, self.skipped, self.generator = nn.Dropout(dropout), skipped, generator

    def forward(self, x: Tensor) -> Tensor:
        takes_part = (torch.rand(3, generator=self.generator) >= self.skipped) | torch.tensor(not self.training)
        for layer, is_in in zip(self.layers, takes_part.tolist(), strict=True):
            x = x + self.dropout(layer(x).tanh()) if is_in else x
        return self.output(x)


class Rows:
    """Batches of random rows, the same in every process, which takes its part of them."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Tensor]:
        numbers = torch.Generator().manual_seed(epoch)
        batches = [torch.randn(rows, 5, generator=numbers) for rows in ROWS]
        for batch in batches[start:]:
            yield batch[self.ranks.rank :: self.ranks.size]

    def steps_per_epoch(self) -> int:
        return len(ROWS)


class Fit:
    """Fits a number; at a step something may happen to this process alone."""

    metrics = (Metric("loss", "min", "loss"),)
    counts = "rows"

    def __init__(self, ranks: Ranks, mishap: str = "", at: int = 0) -> None:
        self.ranks, self.mishap, self.at, self.calls = ranks, mishap, at, 0

    def loss(self, model: nn.Module, batch: Tensor) -> Loss:
        self.calls += 1
        happens = self.calls == self.at and self.ranks.rank == self.ranks.size - 1
        if happens and self.mishap == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
        if happens and self.mishap == "memory":
            raise torch.OutOfMemoryError("out of memory")
        total = (model(batch) - 3).square().sum()
        if happens and self.mishap == "nan":
            total = total * float("nan")
        return Loss(total, len(batch), {"squares": total.detach()})

    def evaluate(self, model: nn.Module) -> Evaluation:
        return Evaluation(metrics={"valid_loss": float((model(torch.ones(1, 5)) - 3).square())})


class Quiet:
    def __init__(self) -> None:
        self.messages: list[str] = []
        self.validated: list[int] = []

    def on_message(self, text: str) -> None:
        self.messages.append(text)

    def on_log(self, row: dict[str, Any], total_steps: int) -> None: ...

    def on_validation(self, row: dict[str, Any], samples: list[dict[str, str]], is_best: bool) -> None:
        self.validated.append(row["step"])


Settings = dict[str, Any]

SCENARIOS: dict[str, Settings] = {
    "plain": {},
    "accumulated": {"accumulate": 3},
    "skipping layers": {"skipped": 0.5, "optimizer": "adam", "epsilon": 1e-3},
    "moving average": {"ema_decay": 0.8},
    "mean of the last": {"average_last": 3, "validate_every": "2 steps"},
    "muon": {"optimizer": "muon", "weight_decay": 0.1},
    "nan": {"mishap": "nan", "at": 3},
    "memory": {"mishap": "memory", "at": 3},
    "memory, skipping layers": {"mishap": "memory", "at": 3, "skipped": 0.5, "optimizer": "adam", "epsilon": 1e-3},
}
"""Runs without dropout, which two processes take as one does."""

RANDOM: Settings = {"dropout": 0.3, "skipped": 0.3, "optimizer": "adamw"}
"""A run that is stopped and continued."""


def make_trainer(folder: Path, ranks: Ranks, settings: Settings) -> Trainer[nn.Module, Tensor]:
    chosen = {"epochs": 3, "log_every": 1, "optimizer": "sgd", "learning_rate": 0.02, **settings}
    dropout, skipped = chosen.pop("dropout", 0.0), chosen.pop("skipped", 0.0)
    task = Fit(ranks, chosen.pop("mishap", ""), chosen.pop("at", 0))
    torch.manual_seed(7)
    model = Net(dropout, skipped, ranks.common)

    def write_model(folder: Path, _: object) -> None:
        save_file(dict(model.state_dict()), folder / "weights.safetensors")

    run = RunFolder(folder, ranks)
    if ranks.is_first:
        run.checkpoints.mkdir(parents=True, exist_ok=True)
    return Trainer(
        model,
        task,
        Rows(ranks),
        TrainingConfig(**chosen),
        run=run,
        write_model=write_model,
        read_weights=lambda folder: ranks.from_first(load_file, folder / "weights.safetensors"),
        describe_batch=lambda batch: {"pairs": [{"first": round(row[0].item(), 4)} for row in batch]},
        listener=Quiet(),
        seed=1,
        width=5,
        device=torch.device("cpu"),
        identity={},
        ranks=ranks,
    )


def train(folder: Path, ranks: Ranks, settings: Settings) -> Trainer[nn.Module, Tensor]:
    trainer = make_trainer(folder, ranks, settings)
    with stop_on_signal(second_interrupts=False) as stop:
        trainer.train(stop)
    return trainer


def last(run: Path) -> Path:
    status = RunFolder(run).status()
    assert status is not None
    return run / "checkpoints" / f"step-{status.last}"


def logged(run: Path, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (run / name).read_text(encoding="utf-8").splitlines()]
    return [{k: v for k, v in row.items() if k not in ("seconds", "rows_per_second")} for row in rows]


# What each of the two processes does


def main(folder: Path) -> None:
    with joined() as ranks:
        found = talk(ranks)
        for name, settings in SCENARIOS.items():
            trainer = train(folder / name, ranks, settings)
            found[name] = {"messages": trainer.listener.messages, "parts": trainer.progress.parts}  # type: ignore[attr-defined]
            save_file(dict(trainer.model.state_dict()), folder / f"{name}.{ranks.rank}.safetensors")
        train(folder / "straight", ranks, RANDOM)
        found["stopped"] = stop_and_go_on(folder / "stopped", ranks, RANDOM)
        found["clocks"] = validate_by_the_clock(folder / "clocks", ranks)
    with joined() as ranks:  # as a program does that trains twice
        found["again"] = ranks.largest(ranks.rank)
        (folder / f"found.{ranks.rank}.json").write_text(json.dumps(found), encoding="utf-8")


def talk(ranks: Ranks) -> dict[str, Any]:
    """What `Ranks` answers here, where the processes have different things to say."""
    ranks.seed(5)
    ranks.common.manual_seed(5)
    found: dict[str, Any] = {
        "own draw": torch.rand(1).item(),
        "common draw": torch.rand(1, generator=ranks.common).item(),
    }
    found["first"] = ranks.as_first(f"of {ranks.rank}")
    found["largest"] = ranks.largest(ranks.rank, -ranks.rank)
    sums, counts = ranks.add_up([(torch.tensor(1.5), 0.1), (float(ranks.rank), torch.tensor(2.0**-40))], [2, 1 << 40])
    found["sums"] = [[float(x) for x in (*row, count)] for row, count in zip(sums, counts, strict=True)]
    for items in ([], ["a"], ["a", "b", "c", "d", "e"]):
        found[f"together {len(items)}"] = ranks.together([item.upper() for item in ranks.dealt_out(items)])
    distributed.BUCKET = 3
    tensors = [torch.full((rows, 2), ranks.rank + rows) for rows in (1, 1, 3)]
    ranks.add_up_in_place(tensors)
    found["in place"] = [tensor.tolist() for tensor in tensors]

    def fail() -> None:
        ranks.as_first("the first is alone in here")
        raise RunError("the disk is gone")

    try:
        ranks.from_first(fail)
    except (RunError, FailedElsewhere) as error:
        found["failure"] = [type(error).__name__, str(error), error.exit_code]
    return found


def stop_and_go_on(folder: Path, ranks: Ranks, settings: Settings) -> str:
    """Stop by a signal to the last process alone, in its sixth step, and go on; what was said then."""
    said = ""
    try:
        train(folder, ranks, {**settings, "mishap": "signal", "at": 6})
    except Stopped as stopped:
        said = str(stopped)
    trainer = make_trainer(folder, ranks, settings)
    status = trainer.run.status()
    assert status is not None
    trainer.restore(status.last)
    with stop_on_signal() as stop:
        trainer.train(stop)
    return said


def validate_by_the_clock(folder: Path, ranks: Ranks) -> list[int]:
    """Where every look at the clock is 25 seconds after the one before for the first process, and 1 for the other."""
    real, ticks = time.monotonic, iter(range(0, 10**6, 1 if ranks.rank else 25))
    time.monotonic = lambda: float(next(ticks))
    try:
        trainer = train(folder, ranks, {"validate_every": "2m", "epochs": 4})
    finally:
        time.monotonic = real
    return trainer.listener.validated  # type: ignore[attr-defined]


# What came of it


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which two processes have gone through all scenarios."""
    folder = tmp_path_factory.mktemp("together")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": str(PROCESSES), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, str(folder)],
            env={**os.environ, **world, "RANK": str(rank), "LOCAL_RANK": str(rank), "CUDA_VISIBLE_DEVICES": ""},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(PROCESSES)
    ]
    said = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * PROCESSES, said
    return folder


@pytest.fixture(scope="module")
def found(together: Path) -> list[dict[str, Any]]:
    return [json.loads((together / f"found.{rank}.json").read_text(encoding="utf-8")) for rank in range(PROCESSES)]


@pytest.mark.parametrize("name", SCENARIOS)
def test_two_processes_take_the_steps_of_one(together: Path, tmp_path: Path, name: str) -> None:
    train(tmp_path, ALONE, SCENARIOS[name])
    for file in ("weights.safetensors", "training.safetensors"):
        mine, its = load_file(last(tmp_path) / file), load_file(last(together / name) / file)
        assert mine.keys() == its.keys()
        for key in mine:
            torch.testing.assert_close(its[key], mine[key], rtol=0, atol=TOLERANCE)
    ours, theirs = logged(tmp_path), logged(together / name)
    assert len(ours) == len(theirs)
    for mine, its in zip(ours, theirs, strict=True):
        assert mine.keys() == its.keys()
        for key, value in mine.items():
            assert its[key] == (pytest.approx(value, rel=1e-5) if isinstance(value, float) else value), key


@pytest.mark.parametrize("name", SCENARIOS)
def test_all_processes_end_with_the_same_weights_bit_for_bit(together: Path, name: str) -> None:
    first, *others = (load_file(together / f"{name}.{rank}.safetensors") for rank in range(PROCESSES))
    assert all(torch.equal(first[key], other[key]) for other in others for key in first)


def test_a_signal_to_one_process_stops_all_at_one_step_and_they_go_on_bit_for_bit(
    together: Path, found: list[dict[str, Any]]
) -> None:
    assert {each["stopped"] for each in found} == {"stopped at step 6 and saved; the same command continues from here"}
    straight, stopped = together / "straight", together / "stopped"
    for file in ("weights.safetensors", "training.safetensors"):
        assert (last(straight) / file).read_bytes() == (last(stopped) / file).read_bytes()
    assert logged(straight) == logged(stopped)


def test_a_run_of_two_processes_goes_on_in_one(together: Path) -> None:
    settings = {**RANDOM, "dropout": 0.0, "skipped": 0.0, "optimizer": "adam", "epsilon": 1e-3}
    trainer = make_trainer(together / "straight", ALONE, settings)
    trainer.load(12)
    whole = load_file(last(together / "straight") / "weights.safetensors")
    assert all(torch.equal(whole[key], value) for key, value in trainer.model.state_dict().items())
    saved, _ = trainer.run.load(12)
    restored = optimizer_tensors(trainer.optimizer)
    assert restored and all(torch.equal(saved[name], tensor) for name, tensor in restored.items())


def test_a_step_that_is_no_number_in_one_process_is_left_out_by_all_and_all_its_rows_are_named(
    together: Path, tmp_path: Path
) -> None:
    train(tmp_path, ALONE, {"mishap": "nan", "at": 3})
    (mine,), (its,) = logged(tmp_path, "skipped.jsonl"), logged(together / "nan", "skipped.jsonl")
    assert mine["pairs"] == its["pairs"] and len(its["pairs"]) == ROWS[2]
    assert (mine["step"], mine["batch"]) == (its["step"], its["batch"]) == (3, 3)


def test_memory_that_runs_out_in_one_process_splits_the_batches_of_all(found: list[dict[str, Any]]) -> None:
    assert [each["memory"]["parts"] for each in found] == [2, 2]
    assert found[0]["memory"]["messages"] == ["memory ran out in another process: all compute a batch in 2 parts now"]


def test_a_batch_in_parts_leaves_out_the_layers_that_the_whole_one_does(tmp_path: Path) -> None:
    settings = {"skipped": 0.5, "optimizer": "adam", "epsilon": 1e-3}
    whole = train(tmp_path / "whole", ALONE, settings)
    parted = train(tmp_path / "parted", ALONE, {**settings, "mishap": "memory", "at": 3})
    assert (whole.progress.parts, parted.progress.parts) == (1, 2)
    for mine, its in zip(parted.model.parameters(), whole.model.parameters(), strict=True):
        torch.testing.assert_close(mine, its, rtol=0, atol=TOLERANCE)


def test_the_first_clock_says_when_to_validate(tmp_path: Path, found: list[dict[str, Any]]) -> None:
    assert found[0]["clocks"] == found[1]["clocks"] == [5, 8, 11, 14, 16]


def test_dropout_is_each_process_own_and_what_layers_take_part_is_drawn_by_all(found: list[dict[str, Any]]) -> None:
    first, second = found
    assert first["own draw"] != second["own draw"]
    torch.manual_seed(5)  # one process draws everything from this generator
    assert first["common draw"] == second["common draw"] == torch.rand(1).item()


def test_what_the_processes_tell_each_other(found: list[dict[str, Any]]) -> None:
    for each in found:
        assert each["first"] == "of 0" and each["again"] == [1]
        assert each["largest"] == [1, 0]
        assert each["sums"] == [[3.0, 0.2, 4], [1.0, 2.0**-39, float(1 << 41)]]
        assert [each[f"together {count}"] for count in (0, 1, 5)] == [[], ["A"], ["A", "B", "C", "D", "E"]]
        assert each["in place"] == [[[3, 3]], [[3, 3]], [[7, 7]] * 3]


def test_an_error_of_the_first_process_is_said_once_and_ends_all(found: list[dict[str, Any]]) -> None:
    assert [each["failure"] for each in found] == [
        ["RunError", "the disk is gone", 1],
        ["FailedElsewhere", "the disk is gone", 1],
    ]


# Without others


def test_buckets_keep_the_order_and_the_limit_except_for_what_is_larger() -> None:
    tensors = [torch.zeros(count) for count in (3, 4, 4, 9, 1, 0, 7)]
    assert [[t.numel() for t in bucket] for bucket in buckets(tensors, 8)] == [[3, 4], [4], [9], [1, 0, 7]]


def test_a_process_without_torchrun_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined() as ranks:
        assert ranks is ALONE and ranks.part == (0, 1)


def test_half_an_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="not RANK, LOCAL_RANK, MASTER_ADDR, MASTER_PORT; start several processes"):
        join()


@pytest.mark.parametrize(
    ("rank", "local_rank", "error", "raised"),
    [
        (0, 0, RunError("the folder is taken"), RunError),
        (4, 0, RunError("the folder is taken"), FailedElsewhere),  # the first says it
        (4, 0, MemoryRanOut("in this process"), MemoryRanOut),
        (4, 0, MissingExtraError("jieba", "zh"), MissingExtraError),
        (4, 0, RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:1. A hint."), LostTouch),
        (4, 0, RuntimeError("shapes do not match"), RuntimeError),
    ],
    ids=str,
)
def test_what_all_find_wrong_the_first_process_says_and_what_one_finds_that_one(
    monkeypatch: pytest.MonkeyPatch, rank: int, local_rank: int, error: Exception, raised: type[Exception]
) -> None:
    as_process(monkeypatch, rank, local_rank)
    monkeypatch.setattr(distributed, "join", lambda: Ranks(rank, 8))
    with pytest.raises(raised) as caught, joined():
        raise error
    assert type(caught.value) is raised
    if raised is LostTouch:
        assert str(caught.value).startswith("process 4 of 8 (counted from 0) has lost touch with another one")
        assert "Connection closed by peer [::1]:1)" in str(caught.value) and "A hint" not in str(caught.value)


@pytest.mark.parametrize(("local_rank", "raised"), [(0, UsageError), (1, FailedElsewhere)])
def test_what_is_wrong_with_a_machine_its_first_process_says(
    monkeypatch: pytest.MonkeyPatch, local_rank: int, raised: type[Exception]
) -> None:
    as_process(monkeypatch, 4 + local_rank, local_rank)
    monkeypatch.delenv("MASTER_PORT")
    with pytest.raises(raised, match="not MASTER_PORT"), joined():
        pass


def as_process(monkeypatch: pytest.MonkeyPatch, rank: int, local_rank: int) -> None:
    """What torchrun tells a process of eight."""
    world = {"WORLD_SIZE": 8, "RANK": rank, "LOCAL_RANK": local_rank, "LOCAL_WORLD_SIZE": 4, "MASTER_PORT": 1}
    for name, value in {**world, "MASTER_ADDR": "here"}.items():
        monkeypatch.setenv(name, str(value))


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "choose_device", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    as_process(monkeypatch, 0, 0)
    with pytest.raises(UsageError, match="4 processes for 2 GPUs; give --nproc-per-node 2"):
        join()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
