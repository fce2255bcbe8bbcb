"""`weft rescore`: n-best lists scored by other models, and what these scores gain."""

import shlex
from pathlib import Path
from typing import Annotated

from typer import Context, Option, echo

from weft.cli.loading import note_opened, require_task
from weft.cli.options import JsonFile, KeyOverrides, OneModel, Threads, only_model
from weft.cli.outputs import give_results, refuse_places
from weft.cli.rules import Rule, check_options
from weft.errors import CorpusError, Problem, UsageError
from weft.files import as_utf_8, decode_lines, read_bytes, split_lines, write_atomically

Scores = Annotated[Path, Option("--scores", help="JSONL of the raw scores: written with --model, else read.")]
Data = Annotated[Path | None, Option("--data", help="Pairs to translate: TSV, CSV, JSONL or TMX; .gz too.")]
Reverse = Annotated[str | None, Option("--reverse", metavar="MODEL", help="A translator of the other direction.")]
LanguageModel = Annotated[str | None, Option("--lm", metavar="MODEL", help="A language model of the target language.")]
Best = Annotated[int, Option("--best", metavar="N", min=2, max=64, help="Translations of each sentence.")]

MADE = ("--model", "--data")
RULES = [
    Rule(MADE, needs=MADE, why="without both the scores are read"),
    Rule(("--reverse", "--lm", "--best", "--set"), needs=MADE),
]


def rescore(
    context: Context,
    scores: Scores,
    models: OneModel = None,
    data: Data = None,
    reverse: Reverse = None,
    language_model: LanguageModel = None,
    best: Best = 12,
    overrides: KeyOverrides = None,
    json_file: JsonFile = None,
    threads: Threads = None,
) -> None:
    """Choose among the best translations by a translator of the other direction and a language model.

    The raw scores are stored once. Their weights are tuned on every other sentence, and the gain is shown on the rest.
    """
    check_options(context, RULES)
    refuse_places({"--json": json_file, **({"--scores": scores} if models else {})}, [data or scores])
    if models and scores.exists():
        raise UsageError(f"--scores {scores} exists: leave out --model and --data to read it, or name another file")
    if models and not reverse and not language_model:
        raise UsageError("say what to score with: --reverse MODEL, --lm MODEL, or both")
    from weft.evaluating.rescoring import read_lists, score_lists
    from weft.evaluating.rescoring import rescore as tune

    if models and data is not None:
        model = only_model(models, "rescore")
        require_task([model, *([reverse] if reverse else [])], "rescore")
        require_task([language_model] if language_model else [], "rescore --lm", "language-model")
        from weft import load
        from weft.data.corpus import read_corpora
        from weft.text.language import code_of
        from weft.translating.exported import load_for

        wanted = ["decoding.method=beam", f"decoding.beam_size={best}", *(overrides or ())]
        translator = load_for(model, wanted)
        speaker = load(language_model) if language_model else None
        if speaker and code_of(speaker.learned.recipe.data.language) != code_of(translator.languages[1]):
            languages = f"{speaker.learned.recipe.data.language}, and the translations are {translator.languages[1]}"
            raise UsageError(f"--lm {language_model} is a model of {languages}")
        pairs = read_corpora([str(data)], translator.model.recipe.data, Path())
        note_opened(filter(None, [model, reverse, language_model]), pairs.sha256)
        lists = score_lists(
            translator,
            pairs,
            best,
            channel=load_for(reverse) if reverse else None,
            language=speaker.log_probs if speaker else None,
        )
        write_atomically(scores, "".join(one.as_json() for one in lists))
        again = f"weft rescore --scores {shlex.quote(str(scores))} reads them"
        echo(f"{scores}: the raw scores of {len(lists):,} lists; {again}", err=True)
    else:
        problems: list[Problem] = []
        lines = [line for _, line in decode_lines(split_lines(as_utf_8(read_bytes(scores))), problems)]
        if problems:
            raise CorpusError(scores.name, problems)
        lists = read_lists(scores.name, lines)
    report = tune(lists)
    give_results(report.table(), report.as_dict(), json_file)
