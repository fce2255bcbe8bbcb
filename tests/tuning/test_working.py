"""Workers may be many, and may be killed at any moment; rungs pause runs that go on as if they had not."""

import errno
import fcntl
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.tuning.test_study import are_equal, weights

from weft.errors import RunError, Stopped
from weft.runs.train import Silent
from weft.training.signals import stop_on_signal
from weft.tuning.cells import draw, identity
from weft.tuning.halving import everything, promoted, saved, spearman, trust
from weft.tuning.opening import open_study
from weft.tuning.results import paragraph, tables
from weft.tuning.study import Study
from weft.tuning.wanted import first_new
from weft.tuning.working import is_finished, take_one, work

Make = Callable[[str], Study]

SIX = """\
base = "tiny.toml"
metric = "loss"
seeds = [1, 2]
budget = { steps = 8 }
validations = 4
[space]
training.learning_rate = [1e-3, 3e-3, 1e-2]
"""
SIXTEEN = """\
base = "tiny.toml"
metric = "loss"
budget = { steps = 16 }
[space]
training.learning_rate = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1]
training.label_smoothing = [0.0, 0.1]
"""
HALVING = "[halving]\neta = 4\nrungs = [0.125, 0.5]\n"


def text_of(study: Study) -> str:
    return " ".join(" ".join(table.text() for table in tables(study)).split())


def test_workers_that_are_killed_lose_nothing_and_a_new_study_is_made_once(tmp_path: Path) -> None:
    numbers = {"kills": 2, "trials": 6, "workers": 3, "beginnings": 2, "steps": 8}
    options = [word for name, number in numbers.items() for word in (f"--{name}", str(number))]
    command = [sys.executable, "-m", "bench.reliability.r12_studies", "--results", str(tmp_path / "lines"), *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout)
    assert figures["kills"] == 2 and figures["results"] == figures["distinct"] == 6 and figures["different"] == 0
    assert figures["errors"] == 0 and figures["studies"] == 2


