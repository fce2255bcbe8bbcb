"""`weft tokenize`: the pieces of each line, to see what a model reads; and its inverse, `weft detokenize`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Context, Option

from weft.cli.lines import open_input, open_output, texts_as_they_come
from weft.cli.options import InputFile, ModelName, OutputFile
from weft.cli.outputs import refuse_place
from weft.cli.rules import SENTENCES_OR_FILE, Rule, check_options
from weft.errors import CorpusError, Problem, UsageError

if TYPE_CHECKING:
    from weft.text.tokenizer import Tokenizer

KindName = Literal["bpe", "unigram", "wordpiece", "characters", "words", "whitespace"]
"""The kinds of weft.text.kinds, which is not imported here: `weft --help` needs no library of a tokenizer."""
Side = Literal["source", "target"]
SideOption = Annotated[
    Side | None, Option("--side", help="Which of the model's two vocabularies to use.", show_default="source")
]
VocabularyOption = Annotated[Path | None, Option("--vocabulary", help="The file of a vocabulary, instead of a model.")]
KindOption = Annotated[KindName | None, Option("--kind", help="The kind of --vocabulary.")]
LanguageOption = Annotated[str, Option("--language", help="The language of the words, for --kind words and wordpiece.")]
AsIds = Annotated[bool, Option("--ids", help="Ids instead of pieces.")]

RULES = [
    SENTENCES_OR_FILE,
    Rule(("--model",), without=("--vocabulary", "--kind", "--language"), why="a model knows its own vocabularies"),
    Rule(("--vocabulary",), without=("--side",), why="only a model has two vocabularies"),
    Rule(("--vocabulary",), needs=("--kind",)),
]


def tokenize(
    context: Context,
    text: Annotated[list[str] | None, Argument(help="Sentences to split into pieces.")] = None,
    model: ModelName = "",
    side: SideOption = None,
    vocabulary: VocabularyOption = None,
    kind: KindOption = None,
    language: LanguageOption = "",
    input_file: InputFile = None,
    output_file: OutputFile = None,
    as_ids: AsIds = False,
) -> None:
    """Split sentences into pieces, one line for each: the arguments, the lines of --input, or of stdin."""
    check_options(context, RULES)
    refuse_place("--output", output_file, [input_file, vocabulary])
    tokenizer = tokenizer_of(model, side, vocabulary, kind, language)
    with open_input(text, input_file) as lines, open_output(output_file) as output:
        for chunk in texts_as_they_come(lines, input_file):
            if as_ids:
                cut = [map(str, ids) for ids in tokenizer.encode(chunk)]
            else:
                cut = [tokenizer.pieces(sentence) for sentence in chunk]
            output.writelines(f"{' '.join(pieces)}\n" for pieces in cut)
            output.flush()


def detokenize(
    context: Context,
    text: Annotated[list[str] | None, Argument(help="Lines of pieces to join.")] = None,
    model: ModelName = "",
    side: SideOption = None,
    vocabulary: VocabularyOption = None,
    kind: KindOption = None,
    language: LanguageOption = "",
    input_file: InputFile = None,
    output_file: OutputFile = None,
    as_ids: AsIds = False,
) -> None:
    """Join lines of pieces, separated by spaces, into sentences: the inverse of `weft tokenize`."""
    check_options(context, RULES)
    refuse_place("--output", output_file, [input_file, vocabulary])
    tokenizer = tokenizer_of(model, side, vocabulary, kind, language)
    with open_input(text, input_file) as lines, open_output(output_file) as output:
        first = 1
        for chunk in texts_as_they_come(lines, input_file):
            sentences = tokenizer.decode(list(read_ids(chunk, first, tokenizer, as_ids, input_file)))
            # A line is one sentence, even where bytes spell a line end.
            output.writelines(sentence.replace("\n", " ") + "\n" for sentence in sentences)
            output.flush()
            first += len(chunk)


def tokenizer_of(
    model: str, side: Side | None, vocabulary: Path | None, kind: KindName | None, language: str
) -> "Tokenizer":
    """The tokenizer of a model or of a vocabulary; raises UsageError without either, ModelError for a damaged file."""
    if model:
        from weft.folders.finding import find_model
        from weft.folders.model_folder import check_model

        vocabularies = check_model(find_model(model)).vocabularies
        if side and side not in vocabularies:
            raise UsageError(f"--side {side}: the model {model} has one vocabulary; leave out --side")
        return vocabularies.get(side or "source") or next(iter(vocabularies.values()))
    if vocabulary is None or kind is None:
        raise UsageError("give either --model, such as runs/starter, or --vocabulary and --kind")
    from weft.text.kinds import KINDS, load_tokenizer

    if KINDS[kind].needs_language and not language:
        raise UsageError(f"--kind {kind} needs --language, such as zh: each language has its own words")
    if not KINDS[kind].needs_language and language:
        raise UsageError(f"--kind {kind} cannot be combined with --language: it is the same for all languages")
    return load_tokenizer(vocabulary, kind=kind, language=language)


def read_ids(
    lines: list[str], first: int, tokenizer: "Tokenizer", as_ids: bool, path: Path | None
) -> Iterator[list[int]]:
    """The ids of each line, the first of which is line `first`; raises CorpusError naming a line without ids or
    pieces."""
    for number, line in enumerate(lines, start=first):
        words = [word for word in line.split(" ") if word]
        ids = [known_id(word, tokenizer.vocab_size) for word in words] if as_ids else tokenizer.ids_of(words)
        strange = [word for word, i in zip(words, ids, strict=True) if i is None]
        if strange:
            known = f"an id from 0 to {tokenizer.vocab_size - 1:,}" if as_ids else "a piece of this vocabulary"
            raise CorpusError(path or "the input", [Problem(f"line {number}", f"{strange[0]} is not {known}")])
        yield [i for i in ids if i is not None]


def known_id(word: str, vocab_size: int) -> int | None:
    is_id = word.isascii() and word.isdecimal() and len(word) < 10 and int(word) < vocab_size
    return int(word) if is_id else None
