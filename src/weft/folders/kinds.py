"""What loading a model requires of its task: the recipe, the vocabularies, and how the network is built.

Training is described by tasks/kind.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from torch import nn

from weft.config import Settings
from weft.errors import ModelError, Problem
from weft.folders.manifest import CONFIG
from weft.folders.recipes import KnowledgeRecipe, LanguageModelRecipe, TextTokenizerConfig, TranslationRecipe
from weft.models.kinds import LANGUAGE_MODELS, SEQ2SEQ
from weft.text.chinese import Script
from weft.text.kinds import KINDS as TOKENIZERS
from weft.text.kinds import Kind
from weft.text.normalization import Forms
from weft.text.vocabulary import PADDING_ID

R = TypeVar("R", bound=Settings)
Side = Literal["source", "target"]


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary in a model folder: its file name and how to read the file."""

    file: str
    kind: Kind
    language: str
    forms: Forms
    pieces_of: str | None = None
    """The name of a vocabulary that must hold the same pieces in the same order; None for no such condition."""


@dataclass(frozen=True)
class ModelKind(Generic[R]):
    """Everything about a task that saving and loading its models requires."""

    vocabularies: Callable[[R], Mapping[str, Vocabulary]]
    """Returns the vocabularies of a resolved recipe by name, such as source and target."""
    build: Callable[[R, Mapping[str, int]], nn.Module]
    """Builds a network for vocabularies of these sizes, with new weights from torch's random state."""
    languages: Callable[[R], tuple[str, ...]]
    rows: str
    """The noun for one row of the training data, such as pair."""
    hub_task: str
    """The task's name on model hubs, for the model card."""
    usage: str
    """A command that uses the model, with {folder} to fill in."""


def translation_vocabularies(recipe: TranslationRecipe) -> dict[str, Vocabulary]:
    """One file for each side, or one file for both if they share it."""
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
    """How the text of one side is normalized before it is cut into pieces."""
    return {
        "normalization": recipe.tokenizer.normalization,
        "punctuation": getattr(recipe.tokenizer, f"{side}_punctuation"),
        "script": script_of(recipe, side),
    }


def vocabulary_language(recipe: TranslationRecipe, side: Side) -> str:
    """The language of a side's vocabulary; for a shared vocabulary both languages, joined by a plus sign."""
    data = recipe.data
    return f"{data.source}+{data.target}" if recipe.tokenizer.shared else getattr(data, side)


def script_of(recipe: TranslationRecipe, side: Side) -> Script:
    """The script that a side is converted to. Raises ModelError for `auto`, which a run replaces when it begins."""
    script = getattr(recipe.tokenizer, f"{side}_script")
    if script == "auto":
        raise ModelError(
            CONFIG, [Problem(f"tokenizer.{side}_script", "is still `auto`; a model must say which script")]
        )
    return script


def build_seq2seq(recipe: TranslationRecipe, source_vocab_size: int, target_vocab_size: int) -> Any:
    """Build the `Seq2Seq` that a recipe describes, an nn.Module with new weights from torch's random state."""
    return SEQ2SEQ[recipe.model.kind](
        recipe.model, source_vocab_size=source_vocab_size, target_vocab_size=target_vocab_size, padding_id=PADDING_ID
    )


def text_vocabulary(recipe: LanguageModelRecipe | KnowledgeRecipe) -> dict[str, Vocabulary]:
    tokenizer = recipe.tokenizer
    file = f"tokenizer{TOKENIZERS[tokenizer.kind].suffix}"
    return {"text": Vocabulary(file, tokenizer.kind, recipe.data.language, text_forms(tokenizer))}


def text_forms(tokenizer: TextTokenizerConfig) -> Forms:
    return {
        "normalization": tokenizer.normalization,
        "punctuation": tokenizer.punctuation,
        "script": tokenizer.script,
        "copying": tokenizer.copying,
    }


KINDS: dict[str, ModelKind[Any]] = {
    "translation": ModelKind(
        translation_vocabularies,
        lambda recipe, sizes: build_seq2seq(recipe, sizes["source"], sizes["target"]),
        languages=lambda recipe: (recipe.data.source, recipe.data.target),
        rows="pair",
        hub_task="translation",
        usage="weft translate --model {folder} 'a sentence'",
    ),
    "language-model": ModelKind(
        text_vocabulary,
        lambda recipe, sizes: LANGUAGE_MODELS[recipe.model.kind](recipe.model, vocab_size=sizes["text"]),
        languages=lambda recipe: (recipe.data.language,),
        rows="text",
        hub_task="text-generation",
        usage="weft generate --model {folder} 'a beginning'",
    ),
    "knowledge": ModelKind(
        text_vocabulary,
        lambda recipe, sizes: LANGUAGE_MODELS["transformer"](recipe.model, vocab_size=sizes["text"]),
        languages=lambda recipe: (recipe.data.language,),
        rows="text",
        hub_task="question-answering",
        usage="""python -c 'import weft; print(weft.load("{folder}").answer(["a question"]))'""",
    ),
}
"""Task name -> its model kind."""
