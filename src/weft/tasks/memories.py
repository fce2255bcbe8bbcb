"""Restricted Boltzmann machines, deep belief networks and classifiers of images as tasks of the Trainer.

They have no recipe: `learn` takes a network, a task and images, and trains in a run folder as `weft train` does.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from weft.data.images import ImageBatches
from weft.errors import RunError
from weft.models.memories.dbn import highest_hidden
from weft.models.memories.rbm import RBM
from weft.runtime import derive_seed
from weft.training.config import TrainingConfig
from weft.training.metric import Metric
from weft.training.run_folder import RunFolder, training_state
from weft.training.signals import stop_on_signal
from weft.training.task import Evaluation, Listener, Loss, Task
from weft.training.trainer import Trainer

Rows = Float[Tensor, "_ _"]
WEIGHTS = "model.safetensors"
MAY_CHANGE = {"epochs", "steps"}
"""Keys that a run may be continued with other values of."""
WITHOUT_EFFECT = {"precision", "threads", "init", "batch_tokens", "batch_sentences"}


@dataclass(frozen=True)
class ContrastiveDivergence:
    """The loss of an RBM, F(data) - F(sample), which does not tell how good it is: validations measure the
    pseudo-log-likelihood, in nats per image."""

    valid: Rows
    metrics = (Metric("pseudo_log_likelihood", "max", "pseudo-log-likelihood"),)
    counts = "images"

    def loss(self, model: RBM, batch: Rows) -> Loss:
        return Loss(model.contrast(batch), len(batch))

    def evaluate(self, model: RBM) -> Evaluation:
        return Evaluation({self.metrics[0].key: float(model.pseudo_log_likelihood(self.valid).mean())})


@dataclass(frozen=True)
class Classification:
    """Cross-entropy of the class of an image, which is the last column of its row (`labelled`)."""

    valid: Rows
    metrics = (Metric("accuracy", "max", "accuracy"),)
    counts = "images"

    def loss(self, model: nn.Module, batch: Rows) -> Loss:
        return Loss(F.cross_entropy(model(batch[:, :-1]), batch[:, -1].long(), reduction="sum"), len(batch))

    def evaluate(self, model: nn.Module) -> Evaluation:
        right = model(self.valid[:, :-1]).argmax(1) == self.valid[:, -1]
        return Evaluation({self.metrics[0].key: float(right.double().mean())})


def labelled(images: Rows, labels: Int[Tensor, " _"]) -> Rows:
    """Rows of pixels and a label."""
    return torch.cat([images, labels[:, None].to(images.dtype)], 1)


def learn(
    model: nn.Module,
    task: Task[Any, Any],
    rows: Rows,
    run: Path,
    listener: Listener,
    *,
    seed: int = 1,
    batch: int = 100,
    **training: Any,
) -> None:
    """Train the network in place, to its last weights, with these keys of [training]; continue a run that stopped.

    It begins with the weights that the network has, in fp32, with `batch` images a step.

    Raises:
        ValueError: for keys of [training] that choose these otherwise.
        RunError: for a run that began with something else than it is continued with.
    """
    if without_effect := sorted(WITHOUT_EFFECT & training.keys()):
        raise ValueError(f"learn() has no use for {', '.join(without_effect)}; batch= is the number of images a step")
    folder = RunFolder(run)
    settings = {key: value for key, value in training.items() if key not in MAY_CHANGE}
    images = hashlib.sha256(rows.contiguous().numpy().tobytes()).hexdigest()
    shapes = {name: list(weight.shape) for name, weight in model.state_dict().items()}
    given = json.loads(json.dumps({"images": images, "batch": batch, "seed": seed, "shapes": shapes, **settings}))
    trainer: Trainer[Any, Any] = Trainer(
        model,
        task,
        ImageBatches(rows, batch, seed),
        TrainingConfig(**{"clip_norm": float("inf"), "divergence": float("inf"), "precision": "fp32", **training}),
        run=folder,
        write_model=lambda into, _: save_file(model.state_dict(), into / WEIGHTS),
        read_weights=lambda of: load_file(of / WEIGHTS),
        describe_batch=lambda batch: {"images": [None] * len(batch)},
        listener=listener,
        seed=seed,
        width=1,
        device=torch.device("cpu"),
        identity={"given": given},
    )
    with folder.locked(), stop_on_signal() as stop:
        if status := folder.status():
            before = training_state(run).get("given", given)
            if differing := sorted(key for key in {*before, *given} if before.get(key) != given.get(key)):
                raise RunError(f"{run} began with other {', '.join(differing)}; undo that, or name another folder")
            model.load_state_dict(load_file(folder.checkpoint(status.last) / WEIGHTS))  # with the chains of PCD
            trainer.restore(status.last)
        else:
            folder.clear()  # of what one that was killed before its first checkpoint has written
        trainer.train(stop)


def learn_deep(
    hidden: Sequence[int], train: Rows, valid: Rows, run: Path, listener: Listener, *, seed: int = 1, **training: Any
) -> list[RBM]:
    """Train an RBM on the images, one on what its hidden units make of them, and so on, in run/1, run/2, ...

    The machines, from the lowest to the highest, are a deep belief network (models/memories/dbn.py).
    """
    machines: list[RBM] = []
    for number, units in enumerate(hidden, start=1):
        below = highest_hidden(machines, train)
        torch.manual_seed(derive_seed(seed, "machine", number))
        machine = RBM(below.size(1), units)
        machine.visible_bias.data = below.mean(0).clamp(0.01, 0.99).logit()
        task = ContrastiveDivergence(highest_hidden(machines, valid))
        learn(machine, task, below, run / str(number), listener, seed=seed, **training)
        machines.append(machine)
    return machines
