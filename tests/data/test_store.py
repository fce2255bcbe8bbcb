"""Stores: what was written comes back, mapped; what was not finished is not there; what was changed is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.data.batching import pair_buckets
from weft.data.sentences import Sentences
from weft.data.store import MANIFEST, PAIR, StoredPart, StoreWriter, files_of, is_prepared, open_store
from weft.errors import CorpusError, WeftError

SOURCES = [[5, 6, 2], [7, 2], [8, 9, 10, 2], [2]]
TARGETS = [[1, 4, 2], [1, 5, 6, 2], [1, 2], [1, 7, 2]]


def write(folder: Path, *, largest_id: int = 100, depends_on: dict[str, object] | None = None) -> None:
    """Four pairs: two from one file in two pieces, two from another one."""
    with StoreWriter(folder, PAIR, largest_id=largest_id, depends_on=depends_on or {}) as writer:
        writer.begin_part("a.tsv", weight=2.0, tag="<bt>")
        writer.append((Sentences(SOURCES[:1]), Sentences(TARGETS[:1])), [2])
        writer.append((Sentences(SOURCES[1:2]), Sentences(TARGETS[1:2])), [5])
        writer.begin_part("b.tsv")
        writer.append((Sentences(SOURCES[2:]), Sentences(TARGETS[2:])), np.array([1, 9]))


@pytest.mark.parametrize(("largest_id", "bytes_an_id"), [(100, 2), (65_535, 2), (65_536, 4)])
def test_pairs_come_back_as_they_were_written(tmp_path: Path, largest_id: int, bytes_an_id: int) -> None:
    write(tmp_path / "store", largest_id=largest_id)
    store = open_store(tmp_path / "store")
    assert [store.columns["source"][i].tolist() for i in range(4)] == SOURCES
    assert [store.columns["target"][i].tolist() for i in range(4)] == TARGETS
    assert (tmp_path / "store" / "source.ids").stat().st_size == bytes_an_id * sum(map(len, SOURCES))
    assert store.parts == (StoredPart(2, "a.tsv", 2.0, "<bt>"), StoredPart(2, "b.tsv"))
    assert store.weights is not None and store.weights.tolist() == [2.0, 2.0, 1.0, 1.0]


def test_a_pair_knows_its_file_and_line(tmp_path: Path) -> None:
    write(tmp_path / "store")
    store = open_store(tmp_path / "store")
    assert [store.origin(pair) for pair in range(4)] == [("a.tsv", 2), ("a.tsv", 5), ("b.tsv", 1), ("b.tsv", 9)]
    with pytest.raises(IndexError):
        store.origin(4)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.integers(0, 70_000), min_size=1, max_size=9), min_size=1, max_size=30), st.data())
def test_batches_of_a_store_are_batches_of_its_sentences(
    tmp_path_factory: pytest.TempPathFactory, sentences: list[list[int]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("stores") / "store"
    with StoreWriter(folder, PAIR, largest_id=70_000, depends_on={}) as writer:
        writer.begin_part("x.tsv")
        begin = 0
        while begin < len(sentences):
            end = data.draw(st.integers(begin + 1, len(sentences)))
            piece = Sentences(sentences[begin:end])
            writer.append((piece, piece), list(range(begin, end)))
            begin = end
    store, listed = open_store(folder), Sentences(sentences)
    stored = pair_buckets(store.columns["source"], store.columns["target"], seed=1, batch_tokens=32)
    expected = pair_buckets(listed, listed, seed=1, batch_tokens=32)
    assert stored.sha256() == expected.sha256()
    for mine, theirs in zip(stored.epoch(2), expected.epoch(2), strict=True):
        assert mine.source.equal(theirs.source) and mine.target.equal(theirs.target)


def test_a_store_is_what_it_depends_on_and_no_other(tmp_path: Path) -> None:
    folder, depends_on = tmp_path / "store", {"train.tsv": "ab12", "tokenizer": {"kind": "bpe"}}
    assert not is_prepared(folder, depends_on)
    write(folder, depends_on=depends_on)
    assert is_prepared(folder, depends_on)
    assert not is_prepared(folder, {**depends_on, "train.tsv": "cd34"})
    write(folder, depends_on={})  # takes the place of the old one
    assert not is_prepared(folder, depends_on) and is_prepared(folder, {})


def test_nothing_is_left_of_a_store_that_was_not_finished(tmp_path: Path) -> None:
    write(tmp_path / "store", depends_on={"old": 1})

    def fail() -> None:
        with StoreWriter(tmp_path / "store", PAIR, largest_id=9, depends_on={"new": 1}) as writer:
            writer.begin_part("a.tsv")
            writer.append((Sentences(SOURCES), Sentences(TARGETS)), [1, 2, 3, 4])
            raise RuntimeError("the reader died")

    with pytest.raises(RuntimeError, match="the reader died"):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert is_prepared(tmp_path / "store", {"old": 1})


@pytest.mark.parametrize("name", files_of(PAIR))
@pytest.mark.parametrize("damage", ["flipped", "shorter", "gone"])
def test_a_store_that_was_changed_is_refused_by_the_file(tmp_path: Path, name: str, damage: str) -> None:
    write(tmp_path / "store")
    path = tmp_path / "store" / name
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(data[:-1] + (bytes([data[-1] ^ 1]) if damage == "flipped" else b""))
    with pytest.raises(CorpusError, match=rf"{name}\s+is missing or changed; prepare the corpus again"):
        open_store(tmp_path / "store")


@pytest.mark.parametrize("id_type", [None, "x9"])
def test_a_manifest_without_a_type_of_ids_is_damaged(tmp_path: Path, id_type: str | None) -> None:
    write(tmp_path / "store")
    manifest = json.loads((tmp_path / "store" / MANIFEST).read_text())
    manifest = {key: value for key, value in {**manifest, "id_type": id_type}.items() if value is not None}
    (tmp_path / "store" / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(CorpusError, match=r"manifest\.json\s+is missing or damaged"):
        open_store(tmp_path / "store")


@pytest.mark.parametrize(
    "manifest", ["", "[]", "{}", '{"files": [], "parts": []}', '{"files": {}, "parts": [{"x": 1}]}']
)
def test_a_damaged_manifest_is_refused_and_never_taken_for_a_store(tmp_path: Path, manifest: str) -> None:
    write(tmp_path / "store")
    (tmp_path / "store" / MANIFEST).write_text(manifest)
    assert not is_prepared(tmp_path / "store", {})
    with pytest.raises(CorpusError, match=r"manifest\.json\s+is missing or damaged"):
        open_store(tmp_path / "store")


def test_parts_that_do_not_add_up_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "store")
    path = tmp_path / "store" / MANIFEST
    manifest = json.loads(path.read_text())
    manifest["parts"][0]["pairs"] = 3
    path.write_text(json.dumps(manifest))
    with pytest.raises(CorpusError, match="counts 5 pairs"):
        open_store(tmp_path / "store")


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WeftError, match=r"the prepared corpus .* could not be written: Not a directory"):
        write(tmp_path / "file" / "store")
