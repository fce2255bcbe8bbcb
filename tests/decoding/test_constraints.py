"""Lexical constraints: the phrases always appear, and a beam that holds everything finds the best that has them."""

import itertools
import math
import random
from collections.abc import Sequence

import pytest
import torch
from tests.decoding.tables import END_ID, IDS, TableSteps, log_prob_of, random_table

from weft.decoding.beam import beam_search
from weft.decoding.constraints import PhraseConstraints, Standing, constrained_beam_search, overlap
from weft.decoding.demands import NO_JOINS, Constraint, Demands, Joins, Phrase
from weft.decoding.length import Scoring
from weft.decoding.rules import MinimumLength, Ruled
from weft.decoding.search import DecodingConfig, search
from weft.decoding.step import Hypothesis
from weft.errors import UsageError


def random_steps(sentences: Sequence[int], rows_per_sentence: int, vocab_size: int) -> TableSteps:
    return TableSteps(random_table(vocab_size), sentences, rows_per_sentence)


def contains(tokens: tuple[int, ...], phrase: tuple[int, ...]) -> bool:
    return any(tokens[i : i + len(phrase)] == phrase for i in range(len(tokens) - len(phrase) + 1))


def meets(tokens: tuple[int, ...], constraints: Sequence[Constraint]) -> bool:
    return all(any(contains(tokens, phrase) for phrase in phrases) for phrases in constraints)


def searched(
    constraints: Sequence[Sequence[Constraint]],
    *,
    beam_size: int,
    vocab_size: int,
    most: int = 9,
    joins: Joins = NO_JOINS,
    prefixes=(),
    **settings,
) -> list[list[Hypothesis]]:
    sentences = range(len(constraints))
    lengths = torch.full((len(sentences),), most), torch.arange(len(sentences))
    steps = random_steps(sentences, beam_size, vocab_size)
    demands = Demands(prefixes, constraints, joins)
    return constrained_beam_search(steps, *lengths, demands, beam_size=beam_size, **IDS, **settings)


BEFORE_1 = Joins(earlier=frozenset(range(9)), later=frozenset({1}))
"""Piece 1 goes on with the word before it."""

CONSTRAINTS: list[list[Constraint]] = [
    [((3,),)],
    [((3, 3),)],
    [((0, 3),), ((3, 0),)],  # one piece may serve both
    [((3, 0, 3),), ((1,),)],
    [((0, 0, 0), (3, 3))],  # either of them
    [],
]


@pytest.mark.parametrize("constraints", CONSTRAINTS)
@pytest.mark.parametrize("scoring", [Scoring(), Scoring("fixed", 1.0), Scoring("gnmt", 0.6, word_reward=0.3)])
def test_a_beam_as_wide_as_everything_finds_the_best_of_all_sequences_that_meet_them(
    constraints: list[Constraint], scoring: Scoring
) -> None:
    """Three symbols and </s>, at most four symbols: 121 sequences, and never more than 108 extensions at a time."""
    everything = [tokens for length in range(5) for tokens in itertools.product((0, 1, 3), repeat=length)]
    scored = [
        Hypothesis(tokens, total, float(scoring(torch.tensor(total), torch.tensor(len(tokens) + 1), torch.tensor(0))))
        for tokens in everything
        if meets(tokens, constraints)
        for total in [log_prob_of(random_table(4), 0, tokens)]
    ]
    expected = sorted(scored, key=lambda hypothesis: -hypothesis.score)[:3]
    (found,) = searched([constraints], beam_size=108, vocab_size=4, most=4, scoring=scoring, best=3)
    assert [hypothesis.tokens for hypothesis in found] == [hypothesis.tokens for hypothesis in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.log_prob, ours.score) == pytest.approx((theirs.log_prob, theirs.score), rel=1e-5)


