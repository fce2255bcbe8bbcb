"""The tree of a beam search, on tables of probabilities: a twin in plain Python, and a search by hand."""

import math
from collections.abc import Sequence

import pytest
import torch
from tests.decoding.tables import END_ID, IDS, Table, TableSteps, random_table
from torch import Tensor

from weft.decoding.beam_tree import BeamRecorder, Node
from weft.decoding.search import DecodingConfig, search
from weft.decoding.step import Hypothesis, StepFunction

A, B = 3, 4


def later_ends(token: int, history: tuple[int, ...]) -> float:
    """A liking for </s> that grows with what is written."""
    return 0.2 * len(history) * (token == END_ID)


def recorded(table: Table, config: DecodingConfig) -> tuple[Hypothesis, tuple[Node, ...], int]:
    """The answer for a source of five pieces, the tree, and how many steps the search took."""
    recorders: list[BeamRecorder] = []

    def observe(asked: StepFunction, max_lengths: Tensor) -> StepFunction:
        most = int(max_lengths[0])
        recorders.append(BeamRecorder(asked, beam_size=config.rows(1), max_length=most, **IDS))
        return recorders[0]

    steps = TableSteps(table, [""], config.rows(1))
    ((answer,),) = search(steps, torch.tensor([5]), config, observe=observe, **IDS)
    return answer, recorders[0].tree(answer), recorders[0].length + 1


def hypotheses(tree: Sequence[Node], states: set[str]) -> dict[tuple[int, ...], float]:
    """The pieces on the way to each node in these states, with its sum."""
    ways: dict[int, tuple[int, ...]] = {0: ()}
    for node in tree[1:]:
        assert node.parent is not None
        ways[node.id] = (*ways[node.parent], node.token)
        assert node.step == len(ways[node.id])
    return {ways[node.id]: node.log_prob for node in tree if node.state in states}


Sums = dict[tuple[int, ...], float]


def compared_by_the_twin(table: Table, *, beam_size: int, max_length: int, steps: int) -> tuple[Sums, Sums, Sums]:
    """What so many steps of beam search go on with before the last, let end, and give up."""
    still_open: Sums = {(): 0.0}
    kept, finished, dropped = dict(still_open), {}, {}
    for step in range(steps):
        extensions = {
            (*tokens, token): log_prob + more
            for tokens, log_prob in still_open.items()
            for token, more in enumerate(table("", tokens))
            if (token == END_ID or len(tokens) < max_length) and more > -math.inf
        }
        best = sorted(extensions, key=lambda tokens: -extensions[tokens])[: 2 * beam_size]
        ended = [tokens for tokens in best[:beam_size] if tokens[-1] == END_ID]
        following = [tokens for tokens in best if tokens[-1] != END_ID][:beam_size] if step + 1 < steps else []
        finished |= {tokens: extensions[tokens] for tokens in ended}
        dropped |= {tokens: extensions[tokens] for tokens in best if tokens not in (*ended, *following)}
        still_open = {tokens: extensions[tokens] for tokens in following}
        kept |= still_open
    return kept, finished, dropped


@pytest.mark.parametrize("beam_size", [1, 2, 3, 5])
@pytest.mark.parametrize("settings", [{"stopping": "exact"}, {"stopping": "first-k"}, {"length_penalty": "none"}])
def test_the_tree_is_what_the_twin_keeps_ends_and_gives_up(beam_size: int, settings: dict) -> None:
    for seed, vocab_size in enumerate((4, 6, 8, 11)):
        table = random_table(vocab_size, seed, liking=later_ends)
        config = DecodingConfig(beam_size=beam_size, max_length_ratio=0, max_length_extra=6, **settings)
        answer, tree, steps = recorded(table, config)
        kept, finished, dropped = compared_by_the_twin(table, beam_size=beam_size, max_length=6, steps=steps)
        end = (*answer.tokens, END_ID)
        assert hypotheses(tree, {"best"}).keys() == {end[:length] for length in range(len(end) + 1)}
        went_on = hypotheses(tree, {"best", "kept"})
        ended = hypotheses(tree, {"finished"}) | {end: went_on.pop(end)}
        assert went_on == pytest.approx(kept, abs=1e-5)
        assert ended == pytest.approx(finished, abs=1e-5)
        assert hypotheses(tree, {"dropped"}) == pytest.approx(dropped, abs=1e-5)
        assert ended[end] == pytest.approx(answer.log_prob, abs=1e-5)


def test_a_search_by_hand() -> None:
    """The two best extensions of four at each step; "A" is gone on with, then </s> and "A B" are."""
    after = {(): {A: 0.6, B: 0.3, END_ID: 0.1}, (A,): {END_ID: 0.7, B: 0.3}, (A, B): {END_ID: 1.0}, (B,): {B: 1.0}}

    def table(sentence: str, history: tuple[int, ...]) -> list[float]:
        return [math.log(after.get(history, {}).get(token, 0.0) or 1e-30) for token in range(5)]

    answer, tree, steps = recorded(table, DecodingConfig(beam_size=2, length_penalty="none", max_length_extra=3))
    assert (answer.tokens, steps) == ((A,), 2)
    assert hypotheses(tree, {"best"}) == pytest.approx({(): 0, (A,): math.log(0.6), (A, END_ID): math.log(0.42)})
    assert hypotheses(tree, {"kept"}) == pytest.approx({(B,): math.log(0.3)})
    given_up = hypotheses(tree, {"dropped"})
    assert given_up[END_ID,] == pytest.approx(math.log(0.1))  # it ends, but not among the first two
    assert given_up[B, B] == pytest.approx(math.log(0.3))  # open when the search stopped
    assert hypotheses(tree, {"finished"}) == {}


def test_the_tree_of_greedy_search_is_one_way() -> None:
    table = random_table(7, seed=1, liking=later_ends)
    answer, tree, _ = recorded(table, DecodingConfig(method="greedy", max_length_ratio=0, max_length_extra=6))
    assert len(hypotheses(tree, {"best"})) == len(answer.tokens) + 2
    assert hypotheses(tree, {"kept", "finished"}) == {}


def test_rules_are_seen_as_the_search_sees_them() -> None:
    config = DecodingConfig(beam_size=3, min_length=3, no_repeat_ngram=1, max_length_ratio=0, max_length_extra=4)
    _, tree, _ = recorded(random_table(8, seed=2, liking=later_ends), config)
    assert all(len(tokens) > 3 for tokens in hypotheses(tree, {"best", "finished"}) if tokens[-1:] == (END_ID,))
    assert all(len(set(tokens)) == len(tokens) for tokens in hypotheses(tree, {"best", "kept", "dropped", "finished"}))


@pytest.mark.parametrize("config", [DecodingConfig(method="greedy"), DecodingConfig(beam_size=4)])
def test_being_observed_changes_no_answer(config: DecodingConfig) -> None:
    for seed in range(5):
        table = random_table(9, seed, liking=later_ends)
        ((alone,),) = search(TableSteps(table, [""], config.rows(1)), torch.tensor([5]), config, **IDS)
        assert recorded(table, config)[0] == alone
