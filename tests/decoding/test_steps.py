"""Searches that pause after each step: what is certain by then, and that nothing goes on when they are left."""

from typing import Any

import pytest
import torch
from tests.decoding.tables import IDS, TableSteps, ending, random_table

from weft.decoding.demands import Demands
from weft.decoding.search import DecodingConfig, search, search_steps
from weft.decoding.step import Hypothesis, shared_beginning

SENTENCES = 4
LENGTHS = torch.tensor([5, 0, 9, 3])

GREEDY: dict[str, Any] = {"method": "greedy"}
BEAM: dict[str, Any] = {"method": "beam", "beam_size": 3, "length_penalty": "average"}
WIDE: dict[str, Any] = {"method": "beam", "beam_size": 9, "length_penalty": "none", "stopping": "first-k"}
SAMPLE: dict[str, Any] = {"method": "sample"}
DIVERSE: dict[str, Any] = {"method": "beam", "beam_size": 4, "diverse_groups": 2}


def steps_of(settings: dict[str, Any], seed: int, **more: Any) -> tuple[TableSteps, dict[str, Any]]:
    config = DecodingConfig(max_length_extra=6, **settings)
    seeds = [7 + sentence for sentence in range(SENTENCES)] if config.draws else []
    table = random_table(7, seed, deviation=3, liking=ending(-2))  # sharp, so that beginnings are shared
    steps = TableSteps(table, range(SENTENCES), config.rows(1))
    return steps, {"step_function": steps, "source_lengths": LENGTHS, "config": config, "seeds": seeds, **IDS, **more}


def watched(settings: dict[str, Any], seed: int, **more: Any) -> tuple[list[list[tuple[int, ...]]], list[Hypothesis]]:
    """What was certain of each sentence after each step, and the answers."""
    _, arguments = steps_of(settings, seed, **more)
    searching = search_steps(**arguments)
    seen: list[list[tuple[int, ...]]] = [[] for _ in range(SENTENCES)]
    while True:
        try:
            certain = next(searching)
        except StopIteration as end:
            return seen, [hypotheses[0] for hypotheses in end.value]
        for sentence, of_sentence in enumerate(seen):
            of_sentence.append(() if certain is None else certain.beginning(sentence))


@pytest.mark.parametrize("settings", [GREEDY, BEAM, WIDE, SAMPLE], ids=["greedy", "beam", "wide", "sample"])
def test_what_is_certain_is_how_the_answer_begins_and_only_grows(settings: dict[str, Any]) -> None:
    early = 0
    for seed in range(12):
        seen, answers = watched(settings, seed)
        for beginnings, answer in zip(seen, answers, strict=True):
            while beginnings and not beginnings[-1]:
                beginnings.pop()  # settled: nothing is said of it any more
            assert all(beginning == answer.tokens[: len(beginning)] for beginning in beginnings)
            assert [len(beginning) for beginning in beginnings] == sorted(map(len, beginnings))
            early += any(beginnings)
    assert early > 5  # else nothing was shown


def test_in_greedy_search_every_piece_is_certain_as_soon_as_it_is_written() -> None:
    seen, answers = watched(GREEDY, 3)
    for beginnings, answer in zip(seen, answers, strict=True):
        whole = [answer.tokens[: step + 1] for step in range(len(answer.tokens))]
        assert beginnings[: len(whole)] == whole


@pytest.mark.parametrize("settings", [GREEDY, BEAM, SAMPLE], ids=["greedy", "beam", "sample"])
def test_a_demanded_prefix_is_certain_piece_by_piece(settings: dict[str, Any]) -> None:
    seen, _ = watched(settings, 1, demands=Demands([[5, 6, 5]] * SENTENCES))
    assert [beginnings[:3] for beginnings in seen] == [[(5,), (5, 6), (5, 6, 5)]] * SENTENCES


@pytest.mark.parametrize("settings", [GREEDY, BEAM, SAMPLE, DIVERSE], ids=["greedy", "beam", "sample", "diverse"])
def test_step_by_step_the_answers_are_those_of_one_go(settings: dict[str, Any]) -> None:
    _, answers = watched(settings, 4)
    assert answers == [hypotheses[0] for hypotheses in search(**steps_of(settings, 4)[1])]


@pytest.mark.parametrize(
    ("settings", "constraints"),
    [(GREEDY, ()), (BEAM, ()), (SAMPLE, ()), (DIVERSE, ()), (BEAM, [[((5,),)]] * SENTENCES)],
    ids=["greedy", "beam", "sample", "diverse", "constrained"],
)
def test_a_search_that_is_left_asks_the_model_nothing_more(settings: dict[str, Any], constraints: Any) -> None:
    steps, arguments = steps_of(settings, 2, demands=Demands(constraints=constraints))
    searching = search_steps(**arguments)
    next(searching)
    next(searching)
    searching.close()
    assert len(steps.fed) == 2
    with pytest.raises(StopIteration):
        next(searching)
    assert len(steps.fed) == 2


def test_what_hypotheses_share_ends_where_the_shortest_or_the_first_difference_does() -> None:
    assert shared_beginning([(3, 4, 5), (3, 4, 6, 7), (3, 4)]) == (3, 4)
    assert shared_beginning([(3, 4), (4, 4)]) == () == shared_beginning([])
