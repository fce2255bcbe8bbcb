"""Verdicts on tables of cells x seeds: distributions by published values, error rates by simulation."""

import math

import numpy as np
import pytest

from weft.metrics.verdicts import (
    Cell,
    Verdict,
    bartlett,
    chi_squared_beyond,
    holm,
    in_words,
    judge,
    noise_of,
    t_quantile,
    welch,
)
from weft.tuning.results import say_in

DEVIATION = 0.1
"""Of one run's sacreBLEU over seeds, as pooled from weft's own runs on zh-en-50k."""


def tables(cells: int, seeds: int, difference: float, number: int = 1000, seed: int = 1) -> list[list[Cell]]:
    """Tables of normally distributed scores in which only the last cell differs."""
    draw = np.random.default_rng(seed)
    scores = draw.normal(20, DEVIATION, (number, cells, seeds))
    scores[:, -1] += difference
    return [[Cell(str(i), of_cell) for i, of_cell in enumerate(table)] for table in scores]


def share(verdicts: list[bool]) -> float:
    return sum(verdicts) / len(verdicts)


def differs(verdict: Verdict) -> bool:
    return verdict.kind in ("better", "worse")


@pytest.mark.parametrize(
    ("df", "value"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (8, 2.3060), (16, 2.1199), (120, 1.9799)]
)
def test_quantiles_of_students_distribution_are_those_of_published_tables(df: int, value: float) -> None:
    assert t_quantile(0.975, df) == pytest.approx(value, abs=1e-4)


def test_holm_multiplies_the_smallest_by_the_number_of_tests_and_never_falls() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_the_variance_of_a_run_is_pooled_over_all_cells() -> None:
    cells = [Cell("a", np.array([1.0, 3.0])), Cell("b", np.array([1.0, 1.0, 4.0])), Cell("c", np.array([9.0]))]
    spread = noise_of(cells).apart  # squares 2 + 6, degrees of freedom 1 + 2
    assert (spread.variance, spread.df) == (pytest.approx(8 / 3), 3)


@pytest.mark.parametrize(("df", "value"), [(1, 3.8415), (2, 5.9915), (7, 14.0671), (8, 15.5073)])
def test_tails_of_the_chi_squared_distribution_are_those_of_published_tables(df: int, value: float) -> None:
    assert chi_squared_beyond(value, df) == pytest.approx(0.05, abs=1e-5)


def test_equal_variances_have_bartletts_p_of_one_and_one_in_twenty_of_them_are_called_unequal() -> None:
    assert bartlett([(2.0, 2), (3.0, 3), (8.0, 8)]) == pytest.approx(1.0)
    found = [noise_of(table).unequal is not None for table in tables(8, 3, 0)]
    assert 0.03 <= share(found) <= 0.07


def test_welchs_spread_by_hand() -> None:
    spread = welch(Cell("a", np.array([1.0, 3.0])), Cell("b", np.array([0.0, 2.0, 4.0, 6.0])))
    # variances 2 and 20 / 3, of the means 1 and 5 / 3, together 8 / 3; df = (8 / 3)^2 / (1 + (5 / 3)^2 / 3) = 3.69
    assert spread.variance * (1 / 2 + 1 / 4) == pytest.approx(8 / 3)
    assert spread.df == 3


def test_one_noisy_cell_neither_gets_a_verdict_by_chance_nor_hides_what_quiet_cells_tell() -> None:
    """The last of eight cells has ten times the deviation of the others."""

    def noisy(table: list[Cell], difference: float) -> list[Cell]:
        last = Cell("noisy", 20 + 10 * (table[-1].scores - 20))
        return [table[0], Cell("1", table[1].scores + difference), *table[2:-1], last]

    assert share([differs(judge(noisy(table, 0))[-1]) for table in tables(8, 3, 0)]) <= 0.08  # pooled alone: 0.22
    assert share([differs(judge(noisy(table, 1))[0]) for table in tables(8, 3, 0)]) >= 0.8  # pooled alone: 0.69


def test_cells_that_share_their_runs_count_once_in_the_spread_over_seeds() -> None:
    runs = np.array([1.0, 3.0])
    cells = [Cell("greedy", runs, runs="a"), Cell("beam", runs + 1, runs="a"), Cell("other", np.array([5.0, 5.0]))]
    noise = noise_of(cells)
    assert (noise.apart.variance, noise.apart.df) == (2.0, 1)  # of "runs", once; "other" tells nothing
    assert (noise.shared.variance, noise.shared.df) == (0.0, 1)


def test_what_a_run_adds_to_every_cell_does_not_count_where_the_cells_share_their_runs() -> None:
    runs = np.array([10.0, 20.0, 30.0])
    beam = runs + 1 + np.array([0.01, -0.01, 0.0])
    (shared,) = judge([Cell("greedy", runs, runs="a"), Cell("beam", beam, runs="a")])
    (apart,) = judge([Cell("greedy", runs, runs="a"), Cell("beam", beam, runs="b")])
    assert shared.kind == "better" and apart.kind == "cannot tell"


def test_at_most_5_percent_of_1000_tables_with_nothing_in_them_get_any_verdict() -> None:
    assert share([any(map(differs, judge(table))) for table in tables(8, 3, 0)]) <= 0.05


