"""A model on disk: a folder that carries everything it needs and nothing that runs.

    config.toml         the resolved recipe with the origin of every value
    model.safetensors   the weights, fp32
    tokenizer.*.model   one vocabulary for each language, or tokenizer.model for both
    manifest.json       format version and the sha256 of the files above
    README.md           the model card, which people may edit

Reading one never executes anything from it: names are looked up in tables, weights are safetensors.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from weft.config import Resolved, parse_rendered, render
from weft.errors import ModelError, Problem, RecipeError, UsageError
from weft.files import sha256
from weft.models.transformer import Transformer
from weft.tasks.recipes import TranslationRecipe
from weft.text.chinese import Script
from weft.text.sentencepiece_model import SentencePieceTokenizer
from weft.text.vocabulary import PADDING_ID
from weft.training.run_folder import RunFolder, RunStatus

FORMAT_VERSION = 1
CONFIG, WEIGHTS, CARD, MANIFEST = "config.toml", "model.safetensors", "README.md", "manifest.json"
LARGEST_TEXT_FILE, LARGEST_OTHER_FILE = 1 << 20, 64 << 20
"""Bytes that config.toml and manifest.json may have, and any other file but the weights."""


@dataclass
class TranslationModel:
    """Weights, vocabularies and the recipe they belong to."""

    resolved: Resolved[TranslationRecipe]
    model: Transformer
    source_tokenizer: SentencePieceTokenizer
    target_tokenizer: SentencePieceTokenizer

    @property
    def recipe(self) -> TranslationRecipe:
        return self.resolved.recipe

    def count_parameters(self) -> int:
        """Trainable numbers; a tied matrix counts once."""
        return sum(parameter.numel() for parameter in self.model.parameters())


def build_transformer(recipe: TranslationRecipe, source_vocab_size: int, target_vocab_size: int) -> Transformer:
    """A Transformer with fresh weights from torch's random state."""
    return Transformer(
        recipe.model, source_vocab_size=source_vocab_size, target_vocab_size=target_vocab_size, padding_id=PADDING_ID
    )


def save_model(folder: Path, model: TranslationModel, card: str) -> None:
    """Write a model folder's files into an existing folder; the caller makes it visible in one step."""
    (folder / CONFIG).write_text(render(model.resolved), encoding="utf-8")
    save_file({name: tensor.contiguous() for name, tensor in stored_weights(model.model).items()}, folder / WEIGHTS)
    for name, tokenizer in tokenizer_files(model).items():
        tokenizer.save(folder / name)
    (folder / CARD).write_text(card, encoding="utf-8")
    shutil.copymode(folder / CONFIG, folder / WEIGHTS)  # safetensors writes for the owner alone
    files = [CONFIG, WEIGHTS, *tokenizer_files(model)]
    manifest = {"format": FORMAT_VERSION, "files": {name: sha256(folder / name) for name in files}}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def load_model(folder: Path) -> TranslationModel:
    """Read a model folder; raises ModelError with all that is missing, altered or does not fit together."""
    listed = check_manifest(folder)
    try:
        text = (folder / CONFIG).read_text(encoding="utf-8")
        resolved = parse_rendered(text, TranslationRecipe, folder / CONFIG)
    except (RecipeError, UnicodeDecodeError) as error:
        raise ModelError(folder, [Problem(CONFIG, str(error))]) from None
    if unlisted := [name for name in tokenizer_names(resolved.recipe) if name not in listed]:
        raise ModelError(folder, [Problem(name, "is not in the manifest") for name in unlisted])
    source_tokenizer, target_tokenizer = load_tokenizers(folder, resolved.recipe)
    sizes = source_tokenizer.vocab_size, target_tokenizer.vocab_size
    check_weights(folder, resolved.recipe, sizes)
    model = build_transformer(resolved.recipe, *sizes)
    load_weights(model, folder)
    return TranslationModel(resolved, model.eval(), source_tokenizer, target_tokenizer)


def load_weights(model: Transformer, folder: Path) -> None:
    """Put a folder's weights into a model of the same shape."""
    model.load_state_dict(load_file(folder / WEIGHTS), strict=False)  # tied names are stored once; shapes are checked


def stored_weights(model: Transformer) -> dict[str, torch.Tensor]:
    """Name -> tensor, each tied matrix once, under the first of its names."""
    stored: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if id(parameter) not in seen:
            seen.add(id(parameter))
            stored[name] = parameter.detach()
    return stored


def tokenizer_names(recipe: TranslationRecipe) -> tuple[str, str]:
    """The files of the source's and the target's vocabulary, one file for both where they share it."""
    if recipe.tokenizer.shared:
        return "tokenizer.model", "tokenizer.model"
    return "tokenizer.source.model", "tokenizer.target.model"


def tokenizer_files(model: TranslationModel) -> dict[str, SentencePieceTokenizer]:
    tokenizers = model.source_tokenizer, model.target_tokenizer
    return dict(zip(tokenizer_names(model.recipe), tokenizers, strict=True))


