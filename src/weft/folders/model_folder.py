"""A model on disk: a folder that carries everything it needs and nothing that runs.

    config.toml         the resolved recipe with the origin of every value
    model.safetensors   the weights, fp32 (fp16 or int8 in a copy made to be small: weight_storage.py)
    tokenizer.*.model   one vocabulary for each language, or tokenizer.model for both; .txt where it is a list of tokens
    manifest.json       format version and the sha256 of the files above
    README.md           the model card, which people may edit

Reading one never executes anything from it: names are looked up in tables, weights are safetensors. Whatever a folder
says is checked before memory is taken for it, whoever made it.
"""

import difflib
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from weft.config import Resolved, Settings, parse_rendered, render
from weft.errors import ModelError, Problem, RecipeError, UsageError
from weft.files import sha256
from weft.folders.recipes import TranslationRecipe
from weft.folders.weight_storage import Header, restored, storage_problems, weights_in
from weft.models.transformer import Transformer
from weft.text.chinese import Script
from weft.text.kinds import KINDS, load_tokenizer, pieces_of
from weft.text.punctuation import Punctuation
from weft.text.tokenizer import Tokenizer
from weft.text.vocabulary import PADDING_ID
from weft.training.run_folder import DIAGNOSIS, LOGS, RunFolder, RunStatus

R = TypeVar("R", bound=Settings)

FORMAT_VERSION = 1
CONFIG, WEIGHTS, CARD, MANIFEST = "config.toml", "model.safetensors", "README.md", "manifest.json"
EXPORT = "export.json"
"""In place of the weights a model for another engine has that engine's files, and this one (exported.py)."""
PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""Where the models lie that come with weft, each in a folder of its name."""

LARGEST_TEXT_FILE, LARGEST_OTHER_FILE = 128 << 10, 64 << 20
"""Bytes that config.toml and manifest.json may have, and any other file but the weights and the card."""
LARGEST_CARD = 4 << 20
"""Bytes of the card, which has a line with the sha256 of each file that config.toml names."""
LARGEST_HEADER = 4 << 20
"""Bytes of the table of names and shapes before the weights; 96 + 96 layers need half of one."""
MOST_FILES = 200
PLAIN_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
"""What a file of a model may be called: nothing that leads anywhere on any system."""

PICKLED = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".npy", ".npz")
PICKLED_STARTS = (b"\x80", b"PK\x03\x04", b"\x93NUMPY")
"""Names and first bytes of the files of PyTorch, pickle and NumPy."""
HOW_TO_CONVERT = (
    "a pickle, such as in PyTorch's and NumPy's files, can run code when it is opened, so weft opens none; convert it "
    "where you trust it: safetensors.torch.save_file(torch.load(FILE, weights_only=True), 'model.safetensors')"
)


@dataclass
class Learned(Generic[R]):
    """A network with its weights, the vocabularies that its ids belong to, and the recipe that both were made by."""

    resolved: Resolved[R]
    network: Any
    """An nn.Module; what else is asked of it depends on the task, as translation asks for a `Seq2Seq`."""
    vocabularies: Mapping[str, Tokenizer]
    """By their names in the task's `ModelKind`, such as source and target."""

    @property
    def recipe(self) -> R:
        return self.resolved.recipe

    def count_parameters(self) -> int:
        """Trainable numbers; a tied matrix counts once."""
        return sum(parameter.numel() for parameter in self.network.parameters())


TranslationModel = Learned[TranslationRecipe]


def build_transformer(recipe: TranslationRecipe, source_vocab_size: int, target_vocab_size: int) -> Transformer:
    """A Transformer with fresh weights from torch's random state."""
    return Transformer(
        recipe.model, source_vocab_size=source_vocab_size, target_vocab_size=target_vocab_size, padding_id=PADDING_ID
    )


def save_model(folder: Path, model: TranslationModel, card: str) -> None:
    """Write a model folder's files into an existing folder; the caller makes it visible in one step.

    Raises UsageError for a recipe that is too long to be read again.
    """
    (folder / CONFIG).write_text(rendered(model.resolved), encoding="utf-8")
    save_file({name: tensor.contiguous() for name, tensor in stored_weights(model.network).items()}, folder / WEIGHTS)
    for name, tokenizer in tokenizer_files(model).items():
        (folder / name).write_bytes(tokenizer.model)
    (folder / CARD).write_text(card, encoding="utf-8")
    shutil.copymode(folder / CONFIG, folder / WEIGHTS)  # safetensors writes for the owner alone
    write_manifest(folder, [CONFIG, WEIGHTS, *tokenizer_files(model)])


def rendered(resolved: Resolved[TranslationRecipe]) -> str:
    """The recipe as a model folder has it. Raises UsageError for one that is too long to be read again."""
    text = render(resolved)
    if len(text.encode()) > LARGEST_TEXT_FILE:
        raise UsageError(
            f"the recipe takes more than {LARGEST_TEXT_FILE >> 10} KiB; put the training pairs in fewer files"
        )
    return text


