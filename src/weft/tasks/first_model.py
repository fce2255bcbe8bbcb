"""The model that a run begins with: fresh weights and vocabularies, or those of another model.

What the recipe leaves open is decided here, from the languages, the corpus and the machine, and written into it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from weft.config import Resolved, changed
from weft.data.corpus import ParallelText
from weft.errors import Problem, RecipeError
from weft.models.transformer import TransformerConfig
from weft.runtime import choose_device, choose_precision, choose_threads, derive_seed
from weft.tasks.defaults import choose_open_settings, describe
from weft.tasks.model_folder import (
    TranslationModel,
    build_transformer,
    check_model,
    find_model,
    load_model,
    script_of,
    vocabulary_language,
)
from weft.tasks.recipes import TranslationRecipe
from weft.text.chinese import Script, convert_script
from weft.text.kinds import read_tokenizer, train_tokenizer
from weft.text.tokenizer import Tokenizer, TokenizerConfig, choose_scripts
from weft.text.wordpiece import WordPieceTokenizer, bert_vocabulary
from weft.training.task import Listener

COUNTED_AT_ONCE = 10_000
"""Sentences whose ids are held at a time, only to count the unknown words in them."""


def first_model(
    resolved: Resolved[TranslationRecipe],
    pairs: ParallelText,
    listener: Listener,
    vocabularies: Mapping[str, bytes] | None = None,
) -> TranslationModel:
    """By the recipe and these training pairs, or from the model that training.init names.

    `vocabularies` are the files that the recipe names in [tokenizer], by name.
    """
    resolved = with_machine_choices(resolved)
    if resolved.recipe.training.init is not None:
        model = from_another_model(resolved, Path(resolved.recipe.training.init), listener)
    else:
        model = from_scratch(resolved, pairs, vocabularies or {}, listener)
    report_unknown_words(model, pairs, listener)
    return model


def report_unknown_words(model: TranslationModel, pairs: ParallelText, listener: Listener) -> None:
    """Say how many words of each side the vocabulary lacks, where it can lack any."""
    sides = (("source", model.source_tokenizer, pairs.sources), ("target", model.target_tokenizer, pairs.targets))
    for side, tokenizer, texts in sides:
        counts = [
            tokenizer.count_unknown(texts[at : at + COUNTED_AT_ONCE]) for at in range(0, len(texts), COUNTED_AT_ONCE)
        ]
        unknown, words = map(sum, zip(*counts, strict=True))
        if words:
            listener.on_message(
                f"{side}: {unknown:,} of {words:,} words ({100 * unknown / words:.2f} %) are not in the vocabulary"
            )


def with_machine_choices(resolved: Resolved[TranslationRecipe]) -> Resolved[TranslationRecipe]:
    training = resolved.recipe.training
    chosen: dict[str, Any] = {}
    if training.precision == "auto":
        chosen["training.precision"] = choose_precision("auto", choose_device())
    if training.threads is None:
        chosen["training.threads"] = choose_threads()
    return changed(resolved, chosen, "measured")


def from_scratch(
    resolved: Resolved[TranslationRecipe], pairs: ParallelText, vocabularies: Mapping[str, bytes], listener: Listener
) -> TranslationModel:
    if resolved.recipe.training.teachers:
        source_tokenizer, target_tokenizer, resolved = tokenizers_of_teacher(resolved, listener)
        resolved = with_corpus_choices(resolved, len(pairs), listener)
    else:
        resolved = with_corpus_choices(resolved, len(pairs), listener)
        source_tokenizer, target_tokenizer, resolved = make_tokenizers(resolved, pairs, vocabularies, listener)
    torch.manual_seed(derive_seed(resolved.recipe.seed, "weights"))
    weights = build_transformer(resolved.recipe, source_tokenizer.vocab_size, target_tokenizer.vocab_size)
    return TranslationModel(resolved, weights, source_tokenizer, target_tokenizer)


def with_corpus_choices(
    resolved: Resolved[TranslationRecipe], pairs: int, listener: Listener
) -> Resolved[TranslationRecipe]:
    """The recipe with everything filled in that it leaves to the languages and the corpus."""
    recipe = resolved.recipe
    scripts = choose_scripts(recipe.tokenizer, recipe.data.source)
    resolved = changed(resolved, {f"tokenizer.{key}": value for key, value in scripts.items()}, "language")
    settings = choose_open_settings(resolved, pairs)
    if settings:
        listener.on_message(describe(settings, pairs))
    return changed(resolved, settings, "corpus")


def make_tokenizers(
    resolved: Resolved[TranslationRecipe], pairs: ParallelText, vocabularies: Mapping[str, bytes], listener: Listener
) -> tuple[Tokenizer, Tokenizer, Resolved[TranslationRecipe]]:
    """The source's and the target's tokenizer, trained on the pairs or read from the files that the recipe names, and
    the recipe with the sizes that they have."""
    recipe = resolved.recipe
    settings = recipe.tokenizer

    def make(side: Literal["source", "target"], texts: Sequence[str], script: Script, tags: Sequence[str]) -> Tokenizer:
        nonlocal resolved
        key = f"{side}_size"
        name: str | None = getattr(settings, f"{side}_vocabulary")
        if name is not None:
            vocabulary = bert_vocabulary(vocabularies[name], Path(name), tags)
            tokenizer = WordPieceTokenizer(vocabulary, normalization=settings.normalization, script=script)
            resolved = with_size_of_vocabulary(resolved, key, tokenizer.vocab_size, name)
            return tokenizer
        size = getattr(settings, key)
        tokenizer, message = train_tokenizer(
            texts,
            kind=settings.kind,
            vocab_size=size,
            language=vocabulary_language(recipe, side),
            normalization=settings.normalization,
            script=script,
            tags=tags,
        )
        if message is not None:
            listener.on_message(message)
            origin = "corpus" if resolved.origins[f"tokenizer.{key}"] == "corpus" else f"corpus instead of {size}"
            both_given = settings.shared and settings.target_size is not None
            keys = ("source_size", "target_size") if both_given else (key,)
            resolved = changed(resolved, {f"tokenizer.{key}": tokenizer.vocab_size for key in keys}, origin)
        return tokenizer

    scripts = script_of(recipe, "source"), script_of(recipe, "target")
    if settings.shared:
        # Each side is converted as it will be when it is encoded; the pieces are then learned from what is seen.
        texts = [convert_script(text, scripts[0]) for text in pairs.sources]
        texts += [convert_script(text, scripts[1]) for text in pairs.targets]
        both = make("source", texts, "keep", recipe.source_tags)
        source, target = (
            read_tokenizer(
                both.model,
                Path("the vocabulary"),
                kind=settings.kind,
                language=vocabulary_language(recipe, "source"),
                normalization=settings.normalization,
                script=script,
            )
            for script in scripts
        )
        return source, target, resolved
    source = make("source", pairs.sources, scripts[0], recipe.source_tags)
    target = make("target", pairs.targets, scripts[1], ())
    return source, target, resolved


def with_size_of_vocabulary(
    resolved: Resolved[TranslationRecipe], key: str, size: int, name: str
) -> Resolved[TranslationRecipe]:
    """The recipe with the size that a vocabulary file has; RecipeError where it gives another one itself."""
    keys = [f"tokenizer.{key}"] + (["tokenizer.target_size"] if resolved.recipe.tokenizer.shared else [])
    problems = [
        Problem(f"{key} = {given}", f"{name} makes it {size}; leave the key out")
        for key in keys
        if resolved.origins[key] not in ("default", "corpus") and (given := value_of(resolved.recipe, key)) != size
    ]
    if problems:
        raise RecipeError("the recipe", problems)
    return changed(resolved, {keys[0]: size}, "vocabulary")


def tokenizers_of_teacher(
    resolved: Resolved[TranslationRecipe], listener: Listener
) -> tuple[Tokenizer, Tokenizer, Resolved[TranslationRecipe]]:
    """The first teacher's tokenizers and their settings: what it says about pieces, only a model with the same pieces
    can learn."""
    name = resolved.recipe.training.teachers[0]
    other, source, target = check_model(find_model(name))
    keys = [f"tokenizer.{key}" for key in TokenizerConfig.model_fields]
    problems = disagreements(resolved, other, keys, f"the teacher {name}", "its vocabulary is taken over")
    problems += missing_tags(resolved.recipe, source, f"the teacher {name}")
    if problems:
        raise RecipeError("the recipe with training.teachers", problems)
    listener.on_message(f"vocabulary from the teacher {name}")
    return source, target, changed(resolved, {key: value_of(other.recipe, key) for key in keys}, "teacher")


def from_another_model(resolved: Resolved[TranslationRecipe], init: Path, listener: Listener) -> TranslationModel:
    """Another model's weights, vocabularies and shape, under this recipe's other settings.

    What the recipe itself says about the shape or the vocabulary must agree with the model.
    """
    other = load_model(find_model(init))
    places = ("embedding_", "attention_", "activation_", "residual_", "layer_", "")
    free = {f"model.{place}dropout" for place in places}
    tables = {"model": TransformerConfig, "tokenizer": TokenizerConfig}
    keys = [f"{table}.{key}" for table, model in tables.items() for key in model.model_fields]
    keys = [key for key in keys if key not in free]
    problems = disagreements(resolved, other.resolved, keys, f"the model {init}", "weights cannot be carried over")
    problems += missing_tags(resolved.recipe, other.source_tokenizer, f"the model {init}")
    if problems:
        raise RecipeError(f"the recipe with training.init = {init}", problems)
    resolved = changed(resolved, {key: value_of(other.recipe, key) for key in keys}, "init")
    weights = build_transformer(resolved.recipe, other.source_tokenizer.vocab_size, other.target_tokenizer.vocab_size)
    weights.load_state_dict(other.model.state_dict())
    listener.on_message(f"weights and vocabulary from {init}")
    return TranslationModel(resolved, weights, other.source_tokenizer, other.target_tokenizer)


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
        ours, theirs = value_of(resolved.recipe, key), value_of(other.recipe, key)
        agrees = ours in (theirs, "auto") or other.origins[key] == f"corpus instead of {ours}"
        if resolved.origins.get(key) != "default" and not agrees:
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


def value_of(recipe: TranslationRecipe, key: str) -> Any:
    table, _, name = key.partition(".")
    return getattr(getattr(recipe, table), name)