def load_tokenizers(folder: Path, recipe: TranslationRecipe) -> tuple[SentencePieceTokenizer, SentencePieceTokenizer]:
    """The source's and the target's tokenizer, each with the normalization the recipe gives it."""
    names = tokenizer_names(recipe)
    sides: tuple[Literal["source", "target"], ...] = ("source", "target")
    source, target = (
        SentencePieceTokenizer.load(
            folder / name, normalization=recipe.tokenizer.normalization, script=script_of(recipe, side)
        )
        for name, side in zip(names, sides, strict=True)
    )
    return source, target


def script_of(recipe: TranslationRecipe, side: Literal["source", "target"]) -> Script:
    """The script a side is converted to; `auto` has been replaced when the run began."""
    script = recipe.tokenizer.source_script if side == "source" else recipe.tokenizer.target_script
    if script == "auto":
        raise ModelError(
            CONFIG, [Problem(f"tokenizer.{side}_script", "is still `auto`; a model must say which script")]
        )
    return cast(Script, script)


def check_manifest(folder: Path) -> set[str]:
    """Every listed file is there, a plain file, and has the digest that the manifest gives; returns their names."""
    path = folder / MANIFEST
    if path.is_symlink() or (path.is_file() and path.stat().st_size > LARGEST_TEXT_FILE):
        raise ModelError(folder, [Problem(MANIFEST, "is a link or too large")])
    if not path.is_file():
        what = (
            "is missing; a model folder holds config.toml, model.safetensors, tokenizers, README.md and manifest.json"
        )
        raise ModelError(folder, [Problem(MANIFEST, what)])
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        version, files = manifest["format"], manifest["files"]
        if not isinstance(files, dict):
            raise ValueError("files is no table")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise ModelError(folder, [Problem(MANIFEST, "is no manifest of a weft model")]) from None
    if version != FORMAT_VERSION:
        what = f"names format {version}; this weft reads format {FORMAT_VERSION}; use the weft that wrote it"
        raise ModelError(folder, [Problem(MANIFEST, what)])
    missing = [Problem(name, "is not in the manifest") for name in (CONFIG, WEIGHTS) if name not in files]
    problems = missing + [problem for name, digest in files.items() for problem in check_file(folder, name, digest)]
    if problems:
        raise ModelError(folder, problems)
    return set(files)


def check_file(folder: Path, name: str, digest: object) -> list[Problem]:
    path = folder / name
    if Path(name).name != name or name in (".", ".."):
        return [Problem(name[:80], "leads out of the folder")]
    if path.is_symlink() or not path.is_file():
        return [Problem(name, "is a link or no plain file" if path.exists() or path.is_symlink() else "is missing")]
    largest = {WEIGHTS: None, CONFIG: LARGEST_TEXT_FILE}.get(name, LARGEST_OTHER_FILE)
    if largest is not None and path.stat().st_size > largest:
        return [Problem(name, f"is larger than {largest >> 20} MiB")]
    if sha256(path) != digest:
        return [Problem(name, "was changed or damaged: its sha256 is not the manifest's")]
    return []


def check_weights(folder: Path, recipe: TranslationRecipe, vocab_sizes: tuple[int, int]) -> None:
    """Names and shapes of the weights against the recipe, before memory is taken for either."""
    with torch.device("meta"):
        expected = {
            name: list(tensor.shape) for name, tensor in stored_weights(build_transformer(recipe, *vocab_sizes)).items()
        }
    try:
        with safe_open(folder / WEIGHTS, framework="pt") as file:
            names = list(file.keys())
            found = {name: file.get_slice(name).get_shape() for name in names}
            wrong_type = [name for name in names if file.get_slice(name).get_dtype() != "F32"]
    except (SafetensorError, OSError) as error:
        raise ModelError(folder, [Problem(WEIGHTS, f"cannot be read: {error}")]) from None
    problems = [Problem(name, "is missing from the weights") for name in expected if name not in found]
    problems += [
        Problem(name, "is a weight that this recipe has no place for") for name in found if name not in expected
    ]
    problems += [
        Problem(name, f"has shape {found[name]}, the recipe makes it {shape}")
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    problems += [Problem(name, "is not fp32") for name in wrong_type]
    if problems:
        raise ModelError(folder, problems)


def find_model(name: str | Path) -> Path:
    """The model folder that a user means: a folder, or of a run its best weights, also while it trains."""
    path = Path(name)
    if (path / "run.json").is_file():
        best = RunStatus.read(path / "run.json").best
        if best is None:
            raise UsageError(f"the run {path} has not been validated yet, so it has no best weights")
        if RunFolder(path).checkpoint(best).is_dir():
            return RunFolder(path).checkpoint(best)
    if (path / MANIFEST).is_file():
        return path
    if path.is_dir():
        raise UsageError(f"{path} is neither a model folder (no {MANIFEST}) nor a run (no run.json)")
    raise UsageError(f"there is no model {name}; give a model folder or a run folder")
