"""Language modelling: the loss of a batch of texts, and the perplexity of held-out texts."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from weft.config import changed
from weft.data.lines import LineBatch, Lines, line_buckets, read_lines, refuse_tables, without_end
from weft.data.running import running_batches
from weft.data.store import Store
from weft.errors import UsageError
from weft.files import sha256
from weft.folders.finding import find_model
from weft.folders.manifest import MANIFEST
from weft.folders.metrics import METRICS
from weft.folders.model_folder import Learned
from weft.folders.recipes import LanguageModelRecipe
from weft.layers.fast.blocked_loss import IGNORED
from weft.models.language_model import Autoregressive
from weft.models.ngram import NgramLanguageModel
from weft.preparing.corpora import refuse_shared_files
from weft.preparing.parents import text_parents
from weft.preparing.prepared import Files
from weft.preparing.texts import Rows, TextPreparation
from weft.runtime import choose_device
from weft.tasks.carrying import StreamStates
from weft.tasks.generating import open_model
from weft.tasks.kind import Lesson, Scored, TaskKind
from weft.tasks.perplexity import HeldOutText, LanguageNetwork, encode, in_fp32, table_of
from weft.tasks.suspicion import suspicion
from weft.text.tokenizer import Tokenizer
from weft.text.vocabulary import BEGIN_ID, PADDING_ID
from weft.training.distributed import ALONE, Ranks
from weft.training.losses import blocked_cross_entropy
from weft.training.task import Evaluation, Listener, Loss

LOGGED_AS = {"nats": "loss"}


def read(recipe: LanguageModelRecipe, root: Path, listener: Listener) -> Files:
    data = recipe.data
    refuse_tables((*data.train, *data.valid), data.column)
    train = read_lines(data.train, root, keeps_blank=data.running, column=data.column)
    if data.valid_share is None:
        valid = read_lines(data.valid, root, keeps_blank=data.running, column=data.column)
        refuse_shared_files(train.sha256, valid.sha256, rows="texts")
    else:
        train, valid = without_end(train, data.valid_share)
    models = [name for name in (recipe.training.init, recipe.tokenizer.vocabulary_of) if name is not None]
    valid = replace(valid, running=data.running)
    return Files(root, train.sha256, valid, {"init": {name: digest_of(name) for name in models}}, train)


def digest_of(model: str) -> str:
    """sha256 of the manifest of a model; empty without one, which a run that has begun does not need any more."""
    try:
        return sha256(find_model(model) / MANIFEST)
    except UsageError:
        return ""


def rows_of(recipe: LanguageModelRecipe, tokenizer: Tokenizer, files: Files) -> Rows:
    """The texts without those that are too long; of a running text every line."""
    encoded = encode(tokenizer, files.lines.texts, begin=None if recipe.data.running else BEGIN_ID)
    most = math.inf if recipe.data.running else recipe.data.max_length
    kept = np.flatnonzero(encoded.lengths - 2 <= most).tolist()  # without <s> and </s>
    return Rows(
        {"text": [encoded[row].tolist() for row in kept]},
        [files.lines.places[row] for row in kept],
        len(encoded) - len(kept),
        f"texts over data.max_length = {most} pieces",
    )


def loss_of_tokens(
    model: Autoregressive,
    tokens: Int[Tensor, "batch time"],
    counted: Bool[Tensor, "batch time-1"] | None = None,
    *,
    vectors: Float[Tensor, "batch time-1 model"] | None = None,
    smoothing: float = 0.0,
    z_loss: float = 0.0,
    count: int | None = None,
) -> Loss:
    """Cross-entropy of every token but the first of a row, given those before it.

    `counted` is True at the tokens that count, by default at all but padding. Where their number `count` is given, the
    others are ignored and not removed, since removing them would wait for an accelerator. `vectors` are those of all
    tokens but the last of a row, if they are known.
    """
    labels = tokens[:, 1:]
    counted = labels != PADDING_ID if counted is None else counted
    hidden = model(tokens[:, :-1]) if vectors is None else vectors
    if count is None:
        hidden, labels = hidden[counted], labels[counted]
    else:
        hidden, labels = hidden.flatten(0, 1), labels.masked_fill(~counted, IGNORED).flatten()
    return blocked_cross_entropy(hidden, model.output.weight, labels, smoothing, z_loss, tokens=count)


class LanguageModelTask:
    """The loss of a batch of texts, and the perplexity of held-out texts."""

    metrics = METRICS["language-model"]
    counts = "target_tokens"

    def __init__(
        self,
        learned: Learned[LanguageModelRecipe],
        valid: Lines,
        ranks: Ranks = ALONE,
        *,
        say: Callable[[str], None] | None = None,
    ) -> None:
        """`say` is told of a training loss that is too low to be true, once."""
        self.ranks, self.training = ranks, learned.recipe.training
        self.states = StreamStates(ranks, batches_of_update=self.training.accumulate)
        self.valid, self.say = HeldOutText(learned, valid.texts), say
        self.nats: Tensor | float = 0.0
        """The sum over the `count` tokens that were trained on since the last validation."""
        self.count = 0

    def loss(self, model: Autoregressive, batch: LineBatch) -> Loss:
        """Cross-entropy of every token given those before it, also those of the batches before, if the text runs on."""
        vectors = None
        if batch.place is not None:
            vectors, state = model.extend(batch.tokens[:, :-1], self.states.of(batch))
            self.states.keep(state)
        smoothing, z_loss = self.training.label_smoothing, self.training.z_loss
        loss = loss_of_tokens(model, batch.tokens, vectors=vectors, smoothing=smoothing, z_loss=z_loss)
        self.nats, self.count = self.nats + loss.sums["nll"], self.count + loss.count
        return loss

    def evaluate(self, model: LanguageNetwork) -> Evaluation:
        """valid_loss in nats per piece, and the other figures of perplexity.py, in fp32."""
        with in_fp32(model):
            nats = [float(-found.sum()) for _, found in self.valid.log_probs(model, self.ranks.part)]
        (((total,),), _) = self.ranks.add_up([[sum(nats)]], [0], patiently=True)
        scores = self.valid.scores(float(total))
        self.look_for_a_leak(model, scores["nats"]["value"])
        return Evaluation({f"valid_{LOGGED_AS.get(name, name)}": each["value"] for name, each in scores.items()})

    def look_for_a_leak(self, model: LanguageNetwork, validation: float) -> None:
        if self.say is None or not self.count or isinstance(model, NgramLanguageModel):
            return
        training, self.nats, self.count = float(self.nats) / self.count, 0.0, 0
        longest = self.valid.ids[int(self.valid.ids.lengths.argmax())]
        tokens = torch.from_numpy(longest[: min(64, self.valid.window[0])].astype(np.int64))[None]
        tokens = tokens.to(model.output.weight.device)
        if (what := suspicion(model, tokens, training, validation)) is not None:
            self.say(what)
            self.say = None

    def carried(self) -> dict[str, Tensor]:
        return self.states.tensors()

    def restore(self, tensors: dict[str, Tensor], device: torch.device) -> None:
        self.states.restore(tensors, device)


def learn(
    learned: Learned[LanguageModelRecipe], store: Store, files: Files, listener: Listener, ranks: Ranks
) -> Lesson:
    recipe, text = learned.recipe, store.columns["text"]
    settings: dict[str, Any] = {
        "seed": recipe.seed,
        "batch_tokens": recipe.training.batch_tokens,
        "batch_sentences": recipe.training.batch_sentences,
        "part": ranks.part,
    }
    if recipe.data.running:
        carries = recipe.model.carries_state
        batches = running_batches(text, context=recipe.data.seen_at_once, in_order=carries, **settings)
    else:
        batches = line_buckets(text, **settings)

    def describe(batch: LineBatch) -> dict[str, list[Any]]:
        if recipe.data.running:
            return {"texts": learned.vocabularies["text"].decode(batch.tokens.tolist())}
        return {"lines": describe_rows(learned, store, batch.rows)}

    return Lesson(LanguageModelTask(learned, files.valid, ranks, say=listener.on_message), batches, describe)


def describe_rows(learned: Learned[Any], store: Store, rows: Int[np.ndarray, " rows"] | None) -> list[dict[str, Any]]:
    """The file, the line and the text of each of these rows."""
    found = [] if rows is None else rows.tolist()  # a rank for which no row was left
    texts = learned.vocabularies["text"].decode([store.columns["text"][row].tolist() for row in found])
    places = map(store.origin, found)
    return [{"file": file, "line": line, "text": text} for (file, line), text in zip(places, texts, strict=True)]


def score(learned: Learned[LanguageModelRecipe], valid: Lines) -> Scored:
    """The figures of perplexity.py."""
    text = HeldOutText(learned, valid.texts)
    network = learned.network.to(choose_device()).eval()
    scores = text.scores(sum(float(-found.sum()) for _, found in text.log_probs(network)))
    counts = {"sentences": len(valid), "parameters": learned.count_parameters()}
    return Scored([{"data": valid.sha256, **counts, "scores": scores}], table_of(scores))


def fit(learned: Learned[LanguageModelRecipe], store: Store) -> list[str]:
    """Estimate an n-gram model. How many n-grams there are, which gives the model its shape, is kept in the recipe."""
    messages = learned.network.fit(store.columns["text"].ids)
    learned.resolved = changed(learned.resolved, {"model.counts": list(learned.network.config.counts)}, "counted")
    return messages


PREPARATION = TextPreparation(lambda files: files.lines.texts, rows_of)

LANGUAGE_MODEL: TaskKind[LanguageModelRecipe] = TaskKind(
    read=read,
    parents=text_parents,
    prepare=PREPARATION.prepare,
    reopen=PREPARATION.reopen,
    learn=learn,
    measure=LanguageModelTask,
    score=score,
    open=open_model,
    fit=fit,
)
