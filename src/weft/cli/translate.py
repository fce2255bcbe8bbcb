"""`weft translate`: translate arguments, a file or a pipe, one line out for each line in."""

import io
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from typer import Argument, Context, Option, echo

from weft.cli.displays import choose_display
from weft.cli.lines import open_input, open_output, read_texts, refuse_misread
from weft.cli.loading import require_task, without_collections
from weft.cli.options import (
    Engine,
    Ensemble,
    GlossaryFile,
    InputFile,
    JsonLines,
    KeyOverrides,
    MemoryFile,
    OutputFile,
    Threads,
)
from weft.cli.outputs import STDOUT, refuse_place
from weft.cli.rules import MODEL_NEEDED, SENTENCES_OR_FILE, Rule, check_options
from weft.errors import UsageError, shown
from weft.files import is_stream

if TYPE_CHECKING:
    from weft.translating.alternatives import Alternative
    from weft.translating.files import Block, Form
    from weft.translating.memory import TranslationMemory
    from weft.translating.passages import PassageTranslator

Sentences = Annotated[list[str] | None, Argument(help="Sentences to translate.")]
Split = Annotated[
    Literal["always", "long", "never"],
    Option("--split", help="Which lines to translate sentence by sentence; long: lines of more than 60 pieces."),
]
Markup = Annotated[
    Literal["off", "keep"],
    Option("--markup", help="keep: copy tags, placeholders, URLs and the like unchanged into the translation."),
]
Best = Annotated[
    int | None,
    Option(
        "--best",
        metavar="N",
        min=1,
        max=1024,
        help="Print up to N translations per line, best first (samples in the order drawn): line number, score, text.",
    ),
]
Begin = Annotated[str | None, Option("--begin", metavar="TEXT", help="Begin the translation with this text.")]
Phrases = Annotated[
    list[str] | None,
    Option("--phrase", metavar="TEXT", help="Use this phrase in the translation; repeatable: all are used."),
]
AlternativesAfter = Annotated[
    str | None,
    Option(
        "--alternatives-after",
        metavar="PREFIX",
        help="Show which --best N words could follow this beginning of a translation, each with a translation.",
    ),
]
Stream = Annotated[
    bool | None,
    Option(
        "--stream/--no-stream",
        help="Print each translation as it grows.",
        show_default="for sentences typed or given in a terminal",
    ),
]
MemoryUse = Annotated[
    Literal["show", "force"],
    Option(
        "--memory-use",
        help="show: print similar sentences to stderr or into --json; force: reuse the translations of equal ones.",
    ),
]
MemorySimilarity = Annotated[
    float | None,
    Option("--memory-similarity", min=0.1, max=1, help="The least similarity to show.", show_default="0.7"),
]
LanguageModel = Annotated[
    str | None,
    Option("--lm", metavar="MODEL", help="A language model over the target vocabulary that helps in the search."),
]
LmWeight = Annotated[
    float | None,
    Option("--lm-weight", help="Factor on the log-probabilities of --lm.", show_default="decoding.lm_weight"),
]
OutputScript = Annotated[
    Literal["simplified", "traditional"] | None,
    Option("--script", help="Write Chinese in this script; traditional: that of Taiwan, with its words."),
]
Restart = Annotated[bool, Option("--restart", help="Discard what a stopped command has translated, and start over.")]
Cluster = Annotated[
    bool, Option("--cluster", help="Translate --input on a Ray cluster: that of RAY_ADDRESS, else this machine.")
]

