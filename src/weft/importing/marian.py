"""Marian and OPUS-MT models as Hugging Face's transformers library keeps them.

config.json, generation_config.json     shape and decoding
model.safetensors or pytorch_model.bin  the weights
source.spm, target.spm, vocab.json      pieces, and their ids; target_vocab.json where the languages have their own
tokenizer_config.json                   the languages, if it tells them
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, Field, ValidationError
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
    problems_of,
    stacked,
)
from weft.importing.opening import check_files, plain_tensors, read_json, read_safetensors, read_torch
from weft.importing.pieces import LANGUAGE_TAG
from weft.text.language import code_of

CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "tokenizer_config.json"
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"
SAFE_WEIGHTS, TORCH_WEIGHTS = "model.safetensors", "pytorch_model.bin"

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}
"""Names in transformers of the activations that weft has."""

LETTERS = ("q", "k", "v", "out")
FEED_FORWARD = feed_forward_parts("fc1", "fc2", "final_layer_norm")
ENCODER_LAYER = {
    **attention_parts("attention", "self_attn.{}_proj", LETTERS, "self_attn_layer_norm"),
    **FEED_FORWARD,
}
DECODER_LAYER = {
    **attention_parts("self_attention", "self_attn.{}_proj", LETTERS, "self_attn_layer_norm"),
    **attention_parts("cross_attention", "encoder_attn.{}_proj", LETTERS, "encoder_attn_layer_norm"),
    **FEED_FORWARD,
}


class MarianConfig(Stated):
    """config.json, with the defaults of the class in transformers."""

    d_model: Width = 1024
    encoder_layers: Layers = 12
    decoder_layers: Layers = 12
    encoder_attention_heads: int = 16
    decoder_attention_heads: int = 16
    encoder_ffn_dim: Width = 4096
    decoder_ffn_dim: Width = 4096
    activation_function: str = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    vocab_size: int = 58101
    decoder_vocab_size: int | None = None
    pad_token_id: int = 58100
    eos_token_id: int = 0
    decoder_start_token_id: int = 58100
    scale_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    # Options of BART that transformers' Marian does not compute.
    normalize_before: bool = False
    normalize_embedding: bool = False
    add_final_layer_norm: bool = False
    static_position_embeddings: bool = True


class Unsupported(Stated):
    """Options that would change translations and that weft does not have, with the values that change nothing."""

    min_new_tokens: int = 0
    suppress_tokens: list[int] = Field(default=[])
    begin_suppress_tokens: list[int] = Field(default=[])
    forced_bos_token_id: int | list[int] | None = None
    sequence_bias: Any = None
    force_words_ids: Any = None
    encoder_no_repeat_ngram_size: int = 0
    encoder_repetition_penalty: float = 1.0


class GenerationConfig(Unsupported):
    """generation_config.json, or in older folders config.json."""

    num_beams: int = Field(default=1, ge=1)
    length_penalty: float = 1.0
    bad_words_ids: list[list[int]] | None = None
    min_length: int = Field(default=0, ge=0, le=1_000_000)
    """Tokens with the one that a translation begins with, and without </s>."""
    no_repeat_ngram_size: int = Field(default=0, ge=0)
    repetition_penalty: float = Field(default=1.0, gt=0)
    do_sample: bool = False
    num_beam_groups: int = 1


def read_marian(folder: Path) -> Foreign:
    """Read a folder. Raises ModelError with everything that is missing or that weft cannot represent."""
    weights = SAFE_WEIGHTS if (folder / SAFE_WEIGHTS).exists() else TORCH_WEIGHTS
    settings = [CONFIG, *(name for name in (GENERATION, TOKENIZER) if (folder / name).exists())]
    vocabularies = [VOCABULARY, SOURCE_MODEL, TARGET_MODEL]
    vocabularies += [TARGET_VOCABULARY] if (folder / TARGET_VOCABULARY).exists() else []
    files = check_files(folder, settings=settings, vocabularies=vocabularies, weights=[weights])
    said = {name: read_json(folder, name) for name in settings}
    config, generation = checked_settings(folder, said[CONFIG], said.get(GENERATION, {}))
    of_tokenizer = said.get(TOKENIZER, {})
    problems = list(refusals(config, generation))
    source = read_vocabulary(folder, VOCABULARY, SOURCE_MODEL, config, config.vocab_size, of_tokenizer, problems)
    is_own = TARGET_VOCABULARY in vocabularies and not config.share_encoder_decoder_embeddings
    target_ids = TARGET_VOCABULARY if is_own else VOCABULARY
    target_size = config.decoder_vocab_size or config.vocab_size
    target = read_vocabulary(folder, target_ids, TARGET_MODEL, config, target_size, of_tokenizer, problems)
    if problems or source is None or target is None:
        raise ModelError(folder, list(dict.fromkeys(problems)))
    if weights == SAFE_WEIGHTS:
        tensors = read_safetensors(folder, weights)
    else:
        tensors = plain_tensors(folder, read_torch(folder, weights))
    languages = language_of(of_tokenizer, "source_lang"), language_of(of_tokenizer, "target_lang")
    return described(config, generation, languages, source, target, tensors, tuple(files))


def checked_settings(
    folder: Path, config: dict[str, Any], generation: dict[str, Any]
) -> tuple[MarianConfig, GenerationConfig]:
    if (kind := config.get("model_type")) != "marian":
        raise ModelError(folder, [Problem(f"{CONFIG}: model_type", f"is {kind!r}; weft imports marian")])
    config, generation = ({key: value for key, value in of.items() if value is not None} for of in (config, generation))
    settings: dict[type[BaseModel], dict[str, Any]] = {MarianConfig: config, GenerationConfig: {**config, **generation}}
    problems = []
    for kind, values in settings.items():
        own = generation if kind is GenerationConfig else {}
        try:
            kind.model_validate(values)
        except ValidationError as error:
            for problem in problems_of(error):
                file = GENERATION if problem.where.partition(".")[0] in own else CONFIG
                problems.append(Problem(f"{file}: {problem.where}", problem.what))
    if problems:
        raise ModelError(folder, problems)
    return MarianConfig.model_validate(config), GenerationConfig.model_validate(settings[GenerationConfig])


def refusals(config: MarianConfig, generation: GenerationConfig) -> Iterator[Problem]:
    """Yield the settings that weft's Transformer cannot represent."""
    if config.activation_function not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        yield Problem(f"{CONFIG}: activation_function", f"is {config.activation_function!r}; weft has {known}")
    for what in ("attention_heads", "ffn_dim"):
        ours, theirs = getattr(config, f"encoder_{what}"), getattr(config, f"decoder_{what}")
        if ours != theirs:
            yield Problem(f"{CONFIG}: decoder_{what}", f"is {theirs}, the encoder's is {ours}; weft has one for both")
    for what in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        if getattr(config, what):
            yield Problem(f"{CONFIG}: {what}", "is true, which transformers' own Marian does not compute either")
    if not config.static_position_embeddings:
        yield Problem(f"{CONFIG}: static_position_embeddings", "is false; only sinusoidal positions can be imported")
    if generation.do_sample:
        yield Problem("do_sample", "is true; weft imports models that search, set decoding.method afterwards")
    if generation.num_beam_groups != 1:
        yield Problem("num_beam_groups", f"is {generation.num_beam_groups}; set decoding.diverse_groups afterwards")
    for key, field in Unsupported.model_fields.items():
        if (value := getattr(generation, key)) != field.default:
            yield Problem(f"{GENERATION}: {key}", f"is {value!r:.100}, which weft cannot represent; remove it there")
    forbidden, size = generation.bad_words_ids or (), config.decoder_vocab_size or config.vocab_size
    if any(len(words) != 1 for words in forbidden):
        yield Problem("bad_words_ids", "forbids words of several pieces, which weft does not")
    elif unknown := [word for (word,) in forbidden if not 0 <= word < size]:
        yield Problem("bad_words_ids", f"forbids {unknown[0]:,}, which is not a token")


