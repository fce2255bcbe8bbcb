"""The training loop. It improves any task on any batches and knows neither text nor translation.

What a step does is in `Trainer.update`; when things happen is in `Trainer.train`. Everything that the future of a run
depends on is the model, the optimizer and `Progress`: the learning rate, the dropout and the order of the data are
functions of the step, the seed and the epoch, and of what validations found. So a checkpoint is small, and a resumed
run takes the very steps that an uninterrupted one would.

What goes wrong on the way is met here too: a step that is no number is left out (`skip`), a batch that does not fit
into memory is computed in parts (`gradients`), and a run that diverges goes back to its best weights (`fall_back`).
"""

import math
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from weft.config import FieldProblem, FieldProblems, Settings
from weft.errors import MemoryRanOut, RunError, Stopped, WeftError
from weft.runtime import derive_seed
from weft.training.averaging import Weights, follow, holding, mean, put, weights_of
from weft.training.distributed import ALONE, Ranks, make_learner
from weft.training.losses import Loss
from weft.training.optimizers import OPTIMIZER_KEYS, make_optimizer
from weft.training.recovery import (
    FALLBACK_FACTOR,
    MOST_FALLBACKS,
    LossLevel,
    is_much_worse,
    is_out_of_memory,
    naming_lack_of_memory,
)
from weft.training.run_folder import (
    SKIPPED,
    RunFolder,
    weight_tensors,
    weights_in,
)
from weft.training.schedules import SCHEDULE_KEYS, SCHEDULES, Horizon
from weft.training.task import Batches, Evaluation, Task

INTERVAL = re.compile(r"(\d{1,9}(?:\.\d+)?) ?(steps?|epochs?|m|h)")

SELECTABLE: dict[str, Literal["max", "min"]] = {"bleu": "max", "accuracy": "max", "loss": "min"}
"""Which way each metric improves that a run can be led by: the choices of `select_by`, each a task's valid_NAME."""

MOST_EPOCHS = 100_000

DecayRate = Annotated[float, Field(ge=0, lt=1)]


