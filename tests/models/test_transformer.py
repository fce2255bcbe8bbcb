"""The Transformer: torch's own modules agree, cached and uncached decoding agree, and a toy task is learned."""

import math
import random
import re
from collections import Counter
from collections.abc import Callable
from itertools import combinations, product
from typing import Any, cast

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from weft.decoding.greedy import greedy_search
from weft.errors import UsageError
from weft.layers.attention import MultiHeadAttention
from weft.layers.dropout import Dropout
from weft.layers.masks import causal_mask
from weft.layers.positions import RotaryPositions, sinusoids
from weft.models.language_model import TransformerLmConfig
from weft.models.transformer import DecoderLayer, EncoderLayer, Transformer, TransformerConfig, residual
from weft.training.losses import cross_entropy

PADDING_ID, BEGIN_ID, END_ID = 0, 1, 2
SOURCE_VOCAB, TARGET_VOCAB = 11, 13

NORMS = pytest.mark.parametrize("norm", ["pre", "post"])
ACTIVATIONS = pytest.mark.parametrize("activation", ["relu", "gelu"])
POSITIONS = pytest.mark.parametrize("positions", ["sinusoidal", "scaled-sinusoidal", "learned", "rotary"])

# Three sentences of different lengths, padded.
SOURCE = torch.tensor([[5, 6, 7, 8, 2], [9, 2, 0, 0, 0], [4, 3, 10, 2, 0]])
TARGET = torch.tensor([[1, 5, 6, 7, 12, 2], [1, 2, 0, 0, 0, 0], [1, 4, 3, 2, 0, 0]])


def tiny(**changes) -> TransformerConfig:
    defaults = {"model_dim": 8, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 2, "ff_dim": 16, "dropout": 0.0}
    return TransformerConfig(**{**defaults, **changes})


def make(source_vocab: int = SOURCE_VOCAB, target_vocab: int = TARGET_VOCAB, **changes) -> Transformer:
    """A tiny Transformer whose biases and gains are random too, so that none of them can be forgotten unseen."""
    model = Transformer(
        tiny(**changes), source_vocab_size=source_vocab, target_vocab_size=target_vocab, padding_id=PADDING_ID
    )
    return shaken(model)


def shaken(module):
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return module


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=3e-6)


# ---- torch's modules as oracle ----


