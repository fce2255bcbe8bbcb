"""CTranslate2 finds with a model's weights what weft finds, ids and scores alike."""

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from weft.decoding.search import DecodingConfig
from weft.decoding.step import Hypothesis
from weft.engines.ctranslate2 import NO_POWER, WEIGHTS, CTranslate2Engine, Search, choose_products
from weft.errors import MissingExtraError, ModelError, WeftError
from weft.export.ctranslate2 import refusals, write_ctranslate2
from weft.models.transformer import Transformer

Lively = Callable[..., Transformer]
Find = Callable[..., list[Hypothesis]]


def engine_of(model: Transformer, folder: Path, pieces: list[str], precision: str = "fp32") -> CTranslate2Engine:
    write_ctranslate2(model, folder, (pieces, pieces), precision, 32)
    return CTranslate2Engine(folder, threads=1)


def assert_same(found: list[Any], expected: list[Hypothesis]) -> None:
    assert [answer.tokens for answer in found] == [hypothesis.tokens for hypothesis in expected]
    for answer, hypothesis in zip(found, expected, strict=True):
        # sums over the tokens: in fp32 two engines round them apart by some millionths of themselves, by the processor
        assert answer.log_prob == pytest.approx(hypothesis.log_prob, rel=5e-6, abs=1e-4)
        assert answer.score == pytest.approx(hypothesis.score, rel=5e-6, abs=1e-4)


def test_greedy_and_beam_search_find_what_weft_finds(
    form: dict[str, Any], lively: Lively, find: Find, tmp_path: Path, pieces: list[str], sources: list[list[int]]
) -> None:
    model = lively(**form)
    engine = engine_of(model, tmp_path, pieces)
    limit: dict[str, Any] = {"max_length_ratio": 0, "max_length_extra": 20}
    greedy = find(model.start, sources, DecodingConfig(method="greedy", **limit))
    found = engine.translate(sources, Search(1, 0, 20, 1))
    assert_same([answers[0] for answers in found], greedy)
    assert len({hypothesis.tokens for hypothesis in greedy}) > 1
    config = DecodingConfig(beam_size=3, length_penalty="fixed", length_power=0.7, stopping="first-k", **limit)
    beam = find(model.start, sources, config)
    found = engine.translate(sources, Search(3, 0.7, 20, 3))
    assert_same([answers[0] for answers in found], beam)


def test_layers_of_a_stack_that_differ_in_their_heads_are_refused_by_name(lively: Lively) -> None:
    config = lively(encoder_heads=(1, 2), cross_heads=(1, 1)).config
    assert [str(problem.where) for problem in refusals(config)] == [
        "model.encoder_heads",
        "model.decoder_heads and model.cross_heads",
    ]
    assert list(refusals(lively(encoder_heads=(1, 1), decoder_heads=(2, 2)).config)) == []


@pytest.mark.parametrize("stopping", ["exact", "first-k"])
def test_without_a_penalty_either_way_of_stopping_is_weft_s(
    stopping: Literal["exact", "first-k"],
    lively: Lively,
    find: Find,
    tmp_path: Path,
    pieces: list[str],
    sources: list[list[int]],
) -> None:
    model = lively()
    config = DecodingConfig(
        beam_size=4, length_penalty="none", stopping=stopping, max_length_ratio=0, max_length_extra=20
    )
    power = 0.0 if stopping == "exact" else NO_POWER
    engine = engine_of(model, tmp_path, pieces)
    found = engine.translate(sources, Search(4, power, 20, 4))
    assert_same([answers[0] for answers in found], find(model.start, sources, config))


def test_patience_waits_for_as_many_hypotheses_as_in_weft(
    lively: Lively, find: Find, tmp_path: Path, pieces: list[str], sources: list[list[int]]
) -> None:
    model = lively()
    engine = engine_of(model, tmp_path, pieces)
    for patience in (0.5, 1.4, 2.0):
        config = DecodingConfig(
            beam_size=3,
            length_penalty="average",
            stopping="first-k",
            patience=patience,
            max_length_ratio=0,
            max_length_extra=20,
        )
        finished = math.ceil(3 * patience)
        found = engine.translate(sources, Search(3, 1.0, 20, finished))
        assert_same([answers[0] for answers in found], find(model.start, sources, config))


