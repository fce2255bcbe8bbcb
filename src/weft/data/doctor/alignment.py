"""Find pairs that are out of step, unrelated or cut, by a lexicon learned from the corpus itself.

The thresholds are learned as well, from pairs made wrong on purpose: sources with the target of another pair, and pairs
with one side cut. So the checks work for any two languages.

A block is out of step if its pairs score low, and high when one side is shifted by k lines, |k| <= 50 (10 for shorter
blocks). A corpus that is out of step from its beginning gives no useful lexicon; if its pairs hardly score higher than
unrelated ones, a lexicon is learned from its ends, shifted by up to 10 lines.
"""

import math
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.data.doctor.lexicon import MOST_TOKENS, Explanation, Lexicon, learn, sums
from weft.data.measures import tokens
from weft.text.language import is_written_without_spaces

HELD_OUT = 10
"""One pair in HELD_OUT sets the thresholds and is not used for the lexicon."""
MOST_CELLS = 8_000_000
"""Most pairs of a source word and a target word that the lexicon is learned from: some 400 MB while learning."""
FARTHEST = 50
"""Largest shift, in lines, at which a block is found."""
NEAR = 10
"""Largest shift of a short block, and of a corpus that is out of step from its beginning; also the most pairs by which
the ends of a block are extended."""
STRETCHES = (800, 1500, 3000)
"""Numbers of consecutive pairs from either end of the corpus: the first size finds the shift, the size that separates
best gives the lexicon."""
CLEAR = 0.95
"""A separation from which on no better lexicon is searched."""
BETTER = 0.05
"""How much more another lexicon must separate to be used."""
STRANGERS = 0.65
"""A corpus with a lower separation is not a translation; 0.5 is chance, and 330 good pairs of zh-en-50k have 0.84."""
ACCUSED = 0.01
"""Largest share of good pairs that may be reported as unrelated."""
ENOUGH = 10_000
"""Number of pairs from which on a lexicon knows nearly all words."""
WINDOW = 5
SHORTEST_BLOCK = 4
LONGEST_PIECE = 500
"""A suspicious stretch is examined in pieces of at most this many pairs."""
TRIED_PAIRS = 60
"""Number of pairs of a piece on which offsets are tried."""
FEWEST_WORDS = 8
"""A pair is checked for cuts if one side has at least this many words."""
TOO_FEW_TO_LEARN = 300
TOO_FEW_TO_CUT = 50

Tokens = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Block:
    """Pairs `first` to `last`, whose sources belong to the targets `offset` lines below."""

    first: int
    last: int
    offset: int


@dataclass(frozen=True)
class Alignment:
    """The lexicon and the thresholds of a corpus."""

    lexicon: Lexicon
    languages: tuple[str, str]
    separation: float
    """Probability that a pair scores higher than an unrelated one."""
    unrelated: float
    """Threshold below which pairs are reported as unrelated (see `unrelated_threshold`)."""
    doubtful: float
    """Threshold below which pairs may be out of step (see `doubtful_threshold`)."""
    cut: "CutModel | None"

    def scores(self, sources: Tokens, targets: Tokens) -> NDArray[np.float32]:
        return self.lexicon.explain(sources, targets).scores()


