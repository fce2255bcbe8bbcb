"""Several processes that train one model, as `torchrun` starts them on this machine, and what becomes of them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from bench.reliability.place import last_step, said_by
from safetensors.torch import load_file

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]


def start_together(folder: Path, run: str, *settings: str, processes: int = 2) -> subprocess.Popen[str]:
    """`torchrun ... -m -- weft train` by the recipe in the folder; `settings` are KEY=VALUE."""
    options = [word for setting in settings for word in ("--set", setting)]
    command = [*TORCHRUN, "--nproc-per-node", str(processes), "-m", "--", "weft", "train", str(folder / "tiny.toml")]
    return subprocess.Popen(
        [*command, "--run", str(folder / run), *options],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},  # two processes need two devices, and CPUs are always there
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish_together(folder: Path, run: str, *settings: str, processes: int = 2) -> str:
    """Let it come to its end, and return what it said; raises SystemExit where it fails or gets stuck."""
    running = start_together(folder, run, *settings, processes=processes)
    return said_by(running, run, end=subprocess.Popen.terminate)  # torchrun ends what it has started


def ranks_of(torchrun: subprocess.Popen[str]) -> list[int]:
    """The processes that it has started, by their ranks."""
    found: dict[int, int] = {}
    for child in Path(f"/proc/{torchrun.pid}/task/{torchrun.pid}/children").read_text(encoding="ascii").split():
        for entry in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            if entry.startswith(b"RANK="):
                found[int(entry.removeprefix(b"RANK="))] = int(child)
    return [found[rank] for rank in sorted(found)]


def tensors_of(run: Path) -> dict[str, torch.Tensor]:
    """Weights and optimizer state of a run's last checkpoint."""
    last = run / "checkpoints" / f"step-{last_step(run)}"
    return {**load_file(last / "model.safetensors"), **load_file(last / "training.safetensors")}


def largest_difference(run: Path, other: Path) -> float:
    """Between any two numbers of two runs' last checkpoints, weights and optimizer state."""
    mine, its = tensors_of(run), tensors_of(other)
    if mine.keys() != its.keys():
        raise SystemExit(f"{run.name} and {other.name} do not hold the same tensors")
    return max(float((mine[name] - its[name]).abs().max()) for name in mine if mine[name].numel())


def losses_of(rows: list[dict[str, Any]]) -> list[float]:
    return [row["loss"] for row in rows if "loss" in row]
