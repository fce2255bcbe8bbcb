"""The README.md of a model folder: what the model is, what it learned from, how good it is, what it cannot do."""

import re
from collections.abc import Mapping
from typing import Any

import weft
from weft.tasks.model_folder import TranslationModel


def model_card(
    model: TranslationModel,
    *,
    data: Mapping[str, Mapping[str, str]],
    pairs: int,
    steps: int,
    validation: tuple[str, float] | None,
    evaluations: list[dict[str, Any]],
) -> str:
    """Markdown with a YAML header, filled from what is known; `data` maps train and valid to their files' sha256."""
    recipe = model.recipe
    source, target = recipe.data.source, recipe.data.target
    lines = [
        "---",
        f"language: [{source}, {target}]",
        "library_name: weft",
        "pipeline_tag: translation",
        "license: unknown",
        "---",
        "",
        f"# {source} → {target}, {model.count_parameters():,} parameters",
        "",
        f"A {recipe.model.kind} of {recipe.model.encoder_layers}+{recipe.model.decoder_layers} layers, "
        f"{recipe.model.model_dim} wide, trained by weft {weft.__version__} for {steps:,} steps on {pairs:,} pairs "
        f"with seed {recipe.seed}. Every setting and where it came from stands in `config.toml`.",
        "",
        "    weft translate --model THIS_FOLDER 'a sentence'",
        "",
        "## Data",
        "",
        "| part | file | sha256 |",
        "| --- | --- | --- |",
    ]
    lines += [f"| {part} | `{name}` | `{digest}` |" for part, files in data.items() for name, digest in files.items()]
    lines += [
        "",
        "The licence of the weights follows from these files; put it into the header before you pass the model on.",
        "",
        "## Scores",
        "",
    ]
    if validation is not None:
        metric, value = validation
        how = ", translated greedily" if metric not in ("valid_loss", "valid_accuracy") else ""
        lines += [f"The best of its run by `{metric}` on the valid files{how}: {value:.4f}.", ""]
    for evaluation in evaluations:
        count = evaluation["sentences"]
        decoding = ", ".join(
            f"{key} {evaluation['decoding'][key]}" for key in ("method", "beam_size", "length_penalty")
        )
        lines += [
            f"{', '.join(evaluation['data'])}, {count:,} sentence{'s' * (count != 1)}, {decoding}:",
            "",
            "| score | value | signature |",
            "| --- | ---: | --- |",
            *(f"| {name} | {s['value']:.4f} | `{s['signature']}` |" for name, s in evaluation["scores"].items()),
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


def recorded_files(card: str, part: str) -> dict[str, str]:
    """sha256 -> name of the files that a card lists under this part of its data; empty where it lists none."""
    rows = re.findall(rf"^\| {re.escape(part)} \| `(.+)` \| `([0-9a-f]{{64}})` \|$", card, re.MULTILINE)
    return {digest: name for name, digest in rows}
