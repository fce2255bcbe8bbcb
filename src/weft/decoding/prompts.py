"""A step function whose rows first write prompts of their own, so that any search continues texts that are given."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from weft.decoding.step import StepFunction


class Prompted:
    """Gives the next piece of a row's prompt probability 1 until the prompt is written, then asks the step function.

    Prompts may differ in length: no row waits for another. They add nothing to a log-probability.
    """

    def __init__(self, step_function: StepFunction, prompts: Sequence[Sequence[int]], device: torch.device) -> None:
        self.step_function, self.written = step_function, 0
        self.lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        rows = [torch.tensor(list(prompt), dtype=torch.long) for prompt in prompts]
        self.prompts = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(device)

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        log_probs = self.step_function.step(tokens)
        if self.written < self.prompts.size(1):
            given = torch.full_like(log_probs, -torch.inf).scatter(1, self.prompts[:, self.written, None], 0.0)
            log_probs = torch.where((self.written < self.lengths)[:, None], given, log_probs)
        self.written += 1
        return log_probs

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        self.step_function.reorder(rows)
        self.prompts, self.lengths = self.prompts[rows], self.lengths[rows]
