"""Explain a translation by measurements of the model.

alternatives   the most probable pieces at every place of the translation
attention      the weight of each source piece at every place
occlusion      how much less probable each word of the translation becomes without one word of the source; the alignment
               is made from it, since it finds more links than attention does (bench/alignment.py)
without        what the model translates where it does not read a word
beam           everything that the search compared on its way to the translation, as a tree

The first three are measured by teacher forcing for a translation of the model or any other. Occlusion changes what the
model reads and so shows what its answer depends on; attention does not (Jain and Wallace 2019), though most of it lies
on what is being translated (bench/alignment.py measures how much).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from weft.data.encoding import tag_ids
from weft.data.sentences import Sentences
from weft.decoding.beam_tree import BeamRecorder, Node
from weft.decoding.demands import Demands
from weft.decoding.search import DecodingConfig, search_steps
from weft.decoding.step import Hypothesis, StepFunction, refuse_nan, to_the_end
from weft.errors import UsageError, is_count, shown
from weft.evaluating.attention_within import attention_within
from weft.evaluating.forced import TOKENS_AT_ONCE, refuse_without_positions, target_log_probs
from weft.folders.model_folder import TranslationModel
from weft.models.contract import Seq2Seq
from weft.text.kinds import pieces_of
from weft.text.vocabulary import BEGIN_ID, END_ID, PADDING_ID
from weft.text.word_ranges import WordRange, word_ranges
from weft.translating.arguments import changed_decoding
from weft.translating.batches import copies_in, encode_sources
from weft.translating.exported import ExportedTranslator
from weft.translating.text_attention import word_attention
from weft.translating.translator import Translator

LONGEST_EXPLAINED = 200
"""Maximum of pieces on either side. The time of occlusion grows with its square."""


class LongTranslationError(UsageError):
    """The model's own translation of a text is too long to be explained."""


@dataclass(frozen=True)
class Choice:
    """A possible piece at a place, and its log-probability there in nats."""

    piece: str
    log_prob: float


@dataclass(frozen=True)
class Link:
    """A target word and the source word that it comes from, as indices of words: the one without which it becomes least
    probable, and `weight` is by how many nats; or without occlusion the one to which it attends most, and `weight` is
    the share of its attention."""

    target: int
    source: int
    weight: float


@dataclass(frozen=True)
class Variant:
    """What the model translates without some source words, and the score of that translation."""

    removed: str
    text: str
    score: float


