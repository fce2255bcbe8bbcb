"""What a person sees while a model trains: a live display in a terminal, plain lines anywhere else, all on stderr."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from weft.cli.clock import PLAIN_EVERY, clock
from weft.tasks.training import Silent
from weft.training.distributed import is_first_process
from weft.training.task import Listener


@contextlib.contextmanager
def choose_display() -> Iterator[Listener]:
    """The display that suits stderr, for as long as the block runs; of several processes the first one shows it."""
    if not is_first_process():
        yield Silent()
    elif sys.stderr.isatty():
        with LiveDisplay() as display:
            yield display
    else:
        yield PlainDisplay()


class PlainDisplay:
    """One line at intervals, for logs and pipes."""

    def __init__(self) -> None:
        self.said_at = -PLAIN_EVERY

    def on_message(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def on_log(self, row: dict[str, Any], total_steps: int) -> None:
        if row["seconds"] - self.said_at < PLAIN_EVERY:
            return
        self.said_at = row["seconds"]
        left = row["seconds"] / row["step"] * (total_steps - row["step"])
        self.on_message(
            f"step {row['step']:,}/{total_steps:,}  epoch {row['epoch']:.2f}  loss {row['loss']:.3f}  "
            f"{row['target_tokens_per_second']:,.0f} tokens/s  rate {row['learning_rate']:.2e}  "
            f"norm {row['grad_norm']:.2f}  left {clock(left)}"
        )

    def on_validation(self, row: dict[str, Any], samples: list[dict[str, str]], is_best: bool) -> None:
        self.on_message(describe_validation(row, is_best))
        for sample in samples:
            self.on_message(f"    {sample['source']}\n    = {sample['reference']}\n    > {sample['hypothesis']}")


class LiveDisplay:
    """A progress bar with the newest figures; validations scroll by above it."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.progress = Progress(
            BarColumn(bar_width=24),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps"),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            refresh_per_second=4,
        )
        self.task: TaskID | None = None

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.progress.stop()

    def on_message(self, text: str) -> None:
        self.console.print(Text(text))

    def on_log(self, row: dict[str, Any], total_steps: int) -> None:
        if self.task is None:
            self.task = self.progress.add_task("", total=total_steps, completed=row["step"])
        figures = (
            f"loss [bold]{row['loss']:.3f}[/]  {row['target_tokens_per_second']:,.0f} tokens/s  "
            f"rate {row['learning_rate']:.1e}  norm {row['grad_norm']:.2f}"
        )
        self.progress.update(self.task, completed=row["step"], total=total_steps, description=figures)

    def on_validation(self, row: dict[str, Any], samples: list[dict[str, str]], is_best: bool) -> None:
        if self.task is not None:
            self.progress.update(self.task, completed=row["step"])
        self.console.print(describe_validation(row, is_best), style="bold" if is_best else "", highlight=False)
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for sample in samples:
            table.add_row(
                Text(sample["source"]), Text(sample["reference"], style="dim"), Text(sample["hypothesis"], style="cyan")
            )
        self.console.print(table)


def describe_validation(row: dict[str, Any], is_best: bool) -> str:
    best = ", the best so far" if is_best else ""
    usual = ("valid_loss", "valid_accuracy", "valid_bleu")
    chosen_by = [name for name in row if name.startswith("valid_") and name not in usual]
    others = "".join(f", {name.removeprefix('valid_')} {row[name]:.4g}" for name in chosen_by)
    return (
        f"validation at step {row['step']:,} (epoch {row['epoch']:.2f}, {clock(row['seconds'])}): "
        f"loss {row['valid_loss']:.3f}, accuracy {100 * row['valid_accuracy']:.1f} %, "
        f"BLEU {row['valid_bleu']:.2f}{others}{best}"
    )
