"""n-gram models as a kind of network, with weights and a step function."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from tests.text.test_ngrams import BEGIN, END, in_a_row, texts

from weft.models.ngram import NgramConfig, NgramLanguageModel

VOCABULARY = 40


@pytest.fixture(scope="module", params=[1, 3])
def model(request: pytest.FixtureRequest) -> NgramLanguageModel:
    network = NgramLanguageModel(NgramConfig(order=request.param), vocab_size=VOCABULARY)
    network.fit(in_a_row(texts(1)))
    return network


def padded(rows: list[list[int]]) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[BEGIN, *row, END, *[0] * (longest - len(row))] for row in rows])


def test_a_batch_has_the_log_probabilities_of_its_texts(model: NgramLanguageModel) -> None:
    rows = texts(2, 20)
    found = model.token_log_probs(padded(rows))
    for row, log_probs in zip(rows, found, strict=True):
        alone = model.ngrams().token_log_probs(np.array([BEGIN, *row, END]))[1:]
        np.testing.assert_array_equal(log_probs[: len(row) + 1], alone)


def test_steps_whose_rows_are_reordered_give_the_log_probabilities_of_their_texts(model: NgramLanguageModel) -> None:
    first, other = [5, 4, 6], [4, 4, 5]
    steps = model.start(2)
    for tokens in ([BEGIN, BEGIN], *zip(first, other, strict=True)):
        log_probs = steps.step(torch.tensor(tokens))
    steps.reorder(torch.tensor([1, 0, 1]))
    log_probs = steps.step(torch.tensor([7, 7, 8]))
    for row, text in zip(log_probs, ([*other, 7], [*first, 7], [*other, 8]), strict=True):
        expected = model.token_log_probs(torch.tensor([[BEGIN, *text, 9]]))[0, -1]
        assert row[9].item() == pytest.approx(expected.item(), abs=1e-5)
    prompted = model.start(1, torch.tensor([BEGIN, *first])).step(torch.tensor([7]))
    assert torch.equal(prompted[0], log_probs[1])


def test_a_model_is_rebuilt_from_its_settings_and_weights(model: NgramLanguageModel) -> None:
    again = NgramLanguageModel(model.config, vocab_size=VOCABULARY)
    again.load_state_dict(model.state_dict())
    assert again.config.counts == tuple(map(len, model.ngrams().keys))
    tokens = padded(texts(3, 5))
    assert torch.equal(again.token_log_probs(tokens), model.token_log_probs(tokens))
    assert not any(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("counts", [(3,), (3, -1), (3, 1 << 60)])
def test_counts_that_are_not_of_the_orders_are_refused(counts: tuple[int, ...]) -> None:
    with pytest.raises(ValidationError, match="is found in the training texts"):
        NgramConfig(order=3, counts=counts)
