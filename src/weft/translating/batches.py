"""Prepare texts for a model: source ids, batches of similar lengths, and the precision of a forward pass."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from weft.data.encoding import tag_ids
from weft.data.sentences import Sentences
from weft.decoding.search import DecodingConfig
from weft.errors import UsageError
from weft.folders.model_folder import TranslationModel
from weft.models.contract import Seq2Seq
from weft.runtime import derive_seed, without_autocast
from weft.text.copying import Copies, copies_of
from weft.text.normalization import is_blank
from weft.text.tokenizer import Tokenizer
from weft.text.vocabulary import END_ID, UNKNOWN_ID, UNKNOWN_TEXT

LONGEST_SOURCE = 4096
"""Most pieces of a text."""

BATCHES_A_WORKER = 2
"""Fewest batches per worker if there are enough sentences. The first batches, of the longest ones, take the longest."""

FEWEST_TOKENS = 1024
"""Smallest size, in source pieces times hypotheses per sentence, to which batches are reduced for more workers."""


def encode_sources(model: TranslationModel, texts: Sequence[str]) -> Sentences:
    """Return the ids of each text: the model's data.tag if it has one, the pieces and </s>.

    A text without a visible character has </s> only. Raises UsageError for a text that is too long.
    """
    encoded = model.vocabularies["source"].encode([copies_in(model, text).text for text in texts])
    check_lengths(encoded)
    tag = tag_ids(model.vocabularies["source"], model.recipe.data.tag)
    return Sentences(
        [
            [*tag, *ids, END_ID] if ids and not is_blank(text) else [END_ID]
            for text, ids in zip(texts, encoded, strict=True)
        ]
    )


def copies_in(model: TranslationModel, text: str) -> Copies:
    """Return a source as the model reads it, and what a translation copies from it."""
    return copies_of(text) if model.recipe.tokenizer.copying else Copies(text, {})


def check_lengths(encoded: Sequence[Sequence[int]]) -> None:
    """Raise UsageError for texts of more than LONGEST_SOURCE pieces, since attention takes quadratic memory."""
    for number, ids in enumerate(encoded, start=1):
        if len(ids) > LONGEST_SOURCE:
            raise UsageError(
                f"text {number} has {len(ids):,} pieces, more than the {LONGEST_SOURCE:,} that are translated at once; "
                "split it into sentences, one per line, as PassageTranslator does in Python"
            )


def encode_prefixes(tokenizer: Tokenizer, prefixes: Sequence[str]) -> list[list[int]]:
    """The pieces with which each translation begins. Raises UsageError where the vocabulary cannot spell them."""
    encoded = tokenizer.encode(prefixes) if prefixes else []
    for prefix, ids in zip(prefixes, encoded, strict=True):
        if ids.count(UNKNOWN_ID) > prefix.count(UNKNOWN_TEXT):  # which may be the model's own beginning
            raise UsageError(f"the beginning {prefix!r} cannot be written with the pieces of the target vocabulary")
    return encoded


def batches_by_length(
    sources: Sentences, most: int, rows: int, workers: int = 1, *, apart: Sequence[bool] = ()
) -> Iterator[np.ndarray]:
    """Yield the indices of the texts that are not empty in batches, longest texts first.

    A batch has at most `most` source pieces times `rows`, and less if there would be few batches per worker. Texts that
    are `apart` (a bool per text) do not share a batch with other texts.
    """
    order = [int(i) for i in np.argsort(-sources.lengths, kind="stable") if sources.lengths[i] > 1]
    if workers > 1:
        even = rows * int(sources.lengths[order].sum()) // (workers * BATCHES_A_WORKER)
        most = min(most, max(even, FEWEST_TOKENS))
    if any(apart):
        yield from batches_by_length_of([index for index in order if apart[index]], sources, most, rows)
        order = [index for index in order if not apart[index]]
    yield from batches_by_length_of(order, sources, most, rows)


def batches_by_length_of(order: list[int], sources: Sentences, most: int, rows: int) -> Iterator[np.ndarray]:
    while order:
        longest = int(sources.lengths[order[0]])
        count = max(1, most // (longest * rows))
        yield np.array(order[:count])
        order = order[count:]


@contextmanager
def computing_in(model: Seq2Seq, dtype: torch.dtype) -> Iterator[None]:
    """Compute with activations of this type and without dropout inside the block, also in training mode.

    Other threads that compute with the model, through any translator, wait.
    """
    with model.computing, without_autocast():
        if model.training:
            model.repack()  # its weights are changing
        before, model.compute_dtype = model.compute_dtype, dtype
        training = [module for module in model.modules() if module.training] if model.training else []
        for module in training:
            module.training = False
        try:
            yield
        finally:
            model.compute_dtype = before
            for module in training:
                module.training = True


def in_lock_order(members: Sequence[TranslationModel]) -> list[TranslationModel]:
    """Sort models by identity, so that threads that lock several of them cannot deadlock."""
    return sorted(members, key=lambda member: id(member.network))


def sampling_seeds(sources: Sentences, indices: np.ndarray, config: DecodingConfig, samples: int) -> list[int]:
    """A seed for each sample of each text, derived from the text's ids and the sample's number; empty for methods
    that do not draw samples."""
    if not config.draws:
        return []
    ids = [sources[index].tolist() for index in indices.tolist()]
    return [derive_seed(config.sampling_seed, *text, number) for text in ids for number in range(samples)]
