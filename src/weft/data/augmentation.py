"""Noise on training pairs, drawn anew for every epoch, and joined pairs.

The noise on a pair depends only on (seed, epoch, number of the pair): it is the same after resuming, in any batch and
in any process.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from weft.config import FieldProblem, Settings
from weft.data.encoding import EncodedPairs
from weft.data.keys import MULTIPLIER, mixed
from weft.data.sentences import Sentences
from weft.text.language import is_in_words_of_characters
from weft.text.sentencepiece_model import SentencePieceTokenizer
from weft.text.tokenizer import Tokenizer
from weft.text.vocabulary import BEGIN_ID, END_ID, MASK, PADDING_ID

Share = Field(default=0.0, ge=0, le=1)


class AugmentationConfig(Settings):
    subword_sampling: float = Field(default=0.0, ge=0, le=10)
    """Sample the segmentation of both sides: the share of skipped merges for bpe, alpha for unigram (0: off)."""
    token_dropout: float = Share
    """Share of source sentences that lose tokens."""
    token_dropout_by: Literal["pad", "mask", "delete"] = "pad"
    """Replace a lost token by padding, which attention ignores, or by the token [MASK]; or delete it."""
    token_dropout_positions: int = Field(default=1, ge=1)
    """Number of tokens that such a sentence loses; at least one token is kept."""
    token_dropout_min_length: int = Field(default=7, ge=1)
    """Sentences with fewer tokens lose none."""
    word_order: float = Share
    """Share of source sentences whose tokens are shuffled locally."""
    word_order_distance: int = Field(default=3, ge=1, le=1_000_000)
    """Largest number of places that a token moves."""
    casing: float = Share
    """Share of source sentences written entirely in lower case or entirely in upper case."""
    punctuation: float = Share
    """Share of source sentences that lose their final punctuation, or get all punctuation in the other width."""
    joining: float = Share
    """Share of pairs that also occur joined with the next kept pair of their file, as one longer pair."""

    def misfits(self) -> Iterator[FieldProblem]:
        """The keys without effect. A default counts as not set; a share set to 0 is allowed."""
        users = {"token_dropout": ("by", "positions", "min_length"), "word_order": ("distance",)}
        for share, details in users.items():
            for key in (f"{share}_{detail}" for detail in details if share not in self.model_fields_set):
                if getattr(self, key) != type(self).model_fields[key].default:
                    yield FieldProblem(key, f"is only used with {share}, a share of the sentences")

    @property
    def is_noisy(self) -> bool:
        """Whether a pair can differ from epoch to epoch."""
        return any((self.subword_sampling, self.token_dropout, self.word_order, self.casing, self.punctuation))

    @property
    def needs_mask(self) -> bool:
        return bool(self.token_dropout) and self.token_dropout_by == "mask"


Changed = dict[int, list[int]]
"""Index among the requested sentences -> the ids that replace it."""


@dataclass(frozen=True)
class PairNoise:
    """The noise on the pairs of a corpus."""

    config: AugmentationConfig
    seed: int
    sources: Sentences
    targets: Sentences
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    tags: frozenset[int]
    """Ids of corpus tags, which stay before a source."""
    longest: int | None = None
    """Most tokens of a side, including </s> or <s>. A side that noise would make longer is left unchanged."""

    def __call__(self, epoch: int, pairs: NDArray[np.integer]) -> tuple[Changed, Changed]:
        """Return the changed sources and targets of these pairs, given by their numbers in the corpus."""
        sources, targets = self._sampled(epoch, pairs)
        for number, (share, change) in enumerate(self._changes()):
            for place in np.flatnonzero(uniform(self.seed, number, epoch, pairs) < share).tolist():
                pair = int(pairs[place])
                ids = sources.get(place) or self.sources[pair].tolist()
                first = 1 if ids[0] in self.tags else 0
                random = Random(f"{self.seed} {number} {epoch} {pair}")
                sources[place] = [*ids[:first], *change(ids[first:-1], random), END_ID]
        if self.longest is not None:  # a target is read without its </s>
            sources = {place: ids for place, ids in sources.items() if len(ids) <= self.longest}
            targets = {place: ids for place, ids in targets.items() if len(ids) - 1 <= self.longest}
        return sources, targets

    def _sampled(self, epoch: int, pairs: NDArray[np.integer]) -> tuple[Changed, Changed]:
        """Return every pair with a sampled segmentation, if the recipe asks for it."""
        if not self.config.subword_sampling:
            return {}, {}
        seeds = [int(2**53 * draw) for draw in uniform(self.seed, SAMPLING, epoch, pairs)]
        cut: list[list[list[int]]] = []
        for side, tokenizer in ((self.sources, self.source_tokenizer), (self.targets, self.target_tokenizer)):
            assert isinstance(tokenizer, SentencePieceTokenizer)  # the recipe's validation holds this
            texts = tokenizer.decode([side[int(pair)].tolist() for pair in pairs])
            cut.append(tokenizer.sample(texts, seeds, self.config.subword_sampling))
        tag = [[ids[0]] if (ids := self.sources[int(pair)])[0] in self.tags else [] for pair in pairs]
        sources = {place: [*map(int, tag[place]), *ids, END_ID] for place, ids in enumerate(cut[0])}
        return sources, {place: [BEGIN_ID, *ids, END_ID] for place, ids in enumerate(cut[1])}

    def _changes(self) -> Sequence[tuple[float, Callable[[list[int], Random], list[int]]]]:
        """Return (share, change) of each kind of noise; changes of spelling come first because they retokenize."""
        config = self.config
        return (
            (config.casing, lambda ids, random: self._respelled(ids, other_casing, random)),
            (config.punctuation, lambda ids, random: self._respelled(ids, other_punctuation, random)),
            (config.word_order, lambda ids, random: moved(ids, config.word_order_distance, random)),
            (config.token_dropout, self._dropped),
        )

    def _respelled(self, ids: list[int], change: Callable[[str, Random], str], random: Random) -> list[int]:
        (text,) = self.source_tokenizer.decode([ids])
        return self.source_tokenizer.encode([change(text, random)])[0] or ids

    def _dropped(self, ids: list[int], random: Random) -> list[int]:
        config = self.config
        if len(ids) < max(2, config.token_dropout_min_length):
            return ids
        places = set(random.sample(range(len(ids)), min(config.token_dropout_positions, len(ids) - 1)))
        if config.token_dropout_by == "delete":
            return [token for place, token in enumerate(ids) if place not in places]
        instead = PADDING_ID if config.token_dropout_by == "pad" else self.source_tokenizer.tag_id(MASK)
        assert instead is not None  # the vocabulary was made with it
        return [instead if place in places else token for place, token in enumerate(ids)]


def uniform(seed: int, number: int, epoch: int, pairs: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return a random number in [0, 1) for each pair; `number` distinguishes draws for different purposes."""
    with np.errstate(over="ignore"):
        # Mix the seed alone first; otherwise seed 1 with one number would equal seed 2 with another.
        state = mixed(np.array([seed], np.uint64) + np.uint64(MULTIPLIER))
        for value in (np.uint64(number), np.uint64(epoch), pairs.astype(np.uint64)):
            state = mixed(state + value + np.uint64(MULTIPLIER))
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def moved(ids: list[int], distance: int, random: Random) -> list[int]:
    """Shuffle the ids so that each moves at most `distance` places (Lample et al. 2018, section 2.3)."""
    keys = [place + random.random() * (distance + 1) for place in range(len(ids))]
    return [ids[place] for place in sorted(range(len(ids)), key=keys.__getitem__)]


