"""What a run leaves behind, told on one page."""

import ast
import html
import json
import math
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest

import weft.analysis
import weft.figures
from weft.analysis.curves import charts, write_figures
from weft.analysis.data_sections import HISTOGRAMS
from weft.analysis.page import say_in
from weft.analysis.report import SECTIONS, write_report
from weft.analysis.run_files import read_run
from weft.data.doctor.findings import KINDS
from weft.data.sentences import Sentences
from weft.data.store import StoreWriter
from weft.errors import RunError
from weft.evaluating.faults import FAULTS
from weft.figures.words import figure_words

RECIPE = """\
task = "translation"  # tiny.toml
seed = 1  # default
[data]
source = "zh"  # tiny.toml
target = "en"  # tiny.toml
[model]
kind = "transformer"  # default
[training]
learning_rate = 1.5e-3  # --set
"""
SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1"
SENTENCES = [
    ("他刚请假走了。", "He's just gone on leave."),
    ("谁死了？", "Who died?"),
]


DETAILS = {
    "buckets": {
        "limits": [5, 10],
        "sentences": [1200, 30, 0],
        "sacrebleu": [31.2, 20.4, None],
        "chrf": [50.0, 40.1, None],
    },
    "lengths": {"limits": [10, 20], "references": [7, 8, 9], "translations": [11, 12, 1]},
    "chrf": {"limits": [9, 19], "sentences": [3, 4, 17]},
    "best": [{"source": "谁死了？", "reference": "Who died?", "hypothesis": "Who died?", "chrf": 100.0}],
    "worst": [{"source": "好。", "reference": "Good.", "hypothesis": "", "chrf": 0.0}],
    "attention": [
        {"source": ["▁好", "</s>"], "target": ["▁Good", "</s>"], "chrf": 61.2, "weights": [[0.9, 0.1], [0, 1]]}
    ],
    "recipe": [{"key": "training.learning_rate", "value": "0.0015", "default": "0.001", "origin": "--set"}],
    "positions": [[0.0, 1.0], [0.84, 0.54]],
}


def step_line(step: int) -> dict:
    return {
        "step": step,
        "epoch": step / 1000,
        "loss": 3 + 6 * math.exp(-step / 1500),
        "nll": 2 + 6 * math.exp(-step / 1500),
        "learning_rate": 1.5e-3 * min(1.0, step / 800),
        "grad_norm": 0.7 + 3 * math.exp(-step / 300),
        "target_tokens_per_second": 5000 + step % 700,
        "seconds": step * 0.7,
    }


def validation_line(step: int, bleu: float) -> dict:
    return {
        "step": step,
        "epoch": step / 1000,
        "valid_loss": 2 + 5 * math.exp(-step / 1500),
        "valid_accuracy": 0.6 - 0.4 * math.exp(-step / 1500),
        "valid_bleu": bleu,
        "seconds": step * 0.7 + 5,
    }


def sample_line(step: int, *hypotheses: str) -> dict:
    samples = [
        {"source": source, "reference": reference, "hypothesis": hypothesis}
        for (source, reference), hypothesis in zip(SENTENCES, hypotheses, strict=True)
    ]
    return {"step": step, "epoch": step / 1000, "samples": samples}


