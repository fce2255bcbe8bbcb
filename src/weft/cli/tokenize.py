"""`weft tokenize`: the pieces of each line, for a look at what a model reads or for other programs.

Its inverse is detokenize.py, which takes its options and the tokenizer they mean from here.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from weft.cli.lines import open_input, open_output, texts_as_they_come
from weft.cli.outputs import refuse_place
from weft.errors import UsageError

if TYPE_CHECKING:
    from weft.text.tokenizer import Tokenizer

KindName = Literal["bpe", "unigram", "wordpiece", "characters", "words"]
IN_WORDS: frozenset[KindName] = frozenset(["words", "wordpiece"])
"""The kinds that cut text into words first."""
ModelOption = Annotated[
    str, typer.Option("--model", help="A model folder, a run folder, or the name of a model that comes with weft.")
]
Side = Literal["source", "target"]
SideOption = Annotated[
    Side | None,
    typer.Option("--side", help="Which of the model's two vocabularies.", show_default="source"),
]
VocabularyOption = Annotated[
    Path | None,
    typer.Option("--vocabulary", help="Instead of a model: the file of a vocabulary.", show_default=False),
]
KindOption = Annotated[
    KindName | None, typer.Option("--kind", help="Of which kind --vocabulary is.", show_default=False)
]
LanguageOption = Annotated[
    str, typer.Option("--language", help="Whose words they are; asked for by --kind words and wordpiece.")
]
InputOption = Annotated[
    Path | None, typer.Option("--input", help="A text file, one sentence a line; .gz too.", show_default=False)
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", help="Where the lines go; left out: stdout.", show_default=False)
]


def tokenize(
    text: Annotated[list[str] | None, typer.Argument(help="Sentences to cut.")] = None,
    model: ModelOption = "",
    side: SideOption = None,
    vocabulary: VocabularyOption = None,
    kind: KindOption = None,
    language: LanguageOption = "",
    input_file: InputOption = None,
    output_file: OutputOption = None,
    as_ids: Annotated[bool, typer.Option("--ids", help="Ids instead of pieces.")] = False,
) -> None:
    """Cut sentences into pieces, a line of them each: the arguments, the lines of --input, or of standard input."""
    if text and input_file:
        raise UsageError("give either sentences or --input, not both")
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


def tokenizer_of(
    model: str, side: Side | None, vocabulary: Path | None, kind: KindName | None, language: str
) -> "Tokenizer":
    """The tokenizer that the options mean; raises UsageError where they mean none, ModelError for a spoiled file."""
    if bool(model) == (vocabulary is not None):
        raise UsageError("give either --model, such as runs/starter, or --vocabulary and --kind")
    if vocabulary is None:
        if kind or language:
            raise UsageError("--kind and --language are for --vocabulary; a model knows its own")
        from weft.tasks.model_folder import check_model, find_model

        _, source, target = check_model(find_model(model))
        return target if side == "target" else source
    if side is not None:
        raise UsageError("--side chooses between a model's two vocabularies; --vocabulary is one")
    if kind is None:
        raise UsageError("--vocabulary needs --kind: bpe, unigram, wordpiece, characters or words")
    if kind in IN_WORDS and not language:
        raise UsageError(f"--kind {kind} needs --language, such as zh: each language has its words")
    if kind not in IN_WORDS and language:
        raise UsageError(f"--kind {kind} is the same for all languages; leave out --language")
    from weft.text.kinds import load_tokenizer

    return load_tokenizer(vocabulary, kind=kind, language=language)