@dataclass(frozen=True)
class Explanation:
    """One translation of one text, in nats; `log_prob` and `score` are defined in `Translation`."""

    source: str
    text: str
    score: float
    log_prob: float
    source_pieces: tuple[str, ...]
    """What the model reads: a tag if its recipe has one, the pieces, </s>."""
    target_pieces: tuple[str, ...]
    """The pieces of the translation and </s>."""
    log_probs: tuple[float, ...]
    """Log-probability of each target piece by the model in fp32, without the rules of a search."""
    alternatives: tuple[tuple[Choice, ...], ...]
    """For each target piece the most probable pieces in its place, best first; it may be among them."""
    heads: Float[np.ndarray, "layers heads target source"]
    """The attention of every decoder layer and head at the step that writes a target piece; each row sums to 1."""
    layer: int | None
    """The decoder layer of `attention` and `alignment`, counted from 1; None for all of them."""
    source_words: tuple[WordRange, ...]
    target_words: tuple[WordRange, ...]
    alignment: tuple[Link, ...]
    """One for each target word, unless the source has no words."""
    occlusion: tuple[tuple[float, ...], ...]
    """For each target word, the nats that it loses without each source word; empty if not requested."""
    beam: tuple[Node, ...]
    """What the search compared, the root first; empty for a given translation."""
    beam_pieces: tuple[str, ...]
    """The piece of each node."""
    without: tuple[Variant, ...] = ()
    """Without each source word and the signs behind it; empty for a given translation, and without occlusion."""
    self_attention: Mapping[str, Float[np.ndarray, "_ _ _ _"]] = field(default_factory=dict)
    """Side ("source", "target") -> the attention within it: (layers, heads, query, key); empty if not requested."""

    @property
    def most_harmful(self) -> Variant | None:
        """The variant with the highest score, if that is higher than the score of the whole."""
        best = max(self.without, key=lambda variant: variant.score, default=None)
        return best if best is not None and best.score > self.score else None

    @property
    def attention(self) -> Float[np.ndarray, "target source"]:
        """The mean over the heads, of `layer` or of all layers; each row sums to 1."""
        return mean_over_heads(self.heads, self.layer)

    def as_json(self) -> dict[str, Any]:
        """Lists and numbers for json.dumps, rounded to six decimals."""
        return {
            "source": self.source,
            "text": self.text,
            "score": round(self.score, 6),
            "log_prob": round(self.log_prob, 6),
            "source_pieces": list(self.source_pieces),
            "target_pieces": list(self.target_pieces),
            "log_probs": rounded(self.log_probs),
            "alternatives": [
                [vars(one) | {"log_prob": round(one.log_prob, 6)} for one in at_place] for at_place in self.alternatives
            ],
            "layer": self.layer,
            "layers": len(self.heads),
            "attention": [rounded(row) for row in self.attention.tolist()],
            "source_words": [dict(vars(word)) for word in self.source_words],
            "target_words": [dict(vars(word)) for word in self.target_words],
            "alignment": [vars(link) | {"weight": round(link.weight, 6)} for link in self.alignment],
            "occlusion": [rounded(row) for row in self.occlusion],
            "without": [vars(one) | {"score": round(one.score, 6)} for one in self.without],
            "beam": {
                "nodes": [
                    {
                        "id": node.id,
                        "parent": node.parent,
                        "step": node.step,
                        "piece": piece,
                        "log_prob": round(node.log_prob, 6),
                        "state": node.state,
                    }
                    for node, piece in zip(self.beam, self.beam_pieces, strict=True)
                ]
            },
        }


def explain(
    translator: Translator,
    text: str,
    *,
    best: int = 5,
    beam_size: int | None = None,
    occlusion: bool = True,
    target: str | None = None,
    layer: int | None = None,
    self_attention: bool = False,
    after_step: Callable[[], None] = lambda: None,
) -> Explanation:
    """Explain the model's translation of a text, or the one given as `target`.

    There are `best` alternatives at each place. The search is that of the model's decoding settings, or beam search
    with `beam_size` hypotheses. Attention is that of one decoder `layer`, counted from 1, or the mean of all layers,
    which aligns better than any one (bench/alignment.py); `self_attention` asks for that within each side as well.
    `after_step` is called after each step of the model and may raise to cancel. Raises UsageError with everything that
    cannot be explained.
    """
    refuse_unexplainable(translator, [text], best=best, beam_size=beam_size, target=target, layer=layer)
    model = translator.model
    kind = model.recipe.tokenizer.kind
    copies = copies_in(model, text)
    source_vocabulary = copies.shown(pieces_of(model.vocabularies["source"], kind))
    target_vocabulary = copies.shown(pieces_of(model.vocabularies["target"], kind))
    read = encode_sources(model, [text])
    source = read[0].tolist()
    config = search_settings(translator, beam_size)
    if target is None:
        answer, beam = find(translator, read, config, after_step)
        written = translator._spell(text, [answer], config.script)[0].text
        if len(answer.tokens) > LONGEST_EXPLAINED:
            raise LongTranslationError(
                f"the translation of {shown(text, 20)} has {len(answer.tokens):,} pieces, more than the "
                f"{LONGEST_EXPLAINED:,} that are explained at once"
            )
    else:
        given = copies.in_text(translator.as_written(target, config.script))
        answer, beam, written = score_given(translator, read, given, config, after_step), (), target
    tokens = (*answer.tokens, END_ID)
    source_pieces, target_pieces = spelled(source, source_vocabulary), spelled(tokens, target_vocabulary)
    source_words, target_words = words_of(model, source_pieces, target_pieces)
    lost: list[list[float]] = []
    with translator._computing("fp32"):
        distributions, of_heads = read_over(model.network, source, answer.tokens, translator.device, after_step)
        log_probs = distributions.gather(1, torch.tensor([tokens], device=distributions.device).T)[:, 0]
        if occlusion:
            lost = occlude(model.network, source, answer.tokens, log_probs, source_words, target_words, after_step)
        within = attention_within(model.network, source, answer.tokens, translator.device) if self_attention else {}
    heads, without = of_heads.cpu().numpy(), ()
    if occlusion and target is None:
        without = without_words(translator, text, source, source_words, config, after_step)
    return Explanation(
        source=text,
        text=written,
        score=answer.score,
        log_prob=answer.log_prob,
        source_pieces=source_pieces,
        target_pieces=target_pieces,
        log_probs=tuple(log_probs.tolist()),
        alternatives=most_probable(distributions, best, target_vocabulary),
        heads=heads,
        layer=layer,
        source_words=source_words,
        target_words=target_words,
        alignment=strongest(lost) or align(mean_over_heads(heads, layer), source_words, target_words),
        occlusion=tuple(map(tuple, lost)),
        beam=beam,
        beam_pieces=spelled([node.token for node in beam], target_vocabulary),
        without=without,
        self_attention=within,
    )


