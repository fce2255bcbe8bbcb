"""Each published format becomes rows as it should, and a damaged file one error; all text here is made up."""

import gzip
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from weft.data import conversion
from weft.data.conversion import Converted, Format, Published, convert
from weft.errors import CorpusError


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path


def put(path: Path, content: str | bytes) -> Published:
    """A published file; gzipped where its name says so."""
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return Published(path)


def put_zip(path: Path, members: dict[str, str], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def converted(kind: Format, published: Sequence[Published], columns: Sequence[str]) -> tuple[str, Converted]:
    """What is written, and what is said of it."""
    target = published[0].path.with_name("written")
    outcome = convert(kind, published, columns, target)
    return target.read_bytes().decode(), outcome


def problems(kind: Format, published: Sequence[Published]) -> str:
    with pytest.raises(CorpusError) as error:
        convert(kind, published, [], published[0].path.with_name("written"))
    return str(error.value)


# Formats


def test_line_n_of_one_file_meets_line_n_of_the_others(place: Path) -> None:
    files = [put(place / "set.en", "A dog.\nTwo cats.\n"), put(place / "set.de.gz", "Ein Hund.\nZwei Katzen.")]
    text, outcome = converted("lines", files, ["en", "de"])
    assert text == "en\tde\nA dog.\tEin Hund.\nTwo cats.\tZwei Katzen.\n"
    assert outcome == Converted(2)


def test_two_members_of_a_zip_are_read_as_two_files(place: Path) -> None:
    path = put_zip(place / "de-en.txt.zip", {"X.de-en.de": "Eins.\n", "X.de-en.en": "One.\n", "README": "?"})
    files = [Published(path, "X.de-en.en"), Published(path, "X.de-en.de")]
    assert converted("lines", files, ["en", "de"])[0] == "en\tde\nOne.\tEins.\n"
    assert sorted(file.name for file in place.iterdir()) == ["de-en.txt.zip", "written"]


def test_a_manythings_file_gives_its_second_language_first(place: Path) -> None:
    path = put_zip(place / "cmn-eng.zip", {"cmn.txt": "It rains.\t下雨了。\tCC-BY 2.0 #1 (A) & #2 (B)\n"})
    text, _ = converted("manythings", [Published(path, "cmn.txt")], ["zh", "en", "attribution"])
    assert text == "zh\ten\tattribution\n下雨了。\tIt rains.\tCC-BY 2.0 #1 (A) & #2 (B)\n"


def test_utterances_meet_by_their_place_in_the_dialogue_and_labels_are_left(place: Path) -> None:
    english = put(place / "en.txt", "Hi there . __eou__ Hello ! __eou__\t1\t2 1\t0 0\nBye . __eou__\n")
    chinese = put(place / "zh.txt", "你好。__eou__您好！__eou__\t1\t2 1\t0 0\n再见。\n")
    text, outcome = converted("dialogues", [chinese, english], ["zh", "en"])
    assert text == "zh\ten\n你好。\tHi there .\n您好！\tHello !\n再见。\tBye .\n" and outcome.remarks == {}


def test_a_dialogue_of_unequal_length_is_left_out_and_counted(place: Path) -> None:
    files = [put(place / "zh", "一 __eou__ 二\n三\n"), put(place / "en", "One __eou__ two __eou__ three\nThree\n")]
    text, outcome = converted("dialogues", files, ["zh", "en"])
    assert text == "zh\ten\n三\tThree\n"
    assert outcome.described() == ["dialogues left out, of unequal length: 1"]


def test_the_sentences_of_two_treebanks_meet_by_their_ids(place: Path) -> None:
    def sentence(identity: str, text: str) -> str:
        return f"# newdoc id = d\n# sent_id = {identity}\n# text = {text}\n1\tx\tx\tX\t_\t_\t0\troot\t_\t_\n\n"

    chinese = put(place / "zh", sentence("n1", "一 = 一") + sentence("n2", "二"))
    english = put(
        place / "en", sentence("n2", "Two") + "# text = One is one\n# sent_id = n1\n1\tx\n\n" + sentence("n3", "?")
    )
    text, outcome = converted("treebank-text", [chinese, english], ["zh", "en"])
    assert text == "zh\ten\n一 = 一\tOne is one\n二\tTwo\n"
    assert outcome.described() == ["sentences left out, which one treebank lacks: 1"]


def test_annotated_text_stays_as_it_is_and_its_sentences_are_counted(place: Path) -> None:
    text = "He\tO\r\nlives\tO\n\n\n在0\tO\n"
    assert converted("as-published", [put(place / "a.conll", text)], []) == (text, Converted(2))
    assert converted("as-published", [put(place / "a.conll.gz", text)], []) == (text, Converted(2))


# Cells


def test_only_a_newline_ends_a_line_and_a_carriage_return_before_it_goes(place: Path) -> None:
    files = [put(place / "a", "\ufeffone\u2028still one\r\ntwo\x85\n"), put(place / "b", "eins\r\nzwei\n")]
    text, outcome = converted("lines", files, ["a", "b"])
    assert text == "a\tb\none\u2028still one\teins\ntwo\tzwei\n" and outcome.rows == 2


def test_a_tab_inside_a_sentence_becomes_a_space_and_an_empty_side_leaves_the_pair_out(place: Path) -> None:
    files = [put(place / "a", "one\tmore\t\n\nthree\n"), put(place / "b", "eins\nzwei\n \n")]
    text, outcome = converted("lines", files, ["a", "b"])
    assert text == "a\tb\none more\teins\n"
    assert outcome.described() == ["left out, with an empty side: 2", "tabs made spaces: 1"]


# What is wrong


def test_files_of_unequal_length_are_refused_with_both_counts(place: Path) -> None:
    error = problems("lines", [put(place / "a", "1\n2\n3\n"), put(place / "b", "1\n2\n")])
    assert "the number of lines" in error and "a has 3, b has 2" in error


def test_all_lines_that_are_not_utf8_are_named(place: Path) -> None:
    error = problems("lines", [put(place / "a", b"x\n\xff\n\xfe\n"), put(place / "b", b"x\n\xb6\nz\n")])
    assert "3 problems" in error and "a, line 2" in error and "a, line 3" in error and "b, line 2" in error


def test_a_line_without_its_three_columns_is_named(place: Path) -> None:
    error = problems("manythings", [put(place / "cmn.txt", "Hi.\t嗨。\t#1\nRun.\t跑。\n")])
    assert "cmn.txt, line 2" in error and "has 2 columns" in error


def test_a_zip_without_the_member_is_refused(place: Path) -> None:
    path = put_zip(place / "a.zip", {"../cmn.txt": "x"})
    assert "has no member cmn.txt" in problems("lines", [Published(path, "cmn.txt")])


def test_a_cell_of_what_nobody_sees_is_empty(place: Path) -> None:
    text, outcome = converted(
        "lines", [put(place / "a.en", "\u200b\nOne.\n"), put(place / "a.de", "Ein.\nEins.\n")], ["en", "de"]
    )
    assert text == "en\tde\nOne.\tEins.\n" and outcome.remarks == {"left out, with an empty side": 1}


def test_a_damaged_archive_is_one_error(place: Path) -> None:
    whole = gzip.compress(b"text " * 1000)
    (place / "short.gz").write_bytes(whole[:-20])
    (place / "none.gz").write_bytes(b"<html>Please log in</html>")
    (place / "none.zip").write_bytes(b"<html>Please log in</html>")
    path = put_zip(place / "spoiled.zip", {"a": "text " * 1000}, zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"text ", b"test ", 1))
    lzma = put_zip(place / "lzma.zip", {"a": "".join(map(chr, range(20, 2000)))}, zipfile.ZIP_LZMA)
    spoiled = bytearray(lzma.read_bytes())
    spoiled[200:260] = bytes(60)
    lzma.write_bytes(spoiled)
    for published in (
        Published(lzma, "a"),
        *(Published(place / "short.gz"), Published(place / "none.gz")),
        *(Published(place / "none.zip", "a"), Published(path, "a")),
    ):
        error = problems("lines", [published])
        assert published.path.name in error and f"remove {published.path} and get it again" in error


def test_an_archive_that_grows_out_of_bounds_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "MOST_GROWTH", 3)
    path = put_zip(place / "bomb.zip", {"a": "a line of text\n" * 100_000})
    assert "unpacks to more than 3 times its size" in problems("lines", [Published(path, "a")])
    assert "unpacks to more than 3 times its size" in problems("as-published", [put(place / "b.gz", "b\n" * 200_000)])


def test_a_line_without_an_end_is_not_read_into_memory(place: Path) -> None:
    assert "not a text of sentences" in problems("lines", [put(place / "a", b"x" * (conversion.LONGEST_LINE + 1))])
