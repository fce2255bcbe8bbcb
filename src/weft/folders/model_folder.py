"""A model on disk: a self-contained folder without executable code.

    config.toml         the resolved recipe with the origin of every value
    model.safetensors   the weights, fp32 (fp16 or int8 in a compressed copy: weight_storage.py)
    tokenizer.*.model   one vocabulary for each language, or tokenizer.model for both; .txt where it is a list of tokens
    manifest.json       format version and the sha256 of the files above
    README.md           the model card, which may be edited

Loading never executes code from a folder: names are looked up in tables, and weights are safetensors. The contents are
not trusted: everything is checked before memory is allocated for it.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from weft.config import Resolved, Settings, parse_rendered, render
from weft.errors import ModelError, Problem, RecipeError, UsageError
from weft.folders.finding import HOW_TO_CONVERT
from weft.folders.kinds import KINDS
from weft.folders.manifest import CARD, CONFIG, LARGEST_TEXT_FILE, WEIGHTS, check_manifest, write_manifest
from weft.folders.recipes import RECIPES, TranslationRecipe
from weft.folders.weight_storage import Header, restored, storage_problems, weights_in
from weft.text.kinds import load_tokenizer, pieces_of
from weft.text.tokenizer import Tokenizer

R = TypeVar("R", bound=Settings)

LARGEST_HEADER = 4 << 20
"""Most bytes of the safetensors header, a table of names and shapes. A model of 96 + 96 layers takes half a MiB."""
LARGE_WEIGHTS = 1 << 30
"""Bytes from which the header is checked before the digest, which takes minutes."""
PICKLED_STARTS = (b"\x80", b"PK\x03\x04", b"\x93NUMPY")
"""First bytes of files written by pickle, PyTorch and NumPy."""


@dataclass
class Learned(Generic[R]):
    """A model: its recipe, its network, and the vocabularies that map text to the network's ids."""

    resolved: Resolved[R]
    network: Any
    """An nn.Module with the interface that the task requires, such as `Seq2Seq` for translation."""
    vocabularies: Mapping[str, Tokenizer]
    """Vocabularies by their names in the task's `ModelKind`, such as source and target."""

    def __post_init__(self) -> None:
        if isinstance(self.recipe, TranslationRecipe) and self.recipe.model.copies:
            kind = self.recipe.tokenizer.kind
            self.network.copy_between(*(pieces_of(self.vocabularies[side], kind) for side in ("source", "target")))

    @property
    def recipe(self) -> R:
        return self.resolved.recipe

    def count_parameters(self) -> int:
        """Number of parameters; a tied matrix counts once."""
        return sum(parameter.numel() for parameter in self.network.parameters())


TranslationModel = Learned[TranslationRecipe]


def save_model(folder: Path, model: Learned[Any], card: str) -> None:
    """Write the files of a model folder into an existing folder, which the caller then renames into place.

    Raises UsageError for a recipe that is too long to be read back.
    """
    (folder / CONFIG).write_text(rendered(model.resolved), encoding="utf-8")
    save_file({name: tensor.contiguous() for name, tensor in stored_weights(model.network).items()}, folder / WEIGHTS)
    files = vocabulary_files(model.recipe, model.vocabularies)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / CARD).write_text(card, encoding="utf-8")
    shutil.copymode(folder / CONFIG, folder / WEIGHTS)  # safetensors makes files that only the owner can read
    write_manifest(folder, [CONFIG, WEIGHTS, *files])


def rendered(resolved: Resolved[Any]) -> str:
    """The text of config.toml for this recipe. Raises UsageError if it is too long to be read back."""
    text = render(resolved)
    if len(text.encode()) > LARGEST_TEXT_FILE:
        raise UsageError(
            f"the recipe takes more than {LARGEST_TEXT_FILE >> 10} KiB; put the training pairs in fewer files"
        )
    return text


def vocabulary_files(recipe: Any, vocabularies: Mapping[str, Tokenizer]) -> dict[str, bytes]:
    """File name -> content for each vocabulary."""
    described = KINDS[recipe.task].vocabularies(recipe)
    return {described[name].file: vocabulary.model for name, vocabulary in vocabularies.items()}


def load_model(folder: Path) -> Learned[Any]:
    """Read a model folder. Raises ModelError with every file that is missing, altered or inconsistent."""
    model = check_model(folder)
    assign_weights(model.network, folder)
    return model


def check_model(folder: Path) -> Learned[Any]:
    """Check a model folder without reading its weights, and return the model, its network on the meta device.

    Raises ModelError with every file that is missing, altered or inconsistent.
    """
    path = folder / WEIGHTS
    if path.is_file() and path.stat().st_size > LARGE_WEIGHTS:
        read_header(folder)  # reports a file without weights before its digest takes minutes
    listed = check_manifest(folder)
    model = without_weights(folder, listed)
    check_weights(folder, model.network)
    return model


