"""Beam search under lexical constraints: phrases that have to appear (after Post and Vilar 2018, arXiv 1804.06609).

A constraint is met when the hypothesis contains one of its phrases. In addition to the extensions that beam search
compares, each open hypothesis is extended by every piece that would begin or continue a phrase it still owes. The
candidates are then sorted into banks by how many pieces of constraints they contain, and the places of the beam are
filled from the banks in turn, the fullest first: a hypothesis that has paid for a rare word by its log-probability
competes with others that have.

No piece is written after which the constraints could not be met within the maximum length, and no hypothesis ends that
owes one: the phrases are guaranteed. Phrases are whole words: after a phrase that has just met a constraint no piece
may continue its last word, and a phrase that continues the word before it does not count. `camp` is not met by
`camping` nor, in a language without spaces, `AI` by `MAIN`, even inside a given prefix. The price is a loop in Python
over the candidates.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from weft.decoding.beam import Stopping
from weft.decoding.demands import NO_JOINS, Constraint, Demands, Joins, Phrase
from weft.decoding.length import PLAIN_SUM, Scoring
from weft.decoding.step import LEAST, Hypothesis, Searching, StepFunction, refuse_nan, to_the_end


def constrained_beam_steps(
    step_function: StepFunction,
    max_lengths: Int[Tensor, " sentences"],
    source_lengths: Int[Tensor, " sentences"],
    demands: Demands,
    *,
    beam_size: int,
    begin_id: int,
    end_id: int,
    scoring: Scoring = PLAIN_SUM,
    stopping: Stopping = "exact",
    patience: float = 1.0,
    best: int = 1,
    priced: Callable[[], Float[Tensor, "rows vocab"]] | None = None,
) -> Searching[list[list[Hypothesis]]]:
    """Beam search (beam.py) whose hypotheses begin with the prefix of their sentence and meet all its constraints.

    The word that a phrase ends with does not continue (`Joins`) where the phrase meets a constraint, unless another
    phrase begins there; nor does a word continue into a phrase, unless the maximum length leaves no room for anything
    else. Where the space is a piece by itself, phrases begin with it, and it counts as written before the first piece.
    Where rules have forbidden pieces in the step function's newest answer, `priced` returns it before they did: what a
    demanded piece costs.

    Raises ValueError where a maximum length leaves no room for the demands.
    """
    constraints = demands.constraints
    prefixes = demands.prefixes or [()] * len(constraints)
    given = zip(max_lengths.tolist(), source_lengths.tolist(), constraints, prefixes, strict=True)
    beams = [
        Beam(number, int(most), int(source), PhraseConstraints.of(of_sentence, demands), tuple(prefix))
        for number, (most, source, of_sentence, prefix) in enumerate(given)
    ]
    for beam, needed in zip(beams, demands.pieces_needed(), strict=True):
        if needed > beam.max_length:
            raise ValueError(f"{needed} pieces of constraints do not fit into {beam.max_length}")
    found: dict[int, list[Hypothesis]] = {}
    best = min(best, beam_size)
    while beams:
        newest = [token for beam in beams for token in beam.newest(beam_size, begin_id)]
        answer = step_function.step(torch.tensor(newest, device=max_lengths.device))
        log_probs, prices = (
            each.unflatten(0, (-1, beam_size)) for each in (answer, answer if priced is None else priced())
        )
        candidates = compare(beams, log_probs, prices, beam_size, end_id)
        rows: list[int] = []
        still_open: list[Beam] = []
        for place, (beam, candidates_here) in enumerate(zip(beams, candidates, strict=True)):
            parents = beam.extend(candidates_here, beam_size, end_id, scoring)
            if beam.is_settled(stopping, best, patience * beam_size, scoring):
                found[beam.sentence] = beam.finished[:best]
            else:
                still_open.append(beam)
                parents += [0] * (beam_size - len(parents))
                rows += [place * beam_size + parent for parent in parents]
        step_function.reorder(torch.tensor(rows, dtype=torch.long, device=max_lengths.device))
        beams = still_open
        yield None  # the banks keep hypotheses that have begun otherwise
    return [found[sentence] for sentence in range(len(max_lengths))]


constrained_beam_search = to_the_end(constrained_beam_steps)


@dataclass(frozen=True)
class Standing:
    """How far a hypothesis has met the constraints of its sentence."""

    met: frozenset[int]
    owed: int
    """At most this many pieces are still needed."""
    wanted: frozenset[int]
    """The pieces that would begin or continue a phrase of a constraint that is not met."""
    is_closed: bool = False
    """Whether the last piece met a constraint, so that its word has to end."""


class PhraseConstraints:
    """The constraints of one sentence.

    Only the phrases that contain the newest piece can be met or continued by it. The others, possibly hundreds, are
    counted without looking at the hypothesis.
    """

    def __init__(self, constraints: Sequence[Constraint], joins: Joins = NO_JOINS, space: Phrase = ()) -> None:
        self.constraints, self.joins, self.space = constraints, joins, space
        self.continuing = joins.later - {phrase[0] for phrases in constraints for phrase in phrases}
        self.shortest = [min(map(len, phrases)) for phrases in constraints]
        self.ending: dict[int, list[tuple[int, Phrase]]] = defaultdict(list)
        """Phrases by their last piece, each with the number of its constraint; `holding`: by each of the others."""
        self.holding: dict[int, list[tuple[int, Phrase]]] = defaultdict(list)
        for number, phrases in enumerate(constraints):
            for phrase in phrases:
                self.ending[phrase[-1]].append((number, phrase))
                for token in set(phrase[:-1]):
                    self.holding[token].append((number, phrase))
        self.not_begun = cache(self._not_begun)
        self.at_first = self.after((), frozenset())

    @classmethod
    def of(cls, constraints: Sequence[Constraint], demands: Demands) -> "PhraseConstraints":
        """With the joins of the demands, and those of this sentence's own phrases that end with a sign."""
        signs = {phrase[-1] for phrases in constraints for phrase in phrases if phrase in demands.signed}
        joins = Joins(demands.joins.earlier | signs, demands.joins.later) if signs else demands.joins
        return cls(constraints, joins, demands.space)

    def after(
        self, tokens: Phrase, met: frozenset[int], *, apart: bool = True, following: int | None = None
    ) -> Standing:
        """The standing of a hypothesis with these tokens, given the constraints `met` before the last of them.

        `following` is the next piece, where it is known. Unless `apart`, phrases may be parts of words.
        """
        tokens = (*self.space, *tokens)
        ending, holding = (each.get(tokens[-1], []) if tokens else [] for each in (self.ending, self.holding))
        met_now = {
            number
            for number, phrase in ending
            if number not in met
            and tokens[-len(phrase) :] == phrase
            and not (apart and self.joins.begins_inside(tokens, len(tokens) - len(phrase)))
        }
        is_open_word = bool(met_now) and tokens[-1] in self.joins.earlier
        if is_open_word and following in self.joins.later:
            met_now.clear()
        is_closed = apart and is_open_word and bool(met_now) and bool(self.continuing)
        met |= met_now
        owed, firsts = self.not_begun(met)
        begun, continued = 0, set()
        for number, phrase in holding:
            written = overlap(tokens, phrase) if number not in met else 0
            is_inside = written and apart and self.joins.begins_inside(tokens, len(tokens) - written)
            if written and not is_inside and not (is_closed and phrase[written] in self.continuing):
                begun = max(begun, self.shortest[number] - (len(phrase) - written))
                continued.add(phrase[written])
        return Standing(met, owed - begun, firsts | continued, is_closed)  # at most one phrase can be continued

    def _not_begun(self, met: frozenset[int]) -> tuple[int, frozenset[int]]:
        """The number of pieces owed by a hypothesis that has begun no phrase, and the pieces that would begin one."""
        unmet = [number for number in range(len(self.constraints)) if number not in met]
        firsts = frozenset(phrase[0] for number in unmet for phrase in self.constraints[number])
        return sum(self.shortest[number] for number in unmet), firsts


