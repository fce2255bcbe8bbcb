"""Rules about what may be written, on tables of probabilities and by what they promise of any answer."""

import itertools
import math
import random
from collections.abc import Sequence

import pytest
import torch
from tests.decoding.tables import BEGIN_ID, END_ID, IDS, TableSteps, log_prob_of, random_table

from weft.decoding.demands import Demands
from weft.decoding.rules import MinimumLength, NoRepeatedNgram, Prefix, RepetitionPenalty, Rule, Ruled
from weft.decoding.search import DecodingConfig, search
from weft.decoding.step import Hypothesis
from weft.errors import ProblemsError, RecipeError

VOCAB = 7
CONFIGS = [
    {"method": "greedy"},
    {"method": "beam", "beam_size": 4},
    {"method": "beam", "beam_size": 4, "diverse_groups": 2},
    {"method": "sample"},
]


def liking(token: int, history: tuple[int, ...]) -> float:
    """One of two symbols in turn; neither padding nor <s> is ever written."""
    return -math.inf if token < END_ID else 2.0 * (token == 3 + len(history) % 2)


TABLE = random_table(VOCAB, 5, deviation=1, liking=liking)  # by this seed, short answers and ones that repeat


def answers(settings: dict, sentences: Sequence[int] = range(6), **more) -> list[Hypothesis]:
    config = DecodingConfig(**{"max_length_ratio": 0, "max_length_extra": 8, **settings})
    steps = TableSteps(TABLE, sentences, config.rows(1))
    lengths = torch.tensor([1 + sentence for sentence in sentences])
    seeds = [7 + sentence for sentence in sentences] if config.method == "sample" else []
    found = search(steps, lengths, config, **IDS, seeds=seeds, **more)
    return [hypotheses[0] for hypotheses in found]


def ngrams(tokens: tuple[int, ...], n: int) -> list[tuple[int, ...]]:
    return [tokens[i : i + n] for i in range(len(tokens) - n + 1)]


@pytest.mark.parametrize("settings", CONFIGS)
def test_no_answer_is_shorter_than_the_minimum(settings: dict) -> None:
    assert min(len(hypothesis.tokens) for hypothesis in answers(settings)) < 5
    assert all(len(hypothesis.tokens) >= 5 for hypothesis in answers({**settings, "min_length": 5}))
    by_ratio = answers({**settings, "min_length_ratio": 1.5})  # sources of 1, 2, ... 6 pieces, at most 8 allowed
    assert all(len(hypothesis.tokens) >= min(8, math.ceil(1.5 * n)) for n, hypothesis in enumerate(by_ratio, start=1))