def test_a_sentence_that_reaches_its_maximum_ends_there_and_pays_for_it(
    lively: Lively, find: Find, tmp_path: Path, pieces: list[str], sources: list[list[int]]
) -> None:
    model = lively()
    engine = engine_of(model, tmp_path, pieces)
    for most in (1, 2, 3):
        limit: dict[str, Any] = {"max_length_ratio": 0, "max_length_extra": most}
        greedy = find(model.start, sources, DecodingConfig(method="greedy", **limit))
        assert any(len(hypothesis.tokens) == most for hypothesis in greedy)
        found = engine.translate(sources, Search(1, 0, most, 1))
        assert_same([answers[0] for answers in found], greedy)
        config = DecodingConfig(beam_size=3, length_penalty="average", stopping="first-k", **limit)
        found = engine.translate(sources, Search(3, 1.0, most, 3))
        assert_same([answers[0] for answers in found], find(model.start, sources, config))


def test_several_answers_come_best_first(
    lively: Lively, tmp_path: Path, pieces: list[str], sources: list[list[int]]
) -> None:
    engine = engine_of(lively(), tmp_path, pieces)
    for answers in engine.translate(sources, Search(4, 1.0, 20, 4), best=3):
        assert len({answer.tokens for answer in answers}) == 3
        assert [answer.score for answer in answers] == sorted((answer.score for answer in answers), reverse=True)


@pytest.mark.parametrize(
    ("flags", "before", "after"),
    [
        ("sse4_2 avx2", None, "1"),
        ("avx2", "0", "0"),
        ("avx2 avx_vnni", None, None),
        ("avx2 avx512f avx512_vnni", None, None),
        ("", None, None),  # no x86, or not Linux
    ],
)
def test_int8_is_left_to_mkl_where_the_engines_own_products_overflow(
    monkeypatch: pytest.MonkeyPatch, flags: str, before: str | None, after: str | None
) -> None:
    monkeypatch.setattr(os, "environ", {} if before is None else {"CT2_USE_MKL": before})
    choose_products(set(flags.split()))
    assert os.environ.get("CT2_USE_MKL") == after


def test_int8_is_near_fp32_in_a_quarter_of_the_bytes(
    lively: Lively, tmp_path: Path, pieces: list[str], sources: list[list[int]]
) -> None:
    model = lively(model_dim=64, ff_dim=256)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    sizes, totals = {}, {}
    for precision in ("fp32", "int8"):
        (tmp_path / precision).mkdir()
        engine = engine_of(model, tmp_path / precision, pieces, precision)
        sizes[precision] = (tmp_path / precision / WEIGHTS).stat().st_size
        target = [pieces[5:9]] * len(sources)
        scored = engine.translator.score_batch([[pieces[i] for i in source[:-1]] for source in sources], target)
        totals[precision] = [sum(result.log_probs) for result in scored]
    assert sizes["int8"] < 0.4 * sizes["fp32"]
    assert totals["int8"] == pytest.approx(totals["fp32"], rel=0.05)
    assert all(torch.equal(before[name], parameter) for name, parameter in model.named_parameters())


def test_weights_that_are_damaged_are_refused_by_name(lively: Lively, tmp_path: Path, pieces: list[str]) -> None:
    engine_of(lively(), tmp_path, pieces)
    (tmp_path / WEIGHTS).write_bytes((tmp_path / WEIGHTS).read_bytes()[:1000])
    with pytest.raises(ModelError, match=r"model\.bin +cannot be read by CTranslate2"):
        CTranslate2Engine(tmp_path, threads=1)


def test_weights_that_are_no_numbers_are_an_error_and_no_translation(
    lively: Lively, tmp_path: Path, pieces: list[str], sources: list[list[int]]
) -> None:
    model = lively()
    with torch.no_grad():
        model.output.weight.fill_(torch.nan)
    engine = engine_of(model, tmp_path, pieces)
    for search in (Search(1, 0, 5, 1), Search(3, 1.0, 5, 3)):
        with pytest.raises(WeftError, match=r"CTranslate2 (failed|returned NaN).* damaged"):
            engine.translate(sources, search)


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(MissingExtraError, match=r"CTranslate2 is needed for this.*pip install '\.\[export\]'"):
        CTranslate2Engine(tmp_path, threads=1)
