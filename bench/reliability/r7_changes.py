"""R7: something is not what it was when a run was begun; is going on with it refused, and the difference named?

`python -m bench.reliability.r7_changes`. A run is stopped after some steps. Then, on a copy each time, its data, its
recipe, its vocabulary or its checkpoint is changed and the same command run again: it must end in one error that names
what is different, and leave every file as it was. At last the run goes on unchanged, to the end of an undisturbed one.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.reliability.place import RECIPE, differences, last_step, place
from bench.reliability.r2_resume import StopsAfter
from bench.reliability.record import options_of, record

from weft.errors import Stopped, WeftError
from weft.folders.manifest import MANIFEST
from weft.folders.model_folder import load_model
from weft.runs.train import train
from weft.text.sentencepiece_model import train_sentencepiece
from weft.training.run_folder import STATE, TENSORS

NAME = "R7"
DOES = {
    "en": "going on after a change of data, recipe, vocabulary, batches or checkpoint, {cases} kinds",
    "zh": "改动数据、配方、词表、批次或检查点（{cases} 种）之后继续",
}
FOUND = {
    "en": "{refused} of {cases} refused with the difference named and nothing touched; unchanged it goes on: {goes_on}",
    "zh": "{cases} 种里有 {refused} 种被拒绝，指明差异，没有动任何文件；不改动就能继续：{goes_on}",
}

STOPPED_AFTER = 5
CHECKPOINT = f"run/checkpoints/step-{STOPPED_AFTER}"


@dataclass(frozen=True)
class Change:
    """`make` changes a folder, `overrides` the recipe; the error must say all of `says`."""

    says: tuple[str, ...]
    make: Callable[[Path], object] = lambda folder: None
    overrides: tuple[str, ...] = ()


def edited(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def one_bit(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def two_lines_swapped(content: bytes) -> bytes:
    header, first, second, *rest = content.split(b"\n")
    return b"\n".join([header, second, first, *rest])


def other_vocabulary(folder: Path) -> None:
    """One as large, whose pieces stand in another order, under a manifest that says it is the right one."""
    lines = (folder / "train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    sentences = [line.split("\t")[0] for line in lines]
    more_often = sentences[: len(sentences) // 2] * 3
    name, manifest = "tokenizer.source.model", folder / CHECKPOINT / MANIFEST
    size = load_model(folder / CHECKPOINT).vocabularies["source"].vocab_size
    tokenizer, _ = train_sentencepiece(sentences + more_often, kind="bpe", vocab_size=size, language="zh")
    (folder / CHECKPOINT / name).write_bytes(tokenizer.model)
    listed = json.loads(manifest.read_text(encoding="utf-8"))
    listed["files"][name] = hashlib.sha256((folder / CHECKPOINT / name).read_bytes()).hexdigest()
    manifest.write_text(json.dumps(listed), encoding="utf-8")


CHANGES = {
    "a training pair more": Change(
        ("trained on other data", "train train.tsv"), edited("train.tsv", lambda c: c + "好\tGood.\n".encode())
    ),
    "two training pairs swapped": Change(("train train.tsv",), edited("train.tsv", two_lines_swapped)),
    "a validation pair more": Change(("valid valid.tsv",), edited("valid.tsv", lambda c: c + "好\tGood.\n".encode())),
    "other files": Change(
        ("trained on other data", "train copy.tsv"),
        lambda folder: shutil.copy(folder / "train.tsv", folder / "copy.tsv"),
        overrides=('data.train=["copy.tsv"]',),
    ),
    "vocabulary size": Change(("tokenizer.source_size: was 500, is 400",), overrides=("tokenizer.source_size=400",)),
    "kind of vocabulary": Change(("tokenizer.kind: was 'bpe', is 'unigram'",), overrides=("tokenizer.kind=unigram",)),
    "the vocabulary itself": Change(("other pieces or other batches",), other_vocabulary),
    "batch size": Change(("training.batch_tokens: was 256, is 300",), overrides=("training.batch_tokens=300",)),
    "batches an update": Change(("training.accumulate: was 1, is 2",), overrides=("training.accumulate=2",)),
    "longest pair": Change(("data.max_length: was 256, is 9",), overrides=("data.max_length=9",)),
    "model and rate": Change(
        ("model.ff_dim: was 64, is 32", "training.learning_rate: was 0.008, is 0.1"),
        overrides=("model.ff_dim=32", "training.learning_rate=0.1"),
    ),
    "seed": Change(("seed: was 1, is 2",), overrides=("seed=2",)),
    "a bit of the weights": Change(
        ("model.safetensors", "was changed or damaged"), edited(f"{CHECKPOINT}/model.safetensors", one_bit)
    ),
    "a bit of the vocabulary": Change(
        ("tokenizer.source.model", "was changed or damaged"), edited(f"{CHECKPOINT}/tokenizer.source.model", one_bit)
    ),
    "a bit of the optimizer": Change((TENSORS, "was changed or damaged"), edited(f"{CHECKPOINT}/{TENSORS}", one_bit)),
    "a torn state": Change((STATE, "cannot be read"), edited(f"{CHECKPOINT}/{STATE}", lambda c: c[: len(c) // 2])),
}


def main() -> None:
    options = options_of(__doc__)
    with place() as folder:
        stopped = folder / "stopped"
        stopped.mkdir()
        begin(folder, stopped)
        problems = {name: found for name in CHANGES if (found := refuse(stopped, name))}
        goes_on = not go_on(folder, stopped)
    figures: dict[str, Any] = {
        "cases": len(CHANGES),
        "refused": len(CHANGES) - len(problems),
        "problems": problems,
        "goes_on": goes_on,
    }
    record(options, NAME, figures, passed=goes_on and not problems)


def begin(folder: Path, stopped: Path) -> None:
    """A copy of the place with a run that was stopped within its first epoch."""
    for name in ("train.tsv", "valid.tsv"):
        shutil.copy(folder / name, stopped)
    (stopped / "tiny.toml").write_text(RECIPE, encoding="utf-8")
    try:
        train(stopped / "tiny.toml", run=stopped / "run", listener=StopsAfter(STOPPED_AFTER))
    except Stopped:
        assert last_step(stopped / "run") == STOPPED_AFTER


def refuse(stopped: Path, name: str) -> str:
    """What was not as it should be when the change was made; empty where all was."""
    change, copy = CHANGES[name], stopped.with_name("changed")
    shutil.copytree(stopped, copy)
    change.make(copy)
    before = content(copy)
    try:
        train(copy / "tiny.toml", run=copy / "run", overrides=change.overrides)
        return "it was not refused"
    except WeftError as error:
        if missing := [text for text in change.says if text not in str(error)]:
            return f"it said nothing of {', '.join(missing)}, but: {error}"
        return "" if content(copy) == before else "files were changed"
    finally:
        shutil.rmtree(copy)


def go_on(folder: Path, stopped: Path) -> list[str]:
    """The files in which the stopped run, gone on with, differs from one that was never stopped."""
    train(folder / "tiny.toml", run=folder / "whole")
    train(stopped / "tiny.toml", run=stopped / "run")
    return differences(stopped / "run", folder / "whole")


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


if __name__ == "__main__":
    main()
