"""The log-probability of each piece of given translations.

force          pairs of strings
score_pairs    a file of pairs, with the perplexity of the whole

Teacher forcing, without a search: the model reads the whole translation at once and predicts each piece from the
given pieces before it, not from those that it would have written itself.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from weft.data.corpus import ParallelText
from weft.data.sentences import Sentences
from weft.errors import UsageError
from weft.evaluating.evaluation import describe_data, on_one_line
from weft.models.contract import Seq2Seq
from weft.text.vocabulary import BEGIN_ID, END_ID, PADDING_ID
from weft.translating.batches import check_lengths, copies_in, encode_sources
from weft.translating.translator import Translator

TOKENS_AT_ONCE = 2048
"""Target tokens whose probabilities over the whole vocabulary are in memory at once."""


@dataclass(frozen=True)
class ForcedTranslation:
    """A given pair; the last of `pieces` is </s>, and `log_probs` holds one number in nats for each of them."""

    source: str
    target: str
    pieces: tuple[str, ...]
    log_probs: tuple[float, ...]

    @property
    def log_prob(self) -> float:
        return sum(self.log_probs)

    @property
    def log_prob_per_piece(self) -> float:
        return self.log_prob / len(self.pieces)


@dataclass(frozen=True)
class ForcedSet:
    """The pairs of a data set; `data` maps file names to their sha256."""

    data: Mapping[str, str]
    translations: Sequence[ForcedTranslation]

    @property
    def pieces(self) -> int:
        """Number of pieces of all targets, including </s>."""
        return sum(len(pair.pieces) for pair in self.translations)

    @property
    def log_prob(self) -> float:
        return sum(pair.log_prob for pair in self.translations)

    @property
    def log_prob_per_piece(self) -> float:
        return self.log_prob / self.pieces

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-probability per piece. It depends on the vocabulary, so it only compares models
        with the same one."""
        return math.exp(-self.log_prob_per_piece)

    def as_dict(self) -> dict[str, Any]:
        """For JSON, with every piece of every pair."""
        return {
            "data": dict(self.data),
            "pairs": len(self.translations),
            "pieces": self.pieces,
            "log_prob": self.log_prob,
            "log_prob_per_piece": self.log_prob_per_piece,
            "perplexity": self.perplexity,
            "sentences": [
                {**vars(pair), "log_prob": pair.log_prob, "log_prob_per_piece": pair.log_prob_per_piece}
                for pair in self.translations
            ],
        }

    def table(self) -> str:
        """For a terminal."""
        return "\n".join(
            [
                f"pairs       {len(self.translations):,}",
                f"pieces      {self.pieces:,}, </s> counted",
                f"log_prob    {self.log_prob:,.2f} nats, {self.log_prob_per_piece:.4f} a piece",
                f"perplexity  {self.perplexity:.2f} a piece",
                f"data        {describe_data(self.data)}",
            ]
        )

    def rows(self) -> list[tuple[str, ...]]:
        """source, target, log_prob, pieces and log_prob per piece of each pair, under a header."""
        rows = [
            (
                on_one_line(pair.source),
                on_one_line(pair.target),
                f"{pair.log_prob:.4f}",
                str(len(pair.pieces)),
                f"{pair.log_prob_per_piece:.4f}",
            )
            for pair in self.translations
        ]
        return [("source", "target", "log_prob", "pieces", "log_prob_per_piece"), *rows]


def score_pairs(translator: Translator, pairs: ParallelText) -> ForcedSet:
    """The log-probabilities of the first reference of each pair; raises what `force` raises."""
    return ForcedSet(pairs.sha256, force(translator, pairs.sources, pairs.targets))


