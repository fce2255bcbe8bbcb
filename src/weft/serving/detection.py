"""In which of the languages that a server knows a text is written.

Chinese is told by its characters: one of them says about as much as a word. The others are py3langid's to tell.
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
        """The likeliest of the languages, however unlikely; with a confidence of 0 where the text has no letter."""
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
        """py3langid for all the languages that it knows, so that what is none of ours is found unlikely.

        Read when it is first needed; raises MissingExtraError where it is not installed.
        """
        try:
            from py3langid.langid import MODEL_FILE, LanguageIdentifier
        except ImportError:
            raise MissingExtraError("py3langid", "serve") from None
        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
