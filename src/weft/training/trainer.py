"""The training loop. It improves any task on any batches and knows neither text nor translation.

What a step does is in `Trainer.update`; when things happen is in `Trainer.train`. Everything that the future of a run
depends on is the model, the optimizer and `Progress`: the learning rate, the dropout and the order of the data are
functions of the step, the seed and the epoch. So a checkpoint is small, and a resumed run takes the very steps that
an uninterrupted one would.
"""

import math
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

import torch
from pydantic import Field, field_validator, model_validator
from torch import nn

from weft.config import FieldProblem, Settings
from weft.errors import RunError, Stopped, WeftError
from weft.runtime import derive_seed
from weft.training.optimizers import OPTIMIZERS
from weft.training.run_folder import RunFolder, optimizer_tensors, restore_optimizer
from weft.training.schedules import SCHEDULES, Horizon
from weft.training.task import Batches, Evaluation, Task

INTERVAL = re.compile(r"(\d{1,9}(?:\.\d+)?) ?(steps?|epochs?|m|h)")

# Which way each metric improves.
SELECTABLE: dict[str, Literal["max", "min"]] = {"bleu": "max", "accuracy": "max", "loss": "min"}

MOST_SKIPPED = 10
"""Updates in a row whose gradient may be infinite or NaN before the run gives up."""


DecayRate = Annotated[float, Field(ge=0, lt=1)]


class TrainingConfig(Settings):
    batch_tokens: int | None = Field(default=None, ge=16, le=10_000_000)
    """Tokens a side and batch, padding counted (4096 where batch_sentences is left out too)."""
    batch_sentences: int | None = Field(default=None, ge=1, le=1_000_000)
    """Pairs in a batch, instead of batch_tokens."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Of the activations; auto: bf16 where the hardware multiplies it natively. Parameters are always fp32."""
    optimizer: Literal["adamw"] = "adamw"
    """How gradients become updates."""
    learning_rate: float = Field(default=1e-3, gt=0, le=100)
    """The highest rate of the schedule (for noam: its factor)."""
    betas: tuple[DecayRate, DecayRate] = (0.9, 0.98)
    """Decay rates of AdamW's two moments."""
    epsilon: float = Field(default=1e-9, gt=0, le=1)
    """Added to the root of AdamW's second moment."""
    weight_decay: float = Field(default=0.01, ge=0, le=10)
    """Share of each matrix, times the rate, that an update takes away."""
    schedule: Literal["constant", "onecycle", "noam"] = "onecycle"
    """The learning rate over the steps."""
    warmup: float = Field(default=0.08, ge=0, le=1_000_000_000)
    """How long the rate rises: below 1 a share of all steps, from 1 on a number of steps."""
    clip_norm: float = Field(default=1.0, gt=0)
    """Longest gradient; a longer one is scaled down to it (inf: none is)."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """Share of the probability that is spread over the whole vocabulary."""
    epochs: int = Field(default=20, ge=1, le=100_000)
    """Passes over the training data, at most."""
    log_every: int = Field(default=20, ge=1)
    """Steps between two lines of metrics.jsonl."""
    validate_every: str = "1 epoch"
    """Time between validations, such as "200 steps", "1 epoch", "5m"; the last step is always validated."""
    checkpoint_every: str | None = None
    """Time between checkpoints, in the same words; every validation writes one anyway."""
    select_by: Literal["bleu", "accuracy", "loss"] = "bleu"
    """The validation metric that chooses the best weights and stops early."""
    patience: int | None = Field(default=None, ge=1)
    """Validations without improvement before training stops; left out: never."""
    init: str | None = None
    """A model or run folder whose weights, vocabulary and model settings training begins with."""

    @model_validator(mode="before")
    @classmethod
    def _some_batch_size(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("batch_tokens") is None and values.get("batch_sentences") is None:
            return {**values, "batch_tokens": 4096}
        return values

    @model_validator(mode="after")
    def _one_batch_size(self) -> "TrainingConfig":
        if self.batch_tokens is not None and self.batch_sentences is not None:
            raise FieldProblem("batch_sentences", "is given beside batch_tokens; give one of them")
        return self

    @field_validator("validate_every", "checkpoint_every")
    @classmethod
    def _is_an_interval(cls, text: str | None) -> str | None:
        if text is not None and (not (match := INTERVAL.fullmatch(text)) or float(match[1]) == 0):
            raise ValueError('expected a time such as "200 steps", "1 epoch" or "5m"')
        return text

    def horizon(self, steps_per_epoch: int, model_dim: int) -> Horizon:
        """Steps in all and of warm-up, for the schedule."""
        total = self.epochs * steps_per_epoch
        warmup = self.warmup * total if self.warmup < 1 else self.warmup
        return Horizon(total_steps=total, warmup_steps=max(1, round(warmup)), model_dim=model_dim)


class Interval:
    """A recipe's "200 steps", "0.5 epoch" or "5m"."""

    def __init__(self, text: str, steps_per_epoch: int) -> None:
        match = INTERVAL.fullmatch(text)
        assert match is not None  # TrainingConfig has checked it
        number, unit = float(match[1]), match[2]
        self.seconds = number * {"m": 60, "h": 3600}[unit] if unit in ("m", "h") else None
        self.steps = max(1, round(number * (steps_per_epoch if unit.startswith("epoch") else 1)))

    def is_due(self, step: int, seconds_since: float) -> bool:
        return step % self.steps == 0 if self.seconds is None else seconds_since >= self.seconds


