"""The bounds of a server. Each has a name and a default; only the request rate can be switched off."""

import math
import sys
from dataclasses import dataclass

from weft.errors import UsageError

LEAST_SECONDS = 1e-3


@dataclass(frozen=True)
class Limits:
    body_bytes: int = 1 << 20
    """Size of a request's body."""
    characters: int = 5_000
    """Characters of one text."""
    texts: int = 128
    """Texts of one request."""
    alternatives: int = 8
    """Alternative translations of one text."""
    beam_size: int = 10
    """Largest beam that a request may ask for."""
    terms: int = 200
    """Terms of a request's own glossary."""
    explained_characters: int = 400
    """Characters of a text to explain, which takes one pass of the model per word. Its translation may be several times
    as long (`TRANSLATION_FACTOR` in weft_api.py)."""
    queue: int = 256
    """Requests for a model that wait or are being answered; further ones are refused. Bodies that are still being read
    may take `queue` times `body_bytes` together."""
    seconds: float = 30.0
    """From the end of a request's body to its response; also how long a shutdown waits for running requests."""
    document_seconds: float = 600.0
    """Longest time for the translation of a file or a stream, in seconds."""
    body_seconds: float = 10.0
    """Until a request's body is received."""
    requests_per_minute: int = 0
    """For each client; 0 sets no rate."""
    connections: int = 1024
    """Open connections; requests on further ones are refused."""

    def __post_init__(self) -> None:
        least = {"requests_per_minute": 0, "alternatives": 0}
        for name, value in vars(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"the limit {name} = {value} is not finite; it cannot be switched off")
            if value > sys.maxsize:
                raise UsageError(f"the limit {name} does not fit into a machine word; it cannot be switched off")
            lowest = least.get(name, LEAST_SECONDS if isinstance(value, float) else 1)
            if value < lowest:
                raise UsageError(f"the limit {name} = {value} lets nothing through; give {lowest} or more")
