"""Restricted Boltzmann machines and deep belief networks, trained by the ordinary Trainer on small made images."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.watching import Watcher, values
from torch import Tensor

from weft.errors import RunError, Stopped
from weft.models.memories.dbn import classifier
from weft.models.memories.rbm import RBM
from weft.runs.train import Silent
from weft.tasks.memories import Classification, ContrastiveDivergence, labelled, learn, learn_deep


def bars(count: int) -> tuple[Tensor, Tensor]:
    """4 x 4 images of one bar, upright (class 1) or level (class 0), with noise."""
    places, upright = torch.randint(0, 4, (count,)), torch.randint(0, 2, (count,))
    images = torch.zeros(count, 4, 4)
    for image, place, is_upright in zip(images, places.tolist(), upright.tolist(), strict=True):
        image[(slice(None), place) if is_upright else place] = 1.0
    noise = torch.rand_like(images) < 0.02
    return torch.where(noise, 1 - images, images).flatten(1), upright


PLAIN: dict[str, Any] = {"optimizer": "sgd", "learning_rate": 0.2, "schedule": "constant", "batch": 20}


@pytest.mark.parametrize("chains", [0, 20])
def test_a_restricted_machine_learns_bars(chains: int, tmp_path: Path) -> None:
    (train, _), (valid, _) = bars(400), bars(100)
    task = ContrastiveDivergence(valid)
    rbm = RBM(16, 12, chains=chains)
    learn(rbm, task, train, tmp_path / "run", Silent(), epochs=20, **PLAIN)
    likelihoods = values(tmp_path / "run", "valid_pseudo_log_likelihood")
    assert len(likelihoods) == 20 and likelihoods[-1] > likelihoods[0] + 1
    sample = rbm.gibbs(torch.zeros(500, 12), 500)
    random = (torch.rand(500, 16) < 0.25).float()
    with torch.no_grad():
        assert rbm.free_energy(sample).mean() < rbm.free_energy(random).mean() - 2


def test_a_run_that_was_stopped_ends_with_the_weights_and_chains_of_one_that_was_not(tmp_path: Path) -> None:
    train, _ = bars(200)
    task, ends = ContrastiveDivergence(train[:50]), []
    for name, stops in (("whole", False), ("stopped", True)):
        torch.manual_seed(5)
        rbm, settings = RBM(16, 8, chains=20), {**PLAIN, "momentum": 0.9, "epochs": 3, "log_every": 1}
        if stops:
            with pytest.raises(Stopped):
                learn(rbm, task, train, tmp_path / name, Watcher(signal_at=13), **settings)
            rbm = RBM(16, 8, chains=20)
        learn(rbm, task, train, tmp_path / name, Silent(), **settings)
        ends.append(rbm.state_dict())
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ("weight", "visible_bias", "hidden_bias", "chain"))


def test_a_deep_network_is_learned_machine_by_machine_and_fine_tuned(tmp_path: Path) -> None:
    (train, classes), (valid, valid_classes) = bars(400), bars(200)
    machines = learn_deep([12, 8], train, valid, tmp_path / "machines", Silent(), epochs=10, **PLAIN)
    assert [machine.weight.shape for machine in machines] == [(16, 12), (12, 8)]
    assert sorted(folder.name for folder in (tmp_path / "machines").iterdir()) == ["1", "2"]
    network = classifier(machines, 2)
    task = Classification(labelled(valid, valid_classes))
    learn(network, task, labelled(train, classes), tmp_path / "fine", Silent(), epochs=15, learning_rate=0.02, batch=20)
    assert values(tmp_path / "fine", "valid_accuracy")[-1] > 0.8


def test_a_run_is_continued_by_what_it_began_with_alone(tmp_path: Path) -> None:
    train, other = bars(60)[0], bars(60)[0].flip(0)
    task = ContrastiveDivergence(train[:20])

    def go_on(rows: torch.Tensor = train, hidden: int = 8, **settings: Any) -> None:
        given = {**PLAIN, "epochs": 1, **settings}
        learn(RBM(16, hidden), task, rows, tmp_path / "run", Silent(), **given)

    go_on()
    for changed, said in (
        ({"rows": other}, "other images"),
        ({"batch": 50}, "other batch"),
        ({"hidden": 9}, "other shapes"),
        ({"learning_rate": 0.5, "seed": 2}, "other learning_rate, seed"),
    ):
        with pytest.raises(RunError, match=said):
            go_on(**changed)  # type: ignore[arg-type]
    go_on(epochs=2)


def test_what_one_that_was_killed_before_its_first_checkpoint_has_logged_is_not_told_twice(tmp_path: Path) -> None:
    rows = bars(60)[0]
    (tmp_path / "run").mkdir()
    log = tmp_path / "run" / "metrics.jsonl"
    log.write_text('{"step": 1, "loss": -1.0}\n')
    learn(RBM(16, 4), ContrastiveDivergence(rows[:20]), rows, tmp_path / "run", Silent(), **{**PLAIN, "epochs": 1})
    assert log.read_text() and '"loss": -1.0' not in log.read_text()


def test_keys_that_would_do_nothing_are_refused(tmp_path: Path) -> None:
    rows = bars(10)[0]
    with pytest.raises(ValueError, match="no use for batch_sentences, precision"):
        task = ContrastiveDivergence(rows)
        learn(RBM(16, 4), task, rows, tmp_path / "run", Silent(), precision="bf16", batch_sentences=10)
