"""`weft translate`: from arguments, a file or a pipe, one line a sentence in and one line out."""

import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from weft.cli.displays import choose_display
from weft.cli.lines import open_input, open_output, read_texts
from weft.cli.outputs import refuse_place
from weft.cli.start import without_collections
from weft.errors import UsageError, shown

if TYPE_CHECKING:
    from weft.tasks.alternatives import Alternative
    from weft.tasks.bulk import Block, Form
    from weft.tasks.exported import Engine
    from weft.tasks.passages import PassageTranslator
    from weft.tasks.translation import Translator
    from weft.tasks.translation_memory import TranslationMemory


def translate(
    text: Annotated[list[str] | None, typer.Argument(help="Sentences to translate.")] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            help="A model folder, a run folder, or the name of a model that comes with weft. Repeated: their ensemble.",
        ),
    ] = None,
    input_file: Annotated[
        Path | None,
        typer.Option("--input", help="A text file, one sentence or paragraph a line; .gz too.", show_default=False),
    ] = None,
    output_file: Annotated[
        Path | None,
        typer.Option("--output", help="Where the translations go, .gz too; left out: stdout.", show_default=False),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a decoding key, such as decoding.beam_size=5."),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="One JSON object a line: source, text, score, log_prob, and what is asked for."),
    ] = False,
    split: Annotated[
        Literal["always", "long", "never"],
        typer.Option("--split", help="Which lines are translated sentence by sentence; long: those over 60 pieces."),
    ] = "always",
    markup: Annotated[
        Literal["off", "keep"],
        typer.Option("--markup", help="keep: tags, placeholders, URLs and the like come out as they went in."),
    ] = "off",
    glossary: Annotated[
        Path | None,
        typer.Option(
            "--glossary",
            help="A TSV of terms under the two language codes; where a source term stands, its translation appears.",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        Literal["native", "ctranslate2", "onnx"] | None,
        typer.Option("--engine", help="What computes; left out: what the folder was made for.", show_default=False),
    ] = None,
    best: Annotated[
        int | None,
        typer.Option(
            "--best",
            metavar="N",
            min=1,
            max=1024,
            help="Up to N translations a line, best first, samples as they were drawn: number of the line, score, "
            "translation.",
            show_default=False,
        ),
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option("--begin", metavar="TEXT", help="What the translation begins with.", show_default=False),
    ] = None,
    phrases: Annotated[
        list[str] | None,
        typer.Option("--phrase", metavar="TEXT", help="What appears in the translation. Repeated: all of them."),
    ] = None,
    alternatives_after: Annotated[
        str | None,
        typer.Option(
            "--alternatives-after",
            metavar="PREFIX",
            help="What else could come behind this beginning of a translation: --best N words with their translations.",
            show_default=False,
        ),
    ] = None,
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--no-stream",
            help="Print each translation as it grows.",
            show_default="where you type or give sentences in a terminal",
        ),
    ] = None,
    memory: Annotated[
        Path | None,
        typer.Option(
            "--memory",
            help="Earlier translations: a TMX file, or a TSV or JSONL under the two language codes.",
            show_default=False,
        ),
    ] = None,
    memory_use: Annotated[
        Literal["show", "force"],
        typer.Option(
            "--memory-use",
            help="show: similar sentences, on stderr or in --json; force: what it holds is translated as there.",
        ),
    ] = "show",
    memory_similarity: Annotated[
        float | None,
        typer.Option(
            "--memory-similarity",
            min=0.1,
            max=1,
            help="From which similarity on one is shown.",
            show_default="0.7",
        ),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Forget what a stopped command has translated, and begin anew.")
    ] = False,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Translate --input on a Ray cluster: RAY_ADDRESS, or this machine's.")
    ] = False,
) -> None:
    """Translate sentences: the arguments, the lines of --input, or else of standard input.

    From --input to --output it may be a file of any size: the same command goes on with what was stopped.
    """
    if not models:
        raise UsageError("--model is missing: a model or run folder, or a model that comes with weft, such as zh-en")
    if text and input_file:
        raise UsageError("give either sentences or --input, not both")
    output_file = None if output_file == Path("-") else output_file
    is_bulk = input_file is not None and output_file is not None and not is_stream(input_file)
    if (restart or cluster) and not is_bulk:
        raise UsageError(f"{'--restart' if restart else '--cluster'} is for translating a file: --input and --output")
    if stream:
        refuse_together("--stream prints plain text", output=output_file, json=as_json, best=best)
    if alternatives_after is not None:
        others = {"stream": stream, "input": input_file, "markup": markup == "keep", "glossary": glossary}
        others |= {"split": split != "always", "memory": memory}
        refuse_together("--alternatives-after looks at one place of one sentence", **others)
        if text is None or len(text) != 1:
            raise UsageError("--alternatives-after takes one sentence, as an argument")
    if begin is not None or phrases:
        others = {"stream": stream, "input": input_file, "markup": markup == "keep", "split": split != "always"}
        others |= {"alternatives-after": alternatives_after}
        refuse_together("--begin and --phrase are for sentences by themselves", **others)
        if text is None:
            raise UsageError("--begin and --phrase take sentences as arguments")
    shows_memory = memory is not None and memory_use == "show"
    if shows_memory and is_bulk and not as_json:
        raise UsageError("--memory-use show writes into the objects of --json where a file is translated; add --json")
    check_use_of_memory(memory, memory_use, memory_similarity)
    refuse_place("--output", output_file, [input_file, glossary, memory])
    if is_bulk:  # oneDNN would keep what it compiled for a thousand shapes, a gigabyte; hardly one comes again
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    with without_collections():
        from weft.tasks.bulk import Form, translate_file
        from weft.tasks.passages import PassageTranslator
        from weft.tasks.translation_memory import LEAST

    translator, (folder, *others) = load_as_found(models, overrides or (), engine)
    if text is not None and alternatives_after is not None:
        sentence, prefix = read_arguments([text[0], alternatives_after])
        found = translator.alternatives(sentence, prefix, best or 5)
        write(output_file, [alternatives_written(sentence, prefix, found, as_json=as_json)])
        return
    passages = PassageTranslator(
        translator,
        split,
        keeps_markup=markup == "keep",
        glossary=glossary,
        memory=memory,
        memory_use=memory_use,
    )
    similarity = LEAST if memory_similarity is None else memory_similarity
    form = Form(as_json, best, similarity if shows_memory and as_json else None)
    if text is not None and (begin is not None or phrases):
        write(output_file, begun_or_with_phrases(passages, text, begin, phrases or [], form, similarity=similarity))
        return
    if input_file is None or output_file is None or not is_bulk:
        wants_stream = is_typed(text, input_file) if stream is None else stream
        streams = output_file is None and form == Form() and wants_stream
        write(output_file, answers(passages, text, input_file, form, similarity=similarity, streams=streams))
        return
    name = input_file.name
    with choose_display() as display:
        place = translate_file(
            passages,
            folder,
            input_file,
            output_file,
            others=others,
            form=form,
            restart=restart,
            cluster=cluster,
            say=display.on_message,
            tell=lambda done: display.on_progress(name, done.bytes, done.all_bytes, done.lines),
        )
    typer.echo(f"{output_file}: {place.lines:,} lines", err=True)


