"""Alternative words at a position of a translation, each with the translation that continues with it.

The most probable next words (decoding/next_words.py) are found first; for each, a search whose translation must begin
with the prefix and the word then finds the whole translation.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from weft.decoding.demands import Demands
from weft.decoding.next_words import LONGEST, next_words
from weft.decoding.rules import Ruled
from weft.decoding.search import DecodingConfig, rules_of
from weft.decoding.step import Hypothesis, to_the_end
from weft.errors import UsageError, check_strings, is_count
from weft.text.chinese import IS_HAN
from weft.text.kinds import KINDS, pieces_of
from weft.text.language import is_in_words_of_characters
from weft.text.normalization import PIECE_MARK
from weft.text.punctuation import APOSTROPHES
from weft.text.vocabulary import BEGIN_ID, END_ID
from weft.text.word_ranges import BYTE, choose_cutter, text_of
from weft.text.words import cut_words, mark_ranges
from weft.translating.batches import batches_by_length, check_lengths, copies_in, encode_prefixes, encode_sources

if TYPE_CHECKING:
    from weft.translating.translator import Translator

MOST = 64
"""Most alternatives of one call."""


@dataclass(frozen=True)
class Alternative:
    """A possible next word (empty: the translation ends) and the best translation that continues with it. `score` and
    `log_prob` are those of the whole translation."""

    word: str
    text: str
    score: float
    log_prob: float


def find_alternatives(
    translator: "Translator", text: str, prefix: str, best: int, config: DecodingConfig
) -> list[Alternative]:
    """Find the `best` alternatives after `prefix`, highest score first; none for a text without a visible character.

    The first scores at least as high as the translation that the search finds for the prefix alone. Raises UsageError
    for a `best` out of range, for a method other than greedy and beam search, and for a prefix that is too long
    or has characters that the vocabulary cannot spell.
    """
    prefix_ids, beginnings = find_beginnings(translator, text, prefix, best, config)
    return rank(translator, text, len(prefix_ids), complete(translator, text, beginnings, config), best, config)


def find_beginnings(
    translator: "Translator",
    text: str,
    prefix: str,
    best: int,
    config: DecodingConfig,
    after_step: Callable[[], None] = lambda: None,
) -> tuple[list[int], list[list[int]]]:
    """Return the pieces of `prefix`, and the beginnings of the candidates: these pieces alone, and with each of the
    most probable next words. `after_step` is called after each step of the model; an exception that it raises ends the
    search."""
    if not is_count(best) or best > MOST:
        raise UsageError(f"the number of alternatives is from 1 to {MOST}, found {best!r}")
    if config.method not in ("greedy", "beam"):
        raise UsageError(f'alternatives need greedy or beam search, found decoding.method = "{config.method}"')
    check_strings([prefix], "prefix")
    prefix = translator.as_written(prefix, config.script)
    prefix = copies_in(translator.model, text).demanded(prefix, translator.languages[1])
    (prefix_ids,) = encode_prefixes(translator.model.vocabularies["target"], [prefix])
    check_lengths([prefix_ids])
    if encode_sources(translator.model, [text]).lengths[0] <= 1:
        return prefix_ids, []
    # Twice as many, since different pieces may spell the same word.
    words = find_words(translator, text, prefix_ids, 2 * best, config, after_step)
    return prefix_ids, [prefix_ids, *([*prefix_ids, *(word or (END_ID,))] for word in words)]


def rank(
    translator: "Translator",
    text: str,
    prefix_length: int,
    hypotheses: Sequence[Hypothesis],
    best: int,
    config: DecodingConfig,
) -> list[Alternative]:
    """Keep the best hypothesis for each next word, and return the `best` of these, highest score first."""
    found: dict[str, Alternative] = {}
    for hypothesis in hypotheses:
        word = translator._copied(text, first_word(translator, hypothesis.tokens[prefix_length:]), is_whole=False)
        whole = translator._spell(text, [hypothesis], config.script)[0].text
        whole = Alternative(translator.in_script(word, config.script), whole, hypothesis.score, hypothesis.log_prob)
        if word not in found or whole.score > found[word].score:
            found[word] = whole
    return sorted(found.values(), key=lambda alternative: -alternative.score)[:best]


def find_words(
    translator: "Translator",
    text: str,
    beginning: Sequence[int],
    best: int,
    config: DecodingConfig,
    after_step: Callable[[], None],
) -> list[tuple[int, ...]]:
    """Return the pieces of the most probable next words; an empty tuple stands for the end of the sentence."""
    if config.language_model is not None and config.ilm_weight:
        raise UsageError("alternatives need decoding.ilm_weight = 0: what is subtracted can raise the score of a word")
    read = [encode_sources(member, [text]) for member in translator.members]
    lengths = torch.from_numpy(read[0].lengths - 1).to(translator.device)
    rows = max(8, best)
    with translator._computing(config.precision):
        steps, longest = translator._begin(read, np.array([0]), rows, config)
        if longest is not None and len(beginning) >= longest:
            raise UsageError(f"the beginning has {len(beginning):,} pieces; the model can write {longest:,}")
        if rules := rules_of(config, lengths, config.max_lengths(lengths), END_ID):
            steps = Ruled(steps, rules, 1, rows)
        begins_word = torch.tensor(which_begin_words(translator), device=translator.device)
        found = next_words(
            steps,
            beginning,
            begins_word,
            best=best,
            rows=rows,
            begin_id=BEGIN_ID,
            end_id=END_ID,
            longest=LONGEST if longest is None else min(LONGEST, longest - len(beginning)),
            after_step=after_step,
        )
    return [word.tokens for word in found]


def complete(
    translator: "Translator",
    text: str,
    beginnings: Sequence[Sequence[int]],
    config: DecodingConfig,
    after_step: Callable[[], None] = lambda: None,
) -> list[Hypothesis]:
    """Find the best translation that starts with each of these beginnings, in order."""
    if not beginnings:
        return []
    read = [encode_sources(member, [text] * len(beginnings)) for member in translator.members]
    demands = Demands(beginnings)
    with translator._computing(config.precision):
        search = to_the_end(translator._search_steps, after_step)
        batches = batches_by_length(read[0], config.batch_tokens, config.rows(1))
        return [found[0] for batch in batches for found in search(read, batch, config, 1, demands)]


def first_word(translator: "Translator", tokens: Sequence[int]) -> str:
    """The first word that these pieces spell; empty if they spell none."""
    words = cut_words(translator._text(tokens), choose_cutter(translator.model.recipe.data.target))
    return next(words, "").removeprefix(PIECE_MARK)


def which_begin_words(translator: "Translator") -> list[bool]:
    """Whether each target piece begins a new word after a letter: with a space, a Han character or punctuation."""
    kind, language = translator.model.recipe.tokenizer.kind, translator.model.recipe.data.target

    def begins(piece: str) -> bool:
        if KINDS[kind].spells_bytes and (byte := BYTE.fullmatch(piece)):
            is_first = int(byte[1], 16) >= 0xC0
            return is_first and is_in_words_of_characters(language)
        text = text_of(piece, kind, "a")
        if not text:  # <pad>, <s>, </s>
            return False
        continues = text[0].isalnum() or text[0] in APOSTROPHES or re.match(f"[{mark_ranges()}]", text)
        return not continues or KINDS[kind].whole_words or bool(IS_HAN.match(text))

    return [begins(piece) for piece in pieces_of(translator.model.vocabularies["target"], kind)]
