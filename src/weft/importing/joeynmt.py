"""JoeyNMT 2.x: the folder that a training leaves behind.

config.yaml                      all settings
best.ckpt, latest.ckpt, N.ckpt   the weights after N steps; the first two are links to one of these
src_vocab.txt, trg_vocab.txt     the tokens, one a line, in the order of their ids
*.model                          the SentencePiece models, under the names that config.yaml gives them
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import Field
from torch import Tensor

from weft.errors import ModelError, Problem
from weft.files import split_lines
from weft.importing.foreign import (
    Foreign,
    ForeignVocabulary,
    Layers,
    Stated,
    Width,
    attention_parts,
    feed_forward_parts,
    stacked,
    validated,
)
from weft.importing.opening import check_files, plain_tensors, read_text, read_torch, read_yaml

CONFIG, SOURCE_TOKENS, TARGET_TOKENS = "config.yaml", "src_vocab.txt", "trg_vocab.txt"
CHECKPOINT = re.compile(r"(\d+)\.ckpt")
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu"}
"""Names in JoeyNMT of the activations that weft has."""
NORM_EPSILON = 1e-6

FEED_FORWARD = feed_forward_parts("feed_forward.pwff_layer.0", "feed_forward.pwff_layer.3", "feed_forward.layer_norm")
LETTERS = ("q", "k", "v", "output")
ENCODER_LAYER = {**attention_parts("attention", "src_src_att.{}_layer", LETTERS, "layer_norm"), **FEED_FORWARD}
DECODER_LAYER = {
    **attention_parts("self_attention", "trg_trg_att.{}_layer", LETTERS, "x_layer_norm"),
    **attention_parts("cross_attention", "src_trg_att.{}_layer", LETTERS, "dec_layer_norm"),
    **FEED_FORWARD,
}


class LanguageConfig(Stated):
    lang: str | None = None
    level: str = "bpe"
    lowercase: bool = False
    normalize: bool = False
    tokenizer_type: str | None = None
    bpe_type: str = "sentencepiece"
    """Older name of tokenizer_type."""
    tokenizer_cfg: dict[str, Any] = Field(default={})

    @property
    def cutter(self) -> str:
        return self.tokenizer_type or self.bpe_type

    @property
    def model_file(self) -> str:
        """Name of the SentencePiece model in the run's folder."""
        return PurePosixPath(str(self.tokenizer_cfg.get("model_file", ""))).name


class SpecialSymbols(Stated):
    unk_token: str = "<unk>"
    pad_token: str = "<pad>"
    bos_token: str = "<s>"
    eos_token: str = "</s>"
    sep_token: str | None = None
    lang_tags: list[str] = Field(default=[])


class DataConfig(Stated):
    src: LanguageConfig
    trg: LanguageConfig
    special_symbols: SpecialSymbols = SpecialSymbols()


class TestingConfig(Stated):
    beam_size: int = Field(default=1, ge=1)
    beam_alpha: float = -1
    alpha: float | None = None
    """Older name of beam_alpha; if both are set, this one counts."""
    generate_unk: bool = True
    min_output_length: int = Field(default=1, ge=0)
    repetition_penalty: float = -1
    no_repeat_ngram_size: int = -1

    @property
    def length_power(self) -> float:
        return max(0.0, self.beam_alpha if self.alpha is None else self.alpha)

    @property
    def no_repeat_ngram(self) -> int:
        """0 if it has no effect: greedy search may repeat single tokens whatever it is."""
        return self.no_repeat_ngram_size if self.no_repeat_ngram_size > (1 if self.beam_size == 1 else 0) else 0


class EmbeddingConfig(Stated):
    embedding_dim: int = 64
    scale: bool = False
    dropout: float | None = None


class StackConfig(Stated):
    """The encoder or the decoder."""

    type: str = "recurrent"
    embeddings: EmbeddingConfig
    hidden_size: Width = 512
    ff_size: Width = 2048
    num_layers: Layers
    num_heads: int
    dropout: float = 0.1
    alpha: float = 1.0
    layer_norm: Literal["pre", "post"] = "post"
    activation: str = "relu"


class ModelConfig(Stated):
    encoder: StackConfig
    decoder: StackConfig
    tied_embeddings: bool = False
    tied_softmax: bool = False


