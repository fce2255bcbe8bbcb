"""A translator of a model that was exported for another engine (folders/export.py).

The engine computes; text processing, vocabularies and decoding settings are weft's. `unsupported_settings` lists the
settings that an engine does not support, which both the export and the translator reject.
"""

import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NoReturn

import numpy as np
import torch

from weft.config import override
from weft.data.sentences import Sentences
from weft.decoding.demands import Demands
from weft.decoding.search import DecodingConfig
from weft.decoding.step import Hypothesis, Searching, StepFunction
from weft.engines import ctranslate2
from weft.engines.ctranslate2 import Answer, CTranslate2Engine
from weft.engines.onnx import OnnxEngine
from weft.errors import ModelError, Problem, RecipeError, UsageError, listed
from weft.folders.export import Engine, Export, check_exported, engine_of
from weft.folders.finding import find_model
from weft.folders.model_folder import TranslationModel
from weft.runtime import choose_threads
from weft.translating.language_models import load_language_model
from weft.translating.loading import CHANGEABLE, load_translator
from weft.translating.translator import Translator

ENGINES: dict[str, type[CTranslate2Engine] | type[OnnxEngine]] = {"ctranslate2": CTranslate2Engine, "onnx": OnnxEngine}

CTRANSLATE2_FOLLOWS = {
    *("method", "beam_size", "length_penalty", "length_power", "stopping", "patience"),
    *("max_length_ratio", "max_length_extra", "max_length", "batch_tokens"),
    # no effect without unsupported settings
    *("temperature", "top_k", "top_p", "epsilon", "sampling_seed", "diversity"),
    *("mbr_candidates", "mbr_from", "mbr_utility", "mbr_form", "precision", "script"),
}
"""The keys of [decoding] that CTranslate2 supports, except for the values that `unsupported_by_ctranslate2` yields."""


def load_for(
    name: str | Path,
    overrides: Sequence[str] = (),
    engine: Literal["native"] | Engine | None = None,
    *,
    others: Sequence[str | Path] = (),
) -> Translator:
    """Load a translator that runs on `engine`, by default the engine that the folder was made for.

    `others` make it an ensemble. Raises UsageError where a folder was made for another engine, and the
    errors of `load_translator`.
    """
    others = listed(others, "load", "model")
    folders = {each: find_model(each) for each in (name, *others)}
    engines = {each: engine_of(folder) for each, folder in folders.items()}
    made_for = engines[name]
    if engine not in (None, made_for):
        if made_for == "native":
            how = f"export it first: weft export --model {shlex.quote(str(name))} --to {engine} --output FOLDER"
            raise UsageError(f"{name} is a model for weft's own engine; {how}")
        raise UsageError(f"{name} was exported for {made_for}; for {engine} start from the model it was exported from")
    exported = {each: its for each, its in engines.items() if its != "native"}
    if others and exported:
        which = ", ".join(f"{each} was exported for {its}" for each, its in exported.items())
        raise UsageError(f"an ensemble is searched by weft's own engine; {which}")
    if made_for == "native":
        return load_translator(name, overrides, others=others)
    return load_exported(folders[name], overrides)


def load_exported(folder: Path, overrides: Sequence[str] = ()) -> "ExportedTranslator":
    """Check an exported folder and load its translator.

    Raises ModelError with every file that is missing, altered or inconsistent, MissingExtraError without the engine's
    library, and RecipeError for settings that the engine does not support.
    """
    export, model = check_exported(folder)
    if overrides:
        model.resolved = override(model.resolved, overrides, f"the recipe of {folder}", CHANGEABLE)
    return ExportedTranslator(folder, export, model)