def read_vocabulary(
    folder: Path,
    ids_file: str,
    model_file: str,
    config: MarianConfig,
    size: int,
    of_tokenizer: dict[str, Any],
    problems: list[Problem],
) -> ForeignVocabulary | None:
    """Read the tokens from one file and the SentencePiece model from another; None if something is wrong."""
    found, before, tokens = read_json(folder, ids_file), len(problems), list[str]()
    try:
        tokens = in_order(found)
        if len(found) != size:
            raise ValueError(f"has {len(found):,} tokens, {CONFIG} says {size:,}")
    except ValueError as error:
        problems.append(Problem(ids_file, str(error)))
    unknown = of_tokenizer.get("unk_token", "<unk>")
    if not isinstance(unknown, str) or unknown not in found:
        problems.append(Problem(ids_file, f"has no token {unknown}, which stands for unknown ones"))
    for key in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
        if not 0 <= getattr(config, key) < len(found):
            problems.append(Problem(f"{CONFIG}: {key}", f"is {getattr(config, key):,}, which is not a token"))
    if len(problems) > before:
        return None
    return ForeignVocabulary(
        tokens=tuple(tokens),
        model=(folder / model_file).read_bytes(),
        model_file=model_file,
        padding=config.pad_token_id,
        unknown=found[unknown],
        begin=config.decoder_start_token_id,
        end=config.eos_token_id,
        tags=frozenset(token for token in found if LANGUAGE_TAG.fullmatch(token)),
    )


