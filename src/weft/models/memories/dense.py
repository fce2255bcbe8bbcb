"""Dense associative memories: a steeper energy stores more (Krotov and Hopfield 2016; Demircigil et al. 2017).

    E(s) = - sum over mu of f(xi^mu . s),  f(x) = x^n, or exp(x)          (1.18)
    update  s_i = the sign that has the lower energy, given the others

n = 2 is Hopfield's network with Hebb's rule. About N^(n-1) patterns of N spins can be stored; with exp, more.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class DenseMemory:
    """Patterns and states are rows of -1 and +1; `power` is n, and None is the exponential."""

    patterns: Float[Tensor, "patterns units"]
    power: int | None = None

    def energy(self, states: Float[Tensor, "batch units"]) -> Float[Tensor, " batch"]:
        """E(s) of (1.18); of the exponential memory -log of -E, which orders states as E does and does not overflow."""
        return self._energy(states @ self.patterns.T)

    def update(self, states: Float[Tensor, "batch units"]) -> Float[Tensor, "batch units"]:
        """Update every unit once, one after the other, each given those before it."""
        # Powers of overlaps divided by N have the same order and do not overflow.
        scale = 1 if self.power is None else states.size(1)
        s, patterns = states.clone(), self.patterns / scale
        overlaps = states @ patterns.T
        for unit in range(s.size(1)):
            pattern = patterns[:, unit]
            others = overlaps - s[:, unit, None] * pattern
            is_up = self._energy(others + pattern) <= self._energy(others - pattern)
            s[:, unit] = is_up.to(s.dtype) * 2 - 1
            overlaps = others + s[:, unit, None] * pattern
        return s

    def _energy(self, overlaps: Float[Tensor, "batch patterns"]) -> Float[Tensor, " batch"]:
        return -overlaps.logsumexp(1) if self.power is None else -(overlaps**self.power).sum(1)
