"""Check the arguments of a Translator and its methods."""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from weft.config import diagnose
from weft.decoding.mbr import Utility
from weft.decoding.search import DecodingConfig
from weft.errors import Problem, ProblemsError, UsageError, check_strings, listed
from weft.folders.model_folder import TranslationModel
from weft.metrics.utilities import ChrfUtilities, bleu_utilities


def checked_texts(texts: Any) -> list[str]:
    """Convert texts to a list. Raises UsageError for a single string, and for entries that are not strings."""
    texts = listed(texts, "translate")
    check_strings(texts, "text")
    return texts


def checked_prefixes(prefixes: Any, texts: Sequence[str]) -> list[str]:
    """Return a list with a prefix per text, or an empty list. Raises UsageError for anything else."""
    if isinstance(prefixes, str):
        raise UsageError("prefixes must be a list with one per text, not a string")
    prefixes = [] if prefixes is None else listed(prefixes, "prefixes=", "string")
    check_strings(prefixes, "prefix")
    if prefixes and len(prefixes) != len(texts):
        raise UsageError(f"{len(prefixes):,} prefixes for {len(texts):,} texts; give one per text, or none")
    return prefixes


def checked_phrases(phrases: Any, texts: Sequence[str]) -> list[list[str]]:
    """Return a list of phrases per text, or an empty list. Raises UsageError for anything else."""
    phrases = [] if phrases is None else listed(phrases, "phrases=", "list")
    if phrases and (len(phrases) != len(texts) or any(isinstance(of_text, str) for of_text in phrases)):
        raise UsageError(f"phrases of {len(phrases):,} texts for {len(texts):,}; give one list per text, or none")
    phrases = [listed(of_text, "each of phrases=", "string") for of_text in phrases]
    for of_text in phrases:
        check_strings(of_text, "phrase")
    return phrases


def changed_decoding(config: DecodingConfig, changes: dict[str, Any]) -> DecodingConfig:
    """Return decoding settings with changes. Raises UsageError if they are invalid."""
    try:
        return DecodingConfig(**{**dict(config), **changes})
    except ValidationError:
        problems = [  # a problem of several settings together has an empty path and names them itself
            ": ".join([*map(str, path), what])
            for path, whats in diagnose(DecodingConfig, {**dict(config), **changes}).items()
            for what in whats
        ]
        raise UsageError(f"decoding settings: {'; '.join(problems)}") from None


def check_same_vocabulary(members: Sequence[TranslationModel]) -> None:
    """Raise ProblemsError if members of an ensemble differ in languages or in the target vocabulary.

    The probabilities of pieces can only be averaged over one vocabulary.
    """
    first, *others = members
    problems = []
    for number, other in enumerate(others, start=2):
        for side in ("source", "target"):
            ours, theirs = getattr(first.recipe.data, side), getattr(other.recipe.data, side)
            if ours != theirs:
                problems.append(Problem(f"model {number}", f"has the {side} language {theirs}, the first has {ours}"))
        if first.vocabularies["target"].model != other.vocabularies["target"].model:
            what = (
                "has another target vocabulary than the first; train both on the same pairs with the same [tokenizer], "
                "or one from the other by training.init"
            )
            problems.append(Problem(f"model {number}", what))
    if problems:
        raise ProblemsError("the ensemble", problems)


def utility_of(config: DecodingConfig, language: str) -> Utility:
    """The utility by which minimum Bayes risk compares texts in this language."""
    return ChrfUtilities if config.mbr_utility == "chrf" else bleu_utilities(language)
