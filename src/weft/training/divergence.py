"""What weft calls divergence, for the Trainer and for whoever reads its metrics. Imports nothing heavy."""

import math

JUDGED_OVER = 50
"""Updates per mean of the training loss: single batches differ by a nat, means of fifty hardly do."""


def is_much_worse(valid_loss: float, best_loss: float | None, by: float) -> bool:
    """Whether a validation loss is not finite, or more than `by` above that of the best weights.

    False where there are no best weights to go back to, or where their loss was not finite either.
    """
    if best_loss is None or not math.isfinite(best_loss):
        return False
    return not math.isfinite(valid_loss) or valid_loss > best_loss + by
