"""Files of pairs become pairs: nothing shifts, nothing is lost, and what is wrong is named by file and line."""

import gzip
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft import files as reading
from weft.config import resolve
from weft.data import pair_files
from weft.data.corpus import (
    Columns,
    CorpusEntry,
    DataConfig,
    ParallelText,
    Part,
    TrainingCorpus,
    common_reading,
    group_files,
    language_in_name,
    read_corpora,
    read_given,
    read_monolingual,
)
from weft.data.lines import read_lines
from weft.errors import CorpusError, RecipeError, UsageError

PAIRS = [("你好。", "Hello."), ("谢谢你！", "Thank you!"), ("再见。", "Goodbye.")]
TEXT_PAIR = CorpusEntry(source="a.zh", target="a.en")
Read = Callable[..., ParallelText]
Problems = Callable[..., list[str]]


def config(**settings: Any) -> DataConfig:
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
    return DataConfig(**{"source": "zh", "target": "en", "train": ("x",), "valid": ("x",), **settings})


def tsv(pairs: list[tuple[str, str]], header: str = "zh\ten") -> str:
    return "".join(f"{line}\n" for line in [header, *("\t".join(pair) for pair in pairs)])


def jsonl(pairs: list[tuple[str, str]]) -> str:
    return "".join(json.dumps({"zh": zh, "en": en}, ensure_ascii=False) + "\n" for zh, en in pairs)


