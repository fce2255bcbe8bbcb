"""How long a run will take: a short trial of its steps, and the arithmetic between the trial and the whole run.

    try_out       measures the seconds of a step, a validation, a checkpoint and the final scores on this machine
    run_seconds   the time that a number of steps takes at that pace
    fit_steps     the number of steps that fit into a time

The arithmetic needs no clock and no model. The trial changes the weights of its model.
"""

import bisect
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from weft.data.batching import Buckets
from weft.errors import WeftError
from weft.folders.model_folder import Learned
from weft.tasks import TASKS
from weft.tasks.kind import HeldOut
from weft.training.config import Interval
from weft.training.distributed import ALONE, Ranks
from weft.training.trainer import Trainer

AnyTrainer = Trainer[Any, Any]

GOLDEN_RATIO = (math.sqrt(5) - 1) / 2

WARM_UP = 1 / 3
"""Share of the time for steps that goes to warm-up steps, which are not counted: they allocate memory."""
MOST_WARM_UP = 2
"""Multiple of that share for a GPU whose steps have not settled before; steps that are recorded take longer."""
LEAST_STEPS = 3
"""Minimum of batches to count after a step of warm-up, however short the trial."""
FIRST_PAIRS = 64
"""Pairs on which a validation is timed first, to find how many more there is time for."""


@dataclass(frozen=True)
class Pace:
    """Seconds that the parts of a run take; `ending` is all after the last step's validation and checkpoint."""

    step: float
    validation: float
    checkpoint: float
    ending: float


@dataclass(frozen=True)
class Trial:
    """The results of a trial, and the measurements behind them."""

    pace: Pace
    steps: int
    """Steps that were timed."""
    seconds: float
    """Duration of these steps."""
    target_tokens_per_second: float
    """Padding not counted."""
    validated: int
    """Number of evenly spread pairs that a validation was timed on."""
    peak_bytes: int
    """Peak memory of the GPU; on a CPU that of this process, libraries included."""


def run_seconds(steps: int, pace: Pace, validate: Interval, checkpoint: Interval, *, done: int = 0) -> dict[str, float]:
    """The seconds of each part of a run that has `steps` steps left after `done` steps.

    Every validation is followed by a checkpoint. If the recipe asks for more checkpoints, those that coincide with a
    validation are counted twice, so this is an upper estimate.
    """
    validations = times_due(validate, steps, pace.step, done=done)
    checkpoints = validations
    if (checkpoint.steps, checkpoint.seconds) != (validate.steps, validate.seconds):
        checkpoints += times_due(checkpoint, steps, pace.step, done=done)
    return {
        "steps": steps * pace.step,
        "validations": validations * pace.validation,
        "checkpoints": checkpoints * pace.checkpoint,
        "ending": pace.ending,
    }


def times_due(interval: Interval, steps: int, seconds_per_step: float, *, done: int = 0) -> int:
    """How often something happens that is due at this interval and once after the last step."""
    if not steps:
        return 0
    if interval.seconds is None:
        return math.ceil((done + steps) / interval.steps) - done // interval.steps
    return math.ceil(steps * seconds_per_step / max(interval.seconds, seconds_per_step))


def fit_steps(seconds: float, pace: Pace, validate: Interval, checkpoint: Interval, *, most: int) -> int:
    """The most steps, up to `most`, whose `run_seconds` fit into the seconds; 0 if not even one does."""

    def seconds_of(steps: int) -> float:
        return sum(run_seconds(steps, pace, validate, checkpoint).values())

    return bisect.bisect_right(range(1, most + 1), seconds, key=seconds_of)


def try_out(trainer: AnyTrainer, learned: Learned[Any], valid: HeldOut, *, seconds: float, is_trained: bool) -> Trial:
    """Train for three fifths of the seconds, then validate and score as many pairs as a fifth each allows.

    Writes a checkpoint to the trainer's run folder and changes the weights; both must be disposable.
    """
    batches, kind = batches_of(trainer), TASKS[learned.recipe.task]
    steps, passed, tokens, planned = try_steps(trainer, batches, 0.6 * seconds)
    if not tokens:
        raise WeftError(
            f"in all {steps} steps of the trial the loss or the gradient was infinite or NaN; lower "
            "training.learning_rate, or look at the weights that training.init names"
        )
    checkpoint = timed(trainer.checkpoint, trainer.ranks)
    if not is_trained:
        learned = kind.for_trial(learned, batches)

    def validation_of(some: HeldOut) -> Callable[[], object]:
        task = kind.measure(learned, some, trainer.ranks)
        return lambda: task.evaluate(learned.network)

    learned.network.eval()
    with torch.inference_mode():
        validation, validated = extrapolated(validation_of, valid, 0.2 * seconds, trainer.ranks)
        last_scores, _ = extrapolated(
            lambda some: lambda: kind.score(learned, some), valid, 0.2 * seconds, trainer.ranks
        )
    tries_a_mean = trainer.config.average_last or trainer.config.average_best
    return Trial(
        pace=Pace(
            step=target_tokens(batches) / trainer.steps_per_epoch * passed / planned,
            validation=validation,
            checkpoint=checkpoint,
            ending=last_scores + (validation if tries_a_mean else 0.0),
        ),
        steps=steps,
        seconds=passed,
        target_tokens_per_second=tokens / passed,
        validated=validated,
        peak_bytes=peak_bytes(trainer.device),
    )