RULES = [
    MODEL_NEEDED,
    SENTENCES_OR_FILE,
    Rule(("--restart", "--cluster"), needs=("--input", "--output"), why="it translates a file into a file"),
    Rule(("--stream",), without=("--output", "--json", "--best"), why="it prints plain text"),
    Rule(
        ("--alternatives-after",),
        without=("--stream", "--input", "--markup", "--glossary", "--split", "--memory"),
        needs=("TEXT",),
        why="it looks at one place of one sentence",
    ),
    Rule(
        ("--begin", "--phrase"),
        without=("--stream", "--input", "--markup", "--split", "--alternatives-after"),
        needs=("TEXT",),
        why="it applies to single sentences, given as arguments",
    ),
    Rule(("--memory-use", "--memory-similarity"), needs=("--memory",)),
    Rule(("--lm-weight",), needs=("--lm",)),
    Rule(("--memory-use",), without=("--memory-similarity",), why="a forced memory shows no similar sentences"),
]


def translate(
    context: Context,
    text: Sentences = None,
    models: Ensemble = None,
    input_file: InputFile = None,
    output_file: OutputFile = None,
    overrides: KeyOverrides = None,
    as_json: JsonLines = False,
    split: Split = "always",
    markup: Markup = "off",
    glossary: GlossaryFile = None,
    engine: Engine = None,
    best: Best = None,
    begin: Begin = None,
    phrases: Phrases = None,
    alternatives_after: AlternativesAfter = None,
    stream: Stream = None,
    memory: MemoryFile = None,
    memory_use: MemoryUse = "show",
    memory_similarity: MemorySimilarity = None,
    language_model: LanguageModel = None,
    lm_weight: LmWeight = None,
    script: OutputScript = None,
    restart: Restart = False,
    cluster: Cluster = False,
    threads: Threads = None,
) -> None:
    """Translate sentences: the arguments, the lines of --input, or else of stdin.

    Files from --input to --output may be of any size: the same command continues after a stop.
    """
    check_options(context, RULES)
    refuse_misread(text, input_file)
    output_file = None if output_file == STDOUT else output_file
    is_bulk = input_file is not None and output_file is not None and not any(map(is_stream, (input_file, output_file)))
    if (restart or cluster) and not is_bulk:
        raise UsageError("--restart and --cluster need --input and --output to be files, not pipes")
    if alternatives_after is not None and len(text or ()) != 1:
        raise UsageError("--alternatives-after takes one sentence")
    shows_memory = memory is not None and memory_use == "show"
    if shows_memory and is_bulk and not as_json:
        raise UsageError("--memory-use show needs --json to translate a file: similar sentences go into its objects")
    refuse_place("--output", output_file, [input_file, glossary, memory])
    first, *others = models or []
    require_task([first, *others], "translate")
    if is_bulk:  # oneDNN would cache what it compiles for a thousand shapes, a gigabyte; few of them come again
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    with without_collections():
        from weft.config.toml import write_value
        from weft.text.chinese import is_chinese
        from weft.translating.exported import load_for
        from weft.translating.files import Form
        from weft.translating.memory import LEAST
        from weft.translating.passages import PassageTranslator

    asked = {"language_model": language_model, "lm_weight": lm_weight, "script": script}
    fused = [f"decoding.{key}={write_value(value)}" for key, value in asked.items() if value is not None]
    translator = load_for(first, [*(overrides or ()), *fused], engine, others=others)
    if script is not None and not is_chinese(translator.languages[1]):
        raise UsageError(f"--script is for translations into Chinese; this model writes {translator.languages[1]}")
    if text is not None and alternatives_after is not None:
        sentence, prefix = read_arguments([text[0], alternatives_after])
        found = translator.alternatives(sentence, prefix, best or 5)
        write(output_file, [alternatives_written(sentence, prefix, found, as_json=as_json)])
        return
    passages = PassageTranslator(
        translator, split, keeps_markup=markup == "keep", glossary=glossary, memory=memory, memory_use=memory_use
    )
    similarity = LEAST if memory_similarity is None else memory_similarity
    form = Form(as_json, best, similarity if shows_memory and as_json else None)
    if text is not None and (begin is not None or phrases):
        write(output_file, begun_or_with_phrases(passages, text, begin, phrases or [], form, similarity=similarity))
    elif is_bulk and input_file is not None and output_file is not None:
        translate_bulk(passages, input_file, output_file, form, restart=restart, cluster=cluster)
    else:
        streams = is_typed(text, input_file) if stream is None else stream
        streams &= output_file is None and form == Form()
        write(output_file, answers(passages, text, input_file, form, similarity=similarity, streams=streams))


