"""`Translation`, the result of a translator for one text."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.decoding.search import DecodingConfig


@dataclass(frozen=True)
class Translation:
    """A translated text. `log_prob` is the sum over its pieces and </s>. `score` is what the search maximizes
    (decoding/length.py), or for minimum Bayes risk the expected utility (decoding/mbr.py). Both are 0 without a search:
    for a text without a visible character and for a translation from a memory."""

    source: str
    text: str
    score: float
    log_prob: float


def different(translations: Iterable[Translation]) -> list[Translation]:
    """The first translation with each text, in order."""
    first: dict[str, Translation] = {}
    for translation in translations:
        first.setdefault(translation.text, translation)
    return list(first.values())


WIDEST = 32
"""A beam of this size is not widened further for different texts."""


def with_different_texts(
    translate_n_best: Callable[..., list[list[Translation]]],
    texts: Sequence[str],
    found: Sequence[list[Translation]],
    best: int,
    config: DecodingConfig,
    prefixes: Sequence[str],
    phrases: Sequence[Sequence[str]],
    ask: Mapping[str, Any],
) -> list[list[Translation]]:
    """The translations found, each text once; where a beam wrote one in several ways, filled up from a wider beam.

    `ask` is what else `translate_n_best` was asked. The first translation of each text stays.
    """
    answers = list(map(different, found))
    again = [n for n, several in enumerate(found) if len(answers[n]) < min(best, len(several))]
    if again and config.method == "beam" and config.beam_size < WIDEST:
        given = {"prefixes": prefixes, "phrases": phrases}
        asked: dict[str, Any] = {name: [each[n] for n in again] if each else None for name, each in given.items()}
        size = 2 * config.beam_size
        wider = translate_n_best([texts[n] for n in again], size, **{**ask, **asked, "beam_size": size})
        for n, several in zip(again, wider, strict=True):
            first, *others = answers[n]
            others = sorted([*others, *several], key=lambda one: one.score, reverse=True)
            answers[n] = different([first, *others])[:best]
    return answers