def load_as_found(
    models: list[str], overrides: Sequence[str], engine: "Literal['native'] | Engine | None"
) -> "tuple[Translator, list[Path]]":
    """A translator of these models and the folders that it was loaded from, also where a run that trains replaces its
    best weights meanwhile."""
    from weft.tasks.exported import load_for
    from weft.tasks.model_folder import find_model

    while True:
        folders = [find_model(model) for model in models]
        translator = load_for(models[0], overrides, engine, others=models[1:])
        if folders == [find_model(model) for model in models]:
            return translator, folders


def read_arguments(texts: list[str]) -> list[str]:
    """Raises CorpusError for one that is not UTF-8."""
    return list(read_texts((text.encode("utf-8", "surrogateescape") for text in texts), None))


def is_stream(path: Path) -> bool:
    """Whether it is there and can be read but once, such as a named pipe."""
    return os.path.exists(path) and not path.is_file() and not path.is_dir()


def is_typed(texts: list[str] | None, path: Path | None) -> bool:
    """Whether somebody gives sentences, or types them, and reads the answers in a terminal."""
    if sys.stdout is None or not sys.stdout.isatty():
        return False
    return texts is not None or (path is None and sys.stdin is not None and sys.stdin.isatty())


def check_use_of_memory(memory: Path | None, use: str, similarity: float | None) -> None:
    """Raise UsageError where the options of a memory do not go with each other."""
    if memory is None and use == "force":
        raise UsageError("--memory-use force needs a memory; name its file by --memory")
    if memory is None and similarity is not None:
        raise UsageError("--memory-similarity needs a memory; name its file by --memory")
    if use == "force":
        refuse_together("--memory-use force shows no similar sentence", **{"memory-similarity": similarity})


