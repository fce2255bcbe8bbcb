"""`weft tokenize` and `weft detokenize`: one line out for each line in, there and back."""

import io
import os
import sys
from pathlib import Path
from typing import get_args

import pytest
from tests.command_line import Weft

from weft.cli.lines import texts_as_they_come
from weft.cli.tokenize import KindName
from weft.text.kinds import KINDS, Kind, train_tokenizer

LINES = ["我有三个苹果。", "", "I have 3 \U0001f34e.", "a\rb\u2028c", " </s> ", "龘"]
WRITTEN = ["我有三个苹果。", "", "I have 3 \U0001f34e.", "a b c", "</s>", "龘"]


@pytest.fixture
def files(tmp_path: Path) -> dict[Kind, Path]:
    """A vocabulary of each kind that knows all words of LINES."""
    made = {}
    for kind in KINDS:
        made[kind] = tmp_path / f"{kind}{KINDS[kind].suffix}"
        tokenizer, _ = train_tokenizer(LINES * 20, kind=kind, vocab_size=400, language="zh")
        made[kind].write_bytes(tokenizer.model)
    return made


def test_the_kinds_are_those_that_there_are() -> None:
    assert get_args(KindName) == get_args(Kind) == tuple(KINDS)


def give(monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    """Put this on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode()), encoding="utf-8"))


@pytest.mark.parametrize("ids", [(), ("--ids",)], ids=["pieces", "ids"])
def test_there_and_back_by_every_kind_and_no_line_is_shifted(
    weft: Weft, files: dict[Kind, Path], monkeypatch: pytest.MonkeyPatch, ids: tuple[str, ...]
) -> None:
    for kind, path in files.items():
        options = ["--vocabulary", str(path), "--kind", kind, *ids]
        options += ["--language", "zh"] if kind in ("words", "wordpiece") else []
        give(monkeypatch, "".join(f"{line}\n" for line in LINES))
        code, pieces, error = weft("tokenize", *options)
        assert (code, error, pieces.count("\n")) == (0, "", len(LINES))
        give(monkeypatch, pieces)
        code, out, error = weft("detokenize", *options)
        written = [line.replace("</s>", "</s >") if kind == "wordpiece" else line for line in WRITTEN]
        assert (code, error, out.split("\n")) == (0, "", [*written, ""])


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_models_own_vocabularies(weft: Weft, tiny_run: Path, side: str) -> None:
    from weft.folders.finding import find_model
    from weft.folders.model_folder import load_model

    model = load_model(find_model(tiny_run / "run"))
    tokenizer = model.vocabularies["source"] if side == "source" else model.vocabularies["target"]
    text = "我有三個 apples."
    options = ["--model", str(tiny_run / "run"), "--side", side]
    assert weft("tokenize", *options, text) == (0, " ".join(tokenizer.pieces(text)) + "\n", "")
    ids = " ".join(map(str, tokenizer.encode([text])[0]))
    assert weft("tokenize", "--ids", *options, text) == (0, f"{ids}\n", "")
    assert weft("detokenize", "--ids", *options, ids) == (0, tokenizer.normalize(text) + "\n", "")


def test_from_a_file_into_a_file(weft: Weft, files: dict[Kind, Path], tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("\n".join(LINES), encoding="utf-8")
    options = ["--vocabulary", str(files["characters"]), "--kind", "characters"]
    files_of = ["--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "pieces.txt")]
    assert weft("tokenize", *options, *files_of) == (0, "", "")
    pieces = (tmp_path / "pieces.txt").read_text(encoding="utf-8")
    assert pieces.startswith("我 有 三 个 苹 果 。\n\nI ▁ h a v e ▁ 3")
    exit_code, out, _ = weft("detokenize", *options, "--input", str(tmp_path / "pieces.txt"))
    assert (exit_code, out.split("\n")) == (0, [*WRITTEN, ""])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tokenize", "x"], "give either --model, such as runs/starter, or --vocabulary and --kind"),
        (["detokenize", "x", "--model", "m", "--vocabulary", "v"], "--model cannot be combined with --vocabulary"),
        (["tokenize", "x", "--vocabulary", "v"], "--vocabulary needs --kind"),
        (
            ["tokenize", "x", "--vocabulary", "v", "--kind", "bpe", "--side", "source"],
            "--vocabulary cannot be combined with --side",
        ),
        (
            ["detokenize", "x", "--vocabulary", "v", "--kind", "bpe", "--side", "target"],
            "--vocabulary cannot be combined with --side",
        ),
        (["tokenize", "x", "--model", "m", "--kind", "words"], "--model cannot be combined with --kind"),
        (["detokenize", "x", "--model", "m", "--language", "de"], "--model cannot be combined with --language"),
        (["tokenize", "x", "--vocabulary", "v", "--kind", "words"], "--kind words needs --language"),
        (
            ["tokenize", "x", "--vocabulary", "v", "--kind", "bpe", "--input", "f"],
            "--input cannot be combined with TEXT",
        ),
        (
            ["detokenize", "x", "--vocabulary", "v", "--kind", "bpe", "--input", "f"],
            "--input cannot be combined with TEXT",
        ),
    ],
)
def test_a_wrong_command_is_answered_in_words(weft: Weft, arguments: list[str], message: str) -> None:
    exit_code, out, error = weft(*arguments)
    assert (exit_code, out) == (2, "") and message in error


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        ("a b\na 苹苹\n", [], "line 2  苹苹 is not a piece of this vocabulary"),
        ("1 2\n\n5 400\n", ["--ids"], "line 3  400 is not an id from 0 to "),
        ("5 -1\n", ["--ids"], "line 1  -1 is not an id"),
        ("5 ٣\n", ["--ids"], "line 1  ٣ is not an id"),
        ("9" * 500 + "\n", ["--ids"], "is not an id"),
    ],
)
def test_what_is_no_piece_is_named_by_line(
    weft: Weft,
    files: dict[Kind, Path],
    monkeypatch: pytest.MonkeyPatch,
    lines: str,
    options: list[str],
    message: str,
) -> None:
    give(monkeypatch, lines)
    exit_code, _, error = weft("detokenize", "--vocabulary", str(files["characters"]), "--kind", "characters", *options)
    assert exit_code == 1 and message in error


def test_bytes_of_a_line_end_make_no_second_line(weft: Weft, files: dict[Kind, Path]) -> None:
    options = ["--vocabulary", str(files["characters"]), "--kind", "characters"]
    assert weft("detokenize", *options, "a <0x0A> a") == (0, "a a\n", "")


def test_a_spoiled_vocabulary_is_named(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("a\na\n")
    exit_code, out, error = weft("tokenize", "x", "--vocabulary", str(tmp_path / "v.txt"), "--kind", "characters")
    assert (exit_code, out) == (1, "")
    assert "v.txt has 1 problem" in error and "line 2  repeats line 1" in error


@pytest.mark.parametrize("kind", ["words", "wordpiece", "characters"])
@pytest.mark.parametrize("model", ["bpe", "unigram"])
def test_a_sentencepiece_model_that_is_given_as_a_list_of_tokens_is_told_for_what_it_is(
    weft: Weft, files: dict[Kind, Path], kind: Kind, model: Kind
) -> None:
    language = ["--language", "zh"] if KINDS[kind].needs_language else []
    exit_code, out, error = weft("tokenize", "x", "--vocabulary", str(files[model]), "--kind", kind, *language)
    assert (exit_code, out) == (1, "") and "has 1 problem\n" in error
    assert "is a SentencePiece model, of the kind bpe or unigram" in error


def test_a_file_without_a_line_break_is_not_read_as_one_line(
    weft: Weft, files: dict[Kind, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.files.LONGEST_LINE", 100)
    path = tmp_path / "in.txt"
    path.write_text("你好。\n" + "我" * 200, encoding="utf-8")
    exit_code, _, error = weft("tokenize", "--vocabulary", str(files["bpe"]), "--kind", "bpe", "--input", str(path))
    assert exit_code == 1 and "line 2" in error and "is longer than" in error


def test_a_line_of_a_pipe_is_worked_on_before_the_next_one_comes() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as pipe, open(writing, "wb", buffering=0) as typed:
        texts = texts_as_they_come(pipe, None)
        typed.write("一\n二".encode())
        assert next(texts) == ["一"]
        typed.write("\r\n三".encode())
        assert next(texts) == ["二"]
        typed.close()
        assert list(texts) == [["三"]]
