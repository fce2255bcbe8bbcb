"""Preparing over a Ray cluster: the same bytes as without, and the same errors."""

import importlib.util
import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install -e '.[cluster]'"
)


@pytest.fixture
def environment() -> dict[str, str]:
    """Of a process that starts a cluster of its own, whose pass is written nowhere."""
    own = {"RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_AUTH_MODE": "token"}
    return {key: value for key, value in os.environ.items() if not key.startswith("RAY_")} | own


def prepare(
    folder: Path, run: str, *options: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weft", "prepare", "tiny.toml", "--run", run, "--set", "cleaning.markup=true"]
    return subprocess.run([*command, *options], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture
def corpus(tiny_run: Path, tmp_path: Path) -> Path:
    for name in ("tiny.toml", "train.tsv", "valid.tsv"):
        (tmp_path / name).write_bytes((tiny_run / name).read_bytes())
    return tmp_path


@pytest.mark.slow
def test_a_corpus_is_the_same_byte_for_byte_over_a_cluster(corpus: Path, environment: dict[str, str]) -> None:
    alone = prepare(corpus, "alone")
    over_cluster = prepare(corpus, "over-cluster", "--cluster", environment=environment)
    assert alone.returncode == over_cluster.returncode == 0, over_cluster.stderr
    assert over_cluster.stdout == alone.stdout
    assert over_cluster.stderr == alone.stderr.replace("alone", "over-cluster")
    manifests = [(corpus / run / "corpus" / "manifest.json").read_bytes() for run in ("alone", "over-cluster")]
    assert manifests[0] == manifests[1] and "source.ids" in json.dumps(json.loads(manifests[0]))


@pytest.mark.slow
def test_all_lines_that_are_wrong_are_one_error_over_a_cluster_too(corpus: Path, environment: dict[str, str]) -> None:
    with open(corpus / "train.tsv", "a", encoding="utf-8") as file:
        file.write("没有译文\n三\t个\t格\n")
    alone = prepare(corpus, "alone")
    over_cluster = prepare(corpus, "over-cluster", "--cluster", environment=environment)
    assert alone.returncode == over_cluster.returncode == 1
    assert over_cluster.stderr == alone.stderr and "the corpus has 2 problems" in alone.stderr
