"""A diagnosis names every fault by its line, whatever the files are like."""

import json
import random
from pathlib import Path

import pytest
from tests.corpora import write_tsv

from weft.data import starter
from weft.data.corpus import Columns, CorpusEntry, DataConfig, Layout, read_corpora
from weft.data.doctor import examination
from weft.data.doctor.examination import examine
from weft.data.doctor.findings import KINDS, Diagnosis, Finding
from weft.data.doctor.quick import examine_quickly, leaks_of, summary_lines
from weft.data.preparation import HeldOut, clean

ZH_EN = Layout("zh", "en")
Pair = tuple[str, str]


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return starter.load()["train"][:3000]


def lines_of(pairs: list[Pair], side: int) -> str:
    return "".join(f"{pair[side]}\n" for pair in pairs)


def diagnose(folder: Path, train: list[Pair], **held_out: list[Pair]) -> Diagnosis:
    files = {part: write_tsv(folder / f"{part}.tsv", pairs) for part, pairs in {"train": train, **held_out}.items()}
    return examine({part: [CorpusEntry(path=name)] for part, name in files.items()}, ZH_EN, folder)


def finding(diagnosis: Diagnosis, kind: str) -> Finding:
    return next(finding for finding in diagnosis.findings if finding.kind == kind)


def kinds(diagnosis: Diagnosis) -> set[str]:
    return {finding.kind for finding in diagnosis.findings}


def test_a_line_that_is_missing_on_one_side_is_found_by_the_shift_after_it(tmp_path: Path, pairs: list[Pair]) -> None:
    targets = [pair for place, pair in enumerate(pairs) if place != 1999]
    (tmp_path / "a.zh").write_text(lines_of(pairs, 0), encoding="utf-8")
    (tmp_path / "a.en").write_text(lines_of(targets, 1), encoding="utf-8")
    diagnosis = examine({"train": [CorpusEntry(source="a.zh", target="a.en")]}, ZH_EN, tmp_path)
    assert finding(diagnosis, "unequal counts").examples[0].note == "a.zh has 3,000 lines, a.en 2,999"
    shifted = finding(diagnosis, "out of step")
    assert len(shifted.details) == 1 and shifted.details[0].endswith("the target is 1 line above its source")
    lines = shifted.lines["a.zh"]
    assert abs(lines[0] - 2000) <= 3 and lines[-1] >= 2996 and len(lines) >= 990


