"""The words that may come next, on tables of probabilities: what a look at every word of a tiny vocabulary finds."""

import itertools
import math
import random

import pytest
import torch
from torch import Tensor

from weft.decoding.next_words import NextWord, next_words
from weft.errors import WeftError

BEGIN_ID, END_ID = 1, 2
FIRST, SECOND, INSIDE, TAIL = 3, 4, 5, 6
VOCAB = 7
BEGINS = torch.tensor([piece in (FIRST, SECOND) for piece in range(VOCAB)])


class RandomSteps:
    """Probabilities that depend on all that was written; a word seldom has more than four pieces."""

    def __init__(self, rows: int, seed: int) -> None:
        self.rows: list[tuple[int, ...]] = [()] * rows
        self.seed = seed
        self.steps = 0

    def step(self, tokens: Tensor) -> Tensor:
        self.steps += 1
        self.rows = [(*history, token) for history, token in zip(self.rows, tokens.tolist(), strict=True)]
        return torch.tensor([self.answer(history[1:]) for history in self.rows])

    def reorder(self, rows: Tensor) -> None:
        self.rows = [self.rows[row] for row in rows.tolist()]

    def answer(self, history: tuple[int, ...]) -> list[float]:
        dice = random.Random(f"{self.seed} {history}")
        logits = [dice.gauss(0, 1.5) - 4 * (piece >= INSIDE and len(history) > 5) for piece in range(VOCAB)]
        logits[0] = logits[BEGIN_ID] = -math.inf
        total = math.log(sum(map(math.exp, logits)))
        return [logit - total for logit in logits]


def every_word(steps: RandomSteps, beginning: tuple[int, ...], longest: int) -> list[NextWord]:
    """The twin: the probability of each word by itself, that of its pieces and then of one that begins another word."""
    found = [NextWord((), steps.answer(beginning)[END_ID])]
    for length in range(longest):
        for first, rest in itertools.product((FIRST, SECOND), itertools.product((INSIDE, TAIL), repeat=length)):
            word = (first, *rest)
            spelled = sum(steps.answer((*beginning, *word[:place]))[piece] for place, piece in enumerate(word))
            after = steps.answer((*beginning, *word))
            ended = math.log(sum(math.exp(after[piece]) for piece in (FIRST, SECOND, END_ID)))
            found.append(NextWord(word, spelled + ended))
    return sorted(found, key=lambda word: -word.log_prob)


@pytest.mark.parametrize("beginning", [(), (FIRST, INSIDE), (SECOND,)])
@pytest.mark.parametrize("best", [1, 3, 6])
def test_the_best_words_are_those_of_a_look_at_every_word(beginning: tuple[int, ...], best: int) -> None:
    lengths = set()
    for seed in range(6):
        steps = RandomSteps(64, seed)
        found = next_words(steps, beginning, BEGINS, best=best, rows=64, begin_id=BEGIN_ID, end_id=END_ID)
        expected = every_word(RandomSteps(0, seed), beginning, longest=7)[:best]
        assert [word.tokens for word in found] == [word.tokens for word in expected]
        assert [word.log_prob for word in found] == pytest.approx([word.log_prob for word in expected], abs=1e-5)
        assert steps.steps < 1 + len(beginning) + 7  # it stopped when nothing better could come
        lengths |= {len(word.tokens) for word in found}
    assert best == 1 or len(lengths) > 2  # words of several pieces, and the end of the sentence


def test_few_rows_find_the_most_probable_word_all_the_same() -> None:
    for seed in range(6):
        few, many = (
            next_words(RandomSteps(rows, seed), (), BEGINS, best=1, rows=rows, begin_id=BEGIN_ID, end_id=END_ID)
            for rows in (8, 64)
        )
        assert few[0].tokens == many[0].tokens


def test_what_is_impossible_is_no_word() -> None:
    class OnlyOneWord(RandomSteps):
        def answer(self, history: tuple[int, ...]) -> list[float]:
            return [0.0 if piece == (END_ID if history else FIRST) else -math.inf for piece in range(VOCAB)]

    found = next_words(OnlyOneWord(8, 0), (), BEGINS, best=4, rows=8, begin_id=BEGIN_ID, end_id=END_ID)
    assert found == [NextWord((FIRST,), 0.0)]


def test_a_model_that_answers_nan_is_refused() -> None:
    class Damaged(RandomSteps):
        def answer(self, history: tuple[int, ...]) -> list[float]:
            return [math.nan] * VOCAB

    with pytest.raises(WeftError, match="NaN"):
        next_words(Damaged(8, 0), (), BEGINS, best=2, rows=8, begin_id=BEGIN_ID, end_id=END_ID)


def test_a_word_is_no_longer_than_it_may_be_and_the_model_takes_no_step_beyond() -> None:
    for longest in (0, 1, 2, 3):
        steps = RandomSteps(64, 0)
        found = next_words(
            steps, (FIRST, INSIDE), BEGINS, best=40, rows=64, begin_id=BEGIN_ID, end_id=END_ID, longest=longest
        )
        expected = [word for word in every_word(RandomSteps(0, 0), (FIRST, INSIDE), longest)]
        assert [word.tokens for word in found] == [word.tokens for word in expected]
        assert steps.steps == 3 + longest


def test_what_is_raised_after_a_step_ends_the_search() -> None:
    for most in (1, 2, 3, 4):
        steps = RandomSteps(8, 0)

        def after_step(steps: RandomSteps = steps, most: int = most) -> None:
            if steps.steps == most:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            next_words(
                *(steps, (FIRST, INSIDE), BEGINS),
                **{"best": 6, "rows": 8, "begin_id": BEGIN_ID, "end_id": END_ID},
                after_step=after_step,
            )
        assert steps.steps == most
