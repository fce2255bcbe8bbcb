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
    nats; `correct` counts tokens that the model ranks first.
    """

    total: Float[Tensor, ""]
    nll: float
    correct: int
    tokens: int


def cross_entropy(logits: Float[Tensor, "tokens vocab"], labels: Int[Tensor, " tokens"], smoothing: float) -> Loss:
    """Against (1 - smoothing) * one-hot + smoothing / vocab (Szegedy et al. 2016, section 7), in fp32 whatever the
    logits are.

    Padding does not occur here: the caller has taken it out, so it costs no products with the vocabulary either.
    """
    log_probs = F.log_softmax(logits.float(), dim=-1)
    nll = F.nll_loss(log_probs, labels, reduction="sum")
    total = (1 - smoothing) * nll - smoothing * log_probs.mean(-1).sum()
    correct = int((logits.argmax(-1) == labels).sum())
    return Loss(total=total, nll=float(nll.detach()), correct=correct, tokens=len(labels))


def blocked_cross_entropy(
    hidden: Float[Tensor, "tokens model"],
    weight: Float[Tensor, "vocab model"],
    labels: Int[Tensor, " tokens"],
    smoothing: float,
) -> Loss:
    """`cross_entropy(hidden @ weight.T, labels, smoothing)`; the products are taken in the precision of `hidden`."""
    total, nll, correct = BlockedCrossEntropy.apply(hidden, weight, labels, smoothing)
    return Loss(total=total, nll=float(nll), correct=int(correct), tokens=len(labels))


class BlockedCrossEntropy(torch.autograd.Function):
    """With z the logits of a token, p = softmax(z) and q the smoothed target, the loss is -sum q log p and dz = p - q.

    Both are known as soon as a block's logits are, so the gradients of `hidden` and `weight` are made on the way
    forward; backward only multiplies by the gradient from above, which is a scalar.
    """

    block = 512
    """Tokens at a time: with some thousand pieces a block of fp32 logits stays in the processor's cache."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        vocab_size = weight.size(0)
        low = weight.to(hidden.dtype)
        # needs_input_grad only asks whether these are parameters, also where no gradient will be wanted.
        wants_gradient = any(ctx.needs_input_grad[:2]) and not torch.is_inference_mode_enabled()  # type: ignore[attr-defined]
        hidden_gradient = torch.empty_like(hidden) if wants_gradient else None
        weight_gradient = torch.zeros_like(weight) if wants_gradient else None
        total = hidden.new_zeros((), dtype=torch.float32)
        nll, correct = torch.zeros_like(total), torch.zeros_like(total)
        for begin in range(0, len(labels), BlockedCrossEntropy.block):
            rows = slice(begin, begin + BlockedCrossEntropy.block)
            label = labels[rows, None]
            z = (hidden[rows] @ low.T).float()  # (block, vocab)
            z_label, z_mean, z_max = z.gather(1, label), z.mean(1, keepdim=True), z.amax(1, keepdim=True)
            p = z.sub_(z_max).exp_()
            mass = p.sum(1, keepdim=True)
            log_mass = mass.log() + z_max
            nll += (log_mass - z_label).sum()
            total += (log_mass - (1 - smoothing) * z_label - smoothing * z_mean).sum()
            correct += (z_label == z_max).sum()
            if hidden_gradient is not None and weight_gradient is not None:
                difference = p.div_(mass).sub_(smoothing / vocab_size)
                difference.scatter_add_(1, label, difference.new_full(label.shape, smoothing - 1))
                difference = difference.to(hidden.dtype)
                hidden_gradient[rows] = difference @ low
                weight_gradient += difference.T @ hidden[rows]
        ctx.save_for_backward(hidden_gradient, weight_gradient)  # type: ignore[arg-type]
        ctx.mark_non_differentiable(nll, correct)  # type: ignore[attr-defined]
        return total, nll, correct

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:  # type: ignore[override]
        hidden_gradient, weight_gradient = ctx.saved_tensors  # type: ignore[attr-defined]
        above = gradients[0]
        return hidden_gradient * above, weight_gradient * above, None, None
