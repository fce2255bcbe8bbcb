"""COMET (Rei et al. 2020): a learned metric that reads source, translation and reference.

The user provides the library (unbabel-comet) and a checkpoint on this machine. Nothing is downloaded.
"""

import importlib.metadata
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

from weft.errors import UsageError, WeftError
from weft.files import sha256
from weft.metrics.score import Score

SETTINGS = "hparams.yaml"


def comet(checkpoint: Path, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """The mean score of the sentences, about 0 to 1, by a checkpoint of the user's (checkpoints/model.ckpt).

    Raises what `refuse_unusable` raises, and WeftError if the library cannot read the checkpoint.
    """
    refuse_unusable(checkpoint)
    checkpoint = checkpoint.resolve()  # the library looks for settings in the folder above
    os.environ["HF_HUB_OFFLINE"] = "1"  # a checkpoint names an encoder, which the library would download
    from comet import load_from_checkpoint  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

    samples = [
        {"src": source, "mt": hypothesis, "ref": reference}
        for source, hypothesis, reference in zip(sources, hypotheses, references, strict=True)
    ]
    try:
        value = float(load_from_checkpoint(str(checkpoint)).predict(samples, gpus=0, progress_bar=False).system_score)
    except Exception as error:  # the library may raise anything for a foreign file
        raise WeftError(f"{checkpoint} could not be used by COMET: {type(error).__name__}: {error}") from error
    version = importlib.metadata.version("unbabel-comet")
    signature = f"comet|checkpoint:{checkpoint.name}|sha256:{sha256(checkpoint)[:12]}|version:{version}"
    return Score("comet", value, "0..1", signature)


def refuse_unusable(checkpoint: Path | None) -> None:
    """Raise UsageError without the file or its settings, WeftError without the library; to be called before anything is
    translated."""
    if checkpoint is None:
        return
    if not checkpoint.is_file():
        raise UsageError(
            f"--comet {checkpoint} is not a file; name the checkpoint of a COMET model, which ends with .ckpt; weft "
            "does not download any"
        )
    settings = checkpoint.resolve().parent.parent / SETTINGS
    if not settings.is_file():
        raise UsageError(
            f"--comet {checkpoint}: COMET reads the settings of a model from the folder above its checkpoint, and "
            f"{settings} does not exist; keep both as downloaded: MODEL/{SETTINGS} and MODEL/checkpoints/model.ckpt"
        )
    if importlib.util.find_spec("comet") is None:
        raise WeftError(
            "COMET needs the library unbabel-comet, which is not installed; install it with: pip install unbabel-comet"
        )