def refuse_together(why: str, **others: object) -> None:
    """Raise UsageError where one of these options is given as well."""
    if given := [f"--{name}" for name, value in others.items() if value not in (None, False)]:
        raise UsageError(f"{why}; leave out {' and '.join(given)}")


def write(path: Path | None, parts: Iterable[str]) -> None:
    with open_output(path) as output:
        for part in parts:
            output.write(part)
            output.flush()


def begun_or_with_phrases(
    passages: "PassageTranslator",
    texts: list[str],
    begin: str | None,
    phrases: list[str],
    form: "Form",
    *,
    similarity: float,
) -> list[str]:
    """The lines of translations that begin so, and in which these phrases appear."""
    from weft.tasks.bulk import as_lines

    sentences, wanted = read_arguments(texts), read_arguments(phrases)
    beginnings = read_arguments([begin] * len(sentences)) if begin else []
    if passages.memory_use == "show" and not form.as_json:
        say_similar(passages.memory, sentences, similarity)
    answered = passages.translator.translate_n_best(
        sentences,
        form.best or 1,
        glossary=passages.glossary,
        prefixes=beginnings,
        phrases=[wanted] * len(sentences) if wanted else (),
        memory=passages.forced,
    )
    return [
        f"{line}\n"
        for number, of_text in enumerate(answered, start=1)
        for line in as_lines(number, of_text, passages, form)
    ]


def answers(
    passages: "PassageTranslator",
    texts: list[str] | None,
    path: Path | None,
    form: "Form",
    *,
    similarity: float,
    streams: bool,
) -> Iterator[str]:
    """What to write, some lines at a time, or where it `streams` some words; what is said of it goes to stderr."""
    from weft.tasks.bulk import about_cuts, answer

    has_said = False
    for block in incoming(texts, path):
        if passages.memory_use == "show" and not form.as_json:
            say_similar(passages.memory, block.texts, similarity)
        if streams:
            yield from grown(passages, block.texts)
        else:
            yield answer(passages, block, form).written
        if passages.cut_texts and not has_said:
            typer.echo(about_cuts(passages), err=True)
            has_said = True


def grown(passages: "PassageTranslator", texts: list[str]) -> Iterator[str]:
    """The lines in parts, each as soon as it is certain."""
    from weft.text.sentence_splitting import LINE_END

    for text in texts:
        for part in passages.stream(text):
            yield LINE_END.sub(" ", part)
        yield "\n"


def say_similar(memory: "TranslationMemory | None", texts: list[str], similarity: float) -> None:
    """What a memory has that is like each text."""
    for match in (match for text in texts if memory is not None for match in memory.similar(text, least=similarity)):
        pair = f"{match.source}  =>  {match.target}".replace("\n", " ")
        typer.echo(f"memory {match.similarity:4.0%}  {shown(pair, 500)}", err=True)


def alternatives_written(text: str, prefix: str, found: "list[Alternative]", *, as_json: bool) -> str:
    """A line for each: the word, the score and the translation with tabs between; or one object."""
    if as_json:
        content = {"source": text, "prefix": prefix, "alternatives": [vars(one) for one in found]}
        return json.dumps(content, ensure_ascii=False) + "\n"
    return "".join(f"{one.word}\t{one.score:.4f}\t{one.text}\n" for one in found)


def incoming(texts: list[str] | None, path: Path | None) -> "Iterator[Block]":
    """The lines to translate; those of standard input as soon as they are there."""
    from weft.tasks.bulk import Block, Place, blocks

    with open_input(texts, path) as lines:
        if texts:
            yield Block(list(read_texts(lines, path)), Place(lines=len(texts)))
        else:
            yield from blocks(cast(io.BufferedIOBase, lines), path, as_they_come=path is None)
