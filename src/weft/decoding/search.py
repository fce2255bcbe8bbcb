"""Which search, with which settings: one config, one function, whatever the model."""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from weft.config import Settings
from weft.decoding.beam import beam_search
from weft.decoding.greedy import greedy_search
from weft.decoding.sampling import sample
from weft.decoding.step import Hypothesis, StepFunction


class DecodingConfig(Settings):
    method: Literal["greedy", "beam", "sample"] = "beam"
    """How a translation is found: the best piece at every step, the best of several hypotheses, or pieces by chance."""
    beam_size: int = Field(default=3, ge=1, le=64)
    """Hypotheses kept open for each sentence in beam search."""
    length_penalty: Literal["none", "fixed", "gnmt", "adaptive"] = "adaptive"
    """What the summed log-probability is divided by: nothing, length^p, GNMT's, or length^p with p from the source."""
    length_power: float = Field(default=1.0, ge=0, le=5)
    """The power p of `fixed`, the alpha of `gnmt`; no other penalty uses it."""
    temperature: float = Field(default=1.0, gt=0, le=100)
    """In sampling, what log-probabilities are divided by: below 1 probable pieces become more so, above 1 less."""
    top_k: int | None = Field(default=None, ge=1)
    """How many of the most probable pieces sampling chooses from; left out: all."""
    sampling_seed: int = Field(default=1, ge=0, lt=2**31)
    """Another number gives other samples; the same one the same, whatever else is translated."""
    stopping: Literal["exact", "first-k"] = "exact"
    """Stop when no open hypothesis can still win, or when the first beam_size hypotheses are finished."""
    max_length_ratio: float = Field(default=2.0, ge=0, le=20)
    """A translation has at most max_length_ratio * source pieces + max_length_extra pieces."""
    max_length_extra: int = Field(default=20, ge=1, le=10_000)
    """See max_length_ratio."""
    batch_tokens: int = Field(default=4096, ge=1, le=10_000_000)
    """Source pieces times beam size of the sentences that are translated together; the answers do not depend on it."""

    @property
    def rows_per_sentence(self) -> int:
        """Hypotheses that the step function holds for each sentence."""
        return self.beam_size if self.method == "beam" else 1

    def max_lengths(self, source_lengths: Int[Tensor, " sentences"]) -> Int[Tensor, " sentences"]:
        """The most target pieces (without </s>) for sources of these many pieces."""
        return (source_lengths * self.max_length_ratio).ceil().long() + self.max_length_extra


@torch.inference_mode()
def search(
    step_function: StepFunction,
    source_lengths: Int[Tensor, " sentences"],
    config: DecodingConfig,
    *,
    begin_id: int,
    end_id: int,
    best: int = 1,
    longest: int | None = None,
    seeds: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """For each sentence its `best` hypotheses, best first; only beam search knows more than one.

    `source_lengths` counts pieces without </s>; `step_function` holds config.rows_per_sentence rows a sentence
    and can write `longest` pieces, or any number where it is None. Sampling needs `seeds`, one a sentence.
    """
    max_lengths = config.max_lengths(source_lengths)
    if longest is not None:
        max_lengths = max_lengths.clamp(max=longest)
    if config.method == "greedy":
        hypotheses = greedy_search(step_function, max_lengths, begin_id=begin_id, end_id=end_id)
        return [[hypothesis] for hypothesis in hypotheses]
    if config.method == "sample":
        hypotheses = sample(
            step_function,
            max_lengths,
            seeds,
            temperature=config.temperature,
            top_k=config.top_k,
            begin_id=begin_id,
            end_id=end_id,
        )
        return [[hypothesis] for hypothesis in hypotheses]
    return beam_search(
        step_function,
        max_lengths,
        source_lengths,
        beam_size=config.beam_size,
        begin_id=begin_id,
        end_id=end_id,
        length_penalty=config.length_penalty,
        length_power=config.length_power,
        stopping=config.stopping,
        best=best,
    )
