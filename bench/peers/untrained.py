"""Models of eole and JoeyNMT of the comparison's size that know nothing: how fast one writes does not depend on it."""

import re
import subprocess
from collections.abc import Collection
from pathlib import Path

from bench.machine import environment
from bench.peers.prepare import prepare

PEERS = Path(__file__).parent


def untrained_models(
    names: Collection[str], peers: Path, data: Path, work: Path, threads: int, kind: str = "transformer"
) -> dict[str, Path]:
    """Where each of "eole" and "joeynmt" finds what it needs; JoeyNMT's is its recipe, and the driver builds the model.

    `peers` is where bench/peers/install put them, and `work` an empty folder.
    """
    prepare(data, work)
    places = {"joeynmt": PEERS / ("joeynmt.yaml" if kind == "transformer" else f"joeynmt-{kind}.yaml")}
    if "eole" in names:
        recipe = work / "eole-once.yaml"
        once = (PEERS / "eole.yaml").read_text(encoding="utf-8")
        for key in ("train_steps", "save_checkpoint_steps"):
            once = re.sub(rf"^(  {key}:) \d+$", r"\1 1", once, flags=re.MULTILINE)
        recipe.write_text(once, encoding="utf-8")
        done = subprocess.run(
            [peers / "eole" / "bin" / "eole", "train", "-c", recipe],
            cwd=work,
            env=environment(threads, data),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        found = sorted((work / "eole" / "model").glob("**/model*.safetensors"))
        if not found:
            raise SystemExit(f"eole saved no model; the end of what it said:\n{done.stdout[-3000:]}")
        places["eole"] = found[-1].parent
    return {name: places[name] for name in names}
