"""`weft detokenize`: from pieces or ids back to text, the inverse of `weft tokenize`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context

from weft.cli.lines import open_input, open_output, texts_as_they_come
from weft.cli.options import InputFile, ModelName, OutputFile
from weft.cli.outputs import refuse_place
from weft.cli.rules import check_options
from weft.cli.tokenize import (
    RULES,
    AsIds,
    KindOption,
    LanguageOption,
    SideOption,
    VocabularyOption,
    tokenizer_of,
)
from weft.errors import CorpusError, Problem

if TYPE_CHECKING:
    from weft.text.tokenizer import Tokenizer


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
