"""Texts of tables and pages in the languages that they are written in. English is the key of every other language."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Say:
    """Gives a text in one language; what stands in braces is filled in."""

    language: str
    words: Mapping[str, Mapping[str, str]]
    """Language -> English text -> text of that language."""

    def __call__(self, english: str, **values: object) -> str:
        return self.words.get(self.language, {}).get(english, english).format(**values)
