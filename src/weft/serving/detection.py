"""Detects the language of a text among those of a server.

Chinese is told by its characters, each of which counts as much as a word; other languages by py3langid.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from weft.errors import MissingExtraError
from weft.text.chinese import IS_HAN, is_chinese

WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class Detection:
    language: str
    confidence: float
    """From 0 to 100."""


class Detector:
    """Chooses among `languages`, codes such as zh and en."""

    def __init__(self, languages: Sequence[str]) -> None:
        self.chinese = next((language for language in languages if is_chinese(language)), None)
        self.others = [language for language in languages if not is_chinese(language)]

    def detect(self, text: str) -> Detection:
        """The likeliest of the languages, with a confidence of 0 if the text has no letter."""
        han = len(IS_HAN.findall(text))
        words = len(WORD.findall(IS_HAN.sub(" ", text)))
        share = han / max(1, han + words)
        if self.chinese is not None and (share >= 0.5 or not self.others):
            return Detection(self.chinese, round(100 * share, 1))
        if not words:
            return Detection(self.others[0], 0.0)
        probabilities = dict(self.identifier.rank(text))
        likeliest = max(self.others, key=lambda language: probabilities.get(language, 0.0))
        return Detection(likeliest, round(100 * float(probabilities.get(likeliest, 0.0)), 1))

    @cached_property
    def identifier(self) -> Any:
        """py3langid for all its languages, so that a text in none of ours gets a low probability.

        Loaded on first use. Raises MissingExtraError if it is not installed.
        """
        try:
            from py3langid.langid import MODEL_FILE, LanguageIdentifier
        except ImportError:
            raise MissingExtraError("py3langid", "serve") from None
        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