@NORMS
@ACTIVATIONS
def test_the_whole_model_is_torchs_encoder_and_decoder_between_embeddings_and_output(norm, activation):
    model = make(norm=norm, activation=activation)
    encoder_norm, decoder_norm = (nn.LayerNorm(8), nn.LayerNorm(8)) if norm == "pre" else (None, None)
    encoder = nn.TransformerEncoder(
        torch_encoder_layer(norm, activation), 2, norm=encoder_norm, enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(torch_decoder_layer(norm, activation), 2, norm=decoder_norm)
    for ours, theirs in zip(model.encoder, encoder.layers, strict=True):
        theirs.load_state_dict(encoder_layer_as_torch(ours))
    for ours, theirs in zip(model.decoder, decoder.layers, strict=True):
        theirs.load_state_dict(decoder_layer_as_torch(ours))
    if encoder_norm is not None and decoder_norm is not None:
        encoder_norm.load_state_dict(model.encoder_norm.state_dict())
        decoder_norm.load_state_dict(model.decoder_norm.state_dict())

    padding = SOURCE == PADDING_ID
    source = model.source_embedding.weight[SOURCE] * 8**0.5 + sinusoids(5, 8)
    target = model.target_embedding.weight[TARGET] * 8**0.5 + sinusoids(6, 8)
    memory = encoder(source, src_key_padding_mask=padding)
    vectors = decoder(target, memory, tgt_mask=~causal_mask(6)[0, 0], memory_key_padding_mask=padding)
    close(model(SOURCE, TARGET), vectors @ model.output.weight.T)


def test_the_output_may_have_a_bias_and_the_norms_another_epsilon():
    plain = make(norm="post")
    model = make(norm="post", norm_epsilon=0.05, output_bias=True)
    model.load_state_dict(plain.state_dict(), strict=False)
    x = torch.randn(3, 8)
    close(model.output(x), plain.output(x) + model.output.bias)
    norm = cast(DecoderLayer, model.decoder[0]).feed_forward_residual.norm
    assert isinstance(norm, nn.LayerNorm)
    variance = x.var(-1, unbiased=False, keepdim=True)
    close(norm(x), (x - x.mean(-1, keepdim=True)) / (variance + 0.05).sqrt() * norm.weight + norm.bias)


def test_a_bias_of_the_output_draws_no_random_number():
    """So a model without one begins with the numbers that it always began with."""
    torch.manual_seed(3)
    plain = Transformer(tiny(), source_vocab_size=11, target_vocab_size=13, padding_id=0)
    torch.manual_seed(3)
    biased = Transformer(tiny(output_bias=True), source_vocab_size=11, target_vocab_size=13, padding_id=0)
    assert all(torch.equal(tensor, biased.state_dict()[name]) for name, tensor in plain.state_dict().items())
    assert torch.equal(biased.output.bias, torch.zeros(13))


# ---- two roads ----


def test_every_cached_step_is_uncached_with_a_bias_and_another_epsilon_too():
    model = make(norm="post", norm_epsilon=0.05, output_bias=True).eval()
    state, plain = model.start(SOURCE), model.start_plain(SOURCE)
    for time in range(4):
        expected = model(SOURCE, TARGET[:, : time + 1])[:, -1].log_softmax(-1)
        for each in (state, plain):
            close(each.step(TARGET[:, time]), expected)


@NORMS
@POSITIONS
@pytest.mark.parametrize("rows_per_sentence", [1, 3])
def test_every_cached_step_is_uncached_teacher_forcing(norm, positions, rows_per_sentence, **choices):
    """Also after rows were swapped and repeated within their sentences, and after sentences have left: whatever the
    steps said of a beginning, one pass over the longest row that begins with it says too."""
    model, dice = make(norm=norm, positions=positions, **choices).eval(), random.Random(1)
    state = model.start(SOURCE, rows_per_sentence)
    rows = [(sentence, [BEGIN_ID]) for sentence in range(3) for _ in range(rows_per_sentence)]
    leaving = {4: 1, 20: 0}  # after which step which sentence leaves; the cache grows at step 16
    said: dict[tuple[int, ...], Tensor] = {}  # (sentence, *tokens so far) -> what comes next
    for step in range(24):
        log_probs = state.step(torch.tensor([history[-1] for _, history in rows]))
        said |= {(sentence, *history): of_row for (sentence, history), of_row in zip(rows, log_probs, strict=True)}
        staying = [i for i, (sentence, _) in enumerate(rows) if sentence != leaving.get(step)]
        beams = [staying[i : i + rows_per_sentence] for i in range(0, len(staying), rows_per_sentence)]
        chosen = [dice.choice(beam) for beam in beams for _ in beam]
        state.reorder(torch.tensor(chosen))
        rows = [(rows[i][0], [*rows[i][1], dice.randrange(TARGET_VOCAB)]) for i in chosen]
    continued = {row[:length] for row in said for length in range(len(row))}
    longest = [row for row in said if row not in continued]
    passes = model(SOURCE[[row[0] for row in longest]], padded([list(row[1:]) for row in longest])).log_softmax(-1)
    for row, expected in zip(longest, passes, strict=True):
        steps = range(1, len(row))
        close(torch.stack([said[row[: step + 1]] for step in steps]), expected[: len(steps)])


MENU = {
    "norm": ["pre", "post"],
    "norm_layer": ["layer", "rms"],
    "positions": ["sinusoidal", "scaled-sinusoidal", "learned", "rotary"],
    "activation": ["relu", "elu", "gelu", "silu", "glu", "reglu", "geglu", "swiglu"],
}
COMBINATIONS = [
    {
        "norm": MENU["norm"][(place + activation) % 2],
        "norm_layer": MENU["norm_layer"][(place // 2 + activation) % 2],
        "positions": MENU["positions"][place],
        "activation": MENU["activation"][activation],
    }
    for place, activation in product(range(4), range(8))
]


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_cached_steps_of_attention_that_settles_are_uncached_too(positions):
    test_every_cached_step_is_uncached_teacher_forcing("pre", positions, 2, attention_steps=3, attention_beta="learned")


def test_steps_and_beta_of_attention_change_nothing_by_default_and_something_if_set():
    torch.manual_seed(3)
    default = make()
    choices: list[dict[str, Any]] = [{"attention_steps": 2}, {"attention_beta": "learned"}]
    for changes in choices:
        torch.manual_seed(3)
        changed = make(**changes)
        changed.load_state_dict(default.state_dict(), strict=False)
        betas = [parameter for name, parameter in changed.named_parameters() if name.endswith("log_beta")]
        assert len(betas) == (6 if "attention_beta" in changes else 0)
        for beta in betas:
            torch.nn.init.zeros_(beta)
        logits = changed(SOURCE, TARGET)
        assert torch.equal(logits, default(SOURCE, TARGET)) == (changes == {"attention_beta": "learned"})
        logits.square().sum().backward()
        assert all(beta.grad is not None and beta.grad.abs().min() > 0 for beta in betas)


def test_the_combinations_hold_every_pair_of_choices():
    for one, other in combinations(MENU, 2):
        found = {(choices[one], choices[other]) for choices in COMBINATIONS}
        assert found == set(product(MENU[one], MENU[other]))


@pytest.mark.parametrize("choices", COMBINATIONS, ids=lambda choices: " ".join(choices.values()))
def test_whatever_is_chosen_from_the_menu_cached_steps_are_uncached_teacher_forcing(choices):
    model = make(**choices).eval()
    state = model.start(SOURCE)
    stepped = torch.stack([state.step(TARGET[:, time]) for time in range(TARGET.size(1))], dim=1)
    close(stepped, model(SOURCE, TARGET).log_softmax(-1))


@NORMS
@POSITIONS
def test_a_sentence_alone_scores_as_it_does_beside_longer_ones(norm, positions):
    model = make(norm=norm, positions=positions).eval()
    together = model(SOURCE, TARGET)
    for sentence in range(3):
        source, target = (x[sentence][x[sentence] != PADDING_ID][None] for x in (SOURCE, TARGET))
        close(model(source, target)[0], together[sentence, : target.size(1)])


@POSITIONS
def test_no_logit_depends_on_a_later_target_token(positions):
    model = make(positions=positions).eval()
    changed = TARGET.clone()
    changed[:, 3:] = 9
    close(model(SOURCE, changed)[:, :3], model(SOURCE, TARGET)[:, :3])


@POSITIONS
def test_every_logit_depends_on_every_source_token_and_every_earlier_target_token(positions):
    model = make(positions=positions).eval()
    for changed in range(4):
        source = SOURCE[:1].clone()
        source[0, changed] = 3
        assert ((model(source, TARGET[:1]) - model(SOURCE[:1], TARGET[:1])).abs().amax(-1) > 1e-4).all()
        target = TARGET[:1].clone()
        target[0, changed] = 3
        difference = (model(SOURCE[:1], target) - model(SOURCE[:1], TARGET[:1])).abs().amax(-1)[0]
        assert (difference[changed:] > 1e-4).all()


@POSITIONS
def test_the_order_of_the_source_matters(positions):
    model = make(positions=positions).eval()
    swapped = SOURCE[:1, [1, 0, 2, 3, 4]]
    assert (model(swapped, TARGET[:1]) - model(SOURCE[:1], TARGET[:1])).abs().amax() > 1e-3


@pytest.mark.parametrize(
    "choices",
    [{}, {"positions": "rotary", "norm_layer": "rms", "activation": "swiglu"}, {"positions": "learned"}],
    ids=["default", "rotary rms swiglu", "learned"],
)
def test_bf16_scores_are_near_fp32_and_every_parameter_and_gradient_is_fp32(choices):
    model = make(model_dim=64, ff_dim=128, **choices)
    exact = model(SOURCE, TARGET)
    model.compute_dtype = torch.bfloat16
    logits = model(SOURCE, TARGET)
    assert logits.dtype == torch.bfloat16
    torch.testing.assert_close(logits.float(), exact, rtol=0.05, atol=0.1)
    logits.float().square().sum().backward()
    assert all(
        p.dtype == torch.float32 and p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters()
    )

    steps = model.eval().start(SOURCE).step(TARGET[:, 0])
    assert steps.dtype == torch.float32
    torch.testing.assert_close(steps.exp().sum(-1), torch.ones(3))


def test_dropout_is_drawn_in_training_only():
    model = make(dropout=0.5)
    assert not torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))
    model.eval()
    assert torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))


