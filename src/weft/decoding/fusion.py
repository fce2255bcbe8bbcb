"""Language models in the search of a translator: log p(piece) + the weighted log-probabilities of others.

Shallow fusion (Gulcehre et al. 2015, section 4.1) adds an external language model. A translator has learned a language
model of its own from the targets of its pairs; its log-probabilities are subtracted (Meng et al. 2021, "Internal
Language Model Estimation for Domain-Adaptive End-to-End Speech Recognition"; Herold et al. 2023 for translation).
"""

from collections.abc import Sequence

from jaxtyping import Float, Int
from torch import Tensor

from weft.decoding.step import StepFunction


class Fused:
    """log p(translation model) + sum of weight * log p(other model) for each piece, over one vocabulary.

    The result is not a distribution, and the sums of a search are not log-probabilities of any of the models. While
    no weight is negative they only fall, as exact stopping of a search requires.
    """

    def __init__(self, translation: StepFunction, others: Sequence[tuple[StepFunction, float]]) -> None:
        self.translation, self.others = translation, [(model, weight) for model, weight in others if weight]

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        log_probs = self.translation.step(tokens)
        for model, weight in self.others:
            log_probs = log_probs + weight * model.step(tokens)
        return log_probs

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        self.translation.reorder(rows)
        for model, _ in self.others:
            model.reorder(rows)
