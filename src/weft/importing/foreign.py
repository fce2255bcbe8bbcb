"""What every format comes to before weft makes a model of it: settings, vocabularies, and tensors with their names.

A reader (marian.py, marian_npz.py, joeynmt.py) says what its format calls things. What follows from that, conversion.py
does once for all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from jaxtyping import Int
from pydantic import Field, ValidationError
from torch import Tensor

from weft.errors import Problem

Parts = Mapping[str, tuple[str, ...]]
"""weft's name of a linear map or a norm -> the foreign ones whose weights, one above the other, are its own."""


@dataclass(frozen=True)
class ForeignVocabulary:
    """One language's tokens as another system numbers them, and the SentencePiece model that cuts text into them."""

    tokens: tuple[str, ...]
    """Of each id; that is also its row in the embedding."""
    model: bytes
    model_file: str
    padding: int
    unknown: int
    begin: int
    """What the decoder is given before the first token."""
    end: int
    tags: frozenset[str] = frozenset()
    """Tokens that no text becomes."""
    is_closed: bool = False
    """Whether text is cut without the pieces of several characters that are none of the tokens."""


Layers = Annotated[int, Field(ge=1, le=256)]
Width = Annotated[int, Field(ge=1, le=65_536)]
"""Bounds of what a folder says of itself, which is believed before its weights are looked at."""


@dataclass(frozen=True)
class Foreign:
    """A Transformer as another system has written it."""

    framework: str
    """For people to read."""
    languages: tuple[str | None, str | None]
    """Codes of the source and the target, where the folder tells."""
    settings: Mapping[str, Any]
    """Keys of weft's [model] and [decoding], dotted."""
    source: ForeignVocabulary
    target: ForeignVocabulary
    layers: Parts
    """A part of weft's model -> what its `weight` and `bias` are called there, without these words."""
    source_embedding: str
    target_embedding: str
    output: str
    """Names of the three matrices; what is one matrix has one name."""
    output_bias: str | None
    tensors: Mapping[str, Tensor]
    files: tuple[str, ...]
    """What was read, for the card."""
    scales: tuple[bool, bool] = (True, True)
    """Whether embeddings of the source and of the target are multiplied by sqrt(model_dim)."""
    position_tables: tuple[str, ...] = ()
    """Names of tables of sinusoids among the tensors, if any; they are compared with weft's own."""
    order: Int[Tensor, " model"] | None = None
    """Of each dimension of weft's vectors, which one it is there, where these differ."""
    never: frozenset[int] = frozenset()
    """Target ids that are never written."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Names under which a matrix may stand once more -> its name."""


def stacked(prefix: str, theirs: str, layers: int, parts: Parts) -> dict[str, tuple[str, ...]]:
    """The parts of so many layers, `prefix` before weft's names and `theirs` before the others."""
    return {
        f"{prefix}.{number}.{part}": tuple(f"{theirs}.{number}.{name}" for name in names)
        for number in range(layers)
        for part, names in parts.items()
    }


def problems_of(error: ValidationError, prefix: str = "") -> Sequence[Problem]:
    """What pydantic says about another system's settings."""
    return [Problem(prefix + ".".join(map(str, each["loc"])), each["msg"]) for each in error.errors()]
