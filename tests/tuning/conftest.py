"""A small study that tests share, and how to make others."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.tuning.opening import open_study
from weft.tuning.study import Study
from weft.tuning.working import work

RATES = """\
base = "tiny.toml"
seeds = [1, 2]
budget = { steps = 4 }
validations = 2
[space]
training.learning_rate = [1e-3, 1e-2]
decoding.beam_size = [1, 2]
"""


@pytest.fixture
def corpus(tiny_run: Path, tmp_path: Path) -> Path:
    """A folder with tiny.toml and its files."""
    for name in ("tiny.toml", "train.tsv", "valid.tsv"):
        shutil.copy(tiny_run / name, tmp_path)
    return tmp_path


@pytest.fixture
def study(corpus: Path) -> Callable[[str], Study]:
    """Make a study by this text."""

    def study(text: str) -> Study:
        (corpus / "study.toml").write_text(text, encoding="utf-8")
        return open_study(corpus / "study.toml", folder=corpus / "study")

    return study


@pytest.fixture(scope="session")
def rates(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A finished study: two rates, two seeds, two beams. It belongs to all tests: one that changes it copies it."""
    folder = tmp_path_factory.mktemp("rates")
    (folder / "rates.toml").write_text(RATES.replace("tiny.toml", str(tiny_run / "tiny.toml")), encoding="utf-8")
    study = open_study(folder / "rates.toml", folder=folder / "study", data=tiny_run)
    work(study)
    return study


@pytest.fixture
def copied(rates: Study, tmp_path: Path) -> Study:
    """A copy of `rates`, which a test may change."""
    shutil.copytree(rates.folder, tmp_path / "study")
    return open_study(tmp_path / "study")
