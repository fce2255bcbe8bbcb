"""What the lower layers of a Transformer already know: its loss, accuracy and BLEU without the top layers of one stack.

The last norm and the output are the model's own and read what the highest layer that is left gives out; no weight is
trained for it. A model that was trained with all layers can do less with fewer than one trained with fewer.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from weft.data.corpus import ParallelText
from weft.evaluating.evaluation import evaluate
from weft.evaluating.forced import batches_of
from weft.evaluating.heads import Batches, tokens_in, transformer_of
from weft.evaluating.parts import Tell
from weft.figures.table import Table
from weft.folders.model_folder import Learned
from weft.models.transformer import Transformer
from weft.text.vocabulary import PADDING_ID
from weft.translating.batches import computing_in
from weft.translating.translator import Translator


@dataclass(frozen=True)
class Depth:
    """Results with this many encoder and decoder layers."""

    encoder: int
    decoder: int
    loss: float
    """Nats a target token, </s> counted."""
    accuracy: float
    """Share of the target tokens that are the most probable ones, given those before them in the reference."""
    bleu: float
    """sacreBLEU of greedy search."""


@dataclass(frozen=True)
class LayerReport:
    data: Mapping[str, str]
    pairs: int
    signature: str
    depths: list[Depth]
    """The whole model first, then fewer and fewer layers of the encoder, then of the decoder."""

    @property
    def whole(self) -> Depth:
        return self.depths[0]

    def of_stack(self, stack: str) -> list[Depth]:
        """The depths of one stack, from the whole model down."""
        other = "decoder" if stack == "encoder" else "encoder"
        return [depth for depth in self.depths if getattr(depth, other) == getattr(self.whole, other)]

    def as_dict(self) -> dict[str, Any]:
        depths = [vars(depth) for depth in self.depths]
        return {"data": dict(self.data), "pairs": self.pairs, "signature": self.signature, "depths": depths}

    def table(self) -> Table:
        rows = [
            (f"{one.encoder}+{one.decoder}", f"{one.loss:.3f}", f"{one.accuracy:.1%}", f"{one.bleu:.2f}")
            for one in self.depths
        ]
        notes = [
            "the top layers of one stack are left out; the last norm and the output are those of the whole model",
            f"greedy search; {self.signature}; {self.pairs:,} pairs",
        ]
        return Table("Layers", ("encoder+decoder", "loss", "accuracy", "sacreBLEU"), rows, notes)


def examine_layers(translator: Translator, pairs: ParallelText, tell: Tell = lambda done, total: None) -> LayerReport:
    """Measure a model on these pairs with every number of encoder layers, also none, and of decoder layers.

    `tell` hears how many depths were measured so far.
    """
    network, batches = transformer_of(translator, "weft inspect layers"), batches_of(translator, pairs)
    layers = len(network.encoder), len(network.decoder)
    depths = [(number, layers[1]) for number in range(layers[0], -1, -1)]
    depths += [(layers[0], number) for number in range(layers[1] - 1, 0, -1)]
    found, signature = [], ""
    for number, depth in enumerate(depths, 1):
        short = shortened(network, *depth)
        loss, accuracy = loss_and_accuracy(short, batches)
        own = Translator(Learned(translator.model.resolved, short, translator.model.vocabularies), translator.device)
        score = evaluate(own, pairs, method="greedy").scores["sacrebleu"]
        found.append(Depth(*depth, loss, accuracy, score.value))
        signature = score.signature
        tell(number, len(depths))
    return LayerReport(pairs.sha256, len(pairs), signature, found)


def shortened(network: Transformer, encoder: int, decoder: int) -> Transformer:
    """The network with this many of the lowest layers of each stack, on the same weights."""
    short = copy.copy(network)
    short._modules = dict(network._modules)  # a shallow copy has the very same table of submodules
    short.encoder, short.decoder = nn.ModuleList(network.encoder[:encoder]), nn.ModuleList(network.decoder[:decoder])
    short.repack()
    return short


def loss_and_accuracy(network: Transformer, batches: Batches) -> tuple[float, float]:
    """Nats a target token, and the share of them that are the most probable ones."""
    lost = right = 0.0
    with computing_in(network, torch.float32), torch.inference_mode():
        for source, target in batches:
            log_probs = network.states(source, target[:, :-1]).log_probs(network.output)
            wanted, is_token = target[:, 1:], target[:, 1:] != PADDING_ID
            lost -= float((log_probs.gather(2, wanted[:, :, None])[:, :, 0] * is_token).sum())
            right += float(((log_probs.argmax(-1) == wanted) & is_token).sum())
    return lost / tokens_in(batches), right / tokens_in(batches)