@dataclass
class Window:
    """Sums over the steps since the last line of metrics.jsonl."""

    loss: float = 0.0
    nll: float = 0.0
    tokens: int = 0
    steps: int = 0
    seconds: float = 0.0


@dataclass
class Progress:
    """Where a run stands: with the model and the optimizer, all that a checkpoint holds."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    best_value: float | None = None
    best_step: int | None = None
    validations_since_best: int = 0
    validated_at: float = 0.0
    checkpointed_at: float = 0.0
    skipped: int = 0
    window: Window = field(default_factory=Window)

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> "Progress":
        return cls(**{**state, "window": Window(**state["window"])})


@runtime_checkable
class Listener(Protocol):
    """Whoever shows a person how training goes. Listeners watch, they do not steer."""

    def on_message(self, text: str) -> None: ...

    def on_log(self, row: dict[str, Any], total_steps: int) -> None: ...

    def on_validation(self, row: dict[str, Any], samples: list[dict[str, str]], is_best: bool) -> None: ...


Model = TypeVar("Model", bound=nn.Module)
Batch = TypeVar("Batch", bound="MovableBatch")


@runtime_checkable
class MovableBatch(Protocol):
    def to(self, device: torch.device) -> Any:
        """The same batch on a device."""
        ...


class Trainer(Generic[Model, Batch]):
    """Drives one run from wherever it stands to its end."""

    def __init__(
        self,
        model: Model,
        task: Task[Model, Batch],
        batches: Batches[Batch],
        config: TrainingConfig,
        *,
        run: RunFolder,
        write_model: Callable[[Path, Progress], None],
        listener: Listener,
        seed: int,
        model_dim: int,
        device: torch.device,
        identity: dict[str, Any],
    ) -> None:
        """`write_model(folder, progress)` writes a complete model folder; `identity` is kept in every checkpoint."""
        self.model, self.task, self.batches, self.config = model, task, batches, config
        self.run, self.write_model, self.listener = run, write_model, listener
        self.seed, self.device, self.identity = seed, device, identity
        self.steps_per_epoch = batches.steps_per_epoch()
        self.horizon = config.horizon(self.steps_per_epoch, model_dim)
        self.validation_interval = Interval(config.validate_every, self.steps_per_epoch)
        self.checkpoint_interval = Interval(config.checkpoint_every or config.validate_every, self.steps_per_epoch)
        self.optimizer = OPTIMIZERS[config.optimizer](
            model,
            learning_rate=config.learning_rate,
            betas=config.betas,
            epsilon=config.epsilon,
            weight_decay=config.weight_decay,
        )
        self.progress = Progress()
        self._clock = time.monotonic()

    def train(self, stop: "StopRequest") -> Progress:
        """Take all steps that are left; raises Stopped, with everything saved, when a signal asks for it."""
        while not self.is_finished():
            for batch in self.batches.epoch(self.progress.epoch, self.progress.batch):
                self.update(batch)
                self.advance()
                self.log_when_due()
                stops = stop.requested  # read once: a signal that comes later is for the next step
                is_last = self.progress.step == self.horizon.total_steps
                if is_last or self.is_due(self.validation_interval, self.progress.validated_at):
                    self.validate()
                    self.checkpoint()
                elif stops or self.is_due(self.checkpoint_interval, self.progress.checkpointed_at):
                    self.checkpoint()
                if stops:
                    stop.honor(f"stopped at step {self.progress.step} and saved")
                if self.is_finished():
                    break
        return self.progress

    def update(self, batch: Batch) -> None:
        """One step: forward, backward, clip, move."""
        step = self.progress.step + 1
        torch.manual_seed(derive_seed(self.seed, "step", step))
        rate = SCHEDULES[self.config.schedule](step, self.config.learning_rate, self.horizon)
        for group in self.optimizer.param_groups:
            group["lr"] = rate

        self.model.train()
        self.optimizer.zero_grad()
        loss = self.task.loss(self.model, batch.to(self.device))
        (loss.total / loss.tokens).backward()
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm))
        if math.isfinite(norm):
            self.optimizer.step()
        self.count_skipped(is_skipped=not math.isfinite(norm))

        window = self.progress.window
        window.loss += float(loss.total.detach())
        window.nll += loss.nll
        window.tokens += loss.tokens
        window.steps += 1
        self.learning_rate, self.grad_norm = rate, norm

    def count_skipped(self, *, is_skipped: bool) -> None:
        """An update with an infinite or NaN gradient is left out; too many in a row end the run."""
        self.progress.skipped = self.progress.skipped + 1 if is_skipped else 0
        if self.progress.skipped >= MOST_SKIPPED:
            raise WeftError(
                f"the gradient was infinite or NaN in {MOST_SKIPPED} updates in a row, the last at step "
                f"{self.progress.step + 1}; "
                'lower training.learning_rate, or set training.precision = "fp32"; the last checkpoint is intact'
            )

    def advance(self) -> None:
        """Move the place in the data behind the batch just used, and the clock."""
        progress = self.progress
        progress.step += 1
        progress.batch += 1
        if progress.batch == self.steps_per_epoch:
            progress.epoch, progress.batch = progress.epoch + 1, 0
        passed = self.tick()
        progress.window.seconds += passed

    def tick(self) -> float:
        """Seconds since the last tick, added to the run's."""
        now = time.monotonic()
        passed, self._clock = now - self._clock, now
        self.progress.seconds += passed
        return passed

    def is_due(self, interval: Interval, since: float) -> bool:
        return interval.is_due(self.progress.step, self.progress.seconds - since)

    def is_finished(self) -> bool:
        """All steps taken, or patience lost."""
        patience = self.config.patience
        lost = patience is not None and self.progress.validations_since_best >= patience
        return lost or self.progress.step >= self.horizon.total_steps

    def log_when_due(self) -> None:
        progress, window = self.progress, self.progress.window
        if progress.step % self.config.log_every:
            return
        row = {
            "step": progress.step,
            "epoch": round(progress.step / self.steps_per_epoch, 4),
            "loss": window.loss / window.tokens,
            "nll": window.nll / window.tokens,
            "learning_rate": self.learning_rate,
            "grad_norm": self.grad_norm,
            "target_tokens_per_second": round(window.tokens / max(window.seconds, 1e-9), 1),
            "seconds": round(progress.seconds, 3),
        }
        self.run.append("metrics.jsonl", row)
        self.listener.on_log(row, self.horizon.total_steps)
        progress.window = Window()

    def validate(self) -> None:
        """Measure the model on held-out data, and remember whether it is the best so far."""
        self.model.eval()
        with torch.inference_mode():
            evaluation = self.task.evaluate(self.model)
        self.tick()
        progress = self.progress
        is_best = self.is_better(evaluation)
        if is_best:
            progress.best_value, progress.best_step = evaluation.metrics[self.selected_metric], progress.step
        progress.validations_since_best = 0 if is_best else progress.validations_since_best + 1
        progress.validated_at = progress.seconds
        place = {"step": progress.step, "epoch": round(progress.step / self.steps_per_epoch, 4)}
        row = {**place, **evaluation.metrics, "seconds": round(progress.seconds, 3)}
        self.run.append("metrics.jsonl", row)
        self.run.append("samples.jsonl", {**place, "samples": evaluation.samples})
        self.listener.on_validation(row, evaluation.samples, is_best)

    @property
    def selected_metric(self) -> str:
        return f"valid_{self.config.select_by}"

    def is_better(self, evaluation: Evaluation) -> bool:
        value, best = evaluation.metrics[self.selected_metric], self.progress.best_value
        if best is None or math.isnan(best):
            return True
        return value > best if SELECTABLE[self.config.select_by] == "max" else value < best

    def checkpoint(self) -> None:
        """Save everything; the time it takes is the run's, but no step's."""
        progress = self.progress
        self.tick()
        progress.checkpointed_at = progress.seconds
        state = {**self.identity, "progress": asdict(progress)}
        self.run.save(
            progress.step,
            lambda folder: self.write_model(folder, progress),
            optimizer_tensors(self.optimizer),
            state,
            best=progress.best_step,
        )
        self.tick()

    def restore(self, step: int) -> None:
        """Go on from this checkpoint, whose weights the caller has put into the model."""
        tensors, state = self.run.load(step)
        try:
            restore_optimizer(self.optimizer, tensors)
            self.progress = Progress.from_json(state["progress"])
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{self.run.checkpoint(step)} does not fit this run: {error!r}") from None
        self.run.cut_logs(step)
        self._clock = time.monotonic()


class StopRequest:
    """Whether a signal has asked the work to stop."""

    requested = False

    def honor(self, what_happened: str) -> None:
        """Raise Stopped where a signal has asked for it; called where all that matters is on disk."""
        if self.requested:
            raise Stopped(f"{what_happened}; the same command goes on from here")


@contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """Turn the first SIGINT or SIGTERM into a request that can be honored in a good moment; a second one interrupts."""
    stop = StopRequest()

    def ask(number: int, frame: object) -> None:
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    try:
        previous = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread, where Python delivers no signals
        previous = {}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
