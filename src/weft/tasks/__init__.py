"""The tasks that models are trained for, one file each. Start with kind.py, which defines a task.

TASKS is the only list of them in weft.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.folders.finding import find_model, task_of
from weft.tasks.kind import TaskKind
from weft.tasks.knowledge import KNOWLEDGE
from weft.tasks.language_modelling import LANGUAGE_MODEL
from weft.tasks.translation import TRANSLATION

TASKS: dict[str, TaskKind[Any]] = {"translation": TRANSLATION, "language-model": LANGUAGE_MODEL, "knowledge": KNOWLEDGE}


def load(name: str | Path, overrides: Sequence[str] = (), *, others: Sequence[str | Path] = ()) -> Any:
    """Load a model folder, a run (its best weights so far) or a model that ships with weft.

    Returns a Translator (of an ensemble, if `others` are given), a LanguageModel or a Knowledge. Overrides are
    "KEY=VALUE". Raises ModelError, UsageError or RecipeError, and ProblemsError for models that cannot form an
    ensemble.
    """
    task = task_of(find_model(name))
    kind = TASKS.get(task, TASKS["translation"])  # translation reports what is wrong with the recipe
    return kind.open(name, overrides, others)
