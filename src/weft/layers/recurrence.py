"""Recurrent layers: the plain network (Elman 1990), the LSTM (Hochreiter and Schmidhuber 1997) and the GRU (Cho et al.
2014), each as its equations and as a layer over whole sequences.

With x the input, h the hidden state and s the logistic function, a step is

    RNN     h = tanh(W x + U h- + b)
    LSTM    i = s(W_i x + U_i h- + b_i)     input gate          c = f c- + i g
            f = s(W_f x + U_f h- + b_f)     forget gate         h = o tanh(c)
            o = s(W_o x + U_o h- + b_o)     output gate
            g = tanh(W_g x + U_g h- + b_g)  what may be added to the memory cell c
    GRU     r = s(W_r x + U_r h- + b_r)     reset gate          n = tanh(W_n x + b_n + r (U_n h- + b_m))
            z = s(W_z x + U_z h- + b_z)     update gate         h = (1 - z) n + z h-

The GRU is that of cuDNN and torch, whose r is applied after the product, so that each step has one product U h-.

`CELLS` has the equations, `recur_explicit` repeats them, and `recur` (fast/recurrence.py) is the same with a gradient
by hand. `Recurrence` is the layer, in one direction or both.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional as F

from weft.layers.fast.deferred_product import Deferred
from weft.layers.fast.recurrence import KERNELS, RecurrentStep, recur

State = tuple[Float[Tensor, "batch state"], ...]
"""(h,) of an RNN or a GRU, (h, c) of an LSTM; both directions side by side, forward first."""


def rnn_step(projected: Tensor, state: tuple[Tensor, ...], weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
    return (torch.tanh(projected + state[0] @ weight.mT),)


def lstm_step(projected: Tensor, state: tuple[Tensor, ...], weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
    h, c = state
    i, f, o, g = (projected + h @ weight.mT).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru_step(projected: Tensor, state: tuple[Tensor, ...], weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
    (h,) = state
    (w_r, w_z, w_n), (u_r, u_z, u_n) = projected.chunk(3, dim=-1), (h @ weight.mT).chunk(3, dim=-1)
    r, z = (w_r + u_r).sigmoid(), (w_z + u_z).sigmoid()
    n = torch.tanh(w_n + r * (u_n if bias is None else u_n + bias[:, None]))
    return ((1 - z) * n + z * h,)


@dataclass(frozen=True)
class Cell:
    """A step (projected, state, weight, bias) -> state after it, where `projected` is W x + b for all gates, `weight`
    is U and `bias` is b_m; the tensors are (directions, batch, ...)."""

    step: Callable[[Tensor, tuple[Tensor, ...], Tensor, Tensor | None], tuple[Tensor, ...]]
    gates: int
    states: int


CELLS = {
    "rnn": Cell(rnn_step, gates=1, states=1),
    "lstm": Cell(lstm_step, gates=4, states=2),
    "gru": Cell(gru_step, gates=3, states=1),
}


def recur_explicit(
    cell: str,
    projected: Float[Tensor, "directions time batch gates"],
    weight: Float[Tensor, "directions gates width"],
    bias: Float[Tensor, "directions width"] | None,
    begin: tuple[Float[Tensor, "directions batch width"], ...],
) -> tuple[Float[Tensor, "directions time batch width"], ...]:
    """Each state after every step."""
    state, after = begin, []
    for step in projected.unbind(1):
        state = CELLS[cell].step(step, state, weight, bias)
        after.append(state)
    return tuple(torch.stack(of_steps, dim=1) for of_steps in zip(*after, strict=True))


class Recurrence(nn.Module):
    """A recurrent layer over a batch of sequences, in one direction or in both.

    Parameters are fp32. Products are taken in the precision of the input; states and gates are fp32 (float64 for
    float64). Gates stand below each other in the order r, z, n or i, f, o, g, the backward direction after the forward
    one.
    """

    def __init__(self, inputs: int, width: int, *, cell: str = "lstm", bidirectional: bool = False) -> None:
        super().__init__()
        self.cell, self.width, self.directions = cell, width, 2 if bidirectional else 1
        rows = self.directions * CELLS[cell].gates * width
        self.weight = nn.Parameter(torch.empty(rows, inputs))
        self.bias = nn.Parameter(torch.empty(rows))
        self.recurrent_weight = nn.Parameter(torch.empty(rows, width))
        # Where the two products are only added to each other, one bias is enough.
        self.recurrent_bias = None if KERNELS[cell].adds else nn.Parameter(torch.empty(self.directions * width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier's distribution for each gate; biases of zero, but one for the forget gate, so that an LSTM begins by
        remembering (Jozefowicz et al. 2015)."""
        for weight in (self.weight, self.recurrent_weight):
            for gate in weight.unflatten(0, (-1, self.width)).unbind():
                nn.init.xavier_uniform_(gate)
        for bias in (self.bias, self.recurrent_bias):
            if bias is not None:
                nn.init.zeros_(bias)
        if self.cell == "lstm":
            nn.init.ones_(self.bias.data.unflatten(0, (self.directions, 4, -1))[:, 1])

    def forward(
        self,
        x: Float[Tensor, "batch time inputs"],
        state: State | None = None,
        mask: Bool[Tensor, "batch time"] | None = None,
        kept: Float[Tensor, "rows width"] | None = None,
    ) -> tuple[Float[Tensor, "batch time outputs"], State]:
        """The hidden vectors of all places, forward and backward side by side, and the states after the last step.

        `state` is the one before the first step; left out, it is zero. `mask` is True at tokens, which come before the
        padding; there the outputs are zero, and the states stay what they were at the last token. The backward
        direction begins at the last token of each row, so a sentence has the same vectors in every batch. `kept` is
        multiplied with the recurrent matrix (weight drop: Merity et al. 2018; `drawn_weight_mask`).
        """
        by_time = x.transpose(0, 1)  # (time, batch, inputs)
        lengths = torch.full((len(x),), x.size(1), device=x.device) if mask is None else mask.sum(1)
        order = reversal(lengths, x.size(1)) if self.directions == 2 else None
        read = by_time[None] if order is None else torch.stack([by_time, Permuted.apply(by_time, order)])
        b = self.bias.to(x.dtype).view(self.directions, 1, -1)
        weight = self.weight.to(x.dtype).unflatten(0, (self.directions, -1))
        projected = torch.baddbmm(b, read.flatten(1, 2), weight.mT).unflatten(1, read.shape[1:3])
        begin = self.begin(state, x)
        states = recur(self.cell, projected, *self.recurrent(x.dtype, kept), begin)
        hidden = states[0].to(x.dtype)
        out = hidden[0] if order is None else torch.cat([hidden[0], Permuted.apply(hidden[1], order)], dim=-1)
        out = out.transpose(0, 1).contiguous()  # without gradients a product with the view takes torch 60 times as long
        return (
            out if mask is None else out * mask[..., None],
            tuple(at_the_end(of_steps, first, lengths) for of_steps, first in zip(states, begin, strict=True)),
        )

    def recurrent(
        self, dtype: torch.dtype, kept: Float[Tensor, "rows width"] | None = None
    ) -> tuple[Float[Tensor, "directions gates width"], Float[Tensor, "directions width"] | None]:
        """The recurrent matrix and the bias in its product, in the precision of the products."""
        weight = self.recurrent_weight if kept is None else self.recurrent_weight * kept
        bias = (
            None if self.recurrent_bias is None else self.recurrent_bias.to(dtype).unflatten(0, (self.directions, -1))
        )
        return weight.to(dtype).unflatten(0, (self.directions, -1)), bias

    def begin(
        self, state: State | None, x: Float[Tensor, "batch time inputs"]
    ) -> tuple[Float[Tensor, "directions batch width"], ...]:
        """The states before the first step, by direction; zero if there are none."""
        wide = torch.promote_types(x.dtype, torch.float32)
        if state is None:
            state = (x.new_zeros(len(x), self.directions * self.width),) * CELLS[self.cell].states
        return tuple(each.to(wide).unflatten(1, (self.directions, -1)).transpose(0, 1) for each in state)


