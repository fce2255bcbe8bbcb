"""What a study says: verdicts, claims and a paragraph; and an ablation from the command line."""

import json
import math
import re
import shutil
from pathlib import Path

import pytest
from tests.command_line import Weft
from tests.tuning.conftest import RATES

from weft.config import changed, render, resolve
from weft.config.recipe import parse_toml
from weft.folders.recipes import TranslationRecipe
from weft.metrics.verdicts import Kind, Verdict
from weft.tuning.judging import agreement, claims, judged
from weft.tuning.opening import open_study
from weft.tuning.results import cost_shown, paragraph, tables
from weft.tuning.settings import ClaimConfig
from weft.tuning.study import Study
from weft.tuning.working import work

CLAIMS = """
[[claims]]
says = "a higher rate learns faster"
source = "somebody"
better = { "training.learning_rate" = 1e-2, "decoding.beam_size" = 1 }
worse = { "training.learning_rate" = 1e-3, "decoding.beam_size" = 1 }
[[claims]]
says = "the beam does not matter"
equal = [
  { "training.learning_rate" = 1e-2, "decoding.beam_size" = 1 },
  { "training.learning_rate" = 1e-2, "decoding.beam_size" = 2 },
]
"""


@pytest.fixture(scope="module")
def claimed(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A finished study with claims, and with enough pairs to validate on for a bootstrap."""
    folder = tmp_path_factory.mktemp("claims")
    shutil.copy(tiny_run / "tiny.toml", folder)
    header, *rows = (tiny_run / "train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "train.tsv").write_text("".join([header, *rows]), encoding="utf-8")
    (folder / "valid.tsv").write_text("".join([header, *rows[::2]]), encoding="utf-8")
    (folder / "rates.toml").write_text(f'margin = 50\nmetric = "chrf"\n{RATES}{CLAIMS}', encoding="utf-8")
    study = open_study(folder / "rates.toml", folder=folder / "study")
    work(study)
    return study


def test_every_cell_but_the_baseline_has_a_verdict_over_seeds_and_sentences(claimed: Study) -> None:
    found = judged(claimed)
    assert len(found.cells) == 4 and len(found.verdicts) == 3
    assert found.baseline is not None and found.verdict(found.baseline) is None
    assert found.sentences == len(claimed.valid("choose")) >= 10
    assert found.noise.apart.df == 2  # 2 rates x (2 seeds - 1): the two beams share their runs
    assert found.noise.shared.df == 2  # (2 beams - 1) x (2 seeds - 1), for each rate


def test_a_claim_is_judged_by_the_two_cells_that_it_names(claimed: Study) -> None:
    higher, beam = claims(claimed, judged(claimed))
    assert higher.verdict is not None and beam.verdict is not None
    greedy = [cell for cell in claimed.cells() if cell.values["decoding.beam_size"] == 1]
    values = {cell.values["training.learning_rate"]: claimed.values(cell) for cell in greedy}
    means = {rate: sum(of.values()) / 2 for rate, of in values.items()}
    assert higher.verdict.difference == pytest.approx(means[1e-2] - means[1e-3])
    assert beam.agreement == "agrees"  # they differ by less than 50 chrF


@pytest.mark.parametrize(
    ("interval", "kind", "expected"),
    [
        ((0.01, 0.05), "no larger difference", "agrees"),
        ((0.047, 0.093), "better", "cannot tell"),  # it may differ by less than the margin
        ((-0.093, -0.047), "worse", "cannot tell"),
        ((0.081, 0.12), "better", "contradicts"),
        ((-0.12, -0.081), "worse", "contradicts"),
        ((-0.2, 0.2), "cannot tell", "cannot tell"),
    ],
)
def test_equal_cells_contradict_their_claim_if_they_surely_differ_by_more_than_the_margin(
    interval: tuple[float, float], kind: Kind, expected: str
) -> None:
    claim = ClaimConfig(says="equal", equal=({"a": 1}, {"a": 2}))
    verdict = Verdict("a", 5.0, sum(interval) / 2, interval, 0.01, kind, 0.1, 0.1)
    assert agreement(claim, verdict, 0.08) == expected


def test_tables_and_paragraph_say_the_same_in_both_languages(claimed: Study) -> None:
    english, chinese = (tables(claimed, language) for language in ("en", "zh"))
    assert [len(table.rows) for table in english] == [len(table.rows) for table in chinese] == [4, 2]
    assert english[0].header[-1] == "verdict" and chinese[0].header[-1] == "结论"
    assert [len([*table.notes]) for table in english] == [len([*table.notes]) for table in chinese]
    assert "in 4 settings with 2 seeds each" in paragraph(claimed)
    assert "共 4 种设置，每种 2 个种子" in paragraph(claimed, "zh")
    for table in english:
        assert all(len(line) <= 80 for line in table.text().splitlines())


def test_a_small_cost_has_digits_and_a_missing_one_nothing() -> None:
    assert [*map(cost_shown, (math.nan, 0.523, 12.6, 1234.0))] == ["", "0.52", "13", "1,234"]


def test_a_worker_leaves_the_tables_to_the_process_that_started_it_and_stops_with_it(
    weft: Weft, claimed: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched: list[int] = []
    monkeypatch.setattr("weft.training.signals.stop_with_parent", watched.append)
    assert weft("tune", str(claimed.folder), "--worker", "7") == (0, "", "") and watched == [7]


def test_threads_for_a_study_that_has_others_are_said_to_have_no_effect(
    weft: Weft, claimed: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = claimed.base.recipe.training.threads or 1
    monkeypatch.setenv("OMP_NUM_THREADS", "")  # --threads sets it
    for others, is_told in ((threads, False), (threads + 3, True)):
        monkeypatch.setattr("weft.runtime.choose_threads", lambda others=others: others)
        exit_code, _, error = weft("tune", str(claimed.folder), "--threads", str(others))
        assert exit_code == 0
        assert ("chosen when it was made; --threads has no effect" in error) == is_told


def test_an_ablation_is_a_study_with_a_verdict_for_each_key(
    weft: Weft, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(corpus)
    monkeypatch.setattr("weft.tuning.hours.TRIAL_SECONDS", 0.2)
    changes = ("--without", "model.dropout", "--with", "model.norm=post")
    assert weft("ablate", "tiny.toml", *changes, "--margin", "-1")[0] == 2
    assert not (corpus / "studies/tiny-ablation.toml").exists()
    exit_code, out, error = weft("ablate", "tiny.toml", *changes, "--seeds", "2", "--steps", "3", "--plan")
    assert exit_code == 0 and "trials       6, of which 0 are done" in out, error
    exit_code, out, error = weft(
        "ablate", "tiny.toml", *changes, "--seeds", "2", "--steps", "3", "--json", "found.json"
    )
    assert exit_code == 0, error
    found = json.loads((corpus / "found.json").read_text(encoding="utf-8"))
    assert {cell["cell"]["arm"] for cell in found["cells"]} == {
        "as it is",
        "without model.dropout",
        'model.norm = "post"',
    }
    assert found["baseline"] == {} and "baseline" in out
    assert "BLEU is 0 in every run and tells nothing" in out
    assert (corpus / "studies/tiny-ablation.toml").is_file()
    for verb, file, other in (("train", "studies/tiny-ablation.toml", "tune"), ("tune", "tiny.toml", "train")):
        exit_code, _, error = weft(verb, file)
        assert exit_code == 2 and f"weft {other} {file} trains it" in error
    exit_code, _, error = weft("ablate", "tiny.toml", "--without", "model.norm")
    assert exit_code == 2 and "--without model.norm: no value turns this key off; try --with model.norm=VALUE" in error
    exit_code, _, error = weft("ablate", "tiny.toml", "--with", "cleaning={leaks=true}")
    assert exit_code == 2 and "--with cleaning: is a table of keys; give one of them" in error
    exit_code, _, error = weft("ablate", "tiny.toml", "--with", "model.norm=pots")
    assert exit_code == 2 and "  --with model.norm=pots  expected one of pre, post" in error
    before = (corpus / "studies/tiny-ablation.toml").read_text(encoding="utf-8")
    exit_code, _, error = weft("ablate", "tiny.toml", *changes, "--seeds", "1", "--steps", "3")
    assert exit_code == 1 and "holds another study" in error
    command = ("ablate", "tiny.toml", *changes, "--seeds", "1", "--steps", "3", "--plan")
    exit_code, _, error = weft(*command, *re.findall(r"(--study) (\S+)", error)[0])
    assert exit_code == 0 and (corpus / "studies/tiny-ablation-2.toml").is_file(), error
    assert (corpus / "studies/tiny-ablation.toml").read_text(encoding="utf-8") == before
    (corpus / "studies/tiny-ablation").rename(corpus / "moved")  # the recipe has another path from there
    command = ("ablate", "tiny.toml", *changes, "--seeds", "2", "--steps", "3", "--study", "moved", "--plan")
    exit_code, out, error = weft(*command)
    assert exit_code == 0 and "trials       6, of which 6 are done" in out, error


def test_a_bisection_between_two_recipes_names_the_key_that_did_it(
    weft: Weft, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(corpus)
    text = Path("tiny.toml").read_text(encoding="utf-8")
    well = resolve(parse_toml(text, "tiny.toml"), TranslationRecipe, "tiny.toml")
    well = changed(well, {"training.select_by": "loss", "training.learning_rate": 1e-2}, "a test")
    sick = {"training.learning_rate": 1e-9, "training.clip_norm": 2.0, "training.label_smoothing": 0.01}
    for name, recipe in (("well", well), ("sick", changed(well, sick, "a test"))):
        Path(f"{name}.toml").write_text(render(recipe), encoding="utf-8")
    command = ("ablate", "sick.toml", "well.toml", "--bisect", "--seeds", "2", "--steps", "8")
    exit_code, out, error = weft(*command)
    assert exit_code == 0, error
    assert re.match(r"training.learning_rate alone makes \d+% of the difference of sick and well \([12] mixed", out)
    assert weft(*command)[:2] == (0, out)  # nothing is trained again
