"""`Translation`, the result of a translator for one text."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Translation:
    """A translated text. `log_prob` is the sum over its pieces and </s>. `score` is what the search maximizes
    (decoding/length.py), or for minimum Bayes risk the expected utility (decoding/mbr.py). Both are 0 without a search:
    for a text without a visible character and for a translation from a memory."""

    source: str
    text: str
    score: float
    log_prob: float
