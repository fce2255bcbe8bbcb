"""Models as Marian itself writes them.

    decoder.yml                 which files belong together, and how they are decoded
    *.npz                       the weights, and under special:model.yml the settings
    *.yml, source.spm, ...      a list of tokens with their ids, and the SentencePiece models (as OPUS-MT packs them)
    *.spm                       or SentencePiece models whose own ids are the tokens'

Marian has no token that begins a translation: the decoder is first given zeros. Its positions have waves that are a
little longer than the paper's: wave i of n takes 10,000^(i / (n - 1)) steps a radian, where weft counts period^(i / n).
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from weft.errors import ModelError, Problem
from weft.importing.foreign import (
    Foreign,
    ForeignVocabulary,
    Layers,
    Stated,
    Width,
    attention_parts,
    feed_forward_parts,
    in_order,
    stacked,
    validated,
)
from weft.importing.marian import SOURCE_MODEL, TARGET_MODEL, sines_first
from weft.importing.opening import LARGEST_SETTINGS, check_files, parse_yaml, read_npz, read_text, read_yaml
from weft.importing.pieces import LANGUAGE_TAG, read_model
from weft.text.vocabulary import MOST_TOKENS

DECODER = "decoder.yml"
SETTINGS = "special:model.yml"
END, UNKNOWN = "</s>", "<unk>"
PADDING = "<pad>"
"""A token that is added with an embedding of zeros; it begins a translation."""
ACTIVATIONS = {"relu": "relu", "swish": "silu"}
"""Names in Marian of the activations that weft has; its gelu is another function."""
NORM_EPSILON = 1e-6

FEED_FORWARD = feed_forward_parts("ffn.1", "ffn.2", "ffn_ffn.norm")
ENCODER_LAYER = {**attention_parts("attention", "self.{}", "qkvo", "self_Wo.norm"), **FEED_FORWARD}
DECODER_LAYER = {
    **attention_parts("self_attention", "self.{}", "qkvo", "self_Wo.norm"),
    **attention_parts("cross_attention", "context.{}", "qkvo", "context_Wo.norm"),
    **FEED_FORWARD,
}


class DecoderConfig(Stated):
    """decoder.yml"""

    models: list[str] = Field(min_length=1)
    vocabs: list[str] = Field(min_length=1)
    beam_size: int = Field(default=12, ge=1, alias="beam-size")
    normalize: float = 0.0
    word_penalty: float = Field(default=0.0, alias="word-penalty")
    allow_unk: bool = Field(default=False, alias="allow-unk")
    output_sampling: Any = Field(default=None, alias="output-sampling")
    force_decode: bool = Field(default=False, alias="force-decode")
    no_spm_encode: bool = Field(default=False, alias="no-spm-encode")


class MarianSettings(Stated):
    """Settings in the archive of the weights."""

    type: str
    dim_emb: Width = Field(alias="dim-emb")
    enc_depth: Layers = Field(alias="enc-depth")
    dec_depth: Layers = Field(alias="dec-depth")
    heads: int = Field(alias="transformer-heads")
    dim_ffn: Width = Field(alias="transformer-dim-ffn")
    decoder_dim_ffn: int = Field(default=0, alias="transformer-decoder-dim-ffn")
    ffn_depth: int = Field(default=2, alias="transformer-ffn-depth")
    activation: str = Field(default="swish", alias="transformer-ffn-activation")
    autoreg: str = Field(default="self-attention", alias="transformer-decoder-autoreg")
    right_left: bool = Field(default=False, alias="right-left")
    input_reorder: list[int] | None = Field(default=None, alias="input-reorder")
    no_projection: bool = Field(default=False, alias="transformer-no-projection")
    pool: bool = Field(default=False, alias="transformer-pool")
    no_positions: bool = Field(default=False, alias="transformer-disable-position-embeddings")
    train_positions: bool = Field(default=False, alias="transformer-train-positions")
    tied_layers: list[int] = Field(default=[], alias="transformer-tied-layers")
    tied_embeddings: bool = Field(default=False, alias="tied-embeddings")
    tied_embeddings_all: bool = Field(default=False, alias="tied-embeddings-all")
    output_omit_bias: bool = Field(default=False, alias="output-omit-bias")
    preprocess: str = Field(default="", alias="transformer-preprocess")
    postprocess: str = Field(default="dan", alias="transformer-postprocess")
    postprocess_top: str = Field(default="", alias="transformer-postprocess-top")
    postprocess_emb: str = Field(default="d", alias="transformer-postprocess-emb")

    @property
    def norm(self) -> str | None:
        """Where the norms are in weft's terms, "pre" or "post"; None for any other order."""
        order = f"{self.preprocess}, {self.postprocess}, {self.postprocess_top}".replace("d", "")
        return {", an, ": "post", "n, a, n": "pre"}.get(order)


