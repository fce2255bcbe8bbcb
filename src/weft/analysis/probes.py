"""Experiments on a trained network that tell what is wrong with a run, each with the number that it measures.

    exact probes    change what a prediction must not depend on: later tokens, padding
    readings        the loss as it is, with the sources of other pairs, and of answers that read nothing
    one batch       train a copy on one batch, which any sound network learns by heart

They know networks by their contract (models/contract.py). What the numbers mean is decided in symptoms.py.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from weft.data.batching import Batch
from weft.data.doctor.alignment import FARTHEST, STRETCHES, align, blocks_out_of_step, joined
from weft.data.lines import LineBatch
from weft.data.measures import tokens
from weft.data.sentences import Sentences
from weft.tasks.suspicion import with_other_end
from weft.text.language import is_in_words_of_characters, is_written_without_spaces
from weft.text.vocabulary import BEGIN_ID, PADDING_ID
from weft.training.eager import Adam

PROBED_ROWS = 8
"""Rows of the exact probes."""
READ_ROWS = 400
"""Rows of which losses are measured."""
LEARNED_ROWS, LEARNING_STEPS, LEARNING_RATE = 16, 60, 1e-3
"""The batch that a copy learns by heart, and the rate of a network that is 256 wide; wider ones want lower rates."""
ALIGNED_PAIRS = 6_000
"""Consecutive pairs from which a lexicon is learned."""
MOST_ENTRIES = 100_000_000
"""Log-probabilities that exist at the same time."""


class PairReader:
    """The predictions of a translation network for a batch of pairs."""

    has_source = True

    def target(self, batch: Batch) -> Int[Tensor, "batch time"]:
        return batch.target

    def log_probs(self, network: Any, batch: Any, target: Int[Tensor, "batch time"]) -> Tensor:
        return network.states(batch.source, target[:, :-1]).log_probs(network.output)


class TextReader:
    """The predictions of a language model for a batch of texts."""

    has_source = False

    def target(self, batch: LineBatch) -> Int[Tensor, "batch time"]:
        return batch.tokens

    def log_probs(self, network: Any, batch: Any, target: Int[Tensor, "batch time"]) -> Tensor:
        return F.log_softmax(network.output(network(target[:, :-1])).float(), -1)


Reader = PairReader | TextReader
READERS: dict[str, type[PairReader] | type[TextReader]] = {"translation": PairReader, "language-model": TextReader}
"""By task; other tasks have no probes."""


# Exact probes


@torch.inference_mode()
def is_finite(reader: Reader, network: Any, batch: Any) -> bool:
    """Whether each token of the target has a probability above zero."""
    target = reader.target(batch)
    label_log_probs = picked(reader.log_probs(network, batch, target), target[:, 1:])
    return bool(label_log_probs[target[:, 1:] != PADDING_ID].isfinite().all())


@torch.inference_mode()
def moved_by_later_tokens(reader: Reader, network: Any, batch: Any) -> float:
    """The largest change of a log-probability in the first half of a target when the tokens of its second half are
    exchanged. A network that is asked from left to right changes nothing."""
    target = reader.target(batch)
    half, changed = target.size(1) // 2, with_other_end(target, len(network.output.weight))
    before, after = (reader.log_probs(network, batch, each)[:, :half] for each in (target, changed))
    return largest(before - after)


@torch.inference_mode()
def moved_by_padding(reader: Reader, network: Any, batch: Batch) -> float | None:
    """The largest change of a log-probability when twice as many places hold the same sources; None if the network has
    no positions for more. (Padding of a target comes last, so it is among the later tokens.)"""
    length = min(2 * batch.source.size(1), network.config.longest or math.inf)
    if length == batch.source.size(1):
        return None
    longer = Batch(F.pad(batch.source, (0, int(length) - batch.source.size(1)), value=PADDING_ID), batch.target)
    before, after = (reader.log_probs(network, each, batch.target) for each in (batch, longer))
    return largest((before - after)[batch.target[:, 1:] != PADDING_ID])


def largest(change: Tensor) -> float:
    found = float(change.abs().max()) if change.numel() else 0.0
    return found if math.isfinite(found) else math.inf


# Readings


@dataclass(frozen=True)
class Reading:
    """Means over the target tokens of some rows, in nats."""

    rows: int
    nll: float
    gap: float | None
    """What the right source saves over that of another pair, of about the same length, and ..."""
    gap_error: float | None
    """... its standard error, over the rows."""
    nll_before: float
    """Loss of the token that stands before the one to predict."""
    nll_after: float
    """Loss of the token that stands after the one to predict."""


@torch.inference_mode()
def read(reader: Reader, network: Any, batches: Iterator[Any], rows: int = READ_ROWS) -> Reading:
    """Predict the targets of the first `rows` rows of these batches."""
    nll, shuffled, lengths, before, after = [], [], [], [], []
    for batch in (part for whole in batches for part in small_parts(reader, network, whole)):
        target = reader.target(batch)
        labels, is_token = target[:, 1:], target[:, 1:] != PADDING_ID
        found = reader.log_probs(network, batch, target)
        of_label = sum_over_rows(picked(found, labels), is_token)
        nll.append(-of_label)
        lengths.append(is_token.sum(1))
        inner = is_token[:, 1:]  # places with a token before them that is a label too, and with one after them
        before.append(torch.stack([-picked(found[:, 1:], labels[:, :-1])[inner].sum(), inner.sum()]))
        after.append(torch.stack([-picked(found[:, :-1], labels[:, 1:])[inner].sum(), inner.sum()]))
        if reader.has_source and len(target) > 1:
            rolled = Batch(batch.source.roll(1, 0), batch.target)
            shuffled.append(-sum_over_rows(picked(reader.log_probs(network, rolled, target), labels), is_token))
        else:
            shuffled.append(nll[-1])
        if sum(map(len, nll)) >= rows:
            break
    per_row, others, counts = torch.cat(nll), torch.cat(shuffled), torch.cat(lengths)
    count = int(counts.sum())
    saved = (others - per_row) / counts.clamp(min=1)
    beside, behind = (torch.stack(each).sum(0) for each in (before, after))
    has_gap = reader.has_source and len(saved) > 1
    return Reading(
        rows=len(per_row),
        nll=float(per_row.sum()) / count,
        gap=float(others.sum() - per_row.sum()) / count if has_gap else None,
        gap_error=float(saved.std()) / math.sqrt(len(saved)) if has_gap else None,
        nll_before=float(beside[0] / beside[1].clamp(min=1)),
        nll_after=float(behind[0] / behind[1].clamp(min=1)),
    )


def small_parts(reader: Reader, network: Any, batch: Any) -> Iterator[Any]:
    """Split a batch into parts whose log-probabilities fit into memory."""
    entries = reader.target(batch).numel() * network.output.weight.size(0)
    yield from batch.chunk(1 + entries // MOST_ENTRIES)


def picked(log_probs: Float[Tensor, "batch time v"], labels: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time"]:
    return log_probs.gather(-1, labels[..., None])[..., 0]


def sum_over_rows(values: Float[Tensor, "batch time"], counted: Bool[Tensor, "batch time"]) -> Float[Tensor, " batch"]:
    return values.masked_fill(~counted, 0.0).sum(1)


# One batch


def learn_one_batch(reader: Reader, network: Any, batch: Any) -> tuple[float, float]:
    """The loss of a batch, without dropout, before and after a copy of the network has trained on it alone."""
    learner = copy.deepcopy(network)
    target = reader.target(batch)
    labels = target[:, 1:]
    is_token = labels != PADDING_ID

    def loss() -> Tensor:
        return -picked(reader.log_probs(learner, batch, target), labels)[is_token].mean()

    def plain_loss() -> float:
        learner.eval()
        with torch.no_grad():
            return float(loss())

    begin = plain_loss()
    rate = LEARNING_RATE * math.sqrt(256 / network.config.width)
    optimizer = Adam([p for p in learner.parameters() if p.requires_grad], lr=rate)
    learner.train()
    for step in range(1, LEARNING_STEPS + 1):
        optimizer.param_groups[0]["lr"] = rate * min(1.0, step / 10)
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    return begin, plain_loss()


# The data


@dataclass(frozen=True)
class Baselines:
    """Answers that read nothing."""

    unigram: float
    """Entropy of the training targets, in nats."""
    constant: float
    """Accuracy of always their most frequent piece on the held-out targets."""


def baselines(train: Sentences, valid: Sentences, vocab_size: int) -> Baselines:
    counts, held = counts_of(train, vocab_size), counts_of(valid, vocab_size)
    shares = counts[counts > 0] / counts.sum()
    return Baselines(-float((shares * np.log(shares)).sum()), float(held[int(counts.argmax())] / held.sum()))


def counts_of(targets: Sentences, vocab_size: int) -> np.ndarray:
    """How often each piece is predicted."""
    counts = np.bincount(targets.ids, minlength=vocab_size).astype(np.float64)
    counts[BEGIN_ID] = 0
    return counts


def copy_accuracy(sources: Sequence[str], targets: Sequence[str]) -> float:
    """The share of the words of these targets that stand in their source at the same place."""
    pairs = [(tokens(source), tokens(target)) for source, target in zip(sources, targets, strict=True)]
    same = sum(one == other for source, target in pairs for one, other in zip(source, target, strict=False))
    return same / max(1, sum(len(target) for _, target in pairs))


def share_known(train: Sequence[Sentences], valid: Sequence[Sentences]) -> float:
    """The share of the held-out rows whose columns hold the same pieces as those of a training row."""
    return float(np.isin(keys_of(valid), keys_of(train)).mean())


def keys_of(columns: Sequence[Sentences]) -> np.ndarray:
    """A number for each row, of the first million, that hardly any row with other pieces has."""
    keys = np.zeros(min(len(columns[0]), 1_000_000), np.uint64)
    for number, column in enumerate(columns):
        ids = column.ids[: column.offsets[len(keys)]]
        of_piece = np.random.default_rng(number).integers(2**63, size=int(ids.max(initial=0)) + 1, dtype=np.uint64)
        keys += np.add.reduceat(of_piece[ids], column.offsets[: len(keys)])  # no row is empty: each ends in </s>
    return keys


def share_of_capitals(texts: Sequence[str]) -> float | None:
    """Capitals among the letters that have both cases; None if there are hardly any."""
    text = "".join(texts)
    upper, lower = sum(map(str.isupper, text)), sum(map(str.islower, text))
    return upper / (upper + lower) if upper + lower >= 200 else None


@dataclass(frozen=True)
class Togetherness:
    """Whether the sides of consecutive pairs translate each other."""

    separation: float
    """Probability that a pair scores higher than a wrong one, by a lexicon learned from these pairs."""
    out_of_step: float
    """Share of the pairs that stand in a block whose targets belong to sources some lines away, and ..."""
    offset: int
    """... the shift of the largest block, in lines."""


def togetherness(sources: Sequence[str], targets: Sequence[str], languages: tuple[str, str]) -> Togetherness | str:
    """Compare the sides by the lexicon of the corpus doctor. Returns the reason where that cannot be done."""
    for language in languages:
        if is_written_without_spaces(language) and not is_in_words_of_characters(language):
            return f"{language} is written without spaces between words"
    size = STRETCHES[-1]
    begin, end = (sources[:size], targets[:size]), (sources[-size:], targets[-size:])
    alignment = align(sources, targets, languages, begin=begin, end=end)
    if alignment is None:
        return f"a lexicon needs more than {len(sources):,} pairs"
    cut = ([*map(tokens, sources)], [*map(tokens, targets)])
    blocks = joined(blocks_out_of_step(alignment, *cut))
    longest = max(blocks, key=lambda block: block.last - block.first, default=None)
    shifted = sum(block.last - block.first + 1 for block in blocks if abs(block.offset) <= FARTHEST)
    return Togetherness(alignment.separation, shifted / len(sources), 0 if longest is None else longest.offset)
