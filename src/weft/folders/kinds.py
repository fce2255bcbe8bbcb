"""What must be known of a task to open a model of it again: its recipe, its vocabularies, how its network is made.

How one is trained stands in tasks/kind.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast

from torch import nn

from weft.config import Settings
from weft.errors import ModelError, Problem
from weft.folders.manifest import CONFIG
from weft.folders.recipes import LanguageModelRecipe, TranslationRecipe
from weft.models.kinds import LANGUAGE_MODELS, SEQ2SEQ
from weft.text.chinese import Script
from weft.text.kinds import KINDS as TOKENIZERS
from weft.text.kinds import Kind
from weft.text.normalization import Forms
from weft.text.punctuation import Punctuation
from weft.text.vocabulary import PADDING_ID

R = TypeVar("R", bound=Settings)
Side = Literal["source", "target"]


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary of a model folder: its file, and how the file is read."""

    file: str
    kind: Kind
    language: str
    forms: Forms
    pieces_of: str | None = None
    """Another vocabulary of the model, which must hold the same pieces in the same order."""


@dataclass(frozen=True)
class ModelKind(Generic[R]):
    recipe: type[R]
    vocabularies: Callable[[R], Mapping[str, Vocabulary]]
    """The vocabularies of a resolved recipe by their names, such as source and target."""
    build: Callable[[R, Mapping[str, int]], nn.Module]
    """A network with fresh weights from torch's random state, for vocabularies of these sizes."""
    languages: Callable[[R], tuple[str, ...]]
    rows: str
    """What a row of the training data is, such as a pair."""
    hub_task: str
    """What model hubs call the task, for the model card."""
    usage: str
    """A command that uses the model, with {folder} to fill in."""


def translation_vocabularies(recipe: TranslationRecipe) -> dict[str, Vocabulary]:
    """One file for each language, or one for both if they share it."""
    tokenizer = recipe.tokenizer
    suffix, in_one_file = TOKENIZERS[tokenizer.kind].suffix, tokenizer.shared and not tokenizer.cut_apart
    sides: tuple[Side, Side] = ("source", "target")
    return {
        side: Vocabulary(
            f"tokenizer{suffix}" if in_one_file else f"tokenizer.{side}{suffix}",
            tokenizer.kind,
            vocabulary_language(recipe, side),
            forms_of(recipe, side),
            pieces_of="source" if tokenizer.cut_apart and side == "target" else None,
        )
        for side in sides
    }


def forms_of(recipe: TranslationRecipe, side: Side) -> Forms:
    """The forms that the text of a side is given."""
    script, punctuation = script_of(recipe, side), punctuation_of(recipe, side)
    return {"normalization": recipe.tokenizer.normalization, "punctuation": punctuation, "script": script}


def vocabulary_language(recipe: TranslationRecipe, side: Literal["source", "target"]) -> str:
    """The language that a side's vocabulary is made for, or both with a + between them where they share it."""
    data = recipe.data
    if recipe.tokenizer.shared:
        return f"{data.source}+{data.target}"
    return data.source if side == "source" else data.target


def script_of(recipe: TranslationRecipe, side: Literal["source", "target"]) -> Script:
    """The script a side is converted to; `auto` has been replaced when the run began."""
    script = recipe.tokenizer.source_script if side == "source" else recipe.tokenizer.target_script
    if script == "auto":
        raise ModelError(
            CONFIG, [Problem(f"tokenizer.{side}_script", "is still `auto`; a model must say which script")]
        )
    return cast(Script, script)


def punctuation_of(recipe: TranslationRecipe, side: Literal["source", "target"]) -> Punctuation:
    tokenizer = recipe.tokenizer
    return tokenizer.source_punctuation if side == "source" else tokenizer.target_punctuation


def build_seq2seq(recipe: TranslationRecipe, source_vocab_size: int, target_vocab_size: int) -> Any:
    """A `Seq2Seq` of the recipe's kind, an nn.Module with fresh weights from torch's random state."""
    return SEQ2SEQ[recipe.model.kind](
        recipe.model, source_vocab_size=source_vocab_size, target_vocab_size=target_vocab_size, padding_id=PADDING_ID
    )


def text_vocabulary(recipe: LanguageModelRecipe) -> dict[str, Vocabulary]:
    tokenizer = recipe.tokenizer
    file = f"tokenizer{TOKENIZERS[tokenizer.kind].suffix}"
    return {"text": Vocabulary(file, tokenizer.kind, recipe.data.language, {"normalization": tokenizer.normalization})}


KINDS: dict[str, ModelKind[Any]] = {
    "translation": ModelKind(
        TranslationRecipe,
        translation_vocabularies,
        lambda recipe, sizes: build_seq2seq(recipe, sizes["source"], sizes["target"]),
        languages=lambda recipe: (recipe.data.source, recipe.data.target),
        rows="pair",
        hub_task="translation",
        usage="weft translate --model {folder} 'a sentence'",
    ),
    "language-model": ModelKind(
        LanguageModelRecipe,
        text_vocabulary,
        lambda recipe, sizes: LANGUAGE_MODELS[recipe.model.kind](recipe.model, vocab_size=sizes["text"]),
        languages=lambda recipe: (recipe.data.language,),
        rows="text",
        hub_task="text-generation",
        usage="""python -c 'import weft; print(weft.load("{folder}").log_probs(["a text"]))'""",
    ),
}
"""The tasks that models are trained for."""