@pytest.mark.parametrize(
    ("key", "places"),
    [
        ("embedding_dropout", {"embedding_dropout"}),
        ("attention_dropout", {"attention.dropout", "self_attention.dropout", "cross_attention.dropout"}),
        ("activation_dropout", {"feed_forward.dropout"}),
        (
            "residual_dropout",
            {
                "attention_residual.dropout",
                "self_attention_residual.dropout",
                "cross_attention_residual.dropout",
                "feed_forward_residual.dropout",
            },
        ),
    ],
)
def test_every_place_has_a_dropout_of_its_own(key, places):
    def places_with(probability, **settings) -> set[str]:
        return {
            re.sub(r"^(en|de)coder\.\d+\.", "", name)
            for name, module in make(**settings).named_modules()
            if isinstance(module, Dropout) and module.probability == probability
        }

    assert places_with(0.25, **{"dropout": 0.5, key: 0.25}) == places
    assert places_with(0.0, **{"dropout": 0.5, key: 0.0}) == places
    assert places_with(0.5, **{"dropout": 0.5, key: 0.25}).isdisjoint(places)


def dropping_all(module):
    """The module with every dropout at 1, which a configuration refuses."""
    for part in module.modules():
        if isinstance(part, Dropout):
            part.probability = 1.0
    return module


