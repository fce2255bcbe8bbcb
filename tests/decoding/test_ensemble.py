"""An ensemble: the mean of what its members hold probable, searched like any one of them."""

import itertools
import math

import pytest
import torch
from tests.decoding.tables import BEGIN_ID, END_ID, IDS, Table, TableSteps, log_prob_of, random_table

from weft.decoding.ensemble import Ensemble
from weft.decoding.search import DecodingConfig, search
from weft.decoding.step import Hypothesis, StepFunction

VOCAB_SIZE = 5


def mean_of(tables: list[Table]) -> Table:
    """The twin: one table of the mean probabilities."""

    def table(sentence: int, history: tuple[int, ...]) -> list[float]:
        columns = zip(*(table(sentence, history) for table in tables), strict=True)
        return [math.log(sum(map(math.exp, column)) / len(tables)) for column in columns]

    return table


TABLES = [random_table(VOCAB_SIZE, seed, deviation=2) for seed in range(3)]


def ensemble(rows_per_sentence: int = 1, sentences: int = 4) -> Ensemble:
    return Ensemble([TableSteps(table, range(sentences), rows_per_sentence) for table in TABLES])


def test_the_probability_of_a_piece_is_the_mean_of_the_members() -> None:
    def member(probability: float) -> TableSteps:
        return TableSteps(lambda sentence, history: [math.log(probability), math.log(1 - probability)], [0])

    steps = Ensemble([member(0.9), member(0.3)])
    assert steps.step(torch.tensor([BEGIN_ID])).exp().tolist() == [pytest.approx([0.6, 0.4])]


def test_what_it_answers_is_a_distribution() -> None:
    assert ensemble().step(torch.full((4,), BEGIN_ID)).exp().sum(1).tolist() == pytest.approx([1.0] * 4)


@pytest.mark.parametrize("method", ["greedy", "beam", "sample"])
def test_searching_the_ensemble_is_searching_the_table_of_mean_probabilities(method: str) -> None:
    config = DecodingConfig.model_validate(
        {"method": method, "beam_size": 3, "max_length_ratio": 1.0, "max_length_extra": 2}
    )
    lengths, seeds = torch.tensor([1, 2, 3, 4]), [1, 2, 3, 4]

    def found(steps: StepFunction) -> list[Hypothesis]:
        answers = search(steps, lengths, config, **IDS, seeds=seeds)
        return [hypotheses[0] for hypotheses in answers]

    rows = config.rows(1)
    for ours, twins in zip(found(ensemble(rows)), found(TableSteps(mean_of(TABLES), range(4), rows)), strict=True):
        assert ours.tokens == twins.tokens
        assert ours.log_prob == pytest.approx(twins.log_prob, abs=1e-4)


def test_a_wide_beam_finds_the_most_probable_sentence_of_all() -> None:
    config = DecodingConfig(beam_size=64, length_penalty="none", max_length_ratio=0.0, max_length_extra=3)
    (answers,) = search(ensemble(64, sentences=1), torch.tensor([1]), config, **IDS)
    mean = mean_of(TABLES)
    words = [token for token in range(VOCAB_SIZE) if token != END_ID]
    every = [sentence for length in range(4) for sentence in itertools.product(words, repeat=length)]

    assert answers[0].tokens == max(every, key=lambda sentence: log_prob_of(mean, 0, sentence))


def test_an_ensemble_of_one_is_that_one() -> None:
    alone = TableSteps(TABLES[0], range(2))
    steps = Ensemble([TableSteps(TABLES[0], range(2))])
    for tokens in ([BEGIN_ID, BEGIN_ID], [3, 4]):
        assert torch.allclose(steps.step(torch.tensor(tokens)), alone.step(torch.tensor(tokens)), atol=1e-6)
