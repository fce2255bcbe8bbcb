"""Subword regularization: a word is split into pieces at random, so that a model sees it in many segmentations.

Not left to SentencePiece, whose random numbers cannot be reproduced: with the same seed, two processes draw different
ones. Pieces are given as a table of their scores.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random


@dataclass(frozen=True)
class Pieces:
    """The score of each piece: its rank in BPE, its log-probability in a unigram model; the higher, the better."""

    scores: Mapping[str, float]

    @cached_property
    def longest(self) -> int:
        return max(map(len, self.scores))

    @cached_property
    def unknown_score(self) -> float:
        """The score of a character that is not a piece: 10 below the lowest one, as in SentencePiece."""
        return min(self.scores.values()) - 10


def drop_merges(word: str, pieces: Pieces, dropout: float, random: Random) -> list[str]:
    """BPE-dropout (Provilkov et al. 2020, algorithm 1): repeatedly merge the two neighbors that together are the
    piece of the highest score; in each step, each possible merge is dropped with this probability.

    Among equal scores the leftmost is merged. Dropout 0 is plain BPE; with 1, characters are left.
    """
    parts, scores = list(word), pieces.scores
    while True:
        best, best_score = -1, -math.inf
        for place in range(len(parts) - 1):
            score = scores.get(parts[place] + parts[place + 1])
            if score is not None and score > best_score and random.random() >= dropout:
                best, best_score = place, score
        if best < 0:
            return parts
        parts[best : best + 2] = [parts[best] + parts[best + 1]]


def draw_cut(word: str, pieces: Pieces, alpha: float, random: Random) -> list[str]:
    """A segmentation of the word, drawn from all of them with a probability proportional to P(segmentation)^alpha
    (subword sampling, Kudo 2018), where log P is the sum of the pieces' scores: forward filtering, backward sampling.

    A character that is not a piece may stand alone too.
    """
    # At each place of the word: the logarithm of the weight of all segmentations up to it, and of those whose last
    # piece begins at each earlier place.
    totals = [0.0]
    endings: list[list[tuple[float, int]]] = [[]]
    for end in range(1, len(word) + 1):
        options = []
        for begin in range(max(0, end - pieces.longest), end):
            score = pieces.scores.get(word[begin:end])
            if score is None and begin == end - 1:
                score = pieces.unknown_score
            if score is not None:
                options.append((totals[begin] + alpha * score, begin))
        highest = max(weight for weight, _ in options)
        totals.append(highest + math.log(sum(math.exp(weight - highest) for weight, _ in options)))
        endings.append(options)
    parts: list[str] = []
    end = len(word)
    while end:
        weights = [math.exp(weight - totals[end]) for weight, _ in endings[end]]
        begin = random.choices([begin for _, begin in endings[end]], weights)[0]
        parts.append(word[begin:end])
        end = begin
    return parts[::-1]
