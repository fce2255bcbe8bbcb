"""Several decodings side by side, and what a text that names them means."""

import re

import pytest

from weft.data.corpus import ParallelText
from weft.decoding.search import DecodingConfig
from weft.errors import RecipeError
from weft.evaluating.evaluation import (
    SHOWN_SCORES,
    describe_decoding,
    describe_pairs,
    evaluate,
    evaluate_methods,
    methods_rows,
    methods_table,
    parse_methods,
)
from weft.folders.model_folder import TranslationModel
from weft.translating.translator import Translator

PAIRS = ParallelText(
    [f"我有{number}个{thing}。" for number in "一两三四五六" for thing in ("苹果", "梨")],
    [(f"I have {number} {thing}.",) for number in "123456" for thing in ("apples", "pears")],
    {"test.tsv": "0" * 64},
)


def test_a_method_a_size_and_settings_are_read_and_the_rest_stays_as_in_the_recipe(
    random_model: TranslationModel,
) -> None:
    text = "greedy, beam:5+length_penalty=none+word_reward=0.5,sample+temperature=0.5,mbr:16"
    found = parse_methods(text, random_model.resolved)
    assert list(found) == [part.strip() for part in text.split(",")]
    greedy, beam, sample, mbr = found.values()
    assert (greedy.method, greedy.max_length_ratio) == ("greedy", 1.0)  # the recipe's ratio
    assert (beam.method, beam.beam_size, beam.length_penalty, beam.word_reward) == ("beam", 5, "none", 0.5)
    assert (sample.method, sample.temperature) == ("sample", 0.5)
    assert (mbr.method, mbr.mbr_candidates) == ("mbr", 16)


def test_the_size_of_a_method_is_how_many_hypotheses_it_compares(random_model: TranslationModel) -> None:
    found = parse_methods("mbr:8+mbr_from=beam,mbr:8", random_model.resolved)
    of_beam, of_samples = found.values()
    assert (of_beam.beam_size, of_samples.mbr_candidates) == (8, 8)
    assert of_beam.rows(1) == of_samples.rows(1) == 8
    assert describe_decoding(of_beam.model_dump()).startswith("method mbr, beam_size 8")
    assert "mbr_candidates" not in describe_decoding(of_beam.model_copy(update={"mbr_candidates": 5}).model_dump())
    assert "mbr_candidates 8" in describe_decoding(of_samples.model_dump())


@pytest.mark.parametrize(
    ("chosen", "described"),
    [
        ({"method": "greedy"}, "method greedy, no_repeat_ngram 3"),
        ({"method": "sample"}, "method sample, temperature 0.5, no_repeat_ngram 3"),
        ({}, "method beam, beam_size 5, length_penalty fixed, stopping first-k, no_repeat_ngram 3"),
        ({"method": "mbr"}, "method mbr, temperature 0.5, mbr_candidates 4, mbr_form fast, no_repeat_ngram 3"),
        (
            {"method": "mbr", "mbr_from": "beam"},
            "method mbr, beam_size 5, length_penalty fixed, mbr_from beam, mbr_form fast, stopping first-k, "
            "no_repeat_ngram 3",
        ),
    ],
)
def test_a_decoding_is_described_by_what_its_method_uses_alone(chosen: dict, described: str) -> None:
    of_beam = {"beam_size": 5, "length_penalty": "fixed", "stopping": "first-k"}
    of_others = {"temperature": 0.5, "mbr_candidates": 4, "mbr_form": "fast", "no_repeat_ngram": 3}
    assert describe_decoding(DecodingConfig(**of_beam, **of_others, **chosen).model_dump()) == described


def test_one_sentence_is_no_sentences() -> None:
    assert describe_pairs({"a.tsv": "0" * 64}, 1) == "a.tsv (sha256 000000000000), 1 sentence"
    assert describe_pairs({"a.tsv": "0" * 64}, 2500) == "a.tsv (sha256 000000000000), 2,500 sentences"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gready", "gready.*expected one of|gready.*greedy"),
        ("beam:0", "beam:0.*at least 1"),
        ("beam:x", "beam:x.*whole number|beam:x.*integer"),
        ("beem:3", "beem.*expected one of|beem.*beam"),
        ("greedy:5", "greedy takes no number; those that do: beam, mbr"),
        ("beam+length", "length after a plus is not a setting"),
        ("beam+length_penaltie=none", "length_penalty"),
        ("greedy,,beam", "is not a method"),
        ("greedy,greedy", "more than once"),
    ],
)
def test_what_is_no_method_is_refused(text: str, says: str, random_model: TranslationModel) -> None:
    with pytest.raises(RecipeError) as refused:
        parse_methods(text, random_model.resolved)
    assert re.search(says, str(refused.value)), str(refused.value)
    assert refused.value.exit_code == 2


def test_all_that_is_wrong_is_said_at_once(random_model: TranslationModel) -> None:
    with pytest.raises(RecipeError) as refused:
        parse_methods("gready,beam:0,greedy:2", random_model.resolved)
    assert [problem.where for problem in refused.value.problems] == ["gready", "beam:0", "greedy:2"]


def test_each_line_of_the_table_is_what_that_decoding_scores_alone(random_model: TranslationModel) -> None:
    translator = Translator(random_model)
    several = evaluate_methods(translator, PAIRS, parse_methods("greedy,beam:2", random_model.resolved))
    alone = evaluate(translator, PAIRS, method="beam", beam_size=2)
    assert several["beam:2"].scores == alone.scores and several["beam:2"].hypotheses == alone.hypotheses
    assert several["greedy"].hypotheses == evaluate(translator, PAIRS, method="greedy").hypotheses
    table = methods_table(several)
    assert [row[0] for row in table.rows] == ["greedy", "beam:2"]
    names = ("method", *SHOWN_SCORES.values(), "faulty", "seconds", "sentences/s")
    assert table.header == names
    assert table.rows[1][5] == alone.scores["sacrebleu"].formatted()
    assert any(note.startswith("sacreBLEU: nrefs:1|") for note in table.notes)
    beam = "beam:2: method beam, beam_size 2, length_penalty adaptive, max_length_ratio 1.0, max_length_extra 2"
    assert beam in table.notes
    assert any("test.tsv (sha256 000000000000), 12 sentences; seed 1" in note for note in table.notes)
    header, *rows = methods_rows(several)
    assert header == ("source", "reference", "greedy", "beam:2")
    assert [row[3] for row in rows] == alone.hypotheses


def test_intervals_stand_in_every_form_and_say_how_they_were_found(random_model: TranslationModel) -> None:
    found = evaluate(Translator(random_model), PAIRS, method="greedy").with_intervals(0.9)
    scores = found.tables()[0]
    assert re.search(r"^chrf +\d+\.\d\d \[\d+\.\d, \d+\.\d\]", scores.text(), re.MULTILINE)
    assert "intervals: 0.9 confidence, bootstrap|bs:1000|seed:12345" in scores.notes
    assert found.as_dict()["scores"]["chrf"]["interval"]["confidence"] == 0.9


def test_without_intervals_the_reason_is_said(random_model: TranslationModel) -> None:
    few = ParallelText(PAIRS.sources[:3], PAIRS.references[:3], {})
    found = evaluate(Translator(random_model), few, method="greedy")
    reason = "intervals: none: 3 sentences, and resampling needs at least 10"
    assert reason in found.with_intervals(0.95).tables()[0].notes
    whole = evaluate(Translator(random_model), PAIRS, method="greedy")
    assert "intervals: none: not asked for" in whole.with_intervals(0).tables()[0].notes
