"""Losses of models that predict tokens: what is minimized, and two sums that are logged with it.

    nll       the negative log-likelihood in nats, without smoothing and penalties
    correct   tokens above which the model ranks no other

`cross_entropy` is the definition, on logits; `guided_cross_entropy` adds a second pass over the batch (R-Drop),
teachers (distillation), or both. Training takes `blocked_cross_entropy` and `blocked_guided_cross_entropy`, which start
one product earlier, at the hidden vectors, and never hold the logits of a whole batch (layers/fast/blocked_loss.py).
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from weft.layers.fast.blocked_loss import BlockedCrossEntropy, BlockedGuidedCrossEntropy, Teaching
from weft.training.task import Loss


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
    correct = (logits.gather(1, labels[:, None]) == logits.amax(1, keepdim=True)).sum().float()
    return Loss(total, len(labels), {"nll": nll.detach(), "correct": correct})


def copying_cross_entropy(
    log_probs: Float[Tensor, "tokens vocab"], labels: Int[Tensor, " tokens"], smoothing: float
) -> Loss:
    """`cross_entropy` of log-probabilities that are no soft-max alone, since source tokens are copied; what smoothing
    spreads is bounded below, as what can only be copied has next to no probability where it is not in the source."""
    nll = F.nll_loss(log_probs, labels, reduction="sum")
    total = (1 - smoothing) * nll - smoothing * log_probs.clamp(min=LEAST_SMOOTHED).mean(-1).sum()
    correct = (log_probs.gather(1, labels[:, None]) == log_probs.amax(1, keepdim=True)).sum().float()
    return Loss(total, len(labels), {"nll": nll.detach(), "correct": correct})


LEAST_SMOOTHED = -30.0
"""The log-probability below which smoothing no longer pulls at a piece."""


def guided_cross_entropy(
    logits: Float[Tensor, "passes tokens vocab"],
    labels: Int[Tensor, " tokens"],
    smoothing: float,
    z_loss: float = 0.0,
    *,
    r_drop: float = 0.0,
    teacher_logits: Sequence[Float[Tensor, "tokens vocab"]] = (),
    teacher_share: float = 0.0,
    temperature: float = 1.0,
) -> Loss:
    """The mean over one or two passes of (1 - teacher_share) `cross_entropy` + teacher_share `distillation`, and, of
    two passes, r_drop / 2 times their `divergence`.

    Without teachers this is half of Liang et al. 2021 (arXiv 2106.14448), equation 4: r_drop is their alpha, and the
    loss is on the scale of one pass. `nll` and `correct` are means over the passes, so the tokens count once.
    """
    losses = [cross_entropy(one, labels, smoothing, z_loss) for one in logits]
    total = mean_of([loss.total for loss in losses])
    if teacher_logits:
        taught = mean_of([distillation(one, teacher_logits, temperature) for one in logits])
        total = (1 - teacher_share) * total + teacher_share * taught
    if r_drop:
        total = total + r_drop / 2 * divergence(*logits)
    sums = {name: mean_of([loss.sums[name] for loss in losses]) for name in ("nll", "correct")}
    return Loss(total, len(labels), sums)


def divergence(one: Float[Tensor, "tokens vocab"], other: Float[Tensor, "tokens vocab"]) -> Float[Tensor, ""]:
    """The mean of the Kullback-Leibler divergences in both directions, summed over the tokens."""
    log_p, log_r = F.log_softmax(one.float(), -1), F.log_softmax(other.float(), -1)
    return ((log_p.exp() - log_r.exp()) * (log_p - log_r)).sum() / 2


def distillation(
    logits: Float[Tensor, "tokens vocab"], teacher_logits: Sequence[Float[Tensor, "tokens vocab"]], temperature: float
) -> Float[Tensor, ""]:
    """Cross-entropy against the mean of the teachers' distributions over the whole vocabulary (Kim and Rush 2016,
    section 3.1), summed over the tokens.

    A temperature above 1 flattens theirs and the student's alike; its square keeps the gradient's size (Hinton et al.
    2015, section 2).
    """
    taught = mean_of([torch.softmax(each.float() / temperature, -1) for each in teacher_logits])
    return -(temperature**2) * (taught * F.log_softmax(logits.float() / temperature, -1)).sum()


def mean_of(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(tensors)).mean(0)


def blocked_cross_entropy(
    hidden: Float[Tensor, "tokens model"],
    weight: Float[Tensor, "vocab model"],
    labels: Int[Tensor, " tokens"],
    smoothing: float,
    z_loss: float = 0.0,
    *,
    tokens: int | None = None,
) -> Loss:
    """`cross_entropy(hidden @ weight.T, ...)`; the products are taken in the precision of `hidden`.

    Where `tokens` is given, that many of the labels are tokens, and the rows of the others, IGNORED, add nothing.
    """
    total, nll, correct = BlockedCrossEntropy.apply(hidden, weight, labels, smoothing, z_loss, tokens is not None)
    return Loss(total, len(labels) if tokens is None else tokens, {"nll": nll, "correct": correct})


def blocked_guided_cross_entropy(
    hidden: Float[Tensor, "passes tokens model"],
    weight: Float[Tensor, "vocab model"],
    labels: Int[Tensor, " tokens"],
    smoothing: float,
    z_loss: float = 0.0,
    *,
    r_drop: float = 0.0,
    teaching: Teaching | None = None,
    tokens: int | None = None,
) -> Loss:
    """`guided_cross_entropy(hidden @ weight.T, ...)`, computed like `blocked_cross_entropy`."""
    assert tokens is None or teaching is None  # teachers have no vectors for padding
    total, nll, correct = BlockedGuidedCrossEntropy.apply(
        hidden, weight, labels, smoothing, z_loss, r_drop, teaching, tokens is not None
    )
    return Loss(total, len(labels) if tokens is None else tokens, {"nll": nll, "correct": correct})