def write_manifest(folder: Path, names: Iterable[str]) -> None:
    """List these files, as they are now."""
    manifest = {"format": FORMAT_VERSION, "files": {name: sha256(folder / name) for name in names}}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def load_model(folder: Path) -> TranslationModel:
    """Read a model folder; raises ModelError with all that is missing, altered or does not fit together."""
    resolved, source_tokenizer, target_tokenizer = check_model(folder)
    with torch.device("meta"):  # nothing is drawn, so it is quick, and torch's random state stays as it was
        model = build_transformer(resolved.recipe, source_tokenizer.vocab_size, target_tokenizer.vocab_size)
    give_weights(model, folder)
    return Learned(resolved, model.eval(), {"source": source_tokenizer, "target": target_tokenizer})


LARGE_WEIGHTS = 1 << 30


def size_of_file(path: Path) -> int:
    """In bytes; 0 where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def check_model(folder: Path) -> tuple[Resolved[TranslationRecipe], Tokenizer, Tokenizer]:
    """Everything that must hold before memory is taken for the weights; returns what had to be read for it.

    Raises ModelError with all that is missing, altered or does not fit together.
    """
    if size_of_file(folder / WEIGHTS) > LARGE_WEIGHTS:
        read_header(folder)  # which tells a file of nothing before hours are spent on its digest
    listed = check_manifest(folder)
    resolved = read_config(folder)
    if unlisted := [name for name in tokenizer_names(resolved.recipe) if name not in listed]:
        raise ModelError(folder, [Problem(name, "is not in the manifest") for name in unlisted])
    source_tokenizer, target_tokenizer = load_tokenizers(folder, resolved.recipe)
    check_weights(folder, resolved.recipe, (source_tokenizer.vocab_size, target_tokenizer.vocab_size))
    return resolved, source_tokenizer, target_tokenizer


def read_config(folder: Path) -> Resolved[TranslationRecipe]:
    """The recipe in a model folder; raises ModelError where it is none."""
    try:
        text = (folder / CONFIG).read_text(encoding="utf-8")
        return parse_rendered(text, TranslationRecipe, folder / CONFIG)
    except OSError as error:
        raise ModelError(folder, [Problem(CONFIG, f"cannot be read: {error.strerror}")]) from None
    except (RecipeError, UnicodeDecodeError) as error:
        raise ModelError(folder, [Problem(CONFIG, str(error))]) from None


def model_files(folder: Path) -> list[str]:
    """The names of the files that are the model, among whatever else lies in the folder; sorted."""
    listed, _ = read_manifest(folder)
    return sorted({*listed, MANIFEST, *([CARD] if (folder / CARD).is_file() else [])})


def parts_of(folder: Path) -> set[str]:
    """The names of what weft itself has written into the folder of a model or a run, and reads again."""
    names: set[str] = set()
    if (folder / "run.json").is_file():
        names |= {"run.json", "lock", "scores.json", CONFIG, DIAGNOSIS, *LOGS}
    with suppress(ModelError):  # a run that is not finished has no manifest, and another folder may have a foreign one
        names |= {*read_manifest(folder)[0], MANIFEST, CARD}
    return names


def give_weights(model: Transformer, folder: Path) -> None:
    """Give a folder's weights to a model that is a shape alone; what is tied in it stays tied."""
    weights = restored(load_file(folder / WEIGHTS))
    # In memory of their own: what is read may be the mapped file, which somebody may write over.
    given = {shape: nn.Parameter(weights[name].clone()) for name, shape in model.named_parameters()}
    by_name = {name: given[shape] for name, shape in model.named_parameters(remove_duplicate=False)}
    model.load_state_dict(by_name, assign=True)


def load_weights(model: Transformer, folder: Path) -> None:
    """Put a folder's weights into a model of the same shape."""
    weights = restored(load_file(folder / WEIGHTS))
    model.load_state_dict(weights, strict=False)  # tied names are stored once; shapes are checked


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
    suffix = KINDS[recipe.tokenizer.kind].suffix
    if recipe.tokenizer.shared and not recipe.tokenizer.cut_apart:
        return f"tokenizer{suffix}", f"tokenizer{suffix}"
    return f"tokenizer.source{suffix}", f"tokenizer.target{suffix}"


def tokenizer_files(model: TranslationModel) -> dict[str, Tokenizer]:
    tokenizers = model.vocabularies["source"], model.vocabularies["target"]
    return dict(zip(tokenizer_names(model.recipe), tokenizers, strict=True))


