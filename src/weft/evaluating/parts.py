"""Translate many sentences in parts, so that it can be said how far it is."""

from collections.abc import Callable, Sequence
from typing import Any

from weft.translating.translation import Translation
from weft.translating.translator import Translator

PART = 512
"""Sentences of a part: many batches, so that little is lost by ending each."""

Tell = Callable[[int, int], None]
"""Called with the number of sentences that are done and with that of all."""


def translate_in_parts(
    translator: Translator, sources: Sequence[str], tell: Tell = lambda done, total: None, **settings: Any
) -> list[Translation]:
    """What `translate` returns for all sources, which are translated from the longest to the shortest."""
    order = sorted(range(len(sources)), key=lambda number: -len(sources[number]))
    found: dict[int, Translation] = {}
    for first in range(0, len(order), PART):
        some = order[first : first + PART]
        found |= zip(some, translator.translate([sources[number] for number in some], **settings), strict=True)
        tell(len(found), len(order))
    return [found[number] for number in range(len(sources))]
