"""Heads that are masked, gated with 0 or cut out leave one and the same model."""

import pytest
import torch

from weft.config import FieldProblems
from weft.models.pruning import Head, Place, attentions, cut, gated, heads_of, masked
from weft.models.transformer import Transformer, TransformerConfig

VOCAB = 30
SHAPES = [
    {},
    {"positions": "rotary", "norm": "post", "tie": "none"},
    {"attention_steps": 2, "attention_beta": "learned", "norm_layer": "rms"},
]
SOURCE, TARGET = torch.randint(3, VOCAB, (4, 9)), torch.randint(3, VOCAB, (4, 7))
CHOSEN = [Head(Place("encoder", 0), 0), Head(Place("encoder", 0), 2), Head(Place("decoder", 1), 3)]
CHOSEN += [Head(Place("cross", 0), number) for number in (0, 1, 3)]


def make(**settings: object) -> Transformer:
    shape = {"model_dim": 16, "num_heads": 4, "encoder_layers": 1, "decoder_layers": 2, "ff_dim": 24, **settings}
    config = TransformerConfig.model_validate(shape)
    model = Transformer(config, source_vocab_size=VOCAB, target_vocab_size=VOCAB, padding_id=0).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@torch.inference_mode()
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_logits_without_the_heads_are_those_of_the_masked_model_and_of_gates_of_zero(shape: dict) -> None:
    model = make(**shape)
    whole = model(SOURCE, TARGET)
    gates = {place: torch.ones(4, attention.num_heads) for place, attention in attentions(model).items()}
    for head in CHOSEN:
        gates[head.place][:, head.number] = 0.0
    with gated(model, gates):
        closed = model(SOURCE, TARGET)
    with masked(model, CHOSEN):
        without = model(SOURCE, TARGET)
    torch.testing.assert_close(closed, without, rtol=0, atol=1e-5)
    torch.testing.assert_close(cut(model, CHOSEN)(SOURCE, TARGET), without, rtol=0, atol=1e-5)
    assert (whole - without).abs().max() > 0.05
    assert torch.equal(model(SOURCE, TARGET), whole), "masked heads come back"


def test_every_head_takes_four_times_the_width_and_three_biases_with_it() -> None:
    model = make()
    assert len(heads_of(model)) == (1 + 2 + 2) * 4
    smaller = cut(model, CHOSEN)
    saved = sum(one.numel() for one in model.parameters()) - sum(one.numel() for one in smaller.parameters())
    assert saved == len(CHOSEN) * 4 * (4 * 16 + 3)
    assert (smaller.config.encoder_heads, smaller.config.decoder_heads) == ((2,), (4, 3))
    assert smaller.config.describe() == "1+2 layers, 16 wide, 14 of 20 heads"
    again = cut(smaller, [Head(Place("encoder", 0), 1)])
    assert again.config.encoder_heads == (1,) and again.config.cross_heads == smaller.config.cross_heads == (1, 4)


def test_the_network_of_the_recipe_with_fewer_heads_has_the_shapes_of_the_cut_one() -> None:
    smaller = cut(make(positions="rotary"), CHOSEN)
    built = Transformer(smaller.config, source_vocab_size=VOCAB, target_vocab_size=VOCAB, padding_id=0)
    shapes = [{name: one.shape for name, one in model.state_dict().items()} for model in (smaller, built)]
    assert shapes[0] == shapes[1]


def test_a_sentence_is_translated_alike_whatever_its_neighbors_gates_are() -> None:
    model, places = make(), attentions(make())
    gates = {place: torch.ones(4, attention.num_heads) for place, attention in places.items()}
    for gate in gates.values():
        gate[1:] = 0.0
    with torch.inference_mode(), gated(model, gates):
        first = model(SOURCE, TARGET)[0]
    torch.testing.assert_close(first, model(SOURCE, TARGET)[0].detach())


def test_an_attention_keeps_a_head() -> None:
    everything = [Head(Place("cross", 1), number) for number in range(4)]
    with pytest.raises(ValueError, match="cross 2 keeps no head"):
        cut(make(), everything)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"encoder_heads": (2, 2)}, "encoder_heads has 2 numbers for encoder_layers = 1"),
        ({"cross_heads": (4, 5)}, "cross_heads has more heads in a layer than num_heads = 4"),
    ],
)
def test_numbers_of_heads_that_cannot_be_left_are_refused(given: dict, expected: str) -> None:
    with pytest.raises((FieldProblems, ValueError), match=expected):
        make(**given)


def test_a_beam_over_uneven_heads_steps_as_the_whole_sequence_is_read() -> None:
    model = cut(make(positions="rotary"), CHOSEN)
    with torch.inference_mode():
        expected = model(SOURCE, TARGET).log_softmax(-1)
        for start in (model.start, model.start_plain):
            state = start(SOURCE)
            for time in range(TARGET.size(1)):
                torch.testing.assert_close(state.step(TARGET[:, time]), expected[:, time], rtol=1e-4, atol=1e-4)
