"""`weft doctor` on files and on a recipe: the table on standard output, the rest on standard error, 1 for errors."""

import json
import re
import shutil
from pathlib import Path

import pytest
from tests.command_line import Weft

GOOD = "zh\ten\n你好。\tHello.\n谢谢你。\tThank you.\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> str:
    Path(name).write_text(text, encoding="utf-8", newline="\n")
    return name


def doctor(weft: Weft, *arguments: str) -> tuple[int, str, str]:
    return weft("doctor", *arguments, "--source", "zh", "--target", "en")


def test_what_is_found_goes_into_the_report_of_a_run(weft: Weft, tiny_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(tiny_run / "run", tmp_path / "run")
    exit_code, _, error = doctor(weft, write("a.tsv", GOOD), "--report", str(run))
    assert exit_code == 0 and error.endswith(f"{run / 'report.html'}\n")
    assert json.loads((run / "doctor.json").read_text(encoding="utf-8"))["files"].keys() == {"a.tsv"}
    assert "a.tsv" in (run / "report.html").read_text(encoding="utf-8")
    assert "takes the folder of a run" in doctor(weft, "a.tsv", "--report", str(tmp_path))[2]


def test_of_a_good_corpus_the_doctor_says_so_and_exits_with_0(weft: Weft) -> None:
    exit_code, out, error = doctor(weft, write("a.tsv", GOOD))
    assert exit_code == 0
    assert out.startswith("a.tsv: 2 pairs\n0 pairs (0.00 %) have an error")
    assert "reading the pairs" in error and "reading" not in out
    assert weft("doctor", "a.tsv")[:2] == (exit_code, out)  # the header names the languages


def test_an_error_is_told_with_its_line_its_cost_and_what_to_do_and_exits_with_1(weft: Weft) -> None:
    exit_code, out, _ = doctor(weft, write("a.tsv", GOOD + "Good night, friend.\t晚安，朋友。\n"))
    assert exit_code == 1
    assert "error          1   33.33 %  the sides are swapped" in out
    assert "where    a.tsv:4" in out and "cost     " in out and "remedy   swap them back" in out
    assert "a.tsv:4  the sides are swapped\n    Good night, friend.\n    晚安，朋友。" in out


def test_what_the_ordinary_reader_refuses_is_diagnosed(weft: Weft) -> None:
    files = write("a.zh", "你好。\n谢谢。\n"), write("a.en", "Hello.\n")
    exit_code, out, _ = doctor(weft, *files)
    assert exit_code == 1
    assert "the two files have different numbers of lines" in out and "a.zh has 2 lines, a.en 1" in out


def test_held_out_files_are_looked_at_for_leaks(weft: Weft) -> None:
    files = write("a.tsv", GOOD), "--valid", write("v.tsv", GOOD), "--test", write("t.tsv", "zh\ten\n你好\tHi\n")
    exit_code, out, _ = doctor(weft, *files)
    assert exit_code == 1
    assert "2 source and 2 target sides of the 2 pairs of valid occur in train" in out
    assert "1 source and 0 target sides of the 1 pair of test occur in train" in out


def test_columns_and_files_without_a_header_are_read_as_told(weft: Weft) -> None:
    write("a.tsv", "1\tHello.\t你好。\n")
    assert doctor(weft, "a.tsv", "--columns", "3,2", "--no-header")[0] == 0
    assert doctor(weft, "a.tsv", "--columns", "2,3", "--no-header")[0] == 1  # the sides are exchanged


def test_json_stands_on_stdout_instead_of_the_table_or_in_a_file_beside_it(weft: Weft) -> None:
    write("a.tsv", GOOD + "<b>好</b>\tGood.\n")
    exit_code, out, _ = doctor(weft, "a.tsv", "--json", "-")
    assert exit_code == 0
    read = json.loads(out)
    assert [(finding["kind"], finding["lines"]) for finding in read["findings"]] == [("markup", {"a.tsv": [4]})]
    _, table, _ = doctor(weft, "a.tsv", "--json", "out.json")
    assert "markup" in table and json.loads(Path("out.json").read_text(encoding="utf-8")) == read


def test_a_recipe_says_which_files_it_has_and_how_to_read_them(weft: Weft, tiny_run: Path) -> None:
    for name in ("tiny.toml", "train.tsv", "valid.tsv"):
        shutil.copy(tiny_run / name, name)
    exit_code, out, _ = weft("doctor", "tiny.toml", "--test", write("t.tsv", "zh\ten\n新的\tNew.\n"))
    assert exit_code == 1  # its validation pairs are training pairs
    assert "train.tsv: 42 pairs\nvalid.tsv: 5 pairs\n" in out and "t.tsv: 1 pair\n" in out


def test_text_files_are_told_apart_by_the_codes_of_their_names(weft: Weft) -> None:
    for part in ("train", "valid"):
        write(f"{part}.zh", "你好。\n谢谢你。\n")
        write(f"{part}.en", "Hello.\nThank you.\n")
    options = ("--valid", "valid.en", "--valid", "valid.zh", "--source", "zh", "--target", "en")
    first, second = (weft("doctor", *files, *options) for files in (("train.en", "train.zh"), ("train.zh", "train.en")))
    assert first == second and first[0] == 1 and "share a side with the held-out files" in first[1]


def test_a_recipe_without_pairs_is_refused(weft: Weft) -> None:
    write("lm.toml", 'task = "language-model"\n[data]\nlanguage = "en"\ntrain = ["a.txt"]\nvalid = ["b.txt"]\n')
    code, _, error = weft("doctor", "lm.toml")
    assert code == 2 and "weft doctor examines pairs; lm.toml is a recipe for language-model" in error


def test_text_files_of_one_language_need_no_columns(weft: Weft) -> None:
    texts = write("a.txt", "一句话\n再说一句\n"), write("b.txt", "一句话啊\n又说了一句\n")
    assert "a.txt: 2 pairs" in weft("doctor", *texts, "--source", "zh", "--target", "zh")[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("c.tsv",), "missing --source and --target"),
        (("c.tsv", "--source", "zh"), "missing --target"),
        (("a.txt", "--source", "zh", "--target", "en"), "a.txt has no partner"),
        (("a.xlsx", "--source", "zh", "--target", "en"), "a.xlsx: weft reads no spreadsheets; save the table as .csv"),
        (("a.tsv", "--source", "zh", "--target", "en", "--columns", "zh"), "two names or numbers"),
        (("a.toml", "--source", "zh"), "a recipe names its files"),
        (("a.toml", "b.tsv"), "a recipe names its files"),
        (("a.tsv", "--source", "zh", "--target", "en", "--json", "no/a.json"), "no is not a folder"),
        (("a.tsv", "--source", "zh", "--target", "zh"), "--source and --target are both zh; also name the two columns"),
        (
            ("a", "b", "--source", "zh", "--target", "en", "--columns", "1,2"),
            "--columns is for TSV, CSV and JSONL files",
        ),
        (
            ("a.tmx", "--source", "zh", "--target", "en", "--columns", "1,2"),
            "--columns is for TSV, CSV and JSONL files",
        ),
        (("a.tmx", "--source", "zh", "--target", "en", "--header"), "--no-header are for TSV and CSV files"),
        (("a", "b", "--source", "zh", "--target", "en", "--no-header"), "--no-header are for TSV and CSV files"),
        (("a.jsonl", "--source", "zh", "--target", "en", "--header"), "--no-header are for TSV and CSV files"),
        ((), "name the files to examine"),
        (("a.tsv", "--machine", "--json", "a.json"), "--machine cannot be combined with FILES and --json"),
    ],
)
def test_a_command_that_cannot_be_is_refused_in_a_line(weft: Weft, arguments: tuple[str, ...], said: str) -> None:
    write("a.tsv", GOOD)
    write("a.toml", "")
    write("c.tsv", "first\tsecond\n" + GOOD)
    exit_code, out, error = weft("doctor", *arguments)
    assert (exit_code, out) == (2, "") and said in error and error.count("\n") == 1


def test_of_an_empty_file_that_is_said_and_not_that_its_languages_are_missing(weft: Weft) -> None:
    write("empty.tsv", "")
    exit_code, out, error = weft("doctor", "empty.tsv")
    assert (exit_code, out) == (1, "") and re.search("empty.tsv +is empty", error) and "missing" not in error


def test_a_file_that_is_not_there_is_an_error_of_its_own(weft: Weft) -> None:
    exit_code, out, error = doctor(weft, "nowhere.tsv")
    assert (exit_code, out) == (1, "") and "does not exist" in error