@pytest.mark.parametrize("settings", CONFIGS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_stands_twice(settings: dict, n: int) -> None:
    settings = {**settings, "min_length": 5}
    repeats = [h for h in answers(settings) if len({*ngrams(h.tokens, n)}) < len(ngrams(h.tokens, n))]
    assert repeats  # else the test would show nothing
    found = answers({**settings, "min_length": 0, "no_repeat_ngram": n})
    assert all(len({*ngrams(h.tokens, n)}) == len(ngrams(h.tokens, n)) for h in found)


@pytest.mark.parametrize("settings", CONFIGS)
@pytest.mark.parametrize("rule", [{"min_length": 4}, {"no_repeat_ngram": 2}])
def test_what_is_forbidden_changes_no_log_probability_of_the_rest(settings: dict, rule: dict) -> None:
    for sentence, hypothesis in enumerate(answers({**settings, **rule})):
        assert hypothesis.log_prob == pytest.approx(log_prob_of(TABLE, sentence, hypothesis.tokens), rel=1e-5)


@pytest.mark.parametrize("rule", [{}, {"no_repeat_ngram": 1}, {"no_repeat_ngram": 2}])
@pytest.mark.parametrize("settings", CONFIGS)
def test_all_hypotheses_begin_with_their_prefix_and_count_it_at_the_models_price(settings: dict, rule: dict) -> None:
    prefixes = [(), (6,), (5, 5, 5), (3, 4), (6, 6, 6, 6, 6, 6, 6, 6, 6), (4,)]
    found = answers({**settings, **rule}, demands=Demands(prefixes))
    for sentence, (prefix, hypothesis) in enumerate(zip(prefixes, found, strict=True)):
        assert hypothesis.tokens[: len(prefix)] == prefix
        assert hypothesis.log_prob == pytest.approx(log_prob_of(TABLE, sentence, hypothesis.tokens), rel=1e-5)


@pytest.mark.parametrize("penalty", ["none", "average"])
def test_a_demanded_phrase_that_a_rule_forbids_costs_what_the_model_says(penalty: str) -> None:
    settings = {"method": "beam", "beam_size": 4, "no_repeat_ngram": 1, "length_penalty": penalty}
    found = answers(settings, demands=Demands(constraints=[[((6, 6),)]] * 6))
    for sentence, hypothesis in enumerate(found):
        assert (6, 6) in itertools.pairwise(hypothesis.tokens)
        assert hypothesis.log_prob == pytest.approx(log_prob_of(TABLE, sentence, hypothesis.tokens), rel=1e-5)
    assert [hypothesis.tokens.count(6) for hypothesis in found] == [2] * 6  # and no piece stands twice but for it
    assert all(len(set(hypothesis.tokens)) == len(hypothesis.tokens) - 1 for hypothesis in found)


def test_a_prefix_by_hand_is_followed_by_what_the_model_likes_after_it() -> None:
    (found,) = answers({"method": "greedy"}, [0], demands=Demands([(6, 5)]))
    expected: tuple[int, ...] = (6, 5)
    while len(expected) < 8:
        answer = TABLE(0, expected)
        if (token := answer.index(max(answer))) == END_ID:
            break
        expected = (*expected, token)
    assert found.tokens == expected


def test_the_repetition_penalty_multiplies_the_log_probability_of_what_was_written() -> None:
    log_probs = torch.tensor([[-1.0, -2.0, -3.0, -4.0], [-1.0, -2.0, -3.0, -4.0]])
    written = torch.tensor([[3, 3], [1, 0]])
    changed = RepetitionPenalty(1.5, end_id=2).apply(log_probs, written, torch.tensor([0, 1]))
    assert changed.tolist() == [[-1.0, -2.0, -3.0, -6.0], [-1.5, -3.0, -3.0, -4.0]]


def test_a_strong_repetition_penalty_avoids_repetition() -> None:
    def repeats(**settings: float) -> int:
        found = answers({"method": "beam", "beam_size": 4, "min_length": 4, "max_length_extra": 4, **settings})
        return sum(len(hypothesis.tokens) - len({*hypothesis.tokens}) for hypothesis in found)

    assert repeats(repetition_penalty=10.0) < repeats()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_pieces_that_complete_an_old_ngram_are_those_that_a_loop_finds(n: int) -> None:
    dice = random.Random(n)
    for time in range(7):
        written = [[dice.randrange(3, 6) for _ in range(time)] for _ in range(5)]
        applied = NoRepeatedNgram(n, END_ID).apply(
            torch.zeros(5, VOCAB), torch.tensor(written, dtype=torch.long).view(5, time), torch.arange(5)
        )
        for row, tokens in enumerate(written):
            old = set(ngrams(tuple(tokens), n))
            forbidden = {t for t in range(VOCAB) if t != END_ID and (*tokens[time - n + 1 :], t)[-n:] in old}
            assert {token for token in range(VOCAB) if applied[row, token] == -math.inf} == forbidden


def test_where_nothing_else_can_follow_a_short_answer_may_end() -> None:
    log_probs = torch.tensor([[-math.inf, -math.inf, 0.0, -math.inf], [-1.0, -1.0, -1.0, -1.0]])
    applied = MinimumLength(torch.tensor([3, 3]), END_ID).apply(log_probs, torch.zeros(2, 1).long(), torch.arange(2))
    assert applied[0].tolist() == log_probs[0].tolist()
    assert applied[1].tolist() == [-1.0, -1.0, -math.inf, -1.0]


@pytest.mark.parametrize("settings", CONFIGS)
def test_rules_follow_their_sentence_when_others_leave_the_batch(settings: dict) -> None:
    everything = {**settings, "min_length_ratio": 1.0, "no_repeat_ngram": 2, "repetition_penalty": 1.2}
    prefixes = [(3,), (), (4, 4), (), (5,), (6,)]

    def found(places: list[int]) -> list[Hypothesis]:
        return answers(everything, places, demands=Demands(prefixes).of(places))

    alone = [found([place])[0] for place in range(6)]
    for places in ([0, 1, 2, 3, 4, 5], [5, 3, 1], [2, 2, 4]):
        assert found(places) == [alone[place] for place in places]


def test_several_rules_hold_at_once_in_their_order() -> None:
    rules: list[Rule] = [NoRepeatedNgram(1, END_ID)]
    steps = Ruled(TableSteps(TABLE, [0], 1), rules, sentences=1, rows_per_sentence=1, prefix=Prefix([(5, 5)]))
    for newest, expected in ((BEGIN_ID, [5]), (5, [5])):  # the prefix comes last and wins
        allowed = (steps.step(torch.tensor([newest]))[0] > -math.inf).nonzero().flatten().tolist()
        assert allowed == expected
    assert (steps.step(torch.tensor([5]))[0] > -math.inf).nonzero().flatten().tolist() == [2, 3, 4, 6]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"beam_size": 3, "diverse_groups": 2}, "must divide beam_size = 3"),
        ({"patience": 2.0}, 'needs stopping = "first-k"'),
        ({"min_length": 9, "max_length": 8}, "is above max_length = 8"),
        ({"beam_size": 4, "diverse_groups": 2, "coverage_penalty": 0.2}, "does not work with diverse beam search"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(settings: dict, said: str) -> None:
    with pytest.raises((ValueError, ProblemsError, RecipeError)) as raised:
        DecodingConfig(**settings)
    assert said in str(raised.value)


def test_the_absolute_maximum_is_kept() -> None:
    config = DecodingConfig(max_length=3)
    assert config.max_lengths(torch.tensor([1, 100])).tolist() == [3, 3]
    assert max(len(h.tokens) for h in answers({"method": "beam", "max_length": 3, "min_length": 3})) == 3


def test_combinations_of_all_rules_end() -> None:
    for n, least, factor in itertools.product((0, 1, 2), (0, 8), (1.0, 5.0)):
        settings = {"method": "beam", "no_repeat_ngram": n, "min_length": least, "repetition_penalty": factor}
        assert len(answers(settings)) == 6
