"""What must be known of a task to train a model for it. runs/ does the rest, alike for all tasks.

    files -> prepare -> ids in a store -> learn -> a task and its batches -> the Trainer -> score

A new task is a file in this room with its `TaskKind` and a line in TASKS, its recipe and how a model of it is opened
again (folders/recipes.py, folders/kinds.py), its reader in data/ and its metrics in folders/metrics.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from weft.config import Resolved, Settings
from weft.data.batching import Buckets
from weft.data.store import Store
from weft.folders.model_folder import Learned
from weft.preparing.prepared import Prepared
from weft.training.distributed import Ranks
from weft.training.task import Listener, Task

R = TypeVar("R", bound=Settings)


@runtime_checkable
class HeldOut(Protocol):
    """What a model is validated on."""

    def __len__(self) -> int: ...

    def every(self, stride: int) -> Any:
        """The first and every one `stride` places after the last."""
        ...


@runtime_checkable
class Files(Protocol):
    """The files of a run as they were read."""

    @property
    def root(self) -> Path:
        """The folder that the recipe's paths are relative to."""
        ...

    @property
    def train(self) -> Mapping[str, str]:
        """Name -> sha256 of each file to train on."""
        ...

    @property
    def valid(self) -> Any:
        """The `HeldOut` of the task."""
        ...

    @property
    def sha256(self) -> dict[str, dict[str, str]]:
        """Part (train, valid, ...) -> name -> sha256 of every file."""
        ...


@dataclass(frozen=True)
class Lesson:
    """What is improved, and on what."""

    task: Task[Any, Any]
    batches: Buckets[Any]
    describe: Callable[[Any], dict[str, list[Any]]]
    """Tells a person what is in a batch, for skipped.jsonl."""


@dataclass(frozen=True)
class Scored:
    """The final scores of a model."""

    sets: list[dict[str, Any]]
    """For scores.json and the model card: of each set of files the scores with their signatures."""
    table: str


def no_parents(recipe: Any, train: Mapping[str, str], root: Path) -> Sequence[Any]:
    return ()


def nothing_smaller(resolved: Resolved[Any], chosen: Any, rows: int, epochs: float) -> tuple[dict[str, Any], str]:
    return {}, ""


def epochs_of_recipe(resolved: Resolved[Any], rows: int) -> int | None:
    return resolved.recipe.training.epochs


def same_shape_needed(old: Any, new: Any, changes: Any) -> bool:
    """Whether training may begin with the weights of the old recipe where these keys differ: not if they shape it."""
    return not any(key.startswith(("model.", "tokenizer.", "data.")) for key in changes)


@dataclass(frozen=True)
class TaskKind(Generic[R]):
    """Raises CorpusError, RecipeError and UsageError with all that is wrong, before anything is trained."""

    read: Callable[[R, Path, Listener], Any]
    """Checks the `Files` that a recipe names, below this folder."""
    prepare: Callable[..., Prepared[R]]
    """`prepare(resolved, files, folder, listener, *, kept_in=None, processes=None, cluster=False)` finds the ids of
    the files in the folder or in `kept_in`, or makes them in the folder."""
    reopen: Callable[..., Store]
    """`reopen(learned, given, files, folder, listener, *, kept_in=None)` finds or makes the ids that a run which is
    resumed was trained on, for the vocabularies of its model."""
    learn: Callable[[Learned[R], Store, Any, Listener, Ranks], Lesson]
    measure: Callable[[Learned[R], Any, Ranks], Task[Any, Any]]
    """The task on other held-out data, which is only asked to `evaluate`."""
    score: Callable[[Learned[R], Any], Scored]
    """Scores a finished model on the held-out data, as its recipe says."""
    open: Callable[[str | Path, Sequence[str], Sequence[str | Path]], Any]
    """What `weft.load` gives for a model, overrides, and the other members of an ensemble."""
    fit: Callable[[Learned[R], Store], None] | None = None
    """Learns everything at once, such as counts of n-grams, in place of the steps of the Trainer."""
    for_trial: Callable[[Learned[R], Buckets[Any]], Learned[R]] = lambda learned, batches: learned
    """The model whose validation takes as long untrained as it will once it is trained."""
    parents: Callable[[R, Mapping[str, str], Path], Sequence[Any]] = no_parents
    """The models that this one begins with or learns from, for its card."""
    smaller: Callable[[Resolved[R], R, int, float], tuple[dict[str, Any], str]] = nothing_smaller
    """What to change where a budget leaves time for few epochs, and the message that says so."""
    usual_epochs: Callable[[Resolved[R], int], int | None] = epochs_of_recipe
    """The epochs that suit as many rows, where the recipe leaves them open."""
    can_begin_with: Callable[[R, R, Any], bool] = same_shape_needed
    """Whether a new run may begin with the weights of an old one where these keys differ."""
