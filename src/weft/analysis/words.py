"""The words of the reports in the languages that they are written in. English is the key of every other language."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Say:
    """Gives a text of a report in one language; what stands in braces is filled in."""

    language: str

    def __call__(self, english: str, **values: object) -> str:
        return WORDS[self.language].get(english, english).format(**values)


def say_in(language: str) -> Say:
    return Say(language)


ZH = {
    "Curves": "曲线",
}
WORDS: dict[str, dict[str, str]] = {"en": {}, "zh": ZH}