# What is refused


def refuse_unexplainable(
    translator: Translator,
    texts: Sequence[str],
    *,
    best: int = 5,
    beam_size: int | None = None,
    target: str | None = None,
    layer: int | None = None,
) -> None:
    """Raise UsageError with every reason why this translator cannot explain these texts."""
    if isinstance(translator, ExportedTranslator):
        raise UsageError(
            f"{translator.folder} was exported for {translator.export.engine}, which does not return attention; "
            "explain the model it was exported from"
        )
    if len(translator.members) > 1:
        raise UsageError(
            "an ensemble cannot be explained: each member has its own attention; explain the members one by one"
        )
    config = search_settings(translator, beam_size)
    layers = translator.model.recipe.model.attending_layers
    problems = [] if is_count(best) else [f"best is a number from 1, found {best!r}"]
    if layer is not None and not 1 <= layer <= layers:
        problems.append(f"layer is a number from 1 to {layers}, the decoder layers of the model; found {layer}")
    if target is None and config.method not in ("greedy", "beam"):
        what = f'decoding.method = "{config.method}" compares whole translations, so there is no single search to show'
        problems.append(f"{what}; explain another, such as --set decoding.method=beam, or give the translation")
    if target is None and config.method == "beam" and config.diverse_groups > 1:
        problems.append("diverse beam search has more than one beam; explain with decoding.diverse_groups = 1")
    if target is None and config.language_model is not None:
        problems.append("only what a translator alone does can be explained; leave decoding.language_model out")
    sources = translator.model.vocabularies["source"].encode(list(texts))
    for number, (text, ids) in enumerate(zip(texts, sources, strict=True), start=1):
        what = unexplainable(ids)
        if not what and target is None and translator.without_word(text, config) is not None:
            what = "has no word, so it is copied and not translated"
        if what:
            problems.append(f"text {number} ({shown(text, 20)}) {what}" if ids else f"text {number} {what}")
    if target is not None:
        ids = translator.model.vocabularies["target"].encode([target])
        if what := unexplainable(ids[0]):
            problems.append(f"the translation that is given {what}")
        else:
            refuse_without_positions(translator, ids)
    if problems:
        raise UsageError("\n".join(problems))


def unexplainable(ids: Sequence[int]) -> str:
    """What is wrong with a text of these pieces, if anything is."""
    if not ids:
        return "has no piece to explain; give a sentence"
    if len(ids) > LONGEST_EXPLAINED:
        return (
            f"has {len(ids):,} pieces, more than the {LONGEST_EXPLAINED:,} that are explained at once; give a sentence"
        )
    return ""


