"""The vocabularies that a run begins with, and what the recipe leaves to the languages and the corpus.

A vocabulary is learned from a sample of the training pairs, read from a file that the recipe names, or taken over from
a teacher or from the model that training begins with. What is decided here is written into the recipe.
"""

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from weft.config import Resolved, changed, leaves
from weft.data.corpus import ParallelText
from weft.errors import Problem, RecipeError
from weft.folders.finding import find_model
from weft.folders.kinds import Side, forms_of, vocabulary_language
from weft.folders.model_folder import Learned, check_model
from weft.folders.recipes import TranslationRecipe
from weft.models.contract import ModelSettings
from weft.models.transformer import TransformerConfig
from weft.preparing.defaults import choose_open_settings, describe
from weft.text.copying import SYMBOLS, copied_pairs
from weft.text.kinds import read_tokenizer, train_tokenizer
from weft.text.normalization import Forms, in_forms
from weft.text.tokenizer import Tokenizer
from weft.text.tokenizer_config import TokenizerConfig, choose_scripts
from weft.text.wordpiece import WordPieceTokenizer, bert_vocabulary
from weft.training.task import Listener

Vocabularies = tuple[Tokenizer, Tokenizer, Resolved[TranslationRecipe]]
"""The source's and the target's tokenizer, and the recipe with their settings."""

WITHOUT_WEIGHTS = {"sinusoidal", "scaled-sinusoidal", "rotary"}
"""Positions that further training may exchange for one another, or for others of another wave length, for none of them
has anything to carry over."""
POSITIONS = {"model.positions", "model.max_positions"}
SMALLER = "corpus instead of "
"""The origin of a vocabulary's size that was asked for larger, which follows."""


def carried_over(resolved: Resolved[TranslationRecipe], listener: Listener) -> Vocabularies | None:
    """Vocabularies of the model in training.init, or of the first teacher; None if the recipe names neither."""
    init, teachers = resolved.recipe.training.init, resolved.recipe.training.teachers
    if init is not None:
        listener.on_message(f"weights and vocabulary from {init}")
        return of_another_model(resolved, init, listener)
    if teachers:
        listener.on_message(f"vocabulary from the teacher {teachers[0]}")
        return of_teacher(resolved, teachers[0])
    return None


def of_another_model(resolved: Resolved[TranslationRecipe], init: str, listener: Listener) -> Vocabularies:
    """Another model's vocabularies and shape, under this recipe's other settings.

    What the recipe itself says about the shape or the vocabulary must agree with the model; a dropout need not, nor
    do positions that have no weights.
    """
    model = check_model(find_model(init))
    other, (source, target) = model.resolved, pair_of(model, f"the model {init}")
    resolved = with_kind_of(resolved, other, f"the model {init}")
    tied, dropouts = tied_to_weights(other.recipe.model)
    keys = [*tied, *(key for key in dropouts if resolved.origins[key] == "default")]
    shape = other.recipe.model
    ours, theirs = positions_of(resolved.recipe.model), positions_of(shape)
    exchanged = {ours, theirs} <= WITHOUT_WEIGHTS and any(
        resolved.origins[key] != "default" and leaves(resolved.recipe)[key] != leaves(other.recipe)[key]
        for key in POSITIONS
    )
    keys = [key for key in keys if not (exchanged and key in POSITIONS)]
    problems = disagreements(resolved, other, keys, f"the model {init}", "weights cannot be carried over")
    problems += missing_tags(resolved.recipe, source, f"the model {init}")
    if (
        exchanged
        and ours == "rotary"
        and isinstance(shape, TransformerConfig)
        and shape.model_dim % (2 * shape.num_heads)
    ):
        what = f"rotates pairs of dimensions, and heads of {init} are {shape.model_dim // shape.num_heads} wide"
        problems.append(Problem("model.positions = rotary", f"{what}; leave the key out"))
    if problems:
        raise RecipeError(f"the recipe with training.init = {init}", problems)
    if exchanged:
        what = f"instead of the {theirs} ones of {init}" if ours != theirs else f"with other wavelengths than in {init}"
        listener.on_message(f"{ours} positions {what}: the weights have to adapt to them")
    return source, target, taken_over(resolved, other, keys, "init")


def pair_of(model: Learned[Any], whose: str) -> tuple[Tokenizer, Tokenizer]:
    """The vocabularies of a model for translation; raises RecipeError for a model of another task."""
    if model.recipe.task != "translation":
        what = f'is of the task "{model.recipe.task}"; take one that translates'
        raise RecipeError("the recipe", [Problem(whose, what)])
    return model.vocabularies["source"], model.vocabularies["target"]


