"""Minimum Bayes risk decoding: not the most probable translation, but the one most similar to all probable ones.

    h* = argmax over h in H of sum over r in R of p(r) * utility(h, r)

(Kumar and Byrne 2004, with a gain instead of a loss.) H and R are the same hypotheses: samples of the model, of which
each counts once (Eikema and Aziz 2020), or the best of a beam, weighted by their probabilities. The `Utility` scores
one text against another.

In the fast form all candidates are first compared with the references taken together, and only the best by that
comparison with each reference (Vamvas and Sennrich 2024).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int

from weft.decoding.step import Hypothesis

FINALISTS = 16
"""How many candidates the fast form compares with each reference."""

SAME = 9
"""Decimals to which expected utilities are compared, so that the order of a sum decides nothing."""


class Utilities(Protocol):
    """The utility of each of some texts with each of them as the reference."""

    def between(self, hypotheses: Int[np.ndarray, " hypotheses"]) -> Float[np.ndarray, "hypotheses references"]:
        """Utilities of the texts with these indices against every text as the reference."""
        ...

    def with_all_at_once(self, weights: Float[np.ndarray, " references"]) -> Float[np.ndarray, " hypotheses"]:
        """Utilities of every text against one reference made of all texts with these weights, which sum to 1."""
        ...


Utility = Callable[[Sequence[str]], Utilities]


def minimum_bayes_risk(
    hypotheses: Sequence[Hypothesis],
    texts: Sequence[str],
    weights: Sequence[float],
    utility: Utility,
    *,
    best: int = 1,
    finalists: int | None = None,
) -> list[Hypothesis]:
    """Up to `best` of the hypotheses, the highest expected utility first; that is their score.

    `texts` are the hypotheses as text. Of hypotheses with the same text only the first is a candidate, and as a
    reference it has the weight of all of them. Weights need not sum to 1. The first of equal candidates wins. With
    `finalists` only this many candidates, and at least `best`, are compared with every reference: the fast form.
    """
    firsts: dict[str, int] = {}
    for number, text in enumerate(texts):
        firsts.setdefault(text, number)
    places = {text: place for place, text in enumerate(firsts)}
    summed = np.bincount([places[text] for text in texts], weights=np.asarray(weights, dtype=float))
    shares = summed / summed.sum()
    utilities = utility(list(firsts))
    candidates = np.arange(len(firsts))
    if finalists is not None:
        candidates = np.sort(best_first(utilities.with_all_at_once(shares))[: max(finalists, best)])
    expected = utilities.between(candidates) @ shares
    number_of = list(firsts.values())
    ranking = best_first(expected)[:best].tolist()
    return [replace(hypotheses[number_of[candidates[place]]], score=float(expected[place])) for place in ranking]


def best_first(values: Float[np.ndarray, " candidates"]) -> Int[np.ndarray, " candidates"]:
    return np.argsort(-values.round(SAME), kind="stable")


def probabilities_of(hypotheses: Sequence[Hypothesis]) -> list[float]:
    """The model's probabilities of the hypotheses, up to a common factor."""
    log_probs = np.array([hypothesis.log_prob for hypothesis in hypotheses])
    return np.exp(log_probs - log_probs.max()).tolist()