def load_tokenizers(folder: Path, recipe: TranslationRecipe) -> tuple[Tokenizer, Tokenizer]:
    """The source's and the target's tokenizer, each with the normalization the recipe gives it."""
    names = tokenizer_names(recipe)
    sides: tuple[Literal["source", "target"], ...] = ("source", "target")
    source, target = (
        load_tokenizer(
            folder / name,
            kind=recipe.tokenizer.kind,
            language=vocabulary_language(recipe, side),
            normalization=recipe.tokenizer.normalization,
            punctuation=punctuation_of(recipe, side),
            script=script_of(recipe, side),
        )
        for name, side in zip(names, sides, strict=True)
    )
    if recipe.tokenizer.cut_apart:
        kind = recipe.tokenizer.kind
        if pieces_of(source, kind) != pieces_of(target, kind):
            raise ModelError(folder, [Problem(names[1], f"has other pieces than {names[0]}, or in another order")])
    return source, target


def vocabulary_language(recipe: TranslationRecipe, side: Literal["source", "target"]) -> str:
    """The language that a side's vocabulary is made for, or both with a + between them where they share it."""
    data = recipe.data
    if recipe.tokenizer.shared:
        return f"{data.source}+{data.target}"
    return data.source if side == "source" else data.target


def script_of(recipe: TranslationRecipe, side: Literal["source", "target"]) -> Script:
    """The script a side is converted to; `auto` has been replaced when the run began."""
    script = recipe.tokenizer.source_script if side == "source" else recipe.tokenizer.target_script
    if script == "auto":
        raise ModelError(
            CONFIG, [Problem(f"tokenizer.{side}_script", "is still `auto`; a model must say which script")]
        )
    return cast(Script, script)


def punctuation_of(recipe: TranslationRecipe, side: Literal["source", "target"]) -> Punctuation:
    tokenizer = recipe.tokenizer
    return tokenizer.source_punctuation if side == "source" else tokenizer.target_punctuation


def check_manifest(folder: Path, weights: Sequence[str] = (WEIGHTS,)) -> set[str]:
    """Every listed file is there, a plain file, and has the digest that the manifest gives; returns their names.

    `weights` are the files that hold the model's, for whichever engine. A folder with a link in it is refused: what it
    leads to is not part of the model.
    """
    digests, problems = read_manifest(folder, weights)
    sound = digests.keys() - {problem.where for problem in problems}
    problems += [problem for name in sorted(sound) for problem in check_digest(folder, name, digests[name])]
    if problems:
        raise ModelError(folder, problems)
    return set(digests)


def read_manifest(folder: Path, weights: Sequence[str] = (WEIGHTS,)) -> tuple[dict[str, object], list[Problem]]:
    """The listed names with their digests, not yet compared, and what is wrong with the files as far as a look tells.

    Raises ModelError where there is no manifest that this weft can read.
    """
    path = folder / MANIFEST
    try:
        links = sorted(entry.name for entry in folder.iterdir() if entry.is_symlink())
    except OSError as error:
        raise ModelError(folder, [Problem("the folder", f"cannot be read: {error.strerror}")]) from None
    if links:
        raise ModelError(folder, [Problem(name, "is a link or no plain file") for name in links])
    if not path.is_file():
        what = (
            "is missing; a model folder holds config.toml, model.safetensors, tokenizers, README.md and manifest.json"
        )
        raise ModelError(folder, [Problem(MANIFEST, what)])
    if path.stat().st_size > LARGEST_TEXT_FILE:
        raise ModelError(folder, [Problem(MANIFEST, f"is larger than {LARGEST_TEXT_FILE >> 10} KiB")])
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        version, digests = manifest["format"], manifest["files"]
        if not isinstance(digests, dict) or len(digests) > MOST_FILES:
            raise ValueError("files is not a table, or is endless")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise ModelError(folder, [Problem(MANIFEST, "is not a manifest of a weft model")]) from None
    if version != FORMAT_VERSION:
        what = f"names format {version}; this weft reads format {FORMAT_VERSION}; use the weft that wrote it"
        raise ModelError(folder, [Problem(MANIFEST, what)])
    hint = "; the model was exported for another engine: weft translate runs it" if EXPORT in digests else ""
    problems = [Problem(name, f"is not in the manifest{hint}") for name in (CONFIG, *weights) if name not in digests]
    return digests, problems + [problem for name in digests for problem in check_file(folder, name, weights)]


def check_file(folder: Path, name: str, weights: Sequence[str]) -> list[Problem]:
    """What is wrong with a listed file before it is opened."""
    path = folder / name
    if not PLAIN_NAME.fullmatch(name):
        return [Problem(name, "leads out of the folder or is not a plain name")]
    if not path.is_file():
        return [Problem(name, "is a link or no plain file" if path.exists() else "is missing")]
    largest = LARGEST_TEXT_FILE if name == CONFIG else LARGEST_OTHER_FILE
    if name not in weights and path.stat().st_size > largest:
        return [Problem(name, f"is larger than {largest >> 10} KiB")]
    return []


