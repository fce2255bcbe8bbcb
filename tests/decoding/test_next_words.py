"""The words that may come next, on tables of probabilities: what a look at every word of a tiny vocabulary finds."""

import itertools
import math

import pytest
import torch
from tests.decoding.tables import END_ID, IDS, Table, TableSteps, random_table

from weft.decoding.next_words import NextWord, next_words
from weft.errors import WeftError

FIRST, SECOND, INSIDE, TAIL = 3, 4, 5, 6
VOCAB = 7
BEGINS = torch.tensor([piece in (FIRST, SECOND) for piece in range(VOCAB)])


def word_table(seed: int) -> Table:
    """A word seldom has more than four pieces; neither padding nor <s> is ever written."""

    def liking(piece: int, history: tuple[int, ...]) -> float:
        return -math.inf if piece < END_ID else -4.0 * (piece >= INSIDE and len(history) > 5)

    return random_table(VOCAB, seed, liking=liking)


def steps_of(rows: int, seed: int) -> TableSteps:
    return TableSteps(word_table(seed), [""], rows)


def every_word(table: Table, beginning: tuple[int, ...], longest: int) -> list[NextWord]:
    """The twin: the probability of each word by itself, that of its pieces and then of one that begins another word."""
    found = [NextWord((), table("", beginning)[END_ID])]
    for length in range(longest):
        for first, rest in itertools.product((FIRST, SECOND), itertools.product((INSIDE, TAIL), repeat=length)):
            word = (first, *rest)
            spelled = sum(table("", (*beginning, *word[:place]))[piece] for place, piece in enumerate(word))
            after = table("", (*beginning, *word))
            ended = math.log(sum(math.exp(after[piece]) for piece in (FIRST, SECOND, END_ID)))
            found.append(NextWord(word, spelled + ended))
    return sorted(found, key=lambda word: -word.log_prob)


@pytest.mark.parametrize("beginning", [(), (FIRST, INSIDE), (SECOND,)])
@pytest.mark.parametrize("best", [1, 3, 6])
def test_the_best_words_are_those_of_a_look_at_every_word(beginning: tuple[int, ...], best: int) -> None:
    lengths = set()
    for seed in range(6):
        steps = steps_of(64, seed)
        found = next_words(steps, beginning, BEGINS, best=best, rows=64, **IDS)
        expected = every_word(word_table(seed), beginning, longest=7)[:best]
        assert [word.tokens for word in found] == [word.tokens for word in expected]
        assert [word.log_prob for word in found] == pytest.approx([word.log_prob for word in expected], abs=1e-5)
        assert len(steps.fed) < 1 + len(beginning) + 7  # it stopped when nothing better could come
        lengths |= {len(word.tokens) for word in found}
    assert best == 1 or len(lengths) > 2  # words of several pieces, and the end of the sentence


def test_few_rows_find_the_most_probable_word_all_the_same() -> None:
    for seed in range(6):
        few, many = (next_words(steps_of(rows, seed), (), BEGINS, best=1, rows=rows, **IDS) for rows in (8, 64))
        assert few[0].tokens == many[0].tokens


def test_what_is_impossible_is_no_word() -> None:
    def one_word(sentence: str, history: tuple[int, ...]) -> list[float]:
        return [0.0 if piece == (END_ID if history else FIRST) else -math.inf for piece in range(VOCAB)]

    found = next_words(TableSteps(one_word, [""], 8), (), BEGINS, best=4, rows=8, **IDS)
    assert found == [NextWord((FIRST,), 0.0)]


def test_a_model_that_answers_nan_is_refused() -> None:
    with pytest.raises(WeftError, match="NaN"):
        next_words(TableSteps(lambda sentence, history: [math.nan] * VOCAB, [""], 8), (), BEGINS, best=2, rows=8, **IDS)


def test_a_word_is_no_longer_than_it_may_be_and_the_model_takes_no_step_beyond() -> None:
    for longest in (0, 1, 2, 3):
        steps = steps_of(64, 0)
        found = next_words(steps, (FIRST, INSIDE), BEGINS, best=40, rows=64, **IDS, longest=longest)
        expected = [word for word in every_word(word_table(0), (FIRST, INSIDE), longest)]
        assert [word.tokens for word in found] == [word.tokens for word in expected]
        assert len(steps.fed) == 3 + longest


def test_what_is_raised_after_a_step_ends_the_search() -> None:
    for most in (1, 2, 3, 4):
        steps = steps_of(8, 0)

        def after_step(steps: TableSteps = steps, most: int = most) -> None:
            if len(steps.fed) == most:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            next_words(steps, (FIRST, INSIDE), BEGINS, best=6, rows=8, **IDS, after_step=after_step)
        assert len(steps.fed) == most
