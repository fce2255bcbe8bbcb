"""Shallow fusion (Gulcehre et al. 2015, section 4.1): a translation model helped by a language model."""

from jaxtyping import Float, Int
from torch import Tensor

from weft.decoding.step import StepFunction


class Fused:
    """log p(translation model) + weight * log p(language model) for each piece, over one vocabulary.

    The result is not a distribution, and the sums of a search are not log-probabilities of either model; they still
    only fall, as searches require. Raises ValueError for a weight below 0, with which they might rise.
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