def is_followed(tokens: tuple[int, ...], phrase: tuple[int, ...], continuing: int) -> bool:
    """Whether the phrase, where it first stands, has this piece behind it."""
    ends = [i + len(phrase) for i in range(len(tokens)) if tokens[i : i + len(phrase)] == phrase]
    return tokens[ends[0] : ends[0] + 1] == (continuing,)


@pytest.mark.parametrize("constraints", [[((3,),)], [((0, 3),)], [((3,),), ((0,),)], [((3, 1),)]])
def test_the_best_of_all_sequences_in_which_no_phrase_is_gone_on_with(constraints: list[Constraint]) -> None:
    """Piece 1 would go on with a word: 3 1 is another word than 3."""
    (hypotheses,) = searched([constraints], beam_size=108, vocab_size=4, most=4, best=3, joins=BEFORE_1)
    allowed = [
        tokens
        for length in range(5)
        for tokens in itertools.product((0, 1, 3), repeat=length)
        if meets(tokens, constraints) and not any(is_followed(tokens, phrase, 1) for (phrase,) in constraints)
    ]
    expected = sorted(allowed, key=lambda tokens: -log_prob_of(random_table(4), 0, tokens))[:3]
    assert [hypothesis.tokens for hypothesis in hypotheses] == expected


def test_the_best_of_all_sequences_in_which_the_phrase_goes_on_with_no_word_before_it() -> None:
    """0 3 is another word than 3; but where nothing else fits any more, the last piece may be such a 3."""
    joins = Joins(earlier=frozenset({0}), later=frozenset({3}))
    (hypotheses,) = searched([[((3,),)]], beam_size=108, vocab_size=4, most=4, best=40, joins=joins)
    allowed = [
        tokens
        for length in range(5)
        for tokens in itertools.product((0, 1, 3), repeat=length)
        if any(tokens[i] == 3 and tokens[i - 1 : i] != (0,) for i in range(length)) or tokens[3:] == (3,)
    ]
    expected = sorted(allowed, key=lambda tokens: -log_prob_of(random_table(4), 0, tokens))[:40]
    assert [hypothesis.tokens for hypothesis in hypotheses] == expected


def test_behind_a_phrase_that_ends_no_word_anything_may_follow() -> None:
    """Such as C++: a sign is at its end, so no letter goes on with its word."""
    joins = Joins(earlier=frozenset({0}), later=frozenset({1}))
    demands = PhraseConstraints([((0, 3),), ((3, 0),)], joins)
    assert not demands.after((0, 3), frozenset()).is_closed and demands.after((3, 0), frozenset()).is_closed
    assert demands.after((0, 3), frozenset(), following=1).met == {0}
    assert demands.after((3, 0), frozenset(), following=1).met == frozenset()


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_longer_word_in_a_given_beginning_does_not_meet_the_phrase_that_it_begins_with(beam_size: int) -> None:
    """Piece 1 would go on with a word: in the beginning 0 0 is that of a longer one."""
    (found,) = searched(
        [[((3, 0),), ((0, 0),)]], beam_size=beam_size, vocab_size=5, prefixes=[(3, 0, 0, 1)], joins=BEFORE_1
    )
    assert contains(found[0].tokens[4:], (0, 0))


def test_where_a_space_is_a_piece_a_phrase_begins_behind_one_or_at_the_beginning() -> None:
    demands = PhraseConstraints([((5, 3, 4),)], Joins(frozenset({3, 4}), frozenset({3, 4})), space=(5,))
    assert demands.at_first.wanted == {3, 5} and demands.at_first.owed == 2
    assert demands.after((3, 4), frozenset()).met == {0}
    assert demands.after((4, 3, 4), frozenset()).met == frozenset()
    assert demands.after((4, 5, 3, 4), frozenset()).met == {0}


