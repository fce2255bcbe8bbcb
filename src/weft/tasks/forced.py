"""What a model makes of translations that it is given: the log-probability of each piece of them.

Teacher forcing, without a search: the model reads the whole translation at once and is asked at every place how
probable the next piece is. What stands before a piece is what was given, not what the model would have written.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from weft.data.sentences import Sentences
from weft.errors import UsageError
from weft.models.transformer import Transformer
from weft.tasks.translation import Translator, computing_in, encode_sources, refuse_too_long
from weft.text.vocabulary import BEGIN_ID, END_ID, PADDING_ID

TOKENS_AT_ONCE = 2048
"""Of the translations, whose probabilities over the whole vocabulary are in memory together."""


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


def force(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> list[ForcedTranslation]:
    """The log-probabilities of these translations of these sources, in order; of an ensemble, of its mean.

    Raises UsageError for unequal numbers of them and for texts that are too long.
    """
    if len(sources) != len(targets):
        raise UsageError(f"{len(sources):,} sources and {len(targets):,} translations are not as many")
    if not sources:
        return []
    tokenizer = translator.model.target_tokenizer
    encoded = tokenizer.encode(targets)
    refuse_too_long(encoded)
    refuse_without_positions(translator, encoded)
    written = Sentences([[BEGIN_ID, *ids, END_ID] for ids in encoded])
    log_probs: list[tuple[float, ...]] = [()] * len(sources)
    read = [encode_sources(member, sources) for member in translator.members]
    with ExitStack() as stack, torch.inference_mode():
        for member in translator.members:
            stack.enter_context(computing_in(member.model, torch.float32))
        for indices in batches(written):
            target = torch.from_numpy(written.padded(indices, PADDING_ID)).to(translator.device)
            of_members = [
                of_given(member.model, torch.from_numpy(own.padded(indices, PADDING_ID)).to(translator.device), target)
                for member, own in zip(translator.members, read, strict=True)
            ]
            mean = torch.stack(of_members).logsumexp(0) - np.log(len(of_members))
            for row, index in enumerate(indices.tolist()):
                log_probs[index] = tuple(mean[row, : int(written.lengths[index]) - 1].tolist())
    return [
        ForcedTranslation(source, target, (*tokenizer.pieces(target), "</s>"), of_pair)
        for source, target, of_pair in zip(sources, targets, log_probs, strict=True)
    ]


def batches(written: Sentences) -> Iterator[np.ndarray]:
    """Indices of translations, the longest first, as many at once as TOKENS_AT_ONCE allows."""
    order = np.argsort(-written.lengths, kind="stable")
    while len(order):
        count = max(1, TOKENS_AT_ONCE // int(written.lengths[order[0]]))
        yield order[:count]
        order = order[count:]


def of_given(
    model: Transformer, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
) -> Float[Tensor, "batch target-1"]:
    """The log-probability of every token but <s>; behind </s> it means nothing."""
    logits = model(source, target[:, :-1])
    return F.log_softmax(logits.float(), -1).gather(2, target[:, 1:, None]).squeeze(2)


def refuse_without_positions(translator: Translator, encoded: Sequence[Sequence[int]]) -> None:
    """Raise UsageError for the first translation that is longer than the positions that a model has learned."""
    learned = (member.model.config.longest_sentence for member in translator.members)
    longest = min((number for number in learned if number is not None), default=None)
    for number, ids in enumerate(encoded, start=1):
        if longest is not None and len(ids) >= longest:  # <s> takes a place
            raise UsageError(f"translation {number} has {len(ids):,} pieces; the model learns {longest:,} positions")
