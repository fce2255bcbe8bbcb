"""Writes an exported folder: refuses what the engine cannot do, and compares the export with the model."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from weft.config import Resolved, changed, render
from weft.config.toml import write_value
from weft.data import starter
from weft.data.corpus import ParallelText, read_corpora, read_given
from weft.errors import Problem, RecipeError, UsageError, WeftError
from weft.export import ctranslate2, onnx, onnx_recurrent
from weft.export.parity import Agreement, compare
from weft.files import refuse_existing_folder
from weft.folders.card import in_a_cell
from weft.folders.export import ENGINE_FILES, Engine, Export, Precision
from weft.folders.manifest import CARD, CONFIG, EXPORT, write_manifest
from weft.folders.model_folder import TranslationModel, vocabulary_files
from weft.folders.recipes import TranslationRecipe
from weft.folders.summary import read_card
from weft.metrics.references import reference_sets
from weft.text.chinese import is_chinese, script_of_code
from weft.text.kinds import pieces_of
from weft.text.language import code_of
from weft.training.run_folder import committed_folder, training_state
from weft.translating.exported import load_exported, unsupported_settings
from weft.translating.loading import load_translator
from weft.translating.translator import Translator
from weft.version import __version__

POSITIONS = 2048
"""Longest sentence of an export, in tokens, where the model has no limit: the engines need one."""
LEAST_AGREEMENT = 0.99
"""Least share of identical texts in fp32. Rounding may decide ties differently."""
DIFFERENCES_SHOWN = 10
GRAPHS = {
    "transformer": (onnx.encoder_graph, onnx.step_graph),
    "recurrent": (onnx_recurrent.encoder_graph, onnx_recurrent.step_graph),
}
"""Kind of network -> what writes its graphs for ONNX."""


@dataclass(frozen=True)
class Sample:
    """Sentences on which a model and its export are compared."""

    name: str
    sources: list[str]
    references: list[list[str]]
    """One list of sentences for each reference; empty without references."""


def export_model(
    name: str | Path,
    folder: Path,
    *,
    engine: Engine,
    precision: Precision = "fp32",
    overrides: Sequence[str] = (),
    data: Sequence[Path] = (),
    sentences: int = 200,
    accepts_differences: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> list[Agreement]:
    """Write a model as a new folder for another engine, and compare the two on some sentences.

    Overrides are those of `load_translator`; the folder keeps them. The sentences are the first of `data`, else of the
    files that the run was validated on, else of the starter corpus; 0 compares none. A search that the engine can only
    end sooner (stopping = "exact") is exported as the nearest one that it has. Nothing is written if fp32 agrees on
    fewer than LEAST_AGREEMENT of the texts, unless `accepts_differences`. Raises RecipeError with everything that the
    engine cannot do, before anything is written; UsageError for an existing folder, a model of another kind or weights
    that one ONNX file cannot hold; MissingExtraError without the engine's library.
    """
    refuse_existing_folder(folder)
    loaded = load_translator(name, overrides)
    check_kind(loaded.model.recipe.model.kind, engine)
    if (resolved := nearest_search(loaded.model.resolved, engine)) is not loaded.model.resolved:
        loaded.model.resolved = resolved
        say(
            f'{engine} cannot search until no better translation is possible (decoding.stopping = "exact"); the export '
            'has "first-k", which ends with the first finished translations and may find others now and then'
        )
    native, card = Translator(loaded.model, torch.device("cpu")), read_card(loaded.folders[0])
    model = native.model
    if problems := list(refusals(model, engine, precision)):
        raise RecipeError(f"{name}, for {engine},", problems)
    sample = choose_sample(model, loaded.folders[0], data, sentences)
    export = Export(engine=engine, precision=precision, longest=model.recipe.model.longest or POSITIONS)
    agreements: list[Agreement] = []

    with committed_folder(folder) as staged:
        write_export(staged, model, export)
        if sample.sources:
            agreements = compare(native, load_exported(staged), sample.sources, sample.references)
            say(report(export, sample, agreements))
            if export.precision == "fp32" and not accepts_differences:
                refuse_disagreement(export, agreements)
        (staged / CARD).write_text(card + card_section(export, sample, agreements), encoding="utf-8")
    return agreements


def check_kind(kind: str, engine: Engine) -> None:
    """Raise UsageError for a kind of network that the exporters do not write."""
    written = GRAPHS if engine == "onnx" else ("transformer",)
    if kind not in written:
        kinds = " and ".join(f'"{name}"' for name in written)
        raise UsageError(f'weft export --to {engine} writes models of kind {kinds}; this one is "{kind}"')


def refusals(model: TranslationModel, engine: Engine, precision: Precision) -> Iterator[Problem]:
    """Yield what the engine cannot do, of the model and of its decoding settings."""
    for key, usual in (("attention_steps", 1), ("attention_beta", "fixed")):
        if (value := getattr(model.recipe.model, key, usual)) != usual:
            yield Problem(f"model.{key} = {write_value(value)}", f"exports only know {write_value(usual)}")
    if engine == "ctranslate2":
        yield from ctranslate2.refusals(model.network.config)
    elif model.recipe.model.kind == "recurrent":
        yield from onnx_recurrent.refusals(model.network, precision)
    yield from unsupported_settings(engine, model.recipe.decoding)


def write_export(folder: Path, model: TranslationModel, export: Export) -> None:
    """Write an exported folder's files, all but the card, into an existing folder."""
    if export.engine == "ctranslate2":
        kind = model.recipe.tokenizer.kind
        pieces = pieces_of(model.vocabularies["source"], kind), pieces_of(model.vocabularies["target"], kind)
        ctranslate2.write_ctranslate2(model.network, folder, pieces, export.precision, export.longest)
    else:
        graphs = GRAPHS[model.recipe.model.kind]
        onnx.write_onnx(model.network, folder, export.precision, export.longest, graphs)
    (folder / CONFIG).write_text(render(model.resolved), encoding="utf-8")
    (folder / EXPORT).write_text(json.dumps(export.model_dump(), indent=1) + "\n", encoding="utf-8")
    files = vocabulary_files(model.recipe, model.vocabularies)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    write_manifest(folder, [CONFIG, EXPORT, *ENGINE_FILES[export.engine], *files])