@pytest.mark.parametrize("most", [4, 5, 9])
def test_words_that_are_the_beginnings_of_other_demanded_words_are_met_where_there_is_room(most: int) -> None:
    constraints: list[Constraint] = [((3,),), ((3, 1),), ((0, 3, 1),)]  # each alone would be gone on with in the next
    for beam_size in (1, 3, 20):
        (found,) = searched([constraints[:2]], beam_size=beam_size, vocab_size=4, most=most, joins=BEFORE_1)
        assert meets(found[0].tokens, constraints[:2]) and not is_followed(found[0].tokens, (3,), 1)
    (tight,) = searched([constraints], beam_size=3, vocab_size=4, most=6, joins=BEFORE_1)
    assert meets(tight[0].tokens, constraints)


@pytest.mark.parametrize("stopping", ["exact", "first-k"])
@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_every_phrase_appears_however_narrow_the_beam(beam_size: int, stopping) -> None:
    dice = random.Random(beam_size)
    constraints: list[list[Constraint]] = []
    for _ in range(40):
        phrases = [tuple(dice.choices((0, 3, 4, 5, 6), k=dice.randint(1, 3))) for _ in range(dice.randint(0, 3))]
        constraints.append([(phrase,) for phrase in phrases])
    found = searched(constraints, beam_size=beam_size, vocab_size=7, most=9, stopping=stopping)
    for number, (hypotheses, demanded) in enumerate(zip(found, constraints, strict=True)):
        assert meets(hypotheses[0].tokens, demanded)
        assert len(hypotheses[0].tokens) <= 9
        assert hypotheses[0].log_prob == pytest.approx(
            log_prob_of(random_table(7), number, hypotheses[0].tokens), rel=1e-5
        )


def test_constraints_that_fill_the_whole_room_are_met() -> None:
    (found,) = searched([[((3, 4, 5),), ((6, 6),)]], beam_size=2, vocab_size=7, most=5)
    assert found[0].tokens in {(3, 4, 5, 6, 6), (6, 6, 3, 4, 5)}


def test_phrases_that_overlap_need_no_more_room_than_they_take() -> None:
    (found,) = searched([[((3, 4),), ((4, 5),)]], beam_size=20, vocab_size=6, most=4)
    assert meets(found[0].tokens, [((3, 4),), ((4, 5),)])


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="5 pieces of constraints do not fit into 4"):
        searched([[((3, 4, 5),), ((6, 6),)]], beam_size=2, vocab_size=7, most=4)


def test_a_piece_that_the_model_holds_impossible_is_written_where_it_is_demanded() -> None:
    table = random_table(5, liking=lambda token, history: -math.inf if token == 3 else 0.0)
    lengths, demands = (torch.tensor([4]), torch.tensor([1])), Demands(constraints=[[((3,),)]])
    (found,) = constrained_beam_search(TableSteps(table, [0], 2), *lengths, demands, beam_size=2, **IDS)
    assert found[0].tokens.count(3) == 1
    demands = Demands(constraints=[[((4,),)]])
    (found,) = constrained_beam_search(TableSteps(table, [0], 2), *lengths, demands, beam_size=2, best=2, **IDS)
    assert all(3 not in hypothesis.tokens for hypothesis in found)


@pytest.mark.parametrize("sentence", range(6))
def test_no_hypothesis_ends_before_its_least_length(sentence: int) -> None:
    steps = Ruled(random_steps([sentence], 2, 40), [MinimumLength(torch.tensor([20]), END_ID)], 1, 2)
    (found,) = constrained_beam_search(
        steps,
        torch.tensor([30]),
        torch.tensor([5]),
        Demands(constraints=[[((3, 4, 5),)]]),
        beam_size=2,
        best=2,
        stopping="first-k",
        **IDS,
    )
    assert all(len(hypothesis.tokens) >= 20 and hypothesis.log_prob > -1000 for hypothesis in found)


