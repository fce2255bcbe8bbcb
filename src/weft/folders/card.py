"""The README.md of a model folder: architecture, training data, scores and limits of the model."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.errors import counted
from weft.folders.kinds import KINDS
from weft.folders.model_folder import Learned
from weft.version import __version__

BEFORE = "train, before"
"""The part of the data table for files that earlier models were trained on, whose weights or outputs this one used."""
HERITAGE = {
    "init": "Its weights began as those of",
    "teacher": "It learned from the distributions of",
    "maker": "It was trained on pairs made by",
}


@dataclass(frozen=True)
class Parent:
    """A model that another was initialized from (`init`), distilled from (`teacher`) or got pairs from (`maker`).

    `part` is one of these three, `digest` the sha256 of its manifest, `license` what its card states, and `seen` maps
    the sha256 of each file that it was trained on to the file's name.
    """

    part: str
    name: str
    digest: str
    license: str | None
    seen: Mapping[str, str]


def card_head(recipe: Any, license: str = "unknown") -> list[str]:
    """The lines of the YAML header, by which model hubs sort models."""
    kind = KINDS[recipe.task]
    languages = f"language: [{', '.join(kind.languages(recipe))}]"
    return ["---", languages, "library_name: weft", f"pipeline_tag: {kind.hub_task}", f"license: {license}", "---", ""]


def model_card(
    model: Learned[Any],
    *,
    data: Mapping[str, Mapping[str, str]],
    pairs: int,
    steps: int,
    validation: tuple[str, float] | None,
    evaluations: list[dict[str, Any]],
    parents: Sequence[Parent] = (),
) -> str:
    """Return the card as Markdown with a YAML header.

    `data` maps train and valid to file name -> sha256, `validation` is the metric and value of the best weights, and
    `evaluations` are the entries of scores.json.
    """
    recipe, kind = model.recipe, KINDS[model.recipe.task]
    languages = kind.languages(recipe)
    made = f"counted by weft {__version__}"
    if not recipe.model.is_counted:
        made = f"trained by weft {__version__} for {counted(steps, 'step')}"
    lines = [
        *card_head(recipe),
        f"# {' → '.join(languages)}, {model.count_parameters():,} parameters",
        "",
        f"A {recipe.model.kind} of {recipe.model.describe()}, {made} on "
        f"{counted(pairs, kind.rows)} with seed {recipe.seed}. Every setting and where it came from stands in "
        "`config.toml`.",
        "",
        "    " + kind.usage.format(folder="THIS_FOLDER"),
        "",
        "## Data",
        "",
        "| part | file | sha256 |",
        "| --- | --- | --- |",
    ]
    rows = [(part, name, digest) for part, files in data.items() for name, digest in files.items()]
    rows += [(one.part, one.name, one.digest) for one in parents]
    rows += [(BEFORE, name, digest) for one in parents for digest, name in one.seen.items()]
    lines += [f"| {part} | `{name}` | `{digest}` |" for part, name, digest in dict.fromkeys(rows)]
    lines += [
        "",
        *(heritage(parent) for parent in parents),
        *([""] if parents else []),
        f"The license of the weights follows from these files{' and models' * bool(parents)}; put it into the header "
        "before you pass the model on.",
        "",
        "## Scores",
        "",
    ]
    if validation is not None:
        metric, value = validation
        is_translated = recipe.task == "translation" and metric not in ("valid_loss", "valid_accuracy")
        how = ", translated greedily" if is_translated else ""
        lines += [f"The best of its run by `{metric}` on the valid files{how}: {value:.4f}.", ""]
    for evaluation in evaluations:
        decoding = evaluation.get("decoding", {})
        settings = [f"{key} {decoding[key]}" for key in ("method", "beam_size", "length_penalty") if key in decoding]
        lines += [
            f"{', '.join([*evaluation['data'], counted(evaluation['sentences'], 'sentence'), *settings])}:",
            "",
            "| score | value | signature |",
            "| --- | ---: | --- |",
            *(
                f"| {name} | {s['value']:.4f} | `{in_a_cell(s['signature'])}` |"
                for name, s in evaluation["scores"].items()
            ),
            "",
        ]
    lines += [
        "## Limits",
        "",
        "A small model knows the kind of sentences it was trained on. Names, numbers, long sentences and subjects that",
        "its corpus does not have are where it fails first, and it fails fluently: read what it writes before you",
        "rely on it.",
        "",
    ]
    return "\n".join(lines)


def heritage(parent: Parent) -> str:
    license = f"license: {parent.license}" if parent.license else "whose card states no license"
    return f"- {HERITAGE[parent.part]} `{parent.name}`, {license}."


def in_a_cell(text: str) -> str:
    """Format a text for a cell of a table, which ends at any bar, even one within `code`."""
    return " ".join(text.replace("|", "\\|").split())


def license_of(card: str) -> str | None:
    """The license in the header of a card; None if it is missing or "unknown"."""
    header = re.match(r"---\n(.*?)^---$", card, re.DOTALL | re.MULTILINE)
    found = re.search(r"^license:[ ]*(\S.*)$", header[1], re.MULTILINE) if header else None
    return found[1].strip() if found and found[1].strip() != "unknown" else None


def recorded_files(card: str, part: str) -> dict[str, str]:
    """sha256 -> name of the files that the card's data table lists for this part."""
    return {digest: name for of, name, digest in data_rows(card) if of == part}


def data_rows(card: str) -> list[tuple[str, str, str]]:
    """Part, file and sha256 of each row of a card's data table."""
    return re.findall(r"^\| ([^|\n]+) \| `(.+)` \| `([0-9a-f]{64})` \|$", card, re.MULTILINE)
