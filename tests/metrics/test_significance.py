"""Intervals and tests: numbers by hand, the library's own answers, differences that were planted."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from sacrebleu import significance as sacrebleu_significance
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from weft.metrics import significance
from weft.metrics.significance import (
    Statistics,
    bootstrap,
    bootstrap_p,
    coins,
    count_sentences,
    interval,
    paired_tests,
    share_of_chance,
    too_few,
    with_intervals,
)
from weft.metrics.translation import score_translations, sentence_scores

WORDS = [
    *("the", "a", "cat", "dog", "sat", "on", "mat", "is", "was"),
    *("in", "house", "big", "small", "red", ",", ".", "runs", "to"),
]


def sentences(count: int) -> list[str]:
    draw = random.Random(1)
    return [" ".join(draw.choices(WORDS, k=draw.randint(2, 12))) for _ in range(count)]


def with_errors(references: list[str], share: float, seed: int) -> list[str]:
    """Each word is another one with this probability."""
    draw = random.Random(seed)
    return [
        " ".join(word if draw.random() > share else draw.choice(WORDS) for word in line.split()) for line in references
    ]


REFERENCES = sentences(200)
OURS, THEIRS, WORSE = (with_errors(REFERENCES, share, seed) for share, seed in ((0.3, 2), (0.3, 9), (0.45, 4)))


# Counts


@pytest.mark.parametrize("language", ["en", "zh"])
def test_counts_of_sentences_add_up_to_the_scores_of_the_corpus(language: str) -> None:
    sets: list[list[str | None]] = [list(REFERENCES), [line if i % 3 else None for i, line in enumerate(WORSE)]]
    statistics = count_sentences(OURS, sets, language)
    scores = score_translations(OURS, sets, language)
    assert statistics.keys() == {"bleu_1", "bleu_2", "bleu_3", "bleu_4", "sacrebleu", "chrf"}
    for name, of_metric in statistics.items():
        assert of_metric.score() == pytest.approx(scores[name].value, abs=1e-9)


def test_counts_of_one_sentence_are_its_chrf() -> None:
    found = count_sentences(OURS, [REFERENCES], "en")["chrf"].by_sentence()
    assert found == pytest.approx(np.array(sentence_scores(OURS, [REFERENCES], "en"))[:, 1])


@pytest.mark.parametrize("hypothesis", ["", "cat", "the cat", "dog house big small", "the cat sat on"])
def test_short_and_wrong_translations_score_as_in_the_library(hypothesis: str) -> None:
    references = [["the cat sat on the mat"]]
    statistics = count_sentences([hypothesis], references, "en")
    scores = score_translations([hypothesis], references, "en")
    assert {name: of.score() for name, of in statistics.items()} == pytest.approx(
        {name: scores[name].value for name in statistics}
    )


# Draws


def test_each_resample_has_as_many_sentences_as_there_are() -> None:
    (times,) = bootstrap(7, 20, seed=1)
    assert times.shape == (20, 7) and (times.sum(1) == 7).all() and times.max() > 1


@pytest.mark.parametrize("draw", [bootstrap, coins])
def test_draws_in_blocks_are_the_draws_at_once(draw, monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,) = draw(5, 100, seed=3)
    monkeypatch.setattr(significance, "CELLS_AT_ONCE", 5 * 32)
    parts = list(draw(5, 100, seed=3))
    assert len(parts) == 4 and (np.concatenate(parts) == whole).all()


# Intervals


def test_an_interval_leaves_out_equally_many_at_either_end() -> None:
    scores = np.random.default_rng(1).permutation(np.arange(1000.0))
    assert interval(scores, 0.95) == (25.0, 974.0)
    assert interval(scores, 0.9) == (50.0, 949.0)


def test_the_bootstrap_of_a_coin_has_the_deviation_of_a_binomial() -> None:
    # 100 sentences, half of them right: the share varies by sqrt(0.5 * 0.5 / 100) = 0.05, and 1.96 times that is 0.098.
    right = np.array([[1.0, 1.0], [0.0, 1.0]] * 50)
    statistics = {"accuracy": Statistics(right, lambda counts: float(counts[0] / counts[1]))}
    low, high = interval(significance.resample(statistics)["accuracy"], 0.95)
    assert low == pytest.approx(0.5 - 0.098, abs=0.015) and high == pytest.approx(0.5 + 0.098, abs=0.015)


def test_scores_show_their_intervals_with_what_made_them() -> None:
    scores = score_translations(OURS, [REFERENCES], "en")
    found = with_intervals(scores, count_sentences(OURS, [REFERENCES], "en"), 0.95)
    for name in ("bleu_1", "bleu_4", "sacrebleu", "chrf"):
        within = found[name].interval
        assert within is not None and within.low < found[name].value < within.high
        assert within.signature == "bootstrap|bs:1000|seed:12345" and within.confidence == 0.95
    assert found["ter"].interval is None and found["exact_match"].interval is None
    score = found["sacrebleu"]
    assert score.interval and score.formatted() == (
        f"{score.value:.2f} [{score.interval.low:.1f}, {score.interval.high:.1f}]"
    )
    assert score.as_dict()["interval"] == vars(score.interval)


def test_nine_sentences_are_too_few_and_the_reason_is_said() -> None:
    assert too_few(10) is None
    assert too_few(9) == "9 sentences, and resampling needs at least 10"


# Tests


@pytest.mark.parametrize(("kind", "field"), [("bs", "bootstrap_p"), ("ar", "randomization_p")])
def test_p_values_are_those_of_sacrebleu(kind: str, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    systems: list[tuple[str, Sequence[str]]] = [("ours", OURS), ("theirs", THEIRS), ("worse", WORSE)]
    metrics = {"sacrebleu": BLEU(force=True), "chrf": CHRF()}
    test = sacrebleu_significance.PairedTest(systems, metrics, [REFERENCES], test_type=kind, n_samples=300)
    _, expected = test()
    baseline, *others = (count_sentences(lines, [REFERENCES], "en") for _, lines in systems)
    for place, other in enumerate(others, start=1):
        found = paired_tests(baseline, other, resamples=300, trials=300)
        for name in metrics:
            result = expected["chrF2" if name == "chrf" else "BLEU"][place]
            assert not isinstance(result, str)
            assert getattr(found[name], field) == result.p_value


def test_a_planted_difference_is_found_and_a_small_one_is_not() -> None:
    ours, theirs, worse = (count_sentences(lines, [REFERENCES], "en") for lines in (OURS, THEIRS, WORSE))
    found, not_found = paired_tests(ours, worse, trials=1000), paired_tests(ours, theirs, trials=1000)
    for name in ("bleu_1", "sacrebleu", "chrf"):
        assert found[name].difference < 0 and found[name].interval[1] < 0
        assert max(found[name].bootstrap_p, found[name].randomization_p) < 0.01
        assert not_found[name].interval[0] < 0 < not_found[name].interval[1]
        assert min(not_found[name].bootstrap_p, not_found[name].randomization_p) > 0.05


def test_two_systems_that_write_the_same_do_not_differ_by_more_than_chance() -> None:
    ours = count_sentences(OURS, [REFERENCES], "en")
    for test in paired_tests(ours, ours, resamples=100, trials=100).values():
        assert (test.difference, test.bootstrap_p, test.randomization_p) == (0.0, 1.0, 1.0)


def test_a_p_value_counts_one_more_draw_than_there_were() -> None:
    assert share_of_chance(np.array([0.1, 0.3, 0.5, 0.7]) > 0.4) == 3 / 5


@pytest.mark.parametrize("changed", [1, 2, 4])
def test_of_few_sentences_that_differ_the_p_value_is_that_of_their_coins(changed: int) -> None:
    """All better: of 2 ** changed equally likely trials two do as much, all coins heads and all coins tails."""
    better = [*REFERENCES[:changed], *WORSE[changed:]]
    ours, theirs = (count_sentences(lines, [REFERENCES], "en") for lines in (WORSE, better))
    found = paired_tests(ours, theirs, trials=2000)["chrf"]
    assert found.difference > 0 and found.randomization_p == pytest.approx(2 / 2**changed, abs=0.04)


def test_draws_that_are_all_alike_are_no_doubt_of_a_difference() -> None:
    assert bootstrap_p(np.full(999, 100.0), 100.0) == 1 / 1000  # one system is as much better in every sample
    assert bootstrap_p(np.zeros(999), 0.0) == 1.0  # both write the same
    assert bootstrap_p(np.array([0.0, 0.5, 1.0]), 0.5) == 1 / 4  # what is equal is not more
