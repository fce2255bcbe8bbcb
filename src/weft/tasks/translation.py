"""Translation: the loss of a batch of pairs, and the metrics of a model on held-out pairs.

A trained model is used through translating/translator.py.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from weft.config import changed
from weft.data.augmentation import PairNoise
from weft.data.batching import Batch, Buckets, pair_buckets
from weft.data.corpus import ParallelText
from weft.data.encoding import pairs_of_ids, tag_ids
from weft.data.store import Store
from weft.errors import CorpusError, Problem, RunError, UsageError
from weft.evaluating.details import details
from weft.evaluating.evaluation import evaluate
from weft.folders.metrics import METRICS
from weft.folders.model_folder import TranslationModel
from weft.folders.recipes import TranslationRecipe
from weft.layers.fast.blocked_loss import IGNORED, Teaching
from weft.metrics.references import reference_sets
from weft.models.contract import Decoded, Seq2Seq
from weft.preparing.corpora import Corpora, read_all
from weft.preparing.defaults import choose_smaller, usual_epochs
from weft.preparing.parents import parents_of
from weft.preparing.preparation import prepare, reopen
from weft.preparing.teachers import load_teachers
from weft.preparing.vocabularies import can_begin_with
from weft.runtime import choose_device
from weft.tasks.kind import Lesson, Scored, TaskKind
from weft.text.copying import copied_pairs
from weft.text.tokenizer import Tokenizer
from weft.text.vocabulary import PADDING_ID
from weft.training.distributed import ALONE, Ranks
from weft.training.losses import blocked_cross_entropy, blocked_guided_cross_entropy, copying_cross_entropy
from weft.training.task import Evaluation, Listener, Loss
from weft.translating.batches import LONGEST_SOURCE, computing_in
from weft.translating.exported import load_for
from weft.translating.language_models import load_language_model
from weft.translating.translator import Translator

SAMPLES_SHOWN = 4
BIAS_COLUMNS = 16
"""The bias of the output in its matrix: after one column alone no row would be aligned, and in fp32 the gradient of the
matrix would take half as long again."""


class TranslationTask:
    """The loss of a batch of pairs, and loss, token accuracy, BLEU and samples on held-out pairs."""

    metrics = METRICS["translation"]
    counts = "target_tokens"

    def __init__(
        self,
        model: TranslationModel,
        valid: ParallelText,
        ranks: Ranks = ALONE,
        *,
        teachers: Sequence[Seq2Seq] = (),
    ) -> None:
        """The teachers (teachers.py) are used only in `loss`.

        Raises CorpusError if a validation pair has more tokens than the model has positions, or if its source is too
        long to be translated at once, and UsageError for settings of [decoding] that the model cannot be searched by.
        """
        self.ranks = ranks
        self.teachers = teachers
        self.training = model.recipe.training
        self.target_language = model.recipe.data.target
        self.translator = Translator(model)
        decoding = model.recipe.decoding
        if decoding.language_model is not None:
            load_language_model(decoding.language_model, model.vocabularies["target"])
        if decoding.coverage_penalty and not model.recipe.model.attending_layers:
            raise UsageError(f"decoding.coverage_penalty = {decoding.coverage_penalty} needs a model with attention")
        self.valid = valid
        self.valid_batches = pair_batches(
            valid,
            model.vocabularies["source"],
            model.vocabularies["target"],
            batch_tokens=4096,
            seed=model.recipe.seed,
            tag=model.recipe.data.tag,
            copying=model.recipe.tokenizer.copying,
        )
        refuse_too_long_pairs(model, self.valid_batches, valid)
        self.valid_batches = replace(self.valid_batches, part=ranks.part)
        shown = np.random.default_rng(model.recipe.seed).permutation(len(valid))[:SAMPLES_SHOWN]
        self.shown = sorted(int(index) for index in shown)

    @property
    def can_be_recorded(self) -> bool:
        """Whether the loss runs the same operations for all batches of one shape, so without layer dropout. (It might
        with teachers too; that is untested.)"""
        return not self.teachers and self.translator.model.network.is_replayable

    def filled_up(self, batch: Batch) -> Batch:
        return batch.filled_up(PADDING_ID, self.translator.model.network.config.longest)

    def loss(self, model: Seq2Seq, batch: Batch) -> Loss:
        """Cross-entropy of every target token given those before it, plus what the recipe sets: z-loss, R-Drop (two
        passes with different dropout masks), distillation from teachers."""
        assert len(self.teachers) == len(self.training.teachers)
        if self.training.r_drop or self.teachers:
            loss = self._guided_loss(model, batch)
        else:
            loss = loss_of(model, batch, self.training.label_smoothing, self.training.z_loss)
        return replace(loss, sums={"nll": loss.sums["nll"]})  # accuracy is reported only on held-out pairs

    def _guided_loss(self, model: Seq2Seq, batch: Batch) -> Loss:
        training, passes = self.training, self.training.passes
        # One forward pass over the repeated batch; each copy gets its own dropout mask.
        source, target = batch.source.repeat(passes, 1), batch.target.repeat(passes, 1)
        decoded, expected = model.states(source, target[:, :-1]), target[:, 1:]
        hidden, labels = rows_and_labels(decoded.hidden, expected, model, batch.tokens)
        rows = len(labels) // passes
        loss = blocked_guided_cross_entropy(
            hidden.unflatten(0, (passes, rows)),
            output_matrix(model),
            labels[:rows],
            training.label_smoothing,
            training.z_loss,
            r_drop=training.r_drop,
            teaching=self._teaching(batch) if self.teachers else None,
            tokens=batch.tokens,
        )
        return with_penalty(loss, decoded, expected, passes)

    def _teaching(self, batch: Batch) -> Teaching:
        given, expected = batch.target[:, :-1], batch.target[:, 1:]
        with torch.inference_mode():
            decoded = [teacher.states(batch.source, given) for teacher in self.teachers]
            hidden = tuple(
                rows_and_labels(each.hidden, expected, teacher, batch.tokens)[0]
                for each, teacher in zip(decoded, self.teachers, strict=True)
            )
        weights = tuple(output_matrix(teacher).detach() for teacher in self.teachers)
        return Teaching(hidden, weights, self.training.distill_weight, self.training.distill_temperature)

    def evaluate(self, model: Seq2Seq) -> Evaluation:
        """Evaluate in fp32, whatever the precision of training. valid_bleu is sacreBLEU of greedy translations, or of
        empty ones if the loss is not finite, because a search cannot work with such output.

        Other scores are computed if the recipe's select_by names them. If several processes train, each evaluates its
        share of the pairs, and all get the same result.
        """
        from weft.metrics.translation import (  # imports sacrebleu, which translating does not need
            sacre_bleu,
            score_translations,
        )

        self.translator.repack()
        with computing_in(model, torch.float32):
            losses = [loss_of(model, batch.to(self.translator.device), 0.0) for batch in self.valid_batches.in_order()]
        rows = [[loss.sums["nll"], loss.sums["correct"]] for loss in losses]
        sums, counts = self.ranks.add_up(rows, [loss.count for loss in losses], patiently=True)
        loss = sum(float(nll) for nll, _ in sums) / sum(counts)
        hypotheses = self._hypotheses() if math.isfinite(loss) else [""] * len(self.valid)
        references = reference_sets(self.valid.references)
        metrics = {
            "valid_loss": loss,
            "valid_accuracy": sum(float(correct) for _, correct in sums) / sum(counts),
            "valid_bleu": sacre_bleu(hypotheses, references, self.target_language).value,
        }
        if (wanted := f"valid_{self.training.select_by}") not in metrics:
            scores = score_translations(hypotheses, references, self.target_language)
            metrics[wanted] = scores[self.training.select_by].value
        return Evaluation(
            metrics=metrics,
            samples=[
                {
                    "source": self.valid.sources[index],
                    "reference": self.valid.targets[index],
                    "hypothesis": hypotheses[index],
                }
                for index in self.shown
            ],
        )

    def _hypotheses(self) -> list[str]:
        share = self.translator.translate(self.ranks.dealt_out(self.valid.sources), method="greedy", precision="fp32")
        return self.ranks.together([translation.text for translation in share])


def loss_of(model: Seq2Seq, batch: Batch, smoothing: float, z_loss: float = 0.0) -> Loss:
    """Cross-entropy of every target token given those before it, with what the network itself adds."""
    decoded, expected = model.states(batch.source, batch.target[:, :-1]), batch.target[:, 1:]
    if decoded.copied is not None:
        is_token = expected != PADDING_ID
        loss = copying_cross_entropy(decoded.log_probs(model.output)[is_token], expected[is_token], smoothing)
    else:
        hidden, labels = rows_and_labels(decoded.hidden, expected, model, batch.tokens)
        loss = blocked_cross_entropy(hidden, output_matrix(model), labels, smoothing, z_loss, tokens=batch.tokens)
    return with_penalty(loss, decoded, expected)


def rows_and_labels(
    hidden: Float[Tensor, "batch target model"],
    expected: Int[Tensor, "batch target"],
    model: Seq2Seq,
    tokens: int | None,
) -> tuple[Float[Tensor, "tokens state"], Int[Tensor, " tokens"]]:
    """The decoder's hidden state before each target token, and that token.

    Padding is removed, so that no logits are computed for it. A batch that knows its number of `tokens` keeps it, with
    the label IGNORED, because removing it would wait for the accelerator. If the output has a bias, each state ends in
    a 1 for it and zeros (see `output_matrix`).
    """
    if model.output.bias is not None:
        hidden = F.pad(F.pad(hidden, (0, 1), value=1.0), (0, BIAS_COLUMNS - 1))
    is_token = expected != PADDING_ID
    if tokens is not None:
        return hidden.flatten(0, 1), expected.masked_fill(~is_token, IGNORED).flatten()
    return hidden[is_token], expected[is_token]


def with_penalty(loss: Loss, decoded: Decoded, expected: Int[Tensor, "batch target"], passes: int = 1) -> Loss:
    """The loss with what the network itself adds at the target tokens; a mean over the passes, as the rest is."""
    if decoded.penalty is None:
        return loss
    return replace(loss, total=loss.total + (decoded.penalty * (expected != PADDING_ID)).sum() / passes)


def output_matrix(model: Seq2Seq) -> Float[Tensor, "vocab model"]:
    """The matrix that maps the states of `rows_and_labels` to logits: the output weights, with any bias as the column
    after them and zeros in the rest of BIAS_COLUMNS."""
    output = model.output
    if output.bias is None:
        return output.weight
    return torch.cat([output.weight, F.pad(output.bias[:, None], (0, BIAS_COLUMNS - 1))], dim=1)


def pair_batches(
    pairs: ParallelText,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    *,
    seed: int,
    batch_tokens: int | None = None,
    batch_sentences: int | None = None,
    tag: str | None = None,
    copying: bool = False,
) -> Buckets[Batch]:
    """Batches of pairs in memory; `tag` is put before each source."""
    sources, targets = copied_pairs(pairs.sources, pairs.targets) if copying else (pairs.sources, pairs.targets)
    before = [tag_ids(source_tokenizer, tag)] * len(pairs)
    encoded = pairs_of_ids(source_tokenizer.encode(sources), target_tokenizer.encode(targets), before, max_length=None)
    return pair_buckets(
        sources=encoded.sources,
        targets=encoded.targets,
        padding_id=PADDING_ID,
        seed=seed,
        batch_tokens=batch_tokens,
        batch_sentences=batch_sentences,
    )


def refuse_too_long_pairs(model: TranslationModel, batches: Buckets[Batch], pairs: ParallelText) -> None:
    """Raise CorpusError for validation pairs with more tokens than the model has positions, and for sources that
    are too long to be translated at once. (Training pairs that long have been dropped.)"""
    lengths = np.maximum(batches.columns[0].lengths, batches.columns[1].lengths - 1)  # </s> is not read by the decoder
    longest, tags = model.recipe.model.longest, tag_ids(model.vocabularies["source"], model.recipe.data.tag)
    problems = []
    pieces = batches.columns[0].lengths - 1 - len(tags)  # without </s>
    for index in np.flatnonzero((lengths > (longest or math.inf)) | (pieces > LONGEST_SOURCE)).tolist():
        found = pairs.describe(index)
        where = f"{found['file']}, line {found['line']}" if "file" in found else f"pair {index + 1}"
        if longest is not None and lengths[index] > longest:
            what = f"has {lengths[index]:,} tokens; the model learns {longest:,} positions (raise model.max_positions)"
        else:
            what = (
                f"has a source of {pieces[index]:,} pieces; at most {LONGEST_SOURCE:,} are translated at once (split "
                "it into sentences)"
            )
        problems.append(Problem(where, what))
    if problems:
        raise CorpusError("the validation corpus", problems)


def training_batches(
    model: TranslationModel, store: Store, listener: Listener, teachers: Sequence[Seq2Seq] = ()
) -> Buckets[Batch]:
    """Batch the training pairs by the recipe, within the positions of the model and its teachers."""
    recipe = model.recipe
    noise = None
    if recipe.augmentation.is_noisy:
        tokenizers = model.vocabularies["source"], model.vocabularies["target"]
        tags = frozenset(token for part in store.parts for token in tag_ids(model.vocabularies["source"], part.tag))
        positions = [reader.config.longest for reader in (model.network, *teachers)]
        noise = PairNoise(
            recipe.augmentation,
            recipe.seed,
            store.columns["source"],
            store.columns["target"],
            *tokenizers,
            tags,
            longest=min((longest for longest in positions if longest is not None), default=None),
        )
    batches = pair_buckets(
        sources=store.columns["source"],
        targets=store.columns["target"],
        padding_id=PADDING_ID,
        seed=recipe.seed,
        batch_tokens=recipe.training.batch_tokens,
        batch_sentences=recipe.training.batch_sentences,
        weights=store.weights,
        noise=noise,
    )
    if not batches.rows_per_epoch():
        raise RunError("by their weights in data.train, an epoch holds no pairs; raise a weight")
    if batches.rows_per_epoch() != len(batches):
        listener.on_message(f"an epoch holds {batches.rows_per_epoch():,} pairs, by the weights of the corpora")
    return batches


def describe_pairs(store: Store, pairs: Sequence[int], model: TranslationModel) -> list[dict[str, Any]]:
    """Where these pairs come from (file and line), and the text that the model sees on both sides."""
    places = [store.origin(pair) for pair in pairs]
    sources = model.vocabularies["source"].decode([store.columns["source"][pair].tolist() for pair in pairs])
    targets = model.vocabularies["target"].decode([store.columns["target"][pair].tolist() for pair in pairs])
    return [
        {"file": file, "line": line, "source": source, "target": target}
        for (file, line), source, target in zip(places, sources, targets, strict=True)
    ]


def learn(learned: TranslationModel, store: Store, corpora: Corpora, listener: Listener, ranks: Ranks) -> Lesson:
    """The task and the batches of the recipe, with its teachers."""
    teachers = ranks.from_first(load_teachers, learned, listener)
    batches = replace(training_batches(learned, store, listener, teachers), part=ranks.part)
    for teacher in teachers:
        teacher.to(choose_device())

    def describe(batch: Batch) -> dict[str, list[Any]]:
        return {"pairs": [] if batch.pairs is None else describe_pairs(store, batch.pairs.tolist(), learned)}

    task = TranslationTask(learned, corpora.valid, ranks, teachers=teachers)
    return Lesson(task, batches, describe)


def score(learned: TranslationModel, valid: ParallelText) -> Scored:
    """Score the translations that the recipe's decoding finds, with confidence intervals."""
    translator = Translator(learned)
    evaluated = evaluate(translator, valid)
    with_intervals = evaluated.with_intervals()
    return Scored([with_intervals.as_dict()], with_intervals.scores.table().text(), details(translator, evaluated))