def test_an_answer_does_not_depend_on_the_batch() -> None:
    constraints: list[list[Constraint]] = [[((3, 4),)], [], [((5,),), ((4,),)], [((6, 6, 6),)]]

    def answers(places: list[int]) -> list[list[Hypothesis]]:
        steps = random_steps(places, 3, 7)
        lengths = torch.full((len(places),), 8), torch.tensor(places)
        demands = Demands(constraints=constraints).of(places)
        return constrained_beam_search(steps, *lengths, demands, beam_size=3, best=3, **IDS)

    alone = [answers([place])[0] for place in range(4)]
    for places in ([0, 1, 2, 3], [3, 1], [2, 2, 0]):
        assert answers(places) == [alone[place] for place in places]


def test_without_constraints_the_answer_is_beam_searchs() -> None:
    for beam_size in (1, 3):
        found = searched([[], []], beam_size=beam_size, vocab_size=7)
        steps = random_steps(range(2), beam_size, 7)
        assert [hypotheses[0].tokens for hypotheses in found] == [
            hypotheses[0].tokens
            for hypotheses in beam_search(steps, torch.tensor([9, 9]), torch.arange(2), beam_size=beam_size, **IDS)
        ]


def test_standing_by_hand() -> None:
    demands = PhraseConstraints([((3, 4, 5),), ((4, 4), (6,))])
    assert (demands.at_first.owed, demands.at_first.wanted) == (4, {3, 4, 6})
    begun = demands.after((3, 4), frozenset())
    assert (begun.met, begun.owed, begun.wanted) == (frozenset(), 2, {3, 4, 5, 6})  # 5 and one of the other
    done = demands.after((3, 4, 5), frozenset())
    assert (done.met, done.owed, done.wanted) == ({0}, 1, {4, 6})
    assert demands.after((3, 4, 5, 6), done.met).owed == 0
    lost = demands.after((3, 4, 3), frozenset())
    assert (lost.met, lost.owed) == (frozenset(), 3)


def standing_by_looking_at_all(
    demands: PhraseConstraints, tokens: Phrase, met: frozenset[int], apart: bool
) -> Standing:
    """The plain form of `PhraseConstraints.after`, which leaves out what the newest piece cannot change."""
    joins = demands.joins

    def is_inside(written: int) -> bool:
        around = tokens[-written - 1 :][:2]
        return apart and len(tokens) > written and around[0] in joins.earlier and around[1] in joins.later

    met_now = {
        number
        for number, phrases in enumerate(demands.constraints)
        if number not in met
        and any(tokens[-len(phrase) :] == phrase and not is_inside(len(phrase)) for phrase in phrases)
    }
    is_closed = apart and bool(met_now) and tokens[-1] in joins.earlier and bool(demands.continuing)
    met |= met_now
    owed, begun, wanted = 0, 0, set()
    for number, phrases in enumerate(demands.constraints):
        if number in met:
            continue
        left = shortest = min(map(len, phrases))
        for phrase in phrases:
            written = overlap(tokens, phrase)
            if written and (is_inside(written) or (is_closed and phrase[written] in demands.continuing)):
                written = 0
            left = min(left, len(phrase) - written)
            wanted |= {phrase[0], phrase[written]}
        owed += shortest
        begun = max(begun, shortest - left)
    return Standing(met, owed - begun, frozenset(wanted), is_closed)


def test_a_standing_is_that_of_looking_at_all_phrases() -> None:
    draw = random.Random(1)

    def drawn(longest: int) -> Phrase:
        return tuple(draw.choices(range(3, 7), k=draw.randint(1, longest)))

    for _ in range(2000):
        constraints = [tuple(drawn(4) for _ in range(draw.randint(1, 3))) for _ in range(draw.randint(1, 4))]
        demands = PhraseConstraints(constraints, Joins(*(frozenset(draw.sample(range(3, 9), 3)) for _ in range(2))))
        met = frozenset(number for number in range(len(constraints)) if draw.random() < 0.3)
        for tokens, apart in itertools.product([(), drawn(3), drawn(9), drawn(9)], [True, False]):
            found = demands.after(tokens, met, apart=apart)
            assert found == standing_by_looking_at_all(demands, tokens, met, apart)