class JoeyConfig(Stated):
    data: DataConfig
    model: ModelConfig
    testing: TestingConfig = TestingConfig()


def read_joeynmt(folder: Path) -> Foreign:
    """Read a folder. Raises ModelError with everything that is missing or that weft cannot represent."""
    check_files(folder, settings=[CONFIG])
    config = validated(JoeyConfig, read_yaml(folder, CONFIG), folder, f"{CONFIG}: ")
    problems = list(refusals(config))
    if problems:
        raise ModelError(folder, problems)
    weights = checkpoint_in(folder)
    models = [config.data.src.model_file, config.data.trg.model_file]
    files = check_files(folder, vocabularies=[SOURCE_TOKENS, TARGET_TOKENS, *models], weights=[weights])
    symbols, found = config.data.special_symbols, []
    for name, language in ((SOURCE_TOKENS, config.data.src), (TARGET_TOKENS, config.data.trg)):
        found.append(read_vocabulary(folder, name, language, symbols, problems))
    state = read_torch(folder, weights).get("model_state")
    if not isinstance(state, dict):
        problems.append(Problem(weights, "has no model_state, where JoeyNMT keeps the weights"))
    source, target = found
    if problems or source is None or target is None or not isinstance(state, dict):
        raise ModelError(folder, problems)
    return described(config, source, target, plain_tensors(folder, state), files=(CONFIG, *files))


def refusals(config: JoeyConfig) -> Iterator[Problem]:
    """Yield the settings that weft's Transformer or its tokenizers cannot represent."""
    for side in ("src", "trg"):
        of: LanguageConfig = getattr(config.data, side)
        where = f"{CONFIG}: data.{side}"
        if of.level != "bpe" or of.cutter != "sentencepiece":
            cut = f"{of.level}, {of.cutter}" if of.level == "bpe" else of.level
            yield Problem(f"{where}.level", f"is cut by {cut}; weft imports pieces of SentencePiece (level bpe)")
        elif not of.model_file:
            yield Problem(f"{where}.tokenizer_cfg.model_file", "is missing")
        if (before := of.tokenizer_cfg.get("pretokenizer", "none")) != "none":
            yield Problem(f"{where}.tokenizer_cfg.pretokenizer", f"is {before}; weft does not pretokenize")
    for what in ("lowercase", "normalize"):
        if getattr(config.data.src, what):
            yield Problem(f"{CONFIG}: data.src.{what}", "is true, which weft does not do to the source")
    if (penalty := config.testing.repetition_penalty) > 1:
        what = f"is {penalty}, and also penalizes pieces of the source, which weft's does not; remove it there"
        yield Problem(f"{CONFIG}: testing.repetition_penalty", what)
    encoder, decoder = config.model.encoder, config.model.decoder
    for name, stack in (("encoder", encoder), ("decoder", decoder)):
        where = f"{CONFIG}: model.{name}"
        if stack.type != "transformer":
            yield Problem(f"{where}.type", f"is {stack.type}; weft's model is a transformer")
        if stack.alpha != 1:
            yield Problem(f"{where}.alpha", f"is {stack.alpha}; in weft a residual has weight 1")
        if stack.activation not in ACTIVATIONS:
            yield Problem(f"{where}.activation", f"is {stack.activation}; weft has {', '.join(ACTIVATIONS)}")
        if stack.embeddings.embedding_dim != stack.hidden_size:
            what = f"is {stack.embeddings.embedding_dim}, hidden_size {stack.hidden_size}; weft needs them equal"
            yield Problem(f"{where}.embeddings.embedding_dim", what)
    for what in ("hidden_size", "ff_size", "num_heads", "layer_norm", "activation"):
        ours, theirs = getattr(encoder, what), getattr(decoder, what)
        if ours != theirs:
            yield Problem(
                f"{CONFIG}: model.decoder.{what}", f"is {theirs}, the encoder's is {ours}; weft has one value for both"
            )


def checkpoint_in(folder: Path) -> str:
    """Name the best weights, otherwise the latest, otherwise those after the most steps."""
    for name in ("best.ckpt", "latest.ckpt"):
        if (folder / name).is_symlink() or (folder / name).exists():
            return name
    steps = [int(found[1]) for entry in folder.iterdir() if (found := CHECKPOINT.fullmatch(entry.name))]
    return f"{max(steps)}.ckpt" if steps else "best.ckpt"


