"""Attention: the three forms are one function, masks are obeyed to the last bit, and torch's own module agrees."""

import math

import pytest
import torch
from torch import Tensor, nn

from weft.layers.attention import (
    MultiHeadAttention,
    attend_explicit,
    attend_fused,
    attention_weights,
)
from weft.layers.cache import KeyValueCache
from weft.layers.fast.short_attention import ShortAttention, attend_short
from weft.layers.masks import causal_mask, padding_mask

FORMS = pytest.mark.parametrize("attend", [attend_explicit, attend_fused, attend_short])


def random_heads(query: int, key: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value of 2 sentences with 3 heads of 8 dimensions; they want gradients."""

    def heads(time: int) -> Tensor:
        return torch.randn(2, 3, time, 8, dtype=dtype, requires_grad=True)

    return heads(query), heads(key), heads(key)


def some_keys_for_every_query() -> Tensor:
    allowed = torch.rand(2, 1, 5, 7) < 0.5
    allowed[..., 0] = True
    return allowed


def no_key_for_some_queries() -> Tensor:
    allowed = some_keys_for_every_query()
    allowed[0, 0, 1] = allowed[1, 0, 4] = False
    return allowed


MASKS = {  # for 2 sentences, 5 queries, 7 keys
    "none": lambda: None,
    "padding": lambda: padding_mask(torch.tensor([[4, 4, 4, 4, 4, 4, 4], [4, 4, 4, 0, 0, 0, 0]]), 0),
    "some keys for every query": some_keys_for_every_query,
    "no key for some queries": no_key_for_some_queries,
    "no key at all": lambda: torch.zeros(2, 1, 5, 7, dtype=torch.bool),
}


@FORMS
def test_a_tiny_example_computed_by_hand(attend):
    query = torch.tensor([[[[2.0, 0.0, 0.0, 0.0]]]])
    key = torch.tensor([[[[math.log(3), 5.0, 7.0, 0.0], [0.0, -1.0, 2.0, 9.0], [50.0, 0.0, 0.0, 0.0]]]])
    value = torch.tensor([[[[4.0, 0.0, 8.0, 1.0], [0.0, 4.0, -8.0, 1.0], [99.0, 99.0, 99.0, 99.0]]]])
    allowed = torch.tensor([[[[True, True, False]]]])
    # scores 2 log 3 / sqrt(4) = log 3 and 0, so the weights are 3/4 and 1/4, and 0 where nothing is allowed
    assert attend(query, key, value, allowed)[0, 0, 0].tolist() == pytest.approx([3.0, 1.0, 4.0, 1.0], rel=1e-6)


@pytest.mark.parametrize("attend", [attend_fused, attend_short])
@pytest.mark.parametrize("mask", MASKS)
def test_every_form_is_explicit_attention_in_values_and_gradients(attend, mask):
    allowed = MASKS[mask]()
    inputs = random_heads(5, 7)
    direction = torch.randn(2, 3, 5, 8)
    explicit, other = attend_explicit(*inputs, allowed), attend(*inputs, allowed)
    torch.testing.assert_close(other, explicit, rtol=1e-5, atol=1e-6)
    gradients = [torch.autograd.grad((attended * direction).sum(), inputs) for attended in (explicit, other)]
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("keys", [1, 15, 16, 17, 40])
def test_short_attention_takes_any_number_of_keys(keys):
    inputs = random_heads(3, keys)
    torch.testing.assert_close(attend_short(*inputs), attend_explicit(*inputs), rtol=1e-5, atol=1e-6)


def test_the_gradient_of_short_attention_is_the_slope_of_its_values():
    inputs = tuple(x.detach().double().requires_grad_() for x in random_heads(3, 5))
    allowed = padding_mask(torch.tensor([[4, 4, 4, 4, 4], [4, 4, 0, 0, 0]]), 0)
    # in double but for the soft-max, which is fp32: hence the wide steps and bounds
    assert torch.autograd.gradcheck(
        lambda q, k, v: attend_short(q, k, v, allowed), inputs, eps=1e-2, atol=2e-3, rtol=1e-2
    )


def test_short_attention_drops_weights_and_keeps_their_mean():
    query, key, value = (torch.randn(1, 1, time, 8) for time in (3, 5, 5))
    draws = torch.stack([attend_short(query, key, value, None, 0.25) for _ in range(4000)])
    torch.testing.assert_close(draws.mean(0), attend_explicit(query, key, value), rtol=0, atol=0.05)
    assert (draws.std(0) > 0.05).all()


def test_the_gradient_of_short_attention_flows_through_the_weights_that_were_kept():
    query, key, value = random_heads(3, 8)
    torch.manual_seed(3)
    attended = attend_short(query, key, value, None, 0.5)
    identity = torch.eye(8).expand(2, 3, 8, 8).clone().requires_grad_()
    torch.manual_seed(3)
    weights = attend_short(query, key, identity, None, 0.5)  # values that spell the dropped weights out
    torch.testing.assert_close(weights @ value, attended)
    attended.sum().backward()
    assert value.grad is not None
    torch.testing.assert_close(value.grad, weights.sum(2)[..., None].expand_as(value))


def test_all_forms_agree_in_bf16_as_far_as_bf16_goes():
    allowed = no_key_for_some_queries()
    query, key, value = random_heads(5, 7, torch.bfloat16)
    exact = attend_explicit(query.float(), key.float(), value.float(), allowed)
    for attend in (attend_explicit, attend_fused, attend_short):
        torch.testing.assert_close(attend(query, key, value, allowed).float(), exact, rtol=0.05, atol=0.05)


@FORMS
def test_masked_keys_and_values_change_nothing_bit_for_bit(attend):
    query, key, value = random_heads(4, 6)
    allowed = padding_mask(torch.tensor([[5, 6, 7, 8, 9, 5], [5, 6, 7, 0, 0, 0]]), 0)
    other_key, other_value = key.detach().clone(), value.detach().clone()
    other_key[1, :, 3:] = 1000.0
    other_value[1, :, 3:] = -1e30
    assert torch.equal(attend(query, key, value, allowed), attend(query, other_key, other_value, allowed))


def test_padding_receives_exactly_no_weight_and_the_rest_sums_to_one():
    query, key, _ = random_heads(4, 6)
    weights = attention_weights(
        query, 100 * key, padding_mask(torch.tensor([[5, 6, 7, 8, 9, 5], [5, 6, 0, 0, 0, 0]]), 0)
    )
    assert (weights[1, :, :, 2:] == 0.0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 4))


def test_padding_receives_no_gradient():
    query, key, value = random_heads(4, 6)
    allowed = padding_mask(torch.tensor([[5, 6, 7, 0, 0, 0], [5, 6, 7, 0, 0, 0]]), 0)
    attend_explicit(query, key, value, allowed).square().sum().backward()
    for x in (key, value):
        assert x.grad is not None
        assert (x.grad[:, :, 3:] == 0.0).all() and (x.grad[:, :, :3] != 0.0).any()


@FORMS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_query_that_may_see_nothing_gets_zeros_and_finite_gradients(attend, dtype):
    inputs = random_heads(3, 4, dtype)
    allowed = torch.ones(2, 1, 3, 4, dtype=torch.bool)
    allowed[0, 0, 1] = False
    attended = attend(*inputs, allowed)
    assert (attended[0, :, 1] == 0.0).all()
    attended.float().square().sum().backward()
    assert all(x.grad is not None and x.grad.isfinite().all() for x in inputs)
    assert inputs[0].grad is not None and (inputs[0].grad[0, :, 1] == 0.0).all()


def test_the_causal_mask_is_the_lower_triangle_with_its_diagonal():
    assert causal_mask(3)[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_no_position_sees_a_later_one():
    attention = MultiHeadAttention(8, 2)
    x = torch.randn(1, 5, 8)
    changed = x.clone()
    changed[:, 3:] = torch.randn(1, 2, 8)
    before, after = attention(x, x, causal_mask(5)), attention(changed, changed, causal_mask(5))
    torch.testing.assert_close(before[:, :3], after[:, :3], rtol=0, atol=1e-6)
    assert (before[:, 3:] - after[:, 3:]).abs().amax() > 0.01


@pytest.mark.parametrize("num_heads", [1, 2, 4])
def test_multi_head_attention_is_torchs(num_heads):
    ours, theirs = MultiHeadAttention(8, num_heads), nn.MultiheadAttention(8, num_heads, batch_first=True)
    copy_attention(ours, theirs)
    x, memory = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    tokens = torch.tensor([[4, 4, 4, 4, 4], [4, 4, 4, 0, 0]])
    expected, _ = theirs(x, memory, memory, key_padding_mask=tokens == 0)
    torch.testing.assert_close(ours(x, memory, padding_mask(tokens, 0)), expected, rtol=1e-5, atol=1e-6)


def test_dropout_falls_on_the_attention_weights():
    attention = MultiHeadAttention(8, 2, dropout=1.0)
    x = torch.randn(1, 3, 8)
    assert torch.equal(attention(x, x), attention.output.bias.expand(1, 3, 8))
    assert not torch.equal(attention.eval()(x, x), attention.output.bias.expand(1, 3, 8))


@pytest.mark.parametrize("rotary", [False, True])
def test_stepping_with_a_cache_is_causal_attention(rotary):
    attention = MultiHeadAttention(8, 2, rotary=rotary)
    x = torch.randn(3, 40, 8)  # longer than two chunks of the cache
    cache = KeyValueCache()
    stepped = torch.cat([attention.step(x[:, time, None], cache) for time in range(40)], dim=1)
    torch.testing.assert_close(stepped, attention(x, x, causal_mask(40)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rotary", [False, True])
def test_attention_sees_a_bag_unless_positions_are_rotary(rotary):
    attention = MultiHeadAttention(8, 2, rotary=rotary)
    x, memory = torch.randn(1, 3, 8), torch.randn(1, 5, 8)
    same = torch.allclose(attention(x, memory), attention(x, memory.flip(1)), rtol=1e-5, atol=1e-6)
    assert same is not rotary


def test_rotary_attention_knows_distances_and_no_places():
    attention, x = MultiHeadAttention(64, 1, rotary=True), torch.randn(2, 5, 64)
    assert attention.rotary is not None and attention.rotary.turns.size(1) < 1000
    further = attention.combine(attention.project_query(x, 1000), *attention.project_memory(x, 1000))
    torch.testing.assert_close(further, attention(x, x), rtol=1e-4, atol=1e-5)


def test_rotations_leave_values_alone():
    turned, plain = MultiHeadAttention(8, 2, rotary=True), MultiHeadAttention(8, 2)
    plain.load_state_dict(turned.state_dict())
    x = torch.randn(2, 5, 8)
    assert torch.equal(turned.project_memory(x)[1], plain.project_memory(x)[1])
    assert not torch.equal(turned.project_memory(x)[0], plain.project_memory(x)[0])


def test_a_gradient_made_by_hand_refuses_to_be_differentiated():
    query, key, value = random_heads(5, 7)
    (gradient,) = torch.autograd.grad(attend_short(query, key, value).square().sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_a_mask_for_another_number_of_keys_is_refused_where_no_shapes_are_checked():
    query, key, value = random_heads(5, 7)
    with pytest.raises(RuntimeError, match="size"):
        ShortAttention.apply(query, key, value, torch.ones(2, 1, 5, 6, dtype=torch.bool), 0)


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError, match="num_heads = 3 must divide model_dim = 8"):
        MultiHeadAttention(8, 3)


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    """Random biases to both, and our weights to torch's module, which stacks query, key and value."""
    for linear in (ours.query, ours.key_value, ours.output):
        nn.init.normal_(linear.bias)
    theirs.load_state_dict(
        {
            "in_proj_weight": torch.cat([ours.query.weight, ours.key_value.weight]),
            "in_proj_bias": torch.cat([ours.query.bias, ours.key_value.bias]),
            "out_proj.weight": ours.output.weight,
            "out_proj.bias": ours.output.bias,
        }
    )
