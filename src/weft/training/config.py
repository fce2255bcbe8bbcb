"""The settings of training: the recipe's table `[training]`, and the intervals in it."""

import math
import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from weft.config import FieldProblem, Settings
from weft.training.schedules import SCHEDULE_KEYS, Horizon

INTERVAL = re.compile(r"(\d{1,9}(?:\.\d+)?) ?(steps?|epochs?|m|h)")

MOST_EPOCHS = 100_000

OPTIMIZER_KEYS = {
    "momentum": ("sgd", "muon"),
    "nesterov": ("sgd",),
    "betas": ("adam", "adamw", "muon"),
    "epsilon": ("adam", "adamw", "muon"),
}
"""Settings that not every optimizer has -> the optimizers that have it."""

DecayRate = Annotated[float, Field(ge=0, lt=1)]


class UpdateConfig(Settings):
    """The first keys of [training]: batches, precision, optimizer and schedule.

    The keys of a task's loss follow in a subclass, and those of TrainingConfig end the table.
    """

    RETIRED: ClassVar = {"parallel": "each process holds the whole model; remove the line"}

    batch_tokens: int | None = Field(default=None, ge=16, le=10_000_000)
    """Tokens per batch and side, including padding. If not set: 4096, unless batch_sentences is given."""
    batch_sentences: int | None = Field(default=None, ge=1, le=1_000_000)
    """Pairs or texts per batch, instead of batch_tokens."""
    accumulate: int = Field(default=1, ge=1, le=100_000)
    """Number of batches per update, whose gradients are accumulated as if they were one batch."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Precision of the activations, and of the products in muon: fp32, bf16, or auto, which is bf16 if the hardware
    supports it natively. Parameters are always fp32."""
    compile: bool = False
    """Let torch generate kernels for the layers when training begins (torch.compile). Needs a C++ compiler; on a GPU,
    Triton."""
    graphs: bool = True
    """On a GPU, record the forward and backward pass once per batch shape and replay it (CUDA graphs)."""
    threads: int | None = Field(default=None, ge=1, le=1024)
    """CPU threads for matrix products. If not set: the number of cores that this process may use. Another number
    of threads changes rounding, and so the losses slightly."""
    optimizer: Literal["sgd", "adam", "adamw", "adafactor", "muon"] = "adamw"
    """The optimizer."""
    learning_rate: float = Field(default=1e-3, gt=0, le=100)
    """The peak of the schedule; for noam its factor."""
    momentum: float | None = Field(default=None, ge=0, lt=1)
    """Momentum of sgd and muon. If not set: 0.9 and 0.95."""
    nesterov: bool = False
    """Use Nesterov momentum in sgd; muon always does."""
    betas: tuple[DecayRate, DecayRate] = (0.9, 0.98)
    """Decay rates of the two moments of adam and adamw, and of the parameters that muon leaves to AdamW."""
    epsilon: float = Field(default=1e-9, gt=0, le=1)
    """Number added to the square root of the second moment in adam and adamw, and of the parameters that muon leaves to
    AdamW."""
    weight_decay: float | None = Field(default=None, ge=0, le=10)
    """Weight decay: adamw, adafactor and muon subtract this share of each matrix, times the learning rate, per update;
    sgd and adam add it to the gradient. If not set: 0.01 for adamw and muon, otherwise 0."""
    schedule: Literal[
        "constant", "onecycle", "noam", "inverse-sqrt", "cosine", "linear", "plateau", "plateau-trials"
    ] = "onecycle"
    """Learning rate schedule."""
    warmup: float = Field(default=0.08, ge=0, le=1_000_000_000)
    """Length of the warmup: a share of all steps if below 1, otherwise a number of steps."""
    final_share: float = Field(default=0.0, ge=0, le=1)
    """Learning rate at the end of cosine and linear, as a share of the peak."""
    plateau_factor: float = Field(default=0.7, gt=0, lt=1)
    """Factor by which plateau and plateau-trials reduce the learning rate."""
    plateau_patience: int = Field(default=5, ge=0)
    """Validations in a row without improvement that plateau tolerates; the next one reduces the learning rate."""
    min_learning_rate: float = Field(default=1e-5, ge=0)
    """Lower bound of the learning rate in plateau and plateau-trials."""
    trials: int = Field(default=5, ge=1)
    """How often patience may run out in plateau-trials; each time except the last, training restarts from the best
    weights."""
    clip_norm: float = Field(default=1.0, gt=0)
    """Largest norm of the gradient; longer gradients are scaled down to it (inf: no clipping)."""

    @model_validator(mode="before")
    @classmethod
    def _some_batch_size(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("batch_tokens") is None and values.get("batch_sentences") is None:
            return {**values, "batch_tokens": 4096}
        return values

    def misfits(self) -> Iterator[FieldProblem]:
        yield from self._idle_keys()
        yield from self._clashes()

    def _idle_keys(self) -> Iterator[FieldProblem]:
        """Keys that were set but have no effect. A default counts as not set, since a resolved recipe spells it out."""
        for choice, keys in (("optimizer", OPTIMIZER_KEYS), ("schedule", SCHEDULE_KEYS)):
            chosen = getattr(self, choice)
            for key, users in keys.items():
                if chosen not in users and getattr(self, key) != type(self).model_fields[key].default:
                    given = "" if choice in self.model_fields_set else f"; name one of them as the {choice}"
                    yield FieldProblem(
                        key, f'has no effect with {choice} = "{chosen}", only with {", ".join(users)}{given}'
                    )

    def _clashes(self) -> Iterator[FieldProblem]:
        if self.batch_tokens is not None and self.batch_sentences is not None:
            yield FieldProblem("batch_sentences", "conflicts with batch_tokens; give one of them")
        if self.nesterov and self.momentum == 0:
            yield FieldProblem("nesterov", "needs a momentum above 0")
        if self.schedule in SCHEDULE_KEYS["min_learning_rate"] and self.min_learning_rate > self.learning_rate:
            given = "" if "learning_rate" in self.model_fields_set else ", its default; give both"
            yield FieldProblem("min_learning_rate", f"is above learning_rate = {self.learning_rate:g}{given}")


# The keys of losses (losses.py); a task inherits those of its own.


class TokenLossConfig(UpdateConfig):
    """Cross-entropy over a vocabulary."""

    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """Share of the probability spread evenly over the vocabulary."""
    z_loss: float = Field(default=0.0, ge=0, le=10)
    """Weight of the squared log-sum-exp of the logits, which keeps them from drifting. 0: off."""


class GuidedLossConfig(TokenLossConfig):
    """Cross-entropy that is guided by more than the labels: by a second pass over the batch, by teachers."""

    r_drop: float = Field(default=0.0, ge=0, le=1000)
    """Weight of the divergence between two passes with different dropout (R-Drop). 0: one pass."""
    teachers: tuple[str, ...] = ()
    """Model or run folders whose averaged word-level distributions the model learns from, in addition to the
    references."""
    distill_weight: float = Field(default=0.5, gt=0, le=1)
    """Share of the loss that comes from the teachers."""
    distill_temperature: float = Field(default=1.0, gt=0, le=1000)
    """Temperature that divides the logits of teachers and model in distillation."""

    @property
    def passes(self) -> int:
        """Forward passes over each batch in an update."""
        return 2 if self.r_drop else 1

    def misfits(self) -> Iterator[FieldProblem]:
        yield from super().misfits()
        for key in ("distill_weight", "distill_temperature"):
            if not self.teachers and getattr(self, key) != type(self).model_fields[key].default:
                yield FieldProblem(key, "has no effect without teachers")
        for key in ("z_loss", "label_smoothing"):
            is_set = getattr(self, key) not in (0.0, type(self).model_fields[key].default)
            if is_set and self.teachers and self.distill_weight == 1:
                what = "has no effect with distill_weight = 1, which leaves out the loss against the labels"
                yield FieldProblem(key, what)


class TrainingConfig(UpdateConfig):
    """The table [training]."""

    ema_decay: float = Field(default=0.0, ge=0, lt=1)
    """Decay of the exponential moving average of the weights, which is then validated and saved. 0: no average."""
    average_last: int = Field(default=0, ge=0)
    """Number of last validated checkpoints whose average is tried as the final model. 0: none."""
    average_best: int = Field(default=0, ge=0)
    """Number of best validated checkpoints whose average is tried as the final model. 0: none."""
    epochs: int | None = Field(default=None, ge=1, le=MOST_EPOCHS)
    """Most passes over the training data. If not set: enough for steps, or 20 if steps is not set either."""
    steps: int | None = Field(default=None, ge=1)
    """Most updates; the run may end within an epoch. If not set: all steps of the epochs."""
    log_every: int = Field(default=20, ge=1)
    """Steps between lines in metrics.jsonl."""
    validate_every: str = "1 epoch"
    """Interval between validations, such as "200 steps" or 200, "1 epoch", "5m". The last step is always validated."""
    checkpoint_every: str | None = None
    """Interval between checkpoints, in the same format; every validation also writes one."""
    select_by: str | None = None
    """Validation metric for choosing the best weights and for early stopping. If not set: the task's first one."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after this many validations in a row without improvement. If not set: never."""
    keep_within: float | None = Field(default=None, ge=0, lt=1)
    """Also keep checkpoints whose metric is within this share of the best; 0.005 is half a percent."""
    most_skipped: int = Field(default=10, ge=1)
    """Give up after this many steps in a row skipped because their loss or gradient is infinite or NaN."""
    divergence: float = Field(default=1.0, gt=0)
    """Fall back to the best weights if training and validation loss are both worse by this many nats. inf: never."""
    init: str | None = None
    """A model or run folder whose weights, vocabulary and model settings training starts from."""

    @model_validator(mode="before")
    @classmethod
    def _some_length(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("epochs") is None and values.get("steps") is None:
            return {**values, "epochs": 20}
        return values

    def misfits(self) -> Iterator[FieldProblem]:
        yield from super().misfits()
        if self.schedule == "plateau-trials" and self.patience is None:
            yield FieldProblem("patience", 'is required by schedule = "plateau-trials"; running out of it ends a trial')
        given = [key for key in ("ema_decay", "average_last", "average_best") if getattr(self, key)]
        for key in given[1:]:
            yield FieldProblem(key, f"conflicts with {given[0]}; give one of them")
        for key in ("average_last", "average_best"):
            if getattr(self, key) == 1:
                yield FieldProblem(key, "must be 0 or at least 2")

    @field_validator("validate_every", "checkpoint_every", mode="before")
    @classmethod
    def _in_steps(cls, given: Any) -> Any:
        """Read a bare whole number as a number of steps."""
        return f"{given} steps" if type(given) is int else given

    @field_validator("validate_every", "checkpoint_every")
    @classmethod
    def _is_an_interval(cls, text: str | None) -> str | None:
        if text is not None and (not (match := INTERVAL.fullmatch(text)) or float(match[1]) == 0):
            raise ValueError('expected an interval such as "200 steps", "1 epoch" or "5m"')
        return text

    def steps_per_epoch(self, batches_per_epoch: int) -> int:
        """Updates per epoch; the last one accumulates the batches that are left."""
        return math.ceil(batches_per_epoch / self.accumulate)

    def horizon(self, steps_per_epoch: int, width: int) -> Horizon:
        """The total and warmup steps of the run, for the schedule of a model of this width."""
        ends = self.steps, self.epochs and self.epochs * steps_per_epoch
        total = min(end for end in ends if end is not None)
        warmup = self.warmup * total if self.warmup < 1 else self.warmup
        return Horizon(total, max(1, round(warmup)), width=width, final_share=self.final_share)

    def exhausted(self, validations_since_best: int, trials_lost: int) -> Literal["patience", "trials"] | None:
        """What has run out, so that the run ends before its last step; None while nothing has."""
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
