"""Converts a foreign Transformer to a model of weft: every weight is used, or the model is refused.

Differences for which weft has no option are put into the weights:

    order of dimensions     Marian's vectors hold all sines of a position and then all cosines; in weft's they
                            alternate. All weights that read or write these vectors, norms too, are permuted
    unscaled embeddings     weft multiplies by sqrt(model_dim); the matrix is divided by it, and where it is the output
                            too, the last norm before the output is multiplied in turn
    first token             the row of the token that begins a translation there becomes that of <s>
    forbidden tokens        get a bias with which their probability is 0
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from pydantic import ValidationError
from torch import Tensor

from weft.config import Resolved, resolve
from weft.data.corpus import TAG
from weft.errors import ModelError, Problem, RecipeError
from weft.folders.kinds import build_seq2seq, vocabulary_language
from weft.folders.model_folder import Learned, TranslationModel
from weft.folders.recipes import TranslationRecipe
from weft.importing.foreign import Foreign, ForeignVocabulary, problems_of
from weft.importing.pieces import Arrangement, arrange, kind_of, piece_of, read_model, rewritten
from weft.layers.positions import sinusoids
from weft.models.transformer import Transformer, TransformerConfig
from weft.text.kinds import read_tokenizer
from weft.text.vocabulary import PADDING_ID, SPECIAL_PIECES

NEVER = -1000.0
"""The bias of tokens that are never written: exp of it is 0 in fp32, and fp16 can represent it."""
UNKNOWN_DATA = "unknown to weft"
"""Path in the recipe for the unknown files that a model was trained on."""
MATRICES = ("source_embedding.weight", "target_embedding.weight", "output.weight")
POSITIONS_COMPARED = 512


def convert(foreign: Foreign, folder: Path, languages: tuple[str, str]) -> TranslationModel:
    """Return the model, on the CPU. Raises ModelError with everything that does not fit weft or itself."""
    problems: list[Problem] = []
    models = {side: sentencepiece_of(vocabulary, problems) for side, vocabulary in sides(foreign).items()}
    shape = shape_of(foreign, problems)
    if shape is None:
        raise ModelError(folder, problems)
    weights = taken_weights(foreign, shape, problems)
    if problems:
        raise ModelError(folder, list(dict.fromkeys(problems)))  # a matrix that is used twice is reported once
    try:
        kind, arrangements, tokenizers = arranged(foreign, models, is_shared=shape.tie == "all")
    except ValueError as error:
        raise ModelError(folder, [Problem("the vocabulary", str(error))]) from None
    try:
        resolved = recipe_of(foreign, shape, kind, tokenizers, languages)
    except RecipeError as error:
        raise ModelError(folder, error.problems) from None
    recipe = resolved.recipe
    source, target = (
        read_tokenizer(
            tokenizers[side],
            folder / vocabulary.model_file,
            kind=kind,
            language=vocabulary_language(recipe, side),
        )
        for side, vocabulary in sides(foreign).items()
    )
    model: Any = build_seq2seq(recipe, source.vocab_size, target.vocab_size)
    model.load_state_dict(placed(weights, foreign, shape, arrangements))
    return Learned(resolved, model.eval(), {"source": source, "target": target})


def sides(foreign: Foreign) -> dict[Any, ForeignVocabulary]:
    return {"source": foreign.source, "target": foreign.target}


# Before anything is converted: what is wrong


def sentencepiece_of(vocabulary: ForeignVocabulary, problems: list[Problem]) -> Any:
    try:
        return read_model(vocabulary.model)
    except ValueError as error:
        problems.append(Problem(vocabulary.model_file, str(error)))


def shape_of(foreign: Foreign, problems: list[Problem]) -> TransformerConfig | None:
    """Return the settings of the model; None if they are not valid."""
    given = {key.removeprefix("model."): value for key, value in foreign.settings.items() if key.startswith("model.")}
    try:
        return TransformerConfig.model_validate({**given, "tie": tie_of(foreign), "output_bias": True})
    except ValidationError as error:
        problems += problems_of(error, "model.")


def tie_of(foreign: Foreign) -> str:
    if foreign.output != foreign.target_embedding:
        return "none"
    return "all" if foreign.source_embedding == foreign.target_embedding else "decoder"


def taken_weights(foreign: Foreign, shape: TransformerConfig, problems: list[Problem]) -> dict[str, Tensor]:
    """weft's name -> the numbers as they are there, in fp32; what cannot be taken becomes a problem.

    Nothing is copied before its shape is known to be right.
    """
    with torch.device("meta"):
        model = Transformer(
            shape.model_copy(update={"tie": "none"}),
            source_vocab_size=len(foreign.source.tokens),
            target_vocab_size=len(foreign.target.tokens),
            padding_id=PADDING_ID,
        )
    expected = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    names = dict(names_of(foreign))
    if foreign.output_bias is None:
        del expected["output.bias"]
    assert names.keys() == expected.keys()
    taken, found = {}, len(problems)
    for name, theirs in names.items():
        rows, *rest = expected[name]
        parts = [taken_weight(foreign.tensors, one, (rows // len(theirs), *rest), problems) for one in theirs]
        if len(problems) == found:
            taken[name] = parts[0] if len(parts) == 1 else torch.cat(parts)
    problems += unused_weights(foreign, {one for theirs in names.values() for one in theirs})
    problems += other_positions(foreign, shape.model_dim)
    if foreign.source_embedding == foreign.target_embedding and len(set(foreign.scales)) > 1:
        what = "is multiplied by sqrt(model_dim) for one language and not for the other, which weft cannot do"
        problems.append(Problem(foreign.source_embedding, what))
    return taken


def names_of(foreign: Foreign) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each parameter of weft's model with the names of the foreign ones that it consists of."""
    yield from zip(
        MATRICES,
        [(name,) for name in (foreign.source_embedding, foreign.target_embedding, foreign.output)],
        strict=True,
    )
    if foreign.output_bias is not None:
        yield "output.bias", (foreign.output_bias,)
    for part, theirs in foreign.layers.items():
        for what in ("weight", "bias"):
            yield f"{part}.{what}", tuple(f"{name}.{what}" for name in theirs)


