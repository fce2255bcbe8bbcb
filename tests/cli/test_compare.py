"""`weft compare`: models and files of translations side by side, in every form, and what is refused."""

import json
import re
import shutil
from pathlib import Path

import pytest
from tests.command_line import Weft

LANGUAGES = ("--source", "zh", "--target", "en")
FILES = ("a.txt", "b.txt", "--data", "test.tsv", *LANGUAGES)


@pytest.fixture
def place(tmp_path: Path, tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with twenty pairs (test.tsv) and two files of translations: a.txt is right, b.txt half of it."""
    monkeypatch.chdir(tmp_path)
    lines = (tiny_run / "train.tsv").read_text(encoding="utf-8").splitlines()[:21]
    (tmp_path / "test.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    references = [line.split("\t")[1] for line in lines[1:]]
    (tmp_path / "a.txt").write_text("".join(f"{line}\n" for line in references), encoding="utf-8")
    worse = [line if number % 2 else "我有 <b>" for number, line in enumerate(references)]
    (tmp_path / "b.txt").write_text("".join(f"{line}\n" for line in worse), encoding="utf-8")
    return tmp_path


def test_files_of_translations_are_compared_in_every_form(weft: Weft, place: Path) -> None:
    outputs = ("--json", "x.json", "--markdown", "x.md", "--latex", "x.tex", "--html", "x.html")
    exit_code, out, error = weft("compare", *FILES, "--train", "test.tsv", "--show", "2", *outputs)
    assert (exit_code, error) == (0, "")
    titles = ["Scores", "Difference from a.txt", "Faults", "By length of the source", "By rarest word of the source"]
    assert [out.splitlines().index(title) for title in titles] == sorted(out.splitlines().index(t) for t in titles)
    assert re.search(r"^a.txt +1\.0000 \[1\.000, 1\.000\]", out, re.MULTILINE)
    assert re.search(r"^b.txt +chrF +-\d", out, re.MULTILINE)
    assert re.search(r"^wrong script +0\.0% +50\.0% +0\.0%$", out, re.MULTILINE)
    assert out.count("\nsentence ") == 2
    found = json.loads(Path("x.json").read_text(encoding="utf-8"))
    assert found["baseline"] == "a.txt" and found["systems"]["b.txt"]["faults"]["wrong script"]["sentences"] == 10
    assert found["tests"]["b.txt"]["sacrebleu"]["bootstrap_p"] < 0.05 and len(found["changed"]["b.txt"]) == 2
    assert found["data"].keys() == {"test.tsv"} and found["seed"] == 12345
    assert "| a.txt | 1.0000 [1.000, 1.000] |" in Path("x.md").read_text(encoding="utf-8").replace("\\", "")
    latex = Path("x.tex").read_text(encoding="utf-8")
    assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") == 7
    html = Path("x.html").read_text(encoding="utf-8")
    assert "我有 &lt;b&gt;" in html and "<b>" not in html
    assert not re.search(r"(?:src|href)=|url\(|@import", html)


def test_json_alone_goes_to_standard_output(weft: Weft, place: Path) -> None:
    exit_code, out, error = weft("compare", *FILES, "--json", "-")
    assert (exit_code, error) == (0, "")
    assert json.loads(out)["systems"].keys() == {"a.txt", "b.txt"}


def test_pairs_with_tabs_are_read_whatever_the_ending_of_the_file(weft: Weft, place: Path) -> None:
    rows = Path("test.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("test.txt").write_text("".join(rows[1:]), encoding="utf-8")
    options = ("--data", "test.txt", "--columns", "1,2", "--no-header", *LANGUAGES)
    assert weft("compare", "a.txt", "b.txt", *options)[::2] == (0, "")


def test_a_model_is_compared_with_a_file_and_itself_with_another_decoding(
    weft: Weft, place: Path, tiny_run: Path
) -> None:
    from weft.translating.loading import load_translator

    options = ("--data", "test.tsv", "--set", "decoding.method=greedy", "--json", "-", "--show", "50")
    exit_code, out, error = weft("compare", "a.txt", str(tiny_run / "run"), *options)
    assert (exit_code, error) == (0, "")
    found = json.loads(out)["systems"]["run"]
    assert found["decoding"]["method"] == "greedy" and found["seed"] == 1 and found["parameters"] > 10_000
    sources = [line.split("\t")[0] for line in Path("test.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    expected = [t.text for t in load_translator(tiny_run / "run").translate(sources, method="greedy")]
    assert {c["number"]: c["other"] for c in json.loads(out)["changed"]["run"]} == dict(enumerate(expected, start=1))


def test_runs_of_several_seeds_have_a_mean_and_a_deviation(weft: Weft, place: Path, tiny_run: Path) -> None:
    shutil.copy("a.txt", "c.txt")
    exit_code, out, error = weft("compare", "--seeds", "a.txt", "b.txt", "--data", "test.tsv", *LANGUAGES)
    assert (exit_code, error) == (0, "")
    assert re.search(r"^mean of a.txt, b.txt +0\.\d{4} ± 0\.\d{4} ", out, re.MULTILINE)
    against = ("--against", "c.txt", "--against", str(tiny_run / "run"))
    exit_code, out, _ = weft("compare", "--seeds", "a.txt", "b.txt", *against, "--data", "test.tsv", "--json", "-")
    assert exit_code == 0
    first, second = json.loads(out)["groups"]
    assert first["systems"].keys() == {"a.txt", "b.txt"} and second["systems"].keys() == {"c.txt", "run"}
    values = [of["scores"]["chrf"]["value"] for of in first["systems"].values()]
    assert first["mean"]["chrf"] == pytest.approx(sum(values) / 2)


def test_results_are_shown_also_where_a_file_cannot_be_written(
    weft: Weft, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("weft.files.sync", full)
    for command in (
        ("compare", *FILES),
        ("score", "--hypotheses", "b.txt", "--references", "a.txt", "--language", "en"),
    ):
        exit_code, out, error = weft(*command, "--json", "x.json")
        assert exit_code == 1 and "x.json could not be written: No space left on device" in error
        assert "chrF" in out or "chrf" in out
        assert not Path("x.json").exists()


def test_a_system_without_limits_has_no_verdict_on_them(weft: Weft, place: Path, tiny_run: Path) -> None:
    lines = len(Path("test.tsv").read_text(encoding="utf-8").splitlines()) - 1
    Path("empty.txt").write_text("\n" * lines, encoding="utf-8")
    command = ("compare", "empty.txt", str(tiny_run / "run"), "--data", "test.tsv")
    _, out, error = weft(*command, "--set", "require.min_bleu_1=0.9")
    assert error == "" and "PASS" not in out and "FAIL" in out


def test_models_by_decodings_are_the_lines_of_one_table(weft: Weft, place: Path, tiny_run: Path) -> None:
    shutil.copytree(tiny_run / "run", "other")
    limits = ("--set", "require.min_bleu_1=0.9", "--set", "require.max_parameters=1000000")
    command = ("compare", str(tiny_run / "run"), "other", "--methods", "greedy,beam:3", "--data", "test.tsv", *limits)
    exit_code, out, error = weft(*command, "--json", "x.json", "--latex", "x.tex")
    assert (exit_code, error) == (0, "")
    names = ["run greedy", "run beam:3", "other greedy", "other beam:3"]
    found = json.loads(Path("x.json").read_text(encoding="utf-8"))["systems"]
    assert list(found) == names and found["other beam:3"]["decoding"]["beam_size"] == 3
    latex = Path("x.tex").read_text(encoding="utf-8").split(r"\end{table}")[0]
    assert "BLEU-1 & BLEU-2 & BLEU-3 & BLEU-4 & sacreBLEU & chrF & required" in latex
    cells, notes = latex.split(r"\bottomrule")
    assert "nrefs" not in cells and "courses-bleu" in notes
    assert cells.count("& FAIL") == 4 and "run greedy: PASS  parameters" in out and "run greedy: FAIL  bleu" in out
    tables = out.partition("Sentences that changed most")[0]
    assert max(len(line) for line in tables.splitlines() if "|" not in line) <= 80


def test_one_model_by_two_decodings_is_a_comparison(weft: Weft, place: Path, tiny_run: Path) -> None:
    exit_code, out, _ = weft("compare", str(tiny_run / "run"), "--methods", "greedy,beam:2", "--data", "test.tsv")
    assert exit_code == 0 and "Difference from run greedy" in out


# Refused


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        (("a.txt", "--data", "test.tsv", *LANGUAGES), 2, "give at least two systems"),
        (
            ("--seeds", "a.txt", "b.txt", "--against", "c.txt", "--data", "test.tsv"),
            2,
            "--seeds needs at least two runs, and at least two with --against",
        ),
        (("a.txt", "b.txt", "--against", "c.txt", "--data", "test.tsv", *LANGUAGES), 2, "--against needs --seeds"),
        (("a.txt", "a.txt", "--data", "test.tsv", *LANGUAGES), 2, "a.txt: named more than once"),
        (("a.txt", "./a.txt", "--data", "test.tsv", *LANGUAGES), 2, "./a.txt, a.txt: named more than once"),
        (("a.txt", "b.txt", "--data", "test.tsv"), 2, "missing --source and --target"),
        ((*FILES, "--set", "decoding.beam_size=2"), 2, "all files of translations"),
        ((*FILES, "--methods", "greedy,beam:2"), 2, "--methods are searches of models"),
        ((*FILES, "--confidence", "95"), 2, "--confidence must be at least 0.5 and below 1"),
        ((*FILES, "--confidence", "0"), 2, "--confidence 0 is for weft evaluate"),
        ((*FILES, "--html", "-"), 2, "--html takes the name of a file"),
        ((*FILES, "--html", "x", "--latex", "x"), 2, "--latex and --html both name x"),
        ((*FILES, "--comet", "none.ckpt"), 2, "--comet none.ckpt is not a file"),
        (("a.txt", "nowhere", "elsewhere", "--data", "test.tsv", *LANGUAGES), 2, "the list of systems has 2 problems"),
        (("nosuch.txt", *FILES), 2, "there is no file of translations and no model nosuch.txt; give"),
        (
            ("a.txt", "b.txt", "--data", "none.tsv", "--train", "neither.tsv", *LANGUAGES),
            1,
            "the corpus has 2 problems",
        ),
        (("a.txt", "test.tsv", "--data", "test.tsv", *LANGUAGES), 1, "has 21 lines; the data has 20 pairs"),
        (
            ("--seeds", *FILES, "--train", "test.tsv", "--show", "3"),
            2,
            "--seeds cannot be combined with --train and --show",
        ),
    ],
)
def test_what_cannot_be_compared_is_one_clear_error(
    arguments: tuple[str, ...], exit_code: int, says: str, weft: Weft, place: Path
) -> None:
    code, out, error = weft("compare", *arguments)
    assert (code, out) == (exit_code, "")
    assert says in error and "Traceback" not in error and "bug in weft" not in error


def test_with_a_model_the_languages_are_not_said_again(weft: Weft, place: Path, tiny_run: Path) -> None:
    code, out, error = weft("compare", "a.txt", str(tiny_run / "run"), "--data", "test.tsv", *LANGUAGES)
    assert (code, out) == (2, "") and "a model knows its languages" in error


@pytest.fixture
def other_reader(tiny_run: Path, place: Path) -> str:
    """The model of tiny_run, as of a recipe that reads files without a header and undoes spaced words."""
    from weft.config import changed
    from weft.folders.finding import find_model
    from weft.folders.model_folder import Learned, load_model, save_model

    trained = load_model(find_model(tiny_run / "run"))
    resolved = changed(trained.resolved, {"data.header": False, "data.detokenize": True}, "a test")
    (place / "other").mkdir()
    save_model(place / "other", Learned(resolved, trained.network, trained.vocabularies), "")
    return "other"


def test_models_that_would_read_other_sentences_are_not_compared(
    weft: Weft, place: Path, tiny_run: Path, other_reader: str
) -> None:
    model = str(tiny_run / "run")
    for command in (("compare", model, other_reader), ("evaluate", "--model", model, "--model", other_reader)):
        code, out, error = weft(*command, "--data", "test.tsv")
        assert (code, out) == (2, "")
        assert f"data.detokenize is false for {model}, true for other" in error
        for key, values in (("columns", '["zh", "en"] for'), ("header", "true for"), ("detokenize", "false for")):
            assert f"data.{key} is {values} {model}" in error and f"--set data.{key}=..." in error
        settings = ("--set", "data.header=true", "--set", "data.detokenize=false", "--set", "decoding.method=greedy")
        assert weft(*command, "--data", "test.tsv", *settings)[0] == 0