@NORMS
def test_dropout_falls_on_what_a_sublayer_adds(norm):
    part = dropping_all(shaken(residual(tiny(norm=norm))))
    x = torch.randn(2, 3, 8)
    close(part(x, lambda y: y + 1), x if norm == "pre" else part.norm(x))
    close(part.eval()(x, lambda y: y + 1), x + part.norm(x) + 1 if norm == "pre" else part.norm(2 * x + 1))


def test_dropout_falls_on_the_embeddings():
    model = dropping_all(make())
    memory, _ = model.encode(SOURCE)
    bias = model.encoder_norm.state_dict()["bias"]
    close(memory, bias.expand(3, 5, 8))  # nothing but zeros enters, and nothing is added to them


# ---- layer dropout ----


def layers_run(model: Transformer) -> Counter[str]:
    """How often each layer runs from now on."""
    runs: Counter[str] = Counter()
    for stack in ("encoder", "decoder"):
        for number, layer in enumerate(model.get_submodule(stack).children()):
            layer.register_forward_hook(lambda *_, name=f"{stack}.{number}": runs.update([name]))
    return runs


def test_in_training_each_layer_is_left_out_as_often_as_the_probability_says():
    model, passes = make(layer_dropout=0.3), 200
    runs = layers_run(model)
    for _ in range(passes):
        model(SOURCE, TARGET)
    assert len(runs) == 4
    deviation = math.sqrt(passes * 0.3 * 0.7)
    assert all(abs(count - 0.7 * passes) < 4 * deviation for count in runs.values())