def taken_weight(
    tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...], problems: list[Problem]
) -> Float[Tensor, "..."]:
    tensor = tensors.get(name)
    if tensor is None:
        problems.append(Problem(name, "is missing from the weights"))
    elif tuple(tensor.shape) != shape:
        problems.append(Problem(name, f"has shape {list(tensor.shape)}, its settings require {list(shape)}"))
    elif not tensor.is_floating_point():
        problems.append(Problem(name, f"is of type {tensor.dtype}; weights must be floating point"))
    elif not tensor.float().isfinite().all():
        problems.append(Problem(name, "has numbers that are NaN or infinite, or too large for fp32"))
    else:
        return tensor.float()
    return torch.zeros(())


def unused_weights(foreign: Foreign, used: set[str]) -> Iterator[Problem]:
    """Yield weights that no part of weft's model uses. An equal second copy of a matrix is allowed."""
    for name, tensor in foreign.tensors.items():
        if name in used or name in foreign.position_tables:
            continue
        original = foreign.tensors.get(foreign.copies.get(name, ""))
        if original is None:
            yield Problem(name, "is a weight that weft does not have")
        elif not (tensor.shape == original.shape and torch.equal(tensor, original)):
            yield Problem(name, f"differs from {foreign.copies[name]}, though the settings tie them")


def other_positions(foreign: Foreign, model_dim: int) -> Iterator[Problem]:
    """Yield tables of positions that differ from weft's sinusoids."""
    for name in foreign.position_tables:
        table = foreign.tensors.get(name)
        if table is not None and not is_sinusoidal(table, model_dim, foreign.order):
            yield Problem(name, "is not a table of sinusoids: the positions were learned, or have other wavelengths")


def is_sinusoidal(table: Tensor, model_dim: int, order: Int[Tensor, " model"] | None) -> bool:
    """Whether these are the first positions, (time, model) or (1, time, model)."""
    if table.dim() not in (2, 3) or table.shape[:-2].numel() != 1 or table.size(-1) != model_dim:
        return False
    first = table.flatten(0, -2)[:POSITIONS_COMPARED].float()
    ours = sinusoids(len(first), model_dim)
    return torch.allclose(first if order is None else first[:, order], ours, atol=2e-3)


# The vocabulary and the recipe


