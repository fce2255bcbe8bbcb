"""The recurrent model: what its parts compute, and that search sees what training sees, whatever is switched on."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from weft.config import resolve
from weft.errors import RecipeError, UsageError
from weft.folders.recipes import TranslationRecipe
from weft.layers.source_attention import SourceAttention
from weft.models.recurrent import RecurrentConfig, RecurrentSeq2Seq
from weft.preparing.vocabularies import tied_to_weights
from weft.text.vocabulary import BEGIN_ID, END_ID, PADDING_ID

SOURCE = torch.tensor([[5, 6, 7, 8, END_ID], [9, 5, END_ID, PADDING_ID, PADDING_ID]])
TARGET = torch.tensor([[BEGIN_ID, 4, 5, 6], [BEGIN_ID, 7, 4, PADDING_ID]])
CHOICES: list[dict[str, Any]] = [
    {},
    {"input_feeding": False},
    {"cell": "gru", "attention": "additive", "convolution": 2},
    {"cell": "rnn", "input_feeding": False, "attention": "additive", "convolution": 3},
    {"attention": "dot", "connections": "dense"},
    {"attention": "scaled", "connections": "residual"},
    {"connections": "highway", "coverage": 1.0},
    {"attention": "none"},
    {"attention": "none", "input_feeding": False},
    {"copying": True},
    {"copying": True, "input_feeding": False, "attention": "additive"},
    {"copying": True, "coverage": 1.0, "input_feeding": False, "tie": "none"},
    {"tie": "none", "weight_drop": 0.5, "scheduled_sampling": 0.5, "initialization": 0.1},
    {"cell": "gru", "input_feeding": False, "coverage": 1.0},
    {"encoder_layers": 3, "decoder_layers": 1, "attention": "none"},
    {"encoder_layers": 1, "decoder_layers": 2, "attention": "none"},
]


def network(**settings: Any) -> RecurrentSeq2Seq:
    sizes = {"embedding_dim": 8, "hidden_dim": 12, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
    config = RecurrentConfig(**{**sizes, **settings})
    model = RecurrentSeq2Seq(config, source_vocab_size=12, target_vocab_size=10, padding_id=PADDING_ID).double()
    model.compute_dtype = torch.float64
    if config.copying:
        model.copy_between([f"piece {number}" for number in range(12)], [f"piece {number}" for number in range(10)])
    return model.eval()


@pytest.mark.parametrize("settings", CHOICES, ids=str)
def test_a_sentence_alone_is_one_in_a_batch_and_steps_are_teacher_forcing_also_after_rows_were_reordered(
    settings: dict[str, Any],
) -> None:
    model = network(**settings)
    together = model(SOURCE, TARGET)
    torch.testing.assert_close(together.exp().sum(-1), torch.ones(2, 4).double())
    torch.testing.assert_close(model(SOURCE[1:, :3], TARGET[1:]), together[1:])
    state, rows = model.start(SOURCE, 2), TARGET.repeat_interleave(2, 0)
    for place in range(3):
        torch.testing.assert_close(state.step(rows[:, place])[::2], together[:, place])
        state.reorder(torch.tensor([1, 0, 3, 2]))
    state.reorder(torch.tensor([3, 2]))
    torch.testing.assert_close(state.step(rows[2:, 3])[1], together[1, 3])
    assert state.source_mask().tolist() == [[True] * 3 + [False] * 2]


@pytest.mark.parametrize("settings", CHOICES, ids=str)
def test_every_weight_learns_and_no_output_depends_on_later_target_tokens(settings: dict[str, Any]) -> None:
    model = network(**settings).train()
    decoded = model.states(SOURCE, TARGET)
    total = decoded.log_probs(model.output).square().sum()
    (total if decoded.penalty is None else total + decoded.penalty.sum()).backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())
    changed = TARGET.clone()
    changed[:, 2:] = 9
    model.eval()
    torch.testing.assert_close(model(SOURCE, changed)[:, :2], model(SOURCE, TARGET)[:, :2])


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        ("dot", [1.0, 4.0]),
        ("scaled", [1 / math.sqrt(2), 4 / math.sqrt(2)]),
        ("multiplicative", [2.0, 10.0]),
        ("additive", [math.tanh(1 + 2) - math.tanh(1 + 0), math.tanh(1 + 4) - math.tanh(1 + 6)]),
    ],
)
def test_attention_is_its_formula_on_a_case_worked_out_by_hand_and_padding_gets_none(
    score: str, expected: list[float]
) -> None:
    """The query is (1, 1), the memory (1, 0), (2, 2) and padding; W_m is diagonal (2, 3), W_q is 1, v is (1, -1)."""
    attention = SourceAttention(score, 2, 2).double()
    if attention.key is not None:
        attention.key.weight.data = torch.tensor([[2.0, 0.0], [0.0, 3.0]]).double()
    if attention.query is not None and attention.weight is not None:
        attention.query.weight.data = torch.eye(2).double()
        attention.weight.weight.data = torch.tensor([[1.0, -1.0]]).double()
    memory = torch.tensor([[[1.0, 0.0], [2.0, 2.0], [0.0, 0.0]]]).double()
    source = attention.prepare(memory, torch.tensor([[True, True, False]]))
    context, weights = attention(torch.ones(1, 1, 2).double(), source)
    odds = [math.exp(number) for number in expected]
    assert weights[0, 0].tolist() == pytest.approx([odds[0] / sum(odds), odds[1] / sum(odds), 0.0], rel=1e-12)
    assert weights[0, 0, 2] == 0
    torch.testing.assert_close(context, weights @ memory)


def test_the_combined_output_is_luongs_and_coverage_counts_what_was_attended_to_before() -> None:
    model = network(coverage=2.0)
    assert model.attention is not None and model.attention.coverage is not None
    model.attention.coverage.data.fill_(-0.5)
    state = model.start(SOURCE)
    covered, x = torch.zeros(2, 5).double(), state.embedded(TARGET)
    for place in range(3):
        combined, _, penalty = state.advance(x[:, place])
        assert penalty is not None and state.source is not None
        torch.testing.assert_close(penalty[:, 0], 2 * torch.minimum(covered, state.source_attention()).sum(-1))
        hidden = state.state[-1][0]
        scores = (state.source.keys @ hidden[..., None]).squeeze(-1) - 0.5 * covered
        weights = scores.masked_fill(~state.mask, -torch.inf).softmax(-1)
        torch.testing.assert_close(state.source_attention(), weights)
        context = (weights[:, None] @ state.source.values).squeeze(1)
        expected = torch.tanh(torch.cat([context, hidden], -1) @ model.combine.weight.T)
        torch.testing.assert_close(combined[:, 0], expected)
        covered += weights


def test_copied_probability_goes_to_the_pieces_of_the_source_and_none_beyond_the_vocabulary() -> None:
    model = network(copying=True)
    decoded = model.states(torch.tensor([[5, 11, 5, END_ID]]), TARGET[:1])
    assert decoded.copied is not None
    shares = decoded.copied.shares[0]
    assert (shares[:, 1] == 0).all() and (shares[:, 3] == 0).all()  # in no target vocabulary; no piece
    generated = torch.log_softmax(model.output(decoded.hidden), -1).exp()[0] * (1 - shares.sum(-1, keepdim=True))
    generated[:, 5] += shares[:, 0] + shares[:, 2]
    torch.testing.assert_close(decoded.log_probs(model.output)[0].exp(), generated)


def names_task(generator: torch.Generator, names: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Sentences of three words translated one by one, 4 to 6 in the source and 8 to 10 in the target; somewhere among
    them stands "called", 7 and 11, and a name, which stays what it is."""
    words = torch.randint(4, 7, (32, 5), generator=generator)
    place = torch.randint(0, 4, (32, 1), generator=generator)
    name = torch.randint(*names, (32, 1), generator=generator)
    source = words.scatter(1, place, torch.full_like(place, 7))
    target = (source + 4).scatter(1, place + 1, name)
    end, begin = torch.full((32, 1), END_ID), torch.full((32, 1), BEGIN_ID)
    return torch.cat([source.scatter(1, place + 1, name), end], 1), torch.cat([begin, target, end], 1)


