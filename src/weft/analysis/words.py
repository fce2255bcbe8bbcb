"""The words of the reports in the languages that they are written in: English here, others in NAME.toml beside it."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Say:
    """Gives the texts of a report in one language; what stands in braces is filled in. English is the key."""

    language: str = "en"
    words: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, english: str, **values: object) -> str:
        text = self.words.get(english, english)
        return text.format(**values) if values else text


ENGLISH = Say()


def say_in(language: str) -> Say:
    if language == "en":
        return ENGLISH
    return Say(language, tomllib.loads(Path(__file__).with_name(f"report.{language}.toml").read_text(encoding="utf-8")))
