"""The layout for search computes what the plain form does (test_transformer.py compares it with teacher forcing)."""

import random

import pytest
import torch
from torch import nn

from weft.layers.norm import LayerNorm
from weft.models.transformer import DecoderLayer, Transformer, TransformerConfig, TransformerState
from weft.models.transformer_session import KEPT_SHARE, TransformerSession, packed

BEGIN_ID = 1
SENTENCES, VOCAB = 9, 30


def make(**settings) -> Transformer:
    config = TransformerConfig(model_dim=16, num_heads=2, encoder_layers=2, decoder_layers=2, ff_dim=24, **settings)
    return Transformer(config, source_vocab_size=VOCAB, target_vocab_size=VOCAB, padding_id=0).eval()


def sources() -> torch.Tensor:
    source = torch.randint(3, VOCAB, (SENTENCES, 19))
    lengths = torch.tensor([19, 18, 16, 12, 9, 7, 4, 2, 1])
    return source.masked_fill(torch.arange(19) >= lengths[:, None], 0)


@torch.inference_mode()
@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("settings", [{}, {"norm": "post", "norm_layer": "rms"}, {"positions": "rotary"}])
def test_it_is_the_plain_form_however_parents_change_and_sentences_leave(beam: int, settings: dict) -> None:
    model, source, dice = make(**settings), sources(), random.Random(beam)
    plain, fast = TransformerState(model, source, beam), TransformerSession(model, source, beam)
    tokens = torch.full((SENTENCES * beam,), BEGIN_ID)
    left, was_compact = SENTENCES, []
    for step in range(40):
        torch.testing.assert_close(fast.step(tokens), plain.step(tokens), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(fast.source_attention(), plain.source_attention(), rtol=1e-4, atol=1e-4)
        assert fast.source_mask().tolist() == plain.source_mask().tolist()
        staying = [place for place in range(left) if step % 5 != 4 or left == 1 or dice.random() < 0.8]
        staying = staying or [0]
        rows = torch.tensor([place * beam + dice.randrange(beam) for place in staying for _ in range(beam)])
        for state in (plain, fast):
            state.reorder(rows)
        left = len(staying)
        assert left >= KEPT_SHARE * fast.keys.holding
        was_compact.append(fast.keys.at is None)
        tokens = torch.randint(3, VOCAB, (left * beam,))
    assert left < SENTENCES and True in was_compact and False in was_compact


@torch.inference_mode()
def test_the_source_is_encoded_as_the_plain_encoder_does() -> None:
    model, source = make(), sources()
    memory, mask = model.encode(source)
    embedded = model._embed(model.source_embedding, model.source_positions, source)
    found = packed(model, torch.float32).encode(embedded, mask[:, 0, 0])
    torch.testing.assert_close(found[mask[:, 0, 0]], memory[mask[:, 0, 0]], rtol=1e-4, atol=1e-4)


def test_weights_are_packed_once_and_anew_where_they_have_changed() -> None:
    model, source = make(), sources()
    first = packed(model, torch.float32)
    assert packed(model, torch.float32) is first
    before = model.start(source).step(torch.full((SENTENCES,), BEGIN_ID))
    with torch.no_grad():
        model.output.weight.mul_(2)
    after = model.start(source).step(torch.full((SENTENCES,), BEGIN_ID))
    assert packed(model, torch.float32) is not first
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, TransformerState(model, source, 1).step(torch.full((SENTENCES,), BEGIN_ID)))


def step_of_a_fused_optimizer(model: Transformer) -> None:
    """torch does not count these changes."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    model(sources(), torch.full((SENTENCES, 1), BEGIN_ID)).sum().backward()
    optimizer.step()


def change_data(model: Transformer) -> None:
    model.get_parameter("decoder.0.feed_forward.narrow.weight").data[3] = 2.0


@pytest.mark.parametrize("change", [step_of_a_fused_optimizer, change_data])
def test_changes_that_torch_does_not_count_are_seen_at_once(change) -> None:
    model, source = make(), sources()
    tokens = torch.full((SENTENCES,), BEGIN_ID)
    before = model.start(source).step(tokens)
    change(model)
    after = model.start(source).step(tokens)
    assert not torch.allclose(before, after, rtol=1e-3)
    torch.testing.assert_close(after, TransformerState(model, source, 1).step(tokens), rtol=1e-4, atol=1e-4)


class Doubled(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * self.inner(x)


class DoubledDecoderLayer(DecoderLayer):
    def forward(self, x, memory, target_mask, source_mask):
        return 2 * super().forward(x, memory, target_mask, source_mask)


class DoubledTransformer(Transformer):
    def score(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().score(x)


def other_norm() -> LayerNorm:
    norm = LayerNorm(16)
    nn.init.constant_(norm.weight, 2.0)
    return norm


def double(module: nn.Module, inputs: tuple, output: torch.Tensor) -> torch.Tensor:
    return 2 * output


CHANGES = {
    "a wrapped part": lambda model: setattr(model, "output", Doubled(model.output)),
    "another class": lambda model: setattr(model.decoder[0], "__class__", DoubledDecoderLayer),
    "another model": lambda model: setattr(model, "__class__", DoubledTransformer),
    "another part of its class": lambda model: setattr(model, "decoder_norm", other_norm()),
    "an empty place": lambda model: setattr(model.encoder[0], "feed_forward", nn.Identity()),
    "a hook": lambda model: model.decoder[1].self_attention.register_forward_hook(double),
    "a hook before": lambda model: model.encoder[1].register_forward_pre_hook(
        lambda _, inputs: (0 * inputs[0], inputs[1])
    ),
    "a forward of its own": lambda model: setattr(model.encoder_norm, "forward", lambda x: 2 * x),
}


@torch.inference_mode()
@pytest.mark.parametrize("what", CHANGES)
def test_a_search_goes_by_what_the_forward_of_a_changed_model_says(what: str) -> None:
    model, source, written = make(), sources(), torch.randint(3, VOCAB, (2 * SENTENCES, 6))
    written[:, 0] = BEGIN_ID
    model.start(source)  # it is packed
    before = model(source.repeat_interleave(2, dim=0), written)
    CHANGES[what](model)
    expected = model(source.repeat_interleave(2, dim=0), written)
    assert not torch.allclose(expected, before, rtol=1e-2)
    state, rows = model.start(source, 2), torch.arange(2 * SENTENCES)
    for place in range(6):
        found = state.step(written[rows, place])
        torch.testing.assert_close(found, expected[rows, place].log_softmax(-1), rtol=1e-4, atol=1e-4)
        rows, staying = rows[2:].flip(0), torch.arange(len(rows))[2:].flip(0)
        state.reorder(staying)


def test_bf16_is_near_fp32() -> None:
    model, source = make(), sources()
    tokens = torch.full((SENTENCES,), BEGIN_ID)
    exact = model.start(source).step(tokens)
    model.compute_dtype = torch.bfloat16
    found = TransformerSession(model, source, 1).step(tokens)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.exp(), exact.exp(), rtol=0.1, atol=0.01)
