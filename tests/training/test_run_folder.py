"""What is on the disk is whole at every moment, whoever is killed whenever; and only one process writes."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from weft.errors import ModelError, RunError, WeftError
from weft.training.config import TrainingConfig
from weft.training.optimizers import WEIGHT_DECAY, make_optimizer
from weft.training.run_folder import RunFolder, RunStatus, committed_folder, optimizer_tensors, restore_optimizer


class Killed(BaseException):
    """What no code catches."""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run with a checkpoint at step 1."""
    run = RunFolder(tmp_path / "run")
    with run.locked():
        save(run, 1, best=1)
    return run


def save(run: RunFolder, step: int, *, best: int | None, write: Callable[[Path], object] | None = None) -> None:
    def write_model(folder: Path) -> None:
        (folder / "model").write_text(f"weights of step {step}", encoding="utf-8")
        if write is not None:
            write(folder)

    run.save(step, write_model, {"t": torch.full((3,), float(step))}, {"step": step}, best=best)


def is_as_saved(run: RunFolder, step: int) -> bool:
    tensors, state = run.load(step)
    weights = (run.checkpoint(step) / "model").read_text(encoding="utf-8")
    return tensors["t"].tolist() == [step] * 3 and state == {"step": step} and weights == f"weights of step {step}"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# Checkpoints


def test_a_checkpoint_gives_back_what_was_saved_and_is_the_last_one(run: RunFolder) -> None:
    assert is_as_saved(run, 1)
    assert run.status() == RunStatus(last=1, best=1)
    assert json.loads((run.path / "run.json").read_text(encoding="utf-8")) == {
        "last": "checkpoints/step-1",
        "best": "checkpoints/step-1",
        "finished": False,
    }


def test_only_the_last_and_the_best_checkpoint_are_kept(run: RunFolder) -> None:
    for step, best in ((2, 2), (3, 2), (4, 2), (5, 5), (6, 5)):
        save(run, step, best=best)
        assert names(run.checkpoints) == {f"step-{step}", f"step-{best}"}


def test_checkpoints_that_are_asked_for_are_kept_as_long_as_they_are(run: RunFolder) -> None:
    for step, keep in ((2, [1]), (3, [1, 2]), (4, [2]), (5, [])):
        run.save(step, lambda folder: None, {}, {}, best=None, keep=keep)
        assert names(run.checkpoints) == {f"step-{kept}" for kept in (step, *keep)}


@pytest.mark.parametrize("moment", ["while the model is written", "before the rename", "before run.json is replaced"])
def test_a_process_killed_while_it_saves_leaves_the_state_before(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda *_, **__: None)  # the dead tidy nothing up
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        if moment == "before the rename":
            patch.setattr(os, "rename", die)
        if moment == "before run.json is replaced":
            patch.setattr(os, "replace", die)
        with pytest.raises(Killed):
            save(run, 2, best=2, write=die if moment == "while the model is written" else None)

    assert run.status() == RunStatus(last=1, best=1)
    assert is_as_saved(run, 1)
    assert len(names(run.checkpoints)) == 2  # the wreck, or a whole checkpoint that nothing names yet

    run.sweep(keep={1})
    assert names(run.checkpoints) == {"step-1"}
    assert names(run.path) == {"checkpoints", "run.json", "lock"}
    save(run, 2, best=2)
    assert run.status() == RunStatus(last=2, best=2) and is_as_saved(run, 2)


def test_a_checkpoint_is_never_seen_half_written(tmp_path: Path) -> None:
    target, seen = tmp_path / "step-1", []
    with committed_folder(target) as folder:
        (folder / "a").write_text("a", encoding="utf-8")
        seen.append(target.exists())
        (folder / "b").write_text("b", encoding="utf-8")
    assert seen == [False]
    assert names(target) == {"a", "b"} and names(tmp_path) == {"step-1"}