def other_casing(text: str, random: Random) -> str:
    return random.choice((str.lower, str.upper))(text)


ENDS = ".!?。！？…，,;；:："
OTHER_WIDTH = str.maketrans(".,!?;:()。，！？；：（）", "。，！？；：（）.,!?;:()")


def other_punctuation(text: str, random: Random) -> str:
    """Remove the final punctuation, or write all punctuation in the other width; never returns an empty text."""
    bare = text.rstrip(ENDS)
    return bare if random.random() < 0.5 and bare.strip() else text.translate(OTHER_WIDTH)


def with_joined_pairs(
    pairs: EncodedPairs,
    tokenizers: tuple[Tokenizer, Tokenizer],
    languages: tuple[str, str],
    *,
    share: float,
    seed: int,
    max_length: int | None,
    parts: Sequence[int],
    tags: frozenset[int],
) -> EncodedPairs:
    """Return the pairs followed by joined pairs, each made of a pair and the next one of its corpus.

    `kept` of a joined pair is that of its first pair. Sentences are joined with a space, except in languages without
    spaces. `parts` are the numbers of pairs of each corpus. Joined pairs over `max_length` tokens are skipped.
    """
    last = np.cumsum(parts) - 1
    can_join = (np.diff(pairs.kept) == 1) & ~np.isin(pairs.kept[:-1], last)
    drawn = can_join & (uniform(seed, JOINING, 0, pairs.kept[:-1]) < share)
    made: list[tuple[int, list[int], list[int]]] = []
    for place in np.flatnonzero(drawn).tolist():
        tag = [token for token in pairs.sources[place][:1].tolist() if token in tags]
        source, target = (
            join(side[place].tolist(), side[place + 1].tolist(), tokenizer, language, tags)
            for side, tokenizer, language in zip((pairs.sources, pairs.targets), tokenizers, languages, strict=True)
        )
        if max_length is None or max(len(source), len(target)) <= max_length:
            made.append((int(pairs.kept[place]), [*tag, *source, END_ID], [BEGIN_ID, *target, END_ID]))
    return EncodedPairs(
        Sentences.joined([pairs.sources, Sentences([source for _, source, _ in made])]),
        Sentences.joined([pairs.targets, Sentences([target for _, _, target in made])]),
        np.concatenate([pairs.kept, np.array([number for number, _, _ in made], np.int64)]),
    )


JOINING, SAMPLING = 100, 101
"""Numbers of these draws (see `uniform`); the kinds of noise on sources are numbered from 0."""


def join(first: list[int], second: list[int], tokenizer: Tokenizer, language: str, tags: frozenset[int]) -> list[int]:
    """Return the pieces of both texts, joined to one text."""
    texts = tokenizer.decode([[token for token in ids if token not in tags] for ids in (first, second)])
    return tokenizer.encode([("" if is_in_words_of_characters(language) else " ").join(texts)])[0]


def with_changes(rows: NDArray[np.int64], changed: Mapping[int, Sequence[int]]) -> NDArray[np.int64]:
    """Return the rows of a batch with some of them replaced, widened if a replacement is longer."""
    width = max([rows.shape[1], *map(len, changed.values())])
    wider = np.full((len(rows), width), PADDING_ID, np.int64)
    wider[:, : rows.shape[1]] = rows
    for place, ids in changed.items():
        wider[place] = PADDING_ID
        wider[place, : len(ids)] = ids
    return wider
