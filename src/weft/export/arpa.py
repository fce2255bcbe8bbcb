"""`weft export --to arpa`: an n-gram model as a file that KenLM and SRILM read."""

from pathlib import Path

from weft.errors import UsageError
from weft.folders.finding import find_model
from weft.folders.model_folder import load_model
from weft.models.ngram import NgramLanguageModel
from weft.text.arpa import write_arpa
from weft.text.kinds import pieces_of
from weft.text.vocabulary import SPECIAL_PIECES
from weft.text.words import spaced_words


def export_arpa(name: str | Path, file: Path) -> None:
    """Write an n-gram model to a new file, compressed if its name ends with .gz.

    Its words are the pieces of the model's tokenizer; of the kind `whitespace`, words as they are in a text. Raises
    UsageError for an existing file, a model of another kind, or a word that the format has for something else.
    """
    if file.exists():
        raise UsageError(f"{file} exists already; give another --output")
    model = load_model(find_model(name))
    if not isinstance(model.network, NgramLanguageModel):
        raise UsageError(f'--to arpa writes models of kind "ngram"; {name} is "{model.recipe.model.kind}"')
    kind = model.recipe.tokenizer.kind
    pieces = pieces_of(model.vocabularies["text"], kind)
    words = spaced_words(pieces) if kind == "whitespace" else pieces
    if twice := [word for word in SPECIAL_PIECES if words.count(word) > 1]:
        raise UsageError(f"{name} has learned {twice[0]} as a word, which means something else in an ARPA file")
    write_arpa(file, model.network.ngrams(), words)
