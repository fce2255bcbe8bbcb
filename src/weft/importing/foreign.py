"""The form into which the readers bring every format: settings, vocabularies, and tensors with their names.

A reader (marian.py, marian_npz.py, joeynmt.py) says what its format calls things; conversion.py does the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from jaxtyping import Int
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from weft.errors import ModelError, Problem

Settings = TypeVar("Settings", bound=BaseModel)
Parts = Mapping[str, tuple[str, ...]]
"""weft's name of a linear map or a norm -> the foreign ones whose weights, stacked by rows, are its own."""


@dataclass(frozen=True)
class ForeignVocabulary:
    """One language's tokens as another system numbers them, and the SentencePiece model that cuts text into them."""

    tokens: tuple[str, ...]
    """By id, which is also the row in the embedding."""
    model: bytes
    model_file: str
    padding: int
    unknown: int
    begin: int
    """The token that the decoder is given before the first one."""
    end: int
    tags: frozenset[str] = frozenset()
    """Tokens into which no text is cut."""
    is_closed: bool = False
    """Whether pieces of several characters that are not among the tokens are not used to cut text."""


Layers = Annotated[int, Field(ge=1, le=256)]
Width = Annotated[int, Field(ge=1, le=65_536)]
"""Bounds of what a folder states, which is used before its weights are read."""


@dataclass(frozen=True)
class Foreign:
    """A Transformer that another system has written."""

    framework: str
    """Its name, for people."""
    languages: tuple[str | None, str | None]
    """Codes of the source and the target, if the folder states them."""
    settings: Mapping[str, Any]
    """Keys of weft's [model] and [decoding], dotted."""
    source: ForeignVocabulary
    target: ForeignVocabulary
    layers: Parts
    """A part of weft's model -> the prefixes of its `weight` and `bias` there."""
    source_embedding: str
    target_embedding: str
    output: str
    """Names of the three matrices; tied matrices have one name."""
    output_bias: str | None
    tensors: Mapping[str, Tensor]
    files: tuple[str, ...]
    """Names of the files that were read, for the card."""
    scales: tuple[bool, bool] = (True, True)
    """Whether embeddings of the source and of the target are multiplied by sqrt(model_dim)."""
    position_tables: tuple[str, ...] = ()
    """Names of tables of sinusoids among the tensors, if any; they are compared with weft's own."""
    order: Int[Tensor, " model"] | None = None
    """The dimension there for each dimension of weft's vectors, if these differ."""
    never: frozenset[int] = frozenset()
    """Target ids that are never written."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Names of possible second copies of a matrix -> its name."""


class Stated(BaseModel):
    """Settings as a file of another system states them; keys that do not matter here are ignored."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


def validated(kind: type[Settings], values: Mapping[str, Any], folder: Path, where: str) -> Settings:
    """Validate settings. Raises ModelError with every wrong key, each after `where`."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ModelError(folder, problems_of(error, where)) from None


def problems_of(error: ValidationError, prefix: str = "") -> Sequence[Problem]:
    """Convert what pydantic says about settings."""
    return [Problem(prefix + ".".join(map(str, each["loc"])), each["msg"]) for each in error.errors()]


def attention_parts(ours: str, theirs: str, letters: Sequence[str], norm: str) -> dict[str, tuple[str, ...]]:
    """Name the parts of an attention and its norm; `theirs` with one of four `letters` is the query, key, value and
    output."""
    query, key, value, output = (theirs.format(letter) for letter in letters)
    return {
        f"{ours}.query": (query,),
        f"{ours}.key_value": (key, value),
        f"{ours}.output": (output,),
        f"{ours}_residual.norm": (norm,),
    }


def feed_forward_parts(widen: str, narrow: str, norm: str) -> dict[str, tuple[str, ...]]:
    return {"feed_forward.widen": (widen,), "feed_forward.narrow": (narrow,), "feed_forward_residual.norm": (norm,)}


def stacked(ours: str, theirs: str, layers: int, parts: Parts) -> dict[str, tuple[str, ...]]:
    """Name the parts of all layers. `theirs` is a format with {number}, from 0, or {count}, from 1."""
    return {
        f"{ours}.{number}.{part}": tuple(theirs.format(number=number, count=number + 1) + name for name in names)
        for number in range(layers)
        for part, names in parts.items()
    }


def in_order(ids: Mapping[str, Any]) -> list[str]:
    """Return the tokens in the order of their ids. Raises ValueError unless these are 0, 1, 2, ..., each once."""
    tokens = {number: token for token, number in ids.items() if type(number) is int}
    if len(tokens) != len(ids) or tokens.keys() != set(range(len(ids))):
        missing = next((number for number in range(len(ids)) if number not in tokens), len(ids))
        raise ValueError(f"must number its {len(ids):,} tokens 0, 1, 2, ..., each once; {missing} is missing")
    return [tokens[number] for number in range(len(ids))]
