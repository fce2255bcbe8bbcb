"""Splitting a corpus: whatever it is like, the parts share no sentence, and every pair is accounted for."""

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.corpora import write_tsv

from weft.data import pair_files
from weft.data.corpus import Columns, CorpusEntry, Layout
from weft.data.splitting import Split, split
from weft.errors import CorpusError, UsageError

ZH_EN = Layout("zh", "en")
Pair = tuple[str, str]


def split_pairs(folder: Path, pairs: list[Pair], seed: int = 1, **held_out: int) -> tuple[Split, dict[str, list[Pair]]]:
    """What becomes of these pairs, and the parts as they were written."""
    folder.mkdir(exist_ok=True, parents=True)
    write_tsv(folder / "all.tsv", pairs)
    output = folder / "parts"
    came = split([CorpusEntry(path=str(folder / "all.tsv"))], ZH_EN, output, held_out, seed=seed)
    return came, {file.stem: read(file) for file in output.iterdir()}


def read(file: Path) -> list[Pair]:
    header, *lines = file.read_text(encoding="utf-8").splitlines()
    assert header == "zh\ten"
    return [(source, target) for source, target in (line.split("\t") for line in lines)]


def numbered(count: int) -> list[Pair]:
    return [(f"第{n}句", f"sentence {n}") for n in range(count)]


@settings(max_examples=60)
@given(pairs=st.lists(st.tuples(st.sampled_from("一二三四五六七八九十"), st.sampled_from("abcdefghij")), min_size=1))
def test_no_part_knows_a_sentence_of_another_and_no_pair_is_lost(
    pairs: list[Pair], tmp_path_factory: pytest.TempPathFactory
) -> None:
    sources, targets = Counter(s for s, _ in set(pairs)), Counter(t for _, t in set(pairs))
    alone = [pair for pair in set(pairs) if sources[pair[0]] == 1 and targets[pair[1]] == 1]
    folder = tmp_path_factory.mktemp("split")
    if len(alone) < 2 or len(set(pairs)) == 2:
        with pytest.raises(UsageError, match=f"of {len(set(pairs))} different pairs only {len(alone)} have sides"):
            split_pairs(folder, pairs, valid=1, test=1)
        assert not (folder / "parts").exists()
        return
    came, parts = split_pairs(folder, pairs, valid=1, test=1)
    assert len(parts["valid"]) == len(parts["test"]) == 1
    for name, held_out in parts.items():
        others = [pair for other, pairs_of in parts.items() if other != name for pair in pairs_of]
        for side in (0, 1):
            assert not {pair[side] for pair in held_out} & {pair[side] for pair in others}
    copies = sum(pairs.count(pair) - 1 for name in ("valid", "test") for pair in parts[name])
    assert came == Split({name: len(parts[name]) for name in ("train", "valid", "test")}, copies, dropped_empty=0)
    assert Counter(pairs) - Counter(pair for part in parts.values() for pair in part) == Counter(
        {pair: pairs.count(pair) - 1 for name in ("valid", "test") for pair in parts[name] if pairs.count(pair) > 1}
    )


def test_sentences_that_differ_in_case_width_or_punctuation_count_as_the_same(tmp_path: Path) -> None:
    pairs = [("你好", "Hello!"), ("您好", "hello"), ("謝謝", "Thanks"), ("谢谢。", "Thank you"), ("再见", "Bye")]
    _, parts = split_pairs(tmp_path, pairs, valid=1)
    assert parts["valid"] == [("再见", "Bye")]


def test_the_order_of_the_pairs_does_not_matter(tmp_path: Path) -> None:
    _, parts = split_pairs(tmp_path / "one", numbered(500), valid=20, test=20)
    _, turned = split_pairs(tmp_path / "two", numbered(500)[::-1], valid=20, test=20)
    assert {name: sorted(pairs) for name, pairs in parts.items()} == {n: sorted(pairs) for n, pairs in turned.items()}


def test_another_seed_holds_out_other_pairs(tmp_path: Path) -> None:
    _, one = split_pairs(tmp_path / "one", numbered(500), valid=20)
    _, two = split_pairs(tmp_path / "two", numbered(500), valid=20, seed=2)
    assert len({*one["valid"]} & {*two["valid"]}) < 10


def test_a_corpus_that_has_grown_by_a_tenth_keeps_most_of_what_was_held_out(tmp_path: Path) -> None:
    _, before = split_pairs(tmp_path / "one", numbered(1000), valid=100)
    _, after = split_pairs(tmp_path / "two", numbered(1100), valid=100)
    assert len({*before["valid"]} & {*after["valid"]}) > 80


