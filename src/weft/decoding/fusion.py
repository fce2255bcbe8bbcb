"""Shallow fusion (Gulcehre et al. 2015, section 4.1): a translation model with a language model beside it."""

from jaxtyping import Float, Int
from torch import Tensor

from weft.decoding.step import StepFunction


class Fused:
    """log p(translation model) + weight * log p(language model) for each piece; both follow what is written.

    Both write the same vocabulary. The sum is no distribution, and what a search adds up is no log-probability of
    either; it still only falls, as searches need it. Raises ValueError for a weight below 0, with which it would not.
    """

    def __init__(self, translation: StepFunction, language: StepFunction, weight: float) -> None:
        if not weight >= 0:
            raise ValueError(f"the weight of the language model is {weight}; it must be 0 or more")
        self.translation, self.language, self.weight = translation, language, weight

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        of_translation, of_language = self.translation.step(tokens), self.language.step(tokens)
        return of_translation + self.weight * of_language if self.weight else of_translation  # 0 * -inf is NaN

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        self.translation.reorder(rows)
        self.language.reorder(rows)
