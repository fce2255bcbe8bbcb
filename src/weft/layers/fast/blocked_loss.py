"""The cross-entropies of training/losses.py without the logits of a whole batch: in blocks, gradients made on the way.

`BlockedCrossEntropy` is `cross_entropy` and `BlockedGuidedCrossEntropy` is `guided_cross_entropy` of hidden @ weight.T;
tests/training/test_losses.py proves them equal in values and gradients. The soft-max of a whole batch, by far the
largest tensor of a training step, never exists, nor do the five passes over it that autograd would make.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from weft.layers.fast.packed_linear import PackedLinear

IGNORED = -100
"""The label of a row that is padding (torch's ignore_index)."""


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
    """Tokens of a block, and of a stretch, on a GPU; with 32,000 pieces the fp32 logits take half a gigabyte."""

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
        mask, labels = RowMask.of(labels, ignores)
        wide = torch.promote_types(hidden.dtype, torch.float32)
        hidden_sum, mean_row = mask.zero_ignored(hidden).sum(0, dtype=wide), weight.mean(0, dtype=wide)
        total = -smoothing * (hidden_sum @ mean_row)
        nll, correct = torch.zeros_like(total), torch.zeros_like(total)
        hidden_gradient = torch.empty_like(hidden)
        weight_gradient = torch.zeros_like(low, dtype=wide) if wants_gradient else None
        logits_of = output_product(low, min(block, tokens))
        is_rounded = hidden.dtype != wide
        differences = hidden.new_empty(min(stretch, tokens) if wants_gradient or not is_rounded else 0, vocab_size)
        probabilities = hidden.new_empty(min(block, tokens) if is_rounded else 0, vocab_size, dtype=wide)
        for begin, end in parts(0, tokens, stretch):
            for first, last in parts(begin, end, block):
                rows, label = slice(first, last), labels[first:last, None]
                z, difference = logits_of(hidden[rows]), differences[first - begin : last - begin]
                p = torch.softmax(z, -1, out=probabilities[: last - first] if is_rounded else difference)
                z_label, z_max = z.gather(1, label), z.amax(1, keepdim=True)
                log_mass = z_max - p.amax(1, keepdim=True).log()  # of the largest p, which is never zero
                nll += mask.zero_ignored(log_mass - z_label, rows).sum()
                total += mask.zero_ignored(log_mass - (1 - smoothing) * z_label, rows).sum()
                correct += mask.zero_ignored((z_label == z_max).float(), rows).sum()
                if z_loss:
                    total += z_loss * mask.zero_ignored(log_mass.square(), rows).sum()
                    p *= 1 + 2 * z_loss * log_mass
                if wants_gradient:
                    p.scatter_add_(1, label, p.new_full(label.shape, smoothing - 1))
                    mask.zero_ignored_(p, rows)
                    if is_rounded:
                        difference.copy_(p)
                    torch.mm(difference, low, out=hidden_gradient[rows])
            if weight_gradient is not None:
                add_product(weight_gradient, differences[: end - begin], hidden[begin:end])
        if weight_gradient is not None:
            hidden_gradient -= mask.zero_ignored((smoothing * mean_row).to(hidden.dtype).expand_as(hidden))
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


@dataclass(frozen=True)
class Teaching:
    """The teachers' last vectors of a batch and their output matrices; the products of the two are their logits.

    Teachers may have any width, but their vocabulary is the student's.
    """

    hidden: tuple[Float[Tensor, "tokens _"], ...]
    weights: tuple[Float[Tensor, "vocab _"], ...]
    share: float
    """Part of the loss that is distillation, above 0 and at most 1."""
    temperature: float = 1.0

    def probabilities(self, rows: slice) -> Float[Tensor, "rows vocab"]:
        """The mean of the teachers' distributions for these tokens, at the temperature, in fp32."""
        total = None
        for hidden, weight in zip(self.hidden, self.weights, strict=True):
            logits = (hidden[rows] @ weight.T.to(hidden.dtype)).float()
            one = torch.softmax(logits.div_(self.temperature), -1)
            total = one if total is None else total.add_(one)
        assert total is not None  # there is a teacher
        return total.div_(len(self.hidden))


class BlockedGuidedCrossEntropy(torch.autograd.Function):
    """Like BlockedCrossEntropy, it makes the gradients on the way forward, from a block's gradient of its logits z.

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
        mask, labels = RowMask.of(labels, ignores)
        wide = torch.promote_types(hidden.dtype, torch.float32)
        hidden_sum, mean_row = mask.zero_ignored(hidden).sum((0, 1), dtype=wide), weight.mean(0, dtype=wide)
        total = -from_labels * smoothing * (hidden_sum @ mean_row)
        nll, correct = torch.zeros_like(total), torch.zeros_like(total)
        hidden_gradient = torch.empty_like(hidden)
        weight_gradient = torch.zeros_like(low, dtype=wide)
        logits_of = output_product(low, passes * min(block, tokens))
        for begin, end in parts(0, tokens, stretch):
            differences = hidden.new_empty(passes, end - begin, vocab_size)
            for first, last in parts(begin, end, block):
                rows = slice(first, last)
                label = labels[rows].expand(passes, -1)[..., None]
                z = logits_of(hidden[:, rows].flatten(0, 1)).view(passes, -1, vocab_size)
                log_mass = z.logsumexp(-1, keepdim=True)
                z_label = z.gather(-1, label)
                nll += mask.zero_ignored(log_mass - z_label, rows).sum()
                correct += mask.zero_ignored((z_label == z.amax(-1, keepdim=True)).float(), rows).sum()
                of_labels = log_mass - (1 - smoothing) * z_label + z_loss * log_mass.square()
                total += from_labels * mask.zero_ignored(of_labels, rows).sum()
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
                        total += r_drop / 2 * mask.zero_ignored(mean_gap, rows).sum()
                        change[own].add_(weighed - p[own] * mean_gap + p[own] - p[other], alpha=r_drop / 2)
                rounded = differences[:, first - begin : last - begin].copy_(mask.zero_ignored(change, rows))
                hidden_gradient[:, rows] = rounded @ low
            add_product(weight_gradient, differences.flatten(0, 1), hidden[:, begin:end].flatten(0, 1))
        hidden_gradient -= mask.zero_ignored((from_labels * smoothing * mean_row).to(hidden.dtype).expand_as(hidden))
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


@dataclass(frozen=True)
class RowMask:
    """Which rows are tokens: a factor of 1 or 0 for each, or None where all are."""

    factors: Float[Tensor, "tokens 1"] | None

    @staticmethod
    def of(labels: Int[Tensor, " tokens"], ignores: bool) -> "tuple[RowMask, Int[Tensor, ' tokens']]":
        """The mask of these labels, and the labels with any piece in place of IGNORED."""
        if not ignores:
            return RowMask(None), labels
        return RowMask((labels != IGNORED)[:, None].float()), labels.clamp(min=0)

    def zero_ignored_(self, x: Float[Tensor, "rows _"], rows: slice) -> None:
        """Zero in place the rows of x that are padding; `rows` says which rows x has."""
        if self.factors is not None:
            x *= self.factors[rows]

    def zero_ignored(
        self, x: Float[Tensor, "*passes rows _"], rows: slice = slice(None)
    ) -> Float[Tensor, "*passes rows _"]:
        """x with zeros in the rows that are padding; `rows` says which rows x has."""
        return x if self.factors is None else x * self.factors[rows].to(x.dtype)


def output_product(
    matrix: Float[Tensor, "vocab model"], rows: int
) -> Callable[[Float[Tensor, "rows model"]], Float[Tensor, "rows vocab"]]:
    """A function from up to `rows` vectors to their logits in fp32 (of float64 in float64), computed in the precision
    of the output matrix. It may write each result over the last one.

    A block of logits is larger than the processor's nearest caches. In fp32 oneDNN, having laid the matrix out,
    then takes two fifths to two thirds of MKL's time on AMD's (bench/results/tried.jsonl); bf16 is oneDNN's anyway.
    """
    if matrix.dtype == torch.float32 and matrix.device.type == "cpu":
        return PackedLinear(matrix)
    room = matrix.new_empty(rows, matrix.size(0))
    wide = torch.promote_types(matrix.dtype, torch.float32)
    in_fp32 = room if matrix.dtype == wide else torch.empty_like(room, dtype=wide)

    def logits(vectors: Tensor) -> Tensor:
        product = torch.mm(vectors, matrix.T, out=room[: len(vectors)])
        return product if in_fp32 is room else in_fp32[: len(vectors)].copy_(product)

    return logits


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