def read_marian_npz(folder: Path) -> Foreign:
    """Read a folder. Raises ModelError with everything that is missing or that weft cannot represent."""
    check_files(folder, settings=[DECODER])
    decoder = validated(DecoderConfig, read_yaml(folder, DECODER), folder, f"{DECODER}: ")
    weights, lists = PurePosixPath(decoder.models[0]).name, [PurePosixPath(name).name for name in decoder.vocabs]
    source_ids, target_ids = lists[0], lists[-1]
    cutters = [SOURCE_MODEL, TARGET_MODEL] if source_ids.endswith((".yml", ".yaml")) else [source_ids, target_ids]
    files = check_files(folder, vocabularies=[*lists, *cutters], weights=[weights])
    arrays = read_npz(folder, weights)
    settings = settings_in(folder, weights, arrays)
    problems = list(refusals(decoder, settings, weights))
    vocabularies = [
        read_vocabulary(folder, ids, cutter, problems)
        for ids, cutter in zip((source_ids, target_ids), cutters, strict=True)
    ]
    source, target = vocabularies
    if problems or source is None or target is None:
        raise ModelError(folder, list(dict.fromkeys(problems)))
    return described(decoder, settings, source, target, tensors_of(arrays), files=(DECODER, *files))


def settings_in(folder: Path, weights: str, arrays: dict[str, np.ndarray]) -> MarianSettings:
    where = f"{weights}: {SETTINGS}"
    if SETTINGS not in arrays:
        raise ModelError(folder, [Problem(where, "is missing, so this is not an archive of Marian's")])
    text = arrays.pop(SETTINGS).tobytes().decode("utf-8", errors="replace").rstrip("\0")
    if len(text) > LARGEST_SETTINGS:
        raise ModelError(folder, [Problem(where, f"has {len(text):,} characters, more than settings take")])
    return validated(MarianSettings, parse_yaml(folder, where, text), folder, f"{where}: ")


def refusals(decoder: DecoderConfig, settings: MarianSettings, weights: str) -> Iterator[Problem]:
    """Yield the settings that weft's Transformer cannot represent."""
    if len(decoder.models) > 1:
        yield Problem(
            f"{DECODER}: models", f"are {len(decoder.models)}, an ensemble; leave one, and import each by itself"
        )
    if decoder.word_penalty:
        yield Problem(
            f"{DECODER}: word-penalty", f"is {decoder.word_penalty}; weft can reward words, but not penalize them"
        )
    if decoder.output_sampling:
        yield Problem(f"{DECODER}: output-sampling", "is set; weft imports models that search, so remove it there")
    for key, is_set in {"force-decode": decoder.force_decode, "no-spm-encode": decoder.no_spm_encode}.items():
        if is_set:
            yield Problem(f"{DECODER}: {key}", "is true; weft imports models that read and write plain text")
    wanted = {
        "type": (settings.type, "transformer"),
        "transformer-decoder-autoreg": (settings.autoreg, "self-attention"),
        "right-left": (settings.right_left, False),
        "input-reorder": (settings.input_reorder or [], []),
        "transformer-no-projection": (settings.no_projection, False),
        "transformer-pool": (settings.pool, False),
        "transformer-disable-position-embeddings": (settings.no_positions, False),
        "transformer-train-positions": (settings.train_positions, False),
        "transformer-tied-layers": (settings.tied_layers, []),
        "transformer-ffn-depth": (settings.ffn_depth, 2),
        "transformer-decoder-dim-ffn": (settings.decoder_dim_ffn or settings.dim_ffn, settings.dim_ffn),
        "transformer-postprocess-emb": (settings.postprocess_emb.replace("d", ""), ""),
    }
    for key, (found, expected) in wanted.items():
        if found != expected:
            yield Problem(f"{weights}: {key}", f"is {found!r}; weft has {expected!r}")
    if settings.activation not in ACTIVATIONS:
        what = f"is {settings.activation}; weft has {' and '.join(ACTIVATIONS)}"
        yield Problem(f"{weights}: transformer-ffn-activation", what)
    if settings.norm is None:
        what = (
            f"with -postprocess and -postprocess-top are {settings.preprocess!r}, {settings.postprocess!r} and "
            f"{settings.postprocess_top!r}; weft has '', 'dan', '' and 'n', 'da', 'n'"
        )
        yield Problem(f"{weights}: transformer-preprocess", what)


def read_vocabulary(folder: Path, ids_file: str, model_file: str, problems: list[Problem]) -> ForeignVocabulary | None:
    """Read a vocabulary; None if something is wrong with it."""
    model = (folder / model_file).read_bytes()
    try:
        if ids_file == model_file:
            tokens = [piece.piece for piece in read_model(model).pieces]
        else:
            tokens = listed_tokens(folder, ids_file)
    except ValueError as error:
        problems.append(Problem(ids_file, str(error)))
        return None
    if missing := [token for token in (END, UNKNOWN) if token not in tokens]:
        problems.append(Problem(ids_file, f"lacks {' and '.join(missing)}"))
        return None
    return ForeignVocabulary(
        tokens=(*tokens, PADDING),
        model=model,
        model_file=model_file,
        padding=len(tokens),
        unknown=tokens.index(UNKNOWN),
        begin=len(tokens),
        end=tokens.index(END),
        tags=frozenset(token for token in tokens if LANGUAGE_TAG.fullmatch(token)),
    )


