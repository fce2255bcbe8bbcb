"""The folders of fixtures/, as transformers and JoeyNMT left them, what these systems answered, and weft's imports."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from weft.folders.model_folder import TranslationModel, load_model
from weft.importing.folder import import_model
from weft.text.vocabulary import BEGIN_ID, END_ID, PADDING_ID, UNKNOWN_ID

FIXTURES = Path(__file__).parent / "fixtures"
MARIAN, JOEYNMT = ("marian-shared", "marian-apart"), ("joeynmt-pre", "joeynmt-post")
FOLDERS = (*MARIAN, *JOEYNMT)


@dataclass(frozen=True)
class Imported:
    """One of FOLDERS beside what weft has made of it."""

    original: Path
    folder: Path
    model: TranslationModel
    oracle: dict[str, Any]
    """What make_marian.py and make_joeynmt.py write."""
    logits: list[np.ndarray]

    def tokens(self, side: str) -> list[str]:
        """The original's own list, by its ids."""
        if (self.original / "vocab.json").exists():
            name = "target_vocab.json" if side == "target" else "vocab.json"
            name = name if (self.original / name).exists() else "vocab.json"
            ids = json.loads((self.original / name).read_text(encoding="utf-8"))
            return sorted(ids, key=ids.__getitem__)
        name = "src_vocab.txt" if side == "source" else "trg_vocab.txt"
        return (self.original / name).read_text(encoding="utf-8").split("\n")[:-1]

    def ids_of(self, side: str) -> list[int]:
        """weft's id for each of the original's, by way of the pieces' names alone."""
        tokenizer = self.model.vocabularies["source"] if side == "source" else self.model.vocabularies["target"]
        special = {"<pad>": PADDING_ID, "<unk>": UNKNOWN_ID, "<s>": BEGIN_ID, "</s>": END_ID}
        renamed = {">>cmn_Hans<<": "<cmn_Hans>", ">>eng<<": "<eng>"}
        tokens = self.tokens(side)
        ids = tokenizer.ids_of([renamed.get(token, token) for token in tokens])
        found = [special.get(token, i) for token, i in zip(tokens, ids, strict=True)]
        assert None not in found and len(set(found)) == len(found)
        return found  # type: ignore[return-value]

    @property
    def begin(self) -> int:
        """What the original's decoder is given first."""
        return self.tokens("target").index("<s>" if "<s>" in self.tokens("target") else "<pad>")


@pytest.fixture
def folder_of(tmp_path: Path) -> Callable[[str], Path]:
    """A copy of one of FOLDERS, as its system leaves it."""

    def folder_of(name: str) -> Path:
        return copied(name, tmp_path / name)

    return folder_of


def copied(name: str, place: Path) -> Path:
    shutil.copytree(FIXTURES / name, place)
    if name in JOEYNMT:  # a link, which not every checkout of the repository can hold
        (place / "best.ckpt").symlink_to("300.ckpt")
    return place


def change_json(path: Path, **changes: Any) -> None:
    said = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**said, **changes}), encoding="utf-8")


def change_yaml(path: Path, key: str, value: Any) -> None:
    said = yaml.safe_load(path.read_text(encoding="utf-8"))
    *way, last = key.split(".")
    table = said
    for name in way:
        table = table[name]
    table[last] = value
    path.write_text(yaml.safe_dump(said), encoding="utf-8")


@pytest.fixture(scope="session")
def import_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Imported]:
    home, made = tmp_path_factory.mktemp("imported"), {}

    def import_once(name: str) -> Imported:
        if name not in made:
            original = copied(name, home / name)
            import_model(original, home / f"{name}-weft")
            oracle = json.loads((FIXTURES / f"{name}-oracle.json").read_text(encoding="utf-8"))
            with np.load(FIXTURES / f"{name}-oracle.npz") as logits:
                arrays = [logits[str(number)] for number in range(len(logits.files))]
            model = load_model(home / f"{name}-weft")
            made[name] = Imported(original, home / f"{name}-weft", model, oracle, arrays)
        return made[name]

    return import_once


@pytest.fixture(params=FOLDERS)
def imported(request: pytest.FixtureRequest, import_once: Callable[[str], Imported]) -> Imported:
    return import_once(request.param)