def test_several_workers_are_one_command_and_a_signal_stops_them_all(study: Make) -> None:
    made = study(SIX.replace("steps = 8", "steps = 5000"))  # more than a minute of work
    command = [sys.executable, "-m", "weft", "tune", str(made.folder), "--workers", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while len([*made.folder.glob("trials/*/run/run.json")]) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 3, error
    assert error.count("stopped") >= 2 and not made.results()
    assert all(open_study(made.folder).trials()[number].run.exists() for number in (0, 1))
    assert not [pid for pid in os.listdir("/proc") if pid.isdecimal() and str(made.folder) in command_line(pid)]


def command_line(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
    except OSError:
        return ""


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps that are taken; a signal comes after the first five."""
    from weft.training.trainer import Trainer

    taken, plain = list[int](), Trainer.log_when_due

    def stop_at_5(self: Trainer) -> None:
        taken.append(self.progress.step)
        if taken == [1, 2, 3, 4, 5]:
            os.kill(os.getpid(), signal.SIGTERM)
        plain(self)

    monkeypatch.setattr(Trainer, "log_when_due", stop_at_5)
    return taken


ONE = SIX.replace(", 3e-3, 1e-2", "").replace("[1, 2]", "[1]")
QUICK = ("trials/0000/run/run.json", "trials/0000/run/checkpoints/step-5/training.json", "corpus/source.ids")


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_whatever_file_of_a_study_is_torn_the_trials_come_out_as_they_would_have(
    study: Make, steps: list[int], tmp_path: Path, every: bool
) -> None:
    made = study(ONE)
    with pytest.raises(Stopped):
        work(made)
    assert not made.results()
    files = [str(path.relative_to(made.folder)) for path in sorted(made.folder.rglob("*")) if path.is_file()]
    torn = [file for file in files if (made.folder / file).stat().st_size > 0 and (every or file in QUICK)]
    assert len(torn) > (20 if every else 2)
    for number in range(len(torn)):
        shutil.copytree(made.folder, tmp_path / f"torn-{number}")
    work(made)
    assert len(steps) == 8 and is_finished(made)  # it goes on from its checkpoint
    for number, file in enumerate(torn):
        path = tmp_path / f"torn-{number}" / file
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        spoiled = open_study(tmp_path / f"torn-{number}")
        work(spoiled)
        assert [result.state for result in spoiled.results()] == ["done"], file
        assert are_equal(weights(spoiled), weights(made)), file


def test_a_worker_that_is_killed_at_a_rung_before_it_could_say_so_does_not_train_on(study: Make) -> None:
    made = study(SIXTEEN.replace("[0.0, 0.1]", "[0.0]").replace("3e-3, 1e-2, 3e-2, 1e-1, 3e-1", "3e-3") + HALVING)
    trial = made.trials()[0]
    with stop_on_signal() as stop:
        while trial.rung(1) is None:
            take_one(made, stop, Silent())
    (trial.path / "rung-1.json").unlink()
    work(made)
    assert [result.state for result in made.results()].count("done") == 1
    reached = trial.rung(1)
    assert reached is not None and reached["step"] == 2


def test_a_disk_without_locks_is_refused_with_the_reason(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    (corpus / "study.toml").write_text(SIX, encoding="utf-8")
    with pytest.raises(RunError, match=r"No locks available\. Workers take trials by flock"):
        open_study(corpus / "study.toml", folder=corpus / "study")


def test_language_models_are_tuned_as_well(tmp_path: Path) -> None:
    for name, first in (("train", 0), ("valid", 1)):
        lines = [f"the {number} cats sat on {number} mats\n" for number in range(first, 60, 2)]
        (tmp_path / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "lm.toml").write_text(
        'task = "language-model"\n[data]\nlanguage = "en"\ntrain = ["train.txt"]\nvalid = ["valid.txt"]\n[model]\n'
        "model_dim = 8\nnum_heads = 2\nnum_layers = 1\nff_dim = 8\n[training]\nbatch_sentences = 10\n",
        encoding="utf-8",
    )
    study = 'base = "lm.toml"\nbudget.epochs = 2\n[space]\ntraining.learning_rate = [1e-3, 1e-2]\n'
    (tmp_path / "study.toml").write_text(study, encoding="utf-8")
    made = open_study(tmp_path / "study.toml", folder=tmp_path / "study")
    work(made)
    (first, second) = made.cells()
    assert made.metric.name == "loss" and made.best() == second
    worse, better = (made.results_of(cell)[0].value("perplexity") or 0 for cell in (first, second))
    assert worse > better > 1
    assert made.values(first, half="confirm") != made.values(first)
    assert "compared by loss on 15 texts of the validation set" in paragraph(made)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install -e '.[cluster]'")
def test_workers_of_a_cluster_do_the_same_study_though_one_is_killed(study: Make, corpus: Path) -> None:
    made = study(SIX)
    process = subprocess.Popen([sys.executable, "-m", "weft", "tune", str(made.folder), "--cluster", "--workers", "2"])
    while not [*made.folder.glob("trials/*/run/run.json")]:
        time.sleep(0.02)
    (victim, *_) = [pid for pid in os.listdir("/proc") if pid.isdecimal() and command_line(pid).startswith("ray::join")]
    os.kill(int(victim), signal.SIGKILL)
    assert process.wait(timeout=300) == 0
    (corpus / "alone.toml").write_text(SIX, encoding="utf-8")
    alone = open_study(corpus / "alone.toml", folder=corpus / "alone")
    work(alone)
    assert are_equal(weights(open_study(made.folder)), weights(alone))


def test_what_halving_promotes_is_the_run_that_it_would_have_been(study: Make, corpus: Path) -> None:
    nine = SIXTEEN.replace("[1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1]", "[1e-3, 1e-2, 1e-1]")
    made = study(nine.replace("[0.0, 0.1]", "[0.0, 0.1, 0.2]") + HALVING.replace("eta = 4", "eta = 3"))
    work(made)
    states = [result.state for result in made.results()]
    assert states.count("done") == 1 and states.count("stopped") == 8
    assert [len(chosen or ()) for chosen in (everything(made), promoted(made, 1), promoted(made, 2))] == [9, 3, 1]
    taken, whole = saved(made)
    assert taken <= 0.45 * whole
    assert "halving took" in text_of(made) and [one.rung for one in trust(made)] == [1]
    best = made.best()
    assert best is not None
    (winner,) = (result for result in made.results() if result.state == "done")
    (corpus / "one.toml").write_text(
        SIXTEEN.partition("[space]")[0]
        + "[space]\n"
        + "".join(f"{key} = [{value!r}]\n" for key, value in winner.settings.items()),
        encoding="utf-8",
    )
    alone = open_study(corpus / "one.toml", folder=corpus / "one")
    alone.base = made.base  # validated as often
    work(alone)
    assert are_equal({0: weights_of_number(made, winner.number)}, weights(alone))


def weights_of_number(study: Study, number: int) -> dict:
    from safetensors.torch import load_file

    return load_file(study.trials()[number].run / "model.safetensors")


def test_trust_in_rungs_is_over_the_means_of_points_without_values_that_were_not_finite() -> None:
    def result(point: int, at_rung: float | None, at_end: float) -> SimpleNamespace:
        known = {"rungs": (at_rung,), "measured": [{"decoding": "greedy"}], "value": lambda *_, **__: at_end}
        return SimpleNamespace(phase="search", settings={"point": point}, **known)

    results = [
        result(0, 3.0, 30.0),
        result(1, None, 5.0),
        result(2, 1.0, 10.0),
        result(3, 2.0, 20.0),
        result(3, 2.5, 21.0),
    ]
    facts = SimpleNamespace(length=SimpleNamespace(rungs=[(8, 800)]))
    study = SimpleNamespace(results=lambda: results, facts=facts, metric=SimpleNamespace(name="loss"))
    (found,) = trust(cast(Study, study))
    assert (found.rung, found.points, found.spearman) == (1, 3, pytest.approx(1))


def test_spearman_is_the_correlation_of_ranks() -> None:
    import numpy as np

    assert spearman(np.array([[1, 10], [2, 20], [3, 1000]])) == pytest.approx(1)
    assert spearman(np.array([[1, 3], [2, 2], [3, 1]])) == pytest.approx(-1)
    assert spearman(np.array([[1, 1], [2, 2], [2, 3], [4, 4]])) == pytest.approx(0.9486833)  # ranks 1, 2.5, 2.5, 4
    assert spearman(np.array([[1, 1], [2, 1], [3, 1]])) == 0


def test_a_sampler_that_proposes_a_known_point_is_given_a_new_one(study: Make) -> None:
    made = study('base = "tiny.toml"\nsampler = "random"\ntrials = 2\n[space]\n"model.dropout" = [0.0, 0.1]\n')
    first = draw(made.config, 0)
    second = next(point for number in range(20) if (point := draw(made.config, number)) != first)
    assert first_new([first, first, second], [first]) == [second]
    assert first_new([first, second], [first, second]) == []


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_samplers_draw_as_many_points_as_are_wanted(study: Make, sampler: str) -> None:
    made = study(
        f'base = "tiny.toml"\nsampler = "{sampler}"\ntrials = 5\nmetric = "loss"\ncost = "seconds"\n'
        "budget = { steps = 2 }\nvalidations = 1\n[space]\n"
        "training.learning_rate = { low = 1e-4, high = 1e-1, log = true }\nmodel.norm = ['pre', 'post']\n"
        "[arms]\nwarm = { 'training.warmup' = 0.5 }\ncold = { 'training.warmup' = 0.0 }\n"
    )
    work(made)
    assert len(made.results()) == 5 == len({identity(cell.values) for cell in made.cells()})
    assert all(1e-4 <= cell.point["training.learning_rate"] <= 1e-1 for cell in made.cells())
    text = text_of(made)
    assert "importance, by PED-ANOVA: " in text and " *" in text


def test_a_best_value_at_the_edge_is_said_and_the_choice_is_confirmed_with_new_seeds(study: Make) -> None:
    made = study(
        'base = "tiny.toml"\nmetric = "loss"\nbudget = { steps = 6 }\n[space]\n'
        "training.learning_rate = [1e-5, 1e-4]\n[confirm]\nseeds = [7, 8]\n"
    )
    work(made)
    phases = [(result.phase, result.seed, result.settings["training.learning_rate"]) for result in made.results()]
    # the recipe's own rate is not among the cells, so the first one is the baseline
    assert phases[2:] == [("confirm", seed, rate) for rate in (1e-4, 1e-5) for seed in (7, 8)]
    assert not any((trial.path / "hypotheses.json").exists() for trial in made.trials())  # a loss needs no search
    text = text_of(made)
    assert (
        "is at the edge of what was tried; try 0.001 beyond it" in " ".join(text.split())
        and "confirmed with new seeds (7, 8)" in text
        and "there against the baseline" in text
    )