def test_a_checkpoint_that_is_swept_is_never_seen_half_removed(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(folder: Path, **_: object) -> None:
        if folder.exists():
            raise Killed

    with run.locked():
        save(run, 2, best=1)
        monkeypatch.setattr(shutil, "rmtree", killed)
        with pytest.raises(Killed):
            run.sweep(keep={1})
    assert names(run.checkpoints) == {"step-1", ".step-2.removed"}
    monkeypatch.undo()
    run.sweep(keep={1})
    assert names(run.checkpoints) == {"step-1"}


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on file sizes")
def test_a_full_disk_is_one_clear_error_and_what_was_saved_is_intact(run: RunFolder) -> None:
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    large = {"t": torch.zeros(10_000)}
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        with pytest.raises(RunError, match=r"step-2 could not be written: .*File too large.* is intact"):
            run.save(2, lambda folder: None, large, {}, best=None)
        with pytest.raises(RunError, match=r"step-2 could not be written: .*; what was saved before is intact"):
            save(run, 2, best=None, write=lambda folder: (folder / "large").write_bytes(bytes(10_000)))
        with pytest.raises(RunError, match=r"metrics\.jsonl could not be written: .*; the last checkpoint is intact"):
            run.append("metrics.jsonl", {"text": "x" * 10_000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert run.status() == RunStatus(last=1, best=1) and is_as_saved(run, 1)
    assert names(run.checkpoints) == {"step-1"}


def test_a_folder_that_may_no_longer_be_written_is_one_clear_error_wherever_it_is_met(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.append("metrics.jsonl", {"step": 1})

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    for owner, name in ((Path, "mkdir"), (os, "fsync"), (os, "rename"), (Path, "rename"), (os, "replace")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, refused)
            with pytest.raises(WeftError, match="could not be written: Permission denied"):
                save(run, 2, best=None)
        run.sweep(keep={1, 2})
        shutil.rmtree(run.checkpoint(2), ignore_errors=True)
        assert is_as_saved(run, 1)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        with pytest.raises(RunError, match="could not be written: Permission denied"):
            run.clear()


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"last": 3}', '{"last": "step", "best": null, "finished": false}', "[" * 100_000]
)
def test_a_damaged_run_json_is_said_to_be_one(run: RunFolder, damage: str) -> None:
    (run.path / "run.json").write_text(damage, encoding="utf-8")
    with pytest.raises(RunError, match=r"run\.json is damaged; restore it, or start a new run in another folder"):
        run.status()


def test_a_damaged_checkpoint_is_said_to_be_one(run: RunFolder) -> None:
    (run.checkpoint(1) / "training.safetensors").write_bytes(b"\x00" * 20)
    with pytest.raises(ModelError, match="cannot be read"):
        run.load(1)


def test_one_bit_of_the_optimizer_flipped_is_noticed(run: RunFolder) -> None:
    path = run.checkpoint(1) / "training.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ModelError, match=r"training\.safetensors  was changed or damaged: its sha256 is not that in"):
        run.load(1)


# Logs


def test_lines_after_the_checkpoint_and_torn_ones_are_taken_back(run: RunFolder) -> None:
    for step in (10, 20, 30):
        run.append("metrics.jsonl", {"step": step, "loss": 1 / step})
        run.append("samples.jsonl", {"step": step, "samples": ["你好"]})
    before = (run.path / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    with open(run.path / "metrics.jsonl", "ab") as file:
        file.write(b'{"step": 20, "los')
    run.cut_logs(20)
    assert (run.path / "metrics.jsonl").read_bytes() == b"".join(before[:2])
    samples = (run.path / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["step"] for line in samples] == [10, 20]


@pytest.mark.parametrize("torn", [b"{", b'{"loss": 3}', b"3", b"\xff\xfe", b'{"step": "x"}', b"\x00" * 50, b"[]"])
def test_a_line_that_is_no_log_line_belongs_to_no_step(run: RunFolder, torn: bytes) -> None:
    (run.path / "metrics.jsonl").write_bytes(b'{"step": 1}\n' + torn + b"\n")
    run.cut_logs(5)
    assert (run.path / "metrics.jsonl").read_bytes() == b'{"step": 1}\n'


# Who may write

HOLD = (
    "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); input()"
)


def test_another_process_in_the_folder_keeps_this_one_out_until_it_ends(run: RunFolder) -> None:
    command = [sys.executable, "-c", HOLD, str(run.path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(RunError, match=r"another process works in .*; wait for it"), run.locked():
            pass
        other.kill()
    with run.locked():
        assert run.status() == RunStatus(last=1, best=1)


def test_this_process_keeps_another_one_out(run: RunFolder) -> None:
    with run.locked():
        attempt = HOLD.replace("LOCK_EX", "LOCK_EX | fcntl.LOCK_NB")
        command = [sys.executable, "-c", attempt, str(run.path / "lock")]
        other = subprocess.run(command, capture_output=True, text=True, input="\n", check=False)
    assert "BlockingIOError" in other.stderr and other.stdout == ""


def test_a_run_that_fails_before_its_first_checkpoint_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(WeftError), RunFolder(tmp_path / "runs" / "new").locked():
        raise WeftError("the corpus is broken")
    assert names(tmp_path) == set()


def test_the_empty_folder_for_checkpoints_that_a_killed_process_left_goes_with_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    with RunFolder(tmp_path).locked(to_prepare=True):
        (tmp_path / "corpus").mkdir()
    assert names(tmp_path) == {"corpus"}


def test_an_empty_folder_that_was_there_before_stays(tmp_path: Path) -> None:
    with pytest.raises(WeftError, match="the corpus is broken"), RunFolder(tmp_path).locked():
        raise WeftError("the corpus is broken")
    assert names(tmp_path) == set()


def test_a_folder_of_something_else_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "mine").mkdir(parents=True)
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    with pytest.raises(RunError, match=r"is not a run: it holds README\.md; choose a new folder"):
        RunFolder(tmp_path).locked().__enter__()
    assert names(tmp_path) == {"checkpoints", "README.md"} and names(tmp_path / "checkpoints") == {"mine"}


@pytest.mark.parametrize(
    ("found", "offered"), [(["step-9", "step-17"], "step-17"), (["step-1000.ckpt"], None), ([".git"], None)], ids=str
)
def test_checkpoints_that_no_run_json_names_are_refused_and_left_as_they_were(
    tmp_path: Path, found: list[str], offered: str | None
) -> None:
    for name in found:
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    with pytest.raises(RunError, match=r"but there is no run\.json") as refused:
        RunFolder(tmp_path).locked().__enter__()
    weights = str(refused.value).partition("training.init=")[2]
    assert weights == ("" if offered is None else str(tmp_path / "checkpoints" / offered))
    assert names(tmp_path) == {"checkpoints"} and names(tmp_path / "checkpoints") == set(found)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("my run", "--run 'my run-2', from its weights with --set 'training.init=my run/checkpoints/step-7'"),
        (".", "--run {here}-2, from its weights with --set training.init=checkpoints/step-7"),
        ("..", "--run {parent}-2, from its weights with --set training.init=../checkpoints/step-7"),
    ],
)
def test_the_advised_options_can_be_pasted_whatever_the_path_of_the_run(
    tmp_path: Path, path: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    advice = f"start a new run: {words.format(here=Path.cwd(), parent=tmp_path)}"
    assert RunFolder(Path(path)).advise_new_run(7) == advice
    assert RunFolder(Path(path)).advise_new_run() == advice.partition(", from")[0]


@pytest.mark.parametrize("seal", ["training.safetensors", "training.json"])
@pytest.mark.parametrize("value", [None, "0" * 64], ids=["null", "another"])
def test_a_seal_that_does_not_fit_is_refused_by_the_name_of_its_file(
    run: RunFolder, seal: str, value: str | None
) -> None:
    file = run.checkpoint(1) / "training.json"
    state = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**state, "sha256": {**state["sha256"], seal: value}}), encoding="utf-8")
    with pytest.raises(ModelError, match=rf"{seal} +was changed or damaged"):
        run.load(1)