LONGER_THAN_REFERENCES = 1.1
"""Assumed pieces of output per piece of the references, when a validation is timed.

A trained model writes about as many pieces as the references, except for a sentence that runs to its limit now and
then; an untrained one never stops. A tenth more is an upper estimate.
"""


def with_lengths_of_references(learned: TranslationModel, batches: Buckets[Batch]) -> TranslationModel:
    """Limit the output length so that an untrained model writes as much as a trained one would."""
    sources, targets = batches.columns
    source, target = int((sources.lengths - 1).sum()), int((targets.lengths - 2).sum())
    ratio = min(20.0, LONGER_THAN_REFERENCES * target / source)
    limits = {"decoding.max_length_ratio": ratio, "decoding.max_length_extra": 1}
    return replace(learned, resolved=changed(learned.resolved, limits, "measured"))


TRANSLATION: TaskKind[TranslationRecipe] = TaskKind(
    read=read_all,
    prepare=prepare,
    reopen=reopen,
    learn=learn,
    measure=TranslationTask,
    score=score,
    open=lambda name, overrides, others: load_for(name, overrides, others=others),
    for_trial=with_lengths_of_references,
    parents=parents_of,
    smaller=choose_smaller,
    usual_epochs=usual_epochs,
    can_begin_with=can_begin_with,
)