def test_a_layer_that_is_left_out_passes_its_input_on_and_learns_nothing():
    model = make(layer_dropout=0.999)
    memory, _ = model.encode(SOURCE)
    embedded = model.source_embedding.weight[SOURCE] * 8**0.5 + sinusoids(5, 8)
    close(memory, model.encoder_norm(embedded))
    memory.square().sum().backward()
    assert all(parameter.grad is None for parameter in model.encoder.parameters())
    assert model.source_embedding.weight.grad is not None


def test_no_layer_is_left_out_of_evaluation_or_of_decoding():
    model = make(layer_dropout=0.9).eval()
    plain = make().eval()
    plain.load_state_dict(model.state_dict())
    assert torch.equal(model(SOURCE, TARGET), plain(SOURCE, TARGET))
    assert torch.equal(model.start(SOURCE).step(TARGET[:, 0]), plain.start(SOURCE).step(TARGET[:, 0]))


def test_the_same_seed_leaves_out_the_same_layers():
    model = make(layer_dropout=0.5)

    def scores(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return model(SOURCE, TARGET)

    assert torch.equal(scores(7), scores(7))
    assert any(not torch.equal(scores(7), scores(seed)) for seed in range(5))


def test_without_layer_dropout_no_random_number_is_spent_on_it():
    model = make()
    before = torch.get_rng_state()
    model(SOURCE, TARGET)
    assert torch.equal(torch.get_rng_state(), before)


# ---- lengths ----


@pytest.mark.parametrize("positions", ["sinusoidal", "scaled-sinusoidal", "rotary"])
def test_sentences_may_be_longer_than_any_before(positions):
    model = make(positions=positions, model_dim=64, num_heads=1).eval()
    long = torch.randint(3, SOURCE_VOCAB, (1, 2 * max(table.size(-2) for table in model.buffers())))
    assert model(long, long)[0, -1].isfinite().all()
    assert model.config.longest is None


def test_learned_positions_know_a_longest_sentence_on_either_side():
    model = make(positions="learned", max_positions=8).eval()
    assert model.config.longest == 8
    fits, too_long = torch.full((1, 8), 5), torch.full((1, 9), 5)
    assert model(fits, fits).isfinite().all()
    for source, target in ((too_long, fits), (fits, too_long)):
        with pytest.raises(UsageError, match="9 tokens is longer than the 8 positions"):
            model(source, target)
    with pytest.raises(UsageError, match="9 tokens is longer than the 8 positions"):
        model.start(too_long)
    state = model.start(fits)
    for _ in range(8):
        state.step(torch.tensor([5]))
    with pytest.raises(UsageError, match="9 tokens is longer than the 8 positions"):
        state.step(torch.tensor([5]))


@pytest.mark.parametrize(("max_positions", "longest"), [(None, 1024), (300, 300)])
def test_each_side_learns_its_positions(max_positions, longest):
    model = make(positions="learned", max_positions=max_positions)
    shapes = {name: list(weight.shape) for name, weight in model.named_parameters() if "positions" in name}
    assert shapes == {"source_positions.weight": [longest, 8], "target_positions.weight": [longest, 8]}


@pytest.mark.parametrize(("max_positions", "period"), [(None, 128 / (2 * math.pi)), (100, 15.91549)])
def test_the_period_of_scaled_sinusoids_is_their_longest_wave_over_two_pi(max_positions, period):
    model = make(positions="scaled-sinusoidal", max_positions=max_positions, layer_dropout=0.999)
    embedded = model.source_embedding.weight[SOURCE] * 8**0.5
    memory, _ = model.encode(SOURCE)  # no layer takes part
    close(memory, model.encoder_norm(embedded + sinusoids(5, 8, period=period)))


def test_rotary_positions_add_nothing_to_the_embeddings():
    model = make(positions="rotary", layer_dropout=0.999)
    memory, _ = model.encode(SOURCE)  # no layer takes part
    close(memory, model.encoder_norm(model.source_embedding.weight[SOURCE] * 8**0.5))


def test_rotary_positions_turn_self_attention_and_no_other():
    turned = [name for name, module in make(positions="rotary").named_modules() if isinstance(module, RotaryPositions)]
    assert turned == [
        "encoder.0.attention.rotary",
        "encoder.1.attention.rotary",
        "decoder.0.self_attention.rotary",
        "decoder.1.self_attention.rotary",
    ]


# ---- parameters ----

# Counted by hand at model_dim 8, ff_dim 16: an attention 4 * (8 * 8 + 8) = 288, a feed-forward network
# 8 * 16 + 16 + 16 * 8 + 8 = 280, a normalization 2 * 8 = 16.
ENCODER_LAYER = 288 + 280 + 2 * 16
DECODER_LAYER = 2 * 288 + 280 + 3 * 16
LAST_NORMS = 2 * 16


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"tie": "none"}, 2 * ENCODER_LAYER + 2 * DECODER_LAYER + LAST_NORMS + 8 * (11 + 13 + 13)),
        ({"tie": "decoder"}, 2 * ENCODER_LAYER + 2 * DECODER_LAYER + LAST_NORMS + 8 * (11 + 13)),
        ({"tie": "all", "source_vocab": 13}, 2 * ENCODER_LAYER + 2 * DECODER_LAYER + LAST_NORMS + 8 * 13),
        ({"norm": "post"}, 2 * ENCODER_LAYER + 2 * DECODER_LAYER + 8 * (11 + 13)),
        ({"encoder_layers": 3, "decoder_layers": 1}, 3 * ENCODER_LAYER + DECODER_LAYER + LAST_NORMS + 8 * (11 + 13)),
        ({"num_heads": 1}, 2 * ENCODER_LAYER + 2 * DECODER_LAYER + LAST_NORMS + 8 * (11 + 13)),
        # The third matrix and its bias, in four feed-forward networks.
        (
            {"activation": "swiglu"},
            2 * ENCODER_LAYER + 2 * DECODER_LAYER + LAST_NORMS + 8 * (11 + 13) + 4 * (8 * 16 + 16),
        ),
        # No biases: of two normalizations in an encoder layer, three in a decoder layer, and the last two.
        ({"norm_layer": "rms"}, 2 * ENCODER_LAYER + 2 * DECODER_LAYER + LAST_NORMS + 8 * (11 + 13) - 12 * 8),
        (
            {"positions": "learned", "max_positions": 20},
            2 * ENCODER_LAYER + 2 * DECODER_LAYER + LAST_NORMS + 8 * (11 + 13) + 2 * 20 * 8,
        ),
        ({"positions": "rotary"}, 2 * ENCODER_LAYER + 2 * DECODER_LAYER + LAST_NORMS + 8 * (11 + 13)),
    ],
)
def test_parameters_are_as_many_as_counted_by_hand(changes, expected):
    assert sum(parameter.numel() for parameter in make(**changes).parameters()) == expected


