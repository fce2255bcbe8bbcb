"""What the hypotheses of a search are required to begin with and to contain, as ids."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from itertools import zip_longest

Phrase = tuple[int, ...]
Constraint = tuple[Phrase, ...]
"""Phrases of which one has to appear, none of them empty."""


@dataclass(frozen=True)
class Joins:
    """Where a word continues from one piece to the next: at each of `later` right after one of `earlier`."""

    earlier: Set[int] = frozenset()
    later: Set[int] = frozenset()

    def begins_inside(self, tokens: Phrase, start: int) -> bool:
        """Whether what begins at this place continues the word before it."""
        return start > 0 and tokens[start] in self.later and tokens[start - 1] in self.earlier


NO_JOINS = Joins()


@dataclass(frozen=True)
class Demands:
    """For each sentence the pieces that its hypotheses begin with, and the constraints that they meet (constraints.py).

    Where no sentence has any, a list may be empty. `joins` tells where a word continues, since phrases are whole words;
    `space` is the space that is written before a word, where it is a piece by itself. `signed` holds the phrases that
    end with a sign, such as C++, which what follows directly would continue.
    """

    prefixes: Sequence[Sequence[int]] = ()
    constraints: Sequence[Sequence[Constraint]] = ()
    joins: Joins = NO_JOINS
    space: Phrase = ()
    signed: Set[Phrase] = frozenset()

    def __bool__(self) -> bool:
        return any(self.constraints) or any(self.prefixes)

    @property
    def constrained(self) -> list[bool]:
        """Whether each sentence has a constraint."""
        return [bool(of_sentence) for of_sentence in self.constraints]

    def of(self, sentences: Iterable[int]) -> "Demands":
        """The demands on these sentences, by their indices."""
        if not self:
            return NO_DEMANDS
        prefixes = [self.prefixes[index] for index in sentences] if self.prefixes else ()
        constraints = [self.constraints[index] for index in sentences] if self.constraints else ()
        return replace(self, prefixes=prefixes, constraints=constraints)

    def pieces_needed(self) -> list[int]:
        """The fewest pieces that meet the demands on each sentence."""
        demanded = zip_longest(self.prefixes, self.constraints, fillvalue=())
        return [
            len(prefix) + sum(min(map(len, phrases)) for phrases in of_sentence) for prefix, of_sentence in demanded
        ]


NO_DEMANDS = Demands()
