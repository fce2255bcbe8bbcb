"""Teachers: models from whose word-by-word distributions another model learns (Kim and Rush 2016, section 3.1).

    teacher_digests   what their folders hold, which is part of a run's identity
    load_teachers     the models, ready to be asked; those that cannot teach this model, or must not, are refused

What is learned from them is the business of training/losses.py.
"""

from collections.abc import Iterator, Mapping

from weft.errors import Problem, RecipeError
from weft.files import sha256
from weft.models.transformer import Transformer
from weft.runtime import PRECISIONS
from weft.tasks.model_card import recorded_files
from weft.tasks.model_folder import CARD, MANIFEST, TranslationModel, find_model, load_model
from weft.tasks.model_summary import read_card
from weft.tasks.recipes import TranslationRecipe
from weft.training.task import Listener


def teacher_digests(recipe: TranslationRecipe) -> dict[str, str]:
    """The name of each teacher in the recipe -> sha256 of its manifest, which knows its files.

    Raises UsageError where one is no model.
    """
    return {name: sha256(find_model(name) / MANIFEST) for name in recipe.training.teachers}


def load_teachers(student: TranslationModel, valid: Mapping[str, str], listener: Listener) -> list[Transformer]:
    """The teachers of the student's recipe in evaluation mode, in the precision of the student's training.

    `valid` maps the files that the student is chosen by to their sha256. Raises RecipeError with all reasons why one
    of the teachers cannot teach.
    """
    teachers: list[Transformer] = []
    problems: list[Problem] = []
    for name in student.recipe.training.teachers:
        folder = find_model(name)
        teacher = load_model(folder)
        card = read_card(folder)
        if not card:
            listener.on_message(f"the teacher {name} has no {CARD}, so nothing tells what it was trained on")
        reasons = [*misfits(teacher, student), *known_already(card, valid)]
        problems += [Problem(name, reason) for reason in reasons]
        teacher.model.eval().requires_grad_(False)
        teacher.model.compute_dtype = PRECISIONS[student.recipe.training.precision]
        teachers.append(teacher.model)
    if problems:
        raise RecipeError("the recipe with training.teachers", problems)
    return teachers


def misfits(teacher: TranslationModel, student: TranslationModel) -> Iterator[str]:
    """Why the teacher cannot read the student's batches, or say something about the student's pieces."""
    for side in ("source", "target"):
        theirs, ours = getattr(teacher.recipe.data, side), getattr(student.recipe.data, side)
        if theirs != ours:
            yield f"has the {side} language {theirs}, the recipe has {ours}"
        tokenizers = getattr(teacher, f"{side}_tokenizer"), getattr(student, f"{side}_tokenizer")
        if tokenizers[0].model != tokenizers[1].model:
            yield (
                f"has another {side} vocabulary than the model that is trained, which has that of "
                f"{'training.init' if student.recipe.training.init is not None else 'the first teacher'}; "
                "leave it out"
            )
    longest, max_length = teacher.model.config.longest_sentence, student.recipe.data.max_length
    if longest is not None and max_length > longest - 2:  # a tag and </s>, or <s>
        yield f"reads no more than {longest} pieces; set data.max_length = {longest - 2}"


def known_already(card: str, valid: Mapping[str, str]) -> Iterator[str]:
    """What was trained on the valid files knows their answers, and would tell them the student before it is asked."""
    trained_on = recorded_files(card, "train")
    for name, digest in valid.items():
        if digest in trained_on:
            yield f"was trained on {name}, which is among the valid files; take another teacher or other valid files"