def arranged(
    foreign: Foreign, models: Mapping[str, Any], *, is_shared: bool
) -> tuple[Any, dict[str, Arrangement], dict[str, bytes]]:
    """Return the kind of the SentencePiece models, and for each side the order of the pieces and the new model file.

    Raises ValueError where the pieces cannot be put so.
    """
    kinds = {side: kind_of(model) for side, model in models.items()}
    if len(set(kinds.values())) > 1:
        raise ValueError(f"the source's pieces are of kind {kinds['source']}, the target's {kinds['target']}")
    if is_shared and foreign.source.tokens != foreign.target.tokens:
        raise ValueError("both languages share their embeddings, but their tokens differ")
    both, arrangements, tokenizers = list(models.values()), {}, {}
    for side, vocabulary in sides(foreign).items():
        seen = both if is_shared else [models[side]]
        arrangements[side] = arrange(vocabulary, seen, foreign.never if is_shared or side == "target" else ())
        try:
            tokenizers[side] = rewritten(models[side], vocabulary, arrangements[side])
        except ValueError as error:
            raise ValueError(f"{vocabulary.model_file} {error}") from None
    return kinds["source"], arrangements, tokenizers


def recipe_of(
    foreign: Foreign,
    shape: TransformerConfig,
    kind: str,
    tokenizers: Mapping[str, bytes],
    languages: tuple[str, str],
) -> Resolved[TranslationRecipe]:
    tags = sorted(tag for tag in map(piece_of, foreign.source.tags) if TAG.fullmatch(tag) and tag not in SPECIAL_PIECES)
    shared = {"shared": True, "cut_apart": tokenizers["source"] != tokenizers["target"]} if shape.tie == "all" else {}
    document = {
        "data": {
            "source": languages[0],
            "target": languages[1],
            "train": [{"path": UNKNOWN_DATA, "tag": tag} for tag in tags] or [UNKNOWN_DATA],
            "valid": [UNKNOWN_DATA],
        },
        "tokenizer": {"kind": kind, "source_script": "keep", "target_script": "keep", **shared},
        "model": shape.model_dump(),
        "decoding": {
            key.removeprefix("decoding."): value
            for key, value in foreign.settings.items()
            if key.startswith("decoding.")
        },
    }
    return resolve(document, TranslationRecipe, "the recipe", origin="import")


# The weights


def placed(
    weights: dict[str, Tensor],
    foreign: Foreign,
    shape: TransformerConfig,
    arrangements: Mapping[str, Arrangement],
) -> dict[str, Tensor]:
    """weft's own numbers under weft's names."""
    if foreign.order is not None:
        weights = {name: reordered(name, tensor, foreign.order) for name, tensor in weights.items()}
    weights = with_scaled_embeddings(weights, foreign.scales, shape)
    source_rows, target_rows = (torch.tensor(arrangements[side].rows) for side in ("source", "target"))
    for name, rows in zip(MATRICES, (source_rows, target_rows, target_rows), strict=True):
        weights[name] = weights[name][rows]
    bias = weights["output.bias"] if "output.bias" in weights else torch.zeros(len(foreign.target.tokens))
    is_written = torch.tensor(arrangements["target"].is_written)
    weights["output.bias"] = bias[target_rows].masked_fill(~is_written, NEVER)
    return weights


def reordered(name: str, tensor: Tensor, order: Int[Tensor, " model"]) -> Tensor:
    """Whatever reads a vector has a column, and whatever writes one a row, for each of its dimensions."""
    part, what = name.split(".")[-2:]
    if name == "output.bias":
        return tensor
    if name in MATRICES:
        return tensor[:, order]
    if part in ("query", "key_value", "widen"):
        return tensor[:, order] if what == "weight" else tensor
    assert part in ("output", "narrow") or part.endswith("norm")
    return tensor[order]


def with_scaled_embeddings(
    weights: dict[str, Tensor], scales: tuple[bool, bool], shape: TransformerConfig
) -> dict[str, Tensor]:
    """Embeddings that give the same vectors when they are multiplied by sqrt(model_dim)."""
    scale, weights = math.sqrt(shape.model_dim), dict(weights)
    for name, is_scaled in zip(MATRICES, scales, strict=False):
        if not is_scaled:
            weights[name] = weights[name] / scale
    if not scales[1] and shape.tie != "none":
        weights["output.weight"] = weights["target_embedding.weight"]
        last = f"decoder.{shape.decoder_layers - 1}.feed_forward_residual.norm"
        for what in ("weight", "bias"):
            name = f"{'decoder_norm' if shape.norm == 'pre' else last}.{what}"
            weights[name] = weights[name] * scale
    return weights
