"""What a server is willing to do: every bound has a name and a default, and only the rate can be switched off."""

import math
import sys
from dataclasses import dataclass

from weft.errors import UsageError

LEAST_SECONDS = 1e-3


@dataclass(frozen=True)
class Limits:
    body_bytes: int = 1 << 20
    """Bytes of a request's body."""
    characters: int = 5_000
    """Characters of one text."""
    texts: int = 128
    """Texts of one request."""
    alternatives: int = 8
    """Other translations of one text."""
    beam_size: int = 10
    """Hypotheses that a request may ask for."""
    terms: int = 200
    """Terms of a request's own glossary."""
    explained_characters: int = 400
    """Characters of a text that is to be explained, which takes a pass of the model for each of its words; its
    translation may have some times as many (weft_api.py)."""
    queue: int = 256
    """Requests for a model that are in the house at once, waiting or answered; the next one is refused. Of bodies that
    are still being read there are at most so many times body_bytes."""
    seconds: float = 30.0
    """From a request's body to its answer; also what a server that is shutting down waits for, whatever was begun."""
    document_seconds: float = 600.0
    """The same for files and streams, whose first sentence comes as soon as any other."""
    body_seconds: float = 10.0
    """Until a request's body is there."""
    requests_per_minute: int = 0
    """Of one client; 0 sets no rate."""
    connections: int = 1024
    """Open at once; what comes beyond is refused."""

    def __post_init__(self) -> None:
        least = {"requests_per_minute": 0, "alternatives": 0}
        for name, value in vars(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"the limit {name} = {value} is no number of seconds; it cannot be switched off")
            if value > sys.maxsize:
                raise UsageError(f"the limit {name} is more than a machine counts to; it cannot be switched off")
            lowest = least.get(name, LEAST_SECONDS if isinstance(value, float) else 1)
            if value < lowest:
                raise UsageError(f"the limit {name} = {value} lets nothing through; give {lowest} or more")
