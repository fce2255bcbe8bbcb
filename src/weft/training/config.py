"""The settings of training: the recipe's table `[training]`, and the times that it names."""

import math
import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from weft.config import FieldProblem, FieldProblems, Settings
from weft.training.optimizers import OPTIMIZER_KEYS
from weft.training.schedules import SCHEDULE_KEYS, Horizon

INTERVAL = re.compile(r"(\d{1,9}(?:\.\d+)?) ?(steps?|epochs?|m|h)")

MOST_EPOCHS = 100_000

DecayRate = Annotated[float, Field(ge=0, lt=1)]


class UpdateConfig(Settings):
    """How the batches of an update are made and how it moves the weights; the first keys of [training].

    What a task's loss can be told follows them, in a subclass (loss_config.py); TrainingConfig ends the table.
    """

    RETIRED: ClassVar = {"parallel": "each process holds the whole model; remove the line"}

    batch_tokens: int | None = Field(default=None, ge=16, le=10_000_000)
    """Tokens a side and batch, padding counted (4096 where batch_sentences is left out too)."""
    batch_sentences: int | None = Field(default=None, ge=1, le=1_000_000)
    """Pairs in a batch, instead of batch_tokens."""
    accumulate: int = Field(default=1, ge=1, le=100_000)
    """Batches that an update is made from, as if they were one."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Of the activations, and of muon's products; auto: bf16 where the hardware multiplies it natively. Parameters are
    always fp32."""
    compile: bool = False
    """Have torch write kernels for the layers when training begins (torch.compile); needs a C++ compiler, on a GPU
    Triton."""
    graphs: bool = True
    """On a GPU, record a step's passes once for each shape of batch and replay them (CUDA graphs)."""
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
    """Decay rates of the two moments of adam and adamw, and of what adamw moves in muon."""
    epsilon: float = Field(default=1e-9, gt=0, le=1)
    """Added to the root of the second moment, in the same."""
    weight_decay: float | None = Field(default=None, ge=0, le=10)
    """Share of each matrix, times the rate, that an update of adamw, adafactor and muon takes away, and that is added
    to the gradient of sgd and adam (left out: 0.01 for adamw and muon, else 0)."""
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

    @model_validator(mode="before")
    @classmethod
    def _some_batch_size(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("batch_tokens") is None and values.get("batch_sentences") is None:
            return {**values, "batch_tokens": 4096}
        return values

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if problems := [*self.misfits()]:
            raise FieldProblems(problems)
        return self

    def misfits(self) -> Iterator[FieldProblem]:
        """What does not fit together. Subclasses add theirs, so that all of it is reported at once."""
        yield from self._idle_keys()
        yield from self._clashes()

    def _idle_keys(self) -> Iterator[FieldProblem]:
        """What was set and would do nothing. A default, as a resolved recipe spells it out, counts as not set."""
        for choice, keys in (("optimizer", OPTIMIZER_KEYS), ("schedule", SCHEDULE_KEYS)):
            chosen = getattr(self, choice)
            for key, users in keys.items():
                if chosen not in users and getattr(self, key) != type(self).model_fields[key].default:
                    given = "" if choice in self.model_fields_set else f"; name one of them as the {choice}"
                    yield FieldProblem(key, f'is not used by {choice} = "{chosen}" but by {", ".join(users)}{given}')

    def _clashes(self) -> Iterator[FieldProblem]:
        if self.batch_tokens is not None and self.batch_sentences is not None:
            yield FieldProblem("batch_sentences", "is given beside batch_tokens; give one of them")
        if self.nesterov and self.momentum == 0:
            yield FieldProblem("nesterov", "looks ahead along a momentum, which is 0")
        if self.schedule in SCHEDULE_KEYS["min_learning_rate"] and self.min_learning_rate > self.learning_rate:
            given = "" if "learning_rate" in self.model_fields_set else ", its default; give both"
            yield FieldProblem("min_learning_rate", f"is above learning_rate = {self.learning_rate:g}{given}")


class TrainingConfig(UpdateConfig):
    """The table [training]."""

    ema_decay: float = Field(default=0.0, ge=0, lt=1)
    """What a moving average of the weights keeps of itself at an update; it is validated and saved (0: no average)."""
    average_last: int = Field(default=0, ge=0)
    """Checkpoints, the last validated ones, whose mean is tried as the model at the end (0: none)."""
    average_best: int = Field(default=0, ge=0)
    """The same with the best validated ones."""
    epochs: int | None = Field(default=None, ge=1, le=MOST_EPOCHS)
    """Passes over the training data, at most (20 where steps is left out too)."""
    steps: int | None = Field(default=None, ge=1)
    """Updates, at most; they may end a run within an epoch. Left out: as many as the epochs have."""
    log_every: int = Field(default=20, ge=1)
    """Steps between two lines of metrics.jsonl."""
    validate_every: str = "1 epoch"
    """Time between validations, such as "200 steps" or 200, "1 epoch", "5m"; the last step is always validated."""
    checkpoint_every: str | None = None
    """Time between checkpoints, in the same words; every validation writes one anyway."""
    select_by: str | None = None
    """The validation metric that chooses the best weights and stops early; left out: the task's first."""
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
    def _some_length(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("epochs") is None and values.get("steps") is None:
            return {**values, "epochs": 20}
        return values

    def misfits(self) -> Iterator[FieldProblem]:
        yield from super().misfits()
        if self.schedule == "plateau-trials" and self.patience is None:
            yield FieldProblem("patience", 'is needed by schedule = "plateau-trials"; losing it ends a trial')
        given = [key for key in ("ema_decay", "average_last", "average_best") if getattr(self, key)]
        for key in given[1:]:
            yield FieldProblem(key, f"is given beside {given[0]}; give one of them")
        for key in ("average_last", "average_best"):
            if getattr(self, key) == 1:
                yield FieldProblem(key, "must be 0 or at least 2: a mean is of several")

    @field_validator("validate_every", "checkpoint_every", mode="before")
    @classmethod
    def _in_steps(cls, given: Any) -> Any:
        """A bare whole number counts steps, as it does elsewhere."""
        return f"{given} steps" if type(given) is int else given

    @field_validator("validate_every", "checkpoint_every")
    @classmethod
    def _is_an_interval(cls, text: str | None) -> str | None:
        if text is not None and (not (match := INTERVAL.fullmatch(text)) or float(match[1]) == 0):
            raise ValueError('expected a time such as "200 steps", "1 epoch" or "5m"')
        return text

    def steps_per_epoch(self, batches_per_epoch: int) -> int:
        """Updates; the last one of an epoch is made from the batches that are left."""
        return math.ceil(batches_per_epoch / self.accumulate)

    def horizon(self, steps_per_epoch: int, width: int) -> Horizon:
        """Steps in all and of warm-up, for the schedule of a model of this width."""
        ends = self.steps, self.epochs and self.epochs * steps_per_epoch
        total = min(end for end in ends if end is not None)
        warmup = self.warmup * total if self.warmup < 1 else self.warmup
        return Horizon(total, max(1, round(warmup)), width=width, final_share=self.final_share)

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