@pytest.mark.parametrize(("copying", "least", "most"), [(True, 0.99, 1.0), (False, 0.0, 0.0)])
def test_names_never_seen_in_training_are_copied_and_without_copying_never_written(
    copying: bool, least: float, most: float
) -> None:
    config = RecurrentConfig(embedding_dim=24, hidden_dim=32, dropout=0.1, copying=copying, tie="none")
    model = RecurrentSeq2Seq(config, source_vocab_size=112, target_vocab_size=112, padding_id=PADDING_ID)
    pieces = [f"piece {number}" for number in range(112)]
    if copying:
        model.copy_between(pieces, pieces)
    generator, optimizer = torch.Generator().manual_seed(1), torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(80):
        source, target = names_task(generator, (12, 62))
        log_probs = model.states(source, target[:, :-1]).log_probs(model.output)
        optimizer.zero_grad()
        torch.nn.functional.nll_loss(log_probs.flatten(0, 1), target[:, 1:].flatten()).backward()
        optimizer.step()
    source, target = (
        torch.cat(parts) for parts in zip(*(names_task(generator, (62, 112)) for _ in range(8)), strict=True)
    )
    with torch.no_grad():
        best = model.eval()(source, target[:, :-1]).argmax(-1)
    is_name = target[:, 1:] >= 62
    right = (best == target[:, 1:])[is_name].float().mean()
    assert least <= right <= most


