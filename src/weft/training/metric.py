"""What a validation measures, as the Trainer, the display and the report need to know it. Imports nothing heavy."""

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """A figure that a validation measures under the key `valid_NAME`."""

    name: str
    better: Literal["max", "min"]
    title: str
    """What people call it, such as BLEU."""
    form: str = ".4g"
    """The format in which it is shown."""
    most: float = math.inf
    """The largest value that it can have; the least is 0."""

    @property
    def key(self) -> str:
        return f"valid_{self.name}"