def test_a_test_part_hardly_changes_the_valid_part(tmp_path: Path) -> None:
    _, without = split_pairs(tmp_path / "one", numbered(1000), valid=100)
    _, beside = split_pairs(tmp_path / "two", numbered(1000), test=100, valid=100)
    assert len({*without["valid"]} & {*beside["valid"]}) > 80


def test_pairs_with_an_empty_side_are_counted_and_are_in_no_part(tmp_path: Path) -> None:
    came, parts = split_pairs(tmp_path, [*numbered(10), ("空", ""), ("", "empty")], valid=2)
    assert came == Split({"train": 8, "valid": 2}, copies=0, dropped_empty=2)
    assert sorted(parts["train"] + parts["valid"]) == sorted(numbered(10))


def test_something_is_left_to_train_on(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot hold out 10 pairs: of 10 different pairs only 10 have"):
        split_pairs(tmp_path, numbered(10), valid=10)


def test_two_sides_of_one_language_have_columns_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("".join(["complex\tsimple\n", *(f"c{n}\ts{n}\n" for n in range(9))]), "utf-8")
    layout = Layout("en", "en", Columns(source="complex", target="simple"))
    split([CorpusEntry(path=str(tmp_path / "a.tsv"))], layout, tmp_path / "parts", {"valid": 2}, seed=1)
    header, *lines = (tmp_path / "parts" / "train.tsv").read_text(encoding="utf-8").splitlines()
    assert (header, len(lines)) == ("source\ttarget", 7)


def test_of_one_language_no_sentence_stands_on_either_side_of_another_part(tmp_path: Path) -> None:
    there = [(f"one {n}", f"other {n}") for n in range(60)]
    alone = [("alone", "apart"), ("the same", "the same"), ("just so", "so")]
    pairs = [*there, *((target, source) for source, target in there), *alone]
    (tmp_path / "a.tsv").write_text("".join(["a\tb\n", *(f"{s}\t{t}\n" for s, t in pairs)]), encoding="utf-8")
    layout, entries = Layout("en", "en", Columns(source="a", target="b")), [CorpusEntry(path=str(tmp_path / "a.tsv"))]
    with pytest.raises(UsageError, match="of 123 different pairs only 3 have sides"):
        split(entries, layout, tmp_path / "none", {"valid": 4}, seed=1)
    split(entries, layout, tmp_path / "parts", {"valid": 3}, seed=1)
    _, *lines = (tmp_path / "parts" / "valid.tsv").read_text(encoding="utf-8").splitlines()
    assert {tuple(line.split("\t")) for line in lines} == {*alone}


def test_a_file_of_another_kind_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_files, "LINES_AT_ONCE", 10)
    monkeypatch.setattr(pair_files, "MOST_PROBLEMS", 25)
    (tmp_path / "a.jsonl").write_text("no JSON\n" * 1000)
    with pytest.raises(CorpusError) as raised:
        split([CorpusEntry(path=str(tmp_path / "a.jsonl"))], ZH_EN, tmp_path / "parts", {"valid": 1}, seed=1)
    assert len(raised.value.problems) == 30


def test_every_line_that_is_wrong_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("zh\ten\n一\tone\n二\n三\tthree\tdrei\n", encoding="utf-8")
    (tmp_path / "b.zh").write_text("一\n二\n", encoding="utf-8")
    (tmp_path / "b.en").write_text("one\n", encoding="utf-8")
    entries = [
        CorpusEntry(path=str(tmp_path / "a.tsv")),
        CorpusEntry(source=str(tmp_path / "b.zh"), target=str(tmp_path / "b.en")),
    ]
    with pytest.raises(CorpusError) as raised:
        split(entries, ZH_EN, tmp_path / "parts", {"valid": 1}, seed=1)
    assert [problem.where.removeprefix(f"{tmp_path}/") for problem in raised.value.problems] == [
        "a.tsv: line 3",
        "a.tsv: line 4",
        "b.zh: the two files",
    ]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.tsv", "b.en", "b.zh"]


def test_the_parts_are_on_the_disk_before_their_folder_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk = {}
    monkeypatch.setattr(os, "fsync", lambda file: on_disk.update({os.fstat(file).st_ino: not output.exists()}))
    output = tmp_path / "parts"
    split_pairs(tmp_path, numbered(9), valid=2)
    assert all(on_disk[path.stat().st_ino] for path in [output, *output.iterdir()])
    assert tmp_path.stat().st_ino in on_disk


def test_a_folder_that_is_there_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    with pytest.raises(UsageError, match="exists already; name a new folder"):
        split_pairs(tmp_path, numbered(10), valid=1)
