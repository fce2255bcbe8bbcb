"""The loss of language models: carried states, masks, and figures that are rescalings of one sum."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.tasks.language_models import KINDS, TEXTS, learned
from tests.watching import values
from torch.nn import functional as F

import weft
from weft.data.lines import LineBatch, Lines, LinesConfig
from weft.data.running import running_batches
from weft.data.sentences import Sentences
from weft.errors import UsageError
from weft.folders.recipes import LanguageModelRecipe
from weft.models.language_model import Carried, TransformerLmConfig
from weft.runs.train import Silent
from weft.tasks import perplexity
from weft.tasks.carrying import StreamStates
from weft.tasks.language_modelling import LanguageModelTask, loss_of_tokens, read
from weft.tasks.perplexity import HeldOutText, perplexities
from weft.text.kinds import train_tokenizer
from weft.text.vocabulary import PADDING_ID
from weft.training.distributed import Ranks

every_kind = pytest.mark.parametrize("kind", KINDS)


def lines(texts: list[str]) -> Lines:
    return Lines(texts, [("v", n) for n in range(1, len(texts) + 1)], {})


@pytest.mark.parametrize("kind", ["window", "rnn", "lstm"])
def test_states_carried_over_batches_and_checkpoints_are_one_long_pass(kind: str) -> None:
    model = learned(kind, running=True)
    text = Sentences([np.random.default_rng(1).integers(4, 270, 400).tolist()])
    batches = list(running_batches(text, context=7, in_order=True, seed=1, batch_sentences=3).epoch(0))
    task = LanguageModelTask(model, lines(TEXTS))
    found = []
    for number, batch in enumerate(batches):
        if number == 3:
            saved, task = task.carried(), LanguageModelTask(model, lines(TEXTS))
            task.restore(saved, torch.device("cpu"))
        if number == 5:  # an update whose batches 4 and 5 come again, since memory ran out in the middle of batch 5
            task.states.batches_of_update = 2
            for again in (batch.chunk(2)[0], batches[4], batch.chunk(2)[0], batches[4]):
                task.loss(model.network, again)
        parts = batch.chunk(2) if number >= 4 else [batch]
        found.append(sum(float(task.loss(model.network, part).sums["nll"]) for part in parts))
    whole = torch.cat([batches[0].tokens, *(batch.tokens[:, 1:] for batch in batches[1:])], 1)
    logits = model.network.output(model.network(whole[:, :-1]))
    nats = F.cross_entropy(logits.flatten(0, 1), whole[:, 1:].flatten(), reduction="none").view(3, -1)
    torch.testing.assert_close(torch.tensor(found), nats.unflatten(1, (-1, 7)).sum((0, 2)), rtol=1e-5, atol=1e-5)


def test_a_batch_that_does_not_follow_the_last_one_begins_anew_and_nothing_infinite_is_carried() -> None:
    model = learned("lstm", running=True)
    task, alone = (LanguageModelTask(model, lines(TEXTS)) for _ in range(2))
    batch = LineBatch(torch.randint(4, 200, (2, 6)), None, (0, 0))
    first = float(task.loss(model.network, batch).sums["nll"])
    for place in ((0, 2), (1, 0)):
        assert float(task.loss(model.network, replace(batch, place=place)).sums["nll"]) == first
    carried = task.carried()
    task.restore({**carried, "carried.0": torch.full_like(carried["carried.0"], math.nan)}, torch.device("cpu"))
    task.loss(model.network, replace(batch, place=(1, 1)))
    assert all(tensor.isfinite().all() for tensor in task.carried().values())
    assert alone.carried() == {}


@pytest.mark.parametrize(
    ("data", "longest_row"),
    [({"running": True}, 256), ({"max_length": 128}, 129), ({"max_length": 60, "context": 300}, 300)],
)
def test_learned_positions_are_no_fewer_than_the_tokens_of_a_row(data: dict[str, Any], longest_row: int) -> None:
    texts = LinesConfig(language="en", train=("t",), valid=("v",), **data)
    few, enough = (
        TransformerLmConfig(positions="learned", max_positions=number) for number in (longest_row - 1, longest_row)
    )
    LanguageModelRecipe(data=texts, model=enough)
    with pytest.raises(ValueError, match=f"is less than {longest_row}, the most tokens of a row"):
        LanguageModelRecipe(data=texts, model=few)


def test_a_table_without_a_named_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("zh\ten\n你好\thello\n", encoding="utf-8")
    texts = LinesConfig(language="en", train=("pairs.tsv",), valid=("pairs.tsv",))
    with pytest.raises(UsageError, match=r"pairs\.tsv is a table: name the column of its text by data\.column"):
        read(LanguageModelRecipe(data=texts, model=KINDS["rnn"]), tmp_path, Silent())


def test_states_of_two_processes_are_kept_stream_by_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = torch.arange(20.0).view(4, 5)
    shares: list[list[Any]] = [[[row] for row in whole[rank::2]] for rank in (0, 1)]
    together = [shares[stream % 2][stream // 2] for stream in range(4)]
    monkeypatch.setattr(Ranks, "together", lambda self, share: together)
    for rank in (0, 1):
        states = StreamStates(Ranks(rank, 2))
        batch = LineBatch(torch.zeros(2, 3, dtype=torch.long), None, (1, 4))
        assert states.of(batch) is None
        states.keep(Carried((whole[rank::2],)))
        kept = states.tensors()
        assert torch.equal(kept["carried.0"], whole)
        resumed = StreamStates(Ranks(rank, 2))
        resumed.restore(kept, torch.device("cpu"))
        state = resumed.of(replace(batch, place=(1, 5)))
        assert state is not None and torch.equal(state.tensors[0], whole[rank::2])


@every_kind
def test_the_loss_counts_the_masked_places_alone(kind: str) -> None:
    network = learned(kind).network
    tokens = torch.tensor([[2, 5, 6, 7, 3], [2, 8, 3, PADDING_ID, PADDING_ID]])
    nats = F.cross_entropy(network.output(network(tokens[:, :-1])).mT, tokens[:, 1:], reduction="none")
    mask = torch.tensor([[False, True, True, False], [False, True, False, False]])
    for counted, expected in ((None, tokens[:, 1:] != PADDING_ID), (mask, mask)):
        loss = loss_of_tokens(network, tokens, counted)
        assert loss.count == int(expected.sum())
        torch.testing.assert_close(loss.total, (nats * expected).sum())


@every_kind
@torch.inference_mode()
def test_a_running_text_and_lines_are_measured_token_by_token(kind: str) -> None:
    for running in (True, False):
        model = learned(kind, running=running, context=16, overlap=5)
        text = HeldOutText(model, TEXTS)
        total = sum(float(-found.sum()) for _, found in text.log_probs(model.network))
        expected, counted = 0.0, 0
        for row in range(len(text.ids)):
            ids = torch.from_numpy(text.ids[row].astype(np.int64))
            counted += len(ids) - 1
            for place in range(1, len(ids)):
                first = place - 16 if kind == "transformer" else 0
                if kind == "transformer" and place > 16:
                    first = (place - 17) // 11 * 11 + 11  # windows of 16 that advance by 11
                scores = model.network.output(model.network(ids[None, max(0, first) : place]))[0, -1]
                expected -= float(scores.log_softmax(-1)[ids[place]])
        assert counted == text.pieces == sum(len(each) + 1 for each in TEXTS)
        assert total == pytest.approx(expected, rel=1e-5)
        split = [sum(float(-found.sum()) for _, found in text.log_probs(model.network, (rank, 2))) for rank in (0, 1)]
        assert sum(split) == pytest.approx(total, rel=1e-6)
        seen = {"transformer": "6-16", "window": "3"}.get(kind, "whole")
        assert f"context:{seen}" in text.signature and f"text:{'running' if running else 'lines'}" in text.signature


@torch.inference_mode()
def test_a_window_is_seen_whole_whatever_the_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perplexity, "LONGEST_WINDOW", 2)
    model = learned("window", running=True, context=16, overlap=1)
    text = HeldOutText(model, TEXTS)
    (whole,) = perplexity.token_log_probs(model.network, torch.from_numpy(text.ids.ids.astype(np.int64))[None])
    assert sum(float(found.sum()) for _, found in text.log_probs(model.network)) == pytest.approx(float(whole.sum()))


def test_the_signature_counts_unknown_pieces() -> None:
    tokenizer, _ = train_tokenizer(TEXTS, kind="whitespace", vocab_size=300, language="en")
    model = replace(learned("lstm"), vocabularies={"text": tokenizer})
    signatures = [HeldOutText(model, texts).signature for texts in (["the cat"], ["the 猫 and the 狗", "the"])]
    assert "unknown:" not in signatures[0] and "|unknown:2|" in signatures[1]


def test_the_figures_are_rescalings_of_one_sum() -> None:
    found = perplexities(100.0, 10, ["two words", "one"], "x")
    values = {name: each["value"] for name, each in found.items()}
    assert values["nats"] == 10 and values["perplexity"] == pytest.approx(math.exp(10))
    assert values["bits_per_character"] == pytest.approx(100 / 14 / math.log(2))
    assert values["word_perplexity"] == pytest.approx(math.exp(100 / 5))
    assert found["word_perplexity"]["signature"] == "per:word|n:5|x"


def test_validation_is_in_fp32_whatever_the_precision_of_training(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the cat sat on the mat\na dog ate it\n" * 60, encoding="utf-8")
    recipe = {
        "task": "language-model",
        "data": {"language": "en", "train": ["text.txt"], "valid_share": 0.1},
        "model": {"model_dim": 32, "num_heads": 2, "num_layers": 2, "ff_dim": 32},
        "training": {"epochs": 1, "precision": "bf16"},
    }
    run = weft.train(recipe, run=tmp_path / "run", data=tmp_path)
    (scores,) = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    assert values(run, "valid_loss")[-1] == pytest.approx(scores["scores"]["nats"]["value"], rel=1e-6)
