"""Preparation: the good pairs of all files in order, the same from any number of processes; and the rest, by rules."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.corpora import write_tsv

from weft.data import corpus, pair_files
from weft.data.cleaning import CleaningConfig
from weft.data.corpus import CorpusEntry, DataConfig, TrainingCorpus
from weft.data.doctor.findings import Example
from weft.data.keys import keys_of
from weft.data.preparation import CleanCorpus, HeldOut, clean
from weft.data.workers import workers
from weft.errors import CorpusError, WorkerLost

WORDS = {
    "你好": "hello",
    "再见": "goodbye",
    "猫": "cat",
    "狗": "dog",
    "我": "I",
    "你": "you",
    "爱": "love",
    "看": "see",
}


def sentences(count: int, seed: int) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    chosen = [draw.sample(list(WORDS), k=draw.randint(2, 4)) for _ in range(count)]
    return [("".join(words) + "。", " ".join(WORDS[word] for word in words) + ".") for words in chosen]


def config(**settings: Any) -> DataConfig:
    return DataConfig(source="zh", target="en", train=("x",), valid=("x",), **settings)


def cleaned(root: Path, *entries: str | CorpusEntry, **settings: Any) -> CleanCorpus:
    """With the default rules and no pairs held out, where the settings say no other."""
    scratch = root / f"scratch-{len(list(root.iterdir()))}"
    scratch.mkdir()
    defaults: dict[str, Any] = {"cleaning": CleaningConfig(), "held_out": None}
    data = config(**{key: settings.pop(key) for key in [*settings] if key in DataConfig.model_fields})
    return clean(entries, data, root=root, scratch=scratch, **{**defaults, **settings})


def pairs_of(found: CleanCorpus) -> list[tuple[str, str]]:
    return [pair for piece in found.pieces(7) for pair in zip(piece.sources, piece.targets, strict=True)]


def test_only_the_first_of_equal_pairs_and_no_pair_with_a_held_out_side_stays(tmp_path: Path) -> None:
    pairs, held = sentences(400, seed=1), sentences(20, seed=2)
    name = write_tsv(tmp_path / "a.tsv", pairs)
    found = cleaned(tmp_path, name, held_out=HeldOut.of(*zip(*held, strict=True)))
    known: set[tuple[str, str]] = set()
    expected = []
    for pair in pairs:
        if not any(pair[side] == other[side] for other in held for side in (0, 1)) and pair not in known:
            known.add(pair)
            expected.append(pair)
    assert pairs_of(found) == expected and len(found) == len(expected)
    assert found.read == 400 == len(expected) + found.removed.counts.total()
    assert found.removed.counts.keys() == {"leaks", "duplicates"}


def test_without_rules_everything_stays_that_reading_gives(tmp_path: Path) -> None:
    pairs = [("你好。", "Hello."), ("你好。", "Hello."), ("<b>", "<b>"), ("？", "?" * 900)]
    found = cleaned(tmp_path, write_tsv(tmp_path / "a.tsv", pairs), cleaning=None, held_out=HeldOut.of(["你好"], ["x"]))
    assert pairs_of(found) == pairs
    assert found.removed.counts == Counter()


def test_lines_are_those_of_the_files_and_parts_those_of_the_recipe(tmp_path: Path) -> None:
    first = write_tsv(tmp_path / "a.tsv", [("猫。", "Cat."), ("<br>狗。", "Dog."), ("猫 。", "cat")])
    second = write_tsv(tmp_path / "b.tsv", [("猫!", "CAT"), ("我爱猫。", "I love cats.")])
    found = cleaned(tmp_path, first, second)
    assert [(p.entry, p.lines, p.sources) for p in found.pieces()] == [(0, [2], ["猫。"]), (1, [3], ["我爱猫。"])]
    assert found.removed.examples["markup"] == [Example("a.tsv", 3, "<br>狗。", "Dog.")]
    assert [(e.file, e.line) for e in found.removed.examples["duplicates"]] == [("a.tsv", 4), ("b.tsv", 2)]
    assert found.removed.counts == {"markup": 1, "duplicates": 2}


@pytest.mark.parametrize("processes", [1, 2])
def test_the_result_depends_neither_on_the_pieces_nor_on_the_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    pairs = sentences(300, seed=3) + [("你好<p>", "Hello")] * 3
    name = write_tsv(tmp_path / "a.tsv", pairs)
    whole = cleaned(tmp_path, name)
    monkeypatch.setattr(pair_files, "LINES_AT_ONCE", 11)
    with workers(processes) as each:
        in_pieces = cleaned(tmp_path, name, each=each)
    assert pairs_of(in_pieces) == pairs_of(whole)
    assert in_pieces.removed == whole.removed
    assert (in_pieces.folder / "0.tsv").read_bytes() == (whole.folder / "0.tsv").read_bytes()


def test_every_kind_of_file_gives_the_same_pairs(tmp_path: Path) -> None:
    pairs = sentences(50, seed=4)
    tsv = write_tsv(tmp_path / "a.tsv", pairs)
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"zh": zh, "en": en}) + "\n" for zh, en in pairs))
    (tmp_path / "a.zh").write_text("".join(f"{zh}\n" for zh, _ in pairs))
    (tmp_path / "a.en").write_text("".join(f"{en}\n" for _, en in pairs))
    texts = CorpusEntry(source="a.zh", target="a.en")
    found = [pairs_of(cleaned(tmp_path, entry)) for entry in (tsv, "a.jsonl", texts)]
    assert found[0] == found[1] == found[2] != []


def test_a_tab_or_a_line_break_inside_a_text_is_a_space(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"zh": "你\t好\n吗", "en": "How\tare\nyou"}) + "\n")
    assert pairs_of(cleaned(tmp_path, "a.jsonl")) == [("你 好 吗", "How are you")]


def test_all_that_is_wrong_in_all_files_is_said_at_once_with_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_files, "LINES_AT_ONCE", 2)
    (tmp_path / "a.tsv").write_bytes("zh\ten\n好\tgood\n好\n好\tgood\n好\tgood\n\tgood\n".encode() + b"\xff\tgood\n")
    write_tsv(tmp_path / "b.tsv", [])
    (tmp_path / "c.zh").write_text("一\n二\n三\n")
    (tmp_path / "c.en").write_text("one\n")
    entries = ["a.tsv", "b.tsv", CorpusEntry(source="c.zh", target="c.en"), "missing.tsv"]
    with pytest.raises(CorpusError) as caught:
        cleaned(tmp_path, *entries)
    assert [(p.where, p.what.split(";")[0]) for p in caught.value.problems] == [
        ("a.tsv: line 3", "has 1 column, but the header has 2"),
        ("a.tsv: line 6", "the source side is empty"),
        ("a.tsv: line 7", "is not UTF-8 (byte 0xff at 1)"),
        ("b.tsv: the whole file", "contains no sentence pair"),
        ("c.zh: the two files", "c.zh has 3 lines, c.en has 1"),
        ("missing.tsv: the file", f"does not exist (looked in {tmp_path.resolve()})"),
    ]


def test_pairs_with_an_empty_side_are_dropped_and_counted_where_the_recipe_says_so(tmp_path: Path) -> None:
    name = write_tsv(tmp_path / "a.tsv", [("猫。", "Cat."), (" ", "x"), ("狗。", "")])
    found = cleaned(tmp_path, name, empty_sides="drop")
    assert (found.read, found.dropped_empty, pairs_of(found)) == (1, 2, [("猫。", "Cat.")])


def test_reading_gives_up_on_a_file_of_another_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_files, "LINES_AT_ONCE", 10)
    monkeypatch.setattr(pair_files, "MOST_PROBLEMS", 25)
    (tmp_path / "a.jsonl").write_text("no JSON\n" * 1000)
    with pytest.raises(CorpusError) as caught:
        cleaned(tmp_path, "a.jsonl")
    assert len(caught.value.problems) == 30


def test_few_examples_are_kept_of_many_removed_pairs(tmp_path: Path) -> None:
    pairs = [(f"<b>{number}</b>猫", f"cat {number}") for number in range(100)]
    found = cleaned(tmp_path, write_tsv(tmp_path / "a.tsv", pairs))
    assert found.removed.counts == {"markup": 100}
    assert [example.line for example in found.removed.examples["markup"]] == list(range(2, 22))


def test_sides_without_letters_are_held_out_by_nobody() -> None:
    held = HeldOut.of(["？！", "猫"], ["...", "cat"])
    assert held.share_a_side(keys_of(["！", "猫!"]), keys_of(["!", "dog"])).tolist() == [False, True]
    assert np.array_equal(held.sources, keys_of(["猫"]))


def test_a_leak_that_stays_is_told_with_its_line_and_the_held_out_sides_that_it_knows(tmp_path: Path) -> None:
    pairs = sentences(50, seed=5)
    held = HeldOut.of([pairs[3][0], "没有见过的句子"], ["Never seen.", pairs[9][1].upper()])
    name = write_tsv(tmp_path / "a.tsv", pairs)
    leaks = cleaned(tmp_path, name, cleaning=None, held_out=held).leaks
    alike = [place for place, (zh, en) in enumerate(pairs) if zh == pairs[3][0] or en == pairs[9][1]]
    assert leaks.lines == {"a.tsv": [place + 2 for place in alike]}
    assert [(e.line, e.source) for e in leaks.examples] == [(place + 2, pairs[place][0]) for place in alike][:20]
    assert (leaks.sources, leaks.targets) == ({*keys_of([pairs[3][0]]).tolist()}, {*keys_of([pairs[9][1]]).tolist()})
    assert cleaned(tmp_path, name, held_out=held).leaks.lines == {}


def test_copies_of_a_leak_are_told_where_they_stay_and_not_where_they_do_not(tmp_path: Path) -> None:
    name = write_tsv(tmp_path / "a.tsv", [("猫", "cat"), ("狗", "dog"), ("猫", "cat"), ("猫。", "Cat.")])
    held = HeldOut.of(["猫"], ["no other"])
    for duplicates, lines in ((True, [2]), (False, [2, 4, 5])):
        leaks = cleaned(
            tmp_path, name, cleaning=CleaningConfig(leaks=False, duplicates=duplicates), held_out=held
        ).leaks
        assert leaks.lines == {"a.tsv": lines} and [example.line for example in leaks.examples] == lines


def test_files_that_stand_in_two_entries_lose_no_leak_and_keep_their_lines_apart(tmp_path: Path) -> None:
    for name, lines in {"a.zh": "狗\n猫\n", "a.en": "dog\ncat\n", "b.en": "a dog\ncat\n"}.items():
        (tmp_path / name).write_text(lines, encoding="utf-8")
    entries = [CorpusEntry(source="a.zh", target=target) for target in ("a.en", "b.en", "b.en")]
    held = HeldOut.of(["猫"], ["no other"])
    found = cleaned(tmp_path, *entries, cleaning=CleaningConfig(leaks=False), held_out=held)
    assert found.removed.counts["duplicates"] == 3 and found.leaks.lines == {"a.zh + a.en": [2]}
    assert [example.place for example in found.leaks.examples] == ["a.zh + a.en:2"]
    names = ["a.zh + a.en", "a.zh + b.en", "a.zh + b.en (2)"]
    assert [part.file for part in found.sample(9).parts] == names
    assert [part.file for part in corpus.read_corpora(entries, config(), tmp_path).parts] == names


def test_a_sample_is_spread_evenly_over_the_clean_pairs_of_all_files(tmp_path: Path) -> None:
    first, second = sentences(100, seed=6), sentences(60, seed=7)
    entries = (
        write_tsv(tmp_path / "a.tsv", first),
        TrainingCorpus(path=write_tsv(tmp_path / "b.tsv", second), tag="<bt>"),
    )
    found = cleaned(tmp_path, *entries, cleaning=None)
    assert list(zip(found.sample(1000).sources, found.sample(1000).targets, strict=True)) == first + second
    sample = found.sample(50)
    assert list(zip(sample.sources, sample.targets, strict=True)) == (first + second)[::4]
    assert [(part.pairs, part.file, part.tag) for part in sample.parts] == [(25, "a.tsv", None), (15, "b.tsv", "<bt>")]
    assert [*sample.parts[0].lines, *sample.parts[1].lines] == [*range(2, 102, 4), *range(2, 62, 4)]


def test_each_piece_knows_the_next_pair_of_its_file(tmp_path: Path) -> None:
    first, second = sentences(20, seed=8), sentences(6, seed=9)
    names = write_tsv(tmp_path / "a.tsv", first), write_tsv(tmp_path / "b.tsv", second)
    pieces = list(cleaned(tmp_path, *names, cleaning=None).pieces(8))
    assert [(piece.entry, piece.first, piece.following) for piece in pieces] == [
        (0, 0, first[8]),
        (0, 8, first[16]),
        (0, 16, None),
        (1, 20, None),
    ]


def end_this_process(_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_was_ended_from_outside_is_one_clear_error() -> None:
    with pytest.raises(WorkerLost, match="was killed, perhaps because memory ran out"), workers(2) as each:
        list(each(end_this_process, range(3)))


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, time\nfrom weft.data.workers import workers\n"
        "with workers(2) as each:\n    print(*set(each(lambda_pid, range(20))), flush=True)\n    os._exit(1)\n".replace(
            "lambda_pid", "os.getpgid"
        ).replace("range(20)", "[0] * 20"),
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1 and done.stdout  # it ends at all: children that live on would hold its stdout
