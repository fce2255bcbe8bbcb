"""Several runs on one page: overlaid, compared key by key, and ranked only where their scores are of one kind."""

import json
import re
from pathlib import Path

import pytest
from tests.command_line import Weft

from weft.analysis.runs_report import Contest, compare_runs, write_runs_report
from weft.errors import UsageError

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1"
RECIPE = 'task = "translation"\nseed = {seed}\n[data]\nsource = "zh"\ntarget = "en"\n[training]\nlearning_rate = 1e-3\n'


TOKENS = {"target_tokens": 50_000, "target_tokens_per_second": 1000}


def make_run(
    folder: Path,
    *,
    bleu: float = 20.0,
    digest: str = "0f3a" * 16,
    signature: str = SIGNATURE,
    seed: int = 1,
) -> Path:
    """A run of 200 steps that logged 1,000 target tokens a step, and validated at the steps 100 and 200."""
    folder.mkdir(parents=True)
    lines = []
    for step in (50, 100, 150, 200):
        lines.append({"step": step, "epoch": step / 100, "loss": 3.0, "nll": 2.5, "seconds": step, **TOKENS})
        if step % 100 == 0:
            valid = {"valid_loss": 300 / step, "valid_bleu": bleu * step / 200, "seconds": step + 5}
            lines.append({"step": step, "epoch": step / 100, **valid})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (folder / "run.json").write_text('{"last": "checkpoints/step-200", "finished": true}')
    (folder / "config.toml").write_text(RECIPE.format(seed=seed))
    interval = {"low": bleu - 1, "high": bleu + 1, "confidence": 0.95, "signature": "bootstrap"}
    scores = {"sacrebleu": {"value": bleu, "signature": signature, "interval": interval}}
    evaluation = {"data": {"valid.tsv": digest}, "sentences": 9, "parameters": 77, "scores": scores}
    (folder / "scores.json").write_text(json.dumps([evaluation]))
    return folder


def page_of(contest: Contest, to: Path) -> str:
    write_runs_report(contest, to)
    return to.read_text(encoding="utf-8")


def make_text_run(folder: Path, signature: str) -> Path:
    """A run of a language model, with its perplexity in place of BLEU."""
    run = make_run(folder, signature=signature)
    for name, old, new in (
        ("config.toml", "translation", "language-model"),
        ("scores.json", "sacrebleu", "perplexity"),
    ):
        (run / name).write_text((run / name).read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    return run


def test_runs_on_the_same_data_are_ranked_best_first(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, bleu=bleu) for name, bleu in (("a", 20.0), ("b", 22.5), ("c", 21.0))]
    contest = compare_runs(runs)
    scores = contest.tables()[0]
    assert [row[:3] for row in scores.rows] == [("b", "1", "22.50"), ("c", "2", "21.00"), ("a", "3", "20.00")]
    assert scores.rows[0][3] == "[21.50, 23.50]" and f"sacrebleu: {SIGNATURE}" in scores.notes
    assert contest.refusals() == []
    assert "weft compare" in scores.notes[-1]


def test_language_models_that_see_contexts_of_other_lengths_are_compared_without_weft_compare(tmp_path: Path) -> None:
    signatures = (
        "per:piece|n:9|context:5|base:e",
        "per:piece|n:9|context:33-64|base:e",
        "per:piece|n:8|context:5|base:e",
    )
    contest = compare_runs([make_text_run(tmp_path / name, of) for name, of in zip("abc", signatures, strict=True)])
    scores = contest.tables()[0]
    assert [row[1] for row in scores.rows] == ["1", "1", "–"] and scores.notes[-1] == "Places go by the value alone."
    assert contest.refusals() == ["c: not comparable: other signature"]


@pytest.mark.parametrize(
    ("other", "reason"),
    [({"digest": "beef" * 16}, "other data"), ({"signature": SIGNATURE.replace("13a", "zh")}, "other signature")],
)
def test_a_run_of_other_data_or_signature_is_shown_and_not_ranked(tmp_path, other, reason) -> None:
    runs = [make_run(tmp_path / "odd", bleu=99.0, **other), make_run(tmp_path / "a"), make_run(tmp_path / "b", bleu=21)]
    contest = compare_runs(runs)
    assert [row[:3] for row in contest.tables()[0].rows] == [
        ("b", "1", "21.00"),
        ("a", "2", "20.00"),
        ("odd", "–", "99.00"),
    ]
    assert contest.refusals() == [f"odd: not comparable: {reason}"]
    assert f'<p class="refusal">odd: not comparable: {reason}</p>' in page_of(contest, tmp_path / "page.html")


def test_two_runs_of_two_kinds_have_no_places_at_all(tmp_path) -> None:
    contest = compare_runs([make_run(tmp_path / "a"), make_run(tmp_path / "b", digest="beef" * 16, signature="other")])
    assert [row[1] for row in contest.tables()[0].rows] == ["–", "–"]
    assert contest.refusals() == ["b: not comparable: other data, other signature"]


def test_a_run_without_a_score_is_drawn_and_named(tmp_path) -> None:
    runs = [make_run(tmp_path / name) for name in "abc"]
    (runs[2] / "scores.json").unlink()
    contest = compare_runs(runs)
    assert contest.refusals() == ["c: not comparable: no score yet"]
    assert "c: 2 points" in contest.charts()["valid-bleu-by-tokens"]


