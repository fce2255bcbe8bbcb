"""`weft prepare`: only the preparation of a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.errors import RunError, UsageError
from weft.preparing.corpora import find_recipe
from weft.preparing.prepared import Prepared
from weft.tasks import TASKS
from weft.training.run_folder import RunFolder, option_beside
from weft.training.signals import stopped_by_signal
from weft.training.task import Listener


def prepare_run(
    recipe: str | Path | Mapping[str, Any],
    *,
    run: str | Path | None = None,
    data: str | Path | None = None,
    overrides: Sequence[str] = (),
    processes: int | None = None,
    cluster: bool = False,
    listener: Listener,
) -> tuple[Prepared[Any], Path]:
    """Prepare the corpus that `train` would use with these arguments, and return it with its folder.

    The work is shared by `processes` of this machine or by a Ray cluster (data/cluster.py), with the same result.
    Raises RunError for a run that has begun, because it is trained on its corpus.
    """
    resolved, data_root, run_path = find_recipe(recipe, run=run, data=data, overrides=overrides)
    folder, kind = RunFolder(run_path), TASKS[resolved.recipe.task]
    if (cluster or processes is not None) and resolved.recipe.task != "translation":
        raise UsageError(
            f"--processes and --cluster are for recipes with pairs; this one is for {resolved.recipe.task}"
        )
    with folder.locked(to_prepare=True), stopped_by_signal("stopped while preparing pairs"):
        if folder.status() is not None:
            raise RunError(f"{run_path} is a run that has begun; prepare a new one: {option_beside(run_path)}")
        files = kind.read(resolved.recipe, data_root, listener)
        prepared = kind.prepare(resolved, files, folder.corpus, listener, processes=processes, cluster=cluster)
        return prepared, folder.corpus