def without_weights(folder: Path, listed: set[str], *needed: str) -> Learned[Any]:
    """Read the recipe and the vocabularies of a folder; the network is on torch's meta device.

    `listed` are the files that the manifest names. Raises ModelError where a vocabulary or one of the `needed` files is
    not among them.
    """
    resolved = read_config(folder)
    kind = KINDS[resolved.recipe.task]
    files = [vocabulary.file for vocabulary in kind.vocabularies(resolved.recipe).values()]
    if unlisted := [name for name in dict.fromkeys([*needed, *files]) if name not in listed]:
        raise ModelError(folder, [Problem(name, "is not in the manifest") for name in unlisted])
    vocabularies = load_vocabularies(folder, resolved.recipe)
    with torch.device("meta"):  # draws no weights, so it is fast and leaves torch's random state unchanged
        network = kind.build(resolved.recipe, sizes_of(vocabularies))
    return Learned(resolved, network.eval(), vocabularies)


def sizes_of(vocabularies: Mapping[str, Tokenizer]) -> dict[str, int]:
    """Name -> number of pieces of each vocabulary."""
    return {name: vocabulary.vocab_size for name, vocabulary in vocabularies.items()}


def read_config(folder: Path) -> Resolved[Any]:
    """Read the recipe of a model folder, for any task. Raises ModelError if it cannot be read or is not a recipe."""
    try:
        text = (folder / CONFIG).read_text(encoding="utf-8")
        return parse_rendered(text, RECIPES, folder / CONFIG)
    except OSError as error:
        raise ModelError(folder, [Problem(CONFIG, f"cannot be read: {error.strerror}")]) from None
    except (RecipeError, UsageError, UnicodeDecodeError) as error:
        raise ModelError(folder, [Problem(CONFIG, str(error))]) from None


def load_vocabularies(folder: Path, recipe: Any) -> dict[str, Tokenizer]:
    """Read the vocabularies that a recipe names. Raises ModelError where two that must be equal differ."""
    described = KINDS[recipe.task].vocabularies(recipe)
    loaded = {
        name: load_tokenizer(folder / each.file, kind=each.kind, language=each.language, **each.forms)
        for name, each in described.items()
    }
    for name, each in described.items():
        if each.pieces_of and pieces_of(loaded[name], each.kind) != pieces_of(loaded[each.pieces_of], each.kind):
            what = f"has other pieces than {described[each.pieces_of].file}, or another order of them"
            raise ModelError(folder, [Problem(each.file, what)])
    return loaded


def assign_weights(model: nn.Module, folder: Path) -> None:
    """Replace the meta tensors of a model by the weights in a folder; tied parameters stay tied."""
    weights = restored(load_file(folder / WEIGHTS))
    # Copied, since the tensors read may map the file, which another process may overwrite.
    given = {
        shape: nn.Parameter(weights[name].clone(), requires_grad=shape.requires_grad)
        for name, shape in model.named_parameters()
    }
    by_name = {name: given[shape] for name, shape in model.named_parameters(remove_duplicate=False)}
    model.load_state_dict(by_name, assign=True)


def load_weights(model: nn.Module, folder: Path) -> None:
    """Copy the weights in a folder into a model of the same shapes."""
    weights = restored(load_file(folder / WEIGHTS))
    model.load_state_dict(weights, strict=False)  # tied names are stored once; shapes are checked


def stored_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """Name -> tensor; a tied matrix is listed once, under its first name."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def check_weights(folder: Path, network: nn.Module) -> None:
    """Compare names and shapes of the stored weights with a network's, without reading the weights.

    Raises ModelError with every difference.
    """
    weights = stored_weights(network)
    expected = {name: list(tensor.shape) for name, tensor in weights.items()}
    header = read_header(folder)
    found = weights_in(header)
    problems = [Problem(name, "is missing from the weights") for name in expected if name not in found]
    problems += [Problem(name, "is not a weight of this recipe") for name in found if name not in expected]
    problems += [
        Problem(name, f"has shape {found[name][0]}; the recipe requires {shape}")
        for name, shape in expected.items()
        if name in found and found[name][0] != shape
    ]
    problems += storage_problems(header, [name for name, each in weights.items() if not each.is_floating_point()])
    if problems:
        raise ModelError(folder, problems)


def read_header(folder: Path) -> Header:
    """Read the names, shapes and types in model.safetensors. Raises ModelError if its header cannot be read."""
    path = folder / WEIGHTS
    start = b""
    try:
        with open(path, "rb") as file:
            start = file.read(8)
        if (claimed := int.from_bytes(start, "little")) > LARGEST_HEADER:
            raise ValueError(f"its header claims {claimed:,} bytes")
        with safe_open(path, framework="numpy") as file:  # which needs no torch
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            return {name: (part.get_shape(), part.get_dtype()) for name, part in slices.items()}
    except (SafetensorError, OSError, ValueError) as error:
        hint = f"; it begins like a pickle: {HOW_TO_CONVERT}" if start.startswith(PICKLED_STARTS) else ""
        raise ModelError(folder, [Problem(WEIGHTS, f"cannot be read: {error}{hint}")]) from None
