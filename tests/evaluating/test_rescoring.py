"""Rescoring: the raw scores of n-best lists, the weights that are tuned on them, and what they gain elsewhere."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.command_line import Weft

from weft.data.corpus import ParallelText
from weft.errors import CorpusError
from weft.evaluating.forced import force
from weft.evaluating.rescoring import Candidate, Lists, NBest, read_lists, rescore, score_lists
from weft.runs.train import train
from weft.translating.batches import encode_sources
from weft.translating.loading import load_translator


def lists(count: int, helps: str) -> list[NBest]:
    """Lists whose second candidate is right and has the better score of the model that `helps`."""
    found = []
    for n in range(count):
        right, wrong = f"the cat number {n} sat on the mat", f"a dog of {n} lay under a big table"
        scores = [{"channel": -9.0, "language": -9.0} for _ in range(2)]
        scores[1][helps] = -1.0
        candidates = (Candidate(wrong, -0.5, 8, **scores[0]), Candidate(right, -0.6, 8, **scores[1]))
        found.append(NBest("en", f"source {n}", 4, (right,), candidates))
    return found


@pytest.mark.parametrize("helps", ["channel", "language"])
def test_the_model_that_knows_is_given_a_weight_and_the_other_half_gains(helps: str) -> None:
    report = rescore(lists(40, helps))
    by_name = {one.models: one for one in report.rescored}
    assert (report.tuned_on, report.reported_on) == (20, 20) and report.first < 20
    for name in (helps, "channel + language"):
        interval = by_name[name].interval
        assert by_name[name].bleu == pytest.approx(100) and interval is not None and interval[0] > 50
    (other,) = by_name.keys() - {helps, "channel + language"}
    assert by_name[other].difference == 0
    assert "weights tuned on 20 sentences, scores of the other 20" in report.table()


def test_the_first_of_the_list_is_the_one_that_translate_gives_whatever_its_score() -> None:
    candidates = (Candidate("wrong words here now", -0.5, 4), Candidate("right words here now", -0.4, 4))
    some = [NBest("en", f"source {n}", 4, ("right words here now",), candidates) for n in range(4)]
    assert rescore(some).first < 100 and Lists(some).chosen((0, 0, 0), np.arange(4)).score() == pytest.approx(100)


def test_a_weighted_choice_is_the_one_that_the_formula_makes() -> None:
    some = lists(12, "channel")
    arrays, rows = Lists(some), np.arange(12)
    for weights in ((0, 0, 0), (0.01, 0, 0), (0.1, 0.3, 0.2)):
        chosen = []
        for one in some:
            totals = [
                c.score + (weights[0] * c.channel + weights[1] * c.language + weights[2] * c.pieces) / one.pieces
                for c in one.candidates
            ]
            chosen.append(int(np.argmax(totals)))
        expected = arrays.bleu.counts[arrays.places[rows, chosen]]
        assert np.array_equal(arrays.chosen(weights, rows).counts, expected)


def test_a_reference_that_a_sentence_lacks_has_no_length() -> None:
    (first,) = lists(1, "channel")
    short = replace(first, candidates=(Candidate("the cat number 0", -0.5, 5, 0.0, 0.0),))
    both = replace(short, references=(first.references[0], ""))
    alone, with_blank = (Lists([one]).chosen((0, 0, 0), np.arange(1)).score() for one in (short, both))
    assert with_blank == alone and 0 < alone < 50


def test_what_is_stored_is_read_back_and_what_is_no_list_is_named() -> None:
    some = lists(3, "language")
    assert read_lists("a", [one.as_json() for one in some]) == some
    right = json.loads(some[0].as_json())
    candidate = right["candidates"][0]
    of_candidate = ({"score": "-1.0x"}, {"score": math.nan}, {"pieces": 0}, {"pieces": "2"}, {"text": 5})
    of_list = ({"candidates": []}, {"references": []}, {"references": "ab"}, {"pieces": 0}, {"source": None})
    wrong = [{**right, "candidates": [{**candidate, **each}]} for each in of_candidate]
    wrong += [{**right, **each} for each in of_list]
    for line in ("{", "[]", '{"candidates": []}', *map(json.dumps, wrong)):
        with pytest.raises(CorpusError, match="line 2"):
            read_lists("a", [some[0].as_json(), line])


@pytest.fixture(scope="module")
def reverse(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    overrides = ["data.source=en", "data.target=zh"]
    return train(tiny_run / "tiny.toml", run=tmp_path_factory.mktemp("reverse") / "run", overrides=overrides)


def test_scores_are_those_of_the_models(tiny_run: Path, reverse: Path) -> None:
    translator = load_translator(tiny_run / "run", ["decoding.beam_size=3", "decoding.method=beam"])
    pairs = ParallelText(["我有一个苹果。", "我有两个朋友。"], [("I have an apple.",), ("I have two friends.",)], {})
    channel = load_translator(reverse)
    found = score_lists(translator, pairs, 3, channel=channel, language=lambda texts: [-float(len(t)) for t in texts])
    for one, source in zip(found, pairs.sources, strict=True):
        best = translator.translate_n_best([source], 3)[0]
        assert [(c.text, c.score) for c in one.candidates] == [(each.text, each.score) for each in best]
        back = force(channel, [c.text for c in one.candidates], [source] * len(best))
        assert [c.channel for c in one.candidates] == pytest.approx([each.log_prob for each in back], abs=1e-3)
        assert [c.language for c in one.candidates] == [-len(c.text) for c in one.candidates]


def test_pieces_are_counted_as_the_model_reads_and_writes_them() -> None:
    translator = load_translator("zh-en")  # copies numbers, as symbols
    sources = ["他有３5,700本书。", "你好。"]
    (one, other) = score_lists(translator, ParallelText(sources, [("a",), ("b",)], {}), 1)
    for found, source in ((one, sources[0]), (other, sources[1])):
        (forced,) = force(translator, [source], [found.candidates[0].text])
        assert found.candidates[0].pieces == len(forced.pieces)
        assert found.pieces == encode_sources(translator.model, [source]).lengths[0]


def test_the_verb_stores_the_scores_and_reads_them(tiny_run: Path, reverse: Path, tmp_path: Path, weft: Weft) -> None:
    run, data, scores = str(tiny_run / "run"), str(tiny_run / "valid.tsv"), str(tmp_path / "scores.jsonl")
    made = ["rescore", "--model", run, "--reverse", str(reverse), "--data", data, "--best", "3", "--scores", scores]
    code, _, error = weft(*made[:3], *made[5:])
    assert code == 2 and "--reverse MODEL, --lm MODEL, or both" in error
    code, _, error = weft(*made[:3], "--reverse", run, *made[5:])
    assert code == 2 and "translates zh -> en, and the one of the other direction zh -> en" in error
    code, table, _ = weft(*made)
    assert code == 0 and "first of the list" in table and "channel" in table
    assert weft("rescore", "--scores", scores)[1] == table
    code, _, error = weft(*made)
    assert code == 2 and "exists: leave out --model and --data to read it" in error
    code, _, error = weft("rescore", "--scores", scores, "--reverse", run)
    assert code == 2 and "--reverse needs --model" in error