def force(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> list[ForcedTranslation]:
    """The log-probabilities of given translations, in order; an ensemble takes the mean of its probabilities.

    Raises UsageError if there are not as many sources as translations, for texts that are too long, and for an
    exported model.
    """
    refuse_export(translator)
    if len(sources) != len(targets):
        raise UsageError(f"{len(sources):,} sources and {len(targets):,} translations differ in number")
    if not sources:
        return []
    tokenizer = translator.model.vocabularies["target"]
    copies = [copies_in(translator.model, source) for source in sources]
    read_targets = [source.in_text(target) for source, target in zip(copies, targets, strict=True)]
    written = encode_targets(translator, read_targets)
    log_probs: list[tuple[float, ...]] = [()] * len(sources)
    read = [encode_sources(member, sources) for member in translator.members]
    with translator._computing("fp32"):
        for indices in batches(written, read):
            target = on_device(translator, written, indices)
            of_members = [
                target_log_probs(member.network, on_device(translator, own, indices), target)
                for member, own in zip(translator.members, read, strict=True)
            ]
            mean = torch.stack(of_members).logsumexp(0) - np.log(len(of_members))
            for row, index in enumerate(indices.tolist()):
                log_probs[index] = tuple(mean[row, : int(written.lengths[index]) - 1].tolist())
    return [
        ForcedTranslation(source, target, (*copied.shown(tokenizer.pieces(text)), "</s>"), of_pair)
        for source, target, copied, text, of_pair in zip(sources, targets, copies, read_targets, log_probs, strict=True)
    ]


def refuse_export(translator: Translator) -> None:
    if translator.model.network.output.weight.is_meta:
        raise UsageError(
            "given translations are scored with weft's own weights, which an export does not have; name the model "
            "it was exported from"
        )


def encode_targets(translator: Translator, texts: Sequence[str]) -> Sentences:
    """The ids of translations between <s> and </s>. Raises UsageError for texts that are too long."""
    encoded = translator.model.vocabularies["target"].encode(texts)
    check_lengths(encoded)
    refuse_without_positions(translator, encoded)
    return Sentences([[BEGIN_ID, *ids, END_ID] for ids in encoded])


def batches_of(translator: Translator, pairs: ParallelText) -> list[tuple[Tensor, Tensor]]:
    """The ids of pairs in batches, the longest first: (batch, source) and (batch, target) with <s>, for forward passes
    of the first model of a translator. Raises UsageError for an export and for texts that are too long."""
    refuse_export(translator)
    copies = [copies_in(translator.model, source) for source in pairs.sources]
    texts = [source.in_text(target) for source, target in zip(copies, pairs.targets, strict=True)]
    written, read = encode_targets(translator, texts), encode_sources(translator.model, pairs.sources)
    return [
        (on_device(translator, read, indices), on_device(translator, written, indices))
        for indices in batches(written, [read])
    ]


def on_device(translator: Translator, sentences: Sentences, indices: np.ndarray) -> Tensor:
    return torch.from_numpy(sentences.padded(indices, PADDING_ID)).to(translator.device)


def batches(written: Sentences, read: Sequence[Sentences]) -> Iterator[np.ndarray]:
    """Indices of translations, the longest first, in batches of at most TOKENS_AT_ONCE tokens; the length of a pair is
    that of its longest side for any member."""
    lengths = np.max([sentences.lengths for sentences in (written, *read)], axis=0)
    order = np.argsort(-lengths, kind="stable")
    while len(order):
        count = max(1, TOKENS_AT_ONCE // int(lengths[order[0]]))
        yield order[:count]
        order = order[count:]


def target_log_probs(
    model: Seq2Seq, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
) -> Float[Tensor, "batch target-1"]:
    """The log-probability of every token but <s>; after </s> it has no meaning."""
    log_probs = model.states(source, target[:, :-1]).log_probs(model.output)
    return log_probs.gather(2, target[:, 1:, None]).squeeze(2)


def refuse_without_positions(translator: Translator, encoded: Sequence[Sequence[int]]) -> None:
    """Raise UsageError for the first translation with more tokens than a model has learned positions."""
    learned = (member.network.config.longest for member in translator.members)
    longest = min((number for number in learned if number is not None), default=None)
    for number, ids in enumerate(encoded, start=1):
        if longest is not None and len(ids) >= longest:  # <s> takes a place
            raise UsageError(f"translation {number} has {len(ids):,} pieces; the model learns {longest:,} positions")