@dataclass(frozen=True)
class Learned:
    """A lexicon, and the scores of held-out pairs: `right` as they are, `wrong` with exchanged targets."""

    lexicon: Lexicon
    sources: Sequence[str]
    targets: Sequence[str]
    right: NDArray[np.float32]
    wrong: NDArray[np.float32]

    @classmethod
    def of(cls, sources: Sequence[str], targets: Sequence[str]) -> "Learned | None":
        """Learn from nine of ten pairs and score the tenth; None if there are too few pairs."""
        source_tokens, target_tokens = [tokens(text) for text in sources], [tokens(text) for text in targets]
        rows = within_reach(source_tokens, target_tokens)
        if len(rows) < TOO_FEW_TO_LEARN:
            return None
        lexicon = learn([source_tokens[row] for row in rows], [target_tokens[row] for row in rows])
        if lexicon is None:
            return None
        held_sources, held_targets = source_tokens[::HELD_OUT], target_tokens[::HELD_OUT]
        # Exchange targets over half the pairs, because neighbors may be similar.
        far = len(held_targets) // 2
        right = lexicon.explain(held_sources, held_targets).scores()
        wrong = lexicon.explain(held_sources, held_targets[far:] + held_targets[:far]).scores()
        return cls(lexicon, sources[::HELD_OUT], targets[::HELD_OUT], right, wrong)

    def separation(self) -> float:
        """Return the probability that a right pair scores higher than a wrong one (AUC); ties count half."""
        wrong = np.sort(self.wrong)
        below = np.searchsorted(wrong, self.right), np.searchsorted(wrong, self.right, side="right")
        return float(np.mean(below) / len(wrong))

    def alignment(self, languages: tuple[str, str]) -> Alignment:
        return Alignment(
            self.lexicon,
            languages,
            self.separation(),
            unrelated=unrelated_threshold(self.right, self.wrong),
            doubtful=doubtful_threshold(self.right, self.wrong),
            cut=CutModel.learn(self.lexicon, self.sources, self.targets, languages),
        )


Texts = Sequence[str]
Stretch = tuple[Texts, Texts]
"""Sources and targets of consecutive pairs."""


def align(
    sources: Texts, targets: Texts, languages: tuple[str, str], *, begin: Stretch = ((), ()), end: Stretch = ((), ())
) -> Alignment | None:
    """Learn from a sample of the corpus, or, if that separates badly, from its `begin` or `end` with a shift.

    Returns None if the corpus is too small.
    """
    best = Learned.of(sources, targets)
    if best is None:
        return None
    if best.separation() < CLEAR:
        at_begin = [(begin[0][:size], begin[1][:size]) for size in STRETCHES]
        at_end = [(end[0][-size:], end[1][-size:]) for size in STRETCHES]
        tried = [(stretches, offset) for stretches in (at_begin, at_end) for offset in range(-NEAR, NEAR + 1)]
        stretches, offset = max(tried, key=lambda one: separation_of(one[0][0], one[1]))
        stretch = max(stretches, key=lambda one: separation_of(one, offset))
        other = Learned.of(*moved(stretch, offset))
        if other is not None and other.separation() > best.separation() + BETTER:
            best = other
    return best.alignment(languages)


def separation_of(stretch: Stretch, offset: int) -> float:
    """Return the separation of a lexicon learned from these pairs with a shift; 0 if they are too few."""
    learned = Learned.of(*moved(stretch, offset))
    return 0.0 if learned is None else learned.separation()


def moved(stretch: Stretch, offset: int) -> Stretch:
    """Pair every source with the target `offset` lines below, if there is one."""
    sources, targets = stretch
    count = max(0, len(sources) - abs(offset))
    first = max(0, -offset)
    return sources[first : first + count], targets[first + offset : first + offset + count]


def unrelated_threshold(right: NDArray[np.float32], wrong: NDArray[np.float32]) -> float:
    """Return the score below which pairs are reported as unrelated; at most nine of ten `wrong` pairs score below it.

    A lexicon from few pairs gives low scores to good pairs too, because words are unknown; then at most ACCUSED of the
    `right` pairs may score below. With ENOUGH pairs, or if hardly any pair scores in between, the share of unrelated
    pairs is estimated from the low scores among `right` (Storey 2002); then ACCUSED, or a quarter of that share, bounds
    the good pairs that are reported with them.
    """
    shares = np.arange(0.02, 0.901, 0.01)
    limits = np.quantile(wrong, shares)
    below = np.searchsorted(np.sort(right), limits) / len(right)
    in_between = float((right < doubtful_threshold(right, wrong)).mean()) - below[-1]
    if len(right) < ENOUGH / HELD_OUT and in_between > below[-1] / 2:
        return float(min(limits[-1], np.quantile(right, ACCUSED)))
    strangers = shares * float(np.min((below / shares)[(shares >= 0.25) & (shares <= 0.5)]))
    harmless = np.flatnonzero(below - strangers <= np.maximum(ACCUSED, strangers / 4))
    return float(limits[harmless[-1]]) if len(harmless) else float(np.quantile(right, ACCUSED))


