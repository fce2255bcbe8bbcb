"""The grids of bench/: every variant can be trained, and the table says what the lines say."""

import argparse
import math
from pathlib import Path
from typing import Any, get_args

import pytest
from bench.grids import GRIDS
from bench.machine import spread
from bench.tables import gain, mean_curve, table, where_trained, with_error
from bench.training import last_sessions
from bench.training import table as training_table
from bench.variants import Variant, variants_of

from bench import choices, machine
from weft.config import read_recipe
from weft.data.augmentation import AugmentationConfig
from weft.folders.recipes import TranslationRecipe
from weft.text.kinds import Kind

EVERY_GRID = pytest.mark.parametrize("grid", GRIDS)


def finished(variant: Variant, seed: int, bleu: float) -> dict[str, Any]:
    """A line as choices.py writes it, with this score."""
    return {
        **variant.facts(),
        "seed": seed,
        "device": "cpu",
        "scores": {"sacrebleu": bleu, "chrf": 2 * bleu},
        "signatures": {"sacrebleu": "nrefs:1", "chrf": "nc:6"},
        "greedy_sacrebleu": bleu - 1,
        "valid_loss": 2.5,
        "valid_accuracy": 0.5,
        "target_tokens": 5_130_000,
        "steps": 1378,
        "parameters": 11_500_000,
    }


@EVERY_GRID
def test_every_variant_is_a_recipe(grid: str) -> None:
    for variant in variants_of(grid):
        read_recipe(machine.ROOT / variant.base, TranslationRecipe, variant.overrides)


def test_a_translation_repeats_if_it_has_the_same_three_words_in_a_row_twice() -> None:
    texts = ["a b c a b c", "a b c a b d", "a a a a", "a b", "a b c b c a b c"]
    assert [choices.share_that_repeats([text]) for text in texts] == [1, 0, 1, 0, 1]
    assert choices.share_that_repeats(texts) == 3 / 5


@EVERY_GRID
def test_no_two_variants_are_the_same(grid: str) -> None:
    overrides = [tuple(sorted(variant)) for variant in GRIDS[grid]["variants"].values()]
    assert len(set(overrides)) == len(overrides)


def test_a_line_of_an_older_grid_belongs_nowhere() -> None:
    variant = variants_of("choices")[0]
    line = finished(variant, 1, 20.0)
    assert variant.owns_run(line)
    for key, value in (("base_sha256", "0"), ("overrides", ["training.clip_norm=2"]), ("budget", {"steps": 1})):
        assert not variant.owns_run({**line, key: value})


def test_a_run_of_another_grid_is_the_same_run_where_all_but_the_names_is_the_same() -> None:
    first, other = variants_of("augmentation")[:2]
    line = finished(variants_of("choices")[0], 1, 20.0)
    assert first.is_run_by(line) and not first.owns_run(line) and not other.is_run_by(line)


@EVERY_GRID
def test_every_committed_line_belongs_to_a_variant(grid: str) -> None:
    variants = variants_of(grid)
    for line in machine.read_lines(machine.RESULTS / f"{grid}.jsonl"):
        assert any(variant.owns(line) for variant in variants), line["name"]


def test_every_kind_of_pieces_is_tried() -> None:
    tried = {override for variant in GRIDS["pieces"]["variants"].values() for override in variant}
    # bpe is the base's, and Chinese has no white space between words.
    assert set(get_args(Kind)) - {each.removeprefix("tokenizer.kind=") for each in tried} == {"bpe", "whitespace"}


def test_every_noise_is_tried() -> None:
    tried = {override for variant in GRIDS["augmentation"]["variants"].values() for override in variant}
    noises = [name for name, field in AugmentationConfig.model_fields.items() if field.annotation is float]
    assert "joining" in noises
    for noise in noises:
        assert any(override.startswith(f"augmentation.{noise}=") for override in tried), noise


def test_a_grid_is_a_study_and_its_trials_are_lines(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choices, "ROOT", tmp_path)
    monkeypatch.setitem(GRIDS, "tiny", {"validations": 1, "curves": True})
    base, budget = str(tiny_run / "tiny.toml"), {"steps": 2}
    variants = [
        Variant("tiny", name, None, overrides, base, "0", budget)
        for name, overrides in (("base", ()), ("plateau", ("training.validate_every=1 steps", "model.norm=post")))
    ]
    options = argparse.Namespace(data=tiny_run, threads=1, jobs=1, seeds=None)
    path = tmp_path / "tiny.jsonl"
    assert choices.run_missing(variants, [1, 2], path, options) == 0
    lines = machine.read_lines(path)
    assert [(line["name"], line["seed"]) for line in lines] == [
        ("base", 1),
        ("plateau", 1),
        ("base", 2),
        ("plateau", 2),
    ]
    assert all(line["steps"] == 2 and line["scores"].keys() >= {"sacrebleu", "chrf"} for line in lines)
    assert not any((tmp_path / "runs" / "grids").glob("*/"))


def test_the_gain_is_taken_on_the_seeds_that_both_have() -> None:
    base, variant = variants_of("choices")[:2]
    ours = [finished(variant, seed, bleu) for seed, bleu in ((1, 21.0), (2, 23.0))]
    theirs = [finished(base, seed, bleu) for seed, bleu in ((1, 20.0), (2, 20.0), (3, 90.0))]
    assert gain(ours, theirs) == "+2.00 ± 1.00"  # 21 and 23: a standard error of 1; 20 and 20: of 0
    assert gain(ours[:1], theirs) == "+1.00"
    assert gain(ours, []) == ""