def test_a_planted_half_point_is_found_in_95_percent_of_tables_of_8_cells_x_3_seeds() -> None:
    assert share([judge(table)[-1].kind == "better" for table in tables(8, 3, 0.5)]) >= 0.95


def test_two_arms_with_5_seeds_find_three_tenths_in_90_percent() -> None:
    assert share([judge(table)[-1].kind == "better" for table in tables(2, 5, 0.3)]) >= 0.90


def test_the_winner_of_20_equal_variants_is_confirmed_as_no_better() -> None:
    looked_better, confirmed = [], []
    for table, (base, fresh) in zip(tables(20, 3, 0), tables(2, 5, 0, seed=2), strict=True):
        winner = max(table, key=lambda cell: cell.scores.mean())
        looked_better.append(winner.scores.mean() - table[0].scores.mean())
        confirmed.append(judge([base, fresh])[0].kind == "better")
    assert np.mean(looked_better) > DEVIATION  # the winner's curse
    assert share(confirmed) <= 0.05


def with_sentences(interaction: float, seed: int, sentences: int = 200, cells: int = 2) -> list[Cell]:
    """Cells of 3 runs; each suits some sentences better than others, by 0 on average over all sentences there are."""
    draw = np.random.default_rng(seed)
    drawn = draw.multinomial(sentences, np.full(sentences, 1 / sentences), 200) / sentences
    base = draw.normal(20, 30, sentences)
    runs = [
        base + draw.normal(0, interaction, sentences) * (cell > 0) + draw.normal(0, 5, (3, sentences))
        for cell in range(cells)
    ]
    return [Cell(str(i), of_cell.mean(1), drawn @ of_cell.T) for i, of_cell in enumerate(runs)]


@pytest.mark.parametrize("interaction", [0, 20])
def test_a_setting_that_suits_these_sentences_by_chance_is_not_called_better(interaction: float) -> None:
    made = [with_sentences(interaction, seed) for seed in range(400)]
    assert share([any(map(differs, judge(cells, sentences=200))) for cells in made]) <= 0.075  # 5 % and 2 deviations
    if interaction:
        without = [[Cell(cell.name, cell.scores) for cell in cells] for cells in made]
        assert share([any(map(differs, judge(cells))) for cells in without]) > 0.3


def test_the_seeds_that_would_tell_do_tell_in_about_80_percent() -> None:
    unsure = next(v for table in tables(2, 3, 0) if (v := judge(table, margin=0.15)[0]).kind == "cannot tell")
    assert unsure.more_seeds
    pooled = tables(2, 3 + unsure.more_seeds, 0.15, seed=3)
    assert 0.6 < share([judge(table)[0].kind == "better" for table in pooled]) < 0.95


def test_a_cell_within_the_margin_has_no_larger_difference() -> None:
    same = np.array([20.0, 20.1, 19.9, 20.0, 20.1])
    (verdict,) = judge([Cell("a", same), Cell("b", same)], margin=0.3)
    assert verdict.kind == "no larger difference"
    assert in_words(verdict, 0.3) == "no difference larger than 0.3"
    assert in_words(verdict, 0.3, say_in("zh")) == "差别不超过 0.3"


def test_a_difference_that_is_certain_but_within_the_margin_is_no_larger_one() -> None:
    base = np.array([20.0, 20.01, 19.99])
    (verdict,) = judge([Cell("a", base), Cell("b", base + 0.05)], margin=0.3)
    assert verdict.p < 0.05 and verdict.kind == "no larger difference"


def test_one_seed_a_cell_tells_nothing_and_nothing_is_promised_of_more() -> None:
    (verdict,) = judge([Cell("a", np.array([20.0])), Cell("b", np.array([25.0]))])
    assert (verdict.kind, verdict.p, verdict.more_seeds) == ("cannot tell", 1.0, None)
    assert verdict.interval == (-math.inf, math.inf)
    assert in_words(verdict) == "cannot tell; one seed says nothing of the spread of runs"


def test_lower_losses_are_better_if_the_metric_says_so() -> None:
    cells = [Cell("a", np.array([2.00, 2.01, 2.02])), Cell("b", np.array([1.50, 1.51, 1.52]))]
    assert judge(cells, higher_is_better=False)[0].kind == "better"
    assert judge(cells)[0].kind == "worse"


def test_decodings_of_one_run_are_judged_by_its_sentences_alone() -> None:
    draw = np.random.default_rng(1)
    of_sentences = draw.normal(20, 30, 500)
    drawn = draw.multinomial(500, np.full(500, 1 / 500), 500) / 500
    cells = [
        Cell(name, np.array([scores.mean()]), (drawn @ scores)[:, None], runs="one")
        for name, scores in (
            ("greedy", of_sentences),
            ("beam", of_sentences + draw.normal(1, 5, 500)),
            ("penalty", of_sentences + draw.normal(0, 5, 500)),
        )
    ]
    beam, penalty = judge(cells, sentences=500, margin=0.5)
    assert beam.kind == "better"
    assert penalty.kind == "cannot tell"
    assert penalty.detectable_on_few == pytest.approx(penalty.detectable * (500 / 200) ** 0.5)
    assert penalty.more_sentences and penalty.more_seeds is None