def lines(texts: list[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Write these files, and read these entries (all files, if none are given)."""

    def read(files: dict[str, str | bytes], *entries: str | CorpusEntry, **settings: Any) -> ParallelText:
        for name, content in files.items():
            content = content.encode() if isinstance(content, str) else content
            (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return read_corpora(entries or tuple(files), config(**settings), tmp_path)

    return read


@pytest.fixture
def problems(read: Read) -> Problems:
    """What is wrong with these files, a line each."""

    def problems(*arguments: Any, **settings: Any) -> list[str]:
        with pytest.raises(CorpusError) as caught:
            read(*arguments, **settings)
        return [f"{problem.where} {problem.what}" for problem in caught.value.problems]

    return problems


# What can be read


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_tsv_jsonl_and_text_pairs_say_the_same_also_gzipped(read: Read, ending: str) -> None:
    zh, en = lines([zh for zh, _ in PAIRS]), lines([en for _, en in PAIRS])
    pair = CorpusEntry(source=f"a.zh{ending}", target=f"a.en{ending}")
    found = [
        read({f"a.tsv{ending}": tsv(PAIRS)}),
        read({f"a.jsonl{ending}": jsonl(PAIRS)}),
        read({f"a.zh{ending}": zh, f"a.en{ending}": en}, pair),
    ]
    for text in found:
        assert text.sources == [zh for zh, _ in PAIRS]
        assert text.targets == [en for _, en in PAIRS]
        assert len(text) == 3


@pytest.mark.parametrize("inside", ["\r", "\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x1e"])
def test_what_other_programs_take_for_a_line_end_does_not_shift_the_pairs(read: Read, inside: str) -> None:
    pairs = [(f"你{inside}好。", f"Hel{inside}lo."), *PAIRS]
    zh, en = lines([zh for zh, _ in pairs]), lines([en for _, en in pairs])
    for text in (
        read({"a.tsv": tsv(pairs)}),
        read({"a.jsonl": jsonl(pairs)}),
        read({"a.zh": zh, "a.en": en}, TEXT_PAIR),
    ):
        assert list(zip(text.sources, text.targets, strict=True)) == pairs


def test_line_ends_of_windows_are_no_part_of_the_text(read: Read) -> None:
    for files, *entries in (
        ({"a.tsv": tsv(PAIRS).replace("\n", "\r\n")},),
        ({"a.jsonl": jsonl(PAIRS).replace("\n", "\r\n")},),
        ({"a.zh": "你好。\r\n谢谢你！\r\n再见。\r\n", "a.en": "Hello.\nThank you!\nGoodbye.\n"}, TEXT_PAIR),
    ):
        text = read(files, *entries)
        assert list(zip(text.sources, text.targets, strict=True)) == PAIRS


def test_a_byte_order_mark_is_no_part_of_the_first_cell(read: Read) -> None:
    mark = "\ufeff"
    for files, *entries in (
        ({"a.tsv": mark + tsv(PAIRS)},),
        ({"a.jsonl": mark + jsonl(PAIRS)},),
        ({"a.zh": mark + "你好。\n", "a.en": mark + "Hello.\n"}, TEXT_PAIR),
    ):
        assert read(files, *entries).sources[0] == "你好。"


def test_the_last_line_needs_no_line_end(read: Read) -> None:
    assert read({"a.tsv": tsv(PAIRS).rstrip("\n")}).targets[-1] == "Goodbye."


def test_quotes_are_text(read: Read) -> None:
    assert read({"a.tsv": tsv([('"你好', 'He said: "Hi')])}).targets == ['He said: "Hi']


def test_columns_are_found_by_name_in_any_order(read: Read) -> None:
    text = read(
        {"a.tsv": "id\tEnglish\tChinese\n7\tHello.\t你好。\n"}, columns=Columns(source="Chinese", target="English")
    )
    assert (text.sources, text.targets) == (["你好。"], ["Hello."])


def test_without_a_header_the_first_two_columns_are_the_pair_or_those_with_the_given_numbers(read: Read) -> None:
    assert read({"a.tsv": "你好。\tHello.\tmore\n"}, header=False).targets == ["Hello."]
    text = read({"a.tsv": "1\tHello.\t你好。\n"}, header=False, columns=Columns(source="3", target="2"))
    assert (text.sources, text.targets) == (["你好。"], ["Hello."])


def test_several_references_stay_beside_each_other_and_the_first_is_the_target(read: Read) -> None:
    columns = Columns(source="zh", target=("refA", "refB"))
    files = {
        "a.tsv": "zh\trefB\trefA\n你好。\tHi.\tHello.\n再见。\t\tBye.\n",
        "b.jsonl": '{"zh": "谢谢。", "refA": "Thanks.", "refB": "Thank you."}\n',
    }
    text = read(files, columns=columns)
    assert text.references == [("Hello.", "Hi."), ("Bye.", ""), ("Thanks.", "Thank you.")]
    assert text.targets == ["Hello.", "Bye.", "Thanks."]


def test_several_corpora_follow_each_other_and_each_file_is_known_by_its_digest(read: Read) -> None:
    files = {"a.tsv": tsv(PAIRS[:1]), "b.jsonl": jsonl(PAIRS[1:2]), "a.zh": "再见。\n", "a.en": "Goodbye.\n"}
    text = read(files, "a.tsv", CorpusEntry(path="b.jsonl"), TEXT_PAIR)
    assert list(zip(text.sources, text.targets, strict=True)) == PAIRS
    assert set(text.sha256) == {"a.tsv", "b.jsonl", "a.zh", "a.en"}
    changed = read({"a.tsv": tsv(PAIRS[:1]) + "好\tGood\n"}, "a.tsv")
    assert changed.sha256["a.tsv"] != text.sha256["a.tsv"]


# What is wrong, and where


def test_empty_sides_are_named_by_line_or_dropped_and_counted(read: Read, problems: Problems) -> None:
    files = {"a.tsv": tsv([PAIRS[0], ("", "Nobody said this."), ("空", " \u3000"), PAIRS[1]])}
    hint = 'fill it, remove it, or set data.empty_sides = "drop" in a recipe'
    assert problems(files) == [
        f"a.tsv: line 3 the source side is empty; {hint}",
        f"a.tsv: line 4 the target side is empty; {hint}",
    ]
    text = read(files, empty_sides="drop")
    assert (text.targets, text.dropped_empty) == (["Hello.", "Thank you!"], 2)


def test_files_of_unequal_length_are_refused_with_both_counts(problems: Problems) -> None:
    (problem,) = problems({"a.zh": "一\n二\n三\n", "a.en": "one\ntwo\n"}, TEXT_PAIR)
    assert "a.zh has 3 lines, a.en has 2" in problem


@pytest.mark.parametrize(
    ("files", "entry", "expected"),
    [
        ({"a.tsv": b"zh\ten\n\xc4\xe3\tHi\n"}, "a.tsv", "a.tsv: line 2 is not UTF-8 (byte 0xc4 at 1)"),
        (
            {"a.tsv": "zh\ten\n葡萄\tgrape\n".encode("gb18030")},
            "a.tsv",
            "a.tsv: line 2 is not UTF-8 (byte 0xc6 at 1); convert the file, perhaps from GB18030: iconv -f GB18030",
        ),
        ({"a.tsv": b"\xff\xfez\x00h\x00\n"}, "a.tsv", "a.tsv: line 1 is not UTF-8 (byte 0xff at 3)"),
        ({"a.tsv": b"\xef\xbb\xbfzh\xff\n"}, "a.tsv", "a.tsv: line 1 is not UTF-8 (byte 0xff at 6)"),
        (
            {"a.jsonl": jsonl(PAIRS).encode() + b'{"\xe4"}\n'},
            "a.jsonl",
            "a.jsonl: line 4 is not UTF-8 (byte 0xe4 at 3)",
        ),
        ({"a.zh": b"\xc4\n", "a.en": b"one\n"}, TEXT_PAIR, "a.zh: line 1 is not UTF-8 (byte 0xc4 at 1)"),
        ({"a.zh": "一\n".encode(), "a.en": b"o\xffe\n"}, TEXT_PAIR, "a.zh: a.en, line 1 is not UTF-8 (byte 0xff at 2)"),
    ],
    ids=["tsv", "word list", "header", "byte order mark", "jsonl", "source file", "target file"],
)
def test_bytes_that_are_not_utf8_are_named_by_file_and_line(
    problems: Problems, files: dict[str, bytes], entry: str | CorpusEntry, expected: str
) -> None:
    (problem,) = problems(files, entry)
    assert problem.startswith(expected)


def test_a_line_with_another_number_of_columns_is_named(problems: Problems) -> None:
    content = "zh\ten\n你好。\tHello.\n一\n二\ttwo\tmore\n"
    assert problems({"a.tsv": content}) == [
        "a.tsv: line 3 has 1 column, but the header has 2",
        "a.tsv: line 4 has 3 columns, but the header has 2",
    ]
    ragged = problems({"a.tsv": "一\tone\n二\ttwo\tand more\n"}, header=False)
    assert ragged == ["a.tsv: line 2 has 3 columns, but the first line has 2"]
    ragged = problems({"a.csv": "一,one\n二,two, and more\n"}, header=False)
    assert ragged == ["a.csv: line 2 has 3 columns, not 2"]
    assert problems({"a.csv": "zh\ten\n一\tone\n"}) == [
        "a.csv: line 1 has tabs between its cells; give the file a name that ends with .tsv"
    ]
    assert problems({"a.tsv": "一\n"}, header=False) == ["a.tsv: line 1 has 1 column, but at least 2 are needed"]


def test_a_missing_column_is_named_with_those_that_are_there(problems: Problems) -> None:
    (problem,) = problems({"a.tsv": "Chinese\ten\n你好。\tHello.\n"})
    assert problem.startswith("a.tsv: line 1 has no column `zh`; the header names: Chinese, en; name the columns in")
    (problem,) = problems({"a.tsv": "x"}, header=False, columns=Columns(source="zh", target="2"))
    assert "must be numbers from 1, found zh, 2" in problem


def test_a_column_that_could_be_two_is_refused(problems: Problems) -> None:
    (problem,) = problems({"a.tsv": "zh\ten\ten\n你好。\tHello.\tHi.\n"})
    assert "several columns named `en`" in problem
    (problem,) = problems({"a.tsv": "一\tone\n"}, header=False, columns=Columns(source="1", target="1"))
    assert "source and target are the same column, `1`" in problem


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    problems: Problems, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LONGEST_LINE", 100)
    (problem,) = problems({"a.tsv": "zh\ten\n一\t" + "one " * 40})
    assert problem.startswith("a.tsv: line 2 is longer than")


@pytest.mark.parametrize("bytes_at_once", [1, 20, 50])
def test_pairs_are_the_same_however_many_are_read_at_once(
    read: Read, monkeypatch: pytest.MonkeyPatch, bytes_at_once: int
) -> None:
    content = {"a.zh": "".join(f"第{n}句\n" for n in range(9)), "a.en": "".join(f"no. {n}\n" for n in range(9))}
    whole = read(content, TEXT_PAIR)
    monkeypatch.setattr(pair_files, "BYTES_AT_ONCE", bytes_at_once)
    again = read(content, TEXT_PAIR)
    assert (again.sources, again.targets, len(whole)) == (whole.sources, whole.targets, 9)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", "is not a JSON object"),
        ("", "is not a JSON object"),
        ('["你好。", "Hello."]', "must be an object with strings under zh and en"),
        ('{"zh": "你好。"}', "must be an object with strings under zh and en"),
        ('{"zh": "你好。", "en": 5}', "must be an object with strings under zh and en"),
        ("[" * 100_000, "is not a JSON object"),
        ("9" * 10_000, "is not a JSON object"),
        (r'{"zh": "\ud83d", "en": "Hello."}', "contains half of a character"),
    ],
    ids=["torn", "blank", "a list", "a key missing", "a number", "very deep", "a huge number", "half a character"],
)
def test_a_broken_line_of_jsonl_is_named(problems: Problems, line: str, expected: str) -> None:
    (problem,) = problems({"a.jsonl": jsonl(PAIRS) + line + "\n"})
    assert problem.startswith(f"a.jsonl: line 4 {expected}")


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl", "a.tsv.gz"])
def test_a_file_without_pairs_is_refused(problems: Problems, name: str) -> None:
    (problem,) = problems({name: ""})
    assert "is empty" in problem or "contains no sentence pair" in problem
    (problem,) = problems({"b.tsv": "zh\ten\n"})
    assert problem == "b.tsv: the whole file contains no sentence pair"


def test_a_file_that_is_not_there_a_folder_and_a_broken_archive_are_named(problems: Problems, tmp_path: Path) -> None:
    (tmp_path / "folder.tsv").mkdir()
    (tmp_path / "torn.tsv.gz").write_bytes(gzip.compress(tsv(PAIRS).encode())[:-9])
    (tmp_path / "none.tsv.gz").write_bytes(b"not gzip at all")
    missing, folder, torn, none = problems({}, "missing.tsv", "folder.tsv", "torn.tsv.gz", "none.tsv.gz")
    assert missing == f"missing.tsv: the file does not exist (looked in {tmp_path.resolve()})"
    assert folder == "folder.tsv: the file is a folder, not a file"
    assert torn.startswith("torn.tsv.gz: the file cannot be read: ")
    assert none.startswith("none.tsv.gz: the file cannot be read: Not a gzipped file")


def test_a_damaged_archive_hides_nothing_of_what_is_wrong_before(problems: Problems, tmp_path: Path) -> None:
    many = [(str(random.random()), "x") for _ in range(20_000)]
    for name, text in {"a.tsv.gz": f"zh\ten\nno tab\n{tsv(many)}", "a.jsonl.gz": f"no JSON\n{jsonl(many)}"}.items():
        (tmp_path / name).write_bytes(gzip.compress(text.encode())[:-9])
        found = problems({}, name)
        assert "line" in found[0] and found[-1].startswith(f"{name}: the file cannot be read: ")


@pytest.mark.parametrize("text_file", [False, True])
def test_a_pipe_is_refused_and_not_waited_for(problems: Problems, tmp_path: Path, text_file: bool) -> None:
    os.mkfifo(tmp_path / "a.zh" if text_file else tmp_path / "a.tsv")
    (problem,) = problems({"a.en": "Hello.\n"}, TEXT_PAIR if text_file else "a.tsv")
    assert "is a pipe or a device, and a corpus is read more than once; save its content" in problem


def test_a_name_with_a_zero_byte_is_that_of_no_file(problems: Problems) -> None:
    (problem,) = problems({}, "a\0.tsv")
    assert problem.endswith("the name contains a null byte, which no file name may")


@pytest.mark.parametrize("columns", ["0", "01", "x", "9" * 5000])
def test_numbers_of_columns_are_plain_ones(problems: Problems, columns: str) -> None:
    (problem,) = problems({"a.tsv": "你好\tHello\n"}, header=False, columns=Columns(source="1", target=columns))
    assert "data.columns must be numbers from 1, found 1, " in problem and len(problem) < 300


def test_suffixes_may_be_in_capitals(read: Read) -> None:
    text = read({"a.TSV": tsv(PAIRS), "b.JsonL": jsonl(PAIRS)})
    assert len(text) == 6
    assert group_files(["a.TSV", "b.JSON"]) == [CorpusEntry(path="a.TSV"), CorpusEntry(path="b.JSON")]


def test_all_that_is_wrong_with_all_files_is_said_at_once(problems: Problems) -> None:
    files = {"a.tsv": b"zh\ten\n\xff\tHi\n\n\tx\n", "b.jsonl": b"{\n"}
    found = problems(files, "a.tsv", "b.jsonl", "c.tsv")
    assert [problem.split(" ", 3)[:3] for problem in found] == [
        ["a.tsv:", "line", "2"],
        ["a.tsv:", "line", "3"],
        ["a.tsv:", "line", "4"],
        ["b.jsonl:", "line", "1"],
        ["c.tsv:", "the", "file"],
    ]


def test_a_file_of_another_kind_is_not_read_to_its_end(problems: Problems, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_files, "LINES_AT_ONCE", 10)
    monkeypatch.setattr(pair_files, "MOST_PROBLEMS", 25)
    assert len(problems({"a.jsonl": b"\n" * 1000}, "a.jsonl")) == 30
    assert len(problems({"a.csv": b"zh,en\n" + b"x\n" * 1000}, "a.csv")) == 25
    assert len(problems({"a.csv": b"zh,en\n" + b"\xff\n" * 1000}, "a.csv")) == 25


@pytest.mark.parametrize(("name", "wrong", "count"), [("a.txt", b"\xff\n", 25), ("a.jsonl", b"\n", 30)])
def test_a_monolingual_file_of_another_kind_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, wrong: bytes, count: int
) -> None:
    monkeypatch.setattr(pair_files, "LINES_AT_ONCE", 10)
    monkeypatch.setattr(pair_files, "MOST_PROBLEMS", 25)
    (tmp_path / name).write_bytes(wrong * 1000)
    for read in (lambda: read_monolingual(tmp_path / name, "en"), lambda: read_lines([name], tmp_path, column="en")):
        with pytest.raises(CorpusError) as caught:
            read()
        assert len(caught.value.problems) == count


# Where a pair comes from


def test_a_pair_is_found_again_in_its_file_by_its_line(read: Read) -> None:
    files = {
        "a.tsv": tsv([PAIRS[0], ("", "Nobody said this."), PAIRS[1]]),
        "b.jsonl.gz": jsonl(PAIRS[2:]),
        "a.zh": "再见。\n\n你好。\n",
        "a.en": "Goodbye.\n\nHello.\n",
    }
    text = read(files, "a.tsv", CorpusEntry(path="b.jsonl.gz"), TEXT_PAIR, empty_sides="drop")
    found = [text.describe(pair) for pair in range(len(text))]
    places = [("a.tsv", 2), ("a.tsv", 4), ("b.jsonl.gz", 1), ("a.zh", 1), ("a.zh", 3)]
    assert [(pair["file"], pair["line"]) for pair in found] == places
    assert [(pair["source"], pair["target"]) for pair in found] == [*PAIRS, PAIRS[2], PAIRS[0]]


def test_a_pair_of_no_file_is_described_by_its_sides() -> None:
    text = ParallelText(["一", "二"], [("one",), ("two",)], {}, parts=(Part(1), Part(1, file="b.tsv", lines=[7])))
    assert text.describe(0) == {"source": "一", "target": "one"}
    assert text.describe(1) == {"file": "b.tsv", "line": 7, "source": "二", "target": "two"}


# Weights and tags


def test_each_pair_has_the_weight_and_the_tag_of_its_corpus(read: Read) -> None:
    made = TrainingCorpus(path="b.tsv", weight=0.5, tag="<bt>")
    text = read({"a.tsv": tsv(PAIRS[:1]), "b.tsv": tsv(PAIRS[1:])}, "a.tsv", made)
    assert [(part.pairs, part.weight, part.tag) for part in text.parts] == [(1, 1.0, None), (2, 0.5, "<bt>")]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"train": [{"path": "a.tsv", "weight": 0}]}, "must be greater than 0, found 0"),
        ({"train": [{"path": "a.tsv", "weight": -1.5}]}, "must be greater than 0, found -1.5"),
        ({"train": [{"path": "a.tsv", "weight": "2"}]}, "expected a number"),
        ({"train": [{"path": "a.tsv", "tag": "bt"}]}, 'expected a word in angle brackets, such as "<bt>"'),
        ({"train": [{"path": "a.tsv", "tag": "<s>"}]}, "none of <pad>, <unk>, <s>, </s>"),
        ({"train": [{"path": "a.tsv", "tag": "<0x41>"}]}, "expected a word in angle brackets"),
        ({"valid": [{"path": "a.tsv", "weight": 2}]}, "unknown key"),
        ({"valid": [{"path": "a.tsv", "tag": "<bt>"}]}, "unknown key"),
        ({"tag": "<bt>"}, "must be the tag of a corpus in data.train; none of them has a tag"),
        ({"train": [{"path": "a", "tag": "<bt>"}, {"path": "b", "tag": "<st>"}], "tag": "<x>"}, "known: <bt>, <st>"),
    ],
)
def test_weights_and_tags_that_cannot_be_are_refused(data: dict[str, Any], says: str) -> None:
    with pytest.raises(RecipeError) as caught:
        resolve({"source": "zh", "target": "en", "train": ["x"], "valid": ["x"], **data}, DataConfig, "the data")
    assert says in str(caught.value)


# Monolingual text


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_monolingual_text_is_lines_or_a_column(tmp_path: Path, ending: str) -> None:
    sentences = ["Hello.", "", "Good\u2028bye."]
    contents = {
        "a.txt": lines(sentences),
        "a.tsv": "id\ten\n" + "".join(f"{n}\t{text}\n" for n, text in enumerate(sentences)),
        "a.jsonl": "".join(json.dumps({"en": text}) + "\n" for text in sentences),
    }
    for name, content in contents.items():
        path = tmp_path / f"{name}{ending}"
        path.write_bytes(gzip.compress(content.encode()) if ending else content.encode())
        assert read_monolingual(path, "en") == sentences


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.tsv", "zh\tde\n一\teins\n", "has no column `en`; the header names: zh, de; name one of them by --column"),
        ("a.jsonl", '{"de": "eins"}\n', "must be an object with strings under en"),
        ("a.txt", b"one\n\xff\n", "is not UTF-8 (byte 0xff at 1)"),
    ],
)
def test_what_is_wrong_with_monolingual_text_is_named(
    tmp_path: Path, name: str, content: str | bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(CorpusError) as caught:
        read_monolingual(tmp_path / name, "en")
    assert [problem.what.startswith(says) for problem in caught.value.problems] == [True]


@pytest.mark.parametrize(
    ("name", "says"),
    [("a.xlsx", "save the table as .csv"), ("a.PDF.gz", "no documents"), ("a.docx", "save sentences as text")],
)
def test_a_file_of_an_office_is_no_text(tmp_path: Path, name: str, says: str) -> None:
    for read in (lambda: read_monolingual(tmp_path / name, "en"), lambda: group_files(["a.zh", name])):
        with pytest.raises(UsageError, match=rf"{name}: weft .*{says}"):
            read()


@pytest.mark.parametrize("name", ["a.tmx", "a.TBX.gz"])
def test_a_memory_is_text_in_two_languages(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"holds pairs; save the sentences of one language"):
        read_monolingual(tmp_path / name, "en")


# Tables with commas, memories, and two text files


MEMORY = "".join(
    f'<tu><tuv xml:lang="zh-CN"><seg>{zh}</seg></tuv><tuv xml:lang="en"><seg>{en}</seg></tuv></tu>' for zh, en in PAIRS
)
PAIRS_IN = {
    "a.csv": "zh,en\n" + "".join(f'{zh},"{en}"\r\n' for zh, en in PAIRS),
    "b.csv": "id;en;zh\n" + "".join(f"{n};{en};{zh}\n" for n, (zh, en) in enumerate(PAIRS)),
    "c.CSV.gz": "\ufeffzh,en\n" + "".join(f'"{zh}",{en}\n\n' for zh, en in PAIRS),
    "a.tmx": f"<tmx><header/><body>{MEMORY}</body></tmx>",
    "b.TMX.gz": f"<tmx><header/><body>{MEMORY}</body></tmx>",
}


@pytest.mark.parametrize("name", PAIRS_IN)
def test_a_table_with_commas_and_a_memory_hold_the_pairs_of_a_tsv(read: Read, tmp_path: Path, name: str) -> None:
    text = read({name: PAIRS_IN[name]})
    assert list(zip(text.sources, text.targets, strict=True)) == PAIRS
    assert group_files([name]) == [CorpusEntry(path=name)] and read_given([tmp_path / name], config()).sources


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl", "a.tmx", "train", "a.TSV"])
def test_a_zipped_file_is_read_whatever_its_name(tmp_path: Path, name: str) -> None:
    contents = {"a.csv": PAIRS_IN["a.csv"], "a.jsonl": jsonl(PAIRS), "a.tmx": PAIRS_IN["a.tmx"]}
    (tmp_path / name).write_bytes(gzip.compress(contents.get(name, tsv(PAIRS)).encode()))
    assert read_corpora([name], config(), tmp_path).sources == [zh for zh, _ in PAIRS]


def test_a_cell_of_a_table_with_commas_may_hold_commas_quotes_and_lines(read: Read) -> None:
    text = read({"a.csv": 'zh, en\n"你好，""世界""。","Hello,\nworld."\n,\n'}, empty_sides="drop")
    assert (text.sources, text.targets, text.dropped_empty) == (['你好，"世界"。'], ["Hello,\nworld."], 1)
    assert read({"a.csv": "你好,Hello\n"}, header=False).targets == ["Hello"]
    assert read({"a.csv": "是；不,Yes; no; maybe\n早,Morning\n"}, header=False).targets[0] == "Yes; no; maybe"
    assert read({"a.csv": "zh;en;a,b,c\n早;Morning;x\n"}).targets == ["Morning"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("zh,en\n你好,Hello,x\n", "line 2 has 3 columns, not 2"),
        ('zh,en\n"你好,Hello\n', "line 2 is not CSV: unexpected end of data"),
        ('zh,en\n你,Hi\n"好,Hello\n你,Hi\n', "line 3 is not CSV: unexpected end of data"),
        ('zh,en\n你,Hi\n"好\n\n",Hello,x\n', "line 3 has 3 columns, not 2"),
        ('zh,en\n"你"好,Hello\n', "line 2 is not CSV: ',' expected after '\"'"),
        ("zh,de\n你好,Hallo\n", "line 1 has no column `en`"),
        ("zh,en\n你好,\n", "line 2 the target side is empty"),
        (b"zh,en\n\xff,x\n\xe4,y\n", "line 2 is not UTF-8"),
    ],
)
def test_what_is_wrong_with_a_table_with_commas_is_named_by_its_line(
    problems: Problems, content: str | bytes, says: str
) -> None:
    assert says in problems({"a.csv": content})[0]


@pytest.mark.parametrize(
    ("names", "entries"),
    [
        (("a.zh", "a.en"), [("a.zh", "a.en")]),
        (("a.en", "a.zh"), [("a.zh", "a.en")]),
        (("x/a.EN.gz", "x/a.ZH.gz"), [("x/a.ZH.gz", "x/a.EN.gz")]),
        (("news_en.txt", "news_zh.txt"), [("news_zh.txt", "news_en.txt")]),
        (("a.en", "b.en", "a.zh", "b.zh"), [("a.zh", "a.en"), ("b.zh", "b.en")]),
        (("b.tsv", "a.zh", "a.en"), [("a.zh", "a.en"), "b.tsv"]),
        (("ted.dev_en", "ted.dev_zh"), [("ted.dev_zh", "ted.dev_en")]),
        (("ted.all-en.txt", "ted.all-zh.txt"), [("ted.all-zh.txt", "ted.all-en.txt")]),
        (("a.zh", "b.en"), [("a.zh", "b.en")]),  # two by two
        (("one.txt", "two.txt"), [("one.txt", "two.txt")]),
        (("a.zh", "a.en", "a.zh", "a.en"), [("a.zh", "a.en"), ("a.zh", "a.en")]),
    ],
)
def test_text_files_belong_together_by_the_codes_at_the_end_of_their_names(
    names: tuple[str, ...], entries: list[Any]
) -> None:
    found = group_files(names, ("zh", "en"))
    said = [entry.path or (entry.source, entry.target) for entry in found]
    assert sorted(map(str, said)) == sorted(map(str, entries))


def test_regions_are_known_in_either_spelling() -> None:
    (found,) = group_files(["test.en", "test.pt_BR"], ("pt-BR", "en"))
    assert (found.source, found.target) == ("test.pt_BR", "test.en")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("ted.dev_en", ("en", "ted.dev_*")),
        ("ted.tok.en.gz", ("en", "ted.tok.*.gz")),
        ("a.pt_BR", ("pt-br", "a.*")),
        ("a.zh-Hant", ("zh-hant", "a.*")),
        ("a.ast-ES", ("ast-es", "a.*")),
        ("TED.DEV_EN", ("en", "TED.DEV_*")),
        ("a.yue", ("yue", "a.*")),
    ],
)
def test_the_code_at_the_end_of_a_name_has_a_region_or_a_word_before_it(name: str, found: Any) -> None:
    assert language_in_name(name) == found


def test_models_that_differ_in_columns_read_files_without_columns_alike() -> None:
    models = [("a", config(columns={"source": "src", "target": "tgt"})), ("b", config())]
    for name in ("test.zh", "test.zh.gz", "test.tmx"):
        assert common_reading(models, name) == models[0][1]
    with pytest.raises(UsageError, match=r"data\.columns is"):
        common_reading(models, "test.tsv")


def test_a_recipe_may_name_two_text_files_by_the_codes_of_their_names() -> None:
    settings = config(train=["news.en", "news.zh", "b.tsv"], valid=["valid.zh", "valid.en"])
    assert settings.train == (TrainingCorpus(source="news.zh", target="news.en"), "b.tsv")
    assert settings.valid == (CorpusEntry(source="valid.zh", target="valid.en"),)
    assert config(train=["a.zh", "b.en"]).train == ("a.zh", "b.en")
    assert config(train=["a.zh", "a.en"], source="de").train == ("a.zh", "a.en")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("你好。\n", "give text files two by two"),
        ("One, two; three.\n", "give text files two by two"),
        ('"zh", "en"\n', "end with .csv"),
        ("zh;en\n", "not commas"),
    ],
)
def test_a_text_file_in_place_of_pairs_is_told_from_a_table_with_commas(
    problems: Problems, content: str, says: str
) -> None:
    (problem,) = problems({"valid.zh": content})
    assert "has no tab" in problem and says in problem


def test_spaced_words_and_signs_are_natural_text_where_the_recipe_says_that_they_are_spaced(read: Read) -> None:
    spaced = {"a.tsv": tsv([("你 好 ， 世界 ！", "I do n't know , Tom .")])}
    assert read(spaced, detokenize=True).sources == ["你好，世界！"]
    assert read(spaced, detokenize=True).targets == ["I don't know, Tom."]
    assert read(spaced).targets == ["I do n't know , Tom ."]
