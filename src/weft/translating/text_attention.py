"""The attention between texts and their translations, which places tags in translations (text/mark_placement.py).

pieces      the mean over all heads of all layers, which aligns words better than any single head (bench/alignment.py)
words       the mean over the pieces of a target word, the sum over those of a source word; without this step, fewer
            Chinese words are aligned (bench/markup.py: 189 of 344 instead of 256)
characters  a target character has the attention of its word; the characters of a source word share its attention
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher

import numpy as np
import torch
from jaxtyping import Float
from torch.nn.utils.rnn import pad_sequence

from weft.data.encoding import tag_ids
from weft.data.sentences import Sentences
from weft.text.chinese import Script
from weft.text.kinds import Kind, pieces_of
from weft.text.vocabulary import BEGIN_ID, PADDING_ID
from weft.text.word_ranges import WordRange, characters_of, word_ranges
from weft.translating.batches import batches_by_length, computing_in, copies_in, encode_sources
from weft.translating.translator import Translator

TEXTS_AT_ONCE, TOKENS_AT_ONCE = 256, 4096
"""Most texts whose attention is in memory, and most source pieces in a batch of them."""

CharacterAttention = Float[np.ndarray, "target source"]
"""The attention from each character of a translation to each character of its text."""


def attention_between(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    script: Script = "keep",
    after_step: Callable[[], None] = lambda: None,
) -> Iterator[CharacterAttention | None]:
    """Yield the attention between each text and its translation in this script, from the first model of an ensemble;
    None for an exported model, for one without attention, and for texts longer than its positions. `after_step` is
    called after each of its steps."""
    model, kind = translator.model, translator.model.recipe.tokenizer.kind
    source_vocabulary, target_vocabulary = (
        pieces_of(tokenizer, kind) for tokenizer in (model.vocabularies["source"], model.vocabularies["target"])
    )
    tags = len(tag_ids(model.vocabularies["source"], model.recipe.data.tag))
    for first in range(0, len(pairs), TEXTS_AT_ONCE):
        some = pairs[first : first + TEXTS_AT_ONCE]
        read = encode_sources(model, [source for source, _ in some])
        copies = [copies_in(model, source) for source, _ in some]
        texts = [(copied.text, copied.in_text(text)) for copied, (_, text) in zip(copies, some, strict=True)]
        written = model.vocabularies["target"].encode([translator.as_written(text, script) for _, text in texts])
        attends = translator.has_attention and model.recipe.model.attending_layers > 0
        found = piece_attention(translator, read, written, after_step) if attends else {}
        for number, (source, translation) in enumerate(texts):
            if number not in found:
                yield None
                continue
            pieces = [target_vocabulary[piece] for piece in written[number]]
            source_pieces = [source_vocabulary[piece] for piece in read[number].tolist()[tags:-1]]
            words = word_ranges(pieces, kind=kind, language=model.recipe.data.target)
            source_words = word_ranges(source_pieces, kind=kind, language=model.recipe.data.source)
            of_target = owners(translation, words, pieces, kind)
            of_source = owners(source, source_words, source_pieces, kind)
            of_words = word_attention(found[number][:, tags:], words, source_words)
            yield spread(
                of_words / np.maximum(of_words.sum(1, keepdims=True), 1e-12),
                [of_target[place] for place in copies[number].places(some[number][1])],
                [of_source[place] for place in copies[number].places(some[number][0])],
            )


def piece_attention(
    translator: Translator, read: Sentences, written: Sequence[Sequence[int]], after_step: Callable[[], None]
) -> dict[int, Float[np.ndarray, "target source"]]:
    """Number of the text -> the attention of each piece of its translation at the step that writes it. The plain
    decoder is used because it keeps the weights of all heads."""
    model, places = translator.model.network, translator.longest_sentence() or math.inf
    found = {}
    with torch.inference_mode(), computing_in(model, torch.float32):
        for batch in batches_by_length(read, TOKENS_AT_ONCE, 1):
            indices = [index for index in batch.tolist() if max(len(written[index]) + 1, read.lengths[index]) <= places]
            if not indices:
                continue
            sources = torch.from_numpy(read.padded(np.array(indices), PADDING_ID)).to(translator.device)
            state, steps = model.start_plain(sources), []
            targets = [torch.tensor([BEGIN_ID, *written[index]], device=translator.device) for index in indices]
            for tokens in pad_sequence(targets, batch_first=True, padding_value=PADDING_ID).T:
                state.step(tokens)
                steps.append(state.head_attention().mean((0, 2)))
                after_step()
            attention = torch.stack(steps, dim=1).cpu().numpy()
            for index, of_text in zip(indices, attention, strict=True):
                found[index] = of_text[: len(written[index]), : read.lengths[index]]
    return found


def word_attention(
    attention: Float[np.ndarray, "pieces source_pieces"], words: Sequence[WordRange], source_words: Sequence[WordRange]
) -> Float[np.ndarray, "words source_words"]:
    """The attention between words; what is left of 1 in a row goes to pieces outside of the source's words."""
    of_words = np.zeros((len(words), len(source_words)))
    for number, word in enumerate(words):
        of_word = attention[word.first : word.last + 1].mean(0)
        of_words[number] = [of_word[source.first : source.last + 1].sum() for source in source_words]
    return of_words


def owners(text: str, words: Sequence[WordRange], pieces: Sequence[str], kind: Kind) -> list[int | None]:
    """The number of the word of each character of a text; None for white space, and for characters that normalization
    replaced by more or fewer."""
    word_of = {piece: number for number, word in enumerate(words) for piece in range(word.first, word.last + 1)}
    spelled = [
        (character, word_of[piece])
        for character, piece in characters_of(pieces, kind)
        if not character.isspace() and piece in word_of
    ]
    visible = [place for place, character in enumerate(text) if not character.isspace()]
    of_text: list[int | None] = [None] * len(text)
    for place, (_, word) in same_characters("".join(text[i] for i in visible), spelled):
        of_text[visible[place]] = word
    return of_text


def same_characters(text: str, spelled: Sequence[tuple[str, int]]) -> list[tuple[int, tuple[str, int]]]:
    """Align the characters of a text with the spelled ones: one to one if both have one length, else where they are
    equal or replaced by equally many."""
    if len(text) == len(spelled):
        return list(enumerate(spelled))
    blocks = SequenceMatcher(None, text, "".join(character for character, _ in spelled), autojunk=False).get_opcodes()
    return [
        pair
        for _, begin, end, first, last in blocks
        if end - begin == last - first
        for pair in zip(range(begin, end), spelled[first:last], strict=True)
    ]


def spread(
    attention: Float[np.ndarray, "words source_words"], target: Sequence[int | None], source: Sequence[int | None]
) -> CharacterAttention:
    """Spread the attention between words over their characters; those of a source word share it equally."""
    weights = np.zeros((len(target), len(source)), dtype=np.float32)
    rows = [(place, word) for place, word in enumerate(target) if word is not None]
    columns = [(place, word) for place, word in enumerate(source) if word is not None]
    if rows and columns:
        characters = Counter(word for _, word in columns)
        shares = np.array([1 / characters[word] for _, word in columns])
        of_words = attention[np.ix_([word for _, word in rows], [word for _, word in columns])]
        weights[np.ix_([place for place, _ in rows], [place for place, _ in columns])] = of_words * shares
    return weights
