"""Fields that requests of several APIs have, with the bounds of this server."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import GroupedMetadata
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from weft.serving.models import Models
from weft.serving.reading import from_form
from weft.serving.service import AUTO

LONGEST_TERM = 200

Key = Annotated[str, StringConstraints(max_length=500)]
"""An API key, for clients that send it in the body."""
Term = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_TERM, pattern=r"\S")]


@dataclass(frozen=True)
class Glossary(GroupedMetadata):
    """For terms of the source language and their translations."""

    most: int

    def __iter__(self) -> Iterator[object]:
        yield Field(max_length=self.most, json_schema_extra=say_of_keys)
        yield BeforeValidator(self._refuse_more)
        yield BeforeValidator(from_form)

    def _refuse_more(self, terms: object) -> object:
        """Before each is looked at, and what is wrong with it described, which nobody else is answered meanwhile."""
        if isinstance(terms, dict) and len(terms) > self.most:
            raise ValueError(f"{len(terms):,} terms are more than {self.most:,}")
        return terms


def say_of_keys(schema: dict[str, Any]) -> None:
    """Have a schema say that other keys are refused, where pydantic says that they are not looked at."""
    (pattern, values), *_ = schema.pop("patternProperties").items()
    schema["propertyNames"] = {**schema["propertyNames"], "pattern": pattern}
    schema["additionalProperties"] = values


@dataclass(frozen=True)
class ModelName(GroupedMetadata):
    """For the name of one of the models, or none."""

    known: Sequence[str]

    def __iter__(self) -> Iterator[object]:
        yield AfterValidator(self._refuse_other)
        yield Field(json_schema_extra={"enum": ["", *self.known]})

    def _refuse_other(self, name: str) -> str:
        if name and name not in self.known:
            raise ValueError(f"there is no model {name[:50]!r}; there are {', '.join(self.known)}")
        return name


@dataclass(frozen=True)
class Code(GroupedMetadata):
    """For the code of one of these languages, in any region, or one of the other `words`."""

    known: Sequence[str]
    words: Sequence[str] = ()

    def __iter__(self) -> Iterator[object]:
        yield AfterValidator(self._refuse_other)
        yield Field(json_schema_extra={"pattern": self.pattern})

    @property
    def pattern(self) -> str:
        codes = f"({'|'.join(self.known)})([-_][A-Za-z0-9]{{1,8}}){{0,3}}"
        return f"^({'|'.join([*self.words, codes])})$"

    def _refuse_other(self, code: str) -> str:
        if re.match(self.pattern, code) is None or code.endswith("\n"):
            raise ValueError(f"{code[:20]!r} is not supported; choose from {', '.join([*self.words, *self.known])}")
        return code


def as_whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True)
class Whole(GroupedMetadata):
    """For a whole number between these. JSON has one kind of number: 5.0 is 5."""

    least: int
    most: int

    def __iter__(self) -> Iterator[object]:
        yield Field(ge=self.least, le=self.most)
        yield BeforeValidator(as_whole)


def codes_of(models: Models) -> tuple[Code, Code]:
    """What a source and a target may be; a text that is in the target language already is a source too."""
    return Code(models.languages, [AUTO]), Code(sorted({target for _, target in models.directions}))


def terms_of(glossary: dict[str, str] | None) -> tuple[tuple[str, str], ...]:
    """In an order that makes equal glossaries equal."""
    return tuple(sorted((glossary or {}).items()))
