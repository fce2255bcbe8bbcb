"""Running text as batches: an epoch has each token once, streams go on, and windows count each token once."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.data.batching import Buckets
from weft.data.lines import LineBatch, Lines, read_lines, without_end
from weft.data.running import running_batches, windows_of
from weft.data.sentences import Sentences
from weft.errors import CorpusError, RunError, UsageError

TEXT = Sentences([[*range(100, 160)], [*range(160, 237)]])


def batches(in_order: bool, part: tuple[int, int] = (0, 1)) -> Buckets[LineBatch]:
    return running_batches(TEXT, context=5, in_order=in_order, seed=3, batch_sentences=4, part=part)


@pytest.mark.parametrize("in_order", [True, False])
def test_an_epoch_predicts_no_token_twice_and_nearly_all(in_order: bool) -> None:
    made = batches(in_order)
    for epoch in range(3):
        found = list(made.epoch(epoch))
        assert len(found) == made.steps_per_epoch()
        rows = torch.cat([batch.tokens for batch in found])
        assert (rows.diff() == 1).all()  # neighbors in the text
        predicted = rows[:, 1:].flatten().tolist()
        assert len(predicted) == len(set(predicted)) == 5 * len(made) >= 137 - 5 * 4 - 5


def test_every_epoch_cuts_the_text_at_other_places_and_in_another_order() -> None:
    first, second = ([batch.tokens for batch in batches(False).epoch(epoch)] for epoch in (0, 1))
    assert {int(row[0]) % 5 for row in first[0]} != {int(row[0]) % 5 for row in second[0]}
    assert torch.equal(first[2], next(batches(False).epoch(0, start=2)).tokens)


def test_each_batch_of_streams_goes_on_where_the_one_before_ended() -> None:
    found = list(batches(True).epoch(1))
    for number, (before, after) in enumerate(pairwise(found)):
        assert torch.equal(before.tokens[:, -1], after.tokens[:, 0])
        assert before.place == (1, number)


def test_ranks_share_the_streams_and_parts_of_a_batch_know_their_rows() -> None:
    whole = list(batches(True).epoch(0))[1]
    shares = [list(batches(True, part=(rank, 2)).epoch(0))[1] for rank in (0, 1)]
    assert torch.equal(torch.stack([share.tokens for share in shares], 1).flatten(0, 1), whole.tokens)
    assert [(part.first, len(part.tokens), part.place) for part in whole.chunk(3)] == [(0, 2, (0, 1)), (2, 2, (0, 1))]


def test_batch_tokens_are_rows_of_the_context_and_a_short_text_is_refused() -> None:
    assert (
        len(next(iter(running_batches(TEXT, context=5, in_order=True, seed=1, batch_tokens=16).epoch(0))).tokens) == 3
    )
    (batch,) = running_batches(TEXT, context=40, in_order=True, seed=1, batch_sentences=4).epoch(0)
    assert len(batch.tokens) == 2  # the rows that there are
    with pytest.raises(RunError, match=r"has 137 pieces, and data\.context = 80 needs twice as many as it says"):
        running_batches(TEXT, context=80, in_order=True, seed=1, batch_sentences=4)


@given(st.lists(st.integers(1, 30), max_size=5), st.integers(1, 9), st.data())
def test_windows_predict_each_token_once_from_no_fewer_than_the_overlap(
    sizes: list[int], length: int, data: st.DataObject
) -> None:
    overlap = data.draw(st.integers(0, length - 1))
    texts = Sentences([[100 * number + place for place in range(size)] for number, size in enumerate(sizes)])
    windows, of_text, new = windows_of(texts, length, overlap)
    predicted = []
    for row, (text, first) in enumerate(zip(of_text, new, strict=True)):
        tokens = windows[row]
        assert 2 <= len(tokens) <= length + 1 and (np.diff(tokens) == 1).all() and tokens[0] // 100 == text
        assert first > overlap or tokens[0] % 100 == 0
        predicted += tokens[first:].tolist()
    assert sorted(predicted) == [100 * number + place for number, size in enumerate(sizes) for place in range(1, size)]


def test_the_end_that_is_held_out_has_its_share_of_the_characters() -> None:
    lines = Lines(["aaaa", "", "bbb", "c"], [("f", n) for n in range(1, 5)], {})
    for share, first in ((0.1, 3), (0.17, 2), (0.5, 2), (0.55, 1)):
        train, valid = without_end(lines, share)
        assert (train.texts, valid.texts) == (lines.texts[:first], lines.texts[first:])
        assert valid.places[0] == ("f", first + 1)
    with pytest.raises(CorpusError, match=r"0.9 leaves no line"):
        without_end(lines, 0.9)


def test_a_column_of_a_table_is_read_and_other_files_are_lines(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("zh\t en\n一\tone\n二\ttwo\n", encoding="utf-8")
    (tmp_path / "more.csv").write_text('zh,"en"\n三,three\n', encoding="utf-8")
    (tmp_path / "more.txt").write_text("four\n\n", encoding="utf-8")
    found = read_lines(["pairs.tsv", "more.csv", "more.txt"], tmp_path, column="en")
    assert (found.texts, found.places) == (
        ["one", "two", "three", "four"],
        [("pairs.tsv", 2), ("pairs.tsv", 3), ("more.csv", 2), ("more.txt", 1)],
    )
    (tmp_path / "bad.tsv").write_text("zh\ten\n一\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"line 2  has 1 column, but the header has 2"):
        read_lines(["bad.tsv"], tmp_path, column="en")
    with pytest.raises(
        CorpusError, match=r"has no column `de`; the header names: zh, en; name one of them in data.column"
    ):
        read_lines(["pairs.tsv"], tmp_path, column="de")
    (tmp_path / "bad.tsv").write_bytes(b"zh\t\xff\n\xe4\xb8\x80\tone\n")
    with pytest.raises(CorpusError) as caught:
        read_lines(["bad.tsv"], tmp_path, column="en")
    assert len(caught.value.problems) == 1 and "line 1" in str(caught.value)
    for column in ("en", None):
        with pytest.raises(UsageError, match=r"missing\.tmx: holds pairs; save the sentences of one language as text"):
            read_lines(["missing.tmx"], tmp_path, column=column)
