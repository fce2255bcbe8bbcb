"""What a task defines so that models can be trained for it. runs/ does the rest, in one way for all tasks.

    files -> prepare -> ids in a store -> learn -> a task and its batches -> the Trainer -> score

A new task needs a file in tasks/ with its `TaskKind` and a line in TASKS, a recipe (folders/recipes.py), a `ModelKind`
(folders/kinds.py), a reader in data/ and metrics in folders/metrics.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
    """Data that a model is validated on."""

    def __len__(self) -> int: ...

    def every(self, stride: int, start: int = 0) -> Any:
        """Every `stride`-th item, beginning with number `start`."""
        ...


@dataclass(frozen=True)
class Lesson:
    """A training task and its batches."""

    task: Task[Any, Any]
    batches: Buckets[Any]
    describe: Callable[[Any], dict[str, list[Any]]]
    """Makes a readable record of a batch, for skipped.jsonl."""


@dataclass(frozen=True)
class Scored:
    """The final scores of a model."""

    sets: list[dict[str, Any]]
    """The scores of each set of files, with signatures, for scores.json and the model card."""
    table: str
    details: dict[str, Any] = field(default_factory=dict)
    """What the report shows besides, for details.json."""


def has_same_shape(old: Any, new: Any, changes: Any) -> bool:
    """Whether two recipes that differ in these keys have the same network and vocabulary."""
    return not any(key.startswith(("model.", "tokenizer.", "data.")) for key in changes)


@dataclass(frozen=True)
class TaskKind(Generic[R]):
    """The functions of a task. They raise CorpusError, RecipeError or UsageError before anything is trained."""

    read: Callable[[R, Path, Listener], Any]
    """Reads and checks the `Files` that a recipe names, relative to this folder."""
    prepare: Callable[..., Prepared[R]]
    """`prepare(resolved, files, folder, listener, *, kept_in=None, processes=None, cluster=False)` reuses the ids in
    `kept_in` or the folder, or writes them to the folder."""
    reopen: Callable[..., Store]
    """`reopen(learned, given, files, folder, listener, *, kept_in=None)` reuses or rewrites the ids of a run that is
    resumed, by the vocabularies of its model."""
    learn: Callable[[Learned[R], Store, Any, Listener, Ranks], Lesson]
    measure: Callable[[Learned[R], Any, Ranks], Task[Any, Any]]
    """The task on other held-out data, of which only `evaluate` is called."""
    score: Callable[[Learned[R], Any], Scored]
    """Scores a trained model on held-out data by the settings of its recipe."""
    open: Callable[[str | Path, Sequence[str], Sequence[str | Path]], Any]
    """Returns the object of `weft.load` for a model, overrides, and the other members of an ensemble."""
    fit: Callable[[Learned[R], Store], list[str]] | None = None
    """Trains a model whose settings say `is_counted`, in place of the steps of the Trainer; returns messages."""
    for_trial: Callable[[Learned[R], Buckets[Any]], Learned[R]] = lambda learned, batches: learned
    """Returns a model whose validation takes as long now as it will once the model is trained."""
    parents: Callable[[R, Mapping[str, str], Path], Sequence[Any]] = lambda recipe, train, root: ()
    """The models that this one is initialized or taught by, for its card."""
    smaller: Callable[[Resolved[R], R, int, float], tuple[dict[str, Any], str]] = (
        lambda resolved, chosen, rows, epochs: ({}, "")
    )
    """Settings of a smaller model for a budget with time for few epochs, and the message that explains them."""
    usual_epochs: Callable[[Resolved[Any], int], int | None] = lambda resolved, rows: resolved.recipe.training.epochs
    """The epochs for this number of rows, if the recipe leaves them open."""
    can_begin_with: Callable[[R, R, Any], bool] = has_same_shape
    """Whether a new run can begin with the weights of an old one whose recipe differs in these keys."""
