"""`weft import FILE.arpa`: the n-grams of another tool become a model folder."""

from collections.abc import Callable
from pathlib import Path

from weft.config import resolve
from weft.errors import ModelError, Problem, UsageError
from weft.files import refuse_existing_folder, sha256
from weft.folders.card import card_head
from weft.folders.model_folder import Learned, check_model, save_model
from weft.folders.recipes import LanguageModelRecipe
from weft.importing.conversion import UNKNOWN_DATA
from weft.models.ngram import MOST_ORDER, NgramConfig, NgramLanguageModel
from weft.text.arpa import read_arpa
from weft.text.kinds import read_tokenizer
from weft.text.language import refuse_unknown
from weft.text.vocabulary import SPECIAL_PIECES, Vocabulary
from weft.text.words import with_marks
from weft.training.run_folder import committed_folder
from weft.version import __version__


def import_arpa(
    file: Path, output: Path, language: str | None, say: Callable[[str], None]
) -> Learned[LanguageModelRecipe]:
    """Write the n-grams in an ARPA file as a new model folder, whose words are those between two spaces of a text.

    Words that no text has as weft reads it, such as the pieces of a tokenizer, are counted. Raises UsageError without
    a language or if `output` exists, CorpusError and ModelError for a file that cannot be read, has words that no
    vocabulary can hold, or has mostly words that are never read.
    """
    refuse_existing_folder(output)
    if not language:
        raise UsageError("an ARPA file does not state its language; give --source, such as --source en")
    refuse_unknown(language, "--source")
    ngrams, tokens = read_arpa(file)
    if ngrams.order > MOST_ORDER:
        raise ModelError(
            file, [Problem(f"{ngrams.order}-grams", f"are too long; weft takes {MOST_ORDER}-grams at most")]
        )
    settings = NgramConfig(order=ngrams.order, counts=tuple(map(len, ngrams.keys)))
    document = {
        "task": "language-model",
        "data": {"language": language, "train": [UNKNOWN_DATA], "valid": [UNKNOWN_DATA]},
        "tokenizer": {"kind": "whitespace"},
        "model": settings.model_dump(mode="json"),
    }
    resolved = resolve(document, LanguageModelRecipe, "the recipe", origin="import")
    vocabulary = Vocabulary(with_marks(tokens)).as_file
    text = read_tokenizer(vocabulary, file, kind="whitespace", language=language)
    if unread := [word for word in tokens[len(SPECIAL_PIECES) :] if text.normalize(word) != word]:
        what = f"{len(unread):,} of {len(tokens):,} words stand in no text as weft reads it, such as {unread[0]}"
        if 2 * len(unread) > len(tokens):
            raise ModelError(file, [Problem("1-grams", f"{what}; are they the pieces of a tokenizer?")])
        say(what)
    network = NgramLanguageModel(settings, vocab_size=text.vocab_size)
    network.put(ngrams)
    model = Learned(resolved, network, {"text": text})
    with committed_folder(output) as staged:
        save_model(staged, model, card(model, file))
        check_model(staged)
    return model


def card(model: Learned[LanguageModelRecipe], file: Path) -> str:
    recipe = model.recipe
    lines = [
        *card_head(recipe),
        f"# {recipe.data.language}, n-grams, {recipe.model.describe()}",
        "",
        f"weft {__version__} imported it from an ARPA file with sha256 `{sha256(file)}`.",
    ]
    return "\n".join([*lines, ""])