def overlap(tokens: Phrase, phrase: Phrase) -> int:
    """Length of the longest proper beginning of the phrase with which the tokens end."""
    longest = min(len(tokens), len(phrase) - 1)
    return next(length for length in range(longest, -1, -1) if tokens[len(tokens) - length :] == phrase[:length])


@dataclass(frozen=True)
class Open:
    tokens: Phrase
    log_prob: float
    standing: Standing


@dataclass(frozen=True)
class Candidate:
    """An open hypothesis, by its place in the beam, with one more piece."""

    parent: int
    token: int
    log_prob: float


class Beam:
    """The open and the finished hypotheses of one sentence."""

    def __init__(
        self, sentence: int, max_length: int, source_length: int, constraints: PhraseConstraints, prefix: Phrase
    ) -> None:
        self.sentence, self.max_length, self.source_length = sentence, max_length, source_length
        self.constraints, self.prefix = constraints, prefix
        self.open = [Open((), 0.0, constraints.at_first)]
        self.finished: list[Hypothesis] = []
        self.finished_count = 0

    def newest(self, beam_size: int, begin_id: int) -> list[int]:
        """The newest piece of each place of the beam; unused places repeat the first."""
        tokens = [hypothesis.tokens[-1] if hypothesis.tokens else begin_id for hypothesis in self.open]
        return tokens + tokens[:1] * (beam_size - len(tokens))

    @property
    def is_in_prefix(self) -> bool:
        """Whether the prefix is still being written; then one hypothesis is open."""
        return len(self.open[0].tokens) < len(self.prefix)

    def extensions(
        self, best: Sequence[int], best_of_each: Sequence[int], vocab_size: int, end_id: int
    ) -> list[tuple[int, int]]:
        """The extensions to compare, as (place in the beam, piece), each once; `best` indexes (place, piece) pairs.

        Within the prefix the only one is its next piece: a piece of a phrase would win there because it is owed.
        """
        if self.is_in_prefix:
            return [(0, self.prefix[len(self.open[0].tokens)])]
        of_all = [divmod(flat, vocab_size) for flat in best]
        of_each = [
            (parent, token)
            for parent, hypothesis in enumerate(self.open)
            for token in (best_of_each[parent], end_id, *sorted(hypothesis.standing.wanted))
        ]
        return list(dict.fromkeys((parent, token) for parent, token in of_all + of_each if parent < len(self.open)))

    def extend(self, candidates: Sequence[Candidate], beam_size: int, end_id: int, scoring: Scoring) -> list[int]:
        """Keep the best candidates. Return the place from which each open hypothesis came."""
        chosen = self.choose(candidates, 2 * beam_size, end_id)
        for candidate, _ in chosen[:beam_size]:
            if candidate.token == end_id:
                self.finish(candidate, scoring)
        going_on = [(c, standing) for c, standing in chosen if c.token != end_id][:beam_size]
        parents = [candidate.parent for candidate, _ in going_on]
        self.open = [
            Open((*self.open[candidate.parent].tokens, candidate.token), candidate.log_prob, standing)
            for candidate, standing in going_on
        ]
        self.finished.sort(key=lambda hypothesis: -hypothesis.score)
        del self.finished[beam_size:]
        return parents

    def choose(self, candidates: Sequence[Candidate], most: int, end_id: int) -> list[tuple[Candidate, Standing]]:
        """The best candidates, from each bank in turn, the bank that owes least first."""
        banks: dict[int, list[tuple[Candidate, Standing]]] = {}
        for candidate in sorted(candidates, key=lambda c: -c.log_prob):
            before = self.open[candidate.parent]
            standing = before.standing
            if candidate.token != end_id:
                tokens, room = (*before.tokens, candidate.token), self.max_length - len(before.tokens) - 1
                following = next(iter(self.prefix[len(tokens) :]), None)
                met, standing = standing.met, self.constraints.after(tokens, standing.met, following=following)
                if standing.owed > room:
                    standing = self.constraints.after(tokens, met, apart=False, following=following)
                if standing.owed > room:
                    continue
            elif standing.owed:
                continue
            banks.setdefault(standing.owed, []).append((candidate, standing))
        rounds = [banks[owed] for owed in sorted(banks)]
        in_turn = (bank[place] for place in range(most) for bank in rounds if place < len(bank))
        return [taken for taken, _ in zip(in_turn, range(most), strict=False)]

    def finish(self, candidate: Candidate, scoring: Scoring) -> None:
        tokens = self.open[candidate.parent].tokens
        length = torch.tensor(len(tokens) + 1)  # </s> counts
        score = scoring(torch.tensor(candidate.log_prob), length, torch.tensor(self.source_length))
        self.finished.append(Hypothesis(tokens, candidate.log_prob, float(score)))
        self.finished_count += 1

    def is_settled(self, stopping: Stopping, best: int, wanted: float, scoring: Scoring) -> bool:
        """Whether no open hypothesis can change the answer, or for `first-k` enough are finished."""
        if not self.open:
            return True
        if stopping == "first-k":
            return self.finished_count >= wanted
        if len(self.finished) < best:
            return False
        highest = torch.tensor(max(hypothesis.log_prob for hypothesis in self.open))
        bound = scoring(highest, torch.tensor(self.max_length + 1), torch.tensor(self.source_length))
        return self.finished[best - 1].score >= float(bound)


