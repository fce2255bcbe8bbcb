"""How long a run takes: the arithmetic by hand and by brute force, the trial with a clock that only the work moves."""

import dataclasses
import itertools
import math
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from weft.config import changed, read_recipe
from weft.data.batching import Batch, Buckets, pair_buckets
from weft.data.corpus import ParallelText
from weft.data.sentences import Sentences
from weft.errors import WeftError
from weft.folders.recipes import TranslationRecipe
from weft.preparing.corpora import read_all
from weft.preparing.first_model import first_model
from weft.preparing.preparation import prepare
from weft.runs import trial
from weft.runs.making import trainer_for_a_trial
from weft.runs.train import Silent
from weft.runs.trial import (
    LEAST_STEPS,
    Pace,
    extrapolated,
    fit_steps,
    run_seconds,
    spread,
    target_tokens,
    times_due,
    try_out,
)
from weft.tasks.kind import HeldOut
from weft.tasks.translation import LONGER_THAN_REFERENCES, with_lengths_of_references
from weft.training.config import Interval

PACE = Pace(step=0.5, validation=10.0, checkpoint=1.0, ending=20.0)


def interval(text: str) -> Interval:
    """Of a recipe whose epochs have 100 steps."""
    return Interval(text, 100)


# The arithmetic


def test_the_time_of_a_run_can_be_added_up_by_hand() -> None:
    assert run_seconds(250, PACE, interval("1 epoch"), interval("1 epoch")) == {
        "steps": 125.0,
        "validations": 30.0,  # after steps 100, 200 and the last one
        "checkpoints": 3.0,
        "ending": 20.0,
    }


def test_checkpoints_between_validations_are_added() -> None:
    parts = run_seconds(200, PACE, interval("100 steps"), interval("50 steps"))
    assert (parts["validations"], parts["checkpoints"]) == (20.0, 2 + 4)


def test_of_a_run_that_has_begun_what_is_left_is_counted() -> None:
    assert [times_due(interval("3 steps"), 8 - done, seconds_per_step=0.5, done=done) for done in (0, 2, 3, 7)] == [
        3,  # after 3, 6 and 8
        3,
        2,
        1,
    ]


@pytest.mark.parametrize(
    ("text", "steps", "times"),
    [
        ("100 steps", 0, 0),
        ("100 steps", 99, 1),
        ("100 steps", 100, 1),
        ("100 steps", 101, 2),
        ("0.5 epoch", 100, 2),
        ("1m", 240, 2),  # 120 seconds
        ("1m", 241, 3),
        ("0.001m", 30, 30),  # never more often than once a step
    ],
)
def test_what_is_due_is_counted_with_the_last_step(text: str, steps: int, times: int) -> None:
    assert times_due(interval(text), steps, seconds_per_step=0.5) == times


def test_where_all_steps_are_done_nothing_is_due() -> None:
    assert times_due(interval("12 steps"), 0, seconds_per_step=0.5, done=34) == 0


def test_the_steps_that_fit_are_those_that_a_search_one_by_one_finds() -> None:
    numbers = random.Random(1)
    units = ["7 steps", "40 steps", "1 epoch", "1m"]
    for _ in range(200):
        pace = Pace(*(numbers.choice([0.01, 0.5, 3.0]) * numbers.random() for _ in range(4)))
        both = interval(numbers.choice(units)), interval(numbers.choice(units))
        seconds, most = 60 * numbers.random(), numbers.choice([5, 300])

        def fits(steps: int, pace=pace, both=both, seconds=seconds) -> bool:
            return sum(run_seconds(steps, pace, *both).values()) <= seconds

        expected = max((steps for steps in range(1, most + 1) if fits(steps)), default=0)
        assert fit_steps(seconds, pace, *both, most=most) == expected


def test_no_step_fits_where_the_ending_takes_all_the_time() -> None:
    assert fit_steps(20.0, PACE, interval("1 epoch"), interval("1 epoch"), most=1000) == 0


# What is measured


