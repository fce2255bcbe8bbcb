"""What is minimized, and what is counted beside it.

Cross-entropy over the vocabulary stands here twice. `cross_entropy` is the definition, on logits.
`blocked_cross_entropy` starts one product earlier, at the hidden vectors, and works through them in blocks: the fp32
soft-max of a whole batch, which is the largest tensor of a training step by far, never exists, and neither do the
five passes over it that autograd would make. A test proves both equal, values and gradients.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.nn import functional as F


@dataclass(frozen=True)
class Loss:
    """Sums over the target tokens of a batch; divide by `tokens` for the mean.

    `total` is minimized (label-smoothed) and carries the gradient; `nll` is the plain negative log-likelihood in
    nats; `correct` counts tokens that the model ranks first. Both stay on the device: counting waits for nothing.
    """

    total: Float[Tensor, ""]
    nll: Float[Tensor, ""]
    correct: Float[Tensor, ""]
    tokens: int


def cross_entropy(
    logits: Float[Tensor, "tokens vocab"], labels: Int[Tensor, " tokens"], smoothing: float, z_loss: float = 0.0
) -> Loss:
    """Against (1 - smoothing) * one-hot + smoothing / vocab (Szegedy et al. 2016, section 7), in fp32 whatever the
    logits are.

    `z_loss` times the square of log(sum(exp(logits))) is added, which keeps the logits from drifting away together
    (de Brebisson and Vincent 2016; Chowdhery et al. 2022, section 5).

    Padding does not occur here: the caller has taken it out, so it costs no products with the vocabulary either.
    """
    log_probs = F.log_softmax(logits.float(), dim=-1)
    nll = F.nll_loss(log_probs, labels, reduction="sum")
    total = (1 - smoothing) * nll - smoothing * log_probs.mean(-1).sum()
    if z_loss:
        total = total + z_loss * torch.logsumexp(logits.float(), -1).square().sum()
    correct = (logits.argmax(-1) == labels).sum().float()
    return Loss(total=total, nll=nll.detach(), correct=correct, tokens=len(labels))


def blocked_cross_entropy(
    hidden: Float[Tensor, "tokens model"],
    weight: Float[Tensor, "vocab model"],
    labels: Int[Tensor, " tokens"],
    smoothing: float,
    z_loss: float = 0.0,
) -> Loss:
    """`cross_entropy(hidden @ weight.T, ...)`; the products are taken in the precision of `hidden`."""
    total, nll, correct = BlockedCrossEntropy.apply(hidden, weight, labels, smoothing, z_loss)
    return Loss(total=total, nll=nll, correct=correct, tokens=len(labels))


class BlockedCrossEntropy(torch.autograd.Function):
    """With z the logits of a token, p = softmax(z) and q the smoothed target, the loss is -sum q log p and dz = p - q.

    Both are known as soon as a block's logits are, so the gradients of `hidden` and `weight` are made on the way
    forward; backward only multiplies by the gradient from above, which is a scalar. The smoothed part of q is the same
    for every token: its share of loss and gradients is added once for the whole batch. What stays of a block is p - q,
    rounded to the precision of `hidden`, for one product with all hidden vectors at the end.
    """

    block = 256
    """Tokens at a time: with some thousand pieces a block of fp32 logits stays in the processor's cache."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float, z_loss: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        # needs_input_grad only asks whether these are parameters, also where no gradient will be wanted.
        wants_gradient = any(ctx.needs_input_grad[:2]) and not torch.is_inference_mode_enabled()  # type: ignore[attr-defined]
        tokens, vocab_size = len(labels), weight.size(0)
        block = BlockedCrossEntropy.block if hidden.device.type == "cpu" else max(1, tokens)
        low = weight.to(hidden.dtype)
        hidden_sum, mean_row = hidden.sum(0, dtype=torch.float32), low.mean(0, dtype=torch.float32)
        total = -smoothing * (hidden_sum @ mean_row)
        nll, correct = torch.zeros_like(total), torch.zeros_like(total)
        hidden_gradient = torch.empty_like(hidden)
        differences = hidden.new_empty(tokens if wants_gradient else 0, vocab_size)
        logits = hidden.new_empty(min(block, tokens), vocab_size)
        logits_fp32, probabilities = (torch.empty_like(logits, dtype=torch.float32) for _ in range(2))
        for begin in range(0, tokens, block):
            rows = slice(begin, begin + block)
            label = labels[rows, None]
            here = slice(len(label))
            z = logits_fp32[here].copy_(torch.mm(hidden[rows], low.T, out=logits[here]))
            p = torch.softmax(z, -1, out=probabilities[here])
            z_label, z_max = z.gather(1, label), z.amax(1, keepdim=True)
            log_mass = z_max - p.amax(1, keepdim=True).log()  # of the largest p, which is never zero
            nll += (log_mass - z_label).sum()
            total += (log_mass - (1 - smoothing) * z_label).sum()
            correct += (z_label == z_max).sum()
            if z_loss:
                total += z_loss * log_mass.square().sum()
                p *= 1 + 2 * z_loss * log_mass
            if wants_gradient:
                p.scatter_add_(1, label, p.new_full(label.shape, smoothing - 1))
                torch.mm(differences[rows].copy_(p), low, out=hidden_gradient[rows])
        if wants_gradient:
            hidden_gradient -= (smoothing * mean_row).to(hidden.dtype)
            weight_gradient = (differences.T @ hidden).float().sub_(hidden_sum, alpha=smoothing / vocab_size)
            ctx.save_for_backward(hidden_gradient, weight_gradient)
        ctx.mark_non_differentiable(nll, correct)  # type: ignore[attr-defined]
        return total, nll, correct

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:  # type: ignore[override]
        hidden_gradient, weight_gradient = ctx.saved_tensors  # type: ignore[attr-defined]
        above = gradients[0]
        return hidden_gradient * above, weight_gradient * above, None, None, None