class Stepper:
    """A layer in one direction, step by step, where an input depends on the step before.

    `project` computes what the first `known` inputs add to the gates, for all steps at once.
    """

    def __init__(
        self, layer: Recurrence, dtype: torch.dtype, kept: Float[Tensor, "rows width"] | None = None, known: int = 0
    ) -> None:
        self.cell, self.known, self.adds = layer.cell, known, KERNELS[layer.cell].adds
        weight, self.bias = layer.weight.to(dtype), layer.bias.to(dtype)
        recurrent, bias = layer.recurrent(dtype, kept)
        self.of_known, fed = weight[:, :known], weight[:, known:]
        # One product of x and h where the two are only added to each other, else one of each.
        self.weight = Deferred(torch.cat([fed, recurrent[0]], dim=1) if self.adds else fed)
        self.recurrent, self.recurrent_bias = Deferred(recurrent[0]), None if bias is None else bias[0]

    def project(self, known: Float[Tensor, "*steps known"]) -> Float[Tensor, "*steps gates"]:
        return F.linear(known, self.of_known, self.bias)

    def __call__(
        self, x: Float[Tensor, "rows inputs"], state: State, projected: Float[Tensor, "rows gates"] | None = None
    ) -> tuple[Float[Tensor, "rows width"], State]:
        """The hidden vectors and the state; `projected` is what `project` made of the known part of x."""
        if projected is None:
            projected = self.project(x[:, : self.known]) if self.known else self.bias
        fed, hidden = x[:, self.known :], state[0].to(x.dtype)
        if self.adds:
            projected = product = projected + self.weight(torch.cat([fed, hidden], dim=1))
        else:
            projected = projected + self.weight(fed)
            product = self.recurrent(hidden)
        if self.recurrent_bias is not None:
            product = product + F.pad(self.recurrent_bias, (product.size(1) - len(self.recurrent_bias), 0))
        after = RecurrentStep.apply(self.cell, projected, product, *state)
        return after[0].to(x.dtype), after