def test_a_checkpoint_of_the_time_when_only_tensors_were_sealed_is_still_read(run: RunFolder) -> None:
    file = run.checkpoint(1) / "training.json"
    state = json.loads(file.read_text(encoding="utf-8"))
    del state["sha256"]["training.json"]
    file.write_text(json.dumps(state), encoding="utf-8")
    assert is_as_saved(run, 1)


def test_what_a_run_left_that_was_killed_before_it_had_begun_is_no_hindrance(tmp_path: Path) -> None:
    for wreck in ("step-0", ".step-0.4711", ".abc_1234"):
        (tmp_path / "checkpoints" / wreck).mkdir(parents=True)
    run = RunFolder(tmp_path)
    with run.locked():
        run.clear()
        save(run, 0, best=None)
    assert names(run.checkpoints) == {"step-0"} and is_as_saved(run, 0)


def test_many_that_come_at_once_enter_one_by_one(tmp_path: Path) -> None:
    inside, refused, most = [], [], []

    def enter() -> None:
        for _ in range(30):
            try:
                with RunFolder(tmp_path / "run").locked():
                    inside.append(1)
                    most.append(len(inside))
                    inside.pop()
            except RunError as error:
                refused.append(error)

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1 and len(most) + len(refused) == 120


def test_a_file_in_the_place_of_the_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match=r"the run folder .* cannot be written"), RunFolder(tmp_path / "run").locked():
        pass


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_one_clear_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(RunError, match="cannot be written"), RunFolder(tmp_path / "run").locked():
            pass
    finally:
        tmp_path.chmod(0o700)


# The optimizer


def small_model(name: str) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    settings: dict[str, Any] = {"optimizer": name, "learning_rate": 1e-2, "weight_decay": 0.01}
    config = TrainingConfig(**settings, nesterov=name == "sgd")
    return model, make_optimizer(model, config, torch.float32)


def take_steps(model: nn.Module, optimizer: torch.optim.Optimizer, count: int) -> None:
    for _ in range(count):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("name", WEIGHT_DECAY)
def test_a_step_after_the_optimizer_was_stored_and_restored_is_the_same_bit_for_bit(run: RunFolder, name: str) -> None:
    straight, straight_optimizer = small_model(name)
    take_steps(straight, straight_optimizer, 5)
    run.save(2, lambda folder: None, optimizer_tensors(straight_optimizer), {}, best=None)

    resumed, resumed_optimizer = small_model(name)
    resumed.load_state_dict(straight.state_dict())
    restore_optimizer(resumed_optimizer, run.load(2)[0])
    for model, optimizer in ((straight, straight_optimizer), (resumed, resumed_optimizer)):
        take_steps(model, optimizer, 2)
    assert all(torch.equal(a, b) for a, b in zip(straight.parameters(), resumed.parameters(), strict=True))


@pytest.mark.parametrize("name", WEIGHT_DECAY)
def test_an_optimizer_that_has_not_moved_yet_is_restored_to_that(name: str) -> None:
    model, optimizer = small_model(name)
    before = optimizer_tensors(optimizer)
    assert before == {}
    take_steps(model, optimizer, 2)
    restore_optimizer(optimizer, before)
    again, fresh = small_model(name)
    again.load_state_dict(model.state_dict())
    take_steps(model, optimizer, 1)
    take_steps(again, fresh, 1)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
