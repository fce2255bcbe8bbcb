"""Resuming a run: what its last checkpoint says, what may have changed since, and what is refused."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from weft.config import Difference, Resolved, changed, differences, leaves, parse_rendered
from weft.errors import RunError
from weft.folders.model_folder import Learned, load_model, read_config
from weft.folders.recipes import OF_THE_MACHINE
from weft.preparing.first_model import with_machine_choices
from weft.preparing.preparation import other_batches
from weft.preparing.prepared import Files
from weft.runs.budget import FITTED
from weft.runs.trial import AnyTrainer
from weft.tasks import TASKS
from weft.training.run_folder import RunFolder, RunStatus
from weft.training.task import Listener

LIMITS = {*FITTED, "training.patience", "training.trials"}
"""Keys that say how long a run trains. They may be raised when it is resumed, and lowered once it is finished."""
MAY_CHANGE = {
    *(*LIMITS, *OF_THE_MACHINE, "training.most_skipped", "training.divergence"),
    *("training.log_every", "training.checkpoint_every", "decoding.batch_tokens"),
}
"""Keys that may be changed when a run is resumed: its limits, when it gives up, how often it logs and saves, and how
much it translates at once, on which no translation depends.
Keys of validation may not, because other validations would select other weights."""

Limit = Literal["epochs", "steps", "patience", "trials", "budget", "counting"]
NO_MORE: Mapping[Limit, str] = {"budget": "its budget is used", "counting": "its n-grams are counted"}
"""Limits that no key of the recipe raises, with what is said of them."""


@dataclass(frozen=True)
class SoFar:
    """A run that has begun, and the recipe to resume it with."""

    status: RunStatus
    state: Mapping[str, Any]
    """State of the last checkpoint; `chosen_epochs` stands for the epochs of a recipe without a length of its own."""
    given: Resolved[Any]
    """The recipe as the user gave it when the run was begun or last resumed, completed by those epochs."""
    chosen: Resolved[Any]
    """The given recipe with everything that weft chose."""
    now: Resolved[Any]
    """The recipe as the user gives it now, completed by those epochs."""

    def ended_by(self) -> Limit | None:
        """The limit that ended a finished run, unless the recipe now raises it; an omitted limit is infinite."""
        if not self.status.finished:
            return None
        old, new = self.given.recipe.training, self.now.recipe.training
        limit = limit_reached(self.given, self.state)
        is_raised = limit not in NO_MORE and (getattr(new, limit) or math.inf) > (getattr(old, limit) or math.inf)
        return None if is_raised else limit


def run_so_far(run: RunFolder, status: RunStatus, now: Resolved[Any], files: Files) -> SoFar:
    """Read the last checkpoint of a run that is resumed with the recipe `now`.

    Raises RunError if the checkpoint is damaged, or if files or recipe are not those that the run began with.
    """
    _, state = run.load(status.last)
    if missing := {"recipe", "data", "batches", "progress"} - state.keys():
        raise RunError(f"{run.checkpoint(status.last)} lacks {', '.join(sorted(missing))}; it was damaged")
    given = parse_rendered(state["recipe"], type(now.recipe), run.checkpoint(status.last))
    state.setdefault("chosen_epochs", given.recipe.training.epochs)  # older checkpoints lack it
    given, now = (with_epochs(resolved, state["chosen_epochs"]) for resolved in (given, now))
    so_far = SoFar(status, state, given, read_config(run.checkpoint(status.last)), now)
    check_same_data(state["data"], files, run, status)
    check_same_recipe(so_far, run)
    return so_far


def with_epochs(resolved: Resolved[Any], epochs: int) -> Resolved[Any]:
    """Set the epochs of a run that has begun, unless the recipe itself says how long to train."""
    if resolved.origins["training.epochs"] != "default" or resolved.recipe.training.steps is not None:
        return resolved
    return changed(resolved, {"training.epochs": epochs}, "corpus")


def model_so_far(so_far: SoFar, run: RunFolder, listener: Listener) -> Learned[Any]:
    """Load the last checkpoint's model with the limits of the current recipe and the choices of this machine.

    A run with a budget keeps its number of steps, and so does one that counts.
    """
    model = run.ranks.from_first(load_model, run.checkpoint(so_far.status.last))
    before, values = model.resolved, leaves(so_far.now.recipe)
    keeps_steps = "budget" in so_far.state or before.recipe.model.is_counted
    keys = MAY_CHANGE - FITTED if keeps_steps else MAY_CHANGE
    renewed = changed(before, {key: values[key] for key in keys if key in values}, "recipe")
    origins = {change.key: so_far.now.origins[change.key] for change in differences(before, renewed)}
    model.resolved = Resolved(renewed.recipe, {**before.origins, **origins})
    model.resolved = run.ranks.from_first(with_machine_choices, model.resolved)
    for change in differences(before, model.resolved):
        if change.key in OF_THE_MACHINE:
            listener.on_message(f"{change.key} was {change.old}, is {change.new} from here on: sums round differently")
    return model


def check_same_recipe(so_far: SoFar, run: RunFolder) -> None:
    """Raise RunError if the recipe differs from the one that the run was given in more than how long it trains.

    A key that was left open then and is given now must have the value that weft chose for it.
    """
    given, chosen, now = so_far.given, so_far.chosen, so_far.now
    was_open, is_open = (
        {key for key, value in leaves(r.recipe).items() if r.origins[key] == "default" or value == "auto"}
        for r in (given, now)
    )
    settled = was_open - is_open - MAY_CHANGE
    found = [
        *(d for d in differences(given, now) if d.key not in settled),
        *(d for d in differences(chosen, now) if d.key in settled),
    ]
    changes = [d for d in found if d.key not in MAY_CHANGE]
    if not so_far.status.finished:
        changes += [d for d in found if d.key in LIMITS - FITTED and (d.new or math.inf) < (d.old or math.inf)]
    if changes:
        kind = TASKS[chosen.recipe.task]
        fits = kind.can_begin_with(chosen.recipe, now.recipe, {d.key for d in changes})
        raise another_recipe(changes, run, so_far.status, from_weights=fits)


def check_not_shorter(so_far: SoFar, trainer: AnyTrainer, run: RunFolder) -> None:
    """Raise RunError if the epochs and steps of an unfinished run, taken together, end it sooner than before."""
    before = so_far.chosen.recipe
    planned = before.training.horizon(trainer.steps_per_epoch, before.model.width).total_steps
    if not so_far.status.finished and trainer.horizon.total_steps < planned:
        changes = [d for d in differences(so_far.chosen, so_far.now) if d.key in FITTED]
        raise another_recipe(changes, run, so_far.status)


def another_recipe(
    changes: Sequence[Difference], run: RunFolder, status: RunStatus, *, from_weights: bool = True
) -> RunError:
    listed = "\n".join(f"  {change}" for change in changes)
    advice = run.advise_new_run(status.last if from_weights else None)
    return RunError(f"{run.path} was started with another recipe:\n{listed}\nundo the change, or {advice}")


def without_parents(data: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
    """The digests of the files but for the models that weights or a vocabulary were taken from (`init`), of which a run
    has its own copy as soon as it has begun."""
    return {part: digests for part, digests in data.items() if part != "init"}


def check_same_data(known: Mapping[str, Mapping[str, str]], files: Files, run: RunFolder, status: RunStatus) -> None:
    """Raise RunError if the files are not those that the run began with."""
    before, now = (
        {(part, name): digest for part, digests in data.items() for name, digest in digests.items()}
        for data in map(without_parents, (known, files.sha256))
    )
    if before == now:
        return
    changes = {
        "changed since then": [file for file in now if file in before and now[file] != before[file]],
        "new": [file for file in now if file not in before],
        "gone": [file for file in before if file not in now],
    }
    listed = "; ".join(f"{how}: {', '.join(map(' '.join, names))}" for how, names in changes.items() if names)
    advice = run.advise_new_run(status.last)
    raise RunError(f"{run.path} was trained on other data: {listed}; put the old files back, or {advice}")


def check_same_batches(known: str, trainer: AnyTrainer) -> None:
    """Raise RunError if the same recipe and files now give other ids or batches than those that the run began with."""
    if known != trainer.identity["batches"]:
        raise other_batches(trainer.run.path)


def limit_reached(resolved: Resolved[Any], state: Mapping[str, Any]) -> Limit:
    """The limit that ended the finished run with this last checkpoint."""
    training, progress = resolved.recipe.training, state["progress"]
    if resolved.recipe.model.is_counted:
        return "counting"
    exhausted = training.exhausted(progress["validations_since_best"], progress["trials_lost"])
    if exhausted is not None:
        return exhausted
    if "budget" in state:
        return "budget"
    return "steps" if training.steps is not None and progress["step"] >= training.steps else "epochs"


def finished_message(run: RunFolder, status: RunStatus, limit: Limit) -> str:
    how_to_continue = NO_MORE.get(limit, f"raise training.{limit} to continue")
    return f"{run.path} is finished (step {status.last}); {how_to_continue}"
