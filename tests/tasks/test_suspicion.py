"""A loss that is too low to be true is named with its likely cause."""

from typing import Any

import pytest
import torch
from tests.tasks.language_models import KINDS, learned

from weft.data.lines import LineBatch, Lines
from weft.models import language_model
from weft.tasks.language_modelling import LanguageModelTask
from weft.tasks.suspicion import sees_later_tokens, with_other_end

VALID = Lines(["I", "the evening came and the cat slept"], [("v", 1), ("v", 2)], {})
"""The first text is too short to show anything."""


def losses_named(model: Any, said: list[str], validations: int = 1) -> None:
    task = LanguageModelTask(model, VALID, say=said.append)
    for _ in range(validations):
        task.loss(model.network, LineBatch(torch.tensor([[2, 200, 201, 3]])))
        task.evaluate(model.network)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_network_is_not_suspected(kind: str) -> None:
    said: list[str] = []
    losses_named(learned(kind), said)
    assert said == []


def test_a_mask_that_shows_the_future_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_model, "causal_mask", lambda length, device: torch.ones(1, 1, length, length).bool())
    said: list[str] = []
    losses_named(learned("transformer"), said, validations=2)
    assert len(said) == 1 and "sees the pieces that it is to predict" in said[0] and "a wrong mask" in said[0]


def test_every_token_of_the_second_half_is_exchanged_whatever_the_vocabulary() -> None:
    tokens = torch.tensor([[2, 4, 5, 5, 4, 3]])
    for vocab_size in (6, 7, 100):
        changed = with_other_end(tokens, vocab_size)
        assert torch.equal(changed == tokens, torch.tensor([[True] * 3 + [False] * 3])) and changed.max() < vocab_size


def test_a_reshape_that_mixes_places_is_found() -> None:
    network = learned("lstm").network
    plain = network.forward
    network.forward = lambda tokens: plain(tokens).mT.reshape(len(tokens), tokens.size(1), -1)
    assert sees_later_tokens(network, torch.randint(4, 200, (1, 20)))


def test_a_text_that_is_learned_by_heart_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model, said = learned("lstm"), list[str]()
    torch.nn.init.zeros_(model.network.output.weight)
    model.network.output.weight.data[200] = 1.0  # which stands in no held-out text
    monkeypatch.setattr(model.network, "drop", lambda x: x * 0 + 1.0)
    task = LanguageModelTask(model, VALID, say=said.append)
    task.loss(model.network, LineBatch(torch.full((1, 9), 200)))
    task.evaluate(model.network)
    assert len(said) == 1 and "learns the training text by heart" in said[0]
