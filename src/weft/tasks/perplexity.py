"""Perplexity: the negative log-likelihood of texts in nats, of which every other figure is a rescaling.

    nats                the mean over the pieces, -1/N log p(w_1 ... w_N)
    perplexity          exp(nats), a piece
    bits_per_character  the same sum in bits, divided by the characters
    word_perplexity     exp of the same sum, divided by the words

Each piece is predicted once. The end of a text (of a line in a running text) counts as one piece, one character and one
word. A network that cannot see a whole text at once reads it in windows that overlap (data/running.py). The signature
says all of this.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from weft.data.lines import LinesConfig
from weft.data.running import windows_of
from weft.data.sentences import Sentences
from weft.folders.model_folder import Learned
from weft.folders.recipes import LanguageModelRecipe
from weft.models.contract import ModelSettings
from weft.models.language_model import Autoregressive
from weft.models.ngram import NgramLanguageModel
from weft.text.tokenizer import Tokenizer
from weft.text.vocabulary import BEGIN_ID, END_ID, UNKNOWN_ID
from weft.translating.batches import batches_by_length
from weft.version import __version__

LanguageNetwork = Autoregressive | NgramLanguageModel

TOKENS_AT_ONCE = 8192
LOGITS_AT_ONCE = 1024
"""Places whose logits exist at the same time."""
LONGEST_WINDOW = 1024
"""Tokens after which a network that carries its state begins anew, so that a text is read in parallel."""


@contextmanager
def in_fp32(model: LanguageNetwork) -> Iterator[None]:
    """Compute in fp32 inside the block, as a finished model is scored, whatever the precision of training."""
    before, model.compute_dtype = model.compute_dtype, torch.float32
    try:
        yield
    finally:
        model.compute_dtype = before


def encode(tokenizer: Tokenizer, texts: Sequence[str], *, begin: int | None = BEGIN_ID) -> Sentences:
    """The ids of each text between <s>, or what it begins with, and </s>. In a running text, where a line begins after
    the one before it, </s> is the end of a line."""
    first = [] if begin is None else [begin]
    return Sentences([[*first, *ids, END_ID] for ids in tokenizer.encode(texts)])


def window_of(model: ModelSettings, data: LinesConfig) -> tuple[int, int]:
    """The length of the windows in which a text is read, and their overlap."""
    if model.reach is not None:
        return model.reach + LONGEST_WINDOW, model.reach
    overlap = data.seen_at_least
    return (overlap + LONGEST_WINDOW if model.carries_state else data.seen_at_once), overlap


def token_log_probs(network: LanguageNetwork, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time-1"]:
    """The log-probability of every token but the first of each row, given those before it."""
    if isinstance(network, NgramLanguageModel):
        return network.token_log_probs(tokens)
    hidden, labels = network(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()
    found = [
        network.output(some).float().log_softmax(-1).gather(1, label[:, None]).squeeze(1)
        for some, label in zip(hidden.split(LOGITS_AT_ONCE), labels.split(LOGITS_AT_ONCE), strict=True)
    ]
    return torch.cat(found).view(len(tokens), -1)


def perplexities(nats: float, pieces: int, texts: Sequence[str], signature: str) -> dict[str, dict[str, Any]]:
    """The four figures by name, each with its signature, from the sum over `pieces`; texts are as the tokenizer
    normalizes them."""
    characters = sum(len(text) + 1 for text in texts)
    words = sum(len(text.split()) + 1 for text in texts)
    values = {
        "nats": (nats / pieces, "piece"),
        "perplexity": (exponential(nats / pieces), "piece"),
        "bits_per_character": (nats / characters / math.log(2), "character"),
        "word_perplexity": (exponential(nats / words), "word"),
    }
    counts = {"piece": pieces, "character": characters, "word": words}
    return {
        name: {"value": value, "signature": f"per:{unit}|n:{counts[unit]}|{signature}"}
        for name, (value, unit) in values.items()
    }


def exponential(nats: float) -> float:
    return math.exp(min(nats, 700.0))


def signature_of(recipe: Any, window: tuple[int, int], texts: Sentences) -> str:
    """How the texts were cut and read: the tokenizer, unknown pieces if there are any, whether ends count, and the
    fewest and the most tokens that a prediction saw, but for those at the beginning of a text."""
    length, overlap = window
    seen = f"{overlap + 1}-{length}" if texts.lengths.max(initial=0) > length + 1 else "whole"
    seen = seen if recipe.model.reach is None else recipe.model.reach
    text = "running" if recipe.data.running else "lines"
    unknown = int((texts.ids == UNKNOWN_ID).sum())
    token = f"{recipe.tokenizer.kind}|unknown:{unknown}" if unknown else recipe.tokenizer.kind
    return f"token:{token}|text:{text}|eos:yes|context:{seen}|base:e|weft:{__version__}"


def table_of(scores: Mapping[str, Mapping[str, Any]]) -> str:
    return "\n".join(f"{name:<18} {each['value']:>10.4f}  {each['signature']}" for name, each in scores.items())


class HeldOutText:
    """Texts, encoded and cut into windows as a model reads them."""

    def __init__(self, learned: Learned[LanguageModelRecipe], texts: Sequence[str], *, apart: bool = False) -> None:
        """The lines of a running text are one text, unless they are to stand `apart`."""
        recipe, tokenizer = learned.recipe, learned.vocabularies["text"]
        self.normalized = [tokenizer.normalize(text) for text in texts]
        is_one = recipe.data.running and not apart
        begin = END_ID if recipe.data.running else BEGIN_ID
        encoded = encode(tokenizer, texts, begin=None if is_one else begin)
        # The lines of a running text are one text, which begins after the end of a line.
        self.ids = Sentences([[END_ID, *encoded.ids.tolist()]]) if is_one else encoded
        self.pieces = int((self.ids.lengths - 1).sum())
        self.window = window_of(recipe.model, recipe.data)
        self.signature = signature_of(recipe, self.window, self.ids)

    def log_probs(
        self, network: LanguageNetwork, part: tuple[int, int] = (0, 1)
    ) -> Iterator[tuple[int, Float[np.ndarray, " tokens"]]]:
        """The number of a text, and the log-probabilities of some tokens of it, until each token has come once.

        `part` is a rank's share of the batches: the first, and the distance to the next.
        """
        device = next(network.parameters()).device
        windows, of_text, new = windows_of(self.ids, *self.window)
        for rows in islice(batches_by_length(windows, TOKENS_AT_ONCE, 1), part[0], None, part[1]):
            tokens = torch.from_numpy(windows.padded(rows)).to(device)
            with torch.inference_mode():
                log_probs = token_log_probs(network, tokens).cpu().numpy()
            for row, found in zip(rows.tolist(), log_probs, strict=True):
                yield int(of_text[row]), found[new[row] - 1 : windows.lengths[row] - 1]

    def scores(self, nats: float) -> dict[str, dict[str, Any]]:
        return perplexities(nats, self.pieces, self.normalized, self.signature)
