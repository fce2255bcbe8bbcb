"""What "good" means, one file a task. START READING HERE: kind.py says what a task is, translation.py is one.

TASKS and `load` stand here; nothing else in weft lists the tasks that can be trained.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.folders.finding import find_model, task_of
from weft.tasks.kind import TaskKind
from weft.tasks.language_modelling import LANGUAGE_MODEL
from weft.tasks.translation import TRANSLATION

TASKS: dict[str, TaskKind[Any]] = {"translation": TRANSLATION, "language-model": LANGUAGE_MODEL}


def load(name: str | Path, overrides: Sequence[str] = (), *, others: Sequence[str | Path] = ()) -> Any:
    """Open a model folder, a run (its best weights, also while it trains) or a model that comes with weft.

    Returns the object of the model's task: a Translator (with `others`, of the ensemble of all), or a LanguageModel.
    Overrides are "KEY=VALUE". Raises ModelError, UsageError or RecipeError, and ProblemsError for models that cannot be
    an ensemble.
    """
    task = task_of(find_model(name))
    kind = TASKS.get(task, TASKS["translation"])  # which reports what is wrong with the recipe
    return kind.open(name, overrides, others)