def search_settings(translator: Translator, beam_size: int | None) -> DecodingConfig:
    changes = {} if beam_size is None else {"method": "beam", "beam_size": beam_size}
    return changed_decoding(translator.decoding, changes)


# The measuring


def find(
    translator: Translator, read: Sentences, config: DecodingConfig, after_step: Callable[[], None] = lambda: None
) -> tuple[Hypothesis, tuple[Node, ...]]:
    """Translate one sentence as `Translator.translate` does; also returns the tree of its search."""
    rows = config.rows(1)
    recorders: list[BeamRecorder] = []

    def observe(asked: StepFunction, max_lengths: Tensor) -> StepFunction:
        most = int(max_lengths[0])
        recorders.append(BeamRecorder(asked, beam_size=rows, max_length=most, begin_id=BEGIN_ID, end_id=END_ID))
        return recorders[0]

    answer = search_one(translator, read, config, after_step, observe=observe)
    return answer, recorders[0].tree(answer)


def score_given(
    translator: Translator,
    read: Sentences,
    target: str,
    config: DecodingConfig,
    after_step: Callable[[], None] = lambda: None,
) -> Hypothesis:
    """The log-probability and the score of a given translation, by a search that can write nothing else.

    Rules that forbid translations are switched off, because what they forbid has no score.
    """
    tokens = tuple(translator.model.vocabularies["target"].encode([target])[0])
    nothing_else = {
        "method": "greedy" if config.method == "greedy" else "beam",
        **{"beam_size": 1, "diverse_groups": 1, "max_length": len(tokens)},
        **{"min_length": 0, "min_length_ratio": 0.0, "no_repeat_ngram": 0},
    }
    return search_one(translator, read, changed_decoding(config, nothing_else), after_step, demands=Demands([tokens]))


def search_one(
    translator: Translator, read: Sentences, config: DecodingConfig, after_step: Callable[[], None], **more: Any
) -> Hypothesis:
    """The best hypothesis for one sentence; `more` is passed on to the search."""
    with translator._computing(config.precision):
        state, longest = translator._start([read], np.array([0]), config.rows(1))
        ((answer, *_),) = to_the_end(search_steps, after_step)(
            state,
            torch.from_numpy(read.lengths - 1).to(translator.device),
            config,
            begin_id=BEGIN_ID,
            end_id=END_ID,
            longest=longest,
            **more,
        )
    return answer


def read_over(
    model: Seq2Seq,
    source: list[int],
    target: Sequence[int],
    device: torch.device,
    after_step: Callable[[], None] = lambda: None,
) -> tuple[Float[Tensor, "target vocab"], Float[Tensor, "layers heads target source"]]:
    """The log-probabilities of every piece at each place of a given translation and at its end, and the attention.

    Uses the plain form of the steps, which returns the attention of all heads (models/stepping.py).
    """
    state = model.start_plain(torch.tensor([source], device=device))
    log_probs, heads = [], []
    for token in (BEGIN_ID, *target):
        log_probs.append(state.step(torch.tensor([token], device=device))[0])
        heads.append(state.head_attention()[:, 0])
        after_step()
    refuse_nan(torch.stack(log_probs))
    return torch.stack(log_probs), torch.stack(heads, dim=2)


def most_probable(
    log_probs: Float[Tensor, "target vocab"], best: int, vocabulary: Sequence[str]
) -> tuple[tuple[Choice, ...], ...]:
    """The `best` most probable pieces at each place, or all if there are fewer."""
    found = log_probs.topk(min(best, log_probs.size(1)))
    return tuple(
        tuple(Choice(piece, value) for piece, value in zip(spelled(tokens, vocabulary), values, strict=True))
        for tokens, values in zip(found.indices.tolist(), found.values.tolist(), strict=True)
    )


