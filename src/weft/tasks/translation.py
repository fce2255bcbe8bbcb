"""What a good translator is: the loss of a batch of pairs, and the measures of a model on held-out pairs.

How one is used stands in translating/translator.py.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from weft.data.batching import Batch, PairBatches
from weft.data.corpus import ParallelText
from weft.data.encoding import encode_pairs, tag_ids
from weft.errors import CorpusError, Problem
from weft.folders.model_folder import TranslationModel
from weft.layers.fast.blocked_loss import IGNORED, Teaching
from weft.metrics.references import reference_sets
from weft.models.transformer import Transformer
from weft.tasks.metrics import METRICS
from weft.text.tokenizer import Tokenizer
from weft.text.vocabulary import PADDING_ID
from weft.training.distributed import ALONE, Ranks
from weft.training.losses import blocked_cross_entropy, blocked_guided_cross_entropy
from weft.training.task import Evaluation, Loss
from weft.translating.translator import LONGEST_SOURCE, Translator, computing_in

SAMPLES_SHOWN = 4


class TranslationTask:
    """The loss of a batch of pairs, and loss, token accuracy, BLEU and samples on held-out pairs."""

    metrics = METRICS["translation"]
    counts = "target_tokens"

    def __init__(
        self,
        model: TranslationModel,
        valid: ParallelText,
        *,
        seed: int,
        ranks: Ranks = ALONE,
        teachers: Sequence[Transformer] = (),
    ) -> None:
        """The teachers (teachers.py) are only asked in `loss`.

        Raises CorpusError where a validation pair is longer than the positions that the model learns, or its source
        longer than what is translated at once.
        """
        self.ranks = ranks
        self.teachers = teachers
        self.training = model.recipe.training
        self.target_language = model.recipe.data.target
        self.translator = Translator(model)
        self.valid = valid
        self.valid_batches = pair_batches(
            valid,
            model.vocabularies["source"],
            model.vocabularies["target"],
            batch_tokens=4096,
            seed=seed,
            tag=model.recipe.data.tag,
        )
        refuse_too_long_pairs(model, self.valid_batches, valid)
        self.valid_batches = replace(self.valid_batches, part=ranks.part)
        shown = np.random.default_rng(seed).permutation(len(valid))[:SAMPLES_SHOWN]
        self.shown = sorted(int(index) for index in shown)

    @property
    def can_be_recorded(self) -> bool:
        """Whether the loss is the same operations for all batches of one shape: no layer is left out by chance. (With
        teachers it might be; nobody has tried.)"""
        return not self.teachers and self.translator.model.network.is_replayable

    def filled_up(self, batch: Batch) -> Batch:
        return batch.filled_up(PADDING_ID, self.translator.model.network.config.longest)

    def loss(self, model: Transformer, batch: Batch) -> Loss:
        """Cross-entropy of every target token given those before it, and what the recipe sets beside it: z-loss, a
        second pass with other dropout (R-Drop), teachers."""
        assert len(self.teachers) == len(self.training.teachers)
        if self.training.r_drop or self.teachers:
            loss = self._guided_loss(model, batch)
        else:
            loss = self._loss(model, batch, self.training.label_smoothing, self.training.z_loss)
        return replace(loss, sums={"nll": loss.sums["nll"]})  # accuracy is of interest on held-out pairs alone

    def _loss(self, model: Transformer, batch: Batch, smoothing: float, z_loss: float = 0.0) -> Loss:
        hidden, labels = states_and_labels(model, batch)
        return blocked_cross_entropy(hidden, output_matrix(model), labels, smoothing, z_loss, tokens=batch.tokens)

    def _guided_loss(self, model: Transformer, batch: Batch) -> Loss:
        training, passes = self.training, self.training.passes
        # The batch and once more the batch, in one pass: dropout is another for each.
        repeated = Batch(batch.source.repeat(passes, 1), batch.target.repeat(passes, 1), tokens=batch.tokens)
        hidden, labels = states_and_labels(model, repeated)
        rows = len(labels) // passes
        return blocked_guided_cross_entropy(
            hidden.unflatten(0, (passes, rows)),
            output_matrix(model),
            labels[:rows],
            training.label_smoothing,
            training.z_loss,
            r_drop=training.r_drop,
            teaching=self._teaching(batch) if self.teachers else None,
            tokens=batch.tokens,
        )

    def _teaching(self, batch: Batch) -> Teaching:
        with torch.inference_mode():
            hidden = tuple(states_and_labels(teacher, batch)[0] for teacher in self.teachers)
        weights = tuple(output_matrix(teacher).detach() for teacher in self.teachers)
        return Teaching(hidden, weights, self.training.distill_weight, self.training.distill_temperature)

    def evaluate(self, model: Transformer) -> Evaluation:
        """Evaluate in fp32, whatever the precision of training. valid_bleu is sacreBLEU of greedy translations, or of
        empty ones if the loss is not finite, because a search cannot work with such output.

        Other scores are computed if the recipe's select_by names them. If several processes train, each evaluates its
        share of the pairs, and all get the same result.
        """
        from weft.metrics.translation import sacre_bleu, score_translations  # sacrebleu: no translation waits for it

        self.translator.repack()
        with computing_in(model, torch.float32):
            losses = [
                self._loss(model, batch.to(self.translator.device), 0.0) for batch in self.valid_batches.in_order()
            ]
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


def states_and_labels(model: Transformer, batch: Batch) -> tuple[Float[Tensor, "tokens model"], Int[Tensor, " tokens"]]:
    """The decoder's last vector before each target token, and that token. Padding is taken out, so it costs no product
    with the vocabulary; but in a batch whose tokens are counted it stays, under the label IGNORED, and nobody waits for
    an accelerator to find out how many rows there are. Where the output has a bias, the vector ends on a 1 for it: see
    `output_matrix`."""
    given, expected = batch.target[:, :-1], batch.target[:, 1:]
    memory, source_mask = model.encode(batch.source)
    hidden = model.decode(given, memory, source_mask)
    if model.output.bias is not None:
        hidden = torch.nn.functional.pad(hidden, (0, 1), value=1.0)
    is_token = expected != PADDING_ID
    if batch.tokens is not None:
        return hidden.flatten(0, 1), expected.masked_fill(~is_token, IGNORED).flatten()
    return hidden[is_token], expected[is_token]


def output_matrix(model: Transformer) -> Float[Tensor, "vocab model"]:
    """What the vectors of `states_and_labels` are multiplied by for logits: the output's weights, and its bias as one
    more column where it has one."""
    output = model.output
    return output.weight if output.bias is None else torch.cat([output.weight, output.bias[:, None]], dim=1)


def pair_batches(
    pairs: ParallelText,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    *,
    seed: int,
    batch_tokens: int | None = None,
    batch_sentences: int | None = None,
    tag: str | None = None,
) -> PairBatches:
    """Pairs in memory as ids, ready for batching; `tag` stands before each source."""
    encoded = encode_pairs(
        pairs.sources,
        pairs.targets,
        source_tokenizer,
        target_tokenizer,
        before=[tag_ids(source_tokenizer, tag)] * len(pairs),
    )
    return PairBatches(
        sources=encoded.sources,
        targets=encoded.targets,
        padding_id=PADDING_ID,
        seed=seed,
        batch_tokens=batch_tokens,
        batch_sentences=batch_sentences,
    )


def refuse_too_long_pairs(model: TranslationModel, batches: PairBatches, pairs: ParallelText) -> None:
    """Raise CorpusError, before anything is trained, for pairs with more tokens on a side than the model has positions,
    and for sources that are too long to be translated at once.

    Of training pairs those have been left out.
    """
    lengths = np.maximum(batches.sources.lengths, batches.targets.lengths - 1)  # </s> is not read by the decoder
    longest, tags = model.recipe.model.longest, tag_ids(model.vocabularies["source"], model.recipe.data.tag)
    problems = []
    pieces = batches.sources.lengths - 1 - len(tags)  # without </s>
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
