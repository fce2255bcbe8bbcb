"""What a translator answers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Translation:
    """A translated sentence; `log_prob` is the sum over its pieces and </s>, `score` what the search went by: see
    decoding/length.py, and for minimum Bayes risk, whose score is the expected utility, decoding/mbr.py. Both are 0
    where nothing was searched for: for a text without a visible character, and where a memory has the translation."""

    source: str
    text: str
    score: float
    log_prob: float
