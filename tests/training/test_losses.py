"""Three roads to label-smoothed cross-entropy: torch's, the definition, and the one in blocks."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from weft.layers.fast.blocked_loss import IGNORED, BlockedCrossEntropy, Teaching
from weft.training.losses import (
    Loss,
    blocked_cross_entropy,
    blocked_guided_cross_entropy,
    cross_entropy,
    distillation,
    divergence,
    guided_cross_entropy,
)

BLOCK, STRETCH = BlockedCrossEntropy.block, BlockedCrossEntropy.stretch


def inputs(tokens: int, vocab: int = 37, width: int = 12) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden vectors, output weights and labels; the logits are large enough for their maximum to matter."""
    random = torch.Generator().manual_seed(tokens)
    hidden = torch.randn(tokens, width, generator=random)
    weight = torch.randn(vocab, width, generator=random)
    return hidden, weight, torch.randint(vocab, (tokens,), generator=random)


def with_gradients(
    loss: str, hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float, z_loss: float = 0.0
) -> tuple[Loss, Tensor, Tensor]:
    """The loss, and the gradients of its mean over the tokens."""
    hidden, weight = hidden.detach().requires_grad_(), weight.detach().requires_grad_()
    if loss == "blocked":
        found = blocked_cross_entropy(hidden, weight, labels, smoothing, z_loss)
    else:
        found = cross_entropy(hidden @ weight.to(hidden.dtype).T, labels, smoothing, z_loss)
    (found.total / found.count).backward()
    assert hidden.grad is not None and weight.grad is not None
    return found, hidden.grad, weight.grad


def test_one_token_by_hand() -> None:
    # p = (1/2, 1/4, 1/4); with smoothing 0.3 the target is (0.8, 0.1, 0.1).
    logits = torch.tensor([[math.log(2), 0.0, 0.0]])
    loss = cross_entropy(logits, torch.tensor([0]), 0.3)
    assert float(loss.sums["nll"]) == pytest.approx(math.log(2))
    assert float(loss.total) == pytest.approx(0.8 * math.log(2) + 0.2 * math.log(4))
    assert (loss.sums["correct"], loss.count) == (1, 1)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("tokens", [1, BLOCK - 1, BLOCK, BLOCK + 1, STRETCH, 2 * STRETCH + BLOCK + 77])
def test_the_definition_the_blocks_and_torch_agree_in_values_and_gradients(tokens: int, smoothing: float) -> None:
    hidden, weight, labels = inputs(tokens)
    given = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
    logits = given[0] @ given[1].T
    oracle = F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    gradients = torch.autograd.grad(oracle / tokens, given)
    plain = F.cross_entropy(logits.detach(), labels, reduction="sum")

    for form in ("whole", "blocked"):
        loss, *found = with_gradients(form, hidden, weight, labels, smoothing)
        torch.testing.assert_close(loss.total, oracle.expand_as(loss.total), rtol=1e-5, atol=1e-4)
        assert float(loss.sums["nll"]) == pytest.approx(float(plain), rel=1e-5)
        assert loss.count == tokens
        assert int(loss.sums["correct"]) == int((logits.argmax(1) == labels).sum())
        torch.testing.assert_close(found, [*gradients], rtol=1e-4, atol=1e-6)


