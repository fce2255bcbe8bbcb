"""The snippets of the page on memories run as printed, and draw every figure that it shows."""

import gzip
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from bench.memories import PAGE, run_page

from weft.models.memories.ising import Ising


def test_the_page_runs_from_top_to_end_and_draws_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On 200 made images in the form of MNIST's, with a twentieth of the sweeps over lattices."""
    measure = Ising.measure
    monkeypatch.setattr(Ising, "measure", lambda self, n, discard: measure(self, n // 20, discard=discard // 20))
    for name in ("WEFT_DATA", "FIGURES"):
        monkeypatch.setenv(name, "")
    (tmp_path / "mnist-t10k").mkdir()
    spots = np.zeros((200, 28, 28), np.uint8)
    for number, place in enumerate(np.random.default_rng(1).integers(2, 20, (200, 2))):
        spots[number, place[0] : place[0] + 6, place[1] : place[1] + 6] = 255
    header = b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in spots.shape)
    (tmp_path / "mnist-t10k" / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(header + spots.tobytes()))
    run_page(tmp_path, tmp_path)
    said = capsys.readouterr().out
    # A perceptron learns AND to its last mistake and never XOR, which two layers are.
    assert re.search(r"AND: mistakes in each epoch \[.*, 0\]", said)
    assert int(re.findall(r"XOR: fewest mistakes in 100 epochs (\d+)", said)[0]) > 0
    assert "two layers: [0.0, 1.0, 1.0, 0.0]" in said and "the same updates with thresholds: True" in said
    shown = set(re.findall(r"\(\.\./figures/(memories-[\w-]+\.svg)\)", PAGE.read_text(encoding="utf-8")))
    assert {file.name for file in tmp_path.glob("*.svg")} == shown and len(shown) == 7
    for name in shown:
        ElementTree.parse(tmp_path / name)
