"""What a report shows of a model and its translations agrees with what is measured elsewhere."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from weft.data.corpus import ParallelText
from weft.evaluating.details import details, position_vectors
from weft.evaluating.evaluation import EvaluatedSet, evaluate
from weft.folders.model_folder import TranslationModel
from weft.layers.positions import LearnedPositions, RotaryPositions, SinusoidalPositions, sinusoids
from weft.metrics.translation import sentence_scores
from weft.translating.translator import Translator

NUMBERS = ("一", "两", "三", "四", "五", "六")
PAIRS = ParallelText([f"我有{n}个苹果。" for n in NUMBERS], [("I have apples.",)] * 6, {"valid.tsv": "0f3a"})


@pytest.fixture
def translator(wordy_model: TranslationModel) -> Translator:
    return Translator(wordy_model)


@pytest.fixture
def evaluated(translator: Translator) -> EvaluatedSet:
    return evaluate(translator, PAIRS, method="greedy")


def test_every_sentence_is_counted_once_and_one_bucket_has_the_score_of_all(translator, evaluated) -> None:
    found = json.loads(json.dumps(details(translator, evaluated)))
    assert found["buckets"]["sentences"] == [0, 6, 0, 0, 0]  # six characters each
    assert found["buckets"]["sacrebleu"][1] == pytest.approx(evaluated.scores["sacrebleu"].value, abs=0.01)
    assert found["buckets"]["chrf"][0] is None
    assert [sum(found["lengths"][side]) for side in ("references", "translations")] == [6, 6]
    assert sum(found["chrf"]["sentences"]) == 6


def test_best_and_worst_are_those_of_the_sentence_scores(translator, evaluated) -> None:
    found = details(translator, evaluated)
    chrf = [chrf for _, chrf in sentence_scores(evaluated.hypotheses, evaluated.references, "en")]
    assert [row["chrf"] for row in found["best"]] == pytest.approx(sorted(chrf, reverse=True)[:3], abs=0.1)
    assert [row["chrf"] for row in found["worst"]] == pytest.approx(sorted(chrf)[:3], abs=0.1)
    assert not {row["source"] for row in found["best"]} & {row["source"] for row in found["worst"]}


def test_attention_is_a_share_for_each_pair_of_pieces(translator, evaluated) -> None:
    maps = details(translator, evaluated)["attention"]
    assert len(maps) == 3
    for one in maps:
        weights = np.array(one["weights"])
        assert weights.shape == (len(one["target"]), len(one["source"])) and one["source"][-1] == "</s>"
        assert weights.sum(1) == pytest.approx(1, abs=0.005 * weights.shape[1])


def test_a_finished_run_holds_them_and_what_its_recipe_changes(tiny_run: Path) -> None:
    found = json.loads((tiny_run / "run" / "details.json").read_text(encoding="utf-8"))
    assert sum(found["buckets"]["sentences"]) == 5 and len(found["positions"]) == 64
    changed = {row["key"]: row for row in found["recipe"]}
    assert changed["model.model_dim"] == {"key": "model.model_dim", "value": "16", "default": "256", "origin": "recipe"}
    assert changed["data.train"]["default"] == "–" and "model.norm" not in changed and "training.epochs" in changed


def network(added: Any = None, rotary: Any = None) -> Any:
    """As much of a network as its positions are found by."""
    found: Any = torch.nn.Module()
    found.source_positions, found.config = added, SimpleNamespace(model_dim=8)
    found.rotary, found.weight = rotary, torch.nn.Parameter(torch.zeros(1))
    return found


def test_the_vectors_of_positions_are_what_is_added_or_the_angles_of_the_rotation() -> None:
    table = sinusoids(64, 8)
    assert torch.equal(position_vectors(network(SinusoidalPositions(8))), table)
    learned = LearnedPositions(9, 8)
    assert torch.equal(position_vectors(network(learned)), (learned.weight * learned.scale).detach())
    rotated = position_vectors(network(rotary=RotaryPositions(8)))
    assert torch.allclose(rotated, torch.cat([table[:, 1::2], table[:, 0::2]], dim=1), atol=1e-6)
    assert position_vectors(network()).numel() == 0
