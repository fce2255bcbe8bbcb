"""A model in ONNX, run by ONNX Runtime as a step function, so that any search of weft's can use it.

Two graphs. encoder.onnx turns sources into keys and values, step.onnx the newest token of every row into the
log-probabilities of the one that follows; l counts the decoder's layers from 0.

    encoder.onnx  tokens (sentences, source)
               -> source_mask (sentences, source), True for tokens other than padding
                  source_key_l (sentences, heads, head_dim, source), source_value_l (sentences, heads, source, head_dim)
    step.onnx     tokens (sentences, rows_per_sentence), and the outputs of the encoder
                  key_l (rows, heads, head_dim, time), value_l (rows, heads, time, head_dim), at first with time 0
               -> log_probs (rows, vocab), new_key_l and new_value_l of one more time step

A recurrent model has source_key and source_value (sentences, source, width) and begin_n (sentences, width) in place of
the former, and state_n (rows, time, width) in place of the latter, of which new_state_n is one time step.

Each names in its metadata, as vocab_size, how many tokens it knows. Knows no text and no search.
"""

import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from weft.errors import ModelError, Problem, WeftError, needing, says_no_memory

ENCODER, STEP = "encoder.onnx", "step.onnx"
FILES = (ENCODER, STEP)


CACHES = ("key_", "value_", "state_")
"""How the names begin of what a step hands to the next."""

LARGEST_DIMENSION = 1 << 16
"""Bound of the fixed dimensions of the keys and values of one step."""


class OnnxEngine:
    """One exported model, on the CPU."""

    def __init__(self, folder: Path, *, threads: int) -> None:
        """Open both graphs. Raises MissingExtraError without the library, ModelError for an unreadable file."""
        self.encoder = open_session(folder, ENCODER, threads)
        self.decoder = open_session(folder, STEP, threads)
        shapes = {tensor.name: tensor.shape for tensor in self.decoder.get_inputs()}
        caches = {name: shape for name, shape in shapes.items() if name.startswith(CACHES)}
        if any(isinstance(dim, int) and dim > LARGEST_DIMENSION for shape in caches.values() for dim in shape):
            raise ModelError(folder, [Problem(STEP, "has keys and values larger than those of any model of weft")])
        self.no_caches = {
            name: np.zeros([dim if isinstance(dim, int) else 0 for dim in shape], dtype=np.float32)
            for name, shape in caches.items()
        }
        from_encoder = {tensor.name for tensor in self.encoder.get_outputs()}
        results = {tensor.name: tensor.shape for tensor in self.decoder.get_outputs()}
        if shapes.keys() != {"tokens", *from_encoder, *self.no_caches} or results.keys() != {
            "log_probs",
            *(f"new_{name}" for name in self.no_caches),
        }:
            raise ModelError(folder, [Problem(STEP, f"is not the step that belongs to {ENCODER}")])
        said = [
            session.get_modelmeta().custom_metadata_map.get("vocab_size", "")
            for session in (self.encoder, self.decoder)
        ]
        if not all(re.fullmatch(r"\d{1,9}", size) for size in said):
            raise ModelError(
                folder, [Problem(STEP, f"has no size of the vocabulary, or {ENCODER} has none; export it again")]
            )
        self.vocab_sizes = tuple(map(int, said))

    def start(self, source: Int[Tensor, "batch source"], rows_per_sentence: int = 1) -> "OnnxState":
        """Encode the source once and be ready to write `rows_per_sentence` hypotheses for each sentence."""
        names = [tensor.name for tensor in self.encoder.get_outputs()]
        found = run(self.encoder, names, {"tokens": source.numpy()})
        caches = {
            name: np.zeros((len(source) * rows_per_sentence, *empty.shape[1:]), dtype=empty.dtype)
            for name, empty in self.no_caches.items()
        }
        return OnnxState(self.decoder, dict(zip(names, found, strict=True)), caches, rows_per_sentence)


class OnnxState:
    """A step function over one batch: row r writes a hypothesis for sentence r // rows_per_sentence."""

    def __init__(
        self, decoder: Any, source: dict[str, np.ndarray], caches: dict[str, np.ndarray], rows_per_sentence: int
    ) -> None:
        self.decoder = decoder
        self.source = source
        self.caches = caches
        self.rows_per_sentence = rows_per_sentence

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Log-probabilities of the token that follows `tokens`, the newest token of every row."""
        given = {"tokens": tokens.view(-1, self.rows_per_sentence).numpy(), **self.source, **self.caches}
        names = list(self.caches)
        log_probs, *caches = run(self.decoder, ["log_probs", *(f"new_{name}" for name in names)], given)
        self.caches = dict(zip(names, caches, strict=True))
        return torch.from_numpy(log_probs)

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Let row i continue row rows[i]. Rows stay with their sentence; sentences may be dropped."""
        places = rows.numpy()
        sentences = places[:: self.rows_per_sentence] // self.rows_per_sentence
        self.caches = {name: cache[places] for name, cache in self.caches.items()}
        if len(sentences) < len(self.source["source_mask"]):
            self.source = {name: array[sentences] for name, array in self.source.items()}


def run(session: Any, names: list[str], given: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Compute these outputs of a graph. Raises WeftError if that fails, MemoryError if memory is short."""
    try:
        return session.run(names, given)
    except Exception as error:  # the library has a class for each way of failing, without a common one
        if says_no_memory(error):
            raise MemoryError(str(error)) from error
        raise WeftError(f"ONNX Runtime failed: {error}; the exported graphs may be damaged") from error


def open_session(folder: Path, name: str, threads: int) -> Any:
    """Open a graph from the bytes of its file; graphs with weights in other files are not read."""
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # torch uses the same cores in between
    options.log_severity_level = 4  # what is wrong is in the error
    try:
        with redirect_stdout(sys.stderr):  # where it fails it says so on stdout, too
            graph = (folder / name).read_bytes()
            return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # as in `run`
        raise ModelError(folder, [Problem(name, f"cannot be read by ONNX Runtime: {error}")]) from None


def import_onnxruntime() -> Any:
    """Import the library. Raises MissingExtraError if it is not installed."""
    with needing("ONNX Runtime", "export"):
        import onnxruntime  # pyright: ignore[reportMissingImports]
    return onnxruntime