def test_what_is_taken_out_of_a_source_is_read_as_zeros_up_to_its_last_token() -> None:
    model = network(convolution=3)
    model.source_embedding.weight.data[11] = 0.0
    holed, zeroed = SOURCE.clone(), SOURCE.clone()
    holed[:, 1], zeroed[:, 1] = PADDING_ID, 11
    (memory, mask, first), (expected, _, expected_first) = model.encode(holed), model.encode(zeroed)
    torch.testing.assert_close((memory, first), (expected, expected_first))
    assert mask.tolist() == [[True, False, True, True, True], [True, False, True, False, False]]


@pytest.mark.parametrize(
    ("encoder", "decoder", "begins"), [(2, 2, [0, 1]), (3, 1, [2]), (3, 2, [1, 2]), (1, 2, [0, 0])]
)
def test_the_decoders_top_layer_begins_with_the_encoders(encoder: int, decoder: int, begins: list[int]) -> None:
    model = network(encoder_layers=encoder, decoder_layers=decoder, attention="none")
    assert [model.config.begins_with(layer) for layer in range(decoder)] == begins
    model(SOURCE, TARGET).sum().backward()
    assert not [name for name, parameter in model.named_parameters() if parameter.grad is None]


@pytest.mark.parametrize("settings", CHOICES, ids=str)
def test_every_choice_searches_in_single_precision_where_products_are_packed(settings: dict[str, Any]) -> None:
    model = network(**settings).float()
    model.compute_dtype = torch.float32
    whole = model(SOURCE, TARGET).detach()  # with gradients: by the plain forms
    with torch.inference_mode():
        state = model.start(SOURCE)
        steps = torch.stack([state.step(TARGET[:, place]) for place in range(4)], 1)
    torch.testing.assert_close(steps, whole, atol=1e-5, rtol=1e-5)


def test_training_reads_its_own_predictions_where_a_draw_is_below_the_probability(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = network(scheduled_sampling=0.5)
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.tensor([[0.4], [0.6]]))
    mixed = model.train().states(SOURCE, TARGET).log_probs(model.output)
    model.config = model.config.model_copy(update={"scheduled_sampling": 1.0})
    own = model.states(SOURCE, TARGET).log_probs(model.output)
    torch.testing.assert_close(mixed[0], own[0])
    torch.testing.assert_close(mixed[1], model.eval()(SOURCE, TARGET)[1])


