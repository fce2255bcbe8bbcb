"""`weft evaluate`: scores with all that made them, and an exit code that says whether they are good enough."""

import json
import re
import shutil
from pathlib import Path

import pytest
from tests.command_line import Weft


@pytest.fixture
def evaluate(weft: Weft, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Weft:
    """`weft evaluate` of the model of tiny_run in a folder with its valid.tsv, on that file unless told otherwise."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(tiny_run / "valid.tsv", tmp_path)

    def evaluate(*arguments: str) -> tuple[int, str, str]:
        data = () if "--data" in arguments else ("--data", "valid.tsv")
        return weft("evaluate", "--model", str(tiny_run / "run"), *data, *arguments)

    return evaluate


def test_the_table_has_scores_with_signatures_data_decoding_time_and_size(evaluate: Weft) -> None:
    exit_code, out, error = evaluate("--set", "decoding.beam_size=2")
    assert (exit_code, error) == (0, "")
    names = [line.split()[0] for line in out.splitlines() if line]
    scores = ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "exact_match", "sacrebleu", "chrf", "ter"]
    assert names[:10] == ["Scores", "score", *scores]
    assert {"data:", "decoding:", "seconds:", "parameters:", "Faults"} <= set(names)
    assert re.search(r"^sacrebleu:\s+nrefs:1\|.*tok:13a\|.*version:", out, re.MULTILINE)
    assert max(map(len, out.splitlines())) <= 80 or "|" in max(out.splitlines(), key=len)
    assert re.search(r"^data: valid.tsv \(sha256 [0-9a-f]{12}\), 5 sentences; seed 1$", out, re.MULTILINE)
    assert re.search(r"^decoding: method beam, beam_size 2, length_penalty adaptive", out, re.MULTILINE)
    assert re.search(r"^seconds: [0-9.]+, [0-9.]+ sentences a second", out, re.MULTILINE)
    assert re.search(r"^parameters: [0-9,]+$", out, re.MULTILINE)


def test_an_ensemble_has_the_parameters_of_all(evaluate: Weft, tiny_run: Path) -> None:
    one, both = (evaluate("--json", "-", *more)[1] for more in ((), ("--model", str(tiny_run / "run"))))
    assert json.loads(both)["parameters"] == 2 * json.loads(one)["parameters"]
    assert json.loads(both)["scores"] == json.loads(one)["scores"]  # one model twice is that model


def test_json_goes_to_a_file_beside_the_table_or_alone_to_standard_output(evaluate: Weft) -> None:
    _, table, _ = evaluate("--json", "scores.json")
    assert table.startswith("Scores\nscore ")
    exit_code, out, error = evaluate("--json", "-")
    assert (exit_code, error) == (0, "")
    kept, printed = json.loads(Path("scores.json").read_text(encoding="utf-8")), json.loads(out)
    for found in (kept, printed):
        assert found.pop("seconds") > 0 and found.pop("sentences_per_second") > 0
    assert kept == printed
    assert printed["sentences"] == 5 and printed["seed"] == 1 and printed["decoding"]["method"] == "beam"
    assert printed["data"].keys() == {"valid.tsv"} and printed["parameters"] > 10_000
    assert all(score.keys() >= {"value", "scale", "signature"} for score in printed["scores"].values())


def test_each_sentence_is_kept_with_its_translation_and_scores(evaluate: Weft, tiny_run: Path) -> None:
    from weft.metrics.course_bleu import course_bleu
    from weft.metrics.translation import sentence_scores
    from weft.translating.loading import load_translator

    assert evaluate("--output", "kept.tsv")[0] == 0
    header, *kept = (line.split("\t") for line in Path("kept.tsv").read_text(encoding="utf-8").split("\n")[:-1])
    orders = [f"sentence_bleu_{order}" for order in (1, 2, 3, 4)]
    assert header == ["source", "reference", "hypothesis", "sentence_bleu", "sentence_chrf", "score", *orders]
    pairs = [line.split("\t") for line in Path("valid.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    assert [row[:2] for row in kept] == pairs
    found = load_translator(tiny_run / "run").translate([source for source, _ in pairs])
    hypotheses = [translation.text for translation in found]
    by_sentence = sentence_scores(hypotheses, [[reference for _, reference in pairs]], "en")
    assert [row[2] for row in kept] == hypotheses
    assert [row[3] for row in kept] == [f"{bleu:.2f}" for bleu, _ in by_sentence]
    assert [row[5] for row in kept] == [f"{translation.score:.4f}" for translation in found]
    for (_, reference), hypothesis, row in zip(pairs, hypotheses, kept, strict=True):
        alone = course_bleu([hypothesis], [[reference]], "en")
        assert row[6:] == [f"{alone.bleu(order):.4f}" for order in (1, 2, 3, 4)]


def test_a_tab_or_line_end_in_a_text_shifts_no_row(evaluate: Weft) -> None:
    rows = [{"zh": "我有\t一个\r\n苹果。", "en": "I have\tone\napple."}, {"zh": "书包", "en": "bag"}]
    Path("test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert evaluate("--data", "test.jsonl", "--output", "kept.tsv")[0] == 0
    lines = Path("kept.tsv").read_bytes().decode().split("\n")
    assert [len(line.split("\t")) for line in lines] == [10, 10, 10, 1]
    assert lines[1].startswith("我有 一个  苹果。\tI have one apple.\t")


def test_several_references_are_columns(evaluate: Weft) -> None:
    text = "source\tref A\tref B\n我有一个苹果。\tI have one apple.\tI have an apple.\n书包\tbag\t\n"
    Path("test.tsv").write_text(text, encoding="utf-8")
    columns = 'data.columns={source="source", target=["ref A", "ref B"]}'
    exit_code, out, error = evaluate("--data", "test.tsv", "--json", "-", "--set", columns, "--output", "kept.tsv")
    assert (exit_code, error) == (0, "")
    assert "nrefs:var" in json.loads(out)["scores"]["sacrebleu"]["signature"]
    assert "nrefs:var" in json.loads(out)["scores"]["bleu_1"]["signature"]
    assert Path("kept.tsv").read_text(encoding="utf-8").splitlines()[1].split("\t")[1] == "I have one apple."


def test_a_file_without_a_header_has_its_pairs_in_the_first_two_columns(evaluate: Weft) -> None:
    lines = Path("valid.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("bare.tsv").write_text("".join(lines[1:]), encoding="utf-8")
    _, out, _ = evaluate("--data", "bare.tsv", "--json", "-", "--set", "data.header=false")
    assert json.loads(out)["scores"] == json.loads(evaluate("--json", "-")[1])["scores"]


# Good enough


def require(**limits: float) -> list[str]:
    return [word for key, value in limits.items() for word in ("--set", f"require.{key}={value}")]


def test_requirements_that_are_met_pass_a_line_each(evaluate: Weft) -> None:
    exit_code, out, _ = evaluate(*require(min_bleu_1=0.0, max_parameters=10**9, max_seconds=1000))
    assert exit_code == 0
    verdicts = [line for line in out.splitlines() if line.startswith(("PASS", "FAIL"))]
    assert [verdict.split()[:2] for verdict in verdicts] == [
        ["PASS", "bleu_1"],
        ["PASS", "seconds"],
        ["PASS", "parameters"],
    ]


def test_one_that_is_not_met_fails_the_command_and_the_results_are_there_all_the_same(evaluate: Weft) -> None:
    limits = require(min_bleu_1=1.0, max_parameters=10**9)
    exit_code, out, error = evaluate(*limits, "--json", "scores.json", "--output", "kept.tsv")
    assert (exit_code, error) == (1, "")
    assert re.search(r"^FAIL  bleu_1 0\.\d+ >= 1", out, re.MULTILINE)
    assert re.search(r"^PASS  parameters [0-9,]+ <= 1,000,000,000$", out, re.MULTILINE)
    assert Path("scores.json").exists() and Path("kept.tsv").exists()


def test_beside_json_the_verdicts_go_to_standard_error(evaluate: Weft) -> None:
    exit_code, out, error = evaluate(*require(min_sacrebleu=100), "--json", "-")
    assert exit_code == 1 and json.loads(out)
    assert error.startswith("FAIL  sacrebleu") and error.count("\n") == 1


def test_several_decodings_say_each_which_limits_it_meets(evaluate: Weft) -> None:
    exit_code, out, _ = evaluate("--methods", "greedy,beam:2", *require(min_bleu_1=1.0, max_parameters=10**9))
    assert exit_code == 0 and len(re.findall(r"(?m)^(?:greedy|beam:2) .* FAIL$", out)) == 2
    assert "greedy: FAIL  bleu_1 0." in out and "beam:2: PASS  parameters" in out


def test_terms_hold_in_an_evaluation(evaluate: Weft) -> None:
    Path("terms.csv").write_text("zh,en\n苹果,pear\n", encoding="utf-8")
    _, out, _ = evaluate("--glossary", "terms.csv", "--output", "kept.tsv")
    kept = [line.split("\t") for line in Path("kept.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    assert all("pear" in row[2] for row in kept if "苹果" in row[0]) and "the glossary (sha256 " in out


# Refused


def test_an_unknown_requirement_names_the_near_match(evaluate: Weft) -> None:
    exit_code, out, error = evaluate(*require(min_bleu1=0.5))
    assert (exit_code, out) == (2, "")
    assert "did you mean `min_bleu_1`?" in error


# Several decodings, intervals, noise


def test_methods_are_lines_of_one_table(evaluate: Weft) -> None:
    outputs = ("--json", "x.json", "--output", "x.tsv", "--markdown", "x.md", "--latex", "x.tex")
    exit_code, out, error = evaluate("--methods", "greedy,beam:2+length_penalty=none", *outputs)
    assert (exit_code, error) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[1:4]] == ["method", "greedy", "beam:2+length_penalty=none"]
    found = json.loads(Path("x.json").read_text(encoding="utf-8"))["methods"]
    assert found["beam:2+length_penalty=none"]["decoding"]["beam_size"] == 2
    assert all(one.keys() >= {"scores", "faults", "data", "seed"} for one in found.values())
    header = Path("x.tsv").read_text(encoding="utf-8").splitlines()[0]
    assert header == "source\treference\tgreedy\tbeam:2+length_penalty=none"
    assert Path("x.md").read_text(encoding="utf-8").startswith("### Decoding methods\n")
    assert Path("x.tex").read_text(encoding="utf-8").startswith(r"\begin{table}")


def test_one_decoding_goes_onto_a_page_and_into_a_paper_too(evaluate: Weft) -> None:
    exit_code, out, _ = evaluate("--html", "x.html", "--markdown", "x.md", "--latex", "x.tex")
    assert exit_code == 0
    html, markdown, latex = (Path(f"x.{kind}").read_text(encoding="utf-8") for kind in ("html", "md", "tex"))
    score = re.search(r"^sacrebleu +(\S+)", out, re.MULTILINE)
    assert score is not None and all(f"{score[1]}" in text for text in (html, markdown, latex))
    assert "nrefs:1" in html and "<h2>Faults</h2>" in html and "http" not in html.replace("http-equiv", "")
    assert markdown.startswith("### Scores\n") and latex.count(r"\begin{table}") == 2


def test_noise_adds_a_table_of_what_it_costs(evaluate: Weft) -> None:
    exit_code, out, error = evaluate("--noise", "--set", "decoding.method=greedy", "--json", "x.json")
    assert (exit_code, error) == (0, "")
    kinds = {one["kind"] for one in json.loads(Path("x.json").read_text(encoding="utf-8"))["noise"]}
    assert {"typos", "dropped characters", "other script", "greeting before", "two sentences joined"} <= kinds
    assert all(re.search(rf"^{kind} +\d+ ", out, re.MULTILINE) for kind in kinds)
    evaluate("--noise", "--set", "decoding.method=greedy", "--html", "x.html")
    page = Path("x.html").read_text(encoding="utf-8")
    assert "<h2>Scores</h2>" in page and "two sentences joined" in page


def test_with_few_sentences_the_table_says_why_there_are_no_intervals(evaluate: Weft, tiny_run: Path) -> None:
    assert "intervals: none: 5 sentences, and resampling needs at least 10" in evaluate()[1]
    exit_code, out, _ = evaluate("--data", str(tiny_run / "train.tsv"), "--set", "decoding.method=greedy")
    assert exit_code == 0 and "intervals: 0.95 confidence, bootstrap|bs:1000|seed:12345" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--methods", "greedy", "--noise"), "--methods cannot be combined with --noise"),
        (("--methods", "gready,beam:0"), "--methods has 2 problems"),
        (("--html", "-"), "--html takes the name of a file"),
        (("--confidence", "2"), "--confidence must be at least 0.5"),
        (("--comet", "none.ckpt"), "--comet none.ckpt is not a file"),
        (("--json", "nowhere/x.json"), "is not a folder"),
    ],
)
def test_what_cannot_be_evaluated_is_one_clear_error(evaluate: Weft, arguments: tuple[str, ...], says: str) -> None:
    exit_code, out, error = evaluate(*arguments)
    assert (exit_code, out) == (2, "") and says in error


@pytest.mark.parametrize(
    ("method", "ensemble", "says"),
    [
        ("beam:2+coverage_penalty=0.2", True, "decoding.coverage_penalty = 0.2  needs the attention of one model"),
        ("beam+language_model=typo", False, "typo"),
    ],
)
def test_a_method_that_the_model_cannot_search_by_is_refused_before_another_translates(
    evaluate: Weft, tiny_run: Path, monkeypatch: pytest.MonkeyPatch, method: str, ensemble: bool, says: str
) -> None:
    monkeypatch.setattr("weft.translating.translator.Translator.translate_n_best", None)
    second = ("--model", str(tiny_run / "run")) if ensemble else ()
    exit_code, out, error = evaluate("--methods", f"greedy,{method}", *second)
    assert (exit_code, out) == (2, "") and says in error


def test_no_output_replaces_a_part_of_a_model_or_run(evaluate: Weft, tiny_run: Path) -> None:
    shutil.copytree(tiny_run / "run", "copy")
    parts = [
        "run.json",
        "metrics.jsonl",
        "scores.json",
        "config.toml",
        "manifest.json",
        "model.safetensors",
        "README.md",
    ]
    before = {part: (Path("copy") / part).read_bytes() for part in parts}
    for part in parts:
        for option in ("--json", "--output", "--html"):
            exit_code, out, error = evaluate(option, f"copy/{part}")
            assert (exit_code, out) == (2, "")
            assert f"{option} copy/{part} would overwrite a part of copy; name another file" in error
    assert {part: (Path("copy") / part).read_bytes() for part in parts} == before
    for _ in range(2):  # what an evaluation wrote may be written again
        assert evaluate("--json", "copy/test.json", "--set", "decoding.method=greedy")[0] == 0


def test_results_that_nobody_would_see_are_refused(evaluate: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.cli.outputs.sys.stdout", None)
    for json_file in ((), ("--json", "-")):
        exit_code, _, error = evaluate(*json_file)
        assert exit_code == 2 and "there is no standard output; name a file by --json" in error