class Clock:
    """Stands still but for what `work` adds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(trial.time, "monotonic", lambda: self.now)

    def work(self, seconds: Callable[[int], float]) -> Callable[[HeldOut], Callable[[], object]]:
        """A work that takes so long on so many pairs; getting ready for it takes longer and does not count."""

        def ready(pairs: HeldOut) -> Callable[[], object]:
            self.now += 5.0
            return lambda: setattr(self, "now", self.now + seconds(len(pairs)))

        return ready


def pairs(count: int) -> ParallelText:
    return ParallelText([str(i) for i in range(count)], [(str(i),) for i in range(count)], {})


@pytest.mark.parametrize(
    ("count", "seconds", "measured"), [(1, 1, 1), (100, 1, 100), (2500, 1, 125), (2500, 1e9, 2500)]
)
def test_a_time_that_grows_in_a_line_is_found_whatever_part_is_measured(
    monkeypatch: pytest.MonkeyPatch, count: int, seconds: float, measured: int
) -> None:
    clock = Clock(monkeypatch)
    found, timed = extrapolated(clock.work(lambda n: 2 + 0.01 * n), pairs(count), seconds)
    assert (found, timed) == (pytest.approx(2 + 0.01 * count), measured)


def test_more_pairs_are_measured_where_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = [extrapolated(Clock(monkeypatch).work(lambda n: 0.01 * n), pairs(2500), s)[1] for s in (1, 5, 10, 100)]
    assert measured == sorted(measured) and measured[0] < measured[1] < measured[2] < measured[3] == 2500


def batches(lengths: list[tuple[int, int]], batch_sentences: int = 1) -> Buckets[Batch]:
    """Of pairs with these many pieces on each side."""
    return pair_buckets(
        sources=Sentences([[9] * source + [2] for source, _ in lengths]),
        targets=Sentences([[1] + [9] * target + [2] for _, target in lengths]),
        seed=1,
        batch_sentences=batch_sentences,
    )


@pytest.mark.parametrize("begin", [0, 3, 7])
@pytest.mark.parametrize("count", [3, 10, 34])
def test_any_few_batches_of_a_trial_have_all_lengths_evenly(begin: int, count: int) -> None:
    given = batches([(length, length) for length in range(1, 101)])
    some = map(given.batch, itertools.islice(spread(given), begin, begin + count))
    lengths = sorted(batch.target.size(1) - 2 for batch in some)
    widest = max(np.diff([0, *lengths, 101]))
    assert widest <= 2.7 * 100 / count
    assert np.mean(lengths) == pytest.approx(50.5, abs=60 / count)


def test_target_tokens_are_pieces_and_the_end_without_padding() -> None:
    assert target_tokens(batches([(2, 3), (4, 1), (1, 1)], batch_sentences=2)) == 4 + 2 + 2


@pytest.fixture
def tiny(tiny_run: Path, tmp_path: Path) -> tuple:
    resolved = read_recipe(tiny_run / "tiny.toml", TranslationRecipe)
    corpora = read_all(resolved.recipe, tiny_run, Silent())
    prepared = prepare(resolved, corpora, tmp_path / "corpus", Silent())
    return first_model(prepared), prepared.store, corpora


def test_a_trial_of_steps_that_are_no_numbers_is_one_clear_error(tiny: tuple) -> None:
    model, store, corpora = tiny
    torch.nn.init.constant_(model.network.source_embedding.weight, math.nan)
    with (
        trainer_for_a_trial(model, store, corpora, Silent()) as trainer,
        pytest.raises(WeftError, match=r"in all .* steps of the trial .* training\.init"),
    ):
        try_out(trainer, model, corpora.valid, seconds=0.5, is_trained=False)


def test_a_step_of_a_trial_takes_no_more_batches_than_an_epoch_has(tiny: tuple) -> None:
    model, store, corpora = tiny
    model.resolved = changed(model.resolved, {"training.accumulate": 1000}, "a test")
    with trainer_for_a_trial(model, store, corpora, Silent()) as trainer:
        try_out(trainer, model, corpora.valid, seconds=0.0, is_trained=False)
        assert trainer.batches_per_epoch == 2
        assert trainer.progress.epoch == trainer.progress.step == 1 + math.ceil(LEAST_STEPS / 2)


def test_an_untrained_model_is_stopped_where_the_references_end(tiny: tuple) -> None:
    model, _, _ = tiny
    given = batches([(10, 20), (10, 40)])
    decoding = with_lengths_of_references(model, given).recipe.decoding
    assert decoding.max_length_ratio == pytest.approx(3 * LONGER_THAN_REFERENCES)
    assert decoding.max_length_extra == 1


def test_a_trial_finds_every_part_of_a_run_and_leaves_nothing_behind(tiny: tuple) -> None:
    model, store, corpora = tiny
    with trainer_for_a_trial(model, store, corpora, Silent()) as trainer:
        found = try_out(trainer, model, corpora.valid, seconds=0.0, is_trained=False)
        folder = trainer.run.path
    assert not folder.exists()
    assert found.steps == LEAST_STEPS and found.validated == len(corpora.valid)
    assert all(value > 0 and math.isfinite(value) for value in dataclasses.astuple(found.pace))
    assert isinstance(trainer.batches, Buckets)
    tokens_an_epoch = target_tokens(trainer.batches)
    assert found.target_tokens_per_second == pytest.approx(tokens_an_epoch / (2 * found.pace.step))  # 2 steps an epoch
    assert found.peak_bytes > 2**20
