"""Three roads to label-smoothed cross-entropy: torch's, the definition, and the one in blocks."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from weft.training.losses import BlockedCrossEntropy, Loss, blocked_cross_entropy, cross_entropy

BLOCK = BlockedCrossEntropy.block


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
    (found.total / found.tokens).backward()
    assert hidden.grad is not None and weight.grad is not None
    return found, hidden.grad, weight.grad


def test_one_token_by_hand() -> None:
    # p = (1/2, 1/4, 1/4); with smoothing 0.3 the target is (0.8, 0.1, 0.1).
    logits = torch.tensor([[math.log(2), 0.0, 0.0]])
    loss = cross_entropy(logits, torch.tensor([0]), 0.3)
    assert float(loss.nll) == pytest.approx(math.log(2))
    assert float(loss.total) == pytest.approx(0.8 * math.log(2) + 0.2 * math.log(4))
    assert (loss.correct, loss.tokens) == (1, 1)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("tokens", [1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 77])
def test_the_definition_the_blocks_and_torch_agree_in_values_and_gradients(tokens: int, smoothing: float) -> None:
    hidden, weight, labels = inputs(tokens)
    whole, whole_hidden, whole_weight = with_gradients("whole", hidden, weight, labels, smoothing)
    blocked, blocked_hidden, blocked_weight = with_gradients("blocked", hidden, weight, labels, smoothing)
    oracle = F.cross_entropy(hidden @ weight.T, labels, label_smoothing=smoothing, reduction="sum")
    plain = F.cross_entropy(hidden @ weight.T, labels, reduction="sum")

    for loss in (whole, blocked):
        torch.testing.assert_close(loss.total, oracle.expand_as(loss.total), rtol=1e-5, atol=1e-4)
        assert float(loss.nll) == pytest.approx(float(plain), rel=1e-5)
        assert loss.tokens == tokens
    assert int(whole.correct) == int(blocked.correct) == int(((hidden @ weight.T).argmax(1) == labels).sum())
    torch.testing.assert_close(blocked_hidden, whole_hidden, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(blocked_weight, whole_weight, rtol=1e-4, atol=1e-6)


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


def test_the_gradient_of_the_definition_is_torchs() -> None:
    hidden, weight, labels = inputs(50)
    _, found, _ = with_gradients("whole", hidden, weight, labels, 0.1)
    oracle = hidden.detach().requires_grad_()
    F.cross_entropy(oracle @ weight.T, labels, label_smoothing=0.1).backward()
    torch.testing.assert_close(found, oracle.grad)


def test_in_bf16_the_blocks_stay_near_fp32() -> None:
    hidden, weight, labels = inputs(BLOCK + 100)
    exact, exact_hidden, exact_weight = with_gradients("blocked", hidden, weight, labels, 0.1)
    low, low_hidden, low_weight = with_gradients("blocked", hidden.bfloat16(), weight, labels, 0.1)
    assert float(low.total.detach()) == pytest.approx(float(exact.total.detach()), rel=1e-2)
    assert low_hidden.dtype == torch.bfloat16
    assert low_weight.dtype == torch.float32  # the parameters are fp32 whatever the activations are
    assert F.cosine_similarity(low_hidden.float().flatten(), exact_hidden.flatten(), dim=0) > 0.999
    assert F.cosine_similarity(low_weight.flatten(), exact_weight.flatten(), dim=0) > 0.999


def test_the_gradient_from_above_scales_both_gradients() -> None:
    hidden, weight, labels = inputs(9)
    gradients = []
    for factor in (1.0, 3.0):
        h, w = hidden.detach().requires_grad_(), weight.detach().requires_grad_()
        (factor * blocked_cross_entropy(h, w, labels, 0.1).total).backward()
        gradients.append((h.grad, w.grad))
    for once, thrice in zip(*gradients, strict=True):
        torch.testing.assert_close(3 * once, thrice)


def test_huge_logits_overflow_in_neither() -> None:
    hidden, weight, labels = inputs(5)
    for name in ("whole", "blocked"):
        loss, _, gradient = with_gradients(name, 1e4 * hidden, weight, labels, 0.1)
        assert math.isfinite(float(loss.total.detach())) and gradient.isfinite().all()


def test_without_gradients_the_blocks_give_the_same_loss() -> None:
    hidden, weight, labels = inputs(BLOCK + 3)
    with torch.inference_mode():
        inferred = blocked_cross_entropy(hidden, weight, labels, 0.0)
    assert inferred.nll == with_gradients("blocked", hidden, weight, labels, 0.0)[0].nll
