"""Teachers: models whose distribution at each token another model learns (Kim and Rush 2016, section 3.1).

    teacher_digests   digests of their folders, which are part of a run's identity
    check_teachers    refuses those that cannot teach a model with these vocabularies
    load_teachers     the models, ready for forward passes

The distillation loss is in training/losses.py.
"""

from collections.abc import Iterator, Sequence

from weft.errors import Problem, RecipeError
from weft.files import sha256
from weft.folders.finding import find_model, task_of
from weft.folders.manifest import CARD, MANIFEST
from weft.folders.model_folder import TranslationModel, check_model, load_model
from weft.folders.recipes import TranslationRecipe
from weft.folders.summary import read_card
from weft.models.contract import Seq2Seq
from weft.runtime import PRECISIONS
from weft.text.tokenizer import Tokenizer
from weft.training.task import Listener


def teacher_digests(recipe: TranslationRecipe) -> dict[str, str]:
    """The name of each teacher in the recipe -> sha256 of its manifest, which knows its files.

    Raises UsageError if one of them is not a model.
    """
    return {name: sha256(find_model(name) / MANIFEST) for name in recipe.training.teachers}


def check_teachers(recipe: TranslationRecipe, tokenizers: Sequence[Tokenizer]) -> None:
    """Raise RecipeError with every reason why a teacher cannot teach a model with these vocabularies."""
    problems: list[Problem] = []
    for name in recipe.training.teachers:
        folder = find_model(name)
        if (task := task_of(folder)) not in ("", "translation"):
            problems.append(Problem(name, f"is a model for {task}; only one that translates can teach"))
            continue
        teacher = check_model(folder)
        theirs = list(teacher.vocabularies.values())
        problems += [Problem(name, reason) for reason in misfits(teacher.recipe, theirs, recipe, tokenizers)]
    if problems:
        raise RecipeError("the recipe with training.teachers", problems)


def load_teachers(student: TranslationModel, listener: Listener) -> list[Seq2Seq]:
    """Check and load the teachers of the student's recipe, in evaluation mode and its training precision."""
    check_teachers(student.recipe, (student.vocabularies["source"], student.vocabularies["target"]))
    teachers: list[Seq2Seq] = []
    for name in student.recipe.training.teachers:
        folder = find_model(name)
        if not read_card(folder):
            listener.on_message(f"the teacher {name} has no {CARD}, so what it was trained on is unknown")
        teacher = load_model(folder).network
        teacher.eval().requires_grad_(False)
        teacher.compute_dtype = PRECISIONS[student.recipe.training.precision]
        teachers.append(teacher)
    return teachers


def misfits(
    teacher: TranslationRecipe, theirs: Sequence[Tokenizer], student: TranslationRecipe, ours: Sequence[Tokenizer]
) -> Iterator[str]:
    """Yield the reasons why the teacher cannot read the student's batches or predict its pieces."""
    for side, their_tokenizer, our_tokenizer in zip(("source", "target"), theirs, ours, strict=True):
        their_language, our_language = getattr(teacher.data, side), getattr(student.data, side)
        if their_language != our_language:
            yield f"has the {side} language {their_language}; the recipe has {our_language}"
        if their_tokenizer.model != our_tokenizer.model:
            yield (
                f"has another {side} vocabulary than the model that is trained, which has that of "
                f"{'training.init' if student.training.init is not None else 'the first teacher'}; leave it out"
            )
    if teacher.model.copies:
        yield "copies source pieces (model.copying), and a student learns from a soft-max over the vocabulary alone"
    longest, max_length = teacher.model.longest, student.data.max_length
    if longest is not None and max_length > longest - 2:  # a tag and </s>, or <s>
        yield f"reads no more than {longest} pieces; set data.max_length = {longest - 2}"
