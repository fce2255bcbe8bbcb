"""Summarize a model without loading it: languages, size, recipe, data, scores, license.

Data, scores and license are read from the model card, which may have been edited. Digests are not compared.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from weft.errors import ModelError, shown
from weft.figures.table import aligned
from weft.files import megabytes
from weft.folders.card import data_rows, license_of
from weft.folders.export import check_exported
from weft.folders.finding import read_found
from weft.folders.kinds import KINDS
from weft.folders.manifest import CARD, EXPORT, LARGEST_CARD, LARGEST_TEXT_FILE, MANIFEST, model_files, read_manifest
from weft.folders.model_folder import read_config, read_header
from weft.folders.weight_storage import weights_in
from weft.training.run_folder import RunStatus

MAIN_KEYS = {
    "model": (
        *("kind", "model_dim", "num_heads", "encoder_heads", "decoder_heads", "cross_heads", "encoder_layers"),
        *("decoder_layers", "num_layers", "ff_dim", "cell", "embedding_dim", "hidden_dim", "encoder_dim", "attention"),
        *("window", "order", "activation", "norm"),
    ),
    "tokenizer": ("kind", "source_size", "target_size", "size", "shared"),
    "training": ("optimizer", "learning_rate", "schedule", "epochs", "label_smoothing"),
    "decoding": ("method", "beam_size", "length_penalty"),
}
"""The recipe keys that a summary shows, where they are set."""


@dataclass(frozen=True)
class ModelSummary:
    """A description of one model. `parameters` is their number, `card` the text of README.md."""

    name: str
    folder: Path
    state: str
    """"model", the state of the run, or the engine that the model was exported for."""
    recipe: Any
    parameters: int
    size: int
    """Total bytes of the model's files."""
    card: str

    @property
    def languages(self) -> str:
        return " → ".join(KINDS[self.recipe.task].languages(self.recipe))

    @property
    def license(self) -> str:
        return license_of(self.card) or "unknown"

    @property
    def data(self) -> list[dict[str, str]]:
        """The files in the card's data table: part, file, sha256."""
        return [dict(zip(("part", "file", "sha256"), row, strict=True)) for row in data_rows(self.card)]

    @property
    def scores(self) -> list[dict[str, Any]]:
        """The scores in the card's tables: data (`on`), name, value, signature."""
        found, on = [], ""
        for line in self.card.replace("\\|", "|").splitlines():  # as in_a_cell writes bars
            on = line.removesuffix(":") if line.endswith(":") else on
            if row := re.fullmatch(r"\| (\S+) \| (-?\d{1,9}\.\d{1,9}) \| `([^`]+)` \|", line):
                found.append({"on": on, "score": row[1], "value": float(row[2]), "signature": row[3]})
        return found

    def main_settings(self) -> dict[str, dict[str, Any]]:
        tables = {table: dict(getattr(self.recipe, table)) for table in MAIN_KEYS if hasattr(self.recipe, table)}
        return {
            name: {key: table[key] for key in MAIN_KEYS[name] if table.get(key) is not None}
            for name, table in tables.items()
        }

    def as_dict(self) -> dict[str, Any]:
        """The summary as a JSON object."""
        return {
            "name": self.name,
            "folder": str(self.folder),
            "state": self.state,
            "task": self.recipe.task,
            **{
                side: getattr(self.recipe.data, side)
                for side in ("source", "target")
                if self.recipe.task == "translation"
            },
            "parameters": self.parameters,
            "bytes": self.size,
            "license": self.license,
            "seed": self.recipe.seed,
            "recipe": self.main_settings(),
            "data": self.data,
            "scores": self.scores,
        }

    def row(self) -> list[str]:
        """The cells of a line in a list: name, languages, parameters, size, state, sacreBLEU."""
        bleu = next((f"sacrebleu {s['value']:.2f}" for s in self.scores if s["score"] == "sacrebleu"), "")
        parameters = f"{self.parameters:,} parameters"
        name = shown(self.name, 200).replace("\n", "\\n")
        return [name, shown(self.languages, 40), parameters, megabytes(self.size), self.state, bleu]

    def text(self) -> str:
        """The summary for a terminal: one property per line, then a table of scores for each evaluated data set."""
        lines = [
            ("folder", f"{self.folder} ({self.state})"),
            ("languages", self.languages),
            ("parameters", f"{self.parameters:,}"),
            ("size", megabytes(self.size)),
            ("license", self.license),
            ("seed", str(self.recipe.seed)),
        ]
        for table, settings in self.main_settings().items():
            lines.append((table, ", ".join(f"{key} {value}" for key, value in settings.items())))
        lines += [("data", f"{row['part']} {row['file']} (sha256 {row['sha256']})") for row in self.data]
        written = aligned(lines)
        tables: dict[str, list[list[str]]] = {}
        for score in self.scores:
            row = [score["score"], f"{score['value']:.4f}", score["signature"]]
            tables.setdefault(score["on"], []).append(row)
        for on, rows in tables.items():
            written += ["", on, *aligned(rows)]
        return shown("\n".join(written), LARGEST_TEXT_FILE)


def summarize(name: str | Path) -> ModelSummary:
    """Summarize the model that `name` means (finding.py). Raises UsageError or ModelError if there is none."""
    return read_found(name, lambda folder: summary_of(folder, name))


def summary_of(folder: Path, name: str | Path) -> ModelSummary:
    run = Path(name)
    if (folder / EXPORT).is_file():
        export, model = check_exported(folder)
        state, recipe = f"exported for {export.engine}, {export.precision}", model.recipe
        parameters = model.count_parameters()
    else:
        _, problems = read_manifest(folder)
        if problems:
            raise ModelError(folder, problems)
        parameters = sum(prod(shape) for shape, _ in weights_in(read_header(folder)).values())
        state = state_of_run(run) if (run / "run.json").is_file() else "model"
        recipe = read_config(folder).recipe
    size = sum((folder / file).stat().st_size for file in model_files(folder))
    return ModelSummary(str(name), folder, state, recipe, parameters, size, read_card(folder))


def state_of_run(run: Path) -> str:
    status = RunStatus.read(run / "run.json")
    return f"{'finished run' if status.finished else 'run'}, step {status.last}"


def read_card(folder: Path) -> str:
    """Read the model card; empty if it is missing, too large or unreadable."""
    path = folder / CARD
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_CARD:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def models_under(folder: Path) -> Iterator[Path]:
    """Yield the model and run folders at or below a folder, except those inside a run.

    Unreadable folders are yielded too, so that summarizing one reports why.
    """
    waiting = [folder]
    while waiting:
        folder = waiting.pop()
        try:
            has_manifest = (folder / MANIFEST).is_file()
            # Prepared pairs (source.ids) have a manifest too.
            if (folder / "run.json").is_file() or (has_manifest and not (folder / "source.ids").is_file()):
                yield folder
                continue
            inside = [entry for entry in folder.iterdir() if not entry.name.startswith(".") and not entry.is_symlink()]
        except OSError:
            yield folder
            continue
        waiting += sorted((entry for entry in inside if entry.is_dir()), reverse=True)
