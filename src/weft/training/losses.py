"""Losses of models that predict tokens: what is minimized, and two sums that are logged with it.

    nll       the negative log-likelihood in nats, without smoothing and penalties
    correct   tokens above which the model ranks no other

Cross-entropy over the vocabulary stands here twice. `cross_entropy` is the definition, on logits.
`blocked_cross_entropy` starts one product earlier, at the hidden vectors, and works through them in blocks: the
soft-max of a whole batch, which is the largest tensor of a training step by far, never exists, nor do the five passes
over it that autograd would make. A test proves both equal, values and gradients.

So does the cross-entropy that is guided by more than the labels: by a second pass over the batch (R-Drop), by what
teachers say (distillation), or both: `guided_cross_entropy` and `blocked_guided_cross_entropy`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F

from weft.layers.fast.packed_linear import PackedLinear
from weft.training.task import Loss

IGNORED = -100
"""The label of a row that is no token: what fills a batch up to a round shape (torch's ignore_index)."""


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

    Where `tokens` is given, so many of the labels are tokens, the others IGNORED: their rows add nothing.
    """
    total, nll, correct = BlockedCrossEntropy.apply(hidden, weight, labels, smoothing, z_loss, tokens is not None)
    return Loss(total, len(labels) if tokens is None else tokens, {"nll": nll, "correct": correct})


@dataclass(frozen=True)
class Counted:
    """Which rows are tokens: a factor of 1 or 0 for each, or None where all of them are."""

    factors: Float[Tensor, "tokens 1"] | None

    @staticmethod
    def of(labels: Int[Tensor, " tokens"], ignores: bool) -> "tuple[Counted, Int[Tensor, ' tokens']]":
        """The same, and labels of which each is one of the vocabulary."""
        if not ignores:
            return Counted(None), labels
        return Counted((labels != IGNORED)[:, None].float()), labels.clamp(min=0)

    def alone_(self, x: Float[Tensor, "rows _"], rows: slice) -> None:
        """Zeros in x, which is of some rows, where a row is no token."""
        if self.factors is not None:
            x *= self.factors[rows]

    def alone(self, x: Float[Tensor, "*passes rows _"], rows: slice = slice(None)) -> Float[Tensor, "*passes rows _"]:
        """x of some rows, with zeros where a row is no token."""
        return x if self.factors is None else x * self.factors[rows].to(x.dtype)


def output_product(
    matrix: Float[Tensor, "vocab model"], rows: int
) -> Callable[[Float[Tensor, "rows model"]], Float[Tensor, "rows vocab"]]:
    """What takes at most so many vectors to their logits in fp32: the product with the output matrix, in its precision.
    The next ones may stand where the last ones stood.

    A block of logits is larger than the processor's nearest caches. In fp32 oneDNN, having laid the matrix out,
    then takes two fifths to two thirds of MKL's time on AMD's (bench/results/tried.jsonl); bf16 is oneDNN's anyway.
    """
    if matrix.dtype == torch.float32 and matrix.device.type == "cpu":
        return PackedLinear(matrix)
    room = matrix.new_empty(rows, matrix.size(0))
    in_fp32 = room if matrix.dtype == torch.float32 else torch.empty_like(room, dtype=torch.float32)

    def logits(vectors: Tensor) -> Tensor:
        product = torch.mm(vectors, matrix.T, out=room[: len(vectors)])
        return product if in_fp32 is room else in_fp32[: len(vectors)].copy_(product)

    return logits


class BlockedCrossEntropy(torch.autograd.Function):
    """With z the logits of a token, p = softmax(z) and q the smoothed target, the loss is -sum q log p and dz = p - q.

    Both are known as soon as a block's logits are, so the gradients of `hidden` and `weight` are made on the way
    forward; backward only multiplies by the gradient from above, which is a scalar. The smoothed part of q is the same
    for every token: its share of loss and gradients is added once for the whole batch. What stays of a block is p - q,
    rounded to the precision of `hidden`, until a stretch of blocks is full and one product takes it to the gradient of
    `weight`, which is as large as some blocks and would be read and written for each.
    """

    block, stretch = 256, 1024
    """Tokens at a time on a CPU: with some thousand pieces a block of fp32 logits stays in the processor's cache."""

    gpu_block = 4096
    """On a GPU, which is fast by much at once; with 32,000 pieces these logits are half a gigabyte. It is a stretch."""

    @staticmethod
    def sizes(device: torch.device) -> tuple[int, int]:
        """Tokens of a block and of a stretch."""
        ours = BlockedCrossEntropy
        return (ours.block, ours.stretch) if device.type == "cpu" else (ours.gpu_block, ours.gpu_block)

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        hidden: Tensor,
        weight: Tensor,
        labels: Tensor,
        smoothing: float,
        z_loss: float,
        ignores: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        # needs_input_grad only asks whether these are parameters, also where no gradient will be wanted.
        wants_gradient = any(ctx.needs_input_grad[:2]) and not torch.is_inference_mode_enabled()  # type: ignore[attr-defined]
        tokens, vocab_size = len(labels), weight.size(0)
        block, stretch = BlockedCrossEntropy.sizes(hidden.device)
        if not wants_gradient:
            stretch = block
        low = weight.to(hidden.dtype)
        counted, labels = Counted.of(labels, ignores)
        hidden_sum, mean_row = counted.alone(hidden).sum(0, dtype=torch.float32), weight.mean(0, dtype=torch.float32)
        total = -smoothing * (hidden_sum @ mean_row)
        nll, correct = torch.zeros_like(total), torch.zeros_like(total)
        hidden_gradient = torch.empty_like(hidden)
        weight_gradient = torch.zeros_like(low, dtype=torch.float32) if wants_gradient else None
        logits_of = output_product(low, min(block, tokens))
        is_rounded = hidden.dtype != torch.float32
        differences = hidden.new_empty(min(stretch, tokens) if wants_gradient or not is_rounded else 0, vocab_size)
        probabilities = hidden.new_empty(min(block, tokens) if is_rounded else 0, vocab_size, dtype=torch.float32)
        for begin, end in parts(0, tokens, stretch):
            for first, last in parts(begin, end, block):
                rows, label = slice(first, last), labels[first:last, None]
                z, difference = logits_of(hidden[rows]), differences[first - begin : last - begin]
                p = torch.softmax(z, -1, out=probabilities[: last - first] if is_rounded else difference)
                z_label, z_max = z.gather(1, label), z.amax(1, keepdim=True)
                log_mass = z_max - p.amax(1, keepdim=True).log()  # of the largest p, which is never zero
                nll += counted.alone(log_mass - z_label, rows).sum()
                total += counted.alone(log_mass - (1 - smoothing) * z_label, rows).sum()
                correct += counted.alone((z_label == z_max).float(), rows).sum()
                if z_loss:
                    total += z_loss * counted.alone(log_mass.square(), rows).sum()
                    p *= 1 + 2 * z_loss * log_mass
                if wants_gradient:
                    p.scatter_add_(1, label, p.new_full(label.shape, smoothing - 1))
                    counted.alone_(p, rows)
                    if is_rounded:
                        difference.copy_(p)
                    torch.mm(difference, low, out=hidden_gradient[rows])
            if weight_gradient is not None:
                add_product(weight_gradient, differences[: end - begin], hidden[begin:end])
        if weight_gradient is not None:
            hidden_gradient -= counted.alone((smoothing * mean_row).to(hidden.dtype).expand_as(hidden))
            weight_gradient.sub_(hidden_sum, alpha=smoothing / vocab_size)
            ctx.save_for_backward(hidden_gradient, weight_gradient)
        ctx.mark_non_differentiable(nll, correct)  # type: ignore[attr-defined]
        return total, nll, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:  # type: ignore[override]
        hidden_gradient, weight_gradient = ctx.saved_tensors  # type: ignore[attr-defined]
        above = gradients[0]
        return hidden_gradient * above, weight_gradient * above, None, None, None, None


def parts(begin: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each part of a range; all but the last are of this size."""
    for first in range(begin, end, size):
        yield first, min(first + size, end)


def add_product(
    total: Float[Tensor, "rows columns"], left: Float[Tensor, "tokens rows"], right: Float[Tensor, "tokens columns"]
) -> None:
    """total += left^T right, in the precision of `total`."""
    if left.dtype == total.dtype:
        total.addmm_(left.T, right)
    else:
        total += left.T @ right


@dataclass(frozen=True)
class Teaching:
    """What teachers make of a batch: each one's last vectors and output matrix, whose product are its logits.

    Teachers may be of any width, but their vocabulary is the student's.
    """

    hidden: tuple[Float[Tensor, "tokens _"], ...]
    weights: tuple[Float[Tensor, "vocab _"], ...]
    share: float
    """Part of the loss that comes from them, above 0 and at most 1."""
    temperature: float = 1.0

    def probabilities(self, rows: slice) -> Float[Tensor, "rows vocab"]:
        """The mean of their distributions for some of the tokens, at the temperature, in fp32."""
        total = None
        for hidden, weight in zip(self.hidden, self.weights, strict=True):
            logits = (hidden[rows] @ weight.T.to(hidden.dtype)).float()
            one = torch.softmax(logits.div_(self.temperature), -1)
            total = one if total is None else total.add_(one)
        assert total is not None  # nobody is taught by no one
        return total.div_(len(self.hidden))


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
    """`guided_cross_entropy(hidden @ weight.T, ...)` without its logits, as `blocked_cross_entropy` does it."""
    assert tokens is None or teaching is None  # a row that is no token has nobody to learn from
    total, nll, correct = BlockedGuidedCrossEntropy.apply(
        hidden, weight, labels, smoothing, z_loss, r_drop, teaching, tokens is not None
    )
    return Loss(total, len(labels) if tokens is None else tokens, {"nll": nll, "correct": correct})


class BlockedGuidedCrossEntropy(torch.autograd.Function):
    """As in BlockedCrossEntropy the gradients are made on the way forward, from a block's gradient of its logits z.

    With p = softmax(z) of one pass, r that of the other, g = log p - log r, s the share and t the mean of the teachers,
    both at the temperature T, the parts of that gradient are

        labels       (1 - s) (p - q)            q the smoothed target; of it only the label's part is made in the block
        teachers     s T (softmax(z / T) - t)
        R-Drop       alpha / 2 (p (g - sum(p g)) + p - r)       for the other pass with p and r, and so g, changed over

    and the mean over the passes is taken of all.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        hidden: Tensor,
        weight: Tensor,
        labels: Tensor,
        smoothing: float,
        z_loss: float,
        r_drop: float,
        teaching: Teaching | None,
        ignores: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        (passes, tokens, _), vocab_size = hidden.shape, weight.size(0)
        block, stretch = (size // passes for size in BlockedCrossEntropy.sizes(hidden.device))
        from_labels = 1.0 if teaching is None else 1 - teaching.share
        low = weight.to(hidden.dtype)
        counted, labels = Counted.of(labels, ignores)
        hidden_sum = counted.alone(hidden).sum((0, 1), dtype=torch.float32)
        mean_row = weight.mean(0, dtype=torch.float32)
        total = -from_labels * smoothing * (hidden_sum @ mean_row)
        nll, correct = torch.zeros_like(total), torch.zeros_like(total)
        hidden_gradient = torch.empty_like(hidden)
        weight_gradient = torch.zeros_like(low, dtype=torch.float32)
        logits_of = output_product(low, passes * min(block, tokens))
        for begin, end in parts(0, tokens, stretch):
            differences = hidden.new_empty(passes, end - begin, vocab_size)
            for first, last in parts(begin, end, block):
                rows = slice(first, last)
                label = labels[rows].expand(passes, -1)[..., None]
                z = logits_of(hidden[:, rows].flatten(0, 1)).view(passes, -1, vocab_size)
                log_mass = z.logsumexp(-1, keepdim=True)
                z_label = z.gather(-1, label)
                nll += counted.alone(log_mass - z_label, rows).sum()
                correct += counted.alone((z_label == z.amax(-1, keepdim=True)).float(), rows).sum()
                of_labels = log_mass - (1 - smoothing) * z_label + z_loss * log_mass.square()
                total += from_labels * counted.alone(of_labels, rows).sum()
                log_p = z - log_mass
                p = log_p.exp()
                change = from_labels * (1 + 2 * z_loss * log_mass) * p
                change.scatter_add_(-1, label, change.new_full(label.shape, from_labels * (smoothing - 1)))
                if teaching is not None:
                    taught = teaching.probabilities(rows)
                    log_soft = torch.log_softmax(z / teaching.temperature, -1) if teaching.temperature != 1 else log_p
                    total -= teaching.share * teaching.temperature**2 * (taught * log_soft).sum()
                    change.add_(log_soft.exp().sub_(taught), alpha=teaching.share * teaching.temperature)
                if r_drop:
                    gap = log_p[0] - log_p[1]
                    for own, other, sign in ((0, 1, 1), (1, 0, -1)):
                        weighed = sign * p[own] * gap
                        mean_gap = weighed.sum(-1, keepdim=True)
                        total += r_drop / 2 * counted.alone(mean_gap, rows).sum()
                        change[own].add_(weighed - p[own] * mean_gap + p[own] - p[other], alpha=r_drop / 2)
                rounded = differences[:, first - begin : last - begin].copy_(counted.alone(change, rows))
                hidden_gradient[:, rows] = rounded @ low
            add_product(weight_gradient, differences.flatten(0, 1), hidden[:, begin:end].flatten(0, 1))
        hidden_gradient -= counted.alone((from_labels * smoothing * mean_row).to(hidden.dtype).expand_as(hidden))
        weight_gradient.sub_(hidden_sum, alpha=from_labels * smoothing / vocab_size)
        ctx.save_for_backward(hidden_gradient.div_(passes), weight_gradient.div_(passes))
        nll, correct = nll / passes, correct / passes
        ctx.mark_non_differentiable(nll, correct)  # type: ignore[attr-defined]
        return total / passes, nll, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        hidden_gradient, weight_gradient = ctx.saved_tensors  # type: ignore[attr-defined]
        above = gradients[0]
        return hidden_gradient * above, weight_gradient * above, *[None] * 6