@pytest.mark.parametrize(
    ("tokens", "phrase", "expected"),
    [
        ((), (3,), 0),
        ((3,), (3,), 0),
        ((3,), (3, 4), 1),
        ((3, 3, 4), (3, 4, 5), 2),
        ((3, 3), (3, 3, 3), 2),
        ((4,), (3, 4), 0),
    ],
)
def test_the_overlap_is_what_of_the_phrase_is_written_last(tokens, phrase, expected: int) -> None:
    assert overlap(tokens, phrase) == expected


@pytest.mark.parametrize(
    "settings", [{"method": "greedy"}, {"method": "sample"}, {"beam_size": 4, "diverse_groups": 2}]
)
def test_a_search_that_cannot_promise_phrases_refuses_them(settings: dict) -> None:
    config = DecodingConfig(**settings)
    with pytest.raises(UsageError, match="terms and phrases need"):
        search(
            random_steps([0], config.rows(1), 5),
            torch.tensor([2]),
            config,
            demands=Demands(constraints=[[((3,),)]]),
            seeds=[1],
            **IDS,
        )


@pytest.mark.parametrize("demand", [Demands(constraints=[[((3, 4, 5),)]]), Demands([(3, 4, 5)])])
def test_more_than_the_model_can_write_is_refused(demand: Demands) -> None:
    with pytest.raises(UsageError, match="3 pieces, more than the 2 that the model can write"):
        search(random_steps([0], 3, 7), torch.tensor([2]), DecodingConfig(), longest=2, demands=demand, **IDS)


def test_settings_and_rules_hold_beside_constraints() -> None:
    config = DecodingConfig(beam_size=4, min_length=5, max_length_ratio=0, max_length_extra=7)
    (found,) = search(random_steps([0], 4, 7), torch.tensor([2]), config, demands=Demands([(6,)], [[((5, 5),)]]), **IDS)
    assert found[0].tokens[0] == 6 and contains(found[0].tokens, (5, 5)) and 5 <= len(found[0].tokens) <= 7


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_beginning_stays_where_phrases_are_owed_too_and_both_have_room(beam_size: int) -> None:
    config = DecodingConfig(beam_size=beam_size, max_length_ratio=0, max_length_extra=4)
    prefixes: list[tuple[int, ...]] = [(6, 4, 6, 4), (5,), (), (5, 4)]
    constraints: list[list[Constraint]] = [[((5, 3, 5),)], [((5, 5),), ((0,),)], [((3, 3),)], []]
    found = search(
        random_steps(range(4), beam_size, 7),
        torch.ones(4, dtype=torch.long),
        config,
        demands=Demands(prefixes, constraints),
        **IDS,
    )
    for hypotheses, prefix, of_sentence in zip(found, prefixes, constraints, strict=True):
        for hypothesis in hypotheses:
            assert hypothesis.tokens[: len(prefix)] == prefix and meets(hypothesis.tokens, of_sentence)
            assert hypothesis.log_prob > -100


def test_behind_a_beginning_a_wide_beam_finds_the_best_that_meets_the_constraints() -> None:
    prefix, constraints, most = (3, 0), [((1, 3),)], 5
    sequences = [s for n in range(most + 1) for s in itertools.product((0, 1, 3), repeat=n)]
    fitting = [s for s in sequences if s[:2] == prefix and meets(s, constraints)]
    expected = max(fitting, key=lambda tokens: log_prob_of(random_table(4), 0, tokens))
    config = DecodingConfig(beam_size=64, length_penalty="none", max_length_ratio=0, max_length_extra=most)
    (found,) = search(
        random_steps([0], 64, 4), torch.tensor([1]), config, demands=Demands([prefix], [constraints]), **IDS
    )
    assert found[0].tokens == expected