def test_z_loss_adds_the_square_of_the_log_of_the_mass() -> None:
    logits = torch.tensor([[math.log(2), 0.0, 0.0]])  # the mass is 4
    plain, held = (float(cross_entropy(logits, torch.tensor([0]), 0.0, z).total) for z in (0.0, 0.01))
    assert held - plain == pytest.approx(0.01 * math.log(4) ** 2, rel=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_with_z_loss_too_the_definition_and_the_blocks_agree(smoothing: float) -> None:
    hidden, weight, labels = inputs(BLOCK + 9)
    whole, *whole_gradients = with_gradients("whole", hidden, weight, labels, smoothing, 0.02)
    blocked, *blocked_gradients = with_gradients("blocked", hidden, weight, labels, smoothing, 0.02)
    torch.testing.assert_close(blocked.total, whole.total, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(blocked_gradients, whole_gradients, rtol=1e-4, atol=1e-6)


def test_in_bf16_the_blocks_stay_near_fp32() -> None:
    hidden, weight, labels = inputs(STRETCH + 100)
    exact, exact_hidden, exact_weight = with_gradients("blocked", hidden, weight, labels, 0.1)
    low, low_hidden, low_weight = with_gradients("blocked", hidden.bfloat16(), weight, labels, 0.1)
    assert float(low.total.detach()) == pytest.approx(float(exact.total.detach()), rel=1e-2)
    assert low_hidden.dtype == torch.bfloat16
    assert low_weight.dtype == torch.float32  # the parameters are fp32 whatever the activations are
    assert F.cosine_similarity(low_hidden.float().flatten(), exact_hidden.flatten(), dim=0) > 0.999
    assert F.cosine_similarity(low_weight.flatten(), exact_weight.flatten(), dim=0) > 0.999


@pytest.mark.parametrize("passes", [1, 2])
def test_the_gradient_from_above_scales_both_gradients(passes: int) -> None:
    hidden, weight, labels = inputs(9)
    gradients = []
    for factor in (1.0, 3.0):
        h, w = hidden.detach().requires_grad_(), weight.detach().requires_grad_()
        if passes == 1:
            loss = blocked_cross_entropy(h, w, labels, 0.1)
        else:
            loss = blocked_guided_cross_entropy(passes_of(h, 2), w, labels, 0.1, r_drop=2.0)
        (factor * loss.total).backward()
        gradients.append((h.grad, w.grad))
    for once, thrice in zip(*gradients, strict=True):
        torch.testing.assert_close(3 * once, thrice)


@pytest.mark.parametrize("passes", [1, 2])
def test_gradients_made_on_the_way_forward_refuse_to_be_differentiated(passes: int) -> None:
    hidden, weight, labels = inputs(3)
    hidden.requires_grad_()
    if passes == 1:
        loss = blocked_cross_entropy(hidden, weight, labels, 0.1)
    else:
        loss = blocked_guided_cross_entropy(hidden.expand(2, -1, -1), weight, labels, 0.1, r_drop=1.0)
    (gradient,) = torch.autograd.grad(loss.total.square(), hidden, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_huge_logits_overflow_in_neither() -> None:
    hidden, weight, labels = inputs(5)
    for name in ("whole", "blocked"):
        loss, _, gradient = with_gradients(name, 1e4 * hidden, weight, labels, 0.1)
        assert math.isfinite(float(loss.total.detach())) and gradient.isfinite().all()


def test_without_gradients_the_blocks_give_the_same_loss() -> None:
    hidden, weight, labels = inputs(BLOCK + 3)
    with torch.inference_mode():
        inferred = blocked_cross_entropy(hidden, weight, labels, 0.0)
    assert inferred.sums["nll"] == with_gradients("blocked", hidden, weight, labels, 0.0)[0].sums["nll"]


# Guided by a second pass (R-Drop) and by teachers (distillation)

GUIDES: dict[str, dict[str, float]] = {
    "one pass": {"passes": 1},
    "two passes": {"passes": 2},
    "R-Drop": {"passes": 2, "r_drop": 5.0},
    "one teacher": {"passes": 1, "teachers": 1, "share": 0.5},
    "nothing but an ensemble": {"passes": 1, "teachers": 3, "share": 1.0},
    "warm teachers": {"passes": 1, "teachers": 2, "share": 0.3, "temperature": 2.5},
    "R-Drop and teachers": {"passes": 2, "r_drop": 1.5, "teachers": 2, "share": 0.4, "temperature": 1.5},
}


def guided(
    form: str, hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float, z_loss: float, guide: dict[str, float]
) -> tuple[Loss, Tensor, Tensor]:
    """The loss of some passes over the same tokens, by the definition or in blocks, and the gradients of its mean."""
    hidden, weight = hidden.detach().requires_grad_(), weight.detach().requires_grad_()
    r_drop, share = guide.get("r_drop", 0.0), guide.get("share", 0.0)
    temperature = guide.get("temperature", 1.0)
    random = torch.Generator().manual_seed(99)
    teachers = [  # each of its own width
        (
            torch.randn(len(labels), 5 + number, generator=random).to(hidden.dtype),
            torch.randn(len(weight), 5 + number, generator=random),
        )
        for number in range(int(guide.get("teachers", 0)))
    ]
    if form == "blocked":
        vectors, matrices = zip(*teachers, strict=True) if teachers else ((), ())
        teaching = Teaching(vectors, matrices, share, temperature) if teachers else None
        found = blocked_guided_cross_entropy(
            hidden, weight, labels, smoothing, z_loss, r_drop=r_drop, teaching=teaching
        )
    else:
        found = guided_cross_entropy(
            hidden @ weight.to(hidden.dtype).T,
            labels,
            smoothing,
            z_loss,
            r_drop=r_drop,
            teacher_logits=[vectors @ matrix.to(hidden.dtype).T for vectors, matrix in teachers],
            teacher_share=share,
            temperature=temperature,
        )
    (found.total / found.count).backward()
    assert hidden.grad is not None and weight.grad is not None
    return found, hidden.grad, weight.grad


def passes_of(hidden: Tensor, passes: int) -> Tensor:
    """As if dropout had been different in each."""
    random = torch.Generator().manual_seed(17)
    return torch.stack([hidden + 0.1 * torch.randn(hidden.shape, generator=random) for _ in range(passes)])


@pytest.mark.parametrize(("smoothing", "z_loss"), [(0.0, 0.0), (0.1, 0.0), (0.1, 0.02)])
@pytest.mark.parametrize("tokens", [1, BLOCK // 2, STRETCH + 77])
@pytest.mark.parametrize("name", GUIDES)
def test_the_guided_loss_in_blocks_is_its_definition_in_values_and_gradients(
    name: str, tokens: int, smoothing: float, z_loss: float
) -> None:
    hidden, weight, labels = inputs(tokens)
    passes = passes_of(hidden, int(GUIDES[name]["passes"]))
    whole, *whole_gradients = guided("whole", passes, weight, labels, smoothing, z_loss, GUIDES[name])
    blocked, *blocked_gradients = guided("blocked", passes, weight, labels, smoothing, z_loss, GUIDES[name])
    torch.testing.assert_close(blocked.total, whole.total, rtol=1e-5, atol=1e-4)
    assert float(blocked.sums["nll"]) == pytest.approx(float(whole.sums["nll"]), rel=1e-5)
    assert (float(blocked.sums["correct"]), blocked.count) == (float(whole.sums["correct"]), tokens)
    torch.testing.assert_close(blocked_gradients, whole_gradients, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", GUIDES)
def test_the_gradient_made_by_hand_is_that_of_small_steps(name: str) -> None:
    hidden, weight, labels = (tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs(3, 5, 4))
    passes = passes_of(hidden, int(GUIDES[name]["passes"])).double()
    _, *gradients = guided("blocked", passes, weight, labels, 0.1, 0.02, GUIDES[name])
    random = torch.Generator().manual_seed(3)
    for place, gradient in enumerate(gradients):
        direction = torch.randn(gradient.shape, generator=random, dtype=gradient.dtype)
        ends = []
        for side in (1e-3, -1e-3):
            step = side * direction
            there = (passes + step, weight) if place == 0 else (passes, weight + step)
            ends.append(
                float(guided("whole", there[0], there[1], labels, 0.1, 0.02, GUIDES[name])[0].total.detach()) / 3
            )
        assert float((gradient * direction).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-3, rel=2e-3, abs=2e-3)


def test_one_pass_without_a_guide_is_plain_cross_entropy() -> None:
    hidden, weight, labels = inputs(STRETCH + 5)
    plain, *gradients = with_gradients("blocked", hidden, weight, labels, 0.1, 0.02)
    found, *others = guided("blocked", hidden[None], weight, labels, 0.1, 0.02, {})
    assert float(found.total.detach()) == pytest.approx(float(plain.total.detach()), rel=1e-6)
    assert float(found.sums["nll"]) == pytest.approx(float(plain.sums["nll"]), rel=1e-6)
    assert found.sums["correct"] == plain.sums["correct"]
    torch.testing.assert_close(others[0][0], gradients[0], rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(others[1], gradients[1], rtol=1e-4, atol=1e-7)


def test_two_passes_that_agree_diverge_by_nothing() -> None:
    hidden, weight, labels = inputs(20)
    twice = hidden.expand(2, -1, -1)
    found, gradient, _ = guided("blocked", twice, weight, labels, 0.1, 0.0, {"r_drop": 5.0})
    plain, expected, _ = with_gradients("blocked", hidden, weight, labels, 0.1)
    assert float(found.total.detach()) == pytest.approx(float(plain.total.detach()), rel=1e-6)
    torch.testing.assert_close(gradient.sum(0), expected, rtol=1e-4, atol=1e-7)


def test_the_divergence_by_hand_and_by_torch() -> None:
    # p = (1/2, 1/2), r = (1/4, 3/4): the two divergences are ln(2)/2 + ln(2/3)/2 and ln(1/2)/4 + 3 ln(3/2)/4.
    one, other = torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, math.log(3)]])
    there, back = math.log(4 / 3) / 2, math.log(27 / 16) / 4
    assert float(divergence(one, other)) == pytest.approx((there + back) / 2, rel=1e-5)
    random = torch.randn(2, 7, 11)
    log_p, log_r = F.log_softmax(random, -1)
    both = F.kl_div(log_p, log_r, reduction="sum", log_target=True)
    both += F.kl_div(log_r, log_p, reduction="sum", log_target=True)
    torch.testing.assert_close(divergence(*random), both / 2)


def test_teachers_are_averaged_in_probability_by_hand() -> None:
    # Teachers say (1/2, 1/2) and (1/4, 3/4), so (3/8, 5/8); the student says (1/3, 2/3).
    teachers = [torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, math.log(3)]])]
    student = torch.tensor([[0.0, math.log(2)]])
    expected = 3 / 8 * math.log(3) + 5 / 8 * math.log(3 / 2)
    assert float(distillation(student, teachers, 1.0)) == pytest.approx(expected, rel=1e-5)


def test_a_student_that_says_what_its_teacher_says_has_nothing_to_learn_from_it() -> None:
    hidden, weight, labels = inputs(30)
    teaching = Teaching((hidden,), (weight,), share=1.0, temperature=2.0)
    student = hidden[None].clone().requires_grad_()
    blocked_guided_cross_entropy(student, weight, labels, 0.1, teaching=teaching).total.backward()
    assert student.grad is not None
    torch.testing.assert_close(student.grad, torch.zeros_like(student), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["R-Drop", "R-Drop and teachers"])
def test_the_guided_loss_in_bf16_stays_near_fp32(name: str) -> None:
    hidden, weight, labels = inputs(STRETCH + 100)
    passes = passes_of(hidden, 2)
    exact, *exact_gradients = guided("blocked", passes, weight, labels, 0.1, 0.0, GUIDES[name])
    low, *low_gradients = guided("blocked", passes.bfloat16(), weight, labels, 0.1, 0.0, GUIDES[name])
    assert float(low.total.detach()) == pytest.approx(float(exact.total.detach()), rel=1e-2)
    assert [gradient.dtype for gradient in low_gradients] == [torch.bfloat16, torch.float32]
    for near, gradient in zip(low_gradients, exact_gradients, strict=True):
        assert F.cosine_similarity(near.float().flatten(), gradient.flatten(), dim=0) > 0.999


@pytest.mark.parametrize(("smoothing", "z_loss"), [(0.0, 0.0), (0.1, 0.02)])
@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_rows_that_are_no_tokens_add_nothing_to_loss_and_gradients(
    smoothing: float, z_loss: float, r_drop: float
) -> None:
    hidden, weight, labels = inputs(STRETCH + 77)
    is_token = torch.rand(len(labels), generator=torch.Generator().manual_seed(3)) < 0.8
    is_token[STRETCH:] = False  # a whole block without any
    passes = passes_of(hidden, 2)

    def found(passes: Tensor, labels: Tensor, tokens: int | None) -> tuple[Loss, Tensor, Tensor]:
        h, w = passes.clone().requires_grad_(), weight.clone().requires_grad_()
        if r_drop:
            loss = blocked_guided_cross_entropy(h, w, labels, smoothing, z_loss, r_drop=r_drop, tokens=tokens)
        else:
            loss = blocked_cross_entropy(h[0], w, labels, smoothing, z_loss, tokens=tokens)
        loss.total.backward()
        assert h.grad is not None and w.grad is not None
        return loss, h.grad, w.grad

    count = int(is_token.sum())
    alone, of_hidden, of_weight = found(passes[:, is_token], labels[is_token], None)
    filled, *gradients = found(passes, labels.masked_fill(~is_token, IGNORED), count)
    assert (
        (filled.count, float(filled.sums["correct"]))
        == (alone.count, float(alone.sums["correct"]))
        == (count, filled.sums["correct"])
    )
    for one, other in ((filled.total, alone.total), (filled.sums["nll"], alone.sums["nll"])):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-4)
    torch.testing.assert_close(gradients[0][:, is_token], of_hidden, rtol=1e-5, atol=1e-6)
    assert not gradients[0][:, ~is_token].any()
    torch.testing.assert_close(gradients[1], of_weight, rtol=1e-4, atol=1e-4)
