"""The bins of a histogram."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

MOST_BINS = 12


def binned(groups: Sequence[ArrayLike], limits: Sequence[int] = ()) -> tuple[list[int], list[list[int]]]:
    """Count whole numbers by size: the inclusive upper limits of the bins, and for each group how many are in each bin.

    After the last limit comes one more bin without a limit. Left out, the limits are of equal distance, a round number
    of which at most MOST_BINS - 1 reach 99 percent of the numbers.
    """
    arrays = [np.asarray(group) for group in groups]
    if not limits:
        most = max(1.0, float(np.percentile(np.concatenate(arrays), 99)) if any(map(len, arrays)) else 1.0)
        steps = (factor * 10**power for power in range(16) for factor in (1, 2, 5))
        step = next(step for step in steps if step * (MOST_BINS - 1) >= most)
        limits = [step * place for place in range(1, int(-(-most // step)) + 1)]
    places = [np.searchsorted(limits, array) for array in arrays]
    return list(limits), [np.bincount(place, minlength=len(limits) + 1).tolist() for place in places]