def with_kind_of(
    resolved: Resolved[TranslationRecipe], other: Resolved[TranslationRecipe], whose: str
) -> Resolved[TranslationRecipe]:
    """The recipe with the kind of another model; raises RecipeError where it gives another kind itself."""
    ours, theirs = resolved.recipe.model.kind, other.recipe.model.kind
    if ours == theirs:
        return resolved
    if resolved.origins["model.kind"] != "default":
        what = f'{whose} is of the kind "{theirs}"; weights cannot be carried over; leave the key out'
        raise RecipeError("the recipe", [Problem(f'model.kind = "{ours}"', what)])
    shape = {f"model.{key}": "init" for key in type(other.recipe.model).model_fields}
    kept = {key: origin for key, origin in resolved.origins.items() if not key.startswith("model.")}
    return Resolved(resolved.recipe.model_copy(update={"model": other.recipe.model}), {**kept, **shape})


def tied_to_weights(model: ModelSettings) -> tuple[list[str], list[str]]:
    """The keys that a recipe must share with the model whose weights it begins with, and those for training alone."""
    keys = [f"model.{key}" for key in type(model).model_fields]
    dropouts = [key for key in keys if key.endswith(("dropout", "weight_drop", "scheduled_sampling"))]
    tied = [key for key in keys if key not in dropouts]
    return [*tied, *(f"tokenizer.{key}" for key in TokenizerConfig.model_fields)], dropouts


def positions_of(model: ModelSettings) -> str:
    """How the places of tokens enter a model; "none" where it has no such key."""
    return getattr(model, "positions", "none")


def of_teacher(resolved: Resolved[TranslationRecipe], name: str) -> Vocabularies:
    """A teacher's vocabularies: what it says about pieces, only a model with the same pieces can learn."""
    model = check_model(find_model(name))
    other, (source, target) = model.resolved, pair_of(model, f"the teacher {name}")
    keys = [f"tokenizer.{key}" for key in TokenizerConfig.model_fields]
    problems = disagreements(resolved, other, keys, f"the teacher {name}", "its vocabulary is taken over")
    problems += missing_tags(resolved.recipe, source, f"the teacher {name}")
    if problems:
        raise RecipeError("the recipe with training.teachers", problems)
    return source, target, taken_over(resolved, other, keys, "teacher")


def taken_over(
    resolved: Resolved[TranslationRecipe], other: Resolved[TranslationRecipe], keys: Sequence[str], origin: str
) -> Resolved[TranslationRecipe]:
    """The recipe with another model's values of these keys; what its corpus has made smaller still says so."""
    made_smaller = [key for key in keys if other.origins[key].startswith(SMALLER)]
    resolved = changed(resolved, {key: leaves(other.recipe)[key] for key in keys}, origin)
    return Resolved(resolved.recipe, {**resolved.origins, **{key: other.origins[key] for key in made_smaller}})


def can_begin_with(old: TranslationRecipe, new: TranslationRecipe, changes: Set[str]) -> bool:
    """Whether training by a recipe that differs in these keys can begin with the weights of the old one."""
    tied = {*tied_to_weights(old.model)[0], "data.source", "data.target"}
    if {positions_of(old.model), positions_of(new.model)} <= WITHOUT_WEIGHTS:
        tied -= POSITIONS
    return tied.isdisjoint(changes) and set(new.source_tags) <= set(old.source_tags)


def with_language_choices(resolved: Resolved[TranslationRecipe]) -> Resolved[TranslationRecipe]:
    """The recipe with what it leaves to the languages."""
    scripts = choose_scripts(resolved.recipe.tokenizer, resolved.recipe.data.source)
    return changed(resolved, {f"tokenizer.{key}": value for key, value in scripts.items()}, "language")


def with_corpus_choices(
    resolved: Resolved[TranslationRecipe], pairs: int, listener: Listener
) -> Resolved[TranslationRecipe]:
    """The recipe with what it leaves to a corpus of so many pairs."""
    settings = choose_open_settings(resolved, pairs)
    if settings:
        listener.on_message(describe(settings, pairs))
    return changed(resolved, settings, "corpus")