def nearest_search(resolved: Resolved[TranslationRecipe], engine: Engine) -> Resolved[TranslationRecipe]:
    """The recipe with the nearest search that the engine has, unless the command line asked for another one."""
    decoding = resolved.recipe.decoding
    is_exact = decoding.method == "beam" and decoding.stopping == "exact" and decoding.length_penalty != "none"
    if engine != "ctranslate2" or not is_exact or resolved.origins["decoding.stopping"] == "command line":
        return resolved
    return changed(resolved, {"decoding.stopping": "first-k"}, f"for {engine}")


def choose_sample(model: TranslationModel, folder: Path, data: Sequence[Path], sentences: int) -> Sample:
    """Choose sentences for the comparison. Raises UsageError if there are none, CorpusError for a bad file."""
    if sentences == 0:
        return Sample("no sentences", [], [])
    recipe = model.recipe
    pairs = read_given(data, recipe.data) if data else validation_pairs(folder, recipe)
    if pairs is not None:
        name = " and ".join(Path(file).name for file in pairs.sha256)
        return Sample(name, pairs.sources[:sentences], reference_sets(pairs.references[:sentences]))
    source, target = (language_in_starter(language) for language in (recipe.data.source, recipe.data.target))
    if source is None:
        raise UsageError(
            f"there are no sentences in {recipe.data.source} at hand to compare the export on; give some with "
            "--data FILE.tsv, or compare nothing with --sentences 0"
        )
    pairs = starter.load()["valid"][:sentences]
    sides = {"zh": [zh for zh, _ in pairs], "en": [en for _, en in pairs]}
    # The Chinese of the starter corpus is that of the mainland, in Simplified characters.
    script = script_of_code(recipe.data.target), recipe.tokenizer.target_script
    is_other = target == "zh" and (code_of(recipe.data.target) != "zh" or "traditional" in script)
    return Sample("the starter corpus", sides[source], [] if target in (None, source) or is_other else [sides[target]])


def validation_pairs(folder: Path, recipe: TranslationRecipe) -> ParallelText | None:
    """The pairs that a run was validated on, if its files are still where they were and have not changed."""
    with suppress(WeftError, OSError, ValueError, KeyError, TypeError):
        state = training_state(folder)
        pairs = read_corpora(recipe.data.valid, recipe.data, Path(state["root"]))
        return pairs if pairs.sha256 == state["data"]["valid"] else None
    return None


def language_in_starter(language: str) -> str | None:
    if is_chinese(language):
        return "zh"
    return "en" if code_of(language) == "en" else None


def refuse_disagreement(export: Export, agreements: Sequence[Agreement]) -> None:
    worst = min(agreements, key=lambda agreement: agreement.share)
    if worst.share < LEAST_AGREEMENT:
        raise WeftError(
            f"{export.engine} gives the same text as weft for only {100 * worst.share:.1f} % of the sentences "
            f"({worst.method}); in fp32 it should for {100 * LEAST_AGREEMENT:.0f} %. Nothing was written. Where the "
            "differences above are good enough for you, --accept-differences writes the folder all the same"
        )


def report(export: Export, sample: Sample, agreements: Sequence[Agreement]) -> str:
    """Describe for a terminal how far the two agree, with the sentences on which they differ."""
    lines = [
        f"{export.engine} in {export.precision} and weft in fp32, on {len(sample.sources):,} sentences of {sample.name}"
    ]
    for agreement in agreements:
        lines.append(f"  {agreement.summary()}")
        for ours, theirs in agreement.differing[:DIFFERENCES_SHOWN]:
            lines += [
                f"    {ours.source}  (score {theirs.score - ours.score:+.4f})",
                f"      weft         {ours.score:9.4f}  {ours.text}",
                f"      {export.engine:<12} {theirs.score:9.4f}  {theirs.text}",
            ]
        if (more := len(agreement.differing) - DIFFERENCES_SHOWN) > 0:
            lines.append(f"    ... and {more:,} more")
    return "\n".join(lines)


def card_section(export: Export, sample: Sample, agreements: Sequence[Agreement]) -> str:
    """Return the section that is added to the model card."""
    lines = [
        "",
        "## Export",
        "",
        f"Exported for {export.engine} in {export.precision} by weft {__version__}; "
        f"at most {export.longest:,} tokens a sentence.",
        "",
    ]
    if not agreements:
        return "\n".join([*lines, "Not compared with the model it was exported from.", ""])
    lines += [
        f"Compared with weft in fp32, on {len(sample.sources):,} sentences of {sample.name}:",
        "",
        *(f"- {agreement.summary()}" for agreement in agreements),
        "",
    ]
    differing = [(a.method, ours, theirs) for a in agreements for ours, theirs in a.differing[:DIFFERENCES_SHOWN]]
    if differing:
        lines += [f"| search | source | weft | {export.engine} | difference of the scores |", "| --- " * 4 + "| ---: |"]
        lines += [
            f"| {' | '.join(in_a_cell(text) for text in (method, ours.source, ours.text, theirs.text))} "
            f"| {theirs.score - ours.score:+.4f} |"
            for method, ours, theirs in differing
        ]
        lines.append("")
    return "\n".join(lines)
