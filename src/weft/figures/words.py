"""Texts of tables and pages in the languages that they are written in. English is the key; the others are files."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Say:
    """Gives the texts in one language; what stands in braces is filled in. English is the key."""

    language: str = "en"
    words: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, english: str, **values: object) -> str:
        text = self.words.get(english, english)
        return text.format(**values) if values else text


ENGLISH = Say()


def say_from(folder: Path, name: str, language: str) -> Say:
    """The texts of FOLDER/NAME.LANGUAGE.toml; English needs no file."""
    if language == "en":
        return ENGLISH
    return Say(language, tomllib.loads((folder / f"{name}.{language}.toml").read_text(encoding="utf-8")))


def figure_words(language: str) -> Say:
    """The words of figures in a language."""
    return say_from(Path(__file__).parent, "figures", language)
