"""Encode pairs of texts as ids, with <s> and </s>. Knows no tensor and no file."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.data.sentences import Sentences
from weft.errors import UsageError
from weft.text.tokenizer import Tokenizer
from weft.text.vocabulary import BEGIN_ID, END_ID


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs of ids: sources end with </s>, targets begin with <s> and end with </s>."""

    sources: Sentences
    targets: Sentences
    kept: NDArray[np.int64]
    """Indices of these pairs among the given ones."""


def pairs_of_ids(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    before: Sequence[Sequence[int]],
    max_length: int | None,
) -> EncodedPairs:
    """Add the special ids to encoded texts, and drop pairs with more than `max_length` pieces on a side."""
    encoded = zip(sources, targets, before, strict=True)
    fitting = [
        (place, [*first, *source, END_ID], [BEGIN_ID, *target, END_ID])
        for place, (source, target, first) in enumerate(encoded)
        if max_length is None or max(len(source), len(target)) <= max_length
    ]
    return EncodedPairs(
        Sentences([source for _, source, _ in fitting]),
        Sentences([target for _, _, target in fitting]),
        np.array([place for place, _, _ in fitting], np.int64),
    )


def tag_ids(tokenizer: Tokenizer, tag: str | None) -> list[int]:
    """The tag as a list of ids, empty for None; raises UsageError if the vocabulary has no such tag."""
    if tag is None:
        return []
    found = tokenizer.tag_id(tag)
    if found is None:
        raise UsageError(f"the source vocabulary has no tag {tag}; it learns the tags in data.train when it is made")
    return [found]
