"""Translation by CTranslate2, an engine for Transformers written in C++: lists of ids in, lists of ids out.

Handles ids, not text. The engine searches by itself: greedily or with a beam that stops at the first finished
hypotheses, with scores divided by length^p. translating/exported.py says which of weft's settings
that covers.
"""

import json
import math
import os
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from weft.errors import ModelError, Problem, WeftError, is_out_of_memory, needing
from weft.runtime import processor_flags

WEIGHTS, SOURCE, TARGET = "model.bin", "source_vocabulary.json", "target_vocabulary.json"
FILES = (WEIGHTS, "config.json", SOURCE, TARGET)
END = "</s>"

NO_POWER = 1e-30
"""A power p with length^p = 1. With p = 0 the engine would stop as soon as nothing better can come."""


class Answer(NamedTuple):
    """A target sentence without </s>. log_prob is the sum over its pieces and </s>, score is log_prob / length^p."""

    tokens: tuple[int, ...]
    log_prob: float
    score: float


@dataclass(frozen=True)
class Search:
    """Settings of the engine's search."""

    beam_size: int
    """1 is greedy search."""
    length_power: float
    """The p of the scores. With 0 a sentence ends when nothing better than its one answer can come."""
    max_length: int
    """Longest answer in pieces; after that only </s> may follow, as in weft's own search."""
    finished: int
    """Unless p is 0, a sentence ends when this many hypotheses are finished."""


class CTranslate2Engine:
    """One exported model, on the CPU."""

    def __init__(self, folder: Path, *, threads: int) -> None:
        """Open a folder. Raises MissingExtraError without the library, ModelError if the folder is unreadable."""
        ctranslate2 = import_ctranslate2()
        self.source_pieces = read_pieces(folder, SOURCE)
        self.target_ids = {piece: number for number, piece in enumerate(read_pieces(folder, TARGET))}
        files = {name: (folder / name).read_bytes() for name in FILES}  # and no other file of the folder
        try:
            self.translator = ctranslate2.Translator(str(folder), device="cpu", intra_threads=threads, files=files)
        except (RuntimeError, ValueError) as error:
            raise ModelError(folder, [Problem(WEIGHTS, f"cannot be read by CTranslate2: {error}")]) from None

    @property
    def vocab_sizes(self) -> tuple[int, int]:
        """Pieces of the source and of the target."""
        return len(self.source_pieces), len(self.target_ids)

    def translate(
        self, sources: Sequence[Sequence[int]], search: Search, *, best: int = 1, batch_tokens: int = 4096
    ) -> list[list[Answer]]:
        """Up to `best` answers for each source, best first. Sources end with </s>."""
        spelled = [[self.source_pieces[number] for number in source[:-1]] for source in sources]  # it adds </s> itself
        count = 1 if search.length_power == 0 else min(search.beam_size, search.finished)
        answers = []
        for source, found in zip(spelled, self._search(spelled, search, count, batch_tokens), strict=True):
            if any(pieces[-1:] != [END] for pieces, _ in found):
                found = self._end(source, found, search)
            ranked = sorted((self._answer(*one, search.length_power) for one in found), key=lambda a: -a.score)
            answers.append(ranked[:best])
        return answers

    def _search(
        self, sources: Sequence[list[str]], search: Search, count: int, batch_tokens: int = 0
    ) -> list[list[tuple[list[str], float]]]:
        """Return the `count` best hypotheses of each source, pieces with </s>, with their log-probabilities."""
        try:
            results = self.translator.translate_batch(
                sources,
                beam_size=search.beam_size,
                patience=search.finished / search.beam_size,
                num_hypotheses=count,
                length_penalty=search.length_power,
                max_input_length=0,  # anything else cuts sources without a word
                max_decoding_length=search.max_length,
                min_decoding_length=0,  # its default of 1 would take </s> out of the first step
                return_end_token=True,  # so that </s> counts in the lengths, as it does in weft
                return_scores=True,
                max_batch_size=batch_tokens,
                batch_type="tokens",
            )
        except (RuntimeError, ValueError, IndexError) as error:  # the last if probabilities are NaN
            if is_out_of_memory(error):
                raise
            raise WeftError(f"CTranslate2 failed: {error}; the exported weights may be damaged") from error
        if any(math.isnan(score) for result in results for score in result.scores):
            raise WeftError("CTranslate2 returned NaN for a probability; the exported weights are damaged")
        return [
            [
                (pieces, score * len(pieces) ** search.length_power)
                for pieces, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]

    def _end(
        self, source: list[str], found: list[tuple[list[str], float]], search: Search
    ) -> list[tuple[list[str], float]]:
        """End every hypothesis of a sentence that reached its maximum length with </s>.

        There the engine ranks unfinished hypotheses among the finished ones without the log-probability of their </s>,
        and drops the last. So all hypotheses are requested, and then the scores of the unfinished ones with </s>.
        """
        if search.beam_size > 1:
            everything = search.finished + search.beam_size
            to_the_end = replace(search, finished=everything, length_power=search.length_power or NO_POWER)
            found = self._search([source], to_the_end, everything)[0]
        ended = [(pieces, log_prob) for pieces, log_prob in found if pieces[-1:] == [END]]
        if len(ended) >= search.finished and search.length_power:
            return ended
        opened = [pieces for pieces, _ in found if pieces[-1:] != [END]]
        scored = self.translator.score_batch([source] * len(opened), opened, max_input_length=0)
        return ended + [([*pieces, END], sum(result.log_probs)) for pieces, result in zip(opened, scored, strict=True)]

    def _answer(self, pieces: list[str], log_prob: float, length_power: float) -> Answer:
        tokens = tuple(self.target_ids[piece] for piece in pieces[:-1])
        return Answer(tokens, log_prob, log_prob / len(pieces) ** length_power)


def read_pieces(folder: Path, name: str) -> list[str]:
    """Read a vocabulary of the engine, the piece of each id. Raises ModelError for anything else."""
    try:
        pieces = json.loads((folder / name).read_text(encoding="utf-8"))
        if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
            raise ValueError("it is not a list of pieces")
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(folder, [Problem(name, f"cannot be read: {error}")]) from None
    return pieces


def import_ctranslate2() -> Any:
    """Import the library. Raises MissingExtraError if it is not installed."""
    choose_products(processor_flags())
    with needing("CTranslate2", "export"):
        import ctranslate2  # pyright: ignore[reportMissingImports]
    return ctranslate2


def choose_products(flags: Set[str]) -> None:
    """Select MKL for int8 products on x86 processors without VNNI, unless the environment says otherwise.

    oneDNN, the engine's choice on AMD, adds pairs of products in 16 bits there, which overflow: one text in eight
    differs from fp32, with MKL one in twenty.
    """
    if "avx2" in flags and not flags & {"avx512_vnni", "avx_vnni"}:
        os.environ.setdefault("CT2_USE_MKL", "1")