def words_of(
    model: TranslationModel, source_pieces: Sequence[str], target_pieces: Sequence[str]
) -> tuple[tuple[WordRange, ...], tuple[WordRange, ...]]:
    """The words of both sides, without a tag before the source and without </s>."""
    kind, data = model.recipe.tokenizer.kind, model.recipe.data
    tags = len(tag_ids(model.vocabularies["source"], data.tag))
    of_source = word_ranges(source_pieces[tags:-1], kind=kind, language=data.source)
    of_target = word_ranges(target_pieces[:-1], kind=kind, language=data.target)
    return tuple(WordRange(word.text, word.first + tags, word.last + tags) for word in of_source), tuple(of_target)


def mean_over_heads(
    heads: Float[np.ndarray, "layers heads target source"], layer: int | None
) -> Float[np.ndarray, "target source"]:
    return heads.mean((0, 1)) if layer is None else heads[layer - 1].mean(0)


def align(
    attention: Float[np.ndarray, "target source"], source_words: Sequence[WordRange], target_words: Sequence[WordRange]
) -> tuple[Link, ...]:
    """Link each target word to the source word that its pieces attend to most."""
    return strongest(word_attention(attention, target_words, source_words).tolist())


def strongest(weights: Sequence[Sequence[float]]) -> tuple[Link, ...]:
    """Link each target word to the source word of its highest weight: [target word][source word]."""
    best = [max(range(len(of_word)), key=of_word.__getitem__) for of_word in weights if of_word]
    return tuple(Link(number, source, weights[number][source]) for number, source in enumerate(best))


def without_words(
    translator: Translator,
    text: str,
    source: Sequence[int],
    words: Sequence[WordRange],
    config: DecodingConfig,
    after_step: Callable[[], None],
) -> tuple[Variant, ...]:
    """What the model translates without each of the source words and the signs behind it, but the last one."""
    is_sign = [not any(map(str.isalnum, word.text)) for word in words]
    parts: list[tuple[int, int]] = []  # first and last word
    for number in range(len(words)):
        last = number
        while last + 2 < len(words) and is_sign[last + 1] and not is_sign[number]:
            last += 1
        parts += [] if is_sign[number] else [(number, last)]
    if len(parts) < 2:
        return ()
    read = Sentences([[*source[: words[a].first], *source[words[b].last + 1 :]] for a, b in parts])
    indices = np.arange(len(parts))
    with translator._computing(config.precision):
        found = to_the_end(translator._search_steps, after_step)([read], indices, config, 1, Demands())
    removed = ["".join(word.text for word in words[a : b + 1]) for a, b in parts]
    spelled = [translator._spell(text, answers[:1], config.script)[0] for answers in found]
    return tuple(Variant(words, one.text, one.score) for words, one in zip(removed, spelled, strict=True))


def occlude(
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    log_probs: Float[Tensor, " target"],
    source_words: Sequence[WordRange],
    target_words: Sequence[WordRange],
    after_step: Callable[[], None] = lambda: None,
) -> list[list[float]]:
    """The nats that each target word loses when each source word is removed: [target word][source word].

    `log_probs` are those of the target pieces and </s> given the whole source.
    """
    without = Sentences([[*source[: word.first], *source[word.last + 1 :]] for word in source_words])
    read = torch.tensor([[BEGIN_ID, *target, END_ID]], device=log_probs.device)
    lost: list[list[float]] = [[] for _ in target_words]
    at_once = max(1, TOKENS_AT_ONCE // read.size(1))
    for first in range(0, len(source_words), at_once):
        indices = np.arange(first, min(first + at_once, len(source_words)))
        sources = torch.from_numpy(without.padded(indices, PADDING_ID)).to(read.device)
        fallen = log_probs - target_log_probs(model, sources, read.expand(len(indices), -1))  # (source words, target)
        for word, of_word in zip(target_words, lost, strict=True):
            of_word += fallen[:, word.first : word.last + 1].sum(1).tolist()
        after_step()
    return lost


def spelled(ids: Sequence[int], pieces: Sequence[str]) -> tuple[str, ...]:
    return tuple(pieces[number] for number in ids)


def rounded(numbers: Sequence[float]) -> list[float]:
    return [round(number, 6) for number in numbers]
