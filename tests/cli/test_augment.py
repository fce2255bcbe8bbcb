"""`weft augment`: pairs into a file, everything else to standard error, and nothing replaced."""

from pathlib import Path

import pytest
from tests.command_line import Weft


@pytest.fixture
def folder(distinct_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mono.zh").write_text("我有一个苹果。\n我有两个杯子。\n", encoding="utf-8")
    Path("pairs.tsv").write_text("zh\ten\n我有一个苹果。\tx\n我有两个杯子。\ty\n", encoding="utf-8")
    return distinct_model


@pytest.mark.parametrize(
    ("verb", "given", "header"),
    [
        ("back-translate", ["--input", "mono.zh"], "en\tzh"),
        ("self-train", ["--input", "mono.zh"], "zh\ten"),
        ("distill", ["--data", "pairs.tsv"], "zh\ten"),
    ],
)
def test_each_verb_writes_pairs_and_says_what_it_did(
    weft: Weft, folder: Path, verb: str, given: list[str], header: str
) -> None:
    command = ["augment", verb, "--model", str(folder), *given, "--output", "out.tsv", "--max-ratio", "99"]
    exit_code, out, error = weft(*command)
    assert (exit_code, out) == (0, "")
    assert "out.tsv: 2 pairs of 2 texts; left out: none" in error
    assert Path("out.tsv").read_text(encoding="utf-8").split("\n")[0] == header
    exit_code, out, error = weft(*command)
    assert (exit_code, out) == (0, "") and "out.tsv is finished" in error
    exit_code, out, error = weft(*command, "--set", "decoding.method=greedy")
    assert (exit_code, out) == (2, "") and "decoding.method: was 'beam', is 'greedy'" in error


def test_back_translation_says_how_to_train_on_it(weft: Weft, folder: Path) -> None:
    command = ["augment", "back-translate", "--model", str(folder), "--input", "mono.zh", "--output", "bt.tsv"]
    _, _, error = weft(*command, "--max-ratio", "99")
    assert '{ path = "bt.tsv", tag = "<bt>" }' in error


def test_teachers_are_given_one_after_the_other(weft: Weft, folder: Path, tiny_run: Path) -> None:
    from weft.translating.loading import load_translator

    sources = ["两个朋友", "书包", "我有一个苹果。"]
    Path("pairs.tsv").write_text("zh\ten\n" + "".join(f"{source}\tx\n" for source in sources), encoding="utf-8")
    other = tiny_run / "run"
    teachers = ["--model", str(folder), "--model", str(other)]
    exit_code, _, error = weft(
        "augment", "distill", *teachers, "--data", "pairs.tsv", "--output", "kd.tsv", "--max-ratio", "99"
    )
    assert exit_code == 0 and "kd.tsv: 3 pairs of 3 texts" in error
    first, second, together = (
        [one.text for one in load_translator(each, others=others).translate(sources)]
        for each, others in ((folder, []), (other, []), (folder, [other]))
    )
    assert together not in (first, second) and len(set(together)) == 3
    rows = Path("kd.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert rows == [f"{source}\t{text}" for source, text in zip(sources, together, strict=True)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--model", "nowhere", "--input", "mono.zh", "--output", "bt.tsv"], "there is no model nowhere"),
        (["--input", "mono.zh", "--output", "bt.tsv"], "--model"),
        (["--model", "{model}", "--input", "mono.zh", "--output", "bt.txt"], "must be a TSV; give it a name that"),
        (["--model", "{model}", "--input", "mono.zh", "--output", "pairs.tsv"], "nothing says how it was made"),
        (["--model", "{model}", "--input", "mono.zh", "--output", "bt.tsv", "--max-ratio", "0.5"], "--max-ratio"),
        (["--model", "{model}", "--input", "mono.zh", "--output", "bt.tsv", "--set", "model.ff_dim=8"], "model.ff_dim"),
    ],
)
def test_a_wrong_command_is_refused_and_nothing_is_made(
    weft: Weft, folder: Path, options: list[str], says: str
) -> None:
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    exit_code, out, error = weft("augment", "back-translate", *(o.format(model=folder) for o in options))
    assert (exit_code, out) == (2, "") and says in error
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before
