"""n-gram language models as a kind of network: what weft.text.ngrams estimates, kept as weights.

They are learned at once, from counts, and not by gradients.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int, Integer
from pydantic import Field
from torch import Tensor, nn

from weft.config import FieldProblem
from weft.models.contract import ModelSettings, Network
from weft.text.ngrams import Ngrams, estimate

MOST_ORDER, MOST_NGRAMS = 100, 1 << 40


class NgramConfig(ModelSettings):
    kind: Literal["ngram"] = "ngram"
    """The architecture: counts of n-grams with modified Kneser-Ney smoothing."""
    is_counted: ClassVar[bool] = True
    order: int = Field(default=5, ge=1, le=MOST_ORDER)
    """Number of tokens of the longest n-grams: each is predicted from the order - 1 tokens before it."""
    counts: tuple[int, ...] = ()
    """Number of n-grams of the orders 2, 3, ... that the model has; not to be set, but found in the training texts."""

    def misfits(self) -> Iterator[FieldProblem]:
        if self.counts and (len(self.counts) != self.order - 1 or not all(0 <= n <= MOST_NGRAMS for n in self.counts)):
            yield FieldProblem("counts", "is found in the training texts; leave it out")

    @property
    def width(self) -> int:
        return 1

    @property
    def reach(self) -> int:
        return self.order - 1

    def describe(self) -> str:
        return f"order {self.order}, {sum(self.counts):,} n-grams of two tokens or more"


class NgramLanguageModel(Network):
    """The arrays of `Ngrams` as parameters without gradients, so that they are saved and checked like any weights."""

    def __init__(self, config: NgramConfig, *, vocab_size: int) -> None:
        super().__init__()
        self.config = config
        counts = config.counts or (0,) * (config.order - 1)
        sizes = (vocab_size, *counts)
        self.keys = fixed([torch.zeros(size, dtype=torch.int64) for size in sizes[1:]])
        self.log_probs = fixed([torch.zeros(size) for size in sizes])
        self.backoffs = fixed([torch.zeros(size) for size in sizes[:-1]])

    def fit(self, tokens: Integer[np.ndarray, " tokens"]) -> list[str]:
        """Estimate the model from texts, one after the other, as rows are trained on. Returns messages for the user."""
        ngrams, messages = estimate(tokens, self.config.order, len(self.log_probs[0]))
        self.put(ngrams)
        return messages

    def put(self, ngrams: Ngrams) -> None:
        self.keys, self.log_probs, self.backoffs = (
            fixed([torch.from_numpy(array) for array in arrays])
            for arrays in (ngrams.keys, ngrams.log_probs, ngrams.backoffs)
        )
        self.config = self.config.model_copy(update={"counts": tuple(map(len, ngrams.keys))})

    def ngrams(self) -> Ngrams:
        """The arrays; on the CPU without a copy."""
        return Ngrams(*([p.detach().cpu().numpy() for p in ps] for ps in (self.keys, self.log_probs, self.backoffs)))

    def token_log_probs(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time-1"]:
        """The log-probability of every token but the first of a row, given those before it."""
        return torch.from_numpy(self.ngrams().token_log_probs(tokens.cpu().numpy())[:, 1:]).to(tokens.device)

    def start(self, rows: int, prompt: Int[Tensor, " time"] | None = None, context: int | None = None) -> "NgramSteps":
        """Be ready to write `rows` texts after a prompt, whose last token is not in it: a search gives that first."""
        return NgramSteps(self.ngrams(), rows, () if prompt is None else prompt.tolist())


def fixed(tensors: Sequence[Tensor]) -> nn.ParameterList:
    return nn.ParameterList([nn.Parameter(tensor, requires_grad=False) for tensor in tensors])


class NgramSteps:
    """A step function of an n-gram model. Its state is the number of each length's context in `Ngrams.following`."""

    def __init__(self, ngrams: Ngrams, rows: int, prompt: Sequence[int] = ()) -> None:
        self.ngrams, self.contexts = ngrams, ngrams.no_contexts(rows)
        for token in prompt:
            self.contexts = ngrams.following(self.contexts, np.full(rows, token))

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Take the newest token of every row, return the log-probabilities (fp32) of the one that follows."""
        self.contexts = self.ngrams.following(self.contexts, tokens.cpu().numpy())
        return torch.from_numpy(self.ngrams.next_log_probs(self.contexts)).to(tokens.device)

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Let row i continue what row rows[i] was."""
        self.contexts = self.contexts[rows.cpu().numpy()]
