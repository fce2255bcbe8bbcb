"""Noise that models learned from the corpus itself find: n-grams of either side, and a lexicon between them.

With H the mean number of nats a character, by n-grams of trusted pairs (data.valid) or of the training pairs:

    domain      H_trusted - 0.3 H_training, both sides added: texts that are not like the trusted ones. With the factor
                1 it is the cross-entropy difference (Moore and Lewis 2010; both sides: Axelrod et al. 2011), which here
                finds half as much: the noise is among the training pairs, so their model knows it
    characters  H_training of a side: spoiled characters
    end         -log p(</s> | the last characters), both sides added: texts that are cut
    order       nats a word by trigrams, less those by single words, of a side: words in disorder
    dual        minus the mean of log p(word | other side) - log p(word) over the words of both sides, by IBM model 1:
                sides that do not translate each other. It is the mean of the two conditional cross-entropies of
                Junczys-Dowmunt (2018), less what rare words cost anyway; his difference of the two found less here

A pair is removed where a statistic is higher than those of all but a few of the trusted pairs. No text is judged by
n-grams that were learned from it: there are two models, each of every other pair, and half of the trusted pairs are
for the trusted model.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.data.doctor.alignment import within_reach
from weft.data.doctor.lexicon import Lexicon, learn
from weft.data.measures import tokens
from weft.errors import CorpusError, Problem
from weft.text.ngrams import Ngrams, estimate
from weft.text.vocabulary import BEGIN_ID, END_ID, SPECIAL_PIECES, UNKNOWN_ID

LEARNED_FROM = 50_000
"""Most training pairs that the models are learned from."""
FEWEST_TRUSTED = 200
"""Trusted pairs without which no threshold is known."""
ORDER, WORD_ORDER = 4, 3
GENERAL = 0.3
SHARES = {
    "domain": 0.45,
    "end": 0.25,
    "source order": 0.1,
    "target order": 0.1,
    "source characters": 0.05,
    "target characters": 0.05,
}
"""What share of the trusted pairs that cleaning.cross_entropy may remove each statistic gets."""

Texts = Sequence[str]
Floats = NDArray[np.float64]
Halves = NDArray[np.int64]


@dataclass(frozen=True)
class Numbers:
    """Units of texts, characters or words, as ids from <s> to </s>."""

    ids: NDArray[np.int64]
    ends: NDArray[np.int64]
    """The place of each </s>."""

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]], numbers: Mapping[str, int]) -> "Numbers":
        rows = ((BEGIN_ID, *(numbers.get(unit, UNKNOWN_ID) for unit in text), END_ID) for text in texts)
        ids = np.array([number for row in rows for number in row], np.int64)
        return cls(ids, np.flatnonzero(ids == END_ID))

    def nats(self, ngrams: Ngrams) -> NDArray[np.floating]:
        """-log p of each id; 0 for <s>."""
        return -ngrams.token_log_probs(self.ids)

    def means(self, nats: NDArray[np.floating]) -> Floats:
        """The mean of each text, </s> counted."""
        sums = np.diff(np.cumsum(nats, dtype=np.float64)[self.ends], prepend=0)
        return sums / (np.diff(self.ends, prepend=-1) - 1)


def learn_ngrams(numbers: Numbers, order: int, known: int) -> Ngrams:
    return estimate(numbers.ids, order, known + len(SPECIAL_PIECES))[0]


def number(texts: Sequence[Sequence[str]], fewest: int) -> dict[str, int]:
    """The ids of the units that occur as often as that."""
    counts = Counter(unit for text in texts for unit in text)
    known = sorted(unit for unit, count in counts.items() if count >= fewest)
    return {unit: place for place, unit in enumerate(known, start=len(SPECIAL_PIECES))}


class Side:
    """The n-grams of one side of the corpus."""

    def __init__(self, texts: Texts, trusted: Texts) -> None:
        words = [*map(tokens, texts)]
        self.characters, self.words = number(texts, 1), number(words, 2)
        self.trusted = learn_ngrams(Numbers.of(trusted, self.characters), ORDER, len(self.characters))
        halves = [(texts[half::2], words[half::2]) for half in (0, 1)]
        self.halves = [
            (
                learn_ngrams(Numbers.of(of_half, self.characters), ORDER, len(self.characters)),
                learn_ngrams(Numbers.of(words_of_half, self.words), WORD_ORDER, len(self.words)),
                learn_ngrams(Numbers.of(words_of_half, self.words), 1, len(self.words)),
            )
            for of_half, words_of_half in halves
        ]

    def statistics(self, texts: Texts, halves: Halves) -> dict[str, Floats]:
        """The statistics of texts, of which those of `halves` 0 are not judged by the first models, and 1 not by the
        second."""
        characters, words = Numbers.of(texts, self.characters), Numbers.of([*map(tokens, texts)], self.words)
        found = []
        for by_characters, by_words, by_single_words in self.halves:
            nats = characters.nats(by_characters)
            order = words.means(words.nats(by_words)) - words.means(words.nats(by_single_words))
            found.append((characters.means(nats), nats[characters.ends], order))
        mean, end, order = (np.where(halves == 1, first, second) for first, second in zip(*found, strict=True))
        trusted = characters.means(characters.nats(self.trusted))
        return {"domain": trusted - GENERAL * mean, "characters": mean, "end": end, "order": order}


@dataclass(frozen=True)
class NoiseFilter:
    """Models of a corpus, and the limits of their statistics."""

    sides: tuple[Side, Side]
    lexicon: Lexicon | None
    limits: Mapping[str, Mapping[str, float]]
    """Rule of [cleaning] -> statistic -> the highest value that is kept."""

    @classmethod
    def learn(
        cls, pairs: tuple[Texts, Texts], trusted: tuple[Texts, Texts], cross_entropy: float, dual: float
    ) -> "NoiseFilter":
        """Learn from training pairs and trusted pairs; `cross_entropy` and `dual` are the shares of the trusted pairs
        that the two rules may remove. Raises CorpusError for fewer than FEWEST_TRUSTED trusted pairs."""
        if len(trusted[0]) < FEWEST_TRUSTED:
            what = (
                f"have {len(trusted[0])} pairs; cleaning.cross_entropy and dual_cross_entropy need at least "
                f"{FEWEST_TRUSTED}: add validation pairs, or set both to 0"
            )
            raise CorpusError("data.valid", [Problem("the files", what)])
        lexicon = None
        if dual:
            words = [[*map(tokens, side)] for side in pairs]
            rows = within_reach(*words)
            lexicon = learn(*([side[row] for row in rows] for side in words))
            if lexicon is None:
                what = "have too few words that occur often for cleaning.dual_cross_entropy; set it to 0"
                raise CorpusError("data.train", [Problem("the files", what)])
        sides = (Side(pairs[0], trusted[0][::2]), Side(pairs[1], trusted[1][::2]))
        held = trusted[0][1::2], trusted[1][1::2]
        found = cls(sides, lexicon, {}).statistics(held, np.arange(len(held[0])) % 2)
        shares = {name: cross_entropy * share for name, share in SHARES.items()} if cross_entropy else {}
        of_rules = {"cross_entropy": shares, "dual_cross_entropy": {"dual": dual} if dual else {}}
        limits = {
            rule: {name: float(np.quantile(found[name], 1 - share)) for name, share in of_rule.items()}
            for rule, of_rule in of_rules.items()
        }
        return cls(sides, lexicon, limits)

    def statistics(self, pairs: tuple[Texts, Texts], halves: Halves) -> dict[str, Floats]:
        source, target = (side.statistics(texts, halves) for side, texts in zip(self.sides, pairs, strict=True))
        found = {name: source[name] + target[name] for name in ("domain", "end")}
        for side, of_side in (("source", source), ("target", target)):
            found |= {f"{side} {name}": of_side[name] for name in ("order", "characters")}
        if self.lexicon is not None:
            found["dual"] = -self.lexicon.explain(*([*map(tokens, side)] for side in pairs)).scores().astype(np.float64)
        return found

    def judge(self, pairs: tuple[Texts, Texts], halves: Halves) -> dict[str, NDArray[np.bool_]]:
        """Rule -> mask of the pairs that it removes."""
        found = self.statistics(pairs, halves)
        return {
            rule: np.any([found[name] > limit for name, limit in limits.items()], axis=0)
            for rule, limits in self.limits.items()
            if limits
        }