def doubtful_threshold(right: NDArray[np.float32], wrong: NDArray[np.float32]) -> float:
    """Return the score a third of the way from the median of right pairs to that of wrong ones."""
    return float(2 * np.median(right) + np.median(wrong)) / 3


def within_reach(sources: Tokens, targets: Tokens) -> list[int]:
    """Return the pairs to learn from: not held out, evenly spread, as many as MOST_CELLS allows."""
    places = [place for place in range(len(sources)) if place % HELD_OUT]
    cells = sum(min(len(sources[p]), MOST_TOKENS) * min(len(targets[p]), MOST_TOKENS) for p in places)
    return places[:: 1 + cells // MOST_CELLS]


# Blocks out of step


def blocks_out_of_step(alignment: Alignment, sources: Tokens, targets: Tokens) -> list[Block]:
    """Return the blocks that are out of step among consecutive pairs of one file."""
    straight = alignment.scores(sources, targets)
    found: list[Block] = []
    for first, last in suspicious_stretches(straight, alignment.doubtful):
        for begin in range(first, last + 1, LONGEST_PIECE):
            end = min(last, begin + LONGEST_PIECE - 1)
            found += blocks_in(alignment, sources, targets, straight, begin, end, {block.offset for block in found})
    return joined(found)


def suspicious_stretches(scores: NDArray[np.float32], limit: float) -> list[tuple[int, int]]:
    """Return the first and last pair of each stretch with a low moving average of the scores, plus a margin."""
    if len(scores) < WINDOW:
        return []
    low = np.convolve(scores, np.ones(WINDOW) / WINDOW, "same") < limit
    low = np.convolve(low, np.ones(2 * WINDOW + 1), "same") > 0.5  # merge stretches that nearly touch
    edges = np.flatnonzero(np.diff(np.concatenate([[0], low.astype(np.int8), [0]])))
    return [(int(first), int(last) - 1) for first, last in edges.reshape(-1, 2)]


def blocks_in(
    alignment: Alignment,
    sources: Tokens,
    targets: Tokens,
    straight: NDArray[np.float32],
    first: int,
    last: int,
    likely: Set[int],
) -> list[Block]:
    """Return the best block of the stretch, and those before and after it; `likely` offsets are tried first."""
    if last - first + 1 < SHORTEST_BLOCK:
        return []
    tried = np.unique(np.linspace(first, last, min(TRIED_PAIRS, last - first + 1)).astype(int))

    def gained(offset: int) -> float:
        return best_run(gain(alignment, sources, targets, straight, tried, offset))[2]

    offset = max(likely, key=gained, default=0)
    if not offset or gained(offset) < len(tried):  # a nat per pair is enough
        farthest = FARTHEST if last - first >= FARTHEST else NEAR  # the fewer the pairs, the more fits by chance
        offset = max((k for k in range(-farthest, farthest + 1) if k), key=gained)
    there = np.arange(first, last + 1)
    begin, end, total = best_run(gain(alignment, sources, targets, straight, there, offset))
    if end - begin + 1 < SHORTEST_BLOCK or total < 2.0 * SHORTEST_BLOCK:
        return []
    block = Block(first + begin, first + end, offset)
    # The pairs at the ends of a block often have no partner.
    begin, end = block.first, block.last
    while begin > max(first, block.first - NEAR) and straight[begin - 1] < alignment.doubtful:
        begin -= 1
    while end < min(last, block.last + NEAR) and straight[end + 1] < alignment.doubtful:
        end += 1
    block = Block(begin, end, offset)
    sides = ((first, block.first - 1), (block.last + 1, last))
    before, after = (blocks_in(alignment, sources, targets, straight, *side, likely | {offset}) for side in sides)
    return [*before, block, *after]


def gain(
    alignment: Alignment,
    sources: Tokens,
    targets: Tokens,
    straight: NDArray[np.float32],
    places: NDArray[np.int64],
    offset: int,
) -> NDArray[np.float32]:
    """Return how much higher each of these pairs scores with the target `offset` lines below, minus 0.5.

    The gain is 0 if there is no such line.
    """
    inside = (places + offset >= 0) & (places + offset < len(targets))
    rows: list[int] = places[inside].tolist()
    moved = alignment.scores([sources[row] for row in rows], [targets[row + offset] for row in rows])
    gains = np.zeros(len(places), np.float32)
    gains[inside] = np.clip(moved - straight[places[inside]] - 0.5, -4, 4)
    return gains


def best_run(values: NDArray[np.float32]) -> tuple[int, int, float]:
    """Return the first and last index of the run with the greatest sum, and the sum (Kadane's algorithm)."""
    best, total, begin = (0, -1, 0.0), 0.0, 0
    for place, value in enumerate(values.tolist()):
        if total <= 0:
            total, begin = 0.0, place
        total += value
        if total > best[2]:
            best = (begin, place, total)
    return best


def joined(blocks: list[Block]) -> list[Block]:
    """Return the blocks in order; blocks with equal offsets that nearly touch are merged."""
    result: list[Block] = []
    for block in sorted(blocks, key=lambda block: block.first):
        if result and result[-1].offset == block.offset and block.first <= result[-1].last + 2 * NEAR:
            result[-1] = Block(result[-1].first, max(result[-1].last, block.last), block.offset)
        else:
            result.append(block)
    return result


# Sides that were cut


@dataclass(frozen=True)
class CutModel:
    """Logistic regression on `Sides.features` that detects sides without their end, trained on artificial cuts."""

    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    weights: NDArray[np.float64]
    usual_ratio: float
    limit: float

    @classmethod
    def learn(
        cls, lexicon: Lexicon, sources: Sequence[str], targets: Sequence[str], languages: tuple[str, str]
    ) -> "CutModel | None":
        random = np.random.default_rng(1)
        pairs = [
            (source, target)
            for source, target in zip(sources, targets, strict=True)
            if min(len(tokens(source)), len(tokens(target))) >= FEWEST_WORDS
        ][:4000]
        if len(pairs) < TOO_FEW_TO_CUT:
            return None
        whole = Sides.of(lexicon, [s for s, _ in pairs], [t for _, t in pairs])
        usual_ratio = float(np.median(whole.log_ratio()))
        places = random.uniform(0.35, 0.65, len(pairs))
        cut_targets = [cut_text(t, languages[1], share) for (_, t), share in zip(pairs, places, strict=True)]
        cut_sources = [cut_text(s, languages[0], share) for (s, _), share in zip(pairs, places, strict=True)]
        of_target = Sides.of(lexicon, [s for s, _ in pairs], cut_targets).features(usual_ratio)[0]
        of_source = Sides.of(lexicon, cut_sources, [t for _, t in pairs]).features(usual_ratio)[1]
        uncut, cut = np.concatenate(whole.features(usual_ratio)), np.concatenate([of_target, of_source])
        features = np.concatenate([uncut, cut])
        mean, spread = features.mean(0), features.std(0) + 1e-6
        weights = logistic_regression((features - mean) / spread, np.repeat([0.0, 1.0], [len(uncut), len(cut)]))
        untried = cls(mean, spread, weights, usual_ratio, 0.0)
        # Find 98 of 100 cuts, unless that would report more than one in 100 of the pairs as they are.
        limit = max(np.quantile(untried.scores(cut), 0.02), np.quantile(untried.scores(uncut), 0.99))
        return cls(mean, spread, weights, usual_ratio, float(limit))

    def scores(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        return ((features - self.mean) / self.spread) @ self.weights[:-1] + self.weights[-1]


def texts_cut(alignment: Alignment, sources: Sequence[str], targets: Sequence[str]) -> dict[int, str]:
    """Return the pairs with a cut side: index -> "source" or "target"."""
    model = alignment.cut
    if model is None or not len(sources):
        return {}
    sides = Sides.of(alignment.lexicon, sources, targets)
    target, source = (model.scores(features) for features in sides.features(model.usual_ratio))
    longer = np.maximum(sides.source_size, sides.target_size) >= FEWEST_WORDS
    found = np.flatnonzero((np.maximum(source, target) > model.limit) & longer)
    return {int(place): "target" if target[place] > source[place] else "source" for place in found}


@dataclass(frozen=True)
class Sides:
    """The input of the cut model; arrays have one entry per pair."""

    explanation: Explanation
    source_size: NDArray[np.int64]
    target_size: NDArray[np.int64]
    source_ends: NDArray[np.bool_]
    target_ends: NDArray[np.bool_]
    sentence_ratio: NDArray[np.float64]
    """Logarithm of the number of target sentences per source sentence."""

    @classmethod
    def of(cls, lexicon: Lexicon, sources: Sequence[str], targets: Sequence[str]) -> "Sides":
        source_tokens, target_tokens = [tokens(text) for text in sources], [tokens(text) for text in targets]
        return cls(
            lexicon.explain(source_tokens, target_tokens),
            np.fromiter(map(len, source_tokens), np.int64, len(sources)),
            np.fromiter(map(len, target_tokens), np.int64, len(targets)),
            np.fromiter(map(ends_sentence, sources), np.bool_, len(sources)),
            np.fromiter(map(ends_sentence, targets), np.bool_, len(targets)),
            np.log(np.fromiter(map(sentences, targets), np.float64) / np.fromiter(map(sentences, sources), np.float64)),
        )

    def log_ratio(self) -> NDArray[np.float64]:
        return np.log((self.target_size + 1) / (self.source_size + 1))

    def features(self, usual_ratio: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (pairs, features) for detecting a cut target, and for a cut source.

        The features: log length ratio; log ratio of the numbers of sentences; how well the end of the partner, its
        beginning, and the beginning of the side are explained; whether only the partner, or only the side, ends like a
        sentence; log length of the partner.
        """
        ratio, known = self.log_ratio() - usual_ratio, self.explanation
        source_tail, source_head = tail_and_head(known.source, known.source_counts)
        target_tail, target_head = tail_and_head(known.target, known.target_counts)
        source_open, target_open = ~self.source_ends & self.target_ends, self.source_ends & ~self.target_ends
        of_target = (
            *(ratio, self.sentence_ratio, source_tail, source_head, target_head, target_open, source_open),
            np.log1p(self.source_size),
        )
        of_source = (
            *(-ratio, -self.sentence_ratio, target_tail, target_head, source_head, source_open, target_open),
            np.log1p(self.target_size),
        )
        return np.stack(of_target, 1).astype(np.float64), np.stack(of_source, 1).astype(np.float64)


def tail_and_head(values: NDArray[np.float32], counts: NDArray[np.int64]) -> tuple[NDArray, NDArray]:
    """Return the means of the last two fifths of each run and of the part before them."""
    head_counts = np.ceil(0.6 * counts).astype(np.int64)
    parts = np.stack([head_counts, counts - head_counts], 1).ravel()
    means = (sums(values, parts) / np.maximum(parts, 1)).reshape(-1, 2)
    return means[:, 1], means[:, 0]


def logistic_regression(features: NDArray[np.float64], answers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fit by Newton's method with a small ridge; return the weights and, last, the bias."""
    rows = np.concatenate([features, np.ones((len(features), 1))], 1)
    weights = np.zeros(rows.shape[1])
    for _ in range(15):
        chance = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
        slope = rows.T @ (chance - answers) + weights
        curvature = (rows * (chance * (1 - chance))[:, None]).T @ rows + np.eye(len(weights))
        weights -= np.linalg.solve(curvature, slope)
    return weights


def ends_sentence(text: str) -> bool:
    return text.rstrip()[-1:] in ENDINGS


def sentences(text: str) -> int:
    """Count the sentences of a text by their final punctuation; at least one."""
    return max(1, len(SENTENCE_ENDS.findall(text)))


SENTENCE_ENDS = re.compile("[.!?…;。！？；]+")
ENDINGS = frozenset("。！？!?.…；;:：\"'”’»」』）)~")


def cut_text(text: str, language: str, share: float) -> str:
    """Return the first `share` of a text, in whole words if the language has spaces."""
    if is_written_without_spaces(language):
        return text[: math.ceil(share * len(text))]
    words = text.split()
    return " ".join(words[: max(1, math.ceil(share * len(words)))])
