"""Prompts of their own: every row is searched as it would be alone after its prompt."""

import pytest
import torch
from torch import Tensor

from weft.decoding.greedy import greedy_search
from weft.decoding.prompts import Prompted

BEGIN, END, VOCAB = 0, 1, 7


class Table:
    """The next piece depends on the last two."""

    def __init__(self, rows: int) -> None:
        table = torch.randn(VOCAB, VOCAB, VOCAB, generator=torch.Generator().manual_seed(3))
        table[..., BEGIN] = -torch.inf
        self.log_probs, self.before = table.log_softmax(-1), torch.zeros(rows, dtype=torch.long)

    def step(self, tokens: Tensor) -> Tensor:
        before, self.before = self.before, tokens
        return self.log_probs[before, tokens]

    def reorder(self, rows: Tensor) -> None:
        self.before = self.before[rows]


PROMPTS = [[2, 3, 4], [5], [], [6, 6, 2, 5, 4]]


def test_greedy_search_continues_each_prompt_and_counts_only_what_follows() -> None:
    together = Prompted(Table(4), PROMPTS, torch.device("cpu"))
    found = greedy_search(together, together.lengths + 5, begin_id=BEGIN, end_id=END)
    for prompt, one in zip(PROMPTS, found, strict=True):
        assert one.tokens[: len(prompt)] == tuple(prompt)
        alone, total, written = Table(1), 0.0, list[int]()
        log_probs = alone.step(torch.tensor([BEGIN]))[0]
        for piece in prompt:
            log_probs = alone.step(torch.tensor([piece]))[0]
        while True:
            piece = END if len(written) == 5 else int(log_probs.argmax())
            total += float(log_probs[piece])
            if piece == END:
                break
            written.append(piece)
            log_probs = alone.step(torch.tensor([piece]))[0]
        assert one.tokens[len(prompt) :] == tuple(written)
        assert one.log_prob == pytest.approx(total, abs=1e-5)


def test_rows_can_be_reordered_while_prompts_are_written() -> None:
    steps = Prompted(Table(2), [[2, 3], [4, 5]], torch.device("cpu"))
    steps.step(torch.tensor([BEGIN, BEGIN]))
    steps.reorder(torch.tensor([1, 0, 1]))
    assert steps.step(torch.tensor([4, 2, 4])).argmax(-1).tolist() == [5, 3, 5]