def translate_bulk(
    passages: "PassageTranslator",
    input_file: Path,
    output_file: Path,
    form: "Form",
    *,
    restart: bool,
    cluster: bool,
) -> None:
    """Translate a file into a file, showing how far it is."""
    from weft.translating.files import translate_file

    with choose_display() as display:
        place = translate_file(
            passages,
            input_file,
            output_file,
            form=form,
            restart=restart,
            cluster=cluster,
            say=display.on_message,
            tell=lambda done: display.on_progress(input_file.name, done.bytes, done.all_bytes, done.lines),
        )
    echo(f"{output_file}: {place.lines:,} lines", err=True)


def read_arguments(texts: list[str]) -> list[str]:
    """Arguments as text; raises CorpusError for bytes that are not UTF-8."""
    return read_texts([text.encode("utf-8", "surrogateescape") for text in texts], None)


def is_typed(texts: list[str] | None, path: Path | None) -> bool:
    """Whether sentences are given or typed in a terminal, and the answers are read there."""
    if sys.stdout is None or not sys.stdout.isatty():
        return False
    return texts is not None or (path is None and sys.stdin is not None and sys.stdin.isatty())


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
    """The lines of translations that start with `begin` and contain all `phrases`."""
    from weft.translating.files import as_lines

    sentences, wanted = read_arguments(texts), read_arguments(phrases)
    beginnings = read_arguments([begin] * len(sentences)) if begin else []
    if passages.memory_use == "show" and not form.as_json:
        show_similar(passages.memory, sentences, similarity)
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
    """The output, some lines at a time, or some words where it `streams`; remarks go to stderr."""
    from weft.translating.files import answer, cut_warning

    has_said = False
    for block in incoming(texts, path):
        if passages.memory_use == "show" and not form.as_json:
            show_similar(passages.memory, block.texts, similarity)
        if streams:
            yield from grown(passages, block.texts)
        else:
            yield answer(passages, block, form).written
        if passages.cut_texts and not has_said:
            echo(cut_warning(passages), err=True)
            has_said = True


def grown(passages: "PassageTranslator", texts: list[str]) -> Iterator[str]:
    """The translations in parts, each as soon as it cannot change any more."""
    from weft.text.sentence_splitting import LINE_END

    for text in texts:
        for part in passages.stream(text):
            yield LINE_END.sub(" ", part)
        yield "\n"


def show_similar(memory: "TranslationMemory | None", texts: list[str], similarity: float) -> None:
    """Print the memory's sentences that resemble each text."""
    for match in (match for text in texts if memory is not None for match in memory.similar(text, least=similarity)):
        pair = f"{match.source}  =>  {match.target}".replace("\n", " ")
        echo(f"memory {match.similarity:4.0%}  {shown(pair, 500)}", err=True)


def alternatives_written(text: str, prefix: str, found: "list[Alternative]", *, as_json: bool) -> str:
    """A line per alternative: word, score and translation, separated by tabs; or one JSON object."""
    if as_json:
        content = {"source": text, "prefix": prefix, "alternatives": [vars(one) for one in found]}
        return json.dumps(content, ensure_ascii=False) + "\n"
    return "".join(f"{one.word}\t{one.score:.4f}\t{one.text}\n" for one in found)


def incoming(texts: list[str] | None, path: Path | None) -> "Iterator[Block]":
    """The lines to translate; lines of stdin as soon as they arrive."""
    from weft.translating.files import Block, Place, blocks

    with open_input(texts, path) as lines:
        if texts:
            yield Block(read_texts(lines, path), Place(lines=len(texts)))
        else:
            yield from blocks(cast(io.BufferedIOBase, lines), path, as_they_come=path is None)
