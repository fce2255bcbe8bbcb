"""How models compute over texts: ids of sources, batches of similar lengths, the precision of a pass."""

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
from weft.runtime import PRECISIONS, has_native_bf16, without_autocast
from weft.text.normalization import is_blank
from weft.text.vocabulary import END_ID

LONGEST_SOURCE = 4096
"""Pieces of one source text."""

BATCHES_A_WORKER = 2
"""At least, as far as there are enough sentences: the first ones, which are the longest, take the most time."""

FEWEST_TOKENS = 1024
"""Source pieces times hypotheses a sentence, in a batch that there would be more of otherwise."""


def encode_sources(model: TranslationModel, texts: Sequence[str]) -> Sentences:
    """Ids of each text, behind the model's data.tag if it has one; none for a text without a visible character.

    Raises UsageError where a text is too long.
    """
    encoded = model.vocabularies["source"].encode(texts)
    check_lengths(encoded)
    tag = tag_ids(model.vocabularies["source"], model.recipe.data.tag)
    return Sentences(
        [
            [*tag, *ids, END_ID] if ids and not is_blank(text) else [END_ID]
            for text, ids in zip(texts, encoded, strict=True)
        ]
    )


def check_lengths(encoded: Sequence[Sequence[int]]) -> None:
    """Attention takes memory in the square of the length: better an answer in words than a process that is killed."""
    for number, ids in enumerate(encoded, start=1):
        if len(ids) > LONGEST_SOURCE:
            raise UsageError(
                f"text {number} has {len(ids):,} pieces, more than the {LONGEST_SOURCE:,} that are translated at once; "
                "split it into sentences, one per line, as PassageTranslator does in Python"
            )


def batches_by_length(
    sources: Sentences, most: int, rows: int, workers: int = 1, *, apart: Sequence[bool] = ()
) -> Iterator[np.ndarray]:
    """Indices of the texts that are not empty, longest first, at most so many source pieces times rows, and less where
    there are only few for each of the workers.

    Texts that are `apart` are in no batch with others.
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


def precision_of(config: DecodingConfig, device: torch.device) -> torch.dtype:
    """What the settings say, for a pass on this device."""
    if config.precision == "auto":
        return torch.bfloat16 if has_native_bf16(device) else torch.float32
    return PRECISIONS[config.precision]


@contextmanager
def computing_in(model: Seq2Seq, dtype: torch.dtype) -> Iterator[None]:
    """Activations in this precision inside the block, and nothing is dropped of them, also while the model is trained.

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
    """Sort models by identity: threads that lock several of them in one order cannot deadlock."""
    return sorted(members, key=lambda member: id(member.network))