def test_training_reads_its_own_predictions_at_probability_one() -> None:
    model = network(scheduled_sampling=1.0)
    own = model.train().states(SOURCE, TARGET)
    written, state = TARGET[:, :1], model.eval().start(SOURCE)
    for place in range(4):
        found = state.step(written[:, -1])
        torch.testing.assert_close(own.log_probs(model.output)[:, place], found)
        written = torch.cat([written, found.argmax(-1, keepdim=True)], 1)


def test_processes_that_train_together_drop_the_same_weights() -> None:
    model = network(weight_drop=0.5, input_feeding=False).train()
    found = []
    for seed in (1, 1, 2):
        model.layer_generator = torch.Generator().manual_seed(seed)
        found.append(model.states(SOURCE, TARGET).hidden)
    torch.testing.assert_close(found[0], found[1])
    assert not torch.allclose(found[0], found[2])


def test_all_new_weights_are_drawn_from_the_range_that_is_asked_for() -> None:
    model = network(initialization=0.1)
    for name, parameter in model.named_parameters():
        assert parameter.abs().max() <= 0.1, name
    config = RecurrentConfig(embedding_dim=64, hidden_dim=8, initialization=0.1, tie="all")
    shared = RecurrentSeq2Seq(config, source_vocab_size=12, target_vocab_size=12, padding_id=PADDING_ID)
    for embedding in (model.source_embedding, shared.source_embedding):
        assert 0.08 < embedding(SOURCE).abs().max() <= 0.1


def test_without_attention_there_is_none_to_show() -> None:
    model = network(attention="none")
    state = model.start(SOURCE)
    state.step(TARGET[:, 0])
    with pytest.raises(UsageError, match="has no attention"):
        state.source_attention()


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"hidden_dim": 9}, "hidden_dim"),
        ({"hidden_dim": 9, "encoder_dim": 4, "attention": "dot"}, "hidden_dim must be even"),
        ({"attention": "dot", "encoder_dim": 5}, "attention"),
        ({"attention": "none", "copying": True}, "copying"),
        ({"attention": "none", "coverage": 1.0}, "coverage"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused_by_their_key(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(ValidationError, match=key):
        RecurrentConfig(**settings)


@pytest.mark.parametrize("settings", [choice for choice in CHOICES if not choice.get("scheduled_sampling")], ids=str)
def test_torch_counts_two_operations_for_each_multiply_add_that_a_plan_counts(settings: dict[str, Any]) -> None:
    model = network(**settings)
    source, target = torch.randint(4, 10, (3, 16)), torch.randint(4, 10, (3, 8))
    counted = model.config.multiply_adds(10, np.full(3, 16), np.full(3, 8))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.output(model.states(source, target).hidden)
    assert counter.get_total_flops() == 2 * sum(counted.values())


@pytest.mark.parametrize(
    ("model", "training", "said"),
    [
        # All rows of a batch drop the same weights.
        ({"dropout": 0.0, "weight_drop": 0.2}, {"r_drop": 5}, "compares passes with different dropout"),
        ({"copying": True}, {"z_loss": 1e-4}, "does not work with model.copying"),
        ({"scheduled_sampling": 0.5}, {"r_drop": 5}, "does not work with model.scheduled_sampling"),
        ({"scheduled_sampling": 0.5}, {"teachers": ["x"]}, "does not work with model.scheduled_sampling"),
        ({"connections": "dense"}, {}, "joins a layer with the next"),
    ],
)
def test_what_cannot_work_together_is_refused(model: dict[str, Any], training: dict[str, Any], said: str) -> None:
    data = {"source": "zh", "target": "en", "train": ["train.tsv"], "valid": ["valid.tsv"]}
    given = {"data": data, "model": {"kind": "recurrent", **model}, "training": training}
    with pytest.raises(RecipeError, match=said):
        resolve(given, TranslationRecipe, "a test")


def test_a_fine_tuning_recipe_may_choose_what_only_training_reads() -> None:
    tied, free = tied_to_weights(RecurrentConfig())
    assert free == ["model.scheduled_sampling", "model.dropout", "model.weight_drop"]
    assert {"model.cell", "model.hidden_dim", "model.coverage"} < set(tied)
