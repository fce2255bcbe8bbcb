"""What training survives without help: steps that are not finite, memory that runs out, runs that diverge.

The Trainer acts on what is decided here.
"""

import math
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from weft.errors import MemoryRanOut, WeftError, is_out_of_memory
from weft.training.config import TrainingConfig
from weft.training.divergence import is_much_worse
from weft.training.progress import Progress
from weft.training.run_folder import SKIPPED, RunFolder
from weft.training.task import BatchOfRows, Evaluation

MOST_FALLBACKS = 4
"""How often a run that diverges falls back to its best weights before it gives up."""
FALLBACK_FACTOR = 0.5
"""What each fall-back multiplies the learning rate by; a sixteenth of it is left in the end."""


# Steps that are not finite


def skip(
    progress: Progress, losses: Sequence[float], grad_norm: float, contents: Sequence[dict[str, Any]], run: RunFolder
) -> str:
    """Count a skipped update and write its batches to skipped.jsonl: those whose loss is not finite, or all of them if
    every loss is finite. Returns a message.

    `losses` and `contents` hold one entry per batch.
    """
    progress.skipped += 1
    progress.skipped_in_a_row += 1
    bad = [place for place, loss in enumerate(losses) if not math.isfinite(loss)]
    for place in bad or range(len(losses)):
        row = {
            "step": progress.step + 1,
            "epoch": progress.epoch + 1,
            "batch": progress.batch + place + 1,
            "loss": losses[place],
            "grad_norm": grad_norm,
            **contents[place],
        }
        run.append(SKIPPED, row)
    return (
        f"step {progress.step + 1:,} is skipped, since its {'loss' if bad else 'gradient'} is infinite or NaN; what "
        f"was in it is in {run.path / SKIPPED}"
    )


def give_up_after_skips(progress: Progress, config: TrainingConfig, run: RunFolder) -> None:
    """Raises WeftError after training.most_skipped skipped updates in a row."""
    if progress.skipped_in_a_row >= config.most_skipped:
        raise WeftError(
            f"the loss or the gradient was infinite or NaN in {progress.skipped_in_a_row} updates in a row, the last "
            f"at step {progress.step + 1:,}; the last checkpoint is intact. Look at what is in {run.path / SKIPPED}; "
            "if it is fine, start a new run with a lower training.learning_rate or training.precision = "
            '"fp32", or continue this one with a larger training.most_skipped'
        )


# Memory


@contextmanager
def explaining_out_of_memory() -> Iterator[None]:
    """Turn an out-of-memory error that no smaller batch can cure into MemoryRanOut."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise MemoryRanOut(
            "memory ran out where smaller training batches do not help: in a validation or in the last scores (lower "
            "decoding.batch_tokens), or for the model and its optimizer (make the model smaller); what was saved "
            "before is intact"
        ) from error


def split_further(progress: Progress, batches: Sequence[BatchOfRows]) -> str:
    """Compute each batch in twice as many parts from here on. Returns a message; raises MemoryRanOut where each part
    has one row already."""
    step, parts = progress.step + 1, 2 * progress.parts
    if all(len(batch.chunk(parts)) == len(batch.chunk(progress.parts)) for batch in batches):
        raise MemoryRanOut(
            f"memory ran out in step {step:,}, even with one row of a batch at a time; make the model smaller, or its "
            "longest sentences shorter (data.max_length); what was saved before is intact"
        )
    progress.parts = parts
    return (
        f"memory ran out in step {step:,}: from here on each batch is computed in {parts} parts, whose gradients are "
        "added up to that of the whole"
    )


# Divergence


def has_diverged(progress: Progress, evaluation: Evaluation, by: float) -> bool:
    """Whether training has gone wrong for good: the validation loss is not finite, or both it and the training loss
    have risen by more than `by` above the best."""
    found = evaluation.metrics.get("valid_loss")
    if found is None or math.isinf(by) or not is_much_worse(found, progress.best_loss, by):
        return False
    return not math.isfinite(found) or progress.level.has_risen(by)


def note_fallback(progress: Progress, evaluation: Evaluation, run: RunFolder) -> str:
    """Count a fall-back to the best weights and halve the learning rate. Returns a message; raises WeftError where the
    run has already fallen back MOST_FALLBACKS times."""
    losses = f"validation loss {evaluation.metrics['valid_loss']:.3g} after {progress.best_loss:.3g}"
    found = f"{losses} at step {progress.best_step:,}"
    if progress.fallbacks == MOST_FALLBACKS:
        raise WeftError(
            f"training has diverged for the {MOST_FALLBACKS + 1}th time, at step {progress.step:,} ({found}), with the "
            f"learning rate at {progress.rate_scale:.3g} of the recipe's; lower training.learning_rate or raise "
            f"training.warmup in a new run. The best weights are intact: --model {shlex.quote(str(run.path))}"
        )
    progress.fallbacks += 1
    progress.rate_scale *= FALLBACK_FACTOR
    return (
        f"training has diverged ({found}): back to the weights of that step, the learning rate is "
        f"multiplied by {progress.rate_scale:.3g} from here on ({progress.fallbacks} of {MOST_FALLBACKS})"
    )