class TrainingConfig(Settings):
    batch_tokens: int | None = Field(default=None, ge=16, le=10_000_000)
    """Tokens a side and batch, padding counted (4096 where batch_sentences is left out too)."""
    batch_sentences: int | None = Field(default=None, ge=1, le=1_000_000)
    """Pairs in a batch, instead of batch_tokens."""
    accumulate: int = Field(default=1, ge=1, le=100_000)
    """Batches that an update is made from, as if they were one."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Of the activations; auto: bf16 where the hardware multiplies it natively. Parameters are always fp32."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """Several processes (torchrun) hold the whole model each (ddp), or deal it out among themselves (fsdp)."""
    threads: int | None = Field(default=None, ge=1, le=1024)
    """Of a matrix product on a CPU; left out: as many as this process may use. More or fewer round differently."""
    optimizer: Literal["sgd", "adam", "adamw", "adafactor", "muon"] = "adamw"
    """How gradients become updates."""
    learning_rate: float = Field(default=1e-3, gt=0, le=100)
    """The highest rate of the schedule (for noam: its factor)."""
    momentum: float | None = Field(default=None, ge=0, lt=1)
    """What sgd and muon keep of the last step's direction (left out: 0.9 and 0.95)."""
    nesterov: bool = False
    """Whether sgd looks ahead along its momentum, as muon always does."""
    betas: tuple[DecayRate, DecayRate] = (0.9, 0.98)
    """Decay rates of the two moments of adam and adamw."""
    epsilon: float = Field(default=1e-9, gt=0, le=1)
    """Added to the root of the second moment of adam and adamw."""
    weight_decay: float | None = Field(default=None, ge=0, le=10)
    """Share of each matrix, times the rate, that an update takes away (left out: 0.01 for adamw and muon, else 0)."""
    schedule: Literal[
        "constant", "onecycle", "noam", "inverse-sqrt", "cosine", "linear", "plateau", "plateau-trials"
    ] = "onecycle"
    """The learning rate over the steps."""
    warmup: float = Field(default=0.08, ge=0, le=1_000_000_000)
    """How long the rate rises: below 1 a share of all steps, from 1 on a number of steps."""
    final_share: float = Field(default=0.0, ge=0, le=1)
    """Part of the peak that is left of the rate at the end of cosine and linear."""
    plateau_factor: float = Field(default=0.7, gt=0, lt=1)
    """What plateau and plateau-trials multiply the rate by."""
    plateau_patience: int = Field(default=5, ge=0)
    """Validations in a row that may bring no improvement before plateau lowers the rate at the next such one."""
    min_learning_rate: float = Field(default=1e-5, ge=0)
    """What plateau and plateau-trials do not go below."""
    trials: int = Field(default=5, ge=1)
    """How often patience may be lost in plateau-trials: each time but the last, training goes back to the best."""
    clip_norm: float = Field(default=1.0, gt=0)
    """Longest gradient; a longer one is scaled down to it (inf: none is)."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """Share of the probability that is spread over the whole vocabulary."""
    z_loss: float = Field(default=0.0, ge=0, le=10)
    """Weight of the squared logarithm of the sum of exp(logits), which keeps logits from drifting away (0: none)."""
    r_drop: float = Field(default=0.0, ge=0, le=1000)
    """Weight of the divergence between two passes over each batch with different dropout (0: one pass)."""
    teachers: tuple[str, ...] = ()
    """Model or run folders whose word-by-word distributions, averaged, the model learns from beside the references."""
    distill_weight: float = Field(default=0.5, gt=0, le=1)
    """Share of the loss that comes from the teachers."""
    distill_temperature: float = Field(default=1.0, gt=0, le=1000)
    """What logits are divided by, the teachers' and the model's, where the model learns from teachers."""
    ema_decay: float = Field(default=0.0, ge=0, lt=1)
    """What a moving average of the weights keeps of itself at an update; it is validated and saved (0: no average)."""
    average_last: int = Field(default=0, ge=0)
    """Checkpoints, the last validated ones, whose mean is tried as the model at the end (0: none)."""
    average_best: int = Field(default=0, ge=0)
    """The same with the best validated ones."""
    epochs: int = Field(default=20, ge=1, le=MOST_EPOCHS)
    """Passes over the training data, at most."""
    steps: int | None = Field(default=None, ge=1)
    """Updates, at most; they may end a run within an epoch. Left out: as many as the epochs have."""
    log_every: int = Field(default=20, ge=1)
    """Steps between two lines of metrics.jsonl."""
    validate_every: str = "1 epoch"
    """Time between validations, such as "200 steps", "1 epoch", "5m"; the last step is always validated."""
    checkpoint_every: str | None = None
    """Time between checkpoints, in the same words; every validation writes one anyway."""
    select_by: Literal["bleu", "accuracy", "loss"] = "bleu"
    """The validation metric that chooses the best weights and stops early."""
    patience: int | None = Field(default=None, ge=1)
    """Validations in a row without improvement before training stops; left out: never."""
    keep_within: float | None = Field(default=None, ge=0, lt=1)
    """Checkpoints whose metric is within this share of the best are kept too (0.005: half a percent)."""
    most_skipped: int = Field(default=10, ge=1)
    """Updates in a row, left out because their loss or gradient is infinite or NaN, with which the run gives up."""
    divergence: float = Field(default=1.0, gt=0)
    """Nats by which training and validation loss must both be worse for a fall-back to the best weights (inf: none)."""
    init: str | None = None
    """A model or run folder whose weights, vocabulary and model settings training begins with."""

    @model_validator(mode="before")
    @classmethod
    def _some_batch_size(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("batch_tokens") is None and values.get("batch_sentences") is None:
            return {**values, "batch_tokens": 4096}
        return values

    @model_validator(mode="after")
    def _fits_together(self) -> "TrainingConfig":
        if problems := [*self._idle_keys(), *self._clashes()]:
            raise FieldProblems(problems)
        return self

    def _idle_keys(self) -> Iterator[FieldProblem]:
        """What was set and would do nothing. A default, as a resolved recipe spells it out, counts as not set."""
        for choice, keys in (("optimizer", OPTIMIZER_KEYS), ("schedule", SCHEDULE_KEYS)):
            chosen = getattr(self, choice)
            for key, users in keys.items():
                if chosen not in users and getattr(self, key) != type(self).model_fields[key].default:
                    yield FieldProblem(key, f'is not used by {choice} = "{chosen}" but by {", ".join(users)}')
        for key in ("distill_weight", "distill_temperature"):
            if not self.teachers and getattr(self, key) != type(self).model_fields[key].default:
                yield FieldProblem(key, "is only used with teachers")

    def _clashes(self) -> Iterator[FieldProblem]:
        if self.batch_tokens is not None and self.batch_sentences is not None:
            yield FieldProblem("batch_sentences", "is given beside batch_tokens; give one of them")
        if self.nesterov and self.momentum == 0:
            yield FieldProblem("nesterov", "looks ahead along a momentum, which is 0")
        if self.schedule in SCHEDULE_KEYS["min_learning_rate"] and self.min_learning_rate > self.learning_rate:
            yield FieldProblem("min_learning_rate", f"is above learning_rate = {self.learning_rate:g}")
        if self.schedule == "plateau-trials" and self.patience is None:
            yield FieldProblem("patience", 'is needed by schedule = "plateau-trials"; losing it ends a trial')
        if self.parallel == "fsdp" and self.optimizer in ("adafactor", "muon"):
            yield FieldProblem(
                "parallel", f'deals out matrices that optimizer = "{self.optimizer}" must see whole; "ddp"'
            )
        if self.parallel == "fsdp" and self.ema_decay:
            yield FieldProblem("ema_decay", 'needs parallel = "ddp"; average_last and average_best go with "fsdp" too')
        given = [key for key in ("ema_decay", "average_last", "average_best") if getattr(self, key)]
        for key in given[1:]:
            yield FieldProblem(key, f"is given beside {given[0]}; give one of them")
        for key in ("average_last", "average_best"):
            if getattr(self, key) == 1:
                yield FieldProblem(key, "must be 0 or at least 2: a mean is of several")

    @field_validator("validate_every", "checkpoint_every")
    @classmethod
    def _is_an_interval(cls, text: str | None) -> str | None:
        if text is not None and (not (match := INTERVAL.fullmatch(text)) or float(match[1]) == 0):
            raise ValueError('expected a time such as "200 steps", "1 epoch" or "5m"')
        return text

    def steps_per_epoch(self, batches_per_epoch: int) -> int:
        """Updates; the last one of an epoch is made from the batches that are left."""
        return math.ceil(batches_per_epoch / self.accumulate)

    def horizon(self, steps_per_epoch: int, model_dim: int) -> Horizon:
        """Steps in all and of warm-up, for the schedule."""
        total = self.epochs * steps_per_epoch
        if self.steps is not None:
            total = min(total, self.steps)
        warmup = self.warmup * total if self.warmup < 1 else self.warmup
        return Horizon(total, max(1, round(warmup)), model_dim=model_dim, final_share=self.final_share)

    def exhausted(self, validations_since_best: int, trials_lost: int) -> Literal["patience", "trials"] | None:
        """What a run has no more of, so that it ends before its last step."""
        if validations_since_best < (self.patience or math.inf):
            return None
        if self.schedule != "plateau-trials":
            return "patience"
        return "trials" if trials_lost + 1 >= self.trials else None


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

    loss: float | Tensor = 0.0
    nll: float | Tensor = 0.0
    tokens: int = 0
    seconds: float = 0.0

    def add(self, loss: Loss) -> None:
        """Add up in fp64 where the loss is: to look at a number of an accelerator is to wait for it."""
        self.loss = self.loss + loss.total.detach().double()
        self.nll = self.nll + loss.nll.double()
        self.tokens += loss.tokens

    def include(self, other: "Window") -> None:
        self.loss, self.nll = self.loss + other.loss, self.nll + other.nll
        self.tokens += other.tokens

    def mean_loss(self) -> float:
        """NaN where every update was left out."""
        return float(self.loss) / self.tokens if self.tokens else math.nan

    def mean_nll(self) -> float:
        return float(self.nll) / self.tokens if self.tokens else math.nan

    def read(self) -> None:
        """Make plain numbers of the sums."""
        self.loss, self.nll = float(self.loss), float(self.nll)


@dataclass
class Progress:
    """Where a run stands: with the model and the optimizer, all that a checkpoint holds.

    `epoch` and `batch` are the place in the data; `kept` lists (step, value of the metric) of validated checkpoints
    that are wanted beside the last and the best, and `best_loss` is the validation loss of the best. `rate_scale` is
    what validations have made of the learning rate, `bad_validations` counts those without improvement since plateau
    last lowered it, and `trials_lost` how often training went back to the best checkpoint.

    Of what went wrong: `skipped` counts the updates that were left out, `parts` is how many pieces a batch is computed
    in since memory ran out, `fallbacks` how often the run diverged, and `level` is what that is told by.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    best_value: float | None = None
    best_step: int | None = None
    best_loss: float | None = None
    validations_since_best: int = 0
    validated_at: float = 0.0
    checkpointed_at: float = 0.0
    skipped: int = 0
    skipped_in_a_row: int = 0
    parts: int = 1
    fallbacks: int = 0
    rate_scale: float = 1.0
    bad_validations: int = 0
    trials_lost: int = 0
    kept: list[tuple[int, float]] = field(default_factory=list)
    window: Window = field(default_factory=Window)
    level: LossLevel = field(default_factory=LossLevel)

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> "Progress":
        kept = [(step, value) for step, value in state["kept"]]
        sums = {"window": Window(**state["window"]), "level": LossLevel(**state["level"])}
        return cls(**{**state, "kept": kept, **sums})