def write_lines(path: Path, lines: list[dict]) -> None:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run of 3,000 steps whose best BLEU, 23.64, was at step 2,000."""
    folder = tmp_path / "tiny zh-en"
    folder.mkdir()
    metrics = [step_line(step) for step in range(100, 3001, 100)]
    metrics += [validation_line(1000, 12.5), validation_line(2000, 23.64), validation_line(3000, 23.1)]
    write_lines(folder / "metrics.jsonl", sorted(metrics, key=lambda line: line["step"]))
    samples = [
        sample_line(1000, "He is he.", "Who is?"),
        sample_line(2000, "He just left.", "Who died?"),
        sample_line(3000, "He has just left.", "Who died?"),
    ]
    write_lines(folder / "samples.jsonl", samples)
    state = {"last": "checkpoints/step-3000", "best": "checkpoints/step-2000", "finished": True}
    (folder / "run.json").write_text(json.dumps(state))
    (folder / "config.toml").write_text(RECIPE)
    evaluation = {
        "data": {"valid.tsv": "0f3a" * 16},
        "decoding": {"method": "beam", "beam_size": 3},
        "sentences": 2500,
        "seconds": 50.0,
        "faults": {"in a loop": {"sentences": 7, "rate": 0.035, "rate_of_references": 0.005}},
        "parameters": 11_234_567,
        "scores": {
            "bleu_1": {"value": 0.404, "scale": "0..1", "signature": "words|corpus"},
            "sacrebleu": {
                "value": 23.6412,
                "signature": SIGNATURE,
                "interval": {"low": 22.51, "high": 24.72, "confidence": 0.95, "signature": "bootstrap"},
            },
        },
    }
    (folder / "scores.json").write_text(json.dumps([evaluation]))
    leak = {"severity": "error", "title": "leaked pairs", "count": 96, "share": 0.0032, "cost": "scores flatter"}
    diagnosis = {"files": {"train.tsv": 30_000}, "remarks": [], "findings": [{**leak, "details": ["96 of test"]}]}
    (folder / "doctor.json").write_text(json.dumps(diagnosis))
    (folder / "details.json").write_text(json.dumps(DETAILS), encoding="utf-8")
    checkpoint = folder / state["last"]
    checkpoint.mkdir(parents=True)
    machine = {"weft": "0.1.0", "processor": "A <fast> one", "device": "cpu", "threads": "1", "torch": "2.13.0"}
    (checkpoint / "training.json").write_text(json.dumps({"machine": machine}), encoding="utf-8")
    with StoreWriter(folder / "corpus", ("source", "target"), largest_id=9, depends_on={}) as writer:
        writer.begin_part("train.tsv")
        writer.append((Sentences([[5, 6, 7, 3], [5, 3]]), Sentences([[2, 8, 3], [2, 8, 8, 8, 8, 3]])), [2, 3])
    return folder


def test_a_score_has_its_interval_beside_it(run: Path) -> None:
    assert '<td class="number">23.64</td><td class="number">22.51 to 24.72</td>' in page(run)
    assert '<td class="number">0.4040</td><td class="number"></td>' in page(run)


def test_what_the_doctor_found_later_stands_there_with_the_most_suspicious_pairs(run: Path) -> None:
    pair = {"file": "a.tsv", "line": 7, "source": "<b>你好", "target": "Bye", "reasons": ["unrelated"], "score": 3.0}
    diagnosis = {"files": {"a.tsv": 9}, "is_quick": False, "remarks": [], "findings": [], "suspicious": [pair] * 50}
    (run / "doctor.json").write_text(json.dumps(diagnosis), encoding="utf-8")
    written = page(run)
    assert "The 50 most suspicious pairs" in written and written.count("a.tsv:7") == 50
    assert "&lt;b&gt;你好" in written and "quick checks" not in written
    (run / "doctor.json").write_text(json.dumps({**diagnosis, "is_quick": True}), encoding="utf-8")
    assert "by the quick checks of a.tsv" in page(run) and "looks closer" in page(run)


def test_the_metrics_of_any_task_have_curves_and_the_one_that_leads_stands_at_the_top(run: Path) -> None:
    (run / "scores.json").unlink()
    (run / "details.json").write_text('{"recipe": []}')
    (run / "config.toml").write_text('task = "language-model"\n[training]\nselect_by = "perplexity"\n')
    rows = [
        {"step": step, "epoch": step / 1000, "valid_loss": 9 / step, "valid_perplexity": 90 / step} for step in (1, 2)
    ]
    write_lines(run / "metrics.jsonl", [{"step": 1, "loss": 2.0, "characters_per_second": 70.0}, *rows])
    write_lines(run / "samples.jsonl", [{"step": step, "samples": [{"text": "to be"}]} for step in (1, 2)])
    written = page(run)
    assert "best perplexity at validation, step 2" in seen(written) and "Validation perplexity" in written
    assert '<td dir="auto" data-label="Text">to be</td>' in written and "How samples changed" not in written
    assert "characters per second" in written and "BLEU" not in written and "label smoothing" not in seen(written)


def test_another_metric_that_chooses_the_weights_has_a_curve_and_a_column(run: Path) -> None:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    with_chrf = [{**line, "valid_chrf": 44.44} if "valid_bleu" in line else line for line in lines]
    write_lines(run / "metrics.jsonl", with_chrf)
    written = page(run)
    assert "Validation chrF" in written and '<th class="number">chrF</th>' in written
    assert written.count('<td class="number">44.44</td>') == 3


def page(run: Path) -> str:
    return write_report(run).read_text(encoding="utf-8")


def seen(page: str) -> str:
    """What a reader sees: the text of the page without markup and style."""
    return " ".join(html.unescape(re.sub(r"<style>.*?</style>|<.*?>", "", page, flags=re.DOTALL)).split())


def headings(html: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", html)


def test_the_report_stands_in_the_run_folder_and_leaves_nothing_else(run):
    before = {path.name for path in run.iterdir()}
    assert write_report(run) == run / "report.html"
    assert {path.name for path in run.iterdir()} == before | {"report.html"}


def test_the_rate_of_a_fault_stands_beside_that_of_the_references(run):
    assert re.search(r"in a loop</th>\s*<td[^>]*>7</td><td[^>]*>3\.5%</td><td[^>]*>0\.5%</td>", page(run))


def test_scores_by_length_and_histograms_stand_there_in_numbers(run):
    written = page(run)
    assert (
        "at most 5 (1,200): sacreBLEU 31.2, chrF 50.0; 6 to 10 (30): sacreBLEU 20.4, chrF 40.1; 11 and more (0): ."
        in written
    )
    assert "at most 10: references 7, translations 11; 11 to 20: references 8, translations 12" in written
    assert "sentences, by chrF; at most 9: 3; 10 to 19: 4; 20 and more: 17." in written
    assert "by characters of the source" in written and "sentences, by words" in written


def test_the_histograms_of_the_training_texts_are_counted_from_the_prepared_corpus(run):
    """Sources of 4 and 2 ids, targets of 3 and 6; of the ids 3, 5, 6, 7 and 2, 3, 8 none occurs ten times."""
    written = page(run)
    assert "at most 1: source 0, target 0; 2 to 2: source 1, target 0; 3 to 3: source 0, target 1" in written
    assert "pieces, by their occurrences in the training texts; at most 9: source 4, target 3" in written
    (run / "corpus" / "source.ids").write_bytes(b"spoiled")
    assert "Lengths of the training texts" not in page(run)


def test_attention_and_positions_are_maps_and_large_ones_are_pictures(run):
    written = page(run)
    assert "Attention, chrF 61.2" in written and "▁Good: ▁好 90" in written and "data:image/png;base64," in written
    many = [f"piece{number}" for number in range(60)]
    large = {"source": many, "target": many, "chrf": 5.0, "weights": [[0.5] * 60] * 60}
    (run / "details.json").write_text(json.dumps({**DETAILS, "attention": [large]}))
    assert page(run).count('class="cell') == 0 and page(run).count("data:image/png;base64,") == 2


def test_what_differs_from_the_defaults_stands_with_value_default_and_origin(run):
    rows = re.findall(
        r'<th scope="row" dir="auto">([\w.]+)</th><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td>', page(run)
    )
    assert ("training.learning_rate", "0.0015", "0.001", "--set") in rows


def test_a_run_of_an_older_weft_has_the_sections_that_it_can_have(run):
    for name in ("details.json", "corpus/manifest.json", "checkpoints/step-3000/training.json"):
        (run / name).unlink()
    left_out = {"Length", "Best and worst sentences", "Attention", "Positions", "Machine and versions"}
    assert headings(page(run)) == [title for title, _ in SECTIONS if title not in left_out]


def test_a_chinese_report_is_chinese_throughout(run):
    written = write_report(run, "zh").read_text(encoding="utf-8")
    assert '<html lang="zh">' in written and headings(written) == [say_in("zh")(title) for title, _ in SECTIONS]
    for title in ("验证：BLEU", "23.64（在 2,000）", "不超过 5 (1,200)", "参考译文：", "蓝色为正"):
        assert title in written


def said_in(package: ModuleType) -> set[str]:
    """The texts that are given to `say` in the modules of a package."""
    said = set()
    for file in Path(package.__path__[0]).glob("*.py"):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "attr", getattr(call.func, "id", "")) == "say":
                texts = [part for part in ast.walk(call.args[0]) if isinstance(part, ast.Constant)]
                said |= {text.value for text in texts if isinstance(text.value, str)}
    return said


def test_every_text_of_the_figures_has_its_chinese():
    assert said_in(weft.figures) == figure_words("zh").words.keys()


def test_every_text_of_the_reports_has_its_chinese():
    chinese = say_in("zh").words
    said = said_in(weft.analysis)
    said |= {title for title, _ in SECTIONS} | {text for kind in KINDS.values() for text in (kind.title, kind.cost)}
    said |= set(FAULTS) | {name for texts in HISTOGRAMS for name in texts}
    proper = {"", "chrF", "chrf", "task", "title", "severity", "cost"}
    assert not said - chinese.keys() - proper
    fields = {english: (re.findall(r"{\w+}", english), re.findall(r"{\w+}", text)) for english, text in chinese.items()}
    assert not [english for english, (ours, theirs) in fields.items() if sorted(ours) != sorted(theirs)]


def test_a_report_of_a_large_run_stays_under_three_megabytes(run):
    write_lines(run / "metrics.jsonl", [step_line(step) for step in range(1, 30_001)])
    write_lines(run / "samples.jsonl", [sample_line(step, f"version {step}.", "same") for step in range(1, 1001)])
    many = [f"piece{number}" for number in range(300)]
    attention = {"source": many, "target": many, "chrf": 5.0, "weights": [[0.5] * 300] * 300}
    wide = [[math.sin(place * dimension) for dimension in range(256)] for place in range(64)]
    (run / "details.json").write_text(json.dumps({**DETAILS, "attention": [attention] * 3, "positions": wide}))
    assert len(page(run).encode()) < 3_000_000


def test_a_complete_run_has_every_section(run):
    assert headings(page(run)) == [title for title, _ in SECTIONS]


def test_the_header_says_what_was_trained_and_how_good_it_is(run):
    text = seen(page(run))
    assert "tiny zh-en translation · zh → en · transformer · finished" in text
    assert f"23.64 sacreBLEU on valid.tsv, 2,500 sentences {SIGNATURE}".replace(" ", "") in text.replace(" ", "")
    for fact in ("Steps 3,000", "Epochs 3.0", "Wall time 35 min 05 s", "Parameters 11,234,567"):
        assert fact.replace(" ", "") in text.replace(" ", "")


def test_the_speed_is_the_median_of_the_logged_steps(run):
    write_lines(run / "metrics.jsonl", [step_line(1) | {"target_tokens_per_second": v} for v in (1, 4000, 4100)])
    assert "<dd>4,000<small>target tokens per second, median" in page(run)


def test_without_an_evaluation_the_best_validation_stands_at_the_top_and_claims_no_signature(run):
    (run / "scores.json").unlink()
    text = seen(page(run))
    assert "23.64best BLEU at validation, step 2,000, epoch 2.0" in text
    assert "nrefs" not in text


def test_every_score_stands_beside_its_signature(run):
    html = page(run)
    assert re.search(r"bleu_1</th><td[^>]*>0.4040</td><td[^>]*></td><td[^>]*><code>words\|<wbr>corpus<", html)
    assert re.search(r"sacrebleu</th><td[^>]*>23.64</td><td[^>]*>22.51 to 24.72</td><td[^>]*><code>nrefs:1\|", html)
    assert "50.0 sentences per second" in html


def test_a_decoding_is_told_without_what_was_not_set_and_one_sentence_as_one(run):
    (evaluation,) = json.loads((run / "scores.json").read_text())
    evaluation["decoding"] |= {"top_k": None, "max_length": None, "word_reward": 0.0}
    (run / "scores.json").write_text(json.dumps([evaluation | {"sentences": 1}]))
    text = seen(page(run))
    assert "decoding: method beam, beam_size 3, word_reward 0.0intervals" in text
    assert "valid.tsv, 1 sentence" in text and "1 sentences," not in text


def test_the_newest_translations_stand_beside_source_and_reference_in_their_languages(run):
    html = page(run)
    table = html[html.index("<h2>Samples</h2>") :].partition("</table>")[0]
    assert '<td lang="zh" dir="auto" data-label="Source">他刚请假走了。</td>' in table
    assert "gone on leave." in table and "He has just left." in table
    assert "He just left." not in table


@pytest.mark.parametrize(("language", "tag"), [("zh_TW", "zh-tw"), ("cmn_Hans", "zh-hans"), ("yue", "yue")])
def test_a_browser_is_told_languages_as_it_knows_them(run, language, tag):
    (run / "config.toml").write_text(RECIPE.replace('source = "zh"', f'source = "{language}"'))
    assert f'<td lang="{tag}" dir="auto" data-label="Source">' in page(run)


def test_a_translation_that_stayed_the_same_is_told_once(run):
    text = seen(page(run))
    assert "step 1,000 Who is? step 2,000 to 3,000 Who died?".replace(" ", "") in text.replace(" ", "")


def test_of_many_versions_of_a_translation_the_first_the_last_and_ten_between_are_shown(run):
    write_lines(run / "samples.jsonl", [sample_line(step, f"version {step}.", "same") for step in range(1, 101)])
    html = page(run)
    changes = html[html.index('<table class="changes">') :].partition("</table>")[0]
    shown = [int(version) for version in re.findall(r"version (\d+)\.", changes)]
    assert shown == [1, 10, 19, 28, 37, 46, 55, 64, 73, 82, 91, 100]
    assert "12 of its 100 versions are shown" in changes


def test_what_the_quick_checks_found_in_the_corpus_stands_with_its_cost(run):
    text = seen(page(run))
    assert "Found by the quick checks of train.tsv (30,000 pairs)" in text
    assert "error" in text and "leaked pairs96 of test960.32%scores flatter".replace(" ", "") in text.replace(" ", "")


def test_a_corpus_in_which_nothing_was_found_is_said_to_be_so(run):
    (run / "doctor.json").write_text(json.dumps({"files": {"train.tsv": 3}, "findings": []}))
    assert "Nothing was found by the quick checks of train.tsv (3 pairs)" in seen(page(run))


def test_what_cleaning_removed_stands_with_its_rules_and_pairs_as_text(run):
    pairs = [{"file": "train.tsv", "line": n, "source": f"<b>{n}</b>", "target": "bold"} for n in (7, 9)]
    account = {"read": 500, "clean": 498, "removed": {"markup": 2}, "examples": {"markup": pairs}}
    (run / "corpus" / "account.json").write_text(json.dumps(account))
    assert "[cleaning] kept 498 of 500 pairs." in seen(page(run))
    assert "train.tsv:7 &lt;b&gt;7&lt;/b&gt; | bold" in page(run) and "train.tsv:9" in page(run)


def test_the_recipe_is_shown_as_it_is_with_its_comments(run):
    assert "learning_rate = 1.5e-3  # --set" in page(run)


def test_a_running_run_takes_its_recipe_from_the_best_checkpoint(run):
    checkpoint = run / "checkpoints" / "step-2000"
    checkpoint.mkdir(parents=True)
    (run / "config.toml").rename(checkpoint / "config.toml")
    assert "zh → en" in page(run)


def test_all_but_the_metrics_may_be_missing(run):
    for path in run.iterdir():
        if path.name != "metrics.jsonl":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    html = page(run)
    assert headings(html) == ["Curves", "Recipe"]
    assert "no checkpoint has been written yet" in html


def test_a_run_that_has_logged_nothing_has_a_report_that_says_so(run):
    (run / "metrics.jsonl").write_text("")
    assert "Nothing has been logged yet." in page(run)


@pytest.mark.parametrize("torn", [b'{"step": 3100, "lo', b'{"source": "\xe4\xbb'])
def test_a_torn_last_line_is_skipped(run, torn):
    whole = page(run)
    for name in ("metrics.jsonl", "samples.jsonl"):
        with (run / name).open("ab") as file:
            file.write(torn)
    assert page(run) == whole


def test_a_broken_line_in_the_middle_is_named(run):
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3100, "lo\n{}\n')
    with pytest.raises(RunError, match=r"metrics.jsonl, line 34 is not JSON"):
        write_report(run)


@pytest.mark.parametrize(("name", "content"), [("run.json", "[]"), ("run.json", "{"), ("scores.json", "{}")])
def test_a_broken_file_is_named_and_the_former_report_stays(run, name, content):
    former = page(run)
    (run / name).write_text(content)
    with pytest.raises(RunError, match=name):
        write_report(run)
    assert (run / "report.html").read_text(encoding="utf-8") == former


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("scores.json", "[1]"),
        ("scores.json", '[{"data": null, "scores": null}]'),
        ("scores.json", "[" * 100_000),
        ("samples.jsonl", '{"samples": [1]}\n'),
        ("samples.jsonl", '{"samples": null}\n'),
        ("doctor.json", '{"files": [1]}'),
        ("corpus/account.json", '{"removed": [1]}'),
        ("details.json", '{"buckets": []}'),
        ("details.json", '{"attention": [{"chrf": 1}]}'),
    ],
)
def test_json_of_another_shape_is_an_error_and_the_former_report_stays(run, name, content):
    former = page(run)
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).write_text(content)
    with pytest.raises(RunError, match=r"JSON"):
        write_report(run)
    assert (run / "report.html").read_text(encoding="utf-8") == former


@pytest.mark.parametrize("recipe", ["a = " + "[" * 10_000, "a = " + "1" * 5000])
def test_a_recipe_that_cannot_be_read_is_shown_as_it_is(run, recipe):
    (run / "config.toml").write_text(recipe)
    assert recipe in page(run)


def test_numbers_beyond_all_that_a_run_has_are_no_numbers(run):
    with (run / "metrics.jsonl").open("a") as file:
        file.write(f'{{"step": 3100, "loss": 1{"0" * 400}, "nll": 1e999}}\n')
    assert headings(page(run))[0] == "Curves"


def test_what_is_no_run_is_refused_with_what_was_expected(tmp_path):
    with pytest.raises(RunError, match=r"has no metrics.jsonl; expected a folder that `weft train` wrote"):
        write_report(tmp_path)
    with pytest.raises(RunError, match="there is no such folder"):
        write_report(tmp_path / "nowhere")


def test_text_of_users_is_never_markup(run):
    attack = "<script>alert('x')</script>\"&"
    write_lines(run / "samples.jsonl", [sample_line(step, attack + str(step), attack) for step in (1, 2)])
    (run / "config.toml").write_text(
        f"task = '''{attack}'''\n[data]\nsource = '{attack[:8]}\"onclick=\"x'\ntarget = 'en'\n"
    )
    evaluation = {"data": {attack: attack}, "decoding": {attack: attack}, "scores": {attack: {"signature": attack}}}
    evaluation["faults"] = {attack: {}}
    row = {"source": attack, "reference": attack, "hypothesis": attack + "\x00\x1b[31m", "chrf": attack}
    attention = {"source": [attack], "target": [attack], "chrf": attack, "weights": [[1]]}
    hostile = {**DETAILS, "best": [row], "worst": [row], "attention": [attention]}
    (run / "details.json").write_text(json.dumps(hostile))
    (run / "scores.json").write_text(json.dumps([evaluation]))
    renamed = run.rename(run.with_name("<script>alert(1)<&>"))
    html = page(renamed)
    assert "<script" not in html
    assert 'onclick="' not in html
    assert html.count("&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&quot;&amp;") >= 6


def test_half_a_surrogate_pair_in_a_translation_does_not_lose_the_report(run):
    (run / "samples.jsonl").write_text('{"step": 1, "samples": [{"source": "a", "hypothesis": "\\ud83d"}]}\n')
    assert "Samples" in headings(page(run))


def test_the_report_asks_nothing_of_the_network(run):
    html = page(run)
    html = html + write_report(run, "zh").read_text(encoding="utf-8")
    assert set(re.findall(r"\w+://[^\"'\s<)]+", html)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<script|<link|<img|<iframe|@import|url\(|\bsrc=", html)


def test_a_table_of_scores_that_is_wider_than_a_phone_scrolls_by_itself(run):
    assert '<div class="scroll"><table class="scores">' in page(run)


def test_on_paper_where_nobody_can_scroll_nothing_is_cut(run):
    on_paper = page(run).partition("@media print")[2].partition("</style>")[0]
    assert ".scroll { overflow: visible; }" in on_paper and ".scroll svg { max-width: 100%; height: auto; }" in on_paper


def test_each_curve_is_well_formed_and_told_to_those_who_cannot_see_it(run):
    figures = re.findall(r"<svg.*?</svg>", page(run), flags=re.DOTALL)
    assert len(figures) == 6 + 3 + 2 + 2  # curves, lengths, attention and positions, training texts
    descriptions = [ElementTree.fromstring(figure).findtext("{*}desc") or "" for figure in figures]
    assert "validation: 3 points" in descriptions[0]
    assert "highest 23.64 at 2,000, last 23.1" in descriptions[1]


def test_a_loss_that_is_no_number_is_a_gap(run):
    write_lines(run / "metrics.jsonl", [step_line(1), step_line(2) | {"loss": math.nan}, step_line(3) | {"loss": None}])
    assert "training, with label smoothing: 1 point," in page(run)


def test_the_same_run_gives_the_same_page_at_any_time(run, monkeypatch):
    before = page(run)
    monkeypatch.setattr("time.time", lambda: 4e9)
    assert page(run) == before


def test_the_verb_prints_where_the_report_is(run, capsys):
    from weft.cli.report import report

    report([run])
    captured = capsys.readouterr()
    assert captured.out == f"{run / 'report.html'}\n"
    assert captured.err == ""


def test_a_report_needs_no_torch(run):
    program = "import sys, weft.analysis.report as room; room.write_report(sys.argv[1]); print('torch' in sys.modules)"
    finished = subprocess.run([sys.executable, "-c", program, run], capture_output=True, text=True, check=True)
    assert finished.stdout == "False\n"


def test_the_curves_are_pictures_and_a_table_of_their_numbers(run, tmp_path):
    written = write_figures(run, tmp_path / "figures")
    names = {"loss", "bleu", "accuracy", "learning-rate", "gradient-norm", "speed"}
    assert {path.stem for path in written if path.suffix == ".svg"} == names
    header, first, *rows = (tmp_path / "figures" / "curves.csv").read_text(encoding="utf-8").splitlines()
    assert header.split(",")[:4] == ["step", "epoch", "loss", "nll"] and first.split(",")[0] == "100"
    assert len(rows) == 32 and all(row.count(",") == header.count(",") for row in rows)
    assert "1,000 in an epoch" in (tmp_path / "figures" / "bleu.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("values", "metric", "beyond"),
    [
        ([99.0, 100.0], "bleu", "125"),
        ([0.0, 0.0], "bleu", "−"),
        ([0.98, 1.0], "accuracy", "1.2"),
        ([0.02, 0.01], "loss", "−"),
        ([7.0, 0.1], "loss", "−"),
        ([50.0, 60.0], "chrf", "−"),
    ],
)
def test_no_axis_shows_what_cannot_be(run, values, metric, beyond):
    lines = [{"step": step, "epoch": 1.0, f"valid_{metric}": value} for step, value in enumerate(values, start=1)]
    write_lines(run / "metrics.jsonl", lines)
    chart = charts(read_run(run))[metric]
    labels = re.findall(r'text-anchor="end">([^<]*)</text>', chart)
    assert labels and not any(label.startswith(beyond) for label in labels)
    notes = [float(y) for y in re.findall(r'class="note" x="[^"]*" y="([^"]*)"', chart)]
    assert notes and all(50 < y < 280 - 36 for y in notes)


def test_a_decoding_tells_only_what_is_in_use(run):
    evaluation = json.loads((run / "scores.json").read_text(encoding="utf-8"))[0]
    evaluation["decoding_in_use"] = "method greedy"
    (run / "scores.json").write_text(json.dumps([evaluation]), encoding="utf-8")
    page = write_report(run).read_text(encoding="utf-8")
    assert "decoding: method greedy<" in page and "beam_size" not in page.partition("<pre>")[0]


def test_the_machine_of_a_run_stands_among_its_facts(run):
    page = write_report(run).read_text(encoding="utf-8")
    assert "A &lt;fast&gt; one<small>cpu, 1 thread, torch 2.13.0</small>" in page
