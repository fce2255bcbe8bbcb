"""The model that a run begins with: fresh weights and vocabularies, or those of another model.

What the recipe leaves open is decided here, from the languages, the corpus and the machine, and written into it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch

from weft.config import Resolved, changed
from weft.data.corpus import ParallelText
from weft.errors import Problem, RecipeError
from weft.runtime import choose_device, choose_precision, derive_seed
from weft.tasks.model_folder import TranslationModel, build_transformer, find_model, load_model
from weft.tasks.recipes import TranslationRecipe
from weft.text.chinese import Script, convert_script
from weft.text.sentencepiece_model import SentencePieceTokenizer, train_sentencepiece
from weft.text.tokenizer import choose_scripts
from weft.text.vocabulary import choose_vocabulary_size
from weft.training.trainer import Listener


def first_model(resolved: Resolved[TranslationRecipe], pairs: ParallelText, listener: Listener) -> TranslationModel:
    """By the recipe and these training pairs, or from the model that training.init names."""
    resolved = with_machine_choices(resolved)
    if resolved.recipe.training.init is not None:
        return from_another_model(resolved, Path(resolved.recipe.training.init), listener)
    return from_scratch(resolved, pairs, listener)


def with_machine_choices(resolved: Resolved[TranslationRecipe]) -> Resolved[TranslationRecipe]:
    if resolved.recipe.training.precision != "auto":
        return resolved
    precision = choose_precision("auto", choose_device())
    return changed(resolved, {"training.precision": precision}, "measured")


def from_scratch(resolved: Resolved[TranslationRecipe], pairs: ParallelText, listener: Listener) -> TranslationModel:
    resolved = with_corpus_choices(resolved, len(pairs), listener)
    source_tokenizer, target_tokenizer, resolved = train_tokenizers(resolved, pairs, listener)
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
    keys = ("source_size",) if recipe.tokenizer.shared else ("source_size", "target_size")
    left_out = [key for key in keys if getattr(recipe.tokenizer, key) is None]
    if left_out:
        size = choose_vocabulary_size(pairs)
        listener.on_message(
            f"vocabulary of {size:,} pieces a language, chosen for {pairs:,} pairs: 8,000 suit 50,000 pairs, "
            "and ten times the pairs carry twice the pieces"
        )
        resolved = changed(resolved, {f"tokenizer.{key}": size for key in left_out}, "corpus")
    return resolved


def train_tokenizers(
    resolved: Resolved[TranslationRecipe], pairs: ParallelText, listener: Listener
) -> tuple[SentencePieceTokenizer, SentencePieceTokenizer, Resolved[TranslationRecipe]]:
    """The source's and the target's tokenizer, and the recipe with the sizes that the corpus could fill."""
    recipe = resolved.recipe
    settings = recipe.tokenizer

    def train(
        key: str, texts: list[str], language: str, script: Any, tags: Sequence[str] = ()
    ) -> SentencePieceTokenizer:
        nonlocal resolved
        size = getattr(settings, key)
        tokenizer, message = train_sentencepiece(
            texts,
            kind=settings.kind,
            vocab_size=size,
            language=language,
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

    data = recipe.data
    if settings.shared:
        # Each side is converted as it will be when it is encoded; the pieces are then learned from what is seen.
        scripts = cast("tuple[Script, Script]", (settings.source_script, settings.target_script))
        texts = [convert_script(text, scripts[0]) for text in pairs.sources]
        texts += [convert_script(text, scripts[1]) for text in pairs.targets]
        both = train("source_size", texts, f"{data.source}+{data.target}", "keep", data.tags)
        source, target = (
            SentencePieceTokenizer(both.model, normalization=settings.normalization, script=script)
            for script in scripts
        )
        return source, target, resolved
    source = train("source_size", pairs.sources, data.source, settings.source_script, data.tags)
    target = train("target_size", pairs.targets, data.target, settings.target_script)
    return source, target, resolved


def from_another_model(resolved: Resolved[TranslationRecipe], init: Path, listener: Listener) -> TranslationModel:
    """Another model's weights, vocabularies and shape, under this recipe's other settings.

    What the recipe itself says about the shape or the vocabulary must agree with the model.
    """
    other = load_model(find_model(init))
    places = ("embedding_", "attention_", "activation_", "residual_", "layer_", "")
    free = {f"model.{place}dropout" for place in places}
    theirs = {
        f"{table}.{key}": value
        for table in ("model", "tokenizer")
        for key, value in getattr(other.recipe, table)
        if f"{table}.{key}" not in free
    }
    ours = {key: getattr(getattr(resolved.recipe, key.split(".")[0]), key.split(".")[1]) for key in theirs}
    problems = [
        Problem(
            f"{key} = {ours[key]}", f"the model {init} has {value}; weights cannot be carried over; leave the key out"
        )
        for key, value in theirs.items()
        if resolved.origins.get(key) != "default" and ours[key] not in (value, "auto")
    ]
    for side in ("source", "target"):
        mine, its = getattr(resolved.recipe.data, side), getattr(other.recipe.data, side)
        if mine != its:
            problems.append(Problem(f"data.{side} = {mine}", f"the model {init} was trained with {its}"))
    problems += [
        Problem(f"the tag {tag}", f"the vocabulary of the model {init} lacks it and cannot grow; leave it out")
        for tag in resolved.recipe.data.tags
        if other.source_tokenizer.tag_id(tag) is None
    ]
    if problems:
        raise RecipeError(f"the recipe with training.init = {init}", problems)
    resolved = changed(resolved, theirs, "init")
    weights = build_transformer(resolved.recipe, other.source_tokenizer.vocab_size, other.target_tokenizer.vocab_size)
    weights.load_state_dict(other.model.state_dict())
    listener.on_message(f"weights and vocabulary from {init}")
    return TranslationModel(resolved, weights, other.source_tokenizer, other.target_tokenizer)