def test_what_is_tied_is_one_matrix():
    def matrices(tie: str) -> tuple[Tensor, Tensor, Tensor]:
        model = make(source_vocab=TARGET_VOCAB, tie=tie)
        return model.source_embedding.weight, model.target_embedding.weight, model.output.weight

    source, target, output = matrices("none")
    assert source is not target and target is not output and source is not output
    source, target, output = matrices("decoder")
    assert target is output and source is not target
    source, target, output = matrices("all")
    assert source is target is output


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_the_output_starts_small_and_alike_whether_it_is_tied_or_not(tie):
    model = make(model_dim=64, source_vocab=400, target_vocab=400, tie=tie)
    assert model.output.weight.std().item() == pytest.approx(64**-0.5, rel=0.05)


def test_a_tied_matrix_gets_the_gradients_of_all_its_uses():
    tied, untied = make(tie="decoder"), make(tie="none")
    untied.load_state_dict(tied.state_dict())
    for model in (tied, untied):
        model(SOURCE, TARGET).square().mean().backward()
    gradients = [weight.grad for weight in (untied.target_embedding.weight, untied.output.weight)]
    assert gradients[0] is not None and gradients[1] is not None and tied.output.weight.grad is not None
    close(tied.output.weight.grad, gradients[0] + gradients[1])


