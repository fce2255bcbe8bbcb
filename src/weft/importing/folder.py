"""`weft import`: another system's folder becomes a model folder, or nothing is written."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from weft.config import override
from weft.errors import UsageError
from weft.files import refuse_existing_folder, sha256
from weft.folders.card import card_head
from weft.folders.model_folder import TranslationModel, check_model, save_model
from weft.importing.conversion import convert
from weft.importing.foreign import Foreign
from weft.importing.joeynmt import read_joeynmt
from weft.importing.marian import read_marian
from weft.importing.marian_npz import read_marian_npz
from weft.importing.opening import LARGEST_SETTINGS, file_problems
from weft.text.language import refuse_unknown
from weft.training.run_folder import committed_folder
from weft.translating.loading import CHANGEABLE
from weft.version import __version__

READERS: dict[str, Callable[[Path], Foreign]] = {
    "config.yaml": read_joeynmt,
    "config.json": read_marian,
    "decoder.yml": read_marian_npz,
}
"""The file by which a format is recognized -> its reader."""
LICENSE_LINE = re.compile(r"license: *['\"]?([A-Za-z0-9][A-Za-z0-9 .+-]{0,60}?)['\"]? *")


def import_model(
    folder: Path,
    output: Path,
    *,
    source: str | None = None,
    target: str | None = None,
    overrides: Sequence[str] = (),
    say: Callable[[str], None] = lambda text: None,
) -> TranslationModel:
    """Write the model in another system's `folder` as a new model folder, and return it.

    `source` and `target` are the languages, where the folder does not tell or tells otherwise; overrides are
    "KEY=VALUE" of what can be set of a finished model. Raises ModelError with everything that is wrong with the folder
    or that weft cannot represent, before anything is written; UsageError if the format or the languages of the
    folder are unknown, or `output` exists.
    """
    refuse_existing_folder(output)
    foreign = reader_of(folder)(folder)
    languages = languages_of(foreign, source, target)
    model = convert(foreign, folder, languages)
    model.resolved = override(model.resolved, overrides, f"the recipe of {folder}", CHANGEABLE)
    with committed_folder(output) as staged:
        save_model(staged, model, card(model, foreign, folder))
        check_model(staged)
    say(summary(model, foreign))
    return model


def reader_of(folder: Path) -> Callable[[Path], Foreign]:
    if not folder.is_dir():
        raise UsageError(f"folder {folder} does not exist")
    found = [read for name, read in READERS.items() if (folder / name).exists() or (folder / name).is_symlink()]
    if not found:
        known = " or ".join(READERS)
        raise UsageError(
            f"{folder} holds no {known}; weft import reads Marian models, such as OPUS-MT, as Hugging Face's "
            "transformers keeps them (config.json) or Marian itself (decoder.yml), and runs of JoeyNMT 2 (config.yaml)"
        )
    return found[0]


LANGUAGE = re.compile(r"[A-Za-z]{1,16}(?:[-_+][A-Za-z0-9]{1,16}){0,8}")
"""A language code, such as zh, zh_CN, cmn-Hans."""


def languages_of(foreign: Foreign, source: str | None, target: str | None) -> tuple[str, str]:
    found = {"--source": source or foreign.languages[0], "--target": target or foreign.languages[1]}
    if missing := [option for option, code in found.items() if not code]:
        raise UsageError(f"the folder does not state its languages; give {' and '.join(missing)}, such as --source zh")
    # They go into the terminal and into the head of the model card.
    if strange := [option for option, code in found.items() if not LANGUAGE.fullmatch(str(code))]:
        raise UsageError(
            f"the languages of the folder are not language codes; give {' and '.join(strange)}, such as --source zh"
        )
    for option, code in found.items():
        refuse_unknown(str(code), option)
    return str(found["--source"]), str(found["--target"])


def summary(model: TranslationModel, foreign: Foreign) -> str:
    """Describe the imported model for a terminal."""
    recipe = model.recipe
    lines = [
        f"{foreign.framework}: {recipe.data.source} to {recipe.data.target}, {model.count_parameters():,} parameters, "
        f"{model.vocabularies['source'].vocab_size:,} and {model.vocabularies['target'].vocab_size:,} pieces"
    ]
    if tags := recipe.data.tags:
        some = ", ".join(tags[:5]) + (", ..." if len(tags) > 5 else "")
        lines.append(f"it needs one of its tags to choose the target language ({some}): --set data.tag=TAG")
    return "\n".join(lines)


def card(model: TranslationModel, foreign: Foreign, folder: Path) -> str:
    """Return the README.md of the model folder: what was imported, from which files, under which license."""
    recipe, license_name = model.recipe, stated_license(folder)
    source, target = recipe.data.source, recipe.data.target
    shape = recipe.model
    lines = [
        *card_head(recipe, license_name or "unknown"),
        f"# {source} → {target}, {model.count_parameters():,} parameters",
        "",
        f"A {shape.kind} of {shape.describe()}, that "
        f"weft {__version__} imported from a folder `{plain(folder.name)}` of {foreign.framework}. What it was "
        "trained on, and how well it translates, that folder may tell.",
        "",
        "    weft translate --model THIS_FOLDER 'a sentence'",
        "",
        "## Imported files",
        "",
        "| file | sha256 |",
        "| --- | --- |",
        *(f"| `{plain(name)}` | `{sha256(folder / name)}` |" for name in foreign.files),
        "",
        "The license above is the one that the folder states in its README.md."
        if license_name
        else "The folder states no license in its README.md; find it where the model is from, before you pass it on.",
        "",
    ]
    return "\n".join(lines)


def stated_license(folder: Path) -> str | None:
    """Return the license that the header of the folder's README.md states."""
    if next(file_problems(folder, "README.md", LARGEST_SETTINGS), None) is not None:
        return None
    lines = (folder / "README.md").read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines or lines[0].strip() != "---" or "---" not in lines[1:]:
        return None
    header = lines[1 : lines.index("---", 1)]
    return next((found[1] for line in header if (found := LICENSE_LINE.fullmatch(line))), None)


def plain(name: str) -> str:
    """Make the name of a foreign file safe in Markdown."""
    return re.sub(r"[^\w. ()+-]", "_", name)
