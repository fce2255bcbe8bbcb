"""The loss of translation, and what a validation measures."""

import math
from pathlib import Path
from typing import get_args

import pytest
import torch

from weft.data.batching import Batch
from weft.data.corpus import ParallelText
from weft.errors import CorpusError
from weft.folders.finding import find_model
from weft.folders.model_folder import TranslationModel, load_model
from weft.folders.recipes import TranslationTrainingConfig
from weft.layers.dropout import Dropout
from weft.models.transformer import Transformer, TransformerConfig
from weft.tasks import translation
from weft.tasks.translation import TranslationTask, output_matrix, rows_and_labels
from weft.translating import translator


def test_validation_takes_the_sources_that_translation_takes_and_no_others(
    random_model: TranslationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "我有一个苹果。"
    pieces = len(random_model.vocabularies["source"].encode([text])[0])
    pairs = ParallelText([text], [("I have an apple.",)], {})
    for module in (translator, translation):
        monkeypatch.setattr(module, "LONGEST_SOURCE", pieces)
    assert TranslationTask(random_model, pairs).evaluate(random_model.network).metrics["valid_loss"] > 0
    for module in (translator, translation):
        monkeypatch.setattr(module, "LONGEST_SOURCE", pieces - 1)
    with pytest.raises(CorpusError, match=f"has a source of {pieces} pieces; at most {pieces - 1}"):
        TranslationTask(random_model, pairs)


def test_a_model_whose_loss_is_no_number_translates_nothing_and_is_measured_all_the_same(
    random_model: TranslationModel,
) -> None:
    torch.nn.init.constant_(random_model.network.source_embedding.weight, math.nan)
    pairs = ParallelText(["我有一个苹果。"], [("I have an apple.",)], {})
    found = TranslationTask(random_model, pairs).evaluate(random_model.network)
    assert math.isnan(found.metrics["valid_loss"]) and found.metrics["valid_bleu"] == 0
    assert found.samples[0]["hypothesis"] == ""


@pytest.mark.parametrize("output_bias", [False, True])
def test_states_times_the_output_matrix_are_the_logits(output_bias: bool) -> None:
    config = TransformerConfig(model_dim=16, num_heads=2, encoder_layers=1, decoder_layers=1, output_bias=output_bias)
    model = Transformer(config, source_vocab_size=9, target_vocab_size=11, padding_id=0).eval()
    if output_bias:
        torch.nn.init.normal_(model.output.bias)
    batch = Batch(torch.tensor([[5, 6, 3], [7, 3, 0]]), torch.tensor([[2, 8, 9, 3], [2, 4, 3, 0]]))
    given, expected = batch.target[:, :-1], batch.target[:, 1:]
    states, labels = rows_and_labels(model.states(batch.source, given).hidden, expected, model, batch.tokens)
    is_token = batch.target[:, 1:] != 0
    torch.testing.assert_close(states @ output_matrix(model).T, model(batch.source, batch.target[:, :-1])[is_token])
    assert torch.equal(labels, torch.tensor([8, 9, 3, 4, 3]))


@pytest.mark.parametrize("r_drop", [0.0, 1.0])
def test_a_batch_that_is_filled_up_to_a_round_shape_has_the_same_loss_and_gradients(
    tiny_run: Path, r_drop: float
) -> None:
    loaded = load_model(find_model(tiny_run / "run"))
    model = loaded.network.train()
    for module in model.modules():
        if isinstance(module, Dropout):
            module.probability = 0.0
    task = TranslationTask(loaded, ParallelText(["你好。"], [("Hello.",)], {}))
    task.training = task.training.model_copy(update={"r_drop": r_drop})
    batch = Batch(torch.tensor([[5, 6, 3], [7, 3, 0]]), torch.tensor([[2, 8, 9, 3], [2, 4, 3, 0]]))
    filled = task.filled_up(batch)
    assert [tuple(side.shape) for side in filled.tensors()] == [(2, 4), (2, 5)]
    losses, slopes = [], []
    for one in (batch, filled):
        model.zero_grad()
        losses.append(task.loss(model, one))
        losses[-1].total.backward()
        slopes.append([p.grad for p in model.parameters()])
    assert [loss.count for loss in losses] == [5, 5]
    torch.testing.assert_close(losses[1].total, losses[0].total)
    torch.testing.assert_close(losses[1].sums["nll"], losses[0].sums["nll"])
    torch.testing.assert_close(slopes[1], slopes[0], rtol=1e-4, atol=1e-5)


def test_a_recipe_can_select_by_every_metric_of_the_task_and_by_no_other() -> None:
    choices = get_args(TranslationTrainingConfig.model_fields["select_by"].annotation)
    assert choices == tuple(metric.name for metric in TranslationTask.metrics)