class ExportedTranslator(Translator):
    """A translator whose model runs on another engine, on the CPU."""

    has_attention = False

    def __init__(self, folder: Path, export: Export, model: TranslationModel) -> None:
        """The network of `model` is not used and may be on the meta device."""
        self.model, self.members = model, (model,)
        self.device = torch.device("cpu")
        self.decoding = model.recipe.decoding
        self.folder, self.export, self.folders = folder, export, (folder,)
        check_decoding(export.engine, self.decoding, folder)
        threads = min(torch.get_num_threads(), choose_threads())
        self.engine = ENGINES[export.engine](folder, threads=threads)
        sizes = model.vocabularies["source"].vocab_size, model.vocabularies["target"].vocab_size
        if self.engine.vocab_sizes != sizes:
            what = f"has vocabularies of {self.engine.vocab_sizes} pieces, the tokenizers have {sizes}"
            raise ModelError(folder, [Problem("the engine", what)])

    def searches_at_once(self) -> int:
        return 1  # the engine has threads of its own

    def longest_sentence(self) -> int:
        return self.export.longest

    def _check_constraints(self, config: DecodingConfig) -> None:
        if isinstance(self.engine, CTranslate2Engine):
            self._reject_constraints()
        super()._check_constraints(config)

    def _reject_constraints(self) -> NoReturn:
        raise UsageError(
            "CTranslate2 takes neither a glossary nor phrases nor a prefix as weft does; use the model that "
            f"{self.folder} was made of, or its export for onnx"
        )

    def _search_steps(
        self, read: Sequence[Sentences], indices: np.ndarray, config: DecodingConfig, best: int, demands: Demands
    ) -> Searching[list[list[Hypothesis]]]:
        check_decoding(self.export.engine, config, self.folder)
        if isinstance(self.engine, CTranslate2Engine):
            (sources,) = read
            self._check_positions(sources, indices)
            if demands:
                self._reject_constraints()
            return self._search_by_ctranslate2(self.engine, sources, indices, config, best)
        return (yield from super()._search_steps(read, indices, config, best, demands))

    def _start(self, read: Sequence[Sentences], indices: np.ndarray, rows: int) -> tuple[StepFunction, int | None]:
        if not isinstance(self.engine, OnnxEngine):
            raise UsageError(
                "CTranslate2 searches on its own and does not return single steps, so it cannot give alternatives; use "
                f"the model that {self.folder} was made of, or its export for onnx"
            )
        self._check_positions(read[0], indices)
        source = torch.from_numpy(read[0].padded(indices))
        return self.engine.start(source, rows), self.export.longest - 1  # <s> takes a place

    def _check_positions(self, sources: Sentences, indices: np.ndarray) -> None:
        if (most := int(sources.lengths[indices].max())) > self.export.longest:
            raise UsageError(
                f"a sentence of {most:,} tokens is longer than the {self.export.longest:,} that this export has "
                "positions for; split it, or use the model it was exported from"
            )

    def _search_by_ctranslate2(
        self,
        engine: CTranslate2Engine,
        sources: Sentences,
        indices: np.ndarray,
        config: DecodingConfig,
        best: int,
    ) -> list[list[Hypothesis]]:
        """Translate all sentences of one length power in one call, and again those whose translations were too long.

        The engine takes one maximum length per batch. A search that completes its hypotheses before the sentence's own
        maximum gives the same result under a larger one; most searches do.
        """
        lengths = sources.lengths[indices] - 1
        most = config.max_lengths(torch.from_numpy(lengths)).clamp(max=self.export.longest - 1).tolist()
        if best > 1 and config.method == "beam" and config.stopping == "exact":
            what = "gives one translation per sentence in CTranslate2; for several try --set decoding.stopping=first-k"
            raise RecipeError(f"decoding with {self.folder}", [Problem('decoding.stopping = "exact"', what)])
        beam_size = config.rows(1)
        finished = math.ceil(config.patience * beam_size)
        found: dict[int, list[Answer]] = {}

        def search(wanted: Mapping[int, tuple[float, int]]) -> None:
            """Search the sentences at these indices with these length powers and maximum lengths."""
            groups: dict[tuple[float, int], list[int]] = {}
            for place, key in wanted.items():
                groups.setdefault(key, []).append(place)
            for (power, longest), places in groups.items():
                answers = engine.translate(
                    [sources[int(indices[place])].tolist() for place in places],
                    ctranslate2.Search(beam_size, power, longest, finished),
                    best=beam_size,
                    batch_tokens=max(1, config.batch_tokens // beam_size),
                )
                found.update(zip(places, answers, strict=True))

        own = dict(enumerate(zip([length_power(config, length) for length in lengths.tolist()], most, strict=True)))
        largest = {power: longest for power, longest in sorted(own.values())}
        # The answers do not show how long the search was if it finishes more hypotheses than the beam or stops when
        # no better one is possible.
        if finished <= beam_size and (beam_size == 1 or 0.0 not in largest):
            search({place: (power, largest[power]) for place, (power, _) in own.items()})
        search({place: key for place, key in own.items() if not has_ended(found.get(place, []), key[1])})
        return [[Hypothesis(*answer) for answer in found[place][:best]] for place in own]


def has_ended(answers: Sequence[Answer], longest: int) -> bool:
    """Whether all hypotheses of a search under a larger maximum are shorter than `longest`."""
    return bool(answers) and all(len(answer.tokens) < longest for answer in answers)


def length_power(config: DecodingConfig, source_length: int) -> float:
    """The p for which CTranslate2's score log_prob / length^p ranks hypotheses like weft's length penalty.

    With p = 0 it stops as soon as no better hypothesis is possible, like stopping = "exact".
    """
    if config.method == "greedy" or (config.length_penalty == "none" and config.stopping == "exact"):
        return 0.0
    power = {
        "none": 0.0,
        "average": 1.0,
        "fixed": config.length_power,
        "adaptive": 0.5 + 0.01 * min(source_length, 30),
    }[config.length_penalty]
    return power or ctranslate2.NO_POWER


def check_decoding(engine: str, config: DecodingConfig, subject: str | Path) -> None:
    """Raise RecipeError with all decoding settings that the engine does not support."""
    if problems := list(unsupported_settings(engine, config)):
        raise RecipeError(f"decoding with {subject} by {engine}", problems)


def check_methods(translator: Translator, methods: Mapping[str, DecodingConfig]) -> None:
    """Raise RecipeError if one of these named decodings has settings with which the translator cannot search, and the
    errors of `load_language_model`."""
    problems = [
        Problem(f"{name}: {problem.where}", problem.what)
        for name, config in methods.items()
        for problem in unusable_settings(translator, config)
    ]
    if problems:
        by = f" by {translator.export.engine}" if isinstance(translator, ExportedTranslator) else ""
        raise RecipeError(f"decoding with {' + '.join(map(str, translator.folders))}{by}", problems)
    for config in methods.values():
        if config.language_model is not None:
            load_language_model(config.language_model, translator.model.vocabularies["target"])


def unusable_settings(translator: Translator, config: DecodingConfig) -> Iterator[Problem]:
    if isinstance(translator, ExportedTranslator):
        yield from unsupported_settings(translator.export.engine, config)
    elif len(translator.members) > 1 and config.coverage_penalty and config.method != "greedy" and not config.draws:
        what = "needs the attention of one model, which an ensemble does not have"
        yield Problem(f"decoding.coverage_penalty = {config.coverage_penalty}", what)


def unsupported_settings(engine: str, config: DecodingConfig) -> Iterator[Problem]:
    if config.precision == "bf16":
        what = "is for weft's own engine; an export computes in what it was made for; try --set decoding.precision=auto"
        yield Problem('decoding.precision = "bf16"', what)
    if engine == "ctranslate2":
        yield from unsupported_by_ctranslate2(config)
    elif config.coverage_penalty:
        what = "needs attention, which the exported graphs do not return; try --set decoding.coverage_penalty=0"
        yield Problem(f"decoding.coverage_penalty = {config.coverage_penalty}", what)


def unsupported_by_ctranslate2(config: DecodingConfig) -> Iterator[Problem]:
    """Yield the settings for which CTranslate2's own search would differ from weft's."""
    if config.method not in ("greedy", "beam"):
        what = "is not a search that CTranslate2 performs like weft; try --set decoding.method=beam or =greedy"
        yield Problem(f'decoding.method = "{config.method}"', what)
    if config.method == "beam":
        if config.length_penalty == "gnmt":
            what = "is not supported by CTranslate2; try --set decoding.length_penalty=adaptive or =fixed"
            yield Problem('decoding.length_penalty = "gnmt"', what)
        if config.stopping == "exact" and config.length_penalty != "none":
            what = "is not supported by CTranslate2 with a length penalty; try --set decoding.stopping=first-k"
            yield Problem('decoding.stopping = "exact"', what)
        if config.beam_size == 1 and config.patience > 1:
            what = "needs several hypotheses; with beam_size = 1, CTranslate2 stops at the first"
            yield Problem(f"decoding.patience = {config.patience}", what)
    for name, field in DecodingConfig.model_fields.items():
        value, default = getattr(config, name), field.get_default()
        if name not in CTRANSLATE2_FOLLOWS and value != default:
            remedy = f"try --set decoding.{name}={json.dumps(default)}, or ONNX"
            what = f"does not work in CTranslate2 as in weft; {remedy}"
            yield Problem(f"decoding.{name} = {json.dumps(value)}", what)
