"""`weft analyze`: sentences in, tables or JSON out, and a page beside them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Weft

Analyze = Callable[..., tuple[int, str, str]]

TEXT = "我有三个苹果。"


@pytest.fixture
def analyze(weft: Weft, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Analyze:
    """The command with a model, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: weft("analyze", "--model", str(tiny_run / "run"), *arguments)


def test_every_sentence_is_explained_in_tables(analyze: Analyze) -> None:
    exit_code, out, error = analyze(TEXT, "两个朋友")
    assert (exit_code, error) == (0, "")
    assert [line.split(maxsplit=1)[1] for line in out.splitlines() if line.startswith("source ")] == [TEXT, "两个朋友"]
    assert out.count("The beam,") == out.count("loses without it, in nats") == 2


def test_it_is_said_that_several_sentences_are_explained_as_one(analyze: Analyze) -> None:
    _, _, error = analyze("--no-occlusion", f"{TEXT}{TEXT}")
    assert error == "the text has several sentences, explained as one; weft translate splits such a text first\n"
    _, _, error = analyze("--no-occlusion", TEXT, f"{TEXT}{TEXT}")
    assert error.startswith("1 of the 2 texts have several sentences")


def test_a_text_whose_translation_is_too_long_is_named_and_the_others_explained(
    analyze: Analyze, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weft.evaluating import explanation

    def explain(translator: Any, text: str, **options: Any) -> explanation.Explanation:
        if text == TEXT:
            raise explanation.LongTranslationError("is too long")
        return untouched(translator, text, **options)

    untouched = explanation.explain
    monkeypatch.setattr(explanation, "explain", explain)
    code, out, error = analyze("--no-occlusion", "--html", "why.html", "两个朋友", TEXT, "书包")
    assert (code, error) == (1, "text 2: is too long\n") and out.count("The beam,") == 2
    assert "2. 书包" in Path("why.html").read_text(encoding="utf-8")


def test_json_is_one_object_a_line(analyze: Analyze, tiny_run: Path) -> None:
    from weft.evaluating.explanation import explain
    from weft.translating.loading import load_translator

    exit_code, out, error = analyze("--json", "--beam", "2", "--best", "3", "--layer", "1", TEXT, "两个朋友")
    assert (exit_code, error) == (0, "")
    first, second = map(json.loads, out.splitlines())
    expected = explain(load_translator(tiny_run / "run"), TEXT, beam_size=2, best=3).as_json()
    assert (first["text"], first["source_words"]) == (expected["text"], expected["source_words"])
    assert [len(at_place) for at_place in first["alternatives"]] == [3] * len(first["target_pieces"])
    assert max(node["step"] for node in first["beam"]["nodes"]) >= 1
    assert second["source"] == "两个朋友"


def test_a_given_translation_is_explained_without_a_search(analyze: Analyze) -> None:
    exit_code, out, _ = analyze("--json", "--target", "I have cups.", "--no-occlusion", TEXT)
    found = json.loads(out)
    assert (exit_code, found["text"], found["occlusion"], found["beam"]) == (0, "I have cups.", [], {"nodes": []})


def test_a_page_is_written_beside_what_is_printed(analyze: Analyze) -> None:
    exit_code, out, error = analyze(TEXT, "--html", "why.html")
    assert (exit_code, error) == (0, "") and "The beam," in out
    page = Path("why.html").read_text(encoding="utf-8")
    assert f"1. {TEXT}" in page and page.count("<svg") == 3


def test_figures_are_written_for_each_sentence(analyze: Analyze) -> None:
    exit_code, _, error = analyze(TEXT, "--figures", "one")
    assert exit_code == 0 and error.startswith("one: ")
    names = {path.stem for path in Path("one").iterdir()}
    assert {"attention", "occlusion", "beam", "encoder", "decoder", "attention-layer1-head2"} <= names
    assert analyze(TEXT, "两个朋友", "--figures", "two")[0] == 0
    assert {path.stem for path in Path("two").glob("*.svg")} == {f"{n}-{name}" for n in (1, 2) for name in names}


def test_sentences_come_from_a_file(analyze: Analyze) -> None:
    Path("in.txt").write_text(f"{TEXT}\n两个朋友\n", encoding="utf-8")
    exit_code, out, _ = analyze("--json", "--input", "in.txt")
    assert (exit_code, [json.loads(line)["source"] for line in out.splitlines()]) == (0, [TEXT, "两个朋友"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((TEXT, "--input", "in.txt"), "--input cannot be combined with TEXT"),
        (("--input", "empty.txt"), "there is no sentence to explain"),
        ((TEXT, "两个", "--target", "Two"), "--target is the translation of one sentence; there are 2"),
        ((TEXT, "--layer", "7"), "layer is a number from 1 to 1"),
        ((TEXT, "--beam", "65"), "beam_size"),
        ((TEXT, "--set", "decoding.method=sample"), "no single search to show"),
        ((TEXT, "--html", "."), "--html"),
        ((TEXT, "", " "), "text 2 has no piece to explain; give a sentence\ntext 3 has no piece"),
        ((TEXT, "。", "--html", "why.html"), "text 2 (。) has no word"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    analyze: Analyze, arguments: tuple[str, ...], said: str
) -> None:
    Path("empty.txt").write_text("", encoding="utf-8")
    exit_code, out, error = analyze(*arguments, "--json")
    assert (exit_code, out) == (2, "")
    assert said in error


def test_a_model_must_be_named(weft: Weft) -> None:
    exit_code, _, error = weft("analyze", TEXT)
    assert exit_code == 2 and "missing --model" in error


@pytest.mark.parametrize(
    "arguments",
    [
        ("analyze", "--model", "a", "--model", "b", "你好"),
        ("score", "--model", "a", "--model", "b", "--data", "p.tsv"),
        ("export", "--model", "a", "--model", "b", "--to", "onnx", "--output", "out"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_is_done_by_one_model_takes_no_ensemble(weft: Weft, arguments: tuple[str, ...]) -> None:
    exit_code, out, error = weft(*arguments)
    assert (exit_code, out) == (2, "") and f"weft {arguments[0]} takes one model, but --model names 2: a, b" in error
