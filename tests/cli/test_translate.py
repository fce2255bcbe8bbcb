"""`weft translate`: one line out for each line in, from wherever it comes, and nothing else on standard output."""

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Weft

from weft.cli.translate import translate as translate_sentences
from weft.folders.model_folder import load_model
from weft.training.run_folder import RunStatus
from weft.translating.exported import load_for
from weft.translating.memory import LEAST

Translate = Callable[..., list[str]]

SENTENCES = ["我有一个苹果。", "", "两个朋友", " \t", "书包"]
SEVERAL = "".join(f"{sentence}\n" for sentence in SENTENCES)


@pytest.fixture
def translate(weft: Weft, distinct_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Translate:
    """The lines that the command writes when all goes well, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def translate(*arguments: str) -> list[str]:
        exit_code, out, error = weft("translate", "--model", str(distinct_model), *arguments)
        assert (exit_code, error) == (0, "")
        lines = out.split("\n")
        assert lines.pop() == ""
        return lines

    return translate


@pytest.fixture
def expected(distinct_model: Path) -> list[str]:
    """What the model makes of SENTENCES."""
    from weft.translating.loading import load_translator

    texts = [translation.text for translation in load_translator(distinct_model).translate(SENTENCES)]
    assert texts[1] == texts[3] == "" and len(set(texts)) == 4  # so that two that change places are seen
    return texts


def give(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Put these bytes on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))


# Starting


def test_nothing_is_imported_that_only_compiling_scoring_and_preparing_need(distinct_model: Path) -> None:
    unneeded = [
        "torch._dynamo",
        "sacrebleu",
        "ray",
        "weft.data.preparation",
        "weft.evaluating.evaluation",
        "weft.runs.train",
    ]
    program = f"""
import sys
from weft.cli.main import app
app(["translate", "--model", {str(distinct_model)!r}, "书包"], standalone_mode=False)
print([name for name in {unneeded} if name in sys.modules])
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[1:] == ["[]"]


# Where the sentences come from


def test_from_arguments(translate: Translate, expected: list[str]) -> None:
    assert translate(*SENTENCES) == expected


@pytest.mark.parametrize("name", ["in.txt", "in.txt.gz"])
def test_from_a_file(translate: Translate, expected: list[str], name: str) -> None:
    content = SEVERAL.encode()
    Path(name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert translate("--input", name) == expected


def test_from_standard_input(translate: Translate, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, SEVERAL.encode())
    assert translate() == expected


def test_a_pipe_of_a_process_of_its_own(expected: list[str], distinct_model: Path) -> None:
    command = [sys.executable, "-m", "weft", "translate", "--model", str(distinct_model)]
    answer = subprocess.run(command, input=SEVERAL.encode(), capture_output=True, check=True)
    assert (answer.stdout.decode().split("\n"), answer.stderr) == ([*expected, ""], b"")


def test_nothing_in_is_nothing_out(translate: Translate, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, b"")
    assert translate() == []


# Lines


@pytest.mark.parametrize("inside", ["\r", "\u2028", "\x85", "\x0b", "\x0c", "\u2029"])
def test_only_a_newline_ends_a_line(translate: Translate, inside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for split, parted in (("always", "我有\n一个苹果。"), ("never", "我有 一个苹果。")):
        give(monkeypatch, f"我有{inside}一个苹果。\n书包\n".encode())
        assert translate("--split", split) == translate("--split", split, parted, "书包")


def test_windows_line_ends_a_byte_order_mark_and_a_missing_last_newline_change_nothing(
    translate: Translate, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, b"\xef\xbb\xbf" + "\r\n".join(SENTENCES).encode())
    assert translate() == expected


def test_a_newline_inside_an_argument_makes_no_second_line(translate: Translate) -> None:
    assert len(translate("我有\n一个苹果。\n", "书包")) == 2


def test_many_lines_stay_in_order(translate: Translate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.translating.files.LINES_AT_ONCE", 3)
    sentences = ["我有一个苹果。", "书包", "", "两个朋友"] * 5
    give(monkeypatch, "\n".join(sentences).encode())
    answers = translate()
    assert answers == translate(*sentences[:4]) * 5
    assert len(set(answers)) == 4


# What comes out


def test_json_says_what_was_translated_and_how_sure_the_model_is(translate: Translate, expected: list[str]) -> None:
    found = [json.loads(line) for line in translate("--json", *SENTENCES)]
    assert [row["source"] for row in found] == SENTENCES
    assert [row["text"] for row in found] == expected
    assert all(row.keys() - {"flags"} == {"source", "text", "score", "log_prob"} for row in found)
    assert {flag for row in found for flag in row.get("flags", ())} <= {"numbers"}
    assert found[0]["log_prob"] < found[0]["score"] < 0


def test_a_file_is_written_whole_and_standard_output_stays_empty(translate: Translate, expected: list[str]) -> None:
    Path("out.txt").write_text("old", encoding="utf-8")
    assert translate("--output", "out.txt", *SENTENCES) == []
    assert Path("out.txt").read_bytes().decode() == "".join(f"{line}\n" for line in expected)
    assert [path.name for path in Path().iterdir()] == ["out.txt"]


def test_a_file_has_its_name_only_when_its_content_is_on_the_disk(
    translate: Translate, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: done.append("sync") or fsync(handle))
    monkeypatch.setattr(os, "replace", lambda *paths: done.append("replace") or replace(*paths))
    translate("--output", "out.txt", *SENTENCES)
    assert done == ["sync", "replace", "sync"]


def test_best_weights_that_a_run_replaces_while_they_are_read_are_read_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, distinct_model: Path
) -> None:
    def best_is(step: int) -> None:
        shutil.copytree(distinct_model, tmp_path / "checkpoints" / f"step-{step}")
        (tmp_path / "run.json").write_text(RunStatus(last=step, best=step).to_json(), encoding="utf-8")

    def load(folder: Path) -> Any:
        if folder.name == "step-1":
            best_is(2)
            shutil.rmtree(folder)
        return load_model(folder)

    best_is(1)
    monkeypatch.setattr("weft.translating.loading.load_model", load)
    assert load_for(tmp_path).folders == (tmp_path / "checkpoints" / "step-2",)


def test_a_file_keeps_its_old_content_until_all_is_translated(
    translate: Translate, weft: Weft, distinct_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.translating.files.LINES_AT_ONCE", 1)
    Path("out.txt").write_text("old", encoding="utf-8")
    give(monkeypatch, b"abc\n\xff\n")
    exit_code, out, error = weft("translate", "--model", str(distinct_model), "--output", "out.txt")
    assert (exit_code, out) == (1, "") and "line 2" in error
    assert Path("out.txt").read_text(encoding="utf-8") == "old"
    assert [path.name for path in Path().iterdir()] == ["out.txt"]


def test_standard_output_by_name_is_appended_to(tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("一\n", encoding="utf-8")
    (tmp_path / "out.txt").write_text("old\n", encoding="utf-8")
    program = f"""
from weft.cli.main import app
for source in (["--input", "in.txt"], ["一"]):
    app(["translate", "--model", {str(tiny_run / "run")!r}, "--output", "/dev/stdout", *source], standalone_mode=False)
"""
    with open(tmp_path / "out.txt", "a", encoding="utf-8") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, cwd=tmp_path, check=True)
    kept, *translated = (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()
    assert kept == "old" and len(translated) == 2 and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["out.txt.gz", "out.gz"])
def test_a_file_is_zipped_where_its_name_says_so(translate: Translate, expected: list[str], name: str) -> None:
    assert translate("--output", name, *SENTENCES) == []
    assert gzip.decompress(Path(name).read_bytes()).decode() == "".join(f"{line}\n" for line in expected)


@pytest.mark.parametrize("encoding", ["gb18030", "utf-16", "utf-16-le"])
def test_a_file_in_an_older_encoding_is_read_and_the_answer_is_utf_8(
    translate: Translate, expected: list[str], monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    content = ("".join(f"{sentence}\n" for sentence in SENTENCES) + "我有他的\n").encode(encoding)
    Path("in.txt").write_bytes(content)
    assert translate("--input", "in.txt")[:-1] == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))
    assert translate()[:-1] == expected


# From file to file


def test_a_file_becomes_a_file_and_progress_goes_to_standard_error(
    weft: Weft, expected: list[str], distinct_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("weft.cli.displays.PLAIN_EVERY", 0.0)
    monkeypatch.setattr("weft.translating.files.LINES_AT_ONCE", 2)
    Path("in.txt").write_text(SEVERAL, encoding="utf-8")
    answer = weft("translate", "--model", str(distinct_model), "--input", "in.txt", "--output", "out.txt")
    assert answer[:2] == (0, "")
    *progress, last = answer[2].splitlines()
    assert [line.split(" lines")[0] for line in progress] == ["in.txt: 2", "in.txt: 4", "in.txt: 5"]
    shares = [float(re.findall(r"([\d.]+) %", line)[0]) for line in progress]
    assert 0 < shares[0] < shares[1] < shares[2] == 100 and last == "out.txt: 5 lines"
    assert Path("out.txt").read_text(encoding="utf-8") == "".join(f"{line}\n" for line in expected)
    assert sorted(path.name for path in Path().iterdir()) == ["in.txt", "out.txt"]


def test_a_file_in_an_older_encoding_is_continued(
    weft: Weft, expected: list[str], distinct_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("weft.translating.files.LINES_AT_ONCE", 2)
    lines = "".join(f"{sentence}\n" for sentence in SENTENCES)
    command = ["translate", "--model", str(distinct_model), "--input", "in.txt", "--output", "out.txt"]
    Path("in.txt").write_bytes(lines.encode("utf-16") + b"\x00\xd8\n\x00")
    exit_code, _, error = weft(*command)
    assert exit_code == 1 and "line 6" in error
    Path("in.txt").write_bytes(lines.encode("utf-16"))
    exit_code, _, error = weft(*command)
    assert exit_code == 0 and "continuing after line" in error
    assert Path("out.txt").read_text(encoding="utf-8") == "".join(f"{line}\n" for line in expected)


@pytest.mark.parametrize("restart", [False, True])
def test_what_was_begun_otherwise_is_gone_on_with_only_by_restart(
    weft: Weft, distinct_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restart: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("weft.translating.files.LINES_AT_ONCE", 2)
    Path("in.txt").write_bytes(SEVERAL.encode() + b"\xff\n")
    command = ["translate", "--model", str(distinct_model), "--input", "in.txt", "--output", "out.txt"]
    exit_code, _, error = weft(*command)
    assert exit_code == 1 and "line 6" in error
    Path("in.txt").write_text(SEVERAL, encoding="utf-8")
    exit_code, _, error = weft(*command, "--split", "never", *["--restart"] * restart)
    assert (exit_code, Path("out.txt").exists()) == ((0, True) if restart else (2, False))
    refusal = "split: was 'always', is 'never'\nundo the change, or start over: --restart"
    assert (refusal in error) == (not restart)


@pytest.mark.parametrize("verb", ["translate", "analyze"])
def test_a_file_given_as_a_sentence_and_rows_given_as_sentences_are_refused(
    verb: str, weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine.tsv", "mine.txt"):
        Path(name).write_text("zh\ten\n一\tone\n", encoding="utf-8")
    assert "mine.txt is a file; --input mine.txt reads" in weft(verb, "--model", "nowhere", "mine.txt")[2]
    for given in (("mine.tsv",), ("--input", "mine.tsv")):
        assert "mine.tsv is not plain text" in weft(verb, "--model", "nowhere", *given)[2]


@pytest.mark.parametrize("option", ["--restart", "--cluster"])
def test_an_option_for_files_is_refused_without_them(weft: Weft, option: str) -> None:
    exit_code, _, error = weft("translate", "--model", "nowhere", option, "我")
    assert exit_code == 2 and f"{option} needs --input and --output: it translates a file" in error


def test_a_named_pipe_is_read_as_it_comes(translate: Translate, expected: list[str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = subprocess.Popen(["sh", "-c", 'printf %s "$1" > pipe', "sh", SEVERAL], cwd=tmp_path)
    assert translate("--input", "pipe", "--output", "out.txt") == []
    assert writer.wait() == 0
    assert Path("out.txt").read_text(encoding="utf-8") == "".join(f"{line}\n" for line in expected)


# Long and marked text, and text of other kinds


def test_a_line_is_translated_sentence_by_sentence(translate: Translate) -> None:
    sentence = translate("我有一个苹果。")[0]
    assert translate("我有一个苹果。" * 2) == [f"{sentence} {sentence}"]
    assert translate("--split", "long", "我有一个苹果。" * 100) == [" ".join([sentence] * 100)]
    assert translate("--split", "long", "我有一个苹果。" * 2) == translate("--split", "never", "我有一个苹果。" * 2)


def test_paragraphs_of_an_argument_become_one_line(translate: Translate) -> None:
    assert len(translate("我有一个苹果。\n\n书包。")) == 1


def test_text_that_must_be_cut_is_said_once(weft: Weft, distinct_model: Path) -> None:
    endless = "我有一个苹果，" * 60
    exit_code, out, error = weft("translate", "--model", str(distinct_model), endless, endless)
    assert exit_code == 0 and out.count("\n") == 2
    assert error.count("there is text with no end of a sentence within the 256 pieces") == 1


def test_markup_is_kept_where_it_is_asked_for(translate: Translate) -> None:
    plain = translate("我有一个苹果。")[0]
    assert translate("--markup", "keep", "<p>{x}我有一个苹果。</p>") == [f"<p>{{x}} {plain}</p>"]


@pytest.mark.parametrize("text", ["\x00", "\u0301" * 1000, "\x1b[31m", "\ufdd0\uffff", "\u202e" * 50, "a" * 5_000])
def test_strange_text_is_answered_by_a_line(
    weft: Weft, distinct_model: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, f"{text}\n书包\n".encode())
    command = ["translate", "--model", str(distinct_model), "--set", "decoding.max_length_ratio=0"]
    exit_code, out, error = weft(*command)
    assert exit_code == 0 and error.startswith("there is text with no end of a sentence" if len(text) > 256 else "")
    assert out.split("\n")[1:] == weft(*command, "书包")[1].split("\n")


def test_bytes_that_are_no_text_are_one_error(weft: Weft, distinct_model: Path) -> None:
    exit_code, out, error = weft("translate", "--model", str(distinct_model), "我", "\udcff")
    assert (exit_code, out) == (1, "") and "line 2" in error and "is not UTF-8 (byte 0xff at 1)" in error


# Settings


def test_settings_of_the_search_can_be_changed(translate: Translate) -> None:
    sentence = "我有一个苹果。"
    greedy = json.loads(translate("--json", "--set", "decoding.method=greedy", sentence)[0])
    plain = json.loads(translate("--json", "--set", "decoding.length_penalty=none", sentence)[0])
    assert greedy["score"] == greedy["log_prob"] and plain["score"] == plain["log_prob"]


@pytest.mark.parametrize("setting", ["model.ff_dim=8", "training.epochs=2", "data.source=fr", "tokenizer.shared=true"])
def test_what_a_trained_model_is_cannot_be_changed(weft: Weft, distinct_model: Path, setting: str) -> None:
    exit_code, out, error = weft("translate", "--model", str(distinct_model), "--set", setting, "我")
    assert (exit_code, out) == (2, "")
    assert setting in error and "cannot be changed here; what can be changed: decoding" in error


def test_the_terms_of_a_glossary_appear(weft: Weft, distinct_model: Path, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("zh\ten\n学校\tblack school\n", encoding="utf-8")
    options = ("--model", str(distinct_model), "--glossary", str(tmp_path / "terms.tsv"))
    code, out, _ = weft("translate", *options, "他在学校。", "你好。")
    assert code == 0
    assert ["black school" in line for line in out.splitlines()] == [True, False]


def test_a_glossary_of_other_languages_is_refused(weft: Weft, distinct_model: Path, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("de\ten\nSchule\tschool\n", encoding="utf-8")
    code, out, error = weft(
        "translate", "--model", str(distinct_model), "--glossary", str(tmp_path / "terms.tsv"), "你好"
    )
    assert (code, out) == (1, "") and "its header has to name the two languages of the model" in error


# Several translations, and what else could stand at a place


def test_the_best_translations_come_as_lines_with_the_number_of_their_text(
    translate: Translate, distinct_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weft.translating.loading import load_translator

    several = load_translator(distinct_model).translate_n_best(SENTENCES, 2)
    rows = [(number, t.score, t.text) for number, found in enumerate(several, 1) for t in found]
    assert translate("--best", "2", *SENTENCES) == [f"{number}\t{score:.4f}\t{text}" for number, score, text in rows]
    monkeypatch.setattr("weft.translating.files.LINES_AT_ONCE", 2)
    give(monkeypatch, SEVERAL.encode())
    assert [line.split("\t")[0] for line in translate("--best", "2")] == [str(number) for number, *_ in rows]


def test_in_json_they_stand_beside_the_best_one(translate: Translate) -> None:
    found = [json.loads(line) for line in translate("--best", "2", "--json", *SENTENCES)]
    assert [row["source"] for row in found] == SENTENCES
    for row in found:
        assert row["best"][0] == {key: row[key] for key in ("text", "score", "log_prob")}
    assert [len(row["best"]) for row in found] == [2, 1, 2, 1, 2]


def test_a_file_with_several_translations_a_line_goes_on_where_it_stopped(
    weft: Weft, distinct_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("weft.translating.files.LINES_AT_ONCE", 2)
    Path("in.txt").write_bytes(SEVERAL.encode() + b"\xff\n")
    command = ["translate", "--model", str(distinct_model), "--input", "in.txt", "--output", "out.txt"]
    assert weft(*command, "--best", "2")[0] == 1
    Path("in.txt").write_text(SEVERAL, encoding="utf-8")
    assert "best: was 2, is 1" in weft(*command, "--best", "1")[2]
    assert weft(*command, "--best", "2")[0] == 0
    numbers = [line.split("\t")[0] for line in Path("out.txt").read_text(encoding="utf-8").splitlines()]
    assert numbers == ["1", "1", "2", "3", "3", "4", "5", "5"]


def test_alternatives_at_a_place_are_lines_of_word_score_and_translation(
    translate: Translate, distinct_model: Path
) -> None:
    from weft.translating.loading import load_translator

    expected = load_translator(distinct_model).alternatives("我有一个苹果。", "I have", 3)
    options = ("--alternatives-after", "I have", "--best", "3", "我有一个苹果。")
    assert translate(*options) == [f"{one.word}\t{one.score:.4f}\t{one.text}" for one in expected]
    (line,) = translate(*options, "--json")
    assert json.loads(line)["alternatives"] == [vars(one) for one in expected]


def test_what_it_begins_with_and_what_appears_can_be_said(translate: Translate) -> None:
    (line,) = translate("--begin", "I have", "--phrase", "an apple", "--phrase", "two", SENTENCES[0])
    assert line.startswith("I have") and "an apple" in line and "two" in line
    (found,) = translate("--begin", "I have", "--best", "2", "--json", SENTENCES[0])
    assert all(one["text"].startswith("I have") for one in json.loads(found)["best"])


def test_with_a_beginning_the_memory_is_shown_too(weft: Weft, distinct_model: Path, tmp_path: Path) -> None:
    (tmp_path / "memory.tsv").write_text(f"zh\ten\n{SENTENCES[0]}\tI have an apple.\n", encoding="utf-8")
    options = ("--memory", str(tmp_path / "memory.tsv"), "--begin", "I", "我有两个苹果。")
    code, out, error = weft("translate", "--model", str(distinct_model), *options, "--memory-similarity", "0.3")
    assert code == 0 and out.startswith("I") and "I have an apple." in error


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--begin", "I"], "--begin needs TEXT: it applies to single sentences, given as arguments"),
        (["--phrase", "I", "--split", "never", "我"], "--phrase cannot be combined with --split"),
        (["--begin", "I", "--alternatives-after", "I", "我"], "--begin cannot be combined with --alternatives-after"),
    ],
)
def test_beginnings_and_phrases_are_for_sentences(
    weft: Weft, distinct_model: Path, options: list[str], says: str
) -> None:
    code, out, error = weft("translate", "--model", str(distinct_model), *options)
    assert (code, out) == (2, "") and says in error


# Several models


def test_several_models_answer_as_an_ensemble(
    weft: Weft, distinct_model: Path, tiny_run: Path, tmp_path: Path, expected: list[str]
) -> None:
    from weft.translating.loading import load_translator

    other = tiny_run / "run"
    together = [t.text for t in load_translator(distinct_model, others=[other]).translate(SENTENCES)]
    assert together != expected and len(set(together)) == 4  # that of neither alone: tiny_run says the same to all
    models = ["--model", str(distinct_model), "--model", str(other)]
    code, out, _ = weft("translate", *models, *SENTENCES)
    assert (code, out.split("\n")[:-1]) == (0, together)
    (tmp_path / "in.txt").write_text(SEVERAL, encoding="utf-8")
    places = ["--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "out.txt")]
    assert weft("translate", *models, *places)[0] == 0
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")[:-1] == together


def test_what_one_model_has_begun_another_ensemble_does_not_go_on_with(
    weft: Weft, distinct_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.translating.files.LINES_AT_ONCE", 2)
    (tmp_path / "in.txt").write_bytes(SEVERAL.encode() + b"\xff\n")
    places = ["--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "out.txt")]
    model = ["translate", "--model", str(distinct_model)]
    assert weft(*model, *places)[0] == 1
    code, _, error = weft(*model, "--model", str(distinct_model), *places)
    assert code != 0 and "model: was" in error


# Parts


def test_a_stream_prints_what_is_translated(translate: Translate, expected: list[str]) -> None:
    assert translate("--stream", *SENTENCES) == expected


def test_in_a_terminal_it_is_printed_as_it_grows(
    weft: Weft, distinct_model: Path, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from weft.translating.passages import PassageTranslator

    streamed: list[str] = []
    stream = PassageTranslator.stream
    monkeypatch.setattr(PassageTranslator, "stream", lambda self, text: streamed.append(text) or stream(self, text))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    command = ["translate", "--model", str(distinct_model), *SENTENCES]
    for options, parts in (((), SENTENCES), (("--no-stream",), []), (("--json",), [])):
        streamed.clear()
        code, out, _ = weft(*command, *options)
        assert code == 0 and streamed == parts
        assert options == ("--json",) or out.split("\n")[:-1] == expected


# A memory


@pytest.fixture
def memory(tmp_path: Path) -> str:
    rows = "zh\ten\n我有两个苹果。\tTwo apples are mine.\n书包\tsatchel\n"
    (tmp_path / "memory.tsv").write_text(rows, encoding="utf-8")
    return str(tmp_path / "memory.tsv")


def test_similar_sentences_of_a_memory_are_shown_beside_the_translations(
    weft: Weft, distinct_model: Path, expected: list[str], memory: str
) -> None:
    command = ["translate", "--model", str(distinct_model), "--memory", memory]
    code, out, error = weft(*command, *SENTENCES)
    assert (code, out.split("\n")[:-1]) == (0, expected)
    assert error.splitlines() == [
        "memory  86%  我有两个苹果。  =>  Two apples are mine.",
        "memory 100%  书包  =>  satchel",
    ]
    assert weft(*command, "--memory-similarity", "0.9", *SENTENCES)[2].count("memory") == 1
    code, out, error = weft(*command, "--json", *SENTENCES)
    found = [json.loads(line)["memory"] for line in out.splitlines()]
    assert (code, error) == (0, "") and [len(matches) for matches in found] == [1, 0, 0, 0, 1]
    assert found[4] == [{"source": "书包", "target": "satchel", "similarity": 1.0}]


def test_the_help_says_from_which_similarity_on_sentences_are_shown() -> None:
    option = signature(translate_sentences).parameters["memory_similarity"].annotation.__metadata__[0]
    assert option.show_default == f"{LEAST}"


def test_where_a_memory_is_forced_its_sentences_are_translated_as_there(
    translate: Translate, expected: list[str], memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced = [*expected[:4], "satchel"]
    options = ("--memory", memory, "--memory-use", "force")
    assert translate(*options, *SENTENCES) == forced == translate(*options, "--stream", *SENTENCES)


def test_a_file_is_translated_with_a_memory(
    weft: Weft, distinct_model: Path, expected: list[str], memory: str, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text(SEVERAL, encoding="utf-8")
    command = ["translate", "--model", str(distinct_model), "--input", str(tmp_path / "in.txt"), "--memory", memory]
    assert weft(*command, "--output", str(tmp_path / "a.txt"), "--memory-use", "force")[0] == 0
    assert (tmp_path / "a.txt").read_text(encoding="utf-8").split("\n")[:-1] == [*expected[:4], "satchel"]
    assert weft(*command, "--output", str(tmp_path / "b.txt"), "--json")[0] == 0
    lines = (tmp_path / "b.txt").read_text(encoding="utf-8").splitlines()
    assert [len(json.loads(line)["memory"]) for line in lines] == [1, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--stream", "--json", "我"), "--stream cannot be combined with --json: it prints plain text"),
        (("--stream", "--best", "2", "--output", "x", "我"), "--stream cannot be combined with --output and --best"),
        (("--alternatives-after", "I"), "--alternatives-after needs TEXT"),
        (("--alternatives-after", "I", "我", "你"), "--alternatives-after takes one sentence"),
        (
            ("--alternatives-after", "I", "--memory", "m.tsv", "我"),
            "--alternatives-after cannot be combined with --memory",
        ),
        (("--memory-use", "force", "我"), "--memory-use needs --memory"),
        (("--memory", "m.tsv", "--input", "a", "--output", "b"), "--memory-use show needs --json"),
        (("--memory-similarity", "0.7", "我"), "--memory-similarity needs --memory"),
        (
            ("--memory", "m", "--memory-use", "force", "--memory-similarity", "0.7", "我"),
            "--memory-use cannot be combined with --mem",
        ),
        (("--best", "0", "我"), "--best"),
        (("--memory-similarity", "2", "我"), "--memory-similarity"),
    ],
)
def test_wishes_that_do_not_go_together_are_refused_before_a_model_is_read(
    weft: Weft, options: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    exit_code, out, error = weft("translate", "--model", "nowhere", *options)
    assert (exit_code, out) == (2, "") and says in error


def test_a_script_is_refused_for_another_target_than_chinese(weft: Weft) -> None:
    code, _, error = weft("translate", "--model", "zh-en", "--script", "traditional", "你好")
    assert code == 2 and "--script is for translations into Chinese; this model writes en" in error


def test_tabs_are_spaces_in_the_columns_of_the_best_translations(weft: Weft) -> None:
    _, out, _ = weft("translate", "--model", "zh-en", "--best", "2", "25\t26")
    assert out == "1\t0.0000\t25 26\n"
