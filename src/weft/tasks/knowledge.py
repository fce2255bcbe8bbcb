"""Knowledge: a language model reads documents by span corruption, then learns to answer questions about them.

A run trains on documents (pretraining), on questions with answers (fine-tuning, from the weights of training.init), or
on both. Answers are scored by exact match.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import torch

from weft.data.lines import read_lines
from weft.data.pair_files import TABLES, suffix_of
from weft.data.questions import Questions, has_questions, read_questions
from weft.data.sentences import Sentences
from weft.data.spans import ADDED, SpanBatch, SpanCorruption, salient_places, span_buckets
from weft.data.store import Store
from weft.decoding.greedy import greedy_search
from weft.decoding.rules import Prefix, Ruled
from weft.errors import UsageError
from weft.folders.finding import read_found
from weft.folders.metrics import METRICS
from weft.folders.model_folder import Learned, load_model
from weft.folders.recipes import KnowledgeRecipe
from weft.metrics.answers import score_answers
from weft.models.language_model import Autoregressive
from weft.preparing.corpora import refuse_shared_files
from weft.preparing.parents import text_parents
from weft.preparing.prepared import Files
from weft.preparing.texts import Rows, TextPreparation
from weft.runtime import choose_device
from weft.tasks.kind import Lesson, Scored, TaskKind
from weft.tasks.language_modelling import describe_rows, digest_of, loss_of_tokens
from weft.tasks.perplexity import in_fp32
from weft.text.tokenizer import Tokenizer
from weft.text.vocabulary import BEGIN_ID, END_ID, MASK
from weft.training.distributed import ALONE, Ranks
from weft.training.task import Evaluation, Listener, Loss

SAMPLES_SHOWN = 4
MOST_ROWS = 512
"""Questions that are answered at once."""
LONG_ANSWER = 32
"""Tokens that an answer may have, whatever the context."""


def read(recipe: KnowledgeRecipe, root: Path, listener: Listener) -> Files:
    """The lines of all files; those of questions have a tab before the answer."""
    if tables := [name for name in recipe.data.train if suffix_of(name) in TABLES and not has_questions(name)]:
        raise UsageError(f"{tables[0]} is a table; documents are a text file, one a line, and questions a .tsv file")
    if of_questions := [name for name in recipe.data.train if has_questions(name)]:
        read_questions(of_questions, root)
    train, valid = read_lines(recipe.data.train, root), read_questions(recipe.data.valid, root)
    refuse_shared_files(train.sha256, valid.sha256, rows="questions")
    init = recipe.training.init
    return Files(root, train.sha256, valid, {"init": {} if init is None else {init: digest_of(init)}}, train)


def texts_of(files: Files) -> list[str]:
    return [text.replace("\t", " ") for text in files.lines.texts]


def rows_of(recipe: KnowledgeRecipe, tokenizer: Tokenizer, files: Files) -> Rows:
    """The documents and the questions, without those that have no token and questions that are too long."""
    given = list(zip(files.lines.places, files.lines.texts, strict=True))
    parts = [text.partition("\t") if has_questions(file) else (text, "", "") for (file, _), text in given]
    before, after = (tokenizer.encode([part[side] for part in parts]) for side in (0, 2))
    spans = salient_places([part[0] for part in parts], tokenizer) if recipe.data.salient else [[]] * len(parts)
    kept = [
        (place, [*ids, *answer], [len(ids)] if has_questions(place[0]) else salient)
        for (place, _), ids, answer, salient in zip(given, before, after, spans, strict=True)
        if (answer and fits(ids, answer, recipe.data.context) if has_questions(place[0]) else ids)
    ]
    return Rows(
        {"text": [ids for _, ids, _ in kept], "places": [places for *_, places in kept]},
        [place for place, *_ in kept],
        len(given) - len(kept),
        f"lines without a token or questions over data.context = {recipe.data.context} tokens",
    )


def fits(question: Sequence[int], answer: Sequence[int], context: int) -> bool:
    return len(question) + len(answer) + ADDED <= context


class KnowledgeTask:
    """The loss of a batch of rows; and on held-out questions the loss per token of the answers, and exact match."""

    metrics = METRICS["knowledge"]
    counts = "target_tokens"

    def __init__(self, learned: Learned[KnowledgeRecipe], valid: Questions, ranks: Ranks = ALONE) -> None:
        self.ranks, self.valid, self.training = ranks, valid, learned.recipe.training
        self.context = learned.recipe.data.context
        self.network, self.tokenizer = learned.network, learned.vocabularies["text"]
        encoded = zip(self.tokenizer.encode(valid.questions), self.tokenizer.encode(valid.answers), strict=True)
        longest = learned.recipe.model.longest
        fitting = [pair for pair in encoded if longest is None or fits(*pair, longest)]
        if not fitting:
            raise UsageError(f"no held-out question fits into model.max_positions = {longest}; raise it")
        corruption = corruption_of(
            learned,
            Sentences([[*question, *answer] for question, answer in fitting]),
            Sentences([[len(question)] for question, _ in fitting]),
        )
        self.valid_batches = span_buckets(corruption, seed=learned.recipe.seed, batch_tokens=4096, part=ranks.part)

    @property
    def can_be_recorded(self) -> bool:
        return self.network.is_replayable

    def filled_up(self, batch: SpanBatch) -> SpanBatch:
        return batch.filled_up()

    def loss(self, model: Autoregressive, batch: SpanBatch) -> Loss:
        """Cross-entropy of every token that is predicted, given those before it."""
        return loss_of_tokens(
            model,
            batch.ids,
            batch.is_predicted(),
            smoothing=self.training.label_smoothing,
            z_loss=self.training.z_loss,
            count=batch.tokens,
        )

    def evaluate(self, model: Autoregressive) -> Evaluation:
        """valid_loss in nats per token of an answer, </s> included, of questions that fit into model.max_positions;
        valid_exact_match of all greedy answers, 0..1."""
        device = next(self.network.parameters()).device
        batches = [batch.to(device) for batch in self.valid_batches.in_order()]
        with in_fp32(model):
            losses = [loss_of_tokens(model, batch.ids, batch.is_predicted()) for batch in batches]
        sums, counts = self.ranks.add_up(
            [[loss.sums["nll"]] for loss in losses], [loss.count for loss in losses], patiently=True
        )
        loss = sum(float(nll) for (nll,) in sums) / sum(counts)
        answers = [""] * len(self.valid)
        if math.isfinite(loss):  # a search cannot work with other output
            questions = self.ranks.dealt_out(self.valid.questions)
            with in_fp32(model):
                answers = self.ranks.together(answer(model, self.tokenizer, questions, self.context, device))
        matches = score_answers(answers, self.valid.answers)["exact_match"].value
        shown = [
            {"source": question, "reference": reference, "hypothesis": given}
            for question, reference, given in zip(self.valid.questions, self.valid.answers, answers, strict=True)
        ]
        return Evaluation({"valid_loss": loss, "valid_exact_match": matches}, shown[:SAMPLES_SHOWN])


def answer(
    network: Autoregressive, tokenizer: Tokenizer, questions: Sequence[str], context: int, device: torch.device
) -> list[str]:
    """The most probable continuation of each question, token by token, as long as the context has room for it."""
    mask = tokenizer.tag_id(MASK)
    prompts = [[*ids, mask, mask] for ids in tokenizer.encode(questions)]
    answers = list[list[int]]()
    for begin in range(0, len(prompts), MOST_ROWS):
        some = prompts[begin : begin + MOST_ROWS]
        prefix = Prefix(some, device)
        limits = (prefix.lengths + LONG_ANSWER).clamp(min=context - 2)  # <s> and </s> are not counted
        steps = Ruled(network.start(len(some)), [], len(some), 1, prefix)
        found = greedy_search(steps, limits, begin_id=BEGIN_ID, end_id=END_ID)
        answers += [[*one.tokens[len(prompt) :]] for one, prompt in zip(found, some, strict=True)]
    return tokenizer.decode(answers)


def corruption_of(learned: Learned[KnowledgeRecipe], texts: Sentences, places: Sentences) -> SpanCorruption:
    data, mask_id = learned.recipe.data, learned.vocabularies["text"].tag_id(MASK)
    assert mask_id is not None  # the vocabulary was made with it
    return SpanCorruption(texts, places, learned.recipe.seed, mask_id, data.context, data.salient)


def learn(learned: Learned[KnowledgeRecipe], store: Store, files: Files, listener: Listener, ranks: Ranks) -> Lesson:
    recipe = learned.recipe
    batches = span_buckets(
        corruption_of(learned, store.columns["text"], store.columns["places"]),
        seed=recipe.seed,
        batch_tokens=recipe.training.batch_tokens,
        batch_sentences=recipe.training.batch_sentences,
        part=ranks.part,
    )

    task = KnowledgeTask(learned, files.valid, ranks)
    return Lesson(task, batches, lambda batch: {"texts": describe_rows(learned, store, batch.rows)})


class Knowledge:
    """A trained model that answers questions."""

    def __init__(self, learned: Learned[KnowledgeRecipe], device: torch.device | None = None) -> None:
        self.learned = learned
        self.device = device or choose_device()
        self.network = learned.network.to(self.device).eval()

    @torch.inference_mode()
    def answer(self, questions: Sequence[str]) -> list[str]:
        """The answer to each question."""
        tokenizer, context = self.learned.vocabularies["text"], self.learned.recipe.data.context
        return answer(self.network, tokenizer, questions, context, self.device)


def open_model(name: str | Path, overrides: Sequence[str] = (), others: Sequence[str | Path] = ()) -> Knowledge:
    if others or overrides:
        raise UsageError(f"{name} answers questions; it takes neither overrides nor other models beside it")
    return Knowledge(read_found(name, load_model))


def score(learned: Learned[KnowledgeRecipe], valid: Questions) -> Scored:
    """Exact match of greedy answers, next to that of always the same answer."""
    scores = score_answers(Knowledge(learned).answer(valid.questions), valid.answers)
    found = {"data": valid.sha256, "parameters": learned.count_parameters(), **scores.as_dict()}
    return Scored([found], scores.table().text())


PREPARATION = TextPreparation(texts_of, rows_of, tags=(MASK,))

KNOWLEDGE: TaskKind[KnowledgeRecipe] = TaskKind(
    read=read,
    parents=text_parents,
    prepare=PREPARATION.prepare,
    reopen=PREPARATION.reopen,
    learn=learn,
    measure=KnowledgeTask,
    score=score,
    open=open_model,
)
