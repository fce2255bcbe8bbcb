"""The golden run: digests of a short training that a change of the code must leave as they are.

    python -m bench.golden --data DIR            compare with those of this kind of machine in bench/results
    python -m bench.golden --data DIR --record   write them down, before a change that should leave results alone

DIR holds zh-en-50k. The digests cover 60 steps of a small Transformer, trained at once, and stopped at step 30 and
resumed; the greedy and the beam answers of the trained model; every file of its model folder; and the first 40 steps of
recipes/course-onecycle.toml. Sums round differently on other processors and with other versions of torch, so digests
are kept for each of these.
"""

import argparse
import hashlib
import json
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from bench.machine import RESULTS, ROOT, Line, circumstances, read_lines
from bench.reliability.r2_resume import StopsAfter

import weft
from weft.errors import Stopped

FILE = RESULTS / "golden.jsonl"
SMALL = (
    *("training.steps=60", "training.validate_every='30 steps'", "training.log_every=1", "training.threads=2"),
    *("training.precision='fp32'", "training.batch_tokens=1024", "tokenizer.source_size=2000"),
    *("tokenizer.target_size=2000", "model.model_dim=64", "model.num_heads=4", "model.encoder_layers=2"),
    *("model.decoder_layers=2", "model.ff_dim=128"),
)
COURSE = ("training.log_every=1", "training.threads=2", "training.precision='fp32'")
TRAINING_PAIRS, VALID_PAIRS, ANSWERS = 4000, 100, 20
MEASURED = ("step", "epoch", "loss", "nll", "learning_rate", "grad_norm", "skipped")
"""What of a line of metrics.jsonl depends on no clock."""
RETIRED = ("parallel",)
"""Keys of [training] that recipes no longer have."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = digests(given.data, Path(folder))
    everything = circumstances()
    everything["torch"] = everything["torch"].partition("+")[0]  # without the name of the build
    here = {key: everything[key] for key in ("processor", "native bf16", "torch")}
    if given.record:
        with open(FILE, "a", encoding="utf-8") as file:
            file.write(json.dumps({**everything, "digests": found}) + "\n")
        return
    known = [line for line in read_lines(FILE) if all(line[key] == here[key] for key in here)]
    if not known:
        sys.exit(f"no digests of {here} in {FILE.relative_to(ROOT)}; --record them with the code before the change")
    expected = known[-1]["digests"]
    changes = [name for name in {**expected, **found} if expected.get(name) != found.get(name)]
    for name in expected:
        print(f"{'changed' if name in changes else 'same':<8} {name}")
    sys.exit(f"{len(changes)} of {len(expected)} digests differ: {', '.join(changes)}" if changes else 0)


def digests(data: Path, folder: Path) -> dict[str, str]:
    """Name -> the first half of a sha256."""
    for name, count in (("train", TRAINING_PAIRS), ("valid", VALID_PAIRS)):
        lines = (data / "zh-en-50k" / f"{name}.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / "zh-en-50k").mkdir(exist_ok=True)
        (folder / "zh-en-50k" / f"{name}.tsv").write_text("".join(lines[: count + 1]), encoding="utf-8")
    recipe = ROOT / "bench" / "zh-en-50k.toml"
    whole, parted = folder / "whole", folder / "parted"
    weft.train(recipe, run=whole, data=folder, overrides=SMALL)
    stopped(recipe, parted, folder, SMALL, step=30)
    weft.train(recipe, run=parted, data=folder, overrides=SMALL)
    course = folder / "course"
    stopped(ROOT / "recipes" / "course-onecycle.toml", course, data, COURSE, step=40)
    found = {
        "60 steps": digest(steps_of(whole)),
        "60 steps, resumed at 30": digest(steps_of(parted)),
        "course-onecycle, 40 steps": digest(steps_of(course)),
        **{f"model: {name}": digest(content) for name, content in model_files(whole).items()},
        "resumed weights": digest((parted / "model.safetensors").read_bytes()),
    }
    translator = weft.load(whole)
    sources = [line.split("\t")[0] for line in (data / "zh-en-50k/valid.tsv").read_text("utf-8").splitlines()[1:]]
    for method in ("greedy", "beam"):
        answers = translator.translate(sources[:ANSWERS], method=method)
        found[method] = digest([[each.text, each.log_prob.hex(), each.score.hex()] for each in answers])
    return found


def stopped(recipe: Path, run: Path, data: Path, overrides: tuple[str, ...], step: int) -> None:
    try:
        weft.train(recipe, run=run, data=data, overrides=overrides, listener=StopsAfter(step))
    except Stopped:
        return
    raise AssertionError(f"the run did not stop at step {step}")


def steps_of(run: Path) -> list[Line]:
    """What was logged and validated, without what depends on a clock."""
    lines = read_lines(run / "metrics.jsonl")
    return [{key: line[key] for key in line if key in MEASURED or key.startswith("valid_")} for line in lines]


def model_files(run: Path) -> dict[str, bytes | Any]:
    """The files of the model folder; of its recipe the values, of its manifest the names."""
    manifest = json.loads((run / "manifest.json").read_text("utf-8"))
    config = tomllib.loads((run / "config.toml").read_text("utf-8"))
    config["training"] = {key: value for key, value in config["training"].items() if key not in RETIRED}
    binary = {name: (run / name).read_bytes() for name in manifest["files"] if name != "config.toml"}
    return {**binary, "config.toml": config, "manifest.json": [manifest["format"], *manifest["files"]]}


def digest(content: Any) -> str:
    data = content if isinstance(content, bytes) else json.dumps(content, sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()[:32]


if __name__ == "__main__":
    main()