def test_a_mean_has_its_standard_error() -> None:
    assert with_error([1.0, 2.0, 3.0], ".3f") == f"2.000 ± {1 / math.sqrt(3):.3f}"
    assert with_error([2.0], ".1f") == "2.0"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_table_shows_what_has_run(language: str) -> None:
    base, variant = variants_of("choices")[:2]
    lines = [finished(base, 1, 20.0), finished(variant, 1, 20.5)]
    speed = {"undisturbed": True, "target_tokens_per_second": 6300.4, "threads": 2, "seconds": 30.2}
    where = {"native bf16": "no", "processor": "a small one", "torch": "2.13", "commit": "abc", "date": "today"}
    lines.append({**variant.facts(), **speed, **where})
    lines.append({**base.facts(), "undisturbed": False, "target_tokens_per_second": 1.0})
    rows = table("choices", lines, language).split("\n")
    assert rows[2] == "| `base` | 20.00 |  | 19.00 | 2.500 | 50.0 | 11.5 M |  |"
    assert rows[3] == f"| `{variant.name}` | 20.50 | +0.50 | 19.50 | 2.500 | 50.0 | 11.5 M | 6,300 |"
    assert rows[4] == ""
    assert "fp32" in rows[-1] and "a small one" in rows[-1]


@pytest.mark.parametrize(
    ("language", "budget", "signatures"),
    [("en", "6.6 epochs", "`nrefs:1`, `nc:6`"), ("zh", "6.6 轮", "`nrefs:1`、`nc:6`")],
)
def test_across_pieces_the_table_shows_what_a_run_took_instead_of_its_loss(
    language: str, budget: str, signatures: str
) -> None:
    base, variant = variants_of("pieces")[:2]
    text = table("pieces", [finished(base, 1, 20.0), finished(variant, 1, 19.0)], language)
    rows = text.split("\n")
    assert rows[3] == f"| `{variant.name}` | 19.00 | -1.00 | 18.00 | 38.00 | 5.13 M | 1,378 | 11.5 M |  |"
    assert budget in text and signatures in text


def test_curves_are_averaged_where_all_of_them_are() -> None:
    assert mean_curve([[[20, 4.0], [40, 3.0]], [[20, 2.0], [40, 2.0], [60, 1.0]]]) == ([20.0, 40.0], [3.0, 2.5])


def test_ratios_are_taken_within_a_round() -> None:
    session = {"processor": "p", "device": "cpu", "commit": "c", "date": "d"}
    trained = {**session, "seconds": 60, "threads": 2, "torch": "2", "others_cpu": 0.01}
    lines: list[dict[str, Any]] = []
    for number, (weft, eole, gflops) in enumerate([(4000, 1000, 100.0), (2000, 1000, 50.0), (9000, 3000, 180.0)], 1):
        lines.append({**session, "round": number, "peak": "fp32", "gflops": gflops})
        for system, speed in (("weft", weft), ("eole", eole)):
            figures = {"target_tokens_per_second": speed, "multiply_adds_a_target_token": 5_000_000}
            lines.append({**trained, "round": number, "system": system, "precision": "fp32", **figures})
    rows = training_table(lines, "en").split("\n")
    # 4000 tokens x 2 x 5 million operations are 40 GFLOP/s: 40 % of 100; then 20 of 50, 90 of 180.
    assert rows[2].endswith("| 4,000 [2,000, 9,000] | – | – | 1.00 [1.00, 1.00] | 40% [40%, 50%] |")
    assert rows[3] == "| eole | fp32 | 1,000 [1,000, 3,000] | – | – | 3.00 [2.00, 4.00] | – |"


def test_the_last_sessions_on_cpus_with_bf16_and_without_and_that_on_each_gpu_are_shown() -> None:
    measured = [("cpu", "yes", 1), ("H", "yes", 2), ("cpu", "yes", 3), ("H", "yes", 2), ("cpu", "no", 4)]
    lines = [{"device": device, "native bf16": bf16, "session": session} for device, bf16, session in measured]
    assert last_sessions(lines) == [[lines[2]], [lines[4]], [lines[1], lines[3]]]
    with pytest.raises(SystemExit, match="no measurement yet"):
        last_sessions([])


def test_one_round_has_no_spread() -> None:
    assert spread([2.0], ".1f") == "2.0" and spread([3.0, 1.0, 2.0], ".0f") == "2 [1, 3]"


@pytest.mark.parametrize(
    ("language", "said"), [("en", "On an H100: `b`, `c`."), ("zh", "在 H100 上训练的：`b`、`c`。")]
)
def test_rows_that_a_gpu_has_trained_are_named(language: str, said: str) -> None:
    lines = [
        {"name": name, "device": device} for name, device in (("a", "cpu"), ("b", "H100"), ("c", "H100"), ("b", "H100"))
    ]
    assert where_trained(lines, language).strip() == said
    assert where_trained(lines[:1], language) == ""


def test_a_page_is_filled_between_its_markers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    page = tmp_path / "docs" / "en" / "page.md"
    page.parent.mkdir(parents=True)
    page.write_text("before\n<!-- t -->\n\nold\n\n<!-- end of t -->\nafter\n", encoding="utf-8")
    machine.fill_page("page.md", "t", {"en": "new"})
    assert page.read_text(encoding="utf-8") == "before\n<!-- t -->\n\nnew\n\n<!-- end of t -->\nafter\n"
    with pytest.raises(SystemExit, match="no place for u"):
        machine.fill_page("page.md", "u", {"en": "new"})