def at_the_end(
    of_steps: Float[Tensor, "directions time batch width"],
    first: Float[Tensor, "directions batch width"],
    lengths: Int[Tensor, " batch"],
) -> Float[Tensor, "batch state"]:
    """The state after the last token of each row, both directions side by side; the first one if there is no token."""
    place = (lengths - 1).clamp(min=0)[None, None, :, None].expand(len(first), 1, -1, first.size(-1))
    last = torch.where(lengths[None, :, None] > 0, of_steps.gather(1, place)[:, 0], first)
    return last.transpose(0, 1).flatten(1)


def reversal(lengths: Int[Tensor, " batch"], time: int) -> Int[Tensor, " rows"]:
    """Row numbers, time first, that reverse the tokens of each sequence and leave its padding at the end."""
    steps = torch.arange(time, device=lengths.device)[:, None]
    places = torch.where(steps < lengths, lengths - 1 - steps, steps)  # (time, batch)
    return (places * len(lengths) + torch.arange(len(lengths), device=lengths.device)).flatten()


class Permuted(torch.autograd.Function):
    """x[order] for an order that is its own inverse, so the gradient is one, too; torch's scatters and adds."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return x.flatten(0, 1).index_select(0, order).view(x.shape)

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (order,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return gradients[0].flatten(0, 1).index_select(0, order).view(gradients[0].shape), None


def drawn_weight_mask(
    layer: Recurrence, probability: float, generator: torch.Generator | None = None
) -> Float[Tensor, "rows width"]:
    """A mask for `Recurrence.forward`, to be drawn once a batch: 0 with this probability, else 1 / (1 - probability).

    It is drawn on the CPU, so that processes that train together draw the same from one seed.
    """
    kept = torch.rand(layer.recurrent_weight.shape, generator=generator) >= probability
    return kept.to(layer.recurrent_weight) / (1 - probability)
