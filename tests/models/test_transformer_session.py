"""The layout for search computes what the plain form does (test_transformer.py compares it with teacher forcing)."""

import random

import pytest
import torch
from torch import nn

from weft.layers.norm import LayerNorm
from weft.models.transformer import Transformer, TransformerConfig
from weft.models.transformer_session import KEPT_SHARE, PackedTransformer, TransformerSession

BEGIN_ID = 1
SENTENCES, VOCAB = 9, 30
UNEVEN = {"encoder_heads": (1, 2), "decoder_heads": (2, 1), "cross_heads": (1, 2)}


def make(**settings) -> Transformer:
    config = TransformerConfig(model_dim=16, num_heads=2, encoder_layers=2, decoder_layers=2, ff_dim=24, **settings)
    return Transformer(config, source_vocab_size=VOCAB, target_vocab_size=VOCAB, padding_id=0).eval()


def sources() -> torch.Tensor:
    source = torch.randint(3, VOCAB, (SENTENCES, 19))
    lengths = torch.tensor([19, 18, 16, 12, 9, 7, 4, 2, 1])
    return source.masked_fill(torch.arange(19) >= lengths[:, None], 0)


def packed(model: Transformer) -> PackedTransformer:
    model.start(sources())
    assert model.packed is not None
    return model.packed


@torch.inference_mode()
@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize(
    "settings", [{}, {"norm": "post", "norm_layer": "rms"}, {"positions": "rotary"}, {**UNEVEN, "positions": "rotary"}]
)
def test_it_is_the_plain_form_however_parents_change_and_sentences_leave(beam: int, settings: dict) -> None:
    model, source, dice = make(**settings), sources(), random.Random(beam)
    plain, fast = model.start_plain(source, beam), model.start(source, beam)
    assert isinstance(fast, TransformerSession)
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
        assert left >= KEPT_SHARE * fast.cache.stored
        was_compact.append(fast.cache.active is None)
        tokens = torch.randint(3, VOCAB, (left * beam,))
    assert left < SENTENCES and True in was_compact and False in was_compact


@torch.inference_mode()
def test_the_source_has_the_keys_and_values_of_the_plain_form() -> None:
    model, source = make(), sources()
    mask = source != 0
    found = packed(model).encode(source, mask)  # of each layer (batch, source, 2, heads, head_dim)
    for number, (_, state) in enumerate(model.start_plain(source).layers):
        for place, expected in enumerate((state.source_key, state.source_value)):
            of_layer = found[number][:, :, place]
            torch.testing.assert_close(of_layer[mask], expected.transpose(1, 2)[mask], rtol=1e-4, atol=1e-4)


def test_weights_are_packed_once_until_they_are_repacked_or_the_mode_is_set() -> None:
    model = make()
    first = packed(model)
    assert packed(model) is first
    for again in (model.repack, model.train, model.eval):
        again()
        assert packed(model) is not first
        first = packed(model)
    model.compute_dtype = torch.bfloat16
    assert packed(model) is not first


def scale_output(model: Transformer) -> None:
    with torch.no_grad():
        model.output.weight.mul_(2)


def step_of_a_fused_optimizer(model: Transformer) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    model(sources(), torch.full((SENTENCES, 1), BEGIN_ID)).sum().backward()
    optimizer.step()


def change_data(model: Transformer) -> None:
    model.get_parameter("decoder.0.feed_forward.narrow.weight").data[3] = 2.0


def exchange_a_part(model: Transformer) -> None:
    model.decoder_norm = LayerNorm(16)
    nn.init.constant_(model.decoder_norm.weight, 2.0)


@pytest.mark.parametrize("change", [scale_output, step_of_a_fused_optimizer, change_data, exchange_a_part])
def test_a_search_goes_by_changed_weights_after_repack(change) -> None:
    model, source = make(), sources()
    tokens = torch.full((SENTENCES,), BEGIN_ID)
    before = model.start(source).step(tokens)
    change(model)
    model.repack()
    after = model.start(source).step(tokens)
    assert not torch.allclose(before, after, rtol=1e-3)
    torch.testing.assert_close(after, model.start_plain(source).step(tokens), rtol=1e-4, atol=1e-4)


def test_without_repack_a_search_goes_by_the_matrices_that_were_packed() -> None:
    model, source = make(), sources()
    tokens = torch.full((SENTENCES,), BEGIN_ID)
    before = model.start(source).step(tokens)
    change_data(model)
    assert torch.equal(model.start(source).step(tokens), before)


def test_what_is_packed_in_inference_mode_serves_outside_of_it() -> None:
    model, source = make(), sources()
    tokens = torch.full((SENTENCES,), BEGIN_ID)
    with torch.inference_mode():
        inside = model.start(source).step(tokens)
    torch.testing.assert_close(model.start(source).step(tokens), inside)


def test_bf16_is_near_fp32() -> None:
    model, source = make(), sources()
    tokens = torch.full((SENTENCES,), BEGIN_ID)
    exact = model.start(source).step(tokens)
    model.compute_dtype = torch.bfloat16
    found = model.start(source).step(tokens)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.exp(), exact.exp(), rtol=0.1, atol=0.01)
