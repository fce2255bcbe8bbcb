"""Language models of every kind: nothing comes from the future, a state is what was read, and steps are a pass."""

from typing import Any, get_args

import pytest
import torch

from weft.decoding.greedy import greedy_search
from weft.models.contract import ModelSettings, Steps
from weft.models.cost import parameters_by_part
from weft.models.kinds import LANGUAGE_MODELS
from weft.models.language_model import (
    Autoregressive,
    RecurrentLanguageModel,
    RecurrentLmConfig,
    TransformerLmConfig,
    WindowConfig,
)
from weft.text.vocabulary import BEGIN_ID, END_ID

TRANSFORMER: dict[str, Any] = {"model_dim": 16, "num_heads": 2, "num_layers": 2, "ff_dim": 24}
POSITIONS = get_args(TransformerLmConfig.model_fields["positions"].annotation)
SETTINGS: dict[str, ModelSettings] = {
    "window": WindowConfig(window=3, embedding_dim=5, model_dim=16),
    **{
        f"recurrent {cell}": RecurrentLmConfig(cell=cell, model_dim=16, num_layers=2) for cell in ("rnn", "gru", "lstm")
    },
    **{f"transformer {name}": TransformerLmConfig(positions=name, **TRANSFORMER) for name in POSITIONS},
    "transformer post": TransformerLmConfig(norm="post", activation="swiglu", tie=False, **TRANSFORMER),
}
every_kind = pytest.mark.parametrize("name", SETTINGS)


def network_of(name: str) -> Any:
    torch.manual_seed(1)
    settings = SETTINGS[name]
    return LANGUAGE_MODELS[settings.kind](settings, vocab_size=11).eval()


def tokens(rows: int, time: int) -> torch.Tensor:
    return torch.randint(4, 11, (rows, time), generator=torch.Generator().manual_seed(7))


def test_there_is_one_of_each_kind() -> None:
    assert {settings.kind for settings in SETTINGS.values()} == LANGUAGE_MODELS.keys() - {"ngram"}


@every_kind
def test_it_has_the_contract_and_its_parts_are_counted(name: str) -> None:
    network = network_of(name)
    assert sum(parameters_by_part(network).values()) == sum(p.numel() for p in network.parameters())
    assert isinstance(network, Autoregressive) and isinstance(network.start(2), Steps)


@every_kind
def test_the_gradient_of_an_output_by_later_inputs_is_exactly_zero(name: str) -> None:
    network = network_of(name)
    read, embed = tokens(2, 9), network.embedding.forward
    embedded = embed(read).detach().requires_grad_()
    network.embedding.forward = lambda given: embedded if given.shape == read.shape else embed(given)
    if name == "window":  # it embeds the padding before the first token too
        padded = torch.cat([torch.zeros(2, 2, dtype=torch.long), read], 1)
        embedded = embed(padded).detach().requires_grad_()
        network.embedding.forward = lambda given: embedded
    before = embedded.size(1) - read.size(1)
    for time in (0, 4, 8):
        (gradient,) = torch.autograd.grad(network(read)[:, time].square().sum(), embedded)
        assert (gradient[:, before + time + 1 :] == 0).all() and (gradient[:, before + time] != 0).any()


@every_kind
def test_a_state_that_is_carried_is_one_long_pass(name: str) -> None:
    network, read = network_of(name), tokens(3, 40)
    whole, state, parts = network(read), None, []
    for begin, end in ((0, 1), (1, 17), (17, 18), (18, 40)):
        hidden, state = network.extend(read[:, begin:end], state)
        parts.append(hidden)
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-5)


@every_kind
def test_steps_after_a_prompt_are_the_pass_over_the_whole_also_after_rows_were_reordered(name: str) -> None:
    network, read = network_of(name), tokens(2, 12)
    read[1, :5] = read[0, :5]
    expected = network.output(network(read)).log_softmax(-1)
    steps = network.start(2, read[0, :4])
    order = torch.tensor([1, 0])
    for time in range(4, 12):
        torch.testing.assert_close(steps.step(read[:, time]), expected[:, time], rtol=1e-5, atol=1e-5)
        steps.reorder(order)
        read, expected = read[order], expected[order]


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_full_context_is_begun_anew_from_its_last_half(positions: str) -> None:
    network, read = network_of(f"transformer {positions}"), tokens(2, 23)
    steps = network.start(2, context=8)
    for time in range(23):
        first = 0 if time < 8 else time - 3 - (time - 8) % 5  # 8 tokens fit, then 4 are kept and 4 more fit
        hidden = network(read[:, first : time + 1])[:, -1]
        found = steps.step(read[:, time])
        torch.testing.assert_close(found, network.output(hidden).log_softmax(-1), rtol=1e-4, atol=1e-5)


def test_without_positions_only_the_set_of_earlier_tokens_counts_at_the_end() -> None:
    read = tokens(1, 6)
    mixed = read[:, [2, 0, 3, 1, 4, 5]]
    one_layer = {**TRANSFORMER, "num_layers": 1}
    for positions, alike in (("none", True), ("rotary", False)):
        settings = TransformerLmConfig.model_validate({**one_layer, "positions": positions})
        network = LANGUAGE_MODELS["transformer"](settings, vocab_size=11).eval()
        assert torch.allclose(network(read)[:, -1], network(mixed)[:, -1], atol=1e-6) == alike


def test_a_search_writes_what_the_network_finds_most_probable() -> None:
    network = network_of("transformer rotary")
    (hypothesis,) = greedy_search(network.start(1), torch.tensor([6]), begin_id=BEGIN_ID, end_id=END_ID)
    written = [BEGIN_ID]
    for token in hypothesis.tokens:
        assert token == int(network.output(network(torch.tensor([written])))[0, -1].argmax())
        written.append(token)


def test_variational_dropout_drops_the_same_activations_at_all_places_of_a_row() -> None:
    network = RecurrentLanguageModel(RecurrentLmConfig(model_dim=64, dropout=0.5, variational=True), vocab_size=9)
    dropped = network.drop(torch.ones(3, 5, 64))
    assert (dropped == dropped[:, :1]).all() and not torch.equal(dropped[0], dropped[1])
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert (network.eval().drop(torch.ones(3, 5, 64)) == 1).all()


def test_weight_drop_changes_what_training_computes_and_nothing_else() -> None:
    settings = {"model_dim": 16, "dropout": 0.0}
    network = RecurrentLanguageModel(RecurrentLmConfig(**settings, weight_drop=0.5), vocab_size=11)
    plain = RecurrentLanguageModel(RecurrentLmConfig(**settings), vocab_size=11)
    plain.load_state_dict(network.state_dict())
    read = tokens(2, 6)
    first, second = network(read), network(read)
    assert torch.equal(first[:, 0], second[:, 0])  # the state before it is zero
    assert not torch.allclose(first[:, -1], second[:, -1])
    assert torch.equal(network.eval()(read), plain.eval()(read))
