"""Greedy and beam search, on tables of probabilities that stand in for a model.

The twin below searches one sentence with lists, as the docstring of decoding/beam.py says it in words.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from tests.decoding.tables import END_ID, IDS, Table, TableSteps, ending, log_prob_of, random_table
from torch import Tensor

from weft.decoding.beam import Stopping, beam_search
from weft.decoding.coverage import Coverage
from weft.decoding.diverse import diverse_beam_search
from weft.decoding.greedy import greedy_search
from weft.decoding.length import Scoring
from weft.decoding.search import DecodingConfig, search
from weft.decoding.step import Hypothesis
from weft.errors import WeftError
from weft.models.transformer import Transformer, TransformerConfig

A, B = 3, 4


def table_by_hand(probabilities: Mapping[tuple[int, ...], Mapping[int, float]]) -> Table:
    """What is not listed after a history is impossible; what is not listed as a history can only end."""

    def table(sentence: str, history: tuple[int, ...]) -> list[float]:
        after = probabilities.get(history, {END_ID: 1.0})
        return [math.log(after[token]) if token in after else -math.inf for token in range(5)]

    return table


# ---- the twin ----

DIVISORS: dict[str, Callable[[int, int, float], float]] = {
    "none": lambda length, source, power: 1.0,
    "average": lambda length, source, power: length,
    "fixed": lambda length, source, power: length**power,
    "gnmt": lambda length, source, power: ((5 + length) / 6) ** power,
    "adaptive": lambda length, source, power: length ** min(max(0.5 + 0.01 * source, 0.5), 0.8),
}


def search_one(
    table: Table,
    sentence: str,
    max_length: int,
    source_length: int,
    *,
    beam_size: int,
    length_penalty: str = "none",
    length_power: float = 1.0,
    word_reward: float = 0.0,
    stopping: str = "exact",
    patience: float = 1.0,
    best: int = 1,
) -> tuple[list[Hypothesis], int]:
    """The answer and the number of steps it took; `stopping = "never"` goes on while anything is open."""

    def score(log_prob: float, length: int) -> float:
        return log_prob / DIVISORS[length_penalty](length, source_length, length_power) + word_reward * length

    still_open: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[Hypothesis] = []
    steps = 0
    while still_open:
        steps += 1
        candidates = [
            (log_prob + next_log_prob, (*tokens, token))
            for log_prob, tokens in still_open
            for token, next_log_prob in enumerate(table(sentence, tokens))
            if (token == END_ID or len(tokens) < max_length) and next_log_prob > -math.inf
        ]
        candidates = sorted(candidates, reverse=True)[: 2 * beam_size]
        finished += [
            Hypothesis(tokens[:-1], log_prob, score(log_prob, len(tokens)))
            for log_prob, tokens in candidates[:beam_size]
            if tokens[-1] == END_ID
        ]
        still_open = [(log_prob, tokens) for log_prob, tokens in candidates if tokens[-1] != END_ID][:beam_size]
        if stopping == "first-k" and len(finished) >= patience * beam_size:
            break
        finished.sort(key=lambda hypothesis: -hypothesis.score)
        is_exact = stopping == "exact" and still_open and len(finished) >= best
        if is_exact and finished[best - 1].score >= score(still_open[0][0], max_length + 1):
            break
    finished.sort(key=lambda hypothesis: -hypothesis.score)
    return finished[: min(best, beam_size)], steps


# ---- the search under test, on tables ----

SENTENCES = ("first", "second", "third", "fourth", "fifth")
MAX_LENGTHS = (7, 3, 0, 1, 9)
SOURCE_LENGTHS = (4, 0, 12, 35, 22)


def search_tables(
    table: Table, places: Sequence[int] = range(5), **settings
) -> tuple[list[list[Hypothesis]], TableSteps]:
    """Beam search over these of the five sentences at once, and the step function after its use."""
    settings, scoring = scored(settings)
    steps = TableSteps(table, [SENTENCES[i] for i in places], settings["beam_size"])
    max_lengths = torch.tensor([MAX_LENGTHS[i] for i in places], dtype=torch.long)
    source_lengths = torch.tensor([SOURCE_LENGTHS[i] for i in places], dtype=torch.long)
    return beam_search(steps, max_lengths, source_lengths, scoring=scoring, **IDS, **settings), steps


def scored(settings: dict[str, Any]) -> tuple[dict[str, Any], Scoring]:
    """The settings without those of the scoring, and these."""
    names = ("length_penalty", "length_power", "word_reward")
    of_scoring = {name: settings[name] for name in names if name in settings}
    return {name: value for name, value in settings.items() if name not in names}, Scoring(**of_scoring)


def same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    """The same tokens in the same order, with log-probabilities and scores equal up to fp32."""
    assert [hypothesis.tokens for hypothesis in found] == [hypothesis.tokens for hypothesis in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.log_prob, ours.score) == pytest.approx((theirs.log_prob, theirs.score), rel=1e-5)


PENALTIES = [("none", 1.0), ("average", 2.0), ("fixed", 1.0), ("fixed", 0.4), ("gnmt", 0.6), ("adaptive", 1.0)]


@pytest.mark.parametrize(("length_penalty", "length_power"), PENALTIES)
@pytest.mark.parametrize("stopping", ["exact", "first-k"])
@pytest.mark.parametrize(("beam_size", "best"), [(1, 1), (2, 1), (3, 3), (5, 2), (12, 12)])
def test_beam_search_is_its_twin_in_answers_and_steps(length_penalty, length_power, stopping, beam_size, best):
    settings = {
        "beam_size": beam_size,
        "length_penalty": length_penalty,
        "length_power": length_power,
        "stopping": stopping,
        "best": best,
    }
    for seed, vocab_size in enumerate((5, 6, 7, 8)):
        table = random_table(vocab_size, seed, liking=ending(seed / 2 - 0.5))
        found, steps = search_tables(table, **settings)
        twins = [
            search_one(table, *sentence, **settings)
            for sentence in zip(SENTENCES, MAX_LENGTHS, SOURCE_LENGTHS, strict=True)
        ]
        for hypotheses, (expected, _) in zip(found, twins, strict=True):
            same(hypotheses, expected)
        longest = max(count for _, count in twins)
        still_searched = [sum(count > step for _, count in twins) for step in range(longest)]
        assert [len(tokens) for tokens in steps.fed] == [beam_size * count for count in still_searched]


@pytest.mark.parametrize(("length_penalty", "length_power"), PENALTIES)
def test_stopping_exactly_gives_the_answer_of_never_stopping(length_penalty, length_power):
    settings = {"length_penalty": length_penalty, "length_power": length_power}
    saved = 0
    for seed, beam_size, best in itertools.product(range(5), (1, 3, 4), (1, 3)):
        best = min(best, beam_size)
        table = random_table(6, seed)
        found, _ = search_tables(table, beam_size=beam_size, best=best, **settings)
        for hypotheses, sentence in zip(found, zip(SENTENCES, MAX_LENGTHS, SOURCE_LENGTHS, strict=True), strict=True):
            never = search_one(table, *sentence, beam_size=beam_size, best=best, stopping="never", **settings)
            same(hypotheses, never[0])
            saved += never[1] - search_one(table, *sentence, beam_size=beam_size, best=best, **settings)[1]
    assert saved > 0


@pytest.mark.parametrize(("length_penalty", "length_power"), PENALTIES)
def test_a_beam_as_wide_as_everything_finds_the_best_of_all_sequences(length_penalty, length_power):
    """Three symbols and </s>, at most four symbols: 121 sequences, and never more than 108 extensions at a time."""
    table, max_length, source_length = random_table(4, seed=3), 4, 15

    everything = [tokens for length in range(max_length + 1) for tokens in itertools.product((0, 1, 3), repeat=length)]
    assert len(everything) == 121
    scored = [
        Hypothesis(tokens, total, total / DIVISORS[length_penalty](len(tokens) + 1, source_length, length_power))
        for tokens in everything
        for total in [log_prob_of(table, "s", tokens)]
    ]
    (found,) = beam_search(
        TableSteps(table, ["s"], 108),
        torch.tensor([max_length]),
        torch.tensor([source_length]),
        beam_size=108,
        scoring=Scoring(length_penalty, length_power),
        best=10,
        **IDS,
    )
    same(found, sorted(scored, key=lambda hypothesis: -hypothesis.score)[:10])


@pytest.mark.parametrize("stopping", ["exact", "first-k"])
@pytest.mark.parametrize(("word_reward", "patience"), [(0.0, 0.5), (0.4, 1.0), (2.0, 2.5)])
def test_with_a_word_reward_and_patience_beam_search_is_its_twin(stopping: Stopping, word_reward, patience):
    for seed, beam_size in itertools.product(range(4), (1, 3, 4)):
        table = random_table(6, seed)
        settings = {"beam_size": beam_size, "word_reward": word_reward, "length_penalty": "fixed", "best": 2}
        settings |= {"stopping": stopping, "patience": patience}
        found, _ = search_tables(table, **settings)
        for hypotheses, sentence in zip(found, zip(SENTENCES, MAX_LENGTHS, SOURCE_LENGTHS, strict=True), strict=True):
            same(hypotheses, search_one(table, *sentence, **settings)[0])


def test_a_word_reward_by_hand_makes_a_translation_longer():
    table = table_by_hand({(): {END_ID: 0.6, A: 0.4}, (A,): {END_ID: 0.6, A: 0.4}})
    short, _ = search_tables(table, [0], beam_size=2)
    longer, _ = search_tables(table, [0], beam_size=2, word_reward=0.95)  # a piece costs log 0.4 = -0.916
    assert (short[0][0].tokens, longer[0][0].tokens) == ((), (A, A))
    assert longer[0][0].score == pytest.approx(math.log(0.4 * 0.4) + 3 * 0.95)


def test_more_patience_waits_for_more_hypotheses():
    table = random_table(6, 3, liking=ending(1.0))
    counts = [
        len(search_tables(table, beam_size=3, stopping="first-k", patience=patience)[1].fed)
        for patience in (0.3, 1.0, 3.0)
    ]
    assert counts == sorted(counts) and counts[0] < counts[-1]


class AttendingTable(TableSteps):
    """Looks at the source token whose number is that of the newest piece minus A, at first at none."""

    def source_mask(self) -> Tensor:
        return torch.tensor([[True, True, False]] * (len(self.rows) // self.rows_per_sentence))

    def source_attention(self) -> Tensor:
        attention = torch.zeros(len(self.rows), 3)
        for row, (_, history) in enumerate(self.rows):
            if history[-1] in (A, B):
                attention[row, history[-1] - A] = 0.5
        return attention


def test_the_coverage_penalty_by_hand_prefers_what_looks_at_the_whole_source():
    table = table_by_hand(
        {(): {A: 1.0}, (A,): {A: 0.6, B: 0.4}, (A, A): {END_ID: 1.0}, (A, B): {END_ID: 1.0}},
    )

    def search_with(weight: float) -> list[Hypothesis]:
        steps = AttendingTable(table, ["s"], 2)
        coverage = Coverage(weight, steps)
        return beam_search(steps, torch.tensor([5]), torch.tensor([2]), beam_size=2, best=2, coverage=coverage, **IDS)[
            0
        ]

    # "A A" looks at the first token with 1.0 and never at the second, "A B" at both with a half.
    neglect, halves = math.log(1e-6), 2 * math.log(0.5)
    same(
        search_with(1.0),
        [
            Hypothesis((A, B), math.log(0.4), math.log(0.4) + halves),
            Hypothesis((A, A), math.log(0.6), math.log(0.6) + neglect),
        ],
    )
    same(search_with(0.01)[:1], [Hypothesis((A, A), math.log(0.6), math.log(0.6) + 0.01 * neglect)])


# ---- diverse beam search ----


def search_one_diversely(
    table: Table, sentence: str, max_length: int, *, beam_size: int, groups: int, strength: float, steps: int
) -> list[list[tuple[int, ...]]]:
    """The open hypotheses of each group after so many steps."""
    size = beam_size // groups
    still_open: list[list[tuple[float, tuple[int, ...]]]] = [[(0.0, ())] for _ in range(groups)]
    for _ in range(steps):
        taken: list[int] = []
        for group, hypotheses in enumerate(still_open):
            candidates = [
                (log_prob + more - strength * taken.count(token), log_prob + more, (*tokens, token))
                for log_prob, tokens in hypotheses
                for token, more in enumerate(table(sentence, tokens))
                if token == END_ID or len(tokens) < max_length
            ]
            candidates = sorted(candidates, reverse=True)[: 2 * size]
            still_open[group] = [(total, tokens) for _, total, tokens in candidates if tokens[-1] != END_ID][:size]
            taken += [tokens[-1] for _, tokens in still_open[group]]
    return [[tokens for _, tokens in hypotheses] for hypotheses in still_open]


@pytest.mark.parametrize(("beam_size", "groups"), [(4, 2), (6, 3), (4, 4), (5, 1)])
@pytest.mark.parametrize("strength", [0.0, 0.7, 50.0])
def test_the_groups_of_diverse_beam_search_stay_open_as_in_its_twin(beam_size, groups, strength):
    table, depth = random_table(7, seed=11, liking=ending(-20.0)), 4
    steps = TableSteps(table, ["s"], beam_size)
    diverse_beam_search(
        steps,
        torch.tensor([depth]),
        torch.tensor([3]),
        beam_size=beam_size,
        groups=groups,
        strength=strength,
        **IDS,
    )
    for time in range(1, depth + 1):
        twin = search_one_diversely(
            table, "s", depth, beam_size=beam_size, groups=groups, strength=strength, steps=time
        )
        assert steps.fed[time] == [tokens[-1] for group in twin for tokens in group]


def test_one_group_is_beam_search():
    for seed in range(5):
        table = random_table(6, seed)
        steps = TableSteps(table, SENTENCES, 4)
        lengths = torch.tensor(MAX_LENGTHS), torch.tensor(SOURCE_LENGTHS)
        found = diverse_beam_search(steps, *lengths, beam_size=4, groups=1, strength=1.0, best=3, **IDS)
        assert found == search_tables(table, beam_size=4, best=3)[0]


def test_a_strong_diversity_makes_groups_begin_with_different_pieces():
    table = random_table(8, 2, liking=ending(-3.0))
    (found,) = diverse_beam_search(
        TableSteps(table, ["s"], 4),
        torch.tensor([3]),
        torch.tensor([3]),
        beam_size=4,
        groups=4,
        strength=99.0,
        best=4,
        **IDS,
    )
    assert len({hypothesis.tokens[0] for hypothesis in found}) == 4
    assert found == sorted(found, key=lambda hypothesis: -hypothesis.score)


def test_groups_shun_the_end_of_another_groups_hypothesis_too():
    table = table_by_hand({(): {END_ID: 0.9, 3: 0.06, 4: 0.04}})
    lengths = torch.tensor([3]), torch.tensor([3])
    for strength, expected in ((0.0, [()]), (9.0, [(), (4,)])):  # 3 is what the first group goes on with
        steps = TableSteps(table, ["s"], 2)
        (found,) = diverse_beam_search(steps, *lengths, beam_size=2, groups=2, strength=strength, best=2, **IDS)
        assert [hypothesis.tokens for hypothesis in found] == expected


def test_a_diverse_answer_does_not_depend_on_the_batch():
    table = random_table(7, 5)

    def answers(places: Sequence[int]) -> list[list[Hypothesis]]:
        steps = TableSteps(table, [SENTENCES[i] for i in places], 4)
        lengths = [torch.tensor([numbers[i] for i in places]) for numbers in (MAX_LENGTHS, SOURCE_LENGTHS)]
        return diverse_beam_search(steps, *lengths, beam_size=4, groups=2, strength=0.5, best=4, **IDS)

    alone = [answers([i])[0] for i in range(5)]
    for places in ([0, 1, 2, 3, 4], [4, 2, 0], [1, 1, 3]):
        assert answers(places) == [alone[i] for i in places]


def test_a_beam_of_two_finds_by_hand_what_greedy_search_misses():
    table = table_by_hand({(): {A: 0.6, B: 0.4}, (A,): {END_ID: 0.4, A: 0.3, B: 0.3}, (B,): {END_ID: 0.9, A: 0.1}})
    (greedy,) = greedy_search(TableSteps(table, ["s"]), torch.tensor([5]), **IDS)
    same([greedy], [Hypothesis((A,), math.log(0.24), math.log(0.24))])
    found, _ = search_tables(table, [0], beam_size=2, best=2)
    same(found[0], [Hypothesis((B,), math.log(0.36), math.log(0.36)), Hypothesis((A,), math.log(0.24), math.log(0.24))])


def test_a_length_penalty_by_hand_prefers_the_longer_of_two():
    table = table_by_hand({(): {END_ID: 0.5, A: 0.4, B: 0.1}})  # </s>, or a symbol and then surely </s>
    plain, _ = search_tables(table, [0], beam_size=2)
    mean, _ = search_tables(table, [0], beam_size=2, length_penalty="fixed")
    same(plain[0], [Hypothesis((), math.log(0.5), math.log(0.5))])
    same(mean[0], [Hypothesis((A,), math.log(0.4), math.log(0.4) / 2)])


@pytest.mark.parametrize("stopping", ["exact", "first-k"])
def test_one_open_hypothesis_without_penalty_is_greedy_search(stopping: Stopping):
    for seed in range(10):
        table = random_table(6, seed)
        found, _ = search_tables(table, beam_size=1, stopping=stopping)
        greedy = greedy_search(TableSteps(table, SENTENCES), torch.tensor(MAX_LENGTHS), **IDS)
        assert [hypotheses[0] for hypotheses in found] == greedy


@pytest.mark.parametrize("stopping", ["exact", "first-k"])
def test_finished_hypotheses_are_never_extended(stopping: Stopping):
    for seed in range(10):
        _, steps = search_tables(
            random_table(6, seed), beam_size=4, stopping=stopping
        )  # five symbols: no place is idle
        assert all(END_ID not in tokens for tokens in steps.fed)


@pytest.mark.parametrize(("length_penalty", "length_power"), PENALTIES)
@pytest.mark.parametrize("stopping", ["exact", "first-k"])
def test_an_answer_does_not_depend_on_the_batch_to_the_last_bit(length_penalty, length_power, stopping: Stopping):
    table = random_table(7, seed=5)
    settings = {
        "beam_size": 4,
        "length_penalty": length_penalty,
        "length_power": length_power,
        "stopping": stopping,
        "best": 3,
    }
    alone = [search_tables(table, [i], **settings)[0][0] for i in range(5)]
    for places in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1], [1, 1, 4], [0, 4]):
        assert search_tables(table, places, **settings)[0] == [alone[i] for i in places]


def test_no_answer_is_longer_than_its_own_maximum():
    table = random_table(6, 1, liking=ending(-9.0))  # it never wants to end
    found, _ = search_tables(table, beam_size=3)
    greedy = greedy_search(TableSteps(table, SENTENCES), torch.tensor(MAX_LENGTHS), **IDS)
    assert [len(hypotheses[0].tokens) for hypotheses in found] == list(MAX_LENGTHS)
    assert [len(hypothesis.tokens) for hypothesis in greedy] == list(MAX_LENGTHS)


def test_the_forced_end_costs_its_probability():
    table = table_by_hand({(): {A: 0.8, END_ID: 0.2}, (A,): {A: 0.9, END_ID: 0.1}})
    (greedy,) = greedy_search(TableSteps(table, ["s"]), torch.tensor([1]), **IDS)
    assert greedy.tokens == (A,)
    assert greedy.log_prob == pytest.approx(math.log(0.8 * 0.1))
    found, _ = search_tables(table, [3], beam_size=2, best=2)  # at most one piece
    same(found[0], [Hypothesis((), math.log(0.2), math.log(0.2)), Hypothesis((A,), math.log(0.08), math.log(0.08))])


def test_greedy_search_takes_the_most_probable_and_lets_finished_sentences_go():
    table = random_table(6, 4)
    steps = TableSteps(table, SENTENCES)
    found = greedy_search(steps, torch.tensor(MAX_LENGTHS), **IDS)
    for sentence, max_length, hypothesis in zip(SENTENCES, MAX_LENGTHS, found, strict=True):
        tokens: tuple[int, ...] = ()
        while len(tokens) < max_length:
            answers = table(sentence, tokens)
            if (token := answers.index(max(answers))) == END_ID:
                break
            tokens = (*tokens, token)
        assert hypothesis.tokens == tokens
        assert hypothesis.score == hypothesis.log_prob
    rows = [sum(len(hypothesis.tokens) >= step for hypothesis in found) for step in range(len(steps.fed))]
    assert [len(tokens) for tokens in steps.fed] == rows
    assert all(END_ID not in tokens for tokens in steps.fed)


def test_more_answers_than_the_beam_holds_are_as_many_as_it_holds():
    table = random_table(6, 1)
    assert search_tables(table, beam_size=3, best=9)[0] == search_tables(table, beam_size=3, best=3)[0]


def test_impossible_tokens_are_never_written():
    table = table_by_hand({(): {A: 1.0}, (A,): {A: 0.4, END_ID: 0.6}})  # fewer possible hypotheses than places
    found, _ = search_tables(table, [0], beam_size=4, best=4)
    same(found[0], [Hypothesis((A,), math.log(0.6), math.log(0.6)), Hypothesis((A, A), math.log(0.4), math.log(0.4))])


def test_no_sentences_give_no_answers():
    assert search_tables(random_table(5, 1), [], beam_size=2)[0] == []


@pytest.mark.parametrize("method", ["beam", "greedy", "sample"])
def test_a_model_that_answers_nan_is_refused(method):
    config = DecodingConfig(method=method)
    steps = TableSteps(lambda sentence, history: [math.nan] * 5, ["s"], config.rows(1))
    with pytest.raises(WeftError, match="NaN"):
        search(steps, torch.tensor([3]), config, seeds=[1], **IDS)


# ---- with settings, and on a real model ----


def test_the_longest_translation_follows_the_source():
    assert DecodingConfig().max_lengths(torch.tensor([0, 1, 10])).tolist() == [20, 22, 40]
    config = DecodingConfig(max_length_ratio=1.5, max_length_extra=3)
    assert config.max_lengths(torch.tensor([0, 1, 3, 10])).tolist() == [3, 5, 8, 18]


@pytest.mark.parametrize("hundredths", [10, 15, 30, 60, 110, 120, 240])
def test_lengths_are_rounded_up_from_the_ratio_as_it_is_written(hundredths):
    config = DecodingConfig(max_length_ratio=hundredths / 100, max_length_extra=1, min_length_ratio=hundredths / 100)
    sources = torch.arange(1000)
    expected = [-(-source * hundredths // 100) for source in range(1000)]
    assert config.min_lengths(sources).tolist() == expected
    assert config.max_lengths(sources).tolist() == [length + 1 for length in expected]


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_settings_reach_the_search(method):
    table, source_lengths = random_table(6, 2, liking=ending(-1.0)), torch.tensor([1, 3])
    config = DecodingConfig(
        method=method, beam_size=4, length_penalty="gnmt", length_power=0.6, max_length_ratio=2, max_length_extra=1
    )
    steps = TableSteps(table, SENTENCES[:2], config.rows(1))
    found = search(steps, source_lengths, config, best=2, **IDS)
    for sentence, source_length, hypotheses in zip(SENTENCES[:2], (1, 3), found, strict=True):
        place = (sentence, 2 * source_length + 1, source_length)
        if method == "beam":
            twin = search_one(table, *place, beam_size=4, length_penalty="gnmt", length_power=0.6, best=2)
        else:
            twin = search_one(table, *place, beam_size=1)
        same(hypotheses, twin[0])


@pytest.mark.parametrize("settings", [{"beam_size": 0}, {"method": "sampling"}, {"length_penalty": "wu"}, {"beams": 3}])
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(ValidationError, match=f"1 validation error(.|\n)*{next(iter(settings))}"):
        DecodingConfig(**settings)


@pytest.mark.parametrize("config", [DecodingConfig(method="greedy"), DecodingConfig(beam_size=4, max_length_extra=30)])
def test_a_transformer_translates_a_sentence_alone_as_in_a_batch(config):
    model = Transformer(
        TransformerConfig(model_dim=16, num_heads=2, encoder_layers=2, decoder_layers=2, ff_dim=32),
        source_vocab_size=20,
        target_vocab_size=20,
        padding_id=0,
    ).eval()
    with torch.no_grad():
        model.target_embedding.weight.mul_(3)  # sharper than at its start, so that no two answers are near a tie
    lengths = torch.tensor([3, 9, 1, 6])
    source = torch.randint(3, 20, (4, 10))
    source[torch.arange(4), lengths] = END_ID
    source[torch.arange(10) > lengths[:, None]] = 0

    def translations(places: list[int]) -> list[Hypothesis]:
        longest = int(lengths[places].max()) + 1
        state = model.start(source[places, :longest], config.rows(1))
        found = search(state, lengths[places], config, **IDS)
        return [hypotheses[0] for hypotheses in found]

    alone = [translations([i])[0] for i in range(4)]
    for places in ([0, 1, 2, 3], [3, 1], [2, 0, 3]):
        same(translations(places), [alone[i] for i in places])
    assert len({hypothesis.tokens for hypothesis in alone}) > 1