def test_one_matrix_for_all_needs_one_vocabulary():
    with pytest.raises(ValueError, match="one vocabulary"):
        make(tie="all")


@pytest.mark.parametrize(
    ("model_dim", "num_heads", "advice"), [(512, 6, "try 4 or 8"), (256, 24, "try 16 or 32"), (9, 2, "try 1")]
)
def test_heads_that_do_not_divide_the_width_are_refused_with_the_nearest_that_do(model_dim, num_heads, advice):
    with pytest.raises(ValidationError, match=f"must divide model_dim = {model_dim}; {advice}"):
        TransformerConfig(model_dim=model_dim, num_heads=num_heads)


@pytest.mark.parametrize(("model_dim", "num_heads"), [(200, 10), (36, 3), (256, 8)])
def test_heads_that_nobody_gave_are_fitted_to_the_width_with_the_positions_that_nobody_gave(model_dim, num_heads):
    assert TransformerLmConfig(model_dim=model_dim).num_heads == num_heads  # rotary: each of even width


@pytest.mark.parametrize(("key", "value"), [("model_dim", 10**12 + 1), ("num_heads", 10**12)])
def test_a_size_out_of_bounds_is_refused_before_anything_is_made_to_fit_it(key, value):
    with pytest.raises(ValidationError, match="less than or equal to"):
        TransformerConfig.model_validate({key: value})


@pytest.mark.parametrize(
    ("model_dim", "num_heads", "advice"), [(512, 6, "try 4 or 8"), (24, 8, "try 2 or 3"), (40, 8, "try 4 or 5")]
)
def test_rotary_positions_need_heads_of_even_width(model_dim, num_heads, advice):
    expected = f'num_heads must divide model_dim = {model_dim} into even parts for positions = "rotary"; {advice}'
    with pytest.raises(ValidationError, match=expected):
        TransformerConfig(model_dim=model_dim, num_heads=num_heads, positions="rotary")
    for heads in map(int, re.findall(r"\d+", advice)):
        TransformerConfig(model_dim=model_dim, num_heads=heads, positions="rotary")


def test_rotary_positions_need_an_even_width():
    with pytest.raises(ValidationError, match="model_dim must be even"):
        TransformerConfig(model_dim=9, num_heads=1, positions="rotary")


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_a_longest_sentence_is_refused_where_positions_know_none(positions):
    with pytest.raises(ValidationError, match=f'max_positions is not used by positions = "{positions}"; leave it out'):
        TransformerConfig(positions=positions, max_positions=512)


def test_settings_that_do_not_fit_are_all_named_at_once():
    with pytest.raises(ValidationError, match=r"num_heads must divide.*max_positions is not used"):
        TransformerConfig(model_dim=256, num_heads=6, max_positions=512)


@pytest.mark.parametrize(
    "setting",
    [
        {"encoder_layers": 10**9},
        {"decoder_layers": 10**9},
        {"model_dim": 2**40},
        {"ff_dim": 2**40},
        {"positions": "learned", "max_positions": 10**12},
        {"positions": "scaled-sinusoidal", "max_positions": 1},
        {"attention_dropout": 1.0},
        {"layer_dropout": 1.0},
        {"layer_dropout": float("nan")},
        {"activation": "os.system"},
        {"norm_layer": "batch"},
    ],
    ids=str,
)
def test_settings_beyond_all_bounds_are_refused(setting):
    with pytest.raises(ValidationError, match=list(setting)[-1]):
        TransformerConfig(**setting)