def test_a_block_across_two_chunks_is_found_whole(
    tmp_path: Path, pairs: list[Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.data.doctor.reading.File.chunks.__defaults__", (500,))
    sources, targets = map(list, zip(*pairs, strict=True))
    targets[480:520] = targets[483:520] + targets[480:483]
    diagnosis = diagnose(tmp_path, list(zip(sources, targets, strict=True)))
    assert len(finding(diagnosis, "out of step").details) == 1
    lines = set(finding(diagnosis, "out of step").lines["train.tsv"])
    assert len(lines & set(range(482, 522))) >= 38


@pytest.mark.parametrize(("first", "offset"), [(0, 1), (0, -10), (300, 1), (900, 3), (2000, 40)], ids=str)
def test_a_shift_is_found_wherever_it_starts(tmp_path: Path, pairs: list[Pair], first: int, offset: int) -> None:
    before, sources, targets = pairs[:first], *zip(*pairs[first : first + 1000], strict=True)
    if offset > 0:
        shifted = list(zip(sources, targets[offset:], strict=False))
    else:
        shifted = list(zip(sources[-offset:], targets, strict=False))
    diagnosis = diagnose(tmp_path, [*before, *shifted])
    found = finding(diagnosis, "out of step")
    direction = "above" if offset > 0 else "below"
    count = abs(offset)
    assert all(f"the target is {count} line{'s' * (count > 1)} {direction} its source" in d for d in found.details)
    planted = set(range(first + 2, len(before) + len(shifted) + 2))
    assert len(planted & set(found.lines["train.tsv"])) >= 0.97 * len(planted) - count
    assert len(set(found.lines["train.tsv"]) - planted) <= 3
    assert diagnosis.has_errors


@pytest.mark.parametrize("count", [400, 3000])
def test_a_corpus_in_which_every_pair_is_wrong_by_chance_has_no_block_and_is_an_error(
    tmp_path: Path, pairs: list[Pair], count: int
) -> None:
    sources, targets = map(list, zip(*pairs[:count], strict=True))
    random.Random(1).shuffle(targets)
    diagnosis = diagnose(tmp_path, list(zip(sources, targets, strict=True)))
    assert "out of step" not in kinds(diagnosis) and diagnosis.has_errors
    assert len(finding(diagnosis, "strangers").lines["train.tsv"]) == count


@pytest.mark.parametrize(("count", "share"), [(3000, 0.1), (10_000, 0.1)])
def test_most_pairs_of_strangers_are_found_however_many_there_are(tmp_path: Path, count: int, share: float) -> None:
    corpus = starter.load()["train"][:count]
    strangers = sorted(random.Random(2).sample(range(count), int(share * count)))
    targets = [corpus[place][1] for place in strangers]
    for place, target in zip(strangers, targets[1:] + targets[:1], strict=True):
        corpus[place] = (corpus[place][0], target)
    found = {line - 2 for line in finding(diagnose(tmp_path, corpus), "unrelated").lines["train.tsv"]}
    assert len(found & set(strangers)) >= 0.7 * len(strangers)  # what has too few words is not judged
    assert len(found - set(strangers)) <= 0.01 * count


def test_a_leak_counts_sides_whatever_their_script_case_and_punctuation(tmp_path: Path, pairs: list[Pair]) -> None:
    train = [*pairs, ("他們在這裡。", "They are here."), ("别的话", "THREE BOOKS!")]
    test = [("他们在这里", "Something else."), ("三本书", "three books"), ("新的句子", "A new sentence.")]
    diagnosis = diagnose(tmp_path, train, test=test)
    leak = finding(diagnosis, "leak")
    assert leak.details == ["1 source and 1 target sides of the 3 pairs of test occur in train"]
    assert leak.lines == {"train.tsv": [3002, 3003]}
    assert [example.note for example in leak.examples] == ["as test.tsv:2", "as test.tsv:3"]


@pytest.mark.parametrize("name", ["tsv", "jsonl"])
def test_a_leak_into_any_reference_of_a_held_out_pair_is_found(tmp_path: Path, name: str) -> None:
    columns = Columns(source="zh", target=("en", "again"))
    rows = {
        "train": [("他来了", "He came.", "One that is not trained on."), ("我走", "I go.", "I leave.")],
        "valid": [("别的话", "Other words.", "HE CAME"), ("三本书", "Three books.", "One that is not trained on!")],
    }
    for part, texts in rows.items():
        cells = [("zh", "en", "again"), *texts]
        lines = (
            map("\t".join, cells)
            if name == "tsv"
            else (json.dumps(dict(zip(cells[0], row, strict=True))) for row in texts)
        )
        (tmp_path / f"{part}.{name}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    entries = {part: [CorpusEntry(path=f"{part}.{name}")] for part in rows}
    leak = finding(examine(entries, Layout("zh", "en", columns), tmp_path), "leak")
    first = 2 if name == "tsv" else 1
    assert leak.lines == {f"train.{name}": [first]} and leak.examples[0].note == f"as valid.{name}:{first}"
    said = "0 source and 1 target sides of the 2 pairs of valid occur in train"
    assert leak.details == [said]
    config = DataConfig(source="zh", target="en", train=(f"train.{name}",), valid=(f"valid.{name}",), columns=columns)
    valid = read_corpora(config.valid, config, tmp_path)
    held_out = HeldOut.of(valid.sources, [text for texts in valid.references for text in texts])
    found = clean(config.train, config, None, tmp_path, tmp_path, held_out=held_out)
    quick = leaks_of(found.leaks, len(found), valid)
    assert quick is not None and quick.details == [said] and quick.lines == leak.lines


def test_of_one_language_a_pair_the_other_way_round_is_a_leak_too(tmp_path: Path) -> None:
    columns = Columns(source="a", target="b")
    for part, row in (("train", "They left.\tThey went away."), ("valid", "they went away\tthey departed")):
        (tmp_path / f"{part}.tsv").write_text(f"a\tb\nGood day.\tHello {part}.\n{row}\n".replace("Good", part), "utf-8")
    entries = {part: [CorpusEntry(path=f"{part}.tsv")] for part in ("train", "valid")}
    said = ["1 source and 0 target sides of the 2 pairs of valid occur in train"]
    leak = finding(examine(entries, Layout("en", "en-GB", columns), tmp_path), "leak")
    assert (leak.lines, leak.details, leak.examples[0].note) == ({"train.tsv": [3]}, said, "as valid.tsv:3")
    config = DataConfig(source="en", target="en-GB", train=("train.tsv",), valid=("valid.tsv",), columns=columns)
    valid = read_corpora(config.valid, config, tmp_path)
    held_out = HeldOut.of(valid.sources, valid.targets, in_one_language=True)
    found = clean(config.train, config, None, tmp_path, tmp_path, held_out=held_out)
    quick = leaks_of(found.leaks, len(found), valid, in_one_language=True)
    assert quick is not None and (quick.lines, quick.details) == (leak.lines, said)


def test_a_pair_that_nearly_stands_in_a_held_out_file_is_a_note_and_no_leak(tmp_path: Path, pairs: list[Pair]) -> None:
    zh = "他们在一九九八年春天把旧的图书馆搬到了河对岸那座红色的大楼里"
    en = "in the spring of 1998 they moved the old library into the large red building across the river"
    near, leaked = (f"{zh}去", f"{en} again"), (zh.replace("红", "白"), en)
    diagnosis = diagnose(tmp_path, [*pairs, near, leaked], test=[(zh, en)])
    assert finding(diagnosis, "near leak").lines == {"train.tsv": [3002]}
    assert finding(diagnosis, "near leak").severity == "note"
    assert finding(diagnosis, "near leak").examples[0].note == "as test.tsv:2"
    assert finding(diagnosis, "leak").lines == {"train.tsv": [3003]}


def test_a_duplicate_is_named_with_the_pair_that_it_repeats(tmp_path: Path, pairs: list[Pair]) -> None:
    zh, en = pairs[5]
    duplicate = finding(diagnose(tmp_path, [*pairs, (zh.rstrip("。"), en.upper())]), "duplicate")
    assert duplicate.lines == {"train.tsv": [3002]}
    assert duplicate.examples[0].note == "as train.tsv:7"


def test_pairs_that_are_no_translation_at_all_are_not_accused_of_its_consequences(
    tmp_path: Path, pairs: list[Pair]
) -> None:
    train = [*pairs, ("Wir haben heute 17 Bücher für die Kinder gekauft.", "三")]
    diagnosis = diagnose(tmp_path, train)
    named = {finding.kind for finding in diagnosis.findings if 3002 in finding.lines.get("train.tsv", ())}
    assert named == {"wrong language"}


def test_both_scripts_of_a_chinese_side_are_counted(tmp_path: Path, pairs: list[Pair]) -> None:
    traditional = [("這個問題很難回答。", f"This question is hard, {number}.") for number in range(300)]
    two = finding(diagnose(tmp_path, [*pairs, *traditional]), "two scripts")
    assert two.count == 300 and "9.1 % Traditional" in two.details[0]


def test_a_corpus_too_small_for_a_lexicon_is_checked_for_all_else_and_says_so(tmp_path: Path) -> None:
    diagnosis = diagnose(tmp_path, [("你好。", "Hello."), ("<b>谢谢</b>", "Thanks.")])
    assert kinds(diagnosis) == {"markup"}
    assert diagnosis.remarks == ["too few pairs to learn a lexicon: not checked whether the sides translate each other"]
    assert not diagnosis.has_errors


ENGLISH = "we they dog cat water rice eat drink see go house school book red big today"
THAI = "เรา พวกเขา หมา แมว น้ำ ข้าว กิน ดื่ม เห็น ไป บ้าน โรงเรียน หนังสือ แดง ใหญ่ วันนี้"


def test_right_pairs_of_a_language_whose_words_nothing_divides_are_not_called_strangers(tmp_path: Path) -> None:
    draw, words = random.Random(1), list(zip(THAI.split(), ENGLISH.split(), strict=True))
    sentences = [draw.sample(words, 6) for _ in range(600)]
    (tmp_path / "a.th").write_text("".join("".join(thai for thai, _ in drawn) + "\n" for drawn in sentences))
    (tmp_path / "a.en").write_text("".join(" ".join(english for _, english in drawn) + "\n" for drawn in sentences))
    entries = {"train": [CorpusEntry(source="a.th", target="a.en")]}
    diagnosis = examine(entries, Layout("th", "en"), tmp_path)
    assert not kinds(diagnosis) & {"strangers", "unrelated", "length ratio"}
    assert diagnosis.remarks == [
        "th is written without spaces between words: not checked whether the sides translate each other"
    ]


def test_pairs_without_a_word_are_like_no_other(tmp_path: Path) -> None:
    rows = [("我走", "I go"), ("……", "..."), ("！", "!")]
    assert not kinds(diagnose(tmp_path, rows, test=[("……", "..."), ("你好", "hello")])) & {
        "near leak",
        "near duplicate",
    }


def test_a_file_without_pairs_is_an_error_and_that_alone(tmp_path: Path) -> None:
    (tmp_path / "nothing.tsv").touch()
    (tmp_path / "a.zh").touch()
    (tmp_path / "a.en").touch()
    for entry in (
        CorpusEntry(path="nothing.tsv"),
        CorpusEntry(path=write_tsv(tmp_path / "b.tsv", [])),
        CorpusEntry(source="a.zh", target="a.en"),
    ):
        diagnosis = examine({"train": [entry]}, ZH_EN, tmp_path)
        assert diagnosis.pairs == 0 and kinds(diagnosis) == {"no pairs"} and diagnosis.has_errors


def test_shares_are_of_all_lines_whether_they_gave_a_pair_or_not(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("zh\ten\n我走\tI go\n" + "我\n" * 3, encoding="utf-8")
    (tmp_path / "b.zh").write_bytes("你好\n".encode("gb18030") * 2)
    (tmp_path / "b.en").write_bytes(b"hell\xff\n" * 2)
    texts = CorpusEntry(source="b.zh", target="b.en")
    diagnosis = examine({"train": [CorpusEntry(path="a.tsv"), texts]}, ZH_EN, tmp_path)
    assert diagnosis.pairs == 3 and diagnosis.without_pair == 3
    assert finding(diagnosis, "columns").lines == {"a.tsv": [3, 4, 5]} and finding(diagnosis, "encoding").count == 2
    shares = {row["kind"]: row["share"] for row in diagnosis.as_dict()["findings"]}
    assert shares["columns"] == 0.5 and shares["encoding"] == pytest.approx(1 / 3, abs=1e-6)
    assert "5 pairs (83.33 %) have an error" in diagnosis.table()


def test_a_side_of_control_characters_alone_is_empty(tmp_path: Path) -> None:
    diagnosis = diagnose(tmp_path, [("\x01", "hello"), ("你好", "\x02 \x03"), ("我走", "I go")])
    assert finding(diagnosis, "empty").lines == {"train.tsv": [2, 3]}


def test_two_german_and_english_sides_are_told_apart_by_their_words(tmp_path: Path) -> None:
    rows = [("Das ist ein Haus.", "This is a house."), ("This is not the dog.", "Das ist nicht der Hund.")]
    (tmp_path / "a.tsv").write_text("de\ten\n" + "".join(f"{de}\t{en}\n" for de, en in rows), encoding="utf-8")
    for layout in (Layout("de", "en"), Layout("deu", "en-US", Columns(source="de", target="en"))):
        diagnosis = examine({"train": [CorpusEntry(path="a.tsv")]}, layout, tmp_path)
        assert finding(diagnosis, "swapped").lines == {"a.tsv": [3]}


def test_the_json_has_every_line_of_every_finding_and_the_table_says_it_in_words(
    tmp_path: Path, pairs: list[Pair]
) -> None:
    marked = [(zh, f"<i>{en}</i>") for zh, en in pairs[:20]]
    diagnosis = diagnose(tmp_path, [*marked, *pairs[20:]])
    as_dict = json.loads(json.dumps(diagnosis.as_dict()))
    markup = next(finding for finding in as_dict["findings"] if finding["kind"] == "markup")
    assert markup["lines"] == {"train.tsv": list(range(2, 22))} and markup["count"] == 20
    assert len(as_dict["suspicious"]) == 50 and as_dict["suspicious"][0]["reasons"]
    table = diagnosis.table()
    assert "train.tsv: 3,000 pairs" in table and "warning       20    0.67 %  markup" in table
    assert "such as  train.tsv:2, train.tsv:3" in table and "The 50 most suspicious pairs" in table


def test_what_would_steer_a_terminal_is_escaped_in_the_table(tmp_path: Path, pairs: list[Pair]) -> None:
    table = diagnose(tmp_path, [("\x1b[31m你好世界", "Hello \x1b[0m world again"), *pairs[:50]]).table()
    assert "\x1b" not in table and "\\x1b[31m" in table


def test_the_quick_checks_find_what_needs_no_lexicon_in_pairs_that_were_read_already(
    tmp_path: Path, pairs: list[Pair]
) -> None:
    write_tsv(tmp_path / "train.tsv", [*pairs[:500], ("复制的句子在这里。", "复制的句子在这里。")])
    write_tsv(tmp_path / "valid.tsv", [*pairs[500:600], pairs[3]])
    config = DataConfig(source="zh", target="en", train=("train.tsv",), valid=("valid.tsv",))
    train, valid = (read_corpora(entries, config, tmp_path) for entries in (config.train, config.valid))
    held_out = HeldOut.of(valid.sources, valid.targets)
    found = clean(config.train, config, None, tmp_path, tmp_path, held_out=held_out)
    diagnosis = examine_quickly(train, valid, ("zh", "en"), leak=leaks_of(found.leaks, len(found), valid))
    assert diagnosis.files == {"train.tsv": 501, "valid.tsv": 101}
    assert summary_lines(diagnosis) == [
        "data error: one side is a copy of the other: 1 pair, such as train.tsv:502",
        "data error: training pairs that share a side with the held-out files: 1 pair, such as train.tsv:5 "
        "(1 source and 1 target sides of the 101 pairs of valid occur in train)",
    ]


def test_of_a_large_corpus_the_quick_checks_say_that_they_looked_at_a_part(tmp_path: Path, pairs: list[Pair]) -> None:
    write_tsv(tmp_path / "train.tsv", pairs[:100])
    config = DataConfig(source="zh", target="en", train=("train.tsv",), valid=("train.tsv",))
    train = read_corpora(config.train, config, tmp_path)
    assert examine_quickly(train, train, ("zh", "en"), whole=3000).remarks == [
        "checked a sample of 100 of 3,000 training pairs"
    ]


def test_more_than_three_lines_of_quick_findings_become_three() -> None:
    some = [Finding(kind, {"a.tsv": [1, 2]}, [examination.Example("a.tsv", 1, "", "")]) for kind in list(KINDS)[:6]]
    lines = summary_lines(Diagnosis({"a.tsv": 10}, some, (), 2, 0))
    assert len(lines) == 3 and lines[-1].startswith("data: also columns (2), ")


def test_a_finding_without_an_example_is_told_by_its_count() -> None:
    leak = Finding("leak", {"a.tsv": [3]}, [])
    (line,) = summary_lines(Diagnosis({"a.tsv": 10}, [leak], (), 1, 0))
    assert line == "data error: training pairs that share a side with the held-out files: 1 pair"