def compare(
    beams: Sequence[Beam],
    log_probs: Float[Tensor, "sentences beam vocab"],
    prices: Float[Tensor, "sentences beam vocab"],
    beam_size: int,
    end_id: int,
) -> list[list[Candidate]]:
    """The candidates of each sentence: its 2k best extensions, and of each hypothesis the best one, </s> and every
    wanted piece. A demanded piece that rules forbid costs what `prices` says."""
    refuse_nan(log_probs.amax(-1))
    log_probs = without_continuations(beams, log_probs)
    unused = [-torch.inf] * beam_size
    so_far = torch.tensor([[h.log_prob for h in beam.open] + unused[len(beam.open) :] for beam in beams])
    sums = (so_far.to(log_probs.device)[:, :, None] + log_probs).flatten(1)
    best = sums.topk(min(2 * beam_size, sums.size(1)), dim=1).indices.tolist()
    best_of_each = log_probs.argmax(-1).tolist()
    places = [
        (number, parent, token)
        for number, beam in enumerate(beams)
        for parent, token in beam.extensions(best[number], best_of_each[number], log_probs.size(2), end_id)
    ]
    where = tuple(torch.tensor(places, device=log_probs.device).T)
    values = zip(log_probs[where].tolist(), prices[where].tolist(), strict=True)
    candidates: list[list[Candidate]] = [[] for _ in beams]
    for (number, parent, token), (log_prob, price) in zip(places, values, strict=True):
        hypothesis = beams[number].open[parent]
        must_end = token == end_id and len(hypothesis.tokens) >= beams[number].max_length
        is_demanded = beams[number].is_in_prefix or must_end or token in hypothesis.standing.wanted
        if is_demanded and log_prob == -torch.inf:
            log_prob = max(price, LEAST)
        if log_prob > -torch.inf:
            candidates[number].append(Candidate(parent, token, hypothesis.log_prob + log_prob))
    for number, beam in enumerate(beams):
        if not candidates[number]:  # a rule forbids </s>, and no other piece may follow
            candidates[number] = [
                Candidate(parent, end_id, hypothesis.log_prob + LEAST) for parent, hypothesis in enumerate(beam.open)
            ]
    return candidates


def without_continuations(
    beams: Sequence[Beam], log_probs: Float[Tensor, "sentences beam vocab"]
) -> Float[Tensor, "sentences beam vocab"]:
    """The log-probabilities, with -inf for pieces that would continue a phrase that has just met a constraint."""
    closed = [
        (number, place)
        for number, beam in enumerate(beams)
        for place, hypothesis in enumerate(beam.open)
        if hypothesis.standing.is_closed and not beam.is_in_prefix
    ]
    if closed:
        log_probs = log_probs.clone()
        for number, place in closed:
            log_probs[number, place, list(beams[number].constraints.continuing)] = -torch.inf
    return log_probs
