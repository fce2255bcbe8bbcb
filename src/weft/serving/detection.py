"""Detects the language of a text: one of a server's, or another that is far likelier than any of them.

Chinese is told by its characters, each of which counts as much as a word, unless kana are among them; other languages
by py3langid. Addresses, tags and placeholders do not count.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from weft.text.chinese import IS_HAN, is_chinese
from weft.text.japanese import KANA
from weft.text.language import code_of
from weft.text.markup import MARK

DETECTION_CHARACTERS = 2000
"""The length of the beginning by which the language of a long text or a file is told."""
WORD = re.compile(r"[^\W\d_]+")
IS_KANA = re.compile(f"[{KANA}]")
SHARE_OF_KANA = 0.2
"""A Chinese text has hardly more kana than a の in a name."""
CLEARLY = 10.0
"""How many times as probable as a server's own languages another language is that is reported instead. Of 3,000 English
sentences of Tatoeba none is taken for another language; at 5 times one is."""


@dataclass(frozen=True)
class Detection:
    language: str
    confidence: float
    """From 0 to 100."""


class Detector:
    """Chooses among `languages`, codes such as zh and en."""

    def __init__(self, languages: Sequence[str]) -> None:
        # zh before yue and others, which are written with the same characters
        self.chinese = min(filter(is_chinese, languages), key=lambda language: language != "zh", default=None)
        self.others = [language for language in languages or ["en"] if not is_chinese(language)]

    def detect(self, text: str) -> Detection:
        """The language of the text, with a confidence of 0 if it has no letter. For languages other than Chinese the
        confidence is the probability compared with that of the strongest rival."""
        text = MARK.sub(" ", text)
        han = len(IS_HAN.findall(text))
        words = len(WORD.findall(IS_HAN.sub(" ", text)))
        share, kana = han / max(1, han + words), len(IS_KANA.findall(text))
        has_kana = kana >= 2 and kana >= SHARE_OF_KANA * (han + kana)
        if self.chinese is not None and not has_kana and (share >= 0.5 or not self.others):
            return Detection(self.chinese, round(100 * share, 1))
        usual = self.others[0] if self.others else self.chinese or "en"
        if not words:
            japanese = next((code for code in self.others if han and code_of(code) == "ja"), None)
            if japanese or not han:
                return Detection(japanese or usual, round(100 * share, 1))
        ranked = [(code, float(probability)) for code, probability in self.identifier.rank(text)]
        found = next((one for one in ranked if one[0] in self.others), (usual, 0.0))
        if ranked[0][1] >= CLEARLY * found[1]:
            found = ranked[0]
        rival = next(probability for code, probability in ranked if code != found[0])
        return Detection(found[0], round(100 * found[1] / (found[1] + rival), 1))

    @cached_property
    def identifier(self) -> Any:
        """py3langid for all its languages, so that a text in none of ours gets a low probability; loaded on first
        use."""
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
