"""`weft score` as a user meets it: files in, a table or JSON out, one clear error for what is wrong."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from weft.cli.score import score
from weft.errors import CorpusError, UsageError, WeftError

HYPOTHESIS, REFERENCE = "Where do you work right now?\n", "Where do you work now?\n"


@pytest.fixture
def write(tmp_path: Path):
    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


def run(hypotheses: Path, *references: Path, language: str = "en", options: tuple[str, ...] = ()) -> str:
    app = typer.Typer()
    app.command()(score)
    arguments = ["--hypotheses", str(hypotheses), "--language", language, *options]
    for reference in references:
        arguments += ["--references", str(reference)]
    return CliRunner().invoke(app, arguments, catch_exceptions=False).stdout


def bleu_1(output: str) -> dict:
    return json.loads(output)["scores"]["bleu_1"]


def test_the_table_shows_every_score_with_its_signature(write):
    lines = run(write("h", HYPOTHESIS), write("r", REFERENCE)).splitlines()
    shown = {line.split()[0]: line.split()[1] for line in lines[1:9]}
    assert list(shown) == ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "exact_match", "sacrebleu", "chrf", "ter"]
    assert [shown[f"bleu_{order}"] for order in (1, 2, 3, 4)] == ["0.8333", "0.7071", "0.6300", "0.5373"]
    assert any(line.startswith("bleu_1, bleu_2, bleu_3, bleu_4:") for line in lines)
    assert any("courses-bleu|nrefs:1|unit:word" in line for line in lines)


def test_references_are_given_once_for_each_file(write):
    output = run(write("h", "a b\nc d\n"), write("r1", "a x\nc x\n"), write("r2", "b x\n\n"), options=("--json", "-"))
    assert bleu_1(output)["value"] == 3 / 4
    assert "nrefs:var" in bleu_1(output)["signature"]


def test_json_goes_to_stdout_alone_where_a_dash_asks_for_it(write):
    assert json.loads(run(write("h", HYPOTHESIS), write("r", REFERENCE), options=("--json", "-")))["sentences"] == 1


def test_json_goes_to_a_file_beside_the_table_and_leaves_nothing_else(write, tmp_path):
    target = write("scores.json", "old")
    output = run(write("h", HYPOTHESIS), write("r", REFERENCE), options=("--json", str(target)))
    assert output.startswith("score ")
    assert bleu_1(target.read_text())["matches"] == [5]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["h", "r", "scores.json"]


@pytest.mark.parametrize("inside", ["\r", "\x85", "\u2028", "\x0b", "\x0c"])
def test_only_a_newline_ends_a_line(write, inside):
    text = f"a{inside}b\nc\n"
    output = run(write("h", text), write("r", text), options=("--json", "-"))
    assert json.loads(output)["sentences"] == 2
    assert bleu_1(output)["value"] == 1.0


def test_the_last_line_needs_no_newline_and_a_byte_order_mark_is_no_text(write):
    output = run(write("h", b"\xef\xbb\xbfa b\r\nc"), write("r", "a b\nc\n"), options=("--json", "-"))
    assert json.loads(output)["scores"]["exact_match"]["value"] == 1.0


def test_ignored_punctuation_reaches_the_count(write):
    files = write("h", "你好。\n"), write("r", "你好！\n")
    options = ("--json", "-", "--ignore-punctuation")
    assert bleu_1(run(*files, language="zh", options=options))["value"] == 1.0


def test_every_broken_line_of_every_file_is_named(write, tmp_path):
    hypotheses, reference = write("h", b"a\n\xff\nb\xc3\n"), write("r", b"a\nb\n\xe4\xbd\n")
    with pytest.raises(CorpusError) as raised:
        run(hypotheses, reference, tmp_path / "none")
    where = [problem.where for problem in raised.value.problems]
    assert where == [f"{hypotheses}, line 2", f"{hypotheses}, line 3", f"{reference}, line 3", str(tmp_path / "none")]
    assert "is not UTF-8 (byte 0xc3 at 2)" in raised.value.problems[1].what


def test_files_of_unequal_length_are_named_with_both_lengths(write):
    with pytest.raises(CorpusError, match=r"r2 +has 1 lines, but .*h has 2; they must have the same number of lines"):
        run(write("h", "a\nb\n"), write("r1", "a\nb\n"), write("r2", "a\n"))


def test_an_empty_file_is_an_error(write):
    with pytest.raises(CorpusError, match="is empty"):
        run(write("h", ""), write("r", ""))


def test_chinese_with_13a_is_a_usage_error(write):
    with pytest.raises(UsageError, match="use zh or char"):
        run(write("h", "你好\n"), write("r", "你好\n"), language="zh", options=("--tokenizer", "13a"))


def test_a_destination_that_cannot_be_written_is_one_clear_error(write, tmp_path):
    with pytest.raises(WeftError, match=r"s\.json cannot be written: .* is not a folder"):
        run(write("h", HYPOTHESIS), write("r", REFERENCE), options=("--json", str(tmp_path / "none" / "s.json")))


# Given translations, by a model


def test_a_model_says_how_probable_pairs_are(weft, tiny_run, tmp_path):
    from weft.evaluating.forced import force
    from weft.translating.loading import load_translator

    data, kept = str(tiny_run / "valid.tsv"), tmp_path / "scored.tsv"
    command = ["score", "--model", str(tiny_run / "run"), "--data", data]
    code, out, error = weft(*command, "--output", str(kept), "--json", str(tmp_path / "all.json"))
    assert (code, error) == (0, "")
    found = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))
    assert [line.split()[0] for line in out.splitlines()] == ["pairs", "pieces", "log_prob", "perplexity", "data"]
    assert f"perplexity  {found['perplexity']:.2f} a piece" in out
    pairs = [line.split("\t") for line in (tiny_run / "valid.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    expected = force(load_translator(tiny_run / "run"), *(list(side) for side in zip(*pairs, strict=True)))
    assert [one["log_probs"] for one in found["sentences"]] == [list(one.log_probs) for one in expected]
    rows = [line.split("\t") for line in kept.read_text(encoding="utf-8").splitlines()]
    assert rows[0] == ["source", "target", "log_prob", "pieces", "log_prob_per_piece"]
    assert [row[:4] for row in rows[1:]] == [
        [one.source, one.target, f"{one.log_prob:.4f}", str(len(one.pieces))] for one in expected
    ]
    assert json.loads(weft(*command, "--json", "-")[1]) == found


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "missing --hypotheses and --references and --language"),
        (("--hypotheses", "h", "--language", "en"), "missing --references"),
        (("--model", "m"), "--model needs --data"),
        (("--data", "d.tsv"), "--data needs --model"),
        (("--model", "m", "--data", "d.tsv", "--language", "en"), "--model cannot be combined with --language"),
        (("--model", "m", "--data", "d.tsv", "--json", "x", "--output", "x"), "--json and --output both name x"),
        (
            ("--hypotheses", "h", "--references", "r", "--language", "en", "--output", "x"),
            "--output needs --model",
        ),
    ],
)
def test_half_of_a_wish_is_refused_with_what_is_missing(weft, options, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, error = weft("score", *options)
    assert (code, out) == (2, "") and says in error
