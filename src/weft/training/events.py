"""Event files for TensorBoard: every number in the lines of metrics.jsonl, under the name of its key."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.errors import needing
from weft.training.run_folder import reporting_write_errors, step_of
from weft.training.task import Listener

FOLDER = "tensorboard"
NOT_SHOWN = ("step", "seconds", "epoch")
"""Keys that say when."""


@contextmanager
def writing_events(run: Path, listener: Listener) -> Iterator[Listener]:
    """A listener that passes on what it is told, and keeps the events in RUN/tensorboard equal to metrics.jsonl.

    Raises MissingExtraError without tensorboardX.
    """
    with needing("tensorboardX, which writes event files,", "track"):
        import tensorboardX.event_file_writer  # noqa: F401 (before anything is trained)
    events = Events(run, listener)
    try:
        yield events
        if (run / "metrics.jsonl").exists():  # also of a run that was finished before
            events.begin()
    finally:
        if events.writer is not None:
            events.writer.close()


class Events:
    """The listener, which writes once the run has begun: before that, the folder is not that of a run."""

    def __init__(self, run: Path, listener: Listener) -> None:
        self.run, self.listener = run, listener
        self.writer: Any = None
        self.proto: Any = None
        self.began = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.listener, name)  # also the methods that a listener need not have

    def on_message(self, text: str) -> None:
        self.listener.on_message(text)

    def on_log(self, row: dict[str, Any], total_steps: int) -> None:
        self.write(row)
        self.listener.on_log(row, total_steps)

    def on_validation(self, row: dict[str, Any], samples: list[dict[str, str]], is_best: bool) -> None:
        self.write(row)
        self.listener.on_validation(row, samples, is_best)

    def write(self, row: dict[str, Any]) -> None:
        """Write a line that metrics.jsonl has just got."""
        with reporting_write_errors(self.run / FOLDER):
            if self.writer is None:
                self.begin()
            else:
                self.add(row)
                self.writer.flush()

    def begin(self) -> None:
        """Write all lines so far anew, unless that was done: a run that is resumed has cut its lines back."""
        if self.writer is not None:
            return
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2

        self.proto = event_pb2
        for old in (self.run / FOLDER).glob("events.out.tfevents.*"):
            old.unlink()
        (self.run / FOLDER).mkdir(exist_ok=True)
        self.writer = EventsWriter(str(self.run / FOLDER / "events"))
        # a TensorBoard that has read the old files forgets them
        start = self.proto.SessionLog(status=self.proto.SessionLog.START)
        self.writer.write_event(self.proto.Event(step=0, session_log=start))
        lines = (self.run / "metrics.jsonl").read_bytes().split(b"\n")
        rows = [json.loads(line) for line in lines if step_of(line) < float("inf")]
        self.began = time.time() - max((row.get("seconds", 0) for row in rows), default=0)
        for row in rows:
            if "budget_seconds" not in row:  # a summary, no point of a curve
                self.add(row)
        self.writer.flush()

    def add(self, row: dict[str, Any]) -> None:
        event = self.proto.Event(wall_time=self.began + row.get("seconds", 0), step=row["step"])
        for key, value in row.items():
            if isinstance(value, int | float) and key not in NOT_SHOWN:
                event.summary.value.add(tag=tag_of(key), simple_value=value)
        self.writer.write_event(event)


def tag_of(key: str) -> str:
    """TensorBoard puts charts whose names begin alike into one section."""
    return f"valid/{key.removeprefix('valid_')}" if key.startswith("valid_") else f"train/{key}"
