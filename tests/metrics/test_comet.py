"""COMET: asked for as its library wants it, refused clearly where it is not there."""

import importlib.machinery
import importlib.metadata
import importlib.util
import os
import pickle
import sys
from hashlib import sha256
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from weft.errors import UsageError, WeftError
from weft.metrics.comet import comet, refuse_unusable


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that a stand-in for the library takes for a model; it scores a translation by its length."""

    def predict(samples: list[dict[str, str]], gpus: int, progress_bar: bool) -> SimpleNamespace:
        assert (gpus, progress_bar) == (0, False) and os.environ["HF_HUB_OFFLINE"] == "1"
        assert [sample.keys() for sample in samples] == [{"src", "mt", "ref"}] * 2
        return SimpleNamespace(system_score=sum(len(sample["mt"]) for sample in samples) / 10)

    def load_from_checkpoint(path: str) -> SimpleNamespace:
        if Path(path).read_bytes() != b"weights":
            raise pickle.UnpicklingError("no model")
        assert (Path(path).parents[1] / "hparams.yaml").is_file()
        return SimpleNamespace(predict=predict)

    library = ModuleType("comet")
    library.__spec__ = importlib.machinery.ModuleSpec("comet", None)
    library.__dict__["load_from_checkpoint"] = load_from_checkpoint
    monkeypatch.setitem(sys.modules, "comet", library)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: {"unbabel-comet": "2.2.4"}[name])
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    (tmp_path / "hparams.yaml").touch()
    (tmp_path / "checkpoints").mkdir()
    path = tmp_path / "checkpoints" / "model.ckpt"
    path.write_bytes(b"weights")
    return path


def test_the_score_of_the_library_comes_with_the_digest_of_the_checkpoint(checkpoint: Path) -> None:
    score = comet(checkpoint, ["你好", "再见"], ["ab", "cde"], ["hi", "bye"])
    assert (score.name, score.value) == ("comet", 0.5)
    assert score.signature == f"comet|checkpoint:model.ckpt|sha256:{sha256(b'weights').hexdigest()[:12]}|version:2.2.4"


def test_a_checkpoint_that_is_none_is_one_clear_error(checkpoint: Path) -> None:
    checkpoint.write_bytes(b"other")
    with pytest.raises(WeftError, match="could not be used by COMET: UnpicklingError: no model"):
        comet(checkpoint, ["你好", "再见"], ["ab", "cde"], ["hi", "bye"])


def test_a_missing_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a file; name the checkpoint"):
        refuse_unusable(tmp_path / "model.ckpt")


def test_a_checkpoint_without_its_settings_is_refused(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkpoint.parent)
    refuse_unusable(Path("model.ckpt"))
    (checkpoint.parents[1] / "hparams.yaml").unlink()
    with pytest.raises(UsageError, match=r"hparams\.yaml does not exist"):
        refuse_unusable(Path("model.ckpt"))


def test_a_missing_library_is_named(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(WeftError, match="pip install unbabel-comet"):
        refuse_unusable(checkpoint)