def language_of(of_tokenizer: dict[str, Any], key: str) -> str | None:
    code = of_tokenizer.get(key)
    return code_of(code) if isinstance(code, str) and code else None


def described(
    config: MarianConfig,
    generation: GenerationConfig,
    languages: tuple[str | None, str | None],
    source: ForeignVocabulary,
    target: ForeignVocabulary,
    tensors: dict[str, Tensor],
    files: tuple[str, ...],
) -> Foreign:
    """Describe the model in weft's terms. The tensors keep the names of transformers."""
    if "final_logits_bias" in tensors:
        tensors = {**tensors, "final_logits_bias": tensors["final_logits_bias"].flatten()}
    shared, output = "model.shared.weight", "lm_head.weight"
    encoder, decoder = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
    copies: dict[str, str] = {}
    if config.share_encoder_decoder_embeddings:
        one = next((name for name in (shared, encoder, decoder) if name in tensors), shared)
        copies = dict.fromkeys({shared, encoder, decoder} - {one}, one)
        encoder = decoder = one
    if config.tie_word_embeddings:
        copies[output], output = decoder, decoder
    return Foreign(
        framework="Marian, in the form of Hugging Face's transformers",
        languages=languages,
        settings={
            "model.model_dim": config.d_model,
            "model.num_heads": config.encoder_attention_heads,
            "model.encoder_layers": config.encoder_layers,
            "model.decoder_layers": config.decoder_layers,
            "model.ff_dim": config.encoder_ffn_dim,
            "model.dropout": config.dropout,
            "model.attention_dropout": config.attention_dropout,
            "model.activation_dropout": config.activation_dropout,
            "model.activation": ACTIVATIONS[config.activation_function],
            "model.norm": "post",
            "decoding.method": "greedy" if generation.num_beams == 1 else "beam",
            "decoding.beam_size": generation.num_beams,
            "decoding.length_penalty": "fixed",
            "decoding.length_power": generation.length_penalty,
            "decoding.min_length": max(0, generation.min_length - 1),
            "decoding.no_repeat_ngram": generation.no_repeat_ngram_size,
            "decoding.repetition_penalty": generation.repetition_penalty,
        },
        source=source,
        target=target,
        layers={
            **stacked("encoder", "model.encoder.layers.{number}.", config.encoder_layers, ENCODER_LAYER),
            **stacked("decoder", "model.decoder.layers.{number}.", config.decoder_layers, DECODER_LAYER),
        },
        source_embedding=encoder,
        target_embedding=decoder,
        output=output,
        output_bias="final_logits_bias" if "final_logits_bias" in tensors else None,
        tensors=tensors,
        files=files,
        scales=(config.scale_embedding, config.scale_embedding),
        position_tables=("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"),
        order=sines_first(config.d_model),
        never=frozenset(word for words in generation.bad_words_ids or () for word in words) - {config.eos_token_id},
        copies=copies,
    )


def sines_first(model_dim: int) -> Tensor:
    """For each dimension of weft's, where sines and cosines alternate, the dimension where all sines come first."""
    place = torch.arange(model_dim)
    return place // 2 + (place % 2) * ((model_dim + 1) // 2)