@runtime_checkable
class Listener(Protocol):
    """Whoever shows a person how training goes. Listeners watch, they do not steer."""

    def on_message(self, text: str) -> None: ...

    def on_log(self, row: dict[str, Any], total_steps: int) -> None: ...

    def on_validation(self, row: dict[str, Any], samples: list[dict[str, str]], is_best: bool) -> None: ...


Model = TypeVar("Model", bound=nn.Module)
Batch = TypeVar("Batch", bound="BatchOfRows")


@runtime_checkable
class BatchOfRows(Protocol):
    """What the Trainer asks of a batch; a tensor is one."""

    def to(self, device: torch.device) -> Any:
        """The same batch on a device."""
        ...

    def chunk(self, parts: int, /) -> Sequence[Any]:
        """Its rows in at most so many batches, which together have the loss of this one."""
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
        read_weights: Callable[[Path], Weights],
        describe_batch: Callable[[Batch], list[dict[str, Any]]],
        listener: Listener,
        seed: int,
        model_dim: int,
        device: torch.device,
        identity: dict[str, Any],
        ranks: Ranks = ALONE,
    ) -> None:
        """`write_model(folder, progress)` writes a complete model folder, of which `read_weights(folder)` gives the
        parameters by name; `describe_batch` tells a person what is in a batch that was left out, a JSON object a row;
        `identity` is kept in every checkpoint. Where there are several `ranks`, each has its part of every batch, and
        `run`, `read_weights` and `task.evaluate` give all of them the same."""
        self.model, self.task, self.batches, self.config = model, task, batches, config
        self.run, self.write_model, self.read_weights = run, write_model, read_weights
        self.describe_batch, self.listener = describe_batch, listener
        self.seed, self.device, self.identity, self.ranks = seed, device, identity, ranks
        self.batches_per_epoch = batches.steps_per_epoch()
        self.steps_per_epoch = config.steps_per_epoch(self.batches_per_epoch)
        self.horizon = config.horizon(self.steps_per_epoch, model_dim)
        self.validation_interval = Interval(config.validate_every, self.steps_per_epoch)
        self.checkpoint_interval = Interval(config.checkpoint_every or config.validate_every, self.steps_per_epoch)
        self.learner = make_learner(config.parallel, ranks, model, task, device)
        self.optimizer = make_optimizer(
            self.learner.moved,
            config.optimizer,
            learning_rate=config.learning_rate,
            momentum=config.momentum,
            nesterov=config.nesterov,
            betas=config.betas,
            epsilon=config.epsilon,
            weight_decay=config.weight_decay,
        )
        self.average: Weights | None = weights_of(model) if config.ema_decay else None
        """What is validated and saved in place of the weights that training goes on with."""
        self.progress = Progress()
        self._clock = time.monotonic()

    @naming_lack_of_memory()
    def train(self, stop: "StopRequest") -> Progress:
        """Take all steps that are left; raises Stopped, with everything saved, when a signal asks for it."""
        while not self.is_finished():
            for batches in self.batches_of_updates():
                self.go_back_when_lost()
                parts = self.progress.parts
                self.update(*batches)
                self.advance(len(batches))
                self.log_when_due()
                stops = self.agree(stop)  # once: a signal that comes later is for the next step
                was_split = self.progress.parts > parts  # saved at once: memory may suffice when the step is repeated
                if self.should_validate():
                    self.validate()
                    self.checkpoint()
                elif stops or was_split or self.is_due(self.checkpoint_interval, self.progress.checkpointed_at):
                    self.checkpoint()
                if stops:
                    stop.honor(f"stopped at step {self.progress.step} and saved")
                if self.is_finished():
                    break
        return self.progress

    def agree(self, stop: "StopRequest") -> bool:
        """Let all ranks know what only some may have met: memory that ran out, or a signal, which is the answer."""
        progress = self.progress
        stops, parts = self.ranks.largest(stop.requested, progress.parts)
        if parts > progress.parts:
            progress.parts = parts
            self.listener.on_message(f"memory ran out in another process: all compute a batch in {parts} parts now")
        if stops:
            stop.requested = True
        return bool(stops)

    def batches_of_updates(self) -> Iterator[list[Batch]]:
        """What is left of the epoch, as many batches at a time as one update is made from."""
        batches = self.batches.epoch(self.progress.epoch, self.progress.batch)
        while some := list(islice(batches, self.config.accumulate)):
            yield some

    def update(self, *batches: Batch) -> None:
        """One step: forward and backward for each batch, clip, move. It is left out where it is no number."""
        progress, step = self.progress, self.progress.step + 1
        rate = progress.rate_scale * SCHEDULES[self.config.schedule](step, self.config.learning_rate, self.horizon)
        for group in self.optimizer.param_groups:
            group["lr"] = rate

        self.model.train()
        rows = [(mine.loss, mine.nll, mine.tokens) for mine in self.gradients(batches)]
        sums = [Window(*row) for row in self.ranks.add_up(rows)]
        whole = Window()
        for mine in sums:
            whole.include(mine)
        self.learning_rate, self.grad_norm = rate, self.clip(whole.tokens)
        checked = torch.as_tensor(whole.loss).isfinite() & self.grad_norm.isfinite()
        if not bool(checked):  # the one number of a step that an accelerator is waited for
            return self.skip(batches, sums)
        self.optimizer.step()
        if self.average is not None:
            follow(self.average, self.model, decay=self.config.ema_decay, step=step)
        progress.skipped_in_a_row = 0
        progress.window.include(whole)
        progress.level.add(whole.nll, whole.tokens)

    def gradients(self, batches: Sequence[Batch]) -> list[Window]:
        """Leave those of the summed loss of the batches, and return what each of these adds up to.

        Where memory does not suffice, each batch is computed in twice as many parts, from then on.
        """
        while True:
            self.ranks.seed(derive_seed(self.seed, "step", self.progress.step + 1))
            self.optimizer.zero_grad()
            try:
                return [self.forward_backward(batch) for batch in batches]
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            self.split_further(batches)  # out here, where the error no longer holds the tensors of the step

    def forward_backward(self, batch: Batch) -> Window:
        sums = Window()
        for part in batch.chunk(self.progress.parts if self.learner.can_split else 1):
            loss = self.learner.loss(part.to(self.device))
            loss.total.backward()
            sums.add(loss)
        return sums

    def split_further(self, batches: Sequence[Batch]) -> None:
        progress, step = self.progress, self.progress.step + 1
        parts = 2 * progress.parts
        if not self.learner.can_split:
            raise MemoryRanOut(
                f'memory ran out in step {step:,}, and with training.parallel = "fsdp" no process can split its rows '
                "alone; begin a new run with smaller batches and more training.accumulate"
            )
        if all(len(batch.chunk(parts)) == len(batch.chunk(progress.parts)) for batch in batches):
            raise MemoryRanOut(
                f"memory ran out in step {step:,}, even with one row of a batch at a time; make the model smaller, or "
                "its longest sentences shorter (data.max_length); what was saved before is intact"
            )
        progress.parts = parts
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.listener.on_message(
            f"memory ran out in step {step:,}: from here on each batch is computed in {parts} parts, whose gradients "
            "are added up to that of the whole"
        )

    def clip(self, tokens: int) -> Tensor:
        """Make the gradients of the summed loss those of its mean over the tokens, no longer than clip_norm, in one
        pass over them; the length that they had before they were shortened."""
        gradients = self.learner.gradients()
        norm = self.learner.norm(gradients) / tokens
        scale = (self.config.clip_norm / (norm + 1e-6)).clamp(max=1.0) / tokens
        torch._foreach_mul_(gradients, scale)  # pyright: ignore[reportPrivateImportUsage]
        return norm

    def skip(self, batches: Sequence[Batch], sums: Sequence[Window]) -> None:
        """Leave an update out whose loss or gradient is infinite or NaN, and note its batches in skipped.jsonl: those
        whose loss it is, or all where every loss is a number. Too many in a row end the run."""
        progress, step, file = self.progress, self.progress.step + 1, self.run.path / SKIPPED
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        losses = [mine.mean_loss() for mine in sums]
        bad = [place for place, loss in enumerate(losses) if not math.isfinite(loss)]
        for place in bad or range(len(batches)):
            row = {
                "step": step,
                "epoch": progress.epoch + 1,
                "batch": progress.batch + place + 1,
                "loss": losses[place],
                "grad_norm": float(self.grad_norm),
                "pairs": self.ranks.together(self.describe_batch(batches[place])),
            }
            self.run.append(SKIPPED, row)
        self.listener.on_message(
            f"step {step:,} is left out, since its {'loss' if bad else 'gradient'} is infinite or NaN; what was in it "
            f"is in {file}"
        )
        if progress.skipped_in_a_row >= self.config.most_skipped:
            raise WeftError(
                f"the loss or the gradient was infinite or NaN in {progress.skipped_in_a_row} updates in a row, the "
                f"last at step {step:,}; the last checkpoint is intact. Look at the pairs in "
                f"{file}; where they are fine, a new run needs a lower "
                'training.learning_rate or training.precision = "fp32", and this one goes on with a larger '
                "training.most_skipped"
            )

    def advance(self, batches: int = 1) -> None:
        """Move the place in the data behind the batches just used, and the clock."""
        progress = self.progress
        progress.step += 1
        progress.batch += batches
        if progress.batch == self.batches_per_epoch:
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
        is_due = interval.is_due(self.progress.step, self.progress.seconds - since)
        return is_due if interval.seconds is None else self.ranks.as_first(is_due)

    def should_validate(self) -> bool:
        """After the last step, where it is due, and where the training loss has exploded."""
        progress = self.progress
        is_last = progress.step == self.horizon.total_steps
        has_exploded = progress.level.has_risen(self.config.divergence)
        return is_last or has_exploded or self.is_due(self.validation_interval, progress.validated_at)

    def is_finished(self) -> bool:
        """All steps taken, or patience lost for good."""
        progress = self.progress
        exhausted = self.config.exhausted(progress.validations_since_best, progress.trials_lost)
        return exhausted is not None or progress.step >= self.horizon.total_steps

    def log_when_due(self) -> None:
        progress, window = self.progress, self.progress.window
        if progress.step % self.config.log_every:
            return
        window.read()
        row = {
            "step": progress.step,
            "epoch": round(progress.step / self.steps_per_epoch, 4),
            "loss": window.mean_loss(),
            "nll": window.mean_nll(),
            "learning_rate": self.learning_rate,
            "grad_norm": float(self.grad_norm),
            "skipped": progress.skipped,
            "target_tokens_per_second": round(window.tokens / max(window.seconds, 1e-9), 1),
            "seconds": round(progress.seconds, 3),
        }
        self.run.append("metrics.jsonl", row)
        self.listener.on_log(row, self.horizon.total_steps)
        progress.window = Window()

    def validate(self) -> None:
        """Measure the model on held-out data, remember whether it is the best so far, and draw the consequences."""
        progress = self.progress
        evaluation, value = self.evaluate(self.average)
        progress.validated_at = progress.seconds
        if self.has_diverged(evaluation):
            self.report(evaluation, is_best=False, note={"back_to": progress.best_step})
            self.fall_back(evaluation)
        else:
            self.rank(evaluation, value)
            if progress.level.has_risen(self.config.divergence):
                progress.level.accept()
        if self.is_finished():
            self.try_mean_of_checkpoints()
        progress.kept = self.wanted(progress.kept)

    def rank(self, evaluation: Evaluation, value: float) -> None:
        progress = self.progress
        is_best = self.is_better(value)
        if is_best:
            self.note_best(evaluation, value)
        progress.validations_since_best = 0 if is_best else progress.validations_since_best + 1
        self.report(evaluation, is_best)
        if self.config.schedule == "plateau":
            self.lower_rate_on_plateau(is_best)
        progress.kept.append((progress.step, value))

    def note_best(self, evaluation: Evaluation, value: float) -> None:
        progress = self.progress
        progress.best_value, progress.best_step = value, progress.step
        progress.best_loss = evaluation.metrics.get("valid_loss")

    def evaluate(self, weights: Weights | None) -> tuple[Evaluation, float]:
        """What the task finds out about the model, with other weights where they are given, and the metric to go by."""
        self.learner.gather()
        self.model.eval()
        with holding(weights, self.model), torch.inference_mode():
            evaluation = self.task.evaluate(self.model)
        self.tick()
        metric = f"valid_{self.config.select_by}"
        if metric not in evaluation.metrics:
            there = ", ".join(evaluation.metrics)
            raise WeftError(f"training.select_by goes by {metric}, which this task does not measure; it has {there}")
        return evaluation, evaluation.metrics[metric]

    def is_better(self, value: float) -> bool:
        best = self.progress.best_value
        if best is None or math.isnan(best):
            return True
        return value > best if SELECTABLE[self.config.select_by] == "max" else value < best

    def report(self, evaluation: Evaluation, is_best: bool, note: dict[str, Any] | None = None) -> None:
        progress = self.progress
        place = {"step": progress.step, "epoch": round(progress.step / self.steps_per_epoch, 4), **(note or {})}
        row = {**place, **evaluation.metrics, "seconds": round(progress.seconds, 3)}
        self.run.append("metrics.jsonl", row)
        self.run.append("samples.jsonl", {**place, "samples": evaluation.samples})
        self.listener.on_validation(row, evaluation.samples, is_best)

    def lower_rate_on_plateau(self, is_best: bool) -> None:
        progress = self.progress
        progress.bad_validations = 0 if is_best else progress.bad_validations + 1
        if progress.bad_validations > self.config.plateau_patience:
            progress.bad_validations = 0
            self.lower_rate()
            self.listener.on_message(
                f"no improvement: the learning rate is times {progress.rate_scale:.3g} from here on"
            )

    def lower_rate(self) -> None:
        scale = self.progress.rate_scale
        least = min(scale, self.config.min_learning_rate / self.config.learning_rate)
        self.progress.rate_scale = max(least, self.config.plateau_factor * scale)

    def go_back_when_lost(self) -> None:
        """In plateau-trials a run that has lost patience, but not all trials, goes on from its best checkpoint."""
        progress = self.progress
        if progress.validations_since_best < (self.config.patience or math.inf):
            return
        assert progress.best_step is not None  # patience counts from there
        self.load(progress.best_step)
        progress.validations_since_best = 0
        progress.trials_lost += 1
        self.lower_rate()
        self.listener.on_message(
            f"patience is lost ({progress.trials_lost} of {self.config.trials}): back to the weights of step "
            f"{progress.best_step}, the learning rate is times {progress.rate_scale:.3g} from here on"
        )

    def has_diverged(self, evaluation: Evaluation) -> bool:
        """Whether training has gone wrong for good: the validation loss is no number, or both it and the training loss
        have risen by more than `divergence`."""
        found, by = evaluation.metrics.get("valid_loss"), self.config.divergence
        if found is None or math.isinf(by) or not is_much_worse(found, self.progress.best_loss, by):
            return False
        return not math.isfinite(found) or self.progress.level.has_risen(by)

    def fall_back(self, evaluation: Evaluation) -> None:
        """Go on from the best checkpoint, its weights and its optimizer, at a lower rate; not forever."""
        progress = self.progress
        assert progress.best_step is not None and progress.best_loss is not None  # has_diverged has compared with it
        found = f"validation loss {evaluation.metrics['valid_loss']:.3g} after {progress.best_loss:.3g} at step"
        if progress.fallbacks == MOST_FALLBACKS:
            raise WeftError(
                f"training has diverged for the {MOST_FALLBACKS + 1}th time, at step {progress.step:,} ({found} "
                f"{progress.best_step:,}), with the learning rate at {progress.rate_scale:.3g} of the recipe's; lower "
                f"training.learning_rate or raise training.warmup in a new run. The best weights are intact: "
                f"--model {self.run.path}"
            )
        self.load(progress.best_step)
        progress.fallbacks += 1
        progress.rate_scale *= FALLBACK_FACTOR
        progress.level = LossLevel()
        self.listener.on_message(
            f"training has diverged ({found} {progress.best_step:,}): back to the weights of that step, the learning "
            f"rate is times {progress.rate_scale:.3g} from here on ({progress.fallbacks} of {MOST_FALLBACKS})"
        )

    def wanted(self, validated: list[tuple[int, float]]) -> list[tuple[int, float]]:
        """Those of the validated checkpoints that are kept for their own sake or for a mean."""
        best, share = self.progress.best_value, self.config.keep_within
        wanted = set(self.in_mean(validated))
        if best is not None and share is not None:
            wanted |= {step for step, value in validated if abs(value - best) <= share * abs(best)}
        return [(step, value) for step, value in validated if step in wanted]

    def in_mean(self, validated: list[tuple[int, float]]) -> list[int]:
        """The checkpoints that `average_last` or `average_best` would take now, by their steps."""
        is_max = SELECTABLE[self.config.select_by] == "max"
        ranked = sorted((entry for entry in validated if not math.isnan(entry[1])), key=lambda e: e[1], reverse=is_max)
        last = validated[max(0, len(validated) - self.config.average_last) :]
        return sorted(step for step, _ in ranked[: self.config.average_best] or last)

    def try_mean_of_checkpoints(self) -> None:
        """Where the recipe asks for it, measure the mean of some checkpoints; where it is better, it is the model."""
        progress = self.progress
        steps = self.in_mean(progress.kept)
        if not steps:
            return
        average = mean(self.weights_at(step) for step in steps)
        evaluation, value = self.evaluate(average)
        is_best = self.is_better(value)
        listed = ", ".join(map(str, steps))
        outcome = "is better and becomes the model" if is_best else "is not better and is dropped"
        self.listener.on_message(
            f"the mean of the weights of steps {listed} {outcome}: "
            f"{self.config.select_by} {value:.4g}, the best so far {progress.best_value:.4g}"
        )
        if is_best:
            self.note_best(evaluation, value)
            self.average = average
        self.report(evaluation, is_best, note={"mean_of": steps})

    def checkpoint(self) -> None:
        """Save everything; the time it takes is the run's, but no step's.

        The model folder holds the weights that were validated. Where training does not go on with these, those that it
        goes on with are among the training tensors.
        """
        progress = self.progress
        self.tick()
        progress.checkpointed_at = progress.seconds
        progress.window.read()
        progress.level.read()
        self.learner.gather()
        self.refuse_broken_weights()
        with holding(self.average, self.model) as own:
            self.run.save(
                progress.step,
                lambda folder: self.write_model(folder, progress),
                {**self.learner.optimizer_tensors(self.optimizer), **weight_tensors(own)},
                {**self.identity, "progress": asdict(progress)},
                best=progress.best_step,
                keep=[step for step, _ in progress.kept],
            )
        self.tick()

    def refuse_broken_weights(self) -> None:
        """No update is made of numbers that are none, but finite ones can still add up to infinity."""
        broken = [name for name, weight in self.model.named_parameters() if not bool(weight.isfinite().all())]
        if broken:
            raise WeftError(
                f"at step {self.progress.step:,} the weights {', '.join(broken[:3])} hold infinite numbers or NaN; "
                "lower training.learning_rate; the last checkpoint is intact"
            )

    def weights_at(self, step: int) -> Weights:
        """Those with which training went on from a validated step."""
        if step == self.progress.step:
            return weights_of(self.model)
        tensors, _ = self.run.load(step)
        return weights_in(tensors) or self.read_weights(self.run.checkpoint(step))

    def load(self, step: int) -> dict[str, Any]:
        """Take over a checkpoint's weights, averages and optimizer; returns the state beside them."""
        tensors, state = self.run.load(step)
        saved = self.read_weights(self.run.checkpoint(step))
        try:
            put(weights_in(tensors) or saved, self.model)
            self.learner.scatter()
            self.learner.restore_optimizer(self.optimizer, tensors)
        except (KeyError, TypeError, ValueError) as error:
            raise self.unfitting(step, error) from None
        self.average = {name: t.to(self.device) for name, t in saved.items()} if self.config.ema_decay else None
        return state

    def restore(self, step: int) -> None:
        """Go on from this checkpoint as if there had been no break."""
        state = self.load(step)
        try:
            self.progress = Progress.from_json(state["progress"])
        except (KeyError, TypeError, ValueError) as error:
            raise self.unfitting(step, error) from None
        self.run.sweep(keep={step, self.progress.best_step, *(kept for kept, _ in self.progress.kept)})
        self.run.cut_logs(step)
        self._clock = time.monotonic()

    def unfitting(self, step: int, error: Exception) -> RunError:
        return RunError(f"{self.run.checkpoint(step)} does not fit this run: {error!r}")


class StopRequest:
    """Whether a signal has asked the work to stop."""

    requested = False

    def honor(self, what_happened: str) -> None:
        """Raise Stopped where a signal has asked for it; called where all that matters is on disk."""
        if self.requested:
            raise Stopped(f"{what_happened}; the same command goes on from here")


@contextmanager
def stop_on_signal(*, second_interrupts: bool = True) -> Iterator[StopRequest]:
    """Turn the first SIGINT or SIGTERM into a request that can be honored in a good moment; a second one interrupts.

    Where a batch system signals every process and torchrun passes its own signal on, a second one says no more than the
    first: `second_interrupts=False`. There torchrun also sends SIGTERM to the other processes as soon as one has ended;
    so that they can still say why they end, signals stay caught where an error leaves this.
    """
    stop = StopRequest()

    def ask(number: int, frame: object) -> None:
        if stop.requested and second_interrupts:
            raise KeyboardInterrupt
        stop.requested = True

    try:
        previous = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread, where Python delivers no signals
        previous = {}
    try:
        yield stop
    except Exception:
        if not second_interrupts:
            previous = {}
        raise
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
