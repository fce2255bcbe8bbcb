"""Groups of runs of one recipe: means, deviations and verdicts by hand."""

from dataclasses import replace
from statistics import stdev

import pytest

from weft.data.corpus import ParallelText
from weft.evaluating.comparison import System
from weft.evaluating.evaluation import SHOWN_SCORES
from weft.evaluating.seeds import Group, Seeds, group_of_seeds, remarks_on
from weft.folders.model_folder import TranslationModel
from weft.metrics.translation import score_translations
from weft.translating.translator import Translator

REFERENCES = [
    f"I have {number} {noun}."
    for number in ("three", "four", "six")
    for noun in ("apples", "books", "pears", "friends")
]
PAIRS = ParallelText(["我有书。"] * 12, [(reference,) for reference in REFERENCES], {"test.tsv": "0" * 64})
GOOD = System("good", REFERENCES, {"sha256": "1" * 64})
BAD = System("bad", [line.replace("six", "sixteen") for line in REFERENCES], {"sha256": "2" * 64})


def test_mean_and_deviation_over_seeds_by_hand() -> None:
    chrf = [score_translations(one.hypotheses, [REFERENCES], "en")["chrf"].value for one in (GOOD, BAD)]
    group = group_of_seeds([GOOD, BAD], PAIRS, "en", [None, None])
    assert group.values("chrf") == chrf
    table = Seeds(PAIRS.sha256, [group]).tables()[0]
    half = abs(chrf[0] - chrf[1]) / 2
    assert stdev(chrf) == pytest.approx(half * 2**0.5)  # of two, with n - 1: the difference by the root of 2
    assert table.rows[2] == (
        "mean of good, bad",
        *table.rows[2][1:6],
        f"{sum(chrf) / 2:.2f} ± {half * 2**0.5:.2f}",
    )


def test_two_groups_have_the_difference_of_their_means() -> None:
    scores = [score_translations(one.hypotheses, [REFERENCES], "en") for one in (GOOD, BAD)]
    groups = [Group([GOOD, GOOD], [scores[0]] * 2, [], []), Group([BAD, BAD], [scores[1]] * 2, [], [])]
    last = Seeds(PAIRS.sha256, groups).tables()[0].rows[-1]
    gains = [scores[1][name].value - scores[0][name].value for name in SHOWN_SCORES]
    assert last == (
        "difference of the means",
        *(f"{g:+.4f}" for g in gains[:4]),
        *(f"{g:+.2f}" for g in gains[4:]),
    )


def test_runs_that_share_a_seed_are_remarked_upon(random_model: TranslationModel) -> None:
    translator = Translator(random_model)
    assert remarks_on([GOOD, BAD], [translator, translator]) == ["bad has the seed of good, 1"]
    assert remarks_on([GOOD, BAD], [translator, None]) == []


def test_any_two_runs_may_share_a_seed(random_model: TranslationModel) -> None:
    def with_seed(seed: int) -> Translator:
        recipe = random_model.recipe.model_copy(update={"seed": seed})
        return Translator(replace(random_model, resolved=replace(random_model.resolved, recipe=recipe)))

    systems = [replace(GOOD, name=name) for name in "abc"]
    assert remarks_on(systems, list(map(with_seed, (1, 2, 2)))) == ["c has the seed of b, 2"]


def test_two_groups_get_a_verdict_over_seeds_and_sentences() -> None:
    def broken(name: str, every: int, start: int) -> System:
        return System(
            name, [line if i % every != start else "no" for i, line in enumerate(REFERENCES)], {"sha256": "3" * 64}
        )

    good = group_of_seeds([broken(f"good-{i}", 12, i) for i in range(3)], PAIRS, "en", [None] * 3)
    bad = group_of_seeds([broken(f"bad-{i}", 2, i % 2) for i in range(3)], PAIRS, "en", [None] * 3)
    assert Seeds(PAIRS.sha256, [good, bad]).verdicts()["sacrebleu"].kind == "worse"
    assert Seeds(PAIRS.sha256, [good, good]).verdicts()["sacrebleu"].kind == "cannot tell"
    notes = Seeds(PAIRS.sha256, [good, bad]).tables()[0].notes
    assert any(note.startswith("sacreBLEU: worse (95 % [") for note in notes)
    (one_group,) = Seeds(PAIRS.sha256, [good]).tables()
    assert not any("worse" in note for note in one_group.notes)
