"""What training recovers from by itself, and how it is told: memory that does not suffice, and a loss that explodes.

The Trainer acts on what stands here; nothing here knows a model, a clock or a file.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor

from weft.errors import MemoryRanOut, is_out_of_memory

JUDGED_OVER = 50
"""Updates whose mean loss is one judgement: single batches differ by a nat, means of fifty hardly do."""

MOST_FALLBACKS = 4
"""How often a run that diverges goes back to its best weights before it gives up ..."""
FALLBACK_FACTOR = 0.5
"""... and what each time becomes of the learning rate: a sixteenth of it is left in the end."""


@contextmanager
def naming_lack_of_memory() -> Iterator[None]:
    """Memory that runs out inside the block, where no smaller batch would help, is one clear error."""
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


@dataclass
class LossLevel:
    """The training loss per prediction, as a mean over JUDGED_OVER updates: the newest mean, the lowest so far, and
    the lowest since a validation last found nothing wrong with a higher one.

    Why it takes more than a validation loss to tell that a run diverges: that one also rises when a model learns its
    corpus by heart, while the training loss falls. Why more than a training loss: that one also rises, from a low
    level, when the learning rate of a trained model is raised anew, while the validation loss rises little.
    """

    total: float | Tensor = 0.0
    count: int = 0
    updates: int = 0
    newest: float | None = None
    lowest: float | None = None
    accepted: float | None = None

    def add(self, total: float | Tensor, count: int) -> None:
        """One more update; its loss stays on its device until fifty of them are looked at."""
        self.total = self.total + total
        self.count += count
        self.updates += 1
        if self.updates == JUDGED_OVER:
            self.newest = float(self.total) / self.count
            self.lowest = self.newest if self.lowest is None else min(self.lowest, self.newest)
            self.accepted = self.newest if self.accepted is None else min(self.accepted, self.newest)
            self.total, self.count, self.updates = 0.0, 0, 0

    def has_risen(self, by: float) -> bool:
        """Whether the newest mean lies more than so many nats above the lowest one."""
        return self.newest is not None and self.lowest is not None and self.newest > self.lowest + by

    def calls_for_validation(self, by: float) -> bool:
        """Whether the newest mean lies so far above what no validation has accepted yet."""
        return self.newest is not None and self.accepted is not None and self.newest > self.accepted + by

    def accept(self) -> None:
        """A validation has found nothing wrong with the newest mean: only a still higher one calls for another."""
        self.accepted = self.newest

    def restarted(self) -> "LossLevel":
        """Where training goes on from weights of this level: the next mean is judged by it, whatever came after it."""
        return LossLevel(lowest=self.lowest, accepted=self.lowest)

    def read(self) -> None:
        """Make a plain number of the sum."""
        self.total = float(self.total)


def is_much_worse(valid_loss: float, best_loss: float | None, by: float) -> bool:
    """Whether a validation loss is infinite or NaN, or more than so many nats above that of the best weights.

    False where there are no best weights to go back to, or where theirs was no number either.
    """
    if best_loss is None or not math.isfinite(best_loss):
        return False
    return not math.isfinite(valid_loss) or valid_loss > best_loss + by