def listed_tokens(folder: Path, name: str) -> list[str]:
    """Read a mapping from tokens to ids. Raises ValueError if the ids are not 0, 1, 2, ..."""
    text = read_text(folder, name)
    if text.count(":") > 2 * MOST_TOKENS:
        raise ValueError(f"has {text.count(':'):,} colons; a vocabulary has at most {MOST_TOKENS:,} tokens")
    found = parse_yaml(folder, name, text, only_text=True)
    numbers = {token: id if isinstance(id, str) else "" for token, id in found.items()}
    return in_order({token: int(id) if re.fullmatch(r"\d{1,9}", id) else None for token, id in numbers.items()})


def tensors_of(arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    """Rename arrays to end with weight and bias, transpose matrices to PyTorch's layout and add a row of zeros to
    embeddings."""
    tensors = {}
    for name, array in arrays.items():
        tensor = torch.from_numpy(array)
        if name.endswith("Wemb") or name.endswith("_Wt"):
            tensor = torch.nn.functional.pad(tensor, (0, 0, 0, 1)) if tensor.dim() == 2 else tensor
        elif name == "decoder_ff_logit_out_W":
            tensor = torch.nn.functional.pad(tensor.T, (0, 0, 0, 1)) if tensor.dim() == 2 else tensor
        elif name == "decoder_ff_logit_out_b":
            tensor = torch.nn.functional.pad(tensor.flatten(), (0, 1))
        elif found := re.fullmatch(r"(.+)_(W|b)([qkvo12])", name):
            name = f"{found[1]}.{found[3]}.{'weight' if found[2] == 'W' else 'bias'}"
            tensor = tensor.T if found[2] == "W" and tensor.dim() == 2 else tensor.flatten()
        elif found := re.fullmatch(r"(.+)_ln_(scale|bias)(_pre)?", name):
            name, tensor = f"{found[1]}.norm.{'weight' if found[2] == 'scale' else 'bias'}", tensor.flatten()
        tensors[name] = tensor
    return tensors


def described(
    decoder: DecoderConfig,
    settings: MarianSettings,
    source: ForeignVocabulary,
    target: ForeignVocabulary,
    tensors: dict[str, Tensor],
    files: tuple[str, ...],
) -> Foreign:
    """Describe the model in weft's terms."""
    source_embedding, target_embedding = (
        name if name in tensors else "Wemb" for name in ("encoder_Wemb", "decoder_Wemb")
    )
    is_tied = settings.tied_embeddings or settings.tied_embeddings_all
    own_output = "decoder_ff_logit_out_Wt" if "decoder_ff_logit_out_Wt" in tensors else "decoder_ff_logit_out_W"
    top = {"encoder_norm": ("encoder_top.norm",), "decoder_norm": ("decoder_top.norm",)}
    return Foreign(
        framework="Marian",
        languages=(None, None),
        settings={
            "model.model_dim": settings.dim_emb,
            "model.num_heads": settings.heads,
            "model.encoder_layers": settings.enc_depth,
            "model.decoder_layers": settings.dec_depth,
            "model.ff_dim": settings.dim_ffn,
            "model.activation": ACTIVATIONS[settings.activation],
            "model.norm": settings.norm,
            "model.norm_epsilon": NORM_EPSILON,
            "model.positions": "scaled-sinusoidal",
            "model.max_positions": longest_wave(settings.dim_emb),
            "decoding.method": "greedy" if decoder.beam_size == 1 else "beam",
            "decoding.beam_size": decoder.beam_size,
            "decoding.length_penalty": "fixed" if decoder.normalize else "none",
            "decoding.length_power": decoder.normalize,
        },
        source=source,
        target=target,
        layers={
            **stacked("encoder", "encoder_l{count}_", settings.enc_depth, ENCODER_LAYER),
            **stacked("decoder", "decoder_l{count}_", settings.dec_depth, DECODER_LAYER),
            **(top if settings.norm == "pre" else {}),
        },
        source_embedding=source_embedding,
        target_embedding=target_embedding,
        output=target_embedding if is_tied else own_output,
        output_bias=None if settings.output_omit_bias else "decoder_ff_logit_out_b",
        tensors=tensors,
        files=files,
        order=sines_first(settings.dim_emb),
        never=frozenset({target.padding} if decoder.allow_unk else {target.padding, target.unknown}),
    )


def longest_wave(model_dim: int) -> int:
    """weft's model.max_positions for Marian's positions: period^(1 / n) = 10,000^(1 / (n - 1)), n waves."""
    waves = max(2, model_dim // 2)
    return round(2 * math.pi * 10_000 ** (waves / (waves - 1)))