def test_curves_run_over_the_tokens_seen_and_over_time(tmp_path) -> None:
    contest = compare_runs([make_run(tmp_path / "a"), make_run(tmp_path / "b")])
    charts = contest.charts()
    assert "a: 2 points, lowest 10 at 100,000, highest 20 at 200,000" in charts["valid-bleu-by-tokens"]
    assert "a: 2 points, lowest 10 at 1.75, highest 20 at 3.417" in charts["valid-bleu-by-time"]  # 105 and 205 seconds
    assert "minutes" in charts["valid-bleu-by-time"] and "target tokens seen" in charts["nll-by-tokens"]


def test_a_run_that_counts_no_tokens_is_left_out_of_their_curves_and_does_not_name_them(tmp_path) -> None:
    runs = [make_run(tmp_path / name) for name in "ab"]
    counted = (runs[0] / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    (runs[0] / "metrics.jsonl").write_text("\n".join(line for line in counted if "valid_loss" in line) + "\n")
    contest = compare_runs(runs)
    assert contest.tables()[1].header[4] == "target tokens"
    assert [row[4] for row in contest.tables()[1].rows] == ["", "200,000"]
    assert "a: 2 points" not in contest.charts()["valid-bleu-by-tokens"]
    assert "a: 2 points" in contest.charts()["valid-bleu-by-time"]


def test_only_the_keys_that_differ_are_listed(tmp_path) -> None:
    contest = compare_runs([make_run(tmp_path / "a"), make_run(tmp_path / "b", seed=2)])
    keys = contest.tables()[2]
    assert keys.header == ("key", "a", "b") and list(keys.rows) == [("seed", "1", "2")]


def test_losses_of_other_tokens_are_not_to_be_compared(tmp_path) -> None:
    runs = [make_run(tmp_path / name) for name in "ab"]
    assert "means per token" not in page_of(compare_runs(runs), tmp_path / "page.html")
    with (runs[1] / "config.toml").open("a") as file:
        file.write("[tokenizer]\nsource_size = 9\n")
    contest = compare_runs(runs)
    assert "means per token" in page_of(contest, tmp_path / "page.html")
    assert list(contest.tables()[2].rows) == [("tokenizer.source_size", "–", "9")]
    (runs[0] / "config.toml").unlink()  # as before the first checkpoint: nobody knows
    assert "means per token" not in page_of(compare_runs(runs), tmp_path / "page.html")


def test_a_chinese_page_says_in_chinese_why_a_run_is_not_ranked(tmp_path) -> None:
    contest = compare_runs([make_run(tmp_path / "a"), make_run(tmp_path / "b", digest="beef" * 16)], "zh")
    page = page_of(contest, tmp_path / "page.html")
    assert '<html lang="zh">' in page and '<p class="refusal">b：不可比：数据不同</p>' in page
    for text in ("已见目标词元", "分钟", "验证：BLEU", "不同的键", "名次"):
        assert text in page


def test_a_page_of_three_long_runs_stays_under_three_megabytes(tmp_path) -> None:
    runs = [make_run(tmp_path / name) for name in "abc"]
    line = (
        '{"step": %d, "loss": 3.5, "nll": 3.25, "target_tokens": 999, "seconds": %d, "target_tokens_per_second": 99}\n'
    )
    for run in runs:
        with (run / "metrics.jsonl").open("a") as file:
            file.writelines(line % (step, step) for step in range(201, 20_000))
    assert len(page_of(compare_runs(runs), tmp_path / "page.html").encode()) < 3_000_000


def test_runs_of_one_name_are_told_apart_by_their_path_and_one_run_twice_is_refused(tmp_path) -> None:
    runs = [make_run(tmp_path / "x" / "run"), make_run(tmp_path / "y" / "run")]
    assert [one.name for one in compare_runs(runs).contenders] == [str(run) for run in runs]
    with pytest.raises(UsageError, match="named more than once"):
        compare_runs([runs[0], runs[0] / ".." / "run"])


def test_names_and_values_of_users_are_never_markup_and_nothing_comes_from_outside(tmp_path) -> None:
    attack = "<script>alert(1)<&>"
    run = make_run(tmp_path / attack, signature=attack, digest=attack)
    (run / "config.toml").write_text(f"task = 'translation'\nseed = '{attack}'\n")
    page = page_of(compare_runs([run, make_run(tmp_path / "b")]), tmp_path / "page.html")
    assert "<script" not in page and page.count("&lt;script&gt;") >= 5
    assert set(re.findall(r"\w+://[^\"'\s<)]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<link|<img|<iframe|@import|url\(|\bsrc=", page)


def test_the_verb_prints_the_tables_and_writes_beside_the_first_run(tmp_path: Path, weft: Weft) -> None:
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b", digest="beef" * 16)]
    code, out, _ = weft("report", *map(str, runs), "--figures", str(tmp_path / "pictures"))
    assert code == 0 and "b: not comparable: other data" in out and "seed" not in out
    assert (tmp_path / "comparison.html").is_file()
    assert (tmp_path / "pictures" / "valid-loss-by-tokens.svg").is_file()
    with (runs[0] / "config.toml").open("a") as file:
        file.write('note = "\\u001b[31mred"\n')
    assert "\x1b" not in weft("report", *map(str, runs))[1]
    elsewhere = tmp_path / "elsewhere.html"
    assert weft("report", *map(str, runs), "--to", str(elsewhere))[0] == 0 and elsewhere.is_file()
