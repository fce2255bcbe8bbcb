"""Tables of probabilities that stand in for a model, and a step function that looks its answers up in one."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

BEGIN_ID, END_ID = 1, 2
IDS: dict[str, Any] = {"begin_id": BEGIN_ID, "end_id": END_ID}

Table = Callable[[Any, tuple[int, ...]], list[float]]
"""(sentence, tokens so far) -> log-probability of each next token."""


class TableSteps:
    """Looks answers up, and watches how it is used: `fed` has the tokens of every step."""

    def __init__(self, table: Table, sentences: Sequence[Any], rows_per_sentence: int = 1) -> None:
        self.table, self.rows_per_sentence = table, rows_per_sentence
        self.rows: list[tuple[Any, tuple[int, ...]]] = [
            (sentence, ()) for sentence in sentences for _ in range(rows_per_sentence)
        ]
        self.fed: list[list[int]] = []

    def step(self, tokens: Tensor) -> Tensor:
        self.fed.append(tokens.tolist())
        self.rows = [
            (sentence, (*history, token)) for (sentence, history), token in zip(self.rows, self.fed[-1], strict=True)
        ]
        return torch.tensor([self.table(sentence, history[1:]) for sentence, history in self.rows])

    def reorder(self, rows: Tensor) -> None:
        size = self.rows_per_sentence
        for places in rows.view(-1, size).tolist():
            assert len({place // size for place in places}) == 1, "a row has left its sentence"
        self.rows = [self.rows[row] for row in rows.tolist()]


def random_table(
    vocab_size: int,
    seed: int = 0,
    deviation: float = 1.5,
    liking: Callable[[int, tuple[int, ...]], float] = lambda token, history: 0.0,
) -> Table:
    """Probabilities that depend on the sentence and on all that was written: a soft-max of logits of this deviation,
    with `liking(token, history)` added."""

    def table(sentence: Any, history: tuple[int, ...]) -> list[float]:
        dice = random.Random(f"{seed} {sentence} {history}")
        logits = [dice.gauss(0, deviation) + liking(token, history) for token in range(vocab_size)]
        total = math.log(sum(map(math.exp, logits)))
        return [logit - total for logit in logits]

    return table


def ending(by: float) -> Callable[[int, tuple[int, ...]], float]:
    """A liking for </s>."""
    return lambda token, history: by * (token == END_ID)


def log_prob_of(table: Table, sentence: Any, tokens: tuple[int, ...]) -> float:
    """What the table itself says of a hypothesis, its </s> counted."""
    sequence = (*tokens, END_ID)
    return sum(table(sentence, sequence[:place])[token] for place, token in enumerate(sequence))


PROBABILITIES = {  # of the piece that follows, by the piece before it
    (): {END_ID: 0.1, 3: 0.6, 4: 0.3},
    (3,): {END_ID: 0.5, 3: 0.2, 4: 0.3},
    (4,): {END_ID: 0.2, 3: 0.3, 4: 0.5},
}
"""A vocabulary of 5: 0 and 1 are never probable; 3 and 4 are words."""


def next_log_probs(history: tuple[int, ...]) -> list[float]:
    """The last word alone decides what follows it. A finished hypothesis that is fed beside open ones only ends."""
    after = PROBABILITIES.get(history[-1:], {END_ID: 1.0})
    return [math.log(after[token]) if token in after else -math.inf for token in range(5)]


def word_steps(rows: int) -> TableSteps:
    """A step function over PROBABILITIES, for any sentence."""
    return TableSteps(lambda sentence, history: next_log_probs(history), range(rows))