def read_vocabulary(
    folder: Path, name: str, language: LanguageConfig, symbols: SpecialSymbols, problems: list[Problem]
) -> ForeignVocabulary | None:
    """Read a vocabulary; None if something is wrong with it."""
    tokens = [line.decode() for line in split_lines(read_text(folder, name).encode())]
    ids = {token: number for number, token in enumerate(tokens)}
    if len(ids) != len(tokens):
        twice = next(token for number, token in enumerate(tokens) if ids[token] != number)
        problems.append(Problem(name, f"has {twice!r} twice; each token may occur once"))
        return None
    special = (symbols.pad_token, symbols.unk_token, symbols.bos_token, symbols.eos_token)
    if missing := [token for token in special if token not in ids]:
        problems.append(Problem(name, f"lacks {' and '.join(missing)}"))
        return None
    padding, unknown, begin, end = (ids[token] for token in special)
    tags = [*symbols.lang_tags, *([symbols.sep_token] if symbols.sep_token else [])]
    return ForeignVocabulary(
        tokens=tuple(tokens),
        model=(folder / language.model_file).read_bytes(),
        model_file=language.model_file,
        padding=padding,
        unknown=unknown,
        begin=begin,
        end=end,
        tags=frozenset(tag for tag in tags if tag in ids),
        is_closed=True,
    )


def described(
    config: JoeyConfig,
    source: ForeignVocabulary,
    target: ForeignVocabulary,
    tensors: dict[str, Tensor],
    files: tuple[str, ...],
) -> Foreign:
    """Describe the model in weft's terms."""
    model, encoder, decoder, testing = config.model, config.model.encoder, config.model.decoder, config.testing
    source_embedding, target_embedding = "src_embed.lut.weight", "trg_embed.lut.weight"
    output = "decoder.output_layer.weight"
    scales, copies = (encoder.embeddings.scale, decoder.embeddings.scale), {}
    if model.tied_embeddings:
        copies[target_embedding], target_embedding = source_embedding, source_embedding
        scales = (scales[0], scales[0])  # the decoder has the encoder's embeddings, scale included
    if model.tied_softmax:
        copies[output], output = target_embedding, target_embedding
    ids = {token: number for number, token in enumerate(target.tokens)}
    never = {target.begin, *(ids[tag] for tag in target.tags)} | (set() if testing.generate_unk else {target.unknown})
    norms = {"encoder_norm": ("encoder.layer_norm",), "decoder_norm": ("decoder.layer_norm",)}
    return Foreign(
        framework="JoeyNMT",
        languages=(config.data.src.lang, config.data.trg.lang),
        settings={
            "model.model_dim": encoder.hidden_size,
            "model.num_heads": encoder.num_heads,
            "model.encoder_layers": encoder.num_layers,
            "model.decoder_layers": decoder.num_layers,
            "model.ff_dim": encoder.ff_size,
            "model.dropout": encoder.dropout,
            "model.embedding_dropout": encoder.embeddings.dropout,
            "model.activation": ACTIVATIONS[encoder.activation],
            "model.norm": encoder.layer_norm,
            "model.norm_epsilon": NORM_EPSILON,
            "decoding.method": "greedy" if testing.beam_size == 1 else "beam",
            "decoding.beam_size": testing.beam_size,
            "decoding.length_penalty": "gnmt" if testing.length_power else "none",
            "decoding.length_power": testing.length_power,
            "decoding.min_length": testing.min_output_length,
            "decoding.no_repeat_ngram": testing.no_repeat_ngram,
        },
        source=source,
        target=target,
        layers={
            **stacked("encoder", "encoder.layers.{number}.", encoder.num_layers, ENCODER_LAYER),
            **stacked("decoder", "decoder.layers.{number}.", decoder.num_layers, DECODER_LAYER),
            **(norms if encoder.layer_norm == "pre" else {}),
        },
        source_embedding=source_embedding,
        target_embedding=target_embedding,
        output=output,
        output_bias=None,
        tensors=tensors,
        files=files,
        scales=scales,
        position_tables=("encoder.pe.pe", "decoder.pe.pe"),
        never=frozenset(never),
        copies=copies,
    )