# ---- a toy task ----


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"positions": "rotary", "norm_layer": "rms", "activation": "swiglu"},
        {"attention_steps": 2, "attention_beta": "learned"},
    ],
    ids=["default", "rotary, rms, swiglu", "two steps, learned beta"],
)
def test_a_toy_task_is_learned(choices):
    """To reverse one to four symbols out of five; those that add up to a multiple of four are never trained on."""
    dice, steps = random.Random(1), 200
    model = Transformer(
        tiny(model_dim=32, num_heads=4, ff_dim=64, encoder_layers=1, decoder_layers=1, **choices),
        source_vocab_size=8,
        target_vocab_size=8,
        padding_id=PADDING_ID,
    )
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 7e-3 * (1 - step / steps)
        source, target = toy_batch(dice, 64, lambda symbols: sum(symbols) % 4 != 0)
        logits, expected = model(source, target[:, :-1]), target[:, 1:]
        loss = cross_entropy(logits[expected != PADDING_ID], expected[expected != PADDING_ID], 0.0)
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()

    source, target = toy_batch(dice, 300, lambda symbols: sum(symbols) % 4 == 0)
    with torch.inference_mode():
        state = model.eval().start(source)
        found = greedy_search(state, torch.full((300,), 10), begin_id=BEGIN_ID, end_id=END_ID)
    expected = [tuple(i for i in row if i > END_ID) for row in target.tolist()]
    correct = sum(hypothesis.tokens == tokens for hypothesis, tokens in zip(found, expected, strict=True))
    assert correct / 300 > 0.95


def toy_batch(dice: random.Random, count: int, wanted: Callable[[list[int]], bool]) -> tuple[Tensor, Tensor]:
    sources: list[list[int]] = []
    while len(sources) < count:
        symbols = [dice.randint(3, 7) for _ in range(dice.randint(1, 4))]
        if wanted(symbols):
            sources.append(symbols)
    return padded([[*s, END_ID] for s in sources]), padded([[BEGIN_ID, *s[::-1], END_ID] for s in sources])


def padded(rows: list[list[int]]) -> Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [PADDING_ID] * (longest - len(row)) for row in rows])


# ---- our weights under torch's names ----


def torch_encoder_layer(norm: str, activation: str) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(
        8, 2, 16, dropout=0.0, activation=activation, batch_first=True, norm_first=norm == "pre"
    )


def torch_decoder_layer(norm: str, activation: str) -> nn.TransformerDecoderLayer:
    return nn.TransformerDecoderLayer(
        8, 2, 16, dropout=0.0, activation=activation, batch_first=True, norm_first=norm == "pre"
    )


def encoder_layer_as_torch(layer: nn.Module) -> dict[str, Tensor]:
    assert isinstance(layer, EncoderLayer)
    return {
        **attention_as_torch("self_attn", layer.attention),
        **named("linear1", layer.feed_forward.widen),
        **named("linear2", layer.feed_forward.narrow),
        **named("norm1", layer.attention_residual.norm),
        **named("norm2", layer.feed_forward_residual.norm),
    }


def decoder_layer_as_torch(layer: nn.Module) -> dict[str, Tensor]:
    assert isinstance(layer, DecoderLayer)
    return {
        **attention_as_torch("self_attn", layer.self_attention),
        **attention_as_torch("multihead_attn", layer.cross_attention),
        **named("linear1", layer.feed_forward.widen),
        **named("linear2", layer.feed_forward.narrow),
        **named("norm1", layer.self_attention_residual.norm),
        **named("norm2", layer.cross_attention_residual.norm),
        **named("norm3", layer.feed_forward_residual.norm),
    }


def attention_as_torch(name: str, attention: MultiHeadAttention) -> dict[str, Tensor]:
    return {
        f"{name}.in_proj_weight": torch.cat([attention.query.weight, attention.key_value.weight]),
        f"{name}.in_proj_bias": torch.cat([attention.query.bias, attention.key_value.bias]),
        **named(f"{name}.out_proj", attention.output),
    }


def named(name: str, module: nn.Module) -> dict[str, Tensor]:
    return {f"{name}.{key}": value for key, value in module.state_dict().items()}