def batches_of(trainer: AnyTrainer) -> Buckets[Any]:
    assert isinstance(trainer.batches, Buckets)  # the type of the Trainer only says that they come in epochs
    return trainer.batches


def try_steps(trainer: AnyTrainer, batches: Buckets[Any], seconds: float) -> tuple[int, float, int, int]:
    """Train for about these seconds.

    Returns the number of timed steps, their seconds, the target tokens that were predicted, and those of the stored
    pairs: sampled pieces are more, the pieces of answers alone fewer.
    """
    given, progress = spread(batches), trainer.progress
    at_once = min(trainer.config.accumulate, trainer.batches_per_epoch)

    def steps_until(end: float, least: int = 1) -> tuple[int, float, int, int]:
        begin, step, tokens, planned = time.monotonic(), progress.step, progress.window.count, 0
        while progress.step < step + least or trainer.ranks.as_first(time.monotonic() < end):
            some = [*itertools.islice(given, at_once)]
            planned += sum(tokens_of(batches, indices) for indices in some)
            trainer.update(*map(batches.batch, some))
            trainer.advance(at_once)
        return progress.step - step, time.monotonic() - begin, progress.window.count - tokens, planned

    now = time.monotonic()
    steps_until(now + WARM_UP * seconds)
    while not trainer.replica.is_settled and time.monotonic() < now + MOST_WARM_UP * WARM_UP * seconds:
        steps_until(now)
    return steps_until(now + seconds, least=math.ceil(LEAST_STEPS / at_once))


def target_tokens(batches: Buckets[Any]) -> int:
    """Tokens to predict in an epoch: pieces and </s>, without padding."""
    return sum(tokens_of(batches, indices) for indices in batches.order(0))


def tokens_of(batches: Buckets[Any], indices: NDArray[np.int64]) -> int:
    return int((batches.columns[-1].lengths[indices] - 1).sum())


def spread(batches: Buckets[Any]) -> Iterator[NDArray[np.int64]]:
    """Batches of an epoch, as indices, endlessly, in an order in which any few of them cover all lengths evenly.

    With the shortest at 0 and the longest at 1, batch n is at the fractional part of 1/2 + n / 1.618.
    """
    by_length = sorted(batches.order(0), key=lambda indices: int(batches.columns[-1].lengths[indices].max()))
    for number in itertools.count():
        yield by_length[int((0.5 + number * GOLDEN_RATIO) % 1 * len(by_length))]


def extrapolated(
    work_on: Callable[[HeldOut], Callable[[], object]], pairs: HeldOut, seconds: float, ranks: Ranks = ALONE
) -> tuple[float, int]:
    """Estimate the seconds of a task on all pairs; also returns the number of pairs that it was timed on.

    `work_on(pairs)` prepares the work and returns it as a function. Few pairs do not fill a batch, and most of their
    time is overhead of the batch; so the time of all pairs is extrapolated on a line through two measurements.
    """
    timed(work_on(pairs.every(max(1, len(pairs) // 8))), ranks)  # the first call is always slower
    few = pairs.every(max(1, len(pairs) // FIRST_PAIRS))
    for_few = timed(work_on(few), ranks)
    if len(few) == len(pairs):
        return for_few, len(few)
    more = pairs.every(math.ceil(len(pairs) / len(few) / max(2, seconds / for_few - 1)))
    for_more = timed(work_on(more), ranks)
    for_another = max(0.0, for_more - for_few) / (len(more) - len(few))
    return for_more + for_another * (len(pairs) - len(more)), len(more)


def timed(work: Callable[[], object], ranks: Ranks = ALONE) -> float:
    """Seconds that the work takes, by the clock of the first process."""
    begin = time.monotonic()
    work()
    return ranks.as_first(time.monotonic() - begin)


def peak_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)  # what recordings keep counts
    import resource  # Windows lacks it; weft refuses Windows where files are locked

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak  # bytes there, KiB elsewhere
