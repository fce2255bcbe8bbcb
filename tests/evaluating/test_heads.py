"""The importance of heads agrees with differences of the loss, and pruning takes the least important first."""

from pathlib import Path

import pytest
import torch

from weft.data.corpus import ParallelText, read_corpora
from weft.errors import UsageError
from weft.evaluating.attention_within import attention_within
from weft.evaluating.forced import batches_of, force
from weft.evaluating.heads import examine_heads, importance_by_gradient, loss_of, losses, to_prune, tokens_in
from weft.folders.model_folder import load_model
from weft.models.memories.modern import effective_patterns
from weft.models.pruning import Head, Place, attentions, gated, masked
from weft.translating.translator import Translator


@pytest.fixture(scope="module")
def translator(distinct_model: Path) -> Translator:
    return Translator(load_model(distinct_model))


@pytest.fixture(scope="module")
def pairs(tiny_run: Path, translator: Translator) -> ParallelText:
    return read_corpora(["valid.tsv"], translator.model.recipe.data, tiny_run)


def test_the_loss_is_that_of_the_forced_translations(translator: Translator, pairs: ParallelText) -> None:
    forced = force(translator, pairs.sources, pairs.targets)
    expected = -sum(pair.log_prob for pair in forced) / sum(len(pair.pieces) for pair in forced)
    batches = batches_of(translator, pairs)
    assert tokens_in(batches) == sum(len(pair.pieces) for pair in forced)
    assert loss_of(translator.model.network, batches) == pytest.approx(expected, rel=1e-5)


def test_the_gradient_is_the_difference_of_the_loss_of_each_sentence_as_its_gate_moves(
    translator: Translator, pairs: ParallelText
) -> None:
    network, batches = translator.model.network, batches_of(translator, pairs)
    found, places, step = importance_by_gradient(network, batches), attentions(network), 1e-2
    (source, target) = batches[0]
    assert len(batches) == 1

    def sentence_losses(head: Head, gate: float) -> torch.Tensor:
        gates = {place: torch.ones(len(source), one.num_heads) for place, one in places.items()}
        gates[head.place][:, head.number] = gate
        with torch.inference_mode(), gated(network, gates):
            return losses(network, source, target).double().sum(1)

    for place in (Place("encoder", 0), Place("decoder", 1), Place("cross", 1)):
        heads = [Head(place, number) for number in range(places[place].num_heads)]
        slopes = torch.stack(
            [((sentence_losses(h, 1 + step) - sentence_losses(h, 1 - step)) / (2 * step)).abs().sum() for h in heads]
        )
        expected = (slopes / slopes.norm()).tolist()
        assert [found[head] for head in heads] == pytest.approx(expected, abs=0.02)


def test_a_head_costs_what_the_loss_rises_by_without_it(translator: Translator, pairs: ParallelText) -> None:
    heard: list[tuple[int, int]] = []
    report = examine_heads(translator, pairs, lambda done, total: heard.append((done, total)))
    assert heard == [(number, 24) for number in range(1, 25)]
    batches = batches_of(translator, pairs)
    for head, cost in report.importance["ablation"].items():
        with masked(translator.model.network, [head]):
            forced = force(translator, pairs.sources, pairs.targets)
        without = -sum(pair.log_prob for pair in forced) / tokens_in(batches)
        assert cost == pytest.approx(without - report.loss, abs=1e-5)
    assert all(len(line) <= 80 for table in report.tables() for line in table.text().splitlines())
    assert len(report.as_dict()["heads"]) == 24


def test_what_a_head_takes_is_the_entropy_of_its_attention(translator: Translator, pairs: ParallelText) -> None:
    report = examine_heads(translator, pairs)
    (source, target) = batches_of(translator, pairs)[0]
    rows = []
    for one, other in zip(source.tolist(), target.tolist(), strict=True):
        read, written = [token for token in one if token], [token for token in other if token][1:-1]
        rows.append(attention_within(translator.model.network, read, written, translator.device))
    for side, kind in (("source", "encoder"), ("target", "decoder")):
        of_head = [effective_patterns(torch.from_numpy(row[side][1, 2])) for row in rows]
        expected = torch.cat(of_head).median().item()
        assert report.reads[Head(Place(kind, 1), 2)][1] == pytest.approx(expected, rel=1e-4)


def test_pruning_takes_the_least_important_but_never_the_last_of_an_attention() -> None:
    first, second = Place("encoder", 0), Place("cross", 0)
    importance = {Head(first, n): value for n, value in enumerate((0.1, 0.3, 0.2))}
    importance |= {Head(second, n): value for n, value in enumerate((0.9, 0.5, 0.7))}
    assert to_prune(importance, 0.0) == []
    assert to_prune(importance, 0.5) == [Head(first, 0), Head(first, 2), Head(second, 1)]
    assert len(to_prune(importance, 2 / 3)) == 4
    with pytest.raises(UsageError, match="5 of 6 heads cannot be cut out: each of the 2 attentions keeps one"):
        to_prune(importance, 0.8)