def check_digest(folder: Path, name: str, digest: object) -> list[Problem]:
    try:
        found = sha256(folder / name)
    except OSError as error:
        return [Problem(name, f"cannot be read: {error.strerror}")]
    return [] if found == digest else [Problem(name, "was changed or damaged: its sha256 is not the manifest's")]


def check_weights(folder: Path, recipe: TranslationRecipe, vocab_sizes: tuple[int, int]) -> None:
    """Names and shapes of the weights against the recipe, before memory is taken for either."""
    with torch.device("meta"):
        expected = {
            name: list(tensor.shape) for name, tensor in stored_weights(build_transformer(recipe, *vocab_sizes)).items()
        }
    header = read_header(folder)
    found = weights_in(header)
    problems = [Problem(name, "is missing from the weights") for name in expected if name not in found]
    problems += [
        Problem(name, "is a weight that this recipe has no place for") for name in found if name not in expected
    ]
    problems += [
        Problem(name, f"has shape {found[name][0]}, the recipe makes it {shape}")
        for name, shape in expected.items()
        if name in found and found[name][0] != shape
    ]
    problems += storage_problems(header)
    if problems:
        raise ModelError(folder, problems)


def read_header(folder: Path) -> Header:
    """What the file of the weights says that it holds, without reading any; raises ModelError."""
    path = folder / WEIGHTS
    start = b""
    try:
        with open(path, "rb") as file:
            start = file.read(8)
        if (claimed := int.from_bytes(start, "little")) > LARGEST_HEADER:
            raise ValueError(f"its header claims {claimed:,} bytes")
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
            return {name: (part.get_shape(), part.get_dtype()) for name, part in slices.items()}
    except (SafetensorError, OSError, ValueError) as error:
        hint = f"; it begins like a pickle: {HOW_TO_CONVERT}" if start.startswith(PICKLED_STARTS) else ""
        raise ModelError(folder, [Problem(WEIGHTS, f"cannot be read: {error}{hint}")]) from None


def find_model(name: str | Path) -> Path:
    """The model folder that a user means: a folder, a run, or a model that comes with weft, by its name.

    A finished run is a model itself; of another its best weights are meant, also while it trains. A folder that is
    there comes before a model of that name that comes with weft. Raises UsageError that says what to do.
    """
    if not isinstance(name, str | os.PathLike):
        raise UsageError(f"a model is named by a string or a path, found {type(name).__name__}")
    path = Path(name)
    try:
        if (path / "run.json").is_file():
            return model_of_run(path)
        if (path / MANIFEST).is_file():
            return path
        if not path.exists() and str(name) in shipped_models():
            return PRETRAINED / name
        raise UsageError(what_instead(path))
    except OSError as error:
        raise UsageError(f"the model {name} cannot be read: {error.strerror}") from None


def model_of_run(run: Path) -> Path:
    if (run / "run.json").stat().st_size > LARGEST_TEXT_FILE:
        raise UsageError(f"{run / 'run.json'} is larger than {LARGEST_TEXT_FILE >> 10} KiB; a run's is a few lines")
    status = RunStatus.read(run / "run.json")
    if status.best is None:
        raise UsageError(f"the run {run} has not been validated yet, so it has no best weights")
    best = RunFolder(run).checkpoint(status.best)
    return run if (status.finished and (run / MANIFEST).is_file()) or not best.is_dir() else best


def shipped_models() -> list[str]:
    """The names of the models that come with weft."""
    return sorted(manifest.parent.name for manifest in PRETRAINED.glob(f"*/{MANIFEST}"))


def what_instead(path: Path) -> str:
    """Explain why a path is not a model, and what to give instead."""
    shipped = shipped_models()
    if path.is_dir():
        pickled = sorted(file.name for file in path.iterdir() if file.suffix in PICKLED)
        hint = f"; {pickled[0]} may hold a pickle: {HOW_TO_CONVERT}" if pickled else ""
        hint += f"; to use the model {path} that comes with weft, rename this folder" if str(path) in shipped else ""
        return f"{path} is neither a model folder (no {MANIFEST}) nor a run (no run.json){hint}"
    if path.is_file() and path.suffix == ".zip":
        return f"there is no model {path}: it is an archive; unpack it first: weft models unpack {path} FOLDER"
    if path.is_file():
        pickled = f"it may hold a pickle: {HOW_TO_CONVERT}"
        hint = pickled if path.suffix in PICKLED else "it is a file; give the folder that it belongs to"
        return f"there is no model {path}: {hint}"
    near = difflib.get_close_matches(str(path), shipped, n=3)
    known = f"; with weft come {', '.join(shipped)}" if shipped else ""
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"there is no model {path}; give a model folder or a run folder{known}{meant}"
