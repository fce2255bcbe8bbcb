"""COMET (Rei et al. 2020): a learned metric that reads source, translation and reference. Knows how to ask for it only:
the library (unbabel-comet) and a checkpoint on this machine are the user's. Nothing is downloaded."""

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
    """The mean over the sentences, about 0 to 1, of a checkpoint (checkpoints/model.ckpt) that the user has.

    Raises what `refuse_unusable` raises, and WeftError where the library cannot read the checkpoint.
    """
    refuse_unusable(checkpoint)
    checkpoint = checkpoint.resolve()  # the library looks for settings in the folder above
    os.environ["HF_HUB_OFFLINE"] = "1"  # a checkpoint names an encoder, which the library would go and fetch
    from comet import load_from_checkpoint  # pyright: ignore[reportMissingImports]

    samples = [
        {"src": source, "mt": hypothesis, "ref": reference}
        for source, hypothesis, reference in zip(sources, hypotheses, references, strict=True)
    ]
    try:
        value = float(load_from_checkpoint(str(checkpoint)).predict(samples, gpus=0, progress_bar=False).system_score)
    except Exception as error:  # a library of others reads a file of others: it raises whatever they bring about
        raise WeftError(f"{checkpoint} could not be used by COMET: {type(error).__name__}: {error}") from error
    version = importlib.metadata.version("unbabel-comet")
    signature = f"comet|checkpoint:{checkpoint.name}|sha256:{sha256(checkpoint)[:12]}|version:{version}"
    return Score("comet", value, "0..1", signature)


def refuse_unusable(checkpoint: Path | None) -> None:
    """Raise, before anything is translated, UsageError where there is no such file or no settings above it, WeftError
    without the library."""
    if checkpoint is None:
        return
    if not checkpoint.is_file():
        raise UsageError(
            f"--comet {checkpoint} is no file; name the checkpoint of a COMET model, which ends with .ckpt; weft "
            "downloads none"
        )
    settings = checkpoint.resolve().parents[1] / SETTINGS
    if not settings.is_file():
        raise UsageError(
            f"--comet {checkpoint}: COMET reads the settings of a model in the folder above its checkpoint, and there "
            f"is no {settings}; keep both as they came: MODEL/{SETTINGS} and MODEL/checkpoints/model.ckpt"
        )
    if importlib.util.find_spec("comet") is None:
        raise WeftError(
            "COMET needs the library unbabel-comet, which is not installed; install it with: pip install unbabel-comet"
        )
