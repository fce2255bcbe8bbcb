"""`weft train --tensorboard`: the event files hold what metrics.jsonl holds, also after a run was resumed."""

import json
import math
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.watching import Watcher, tiny_recipe

from weft.errors import MissingExtraError, Stopped
from weft.runs.train import train
from weft.training.events import NOT_SHOWN, tag_of

RECIPE = tiny_recipe(training={"epochs": 3, "validate_every": "2 steps"})


def events(run: Path) -> list[tuple[int, dict[str, float]]]:
    """The steps and the scalars in the event files of a run, as TensorBoard reads them."""
    from tensorboardX.proto import event_pb2

    proto: Any = event_pb2
    found = []
    for file in sorted((run / "tensorboard").iterdir()):
        content = file.read_bytes()
        while content:  # a length, its checksum, an event, its checksum
            (length,) = struct.unpack("<Q", content[:8])
            event = proto.Event.FromString(content[12 : 12 + length])
            if event.summary.value:
                found.append((event.step, {value.tag: value.simple_value for value in event.summary.value}))
            content = content[16 + length :]
    return found


def metrics(run: Path) -> Iterator[tuple[int, Any]]:
    for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        numbers = {tag_of(key): value for key, value in row.items() if key not in NOT_SHOWN and value is not None}
        yield row["step"], pytest.approx(numbers, rel=1e-5)  # events hold them in fp32


def test_a_run_has_its_metrics_as_events_also_where_it_was_stopped_and_resumed(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With events, without them and without the library, and with them again."""
    run = tmp_path / "run"
    with pytest.raises(Stopped):
        train(RECIPE, run=run, data=tiny_run, listener=Watcher(signal_at=3), tensorboard=True)
    assert [step for step, _ in events(run)] == [1, 2, 2, 3]
    with open(run / "metrics.jsonl", "a", encoding="utf-8") as file:  # as of a process that was killed later
        file.write(json.dumps({"step": 4, "loss": math.pi}) + "\n")
    with pytest.raises(Stopped), monkeypatch.context() as without:
        without.setitem(sys.modules, "tensorboardX", None)
        train(RECIPE, run=run, data=tiny_run, listener=Watcher(signal_at=4))
    train(RECIPE, run=run, data=tiny_run, tensorboard=True)
    assert events(run) == list(metrics(run))
    assert [step for step, _ in events(run)] == [1, 2, 2, 3, 4, 4, 5, 6, 6]
    (file,) = (run / "tensorboard").iterdir()
    file.unlink()
    train(RECIPE, run=run, data=tiny_run, tensorboard=True)  # it is finished
    assert events(run) == list(metrics(run))


def test_without_the_library_nothing_begins(tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX.event_file_writer", None)
    with pytest.raises(MissingExtraError, match=r"\[track\]"):
        train(RECIPE, run=tmp_path / "run", data=tiny_run, tensorboard=True)
    assert not (tmp_path / "run").exists()
