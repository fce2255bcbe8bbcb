"""How much each attention head matters (Michel et al. 2019), what it reads, and which heads pruning takes first.

gradient   |dL/d xi_h|, the size of the derivative of a sentence's loss by the gate of a head, summed over sentences and
           divided by the target tokens; then by the length of the vector of all heads of its attention, as gradients of
           different layers have different scales
ablation   what the loss rises by without the head
L is in nats a target token, </s> counted, without label smoothing or dropout.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from weft.data.corpus import ParallelText
from weft.errors import UsageError
from weft.evaluating.forced import batches_of, target_log_probs
from weft.evaluating.parts import Tell
from weft.figures.table import Table, signed
from weft.layers.attention import MultiHeadAttention, attention_weights
from weft.models.memories.modern import effective_patterns, regime
from weft.models.pruning import Head, Place, attentions, gated, heads_of, masked
from weft.models.transformer import Transformer
from weft.text.vocabulary import PADDING_ID
from weft.translating.batches import computing_in
from weft.translating.translator import Translator

Batches = Sequence[tuple[Tensor, Tensor]]
T = TypeVar("T")


@dataclass(frozen=True)
class HeadReport:
    """What is known about the heads of a model from the pairs of a data set."""

    data: Mapping[str, str]
    pairs: int
    loss: float
    importance: Mapping[str, Mapping[Head, float]]
    """By gradient and by ablation, the importance of every head."""
    reads: Mapping[Head, tuple[str, float]]
    """What a head does with the tokens it sees (`regime`), and the median of how many it takes."""

    def as_dict(self) -> dict[str, Any]:
        heads = [
            {
                "kind": head.place.kind,
                "layer": head.place.layer + 1,
                "head": head.number + 1,
                **{by: of[head] for by, of in self.importance.items()},
                "does": self.reads[head][0],
                "tokens": self.reads[head][1],
            }
            for head in self.reads
        ]
        return {"data": dict(self.data), "pairs": self.pairs, "loss": self.loss, "heads": heads}

    @property
    def places(self) -> list[Place]:
        return list(dict.fromkeys(head.place for head in self.reads))

    def rows(self, of: Mapping[Head, T], missing: T) -> list[list[T]]:
        """Numbers of heads, a row for each of `places` and a column for each head; where one was cut out, `missing`."""
        most = max(head.number for head in self.reads) + 1
        return [[of.get(Head(place, number), missing) for number in range(most)] for place in self.places]

    def tables(self) -> list[Table]:
        """What is measured and what the heads read, a row for each attention."""
        gradient, ablation = self.importance["gradient"], self.importance["ablation"]
        return [
            self._table(
                "Importance by gradient",
                {head: f"{value:.2f}" for head, value in gradient.items()},
                "|dL/d gate|; the squares of a row sum to 1",
            ),
            self._table(
                "Importance by ablation",
                {head: signed(1000 * value, 1) for head, value in ablation.items()},
                f"what the loss, {self.loss:.4f}, rises by without the head, in thousandths of a nat a token",
            ),
            self._table(
                "What heads read",
                {head: f"{does[0]} {tokens:.1f}" for head, (does, tokens) in self.reads.items()},
                "median number of tokens that a query attends to, exp of the entropy of its weights; r: about one "
                "(retrieves), c: some (clusters), a: most of those it may see (averages)",
            ),
        ]

    def _table(self, title: str, cells: Mapping[Head, str], note: str) -> Table:
        rows = [(str(place), *row) for place, row in zip(self.places, self.rows(cells, ""), strict=True)]
        return Table(title, ("attention", *(f"head {number}" for number in range(1, len(rows[0])))), rows, [note])


def transformer_of(translator: Translator, verb: str) -> Transformer:
    """The network of a translator, if it is a Transformer; raises UsageError for another."""
    network = translator.model.network
    if not isinstance(network, Transformer):
        raise UsageError(f'{verb} needs a Transformer; this model is of the kind "{network.config.kind}"')
    return network


def examine_heads(translator: Translator, pairs: ParallelText, tell: Tell = lambda done, total: None) -> HeadReport:
    """Measure every head on these pairs; `tell` hears how many of the heads were left out so far."""
    network, batches = transformer_of(translator, "weft inspect heads"), batches_of(translator, pairs)
    with computing_in(network, torch.float32):
        importance = {
            "gradient": importance_by_gradient(network, batches),
            "ablation": importance_by_ablation(network, batches, tell),
        }
        reads = what_heads_read(network, batches)
        return HeadReport(pairs.sha256, len(pairs), loss_of(network, batches), importance, reads)


def loss_of(network: Transformer, batches: Batches) -> float:
    """Mean nats a target token."""
    with torch.inference_mode():
        lost = [losses(network, *batch).sum() for batch in batches]
    return float(torch.stack(lost).sum()) / tokens_in(batches)


def losses(network: Transformer, source: Tensor, target: Tensor) -> Tensor:
    """-log p of every target token, 0 at padding; (batch, target - 1)."""
    return -target_log_probs(network, source, target) * (target[:, 1:] != PADDING_ID)


def tokens_in(batches: Batches) -> int:
    return sum(int((target[:, 1:] != PADDING_ID).sum()) for _, target in batches)


def importance_by_gradient(network: Transformer, batches: Batches) -> dict[Head, float]:
    """Sentences of a batch have gates of their own, so one backward pass gives the gradients of each."""
    places = attentions(network)
    sums = {place: torch.zeros(attention.num_heads) for place, attention in places.items()}
    for source, target in batches:
        gates = {
            place: torch.ones(len(source), attention.num_heads, device=source.device, requires_grad=True)
            for place, attention in places.items()
        }
        with gated(network, gates):
            found = torch.autograd.grad(losses(network, source, target).sum(), list(gates.values()))
        for place, gradient in zip(gates, found, strict=True):
            sums[place] += gradient.abs().sum(0).cpu()
    shares = {place: of / of.norm().clamp(min=1e-30) for place, of in sums.items()}
    return {Head(place, number): value for place, of in shares.items() for number, value in enumerate(of.tolist())}


def importance_by_ablation(
    network: Transformer, batches: Batches, tell: Tell = lambda done, total: None
) -> dict[Head, float]:
    """`tell` hears how many heads were left out so far, and the number of all."""
    whole, found = loss_of(network, batches), {}
    for number, head in enumerate(heads := heads_of(network), 1):
        with masked(network, [head]):
            found[head] = loss_of(network, batches) - whole
        tell(number, len(heads))
    return found


def to_prune(importance: Mapping[Head, float], share: float) -> list[Head]:
    """The least important heads, as many as this share of all; the last head of an attention stays.

    Raises UsageError where that leaves too few to take.
    """
    left: dict[Place, int] = {}
    for head in importance:
        left[head.place] = left.get(head.place, 0) + 1
    wanted, most = round(share * len(importance)), len(importance) - len(left)
    if wanted > most:
        raise UsageError(
            f"{wanted} of {len(importance)} heads cannot be cut out: each of the {len(left)} attentions keeps one, so "
            f"at most {most / len(importance):.0%} can"
        )
    chosen: list[Head] = []
    for head in sorted(importance, key=lambda one: (importance[one], one)):
        if len(chosen) < wanted and left[head.place] > 1:
            left[head.place] -= 1
            chosen.append(head)
    return chosen


def what_heads_read(network: Transformer, batches: Batches) -> dict[Head, tuple[str, float]]:
    """For each head what it does with the tokens that a query may see, and how many it takes (models/memories)."""
    effective: dict[Place, list[Tensor]] = {}
    allowed: dict[Place, list[Tensor]] = {}
    is_query = torch.empty(0)

    def observer(place: Place) -> Callable[[MultiHeadAttention, tuple[Any, ...], Any], None]:
        def observe(module: MultiHeadAttention, inputs: tuple[Any, ...], _: Any) -> None:
            x, memory, mask = inputs
            query = module.settle(module.project_query(x), key := module.project_memory(memory)[0], mask)
            queries = is_query if place.kind != "encoder" else mask[:, 0, 0]
            of_heads = effective_patterns(attention_weights(query, key, mask)).transpose(1, 2)  # (batch, query, heads)
            effective.setdefault(place, []).append(of_heads[queries])
            seen = mask[:, 0].sum(-1).expand(queries.shape)[queries]
            allowed.setdefault(place, []).append(seen.to(of_heads.dtype))

        return observe

    with ExitStack() as stack, torch.inference_mode():
        for place, attention in attentions(network).items():
            stack.callback(attention.register_forward_hook(observer(place)).remove)
        for source, target in batches:
            is_query = target[:, 1:] != PADDING_ID
            network.states(source, target[:, :-1])
    return {
        Head(place, number): (regime(of_head, seen), float(of_head.median()))
        for place in attentions(network)
        for seen in [torch.cat(allowed[place])]
        for number, of_head in enumerate(torch.cat(effective[place]).unbind(1))
    }