def make_tokenizers(
    resolved: Resolved[TranslationRecipe], pairs: ParallelText, vocabularies: Mapping[str, bytes], listener: Listener
) -> Vocabularies:
    """Trained on these pairs, or read from the files that the recipe names; the recipe gets the sizes that they have.

    `vocabularies` are the contents of those files, by name.
    """
    recipe = resolved.recipe
    settings = recipe.tokenizer
    if settings.cut_apart:
        what = "is for imported models and cannot be learned; leave it out, or name such a model in training.init"
        raise RecipeError("the recipe", [Problem("tokenizer.cut_apart = true", what)])

    def make(side: Side, texts: Sequence[str], forms: Forms, tags: Sequence[str]) -> Tokenizer:
        nonlocal resolved
        key = f"{side}_size"
        name: str | None = getattr(settings, f"{side}_vocabulary")
        if name is not None:
            vocabulary = bert_vocabulary(vocabularies[name], Path(name), tags)
            tokenizer = WordPieceTokenizer(vocabulary, language=vocabulary_language(recipe, side), **forms)
            resolved = with_size_of_vocabulary(resolved, key, tokenizer.vocab_size, name)
            return tokenizer
        size = getattr(settings, key)
        tokenizer, message = train_tokenizer(
            texts,
            kind=settings.kind,
            vocab_size=size,
            language=vocabulary_language(recipe, side),
            tags=tags,
            symbols=SYMBOLS if settings.copying else (),
            **forms,
        )
        if message is not None:
            listener.on_message(message)
            origin = "corpus" if resolved.origins[f"tokenizer.{key}"] == "corpus" else f"{SMALLER}{size}"
            both_given = settings.shared and settings.target_size is not None
            keys = ("source_size", "target_size") if both_given else (key,)
            resolved = changed(resolved, {f"tokenizer.{key}": tokenizer.vocab_size for key in keys}, origin)
        return tokenizer

    sources, targets = pairs.sources, pairs.targets
    if settings.copying:
        sources, targets = copied_pairs(sources, targets)
    of_source, of_target = forms_of(recipe, "source"), forms_of(recipe, "target")
    if settings.shared:
        # Each side is converted as it will be when it is encoded; the pieces are then learned from what is seen.
        texts = [in_forms(text, **of_source) for text in sources] + [in_forms(text, **of_target) for text in targets]
        both = make("source", texts, {"normalization": settings.normalization}, recipe.source_tags)
        language = vocabulary_language(recipe, "source")
        source, target = (
            read_tokenizer(both.model, Path("the vocabulary"), kind=settings.kind, language=language, **forms)
            for forms in (of_source, of_target)
        )
        return source, target, resolved
    source = make("source", sources, of_source, recipe.source_tags)
    target = make("target", targets, of_target, ())
    return source, target, resolved


def with_size_of_vocabulary(
    resolved: Resolved[TranslationRecipe], key: str, size: int, name: str
) -> Resolved[TranslationRecipe]:
    """The recipe with the size that a vocabulary file has; RecipeError where it gives another one itself."""
    keys = [f"tokenizer.{key}"] + (["tokenizer.target_size"] if resolved.recipe.tokenizer.shared else [])
    problems = [
        Problem(f"{key} = {given}", f"{name} makes it {size}; leave the key out")
        for key in keys
        if resolved.origins[key] not in ("default", "corpus") and (given := leaves(resolved.recipe)[key]) != size
    ]
    if problems:
        raise RecipeError("the recipe", problems)
    return changed(resolved, {keys[0]: size}, "vocabulary")


def disagreements(
    resolved: Resolved[TranslationRecipe],
    other: Resolved[TranslationRecipe],
    keys: Sequence[str],
    whose: str,
    why: str,
) -> list[Problem]:
    """Where a recipe says something else than that of another model, with which it must agree about these keys and the
    languages. A vocabulary may be as small as the other's corpus made it."""
    problems = []
    for key in keys:
        ours, theirs = leaves(resolved.recipe)[key], leaves(other.recipe)[key]
        agrees = ours in (theirs, "auto") or other.origins[key] == f"{SMALLER}{ours}"
        if resolved.origins.get(key) not in ("default", "language") and not agrees:
            problems.append(Problem(f"{key} = {ours}", f"{whose} has {theirs}; {why}; leave the key out"))
    for side in ("source", "target"):
        ours, theirs = getattr(resolved.recipe.data, side), getattr(other.recipe.data, side)
        if ours != theirs:
            problems.append(Problem(f"data.{side} = {ours}", f"{whose} was trained with {theirs}"))
    return problems


def missing_tags(recipe: TranslationRecipe, tokenizer: Tokenizer, whose: str) -> list[Problem]:
    """Tags of the recipe's corpora that a finished vocabulary has no piece for."""
    return [
        Problem(f"the tag {tag}", f"the vocabulary of {whose} lacks it and cannot grow; leave it out")
        for tag in recipe.source_tags
        if tokenizer.tag_id(tag) is None
    ]
