"""IDX files, and batches of images."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from weft.data.images import ImageBatches, read_idx
from weft.errors import CorpusError

IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
CONTENT = b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (2, 3, 4)) + IMAGES.tobytes()


@pytest.mark.parametrize("name", ["images", "images.gz"])
def test_an_idx_file_is_its_array(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(gzip.compress(CONTENT) if name.endswith("gz") else CONTENT)
    assert np.array_equal(read_idx(tmp_path / name), IMAGES)


@pytest.mark.parametrize(
    "content", [b"", b"\0\0", CONTENT[:-1], CONTENT[:10], b"\0\0\x0d" + CONTENT[3:], CONTENT + b"1"]
)
def test_another_file_is_refused(content: bytes, tmp_path: Path) -> None:
    zipped = gzip.compress(content)
    damaged = zipped[:10] + b"\xff" + zipped[11:]
    for name, written in (("a", content), ("a.gz", content), ("b.gz", zipped[:-3]), ("c.gz", damaged)):
        (tmp_path / name).write_bytes(written)
        with pytest.raises(CorpusError, match=name):
            read_idx(tmp_path / name)
    with pytest.raises(CorpusError, match="does not exist"):
        read_idx(tmp_path / "none")


def test_an_epoch_has_every_image_once_in_an_order_of_its_own() -> None:
    batches = ImageBatches(torch.arange(10.0)[:, None], size=4, seed=1)
    epochs = [torch.cat(list(batches.epoch(number))).flatten().tolist() for number in (0, 1, 0)]
    assert sorted(epochs[0]) == list(range(10)) and epochs[0] == epochs[2] != epochs[1]
    assert batches.steps_per_epoch() == 3 and torch.cat(list(batches.epoch(0, 2))).flatten().tolist() == epochs[0][8:]
