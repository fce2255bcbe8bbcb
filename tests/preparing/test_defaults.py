"""What weft chooses where a recipe says nothing: smooth in the number of pairs, fitting to what the recipe does say."""

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.watching import Watcher, tiny_recipe

from weft.config import Resolved, changed, read_recipe, resolve
from weft.errors import RecipeError, RunError, Stopped
from weft.folders.model_folder import read_config
from weft.folders.recipes import TranslationRecipe
from weft.models.transformer import TransformerConfig
from weft.preparing.defaults import OWN_RATES, TABLE, Size, choose_open_settings, choose_smaller, size_for
from weft.runs.train import train

ROOT = Path(__file__).parents[2]
RECIPES = [
    path.name
    for path in sorted((ROOT / "recipes").glob("*.toml"))
    if 'task = "translation"' in path.read_text(encoding="utf-8")
]
DATA = {"source": "zh", "target": "en", "train": ["train.tsv"], "valid": ["valid.tsv"]}


def recipe(**tables: dict[str, Any]) -> Resolved[TranslationRecipe]:
    return resolve({"data": DATA, **tables}, TranslationRecipe, "the recipe of a test")


# The table


def test_a_corpus_of_the_size_of_a_row_gets_what_the_row_says() -> None:
    assert [size_for(row.pairs) for row in TABLE] == TABLE


def test_beyond_the_ends_of_the_table_its_ends_count() -> None:
    first, last = (vars(row) for row in (TABLE[0], TABLE[-1]))
    for pairs in (0, 1, 999):
        assert vars(size_for(pairs)) == {**first, "pairs": pairs}
    assert vars(size_for(10**9)) == {**last, "pairs": 10**9}


def test_between_two_rows_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Size(10_000, 4_000, 3, 256, 0.3, 2_048, 2e-3, 80), Size(1_000_000, 16_000, 6, 512, 0.1, 8_192, 1e-3, 20)]
    monkeypatch.setattr("weft.preparing.defaults.TABLE", rows)
    # Ten times the one and a tenth of the other: roots of products, but for layers and dropout, which are differences.
    assert size_for(100_000) == Size(
        pairs=100_000,
        vocabulary=8_000,
        layers=4,  # 4.5, to the even number
        model_dim=384,  # 362, to a multiple of 128
        dropout=0.2,
        batch_tokens=4_096,
        learning_rate=1.4e-3,  # 1.414e-3, to two digits
        epochs=40,
    )


def test_every_column_goes_one_way() -> None:
    sizes = [size_for(int(pairs)) for pairs in np.geomspace(500, 2e7, 400)]
    for column in ("vocabulary", "layers", "model_dim", "batch_tokens"):
        assert (np.diff([getattr(size, column) for size in sizes]) >= 0).all(), column
    for column in ("dropout", "learning_rate", "epochs"):
        assert (np.diff([getattr(size, column) for size in sizes]) <= 0).all(), column


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_guide_shows_the_table(language: str) -> None:
    text = (ROOT / "docs" / language / "recipes.md").read_text(encoding="utf-8")
    cells = [re.findall(r"[\d.,]+", line) for line in text.splitlines() if re.match(r"\| [\d,]+ \| [\d,]+ \| \d", line)]
    shown = [[float(cell.replace(",", "")) for cell in row] for row in cells]
    assert shown == [
        [s.pairs, s.vocabulary, s.layers, s.model_dim, s.dropout, s.batch_tokens, s.learning_rate, s.epochs]
        for s in TABLE
    ]


# What a recipe leaves open


def test_a_recipe_of_nothing_but_data_gets_all_of_it() -> None:
    size = size_for(20_000)
    assert choose_open_settings(recipe(), 20_000) == {
        "tokenizer.source_size": size.vocabulary,
        "tokenizer.target_size": size.vocabulary,
        "model.model_dim": size.model_dim,
        "model.num_heads": size.model_dim // 64,
        "model.encoder_layers": size.layers,
        "model.decoder_layers": size.layers,
        "model.ff_dim": 4 * size.model_dim,
        "model.dropout": size.dropout,
        "model.positions": "rotary",
        "training.batch_tokens": size.batch_tokens,
        "training.optimizer": "muon",
        "training.learning_rate": 2 * size.learning_rate,
        "training.epochs": size.epochs,
    }


def test_what_a_recipe_gives_stays_even_where_it_is_the_default() -> None:
    given = recipe(model={"model_dim": 256, "dropout": 0.1}, training={"epochs": 20}, tokenizer={"target_size": 700})
    chosen = choose_open_settings(given, 50_000)
    assert not chosen.keys() & {"model.model_dim", "model.dropout", "training.epochs", "tokenizer.target_size"}
    assert chosen["model.num_heads"] == 4 and chosen["model.ff_dim"] == 1024  # of the width that is given


def test_a_width_that_is_given_changes_the_rate_by_its_root() -> None:
    size = size_for(50_000)
    given = recipe(model={"model_dim": 4 * size.model_dim}, training={"optimizer": "adamw"})
    assert choose_open_settings(given, 50_000)["training.learning_rate"] == pytest.approx(size.learning_rate / 2)


# What a budget changes of that


@pytest.mark.parametrize("row", TABLE, ids=lambda row: str(row.pairs))
def test_with_time_for_all_epochs_a_size_is_what_it_was(row: Size) -> None:
    assert row.hurried(1.0) == row


def test_with_time_for_a_64th_of_the_epochs_width_and_layers_are_halved() -> None:
    hurried = size_for(5_000).hurried(1 / 64)  # parameters and tokens have an 8th each, and an 8th is 1/2 * 1/2 ** 2
    assert (hurried.layers, hurried.model_dim, hurried.dropout) == (2, 128, 0.11)  # 3 / 2 and 0.3 / 64 ** 0.25, rounded
    assert hurried.learning_rate == pytest.approx(1.5e-3 * 2**0.5)
    assert (hurried.epochs, hurried.vocabulary, hurried.batch_tokens) == (100, 2_000, 2_048)


@pytest.mark.parametrize("pairs", [300, 47_500, 3_000_000])
def test_where_hardly_a_step_fits_some_dropout_is_left_for_r_drop(pairs: int) -> None:
    for share in (0.0, 1e-9):
        hurried = size_for(pairs).hurried(share)
        assert (hurried.layers, hurried.dropout) == (1, 0.01)


def smaller(given: Resolved[TranslationRecipe], epochs: float) -> dict[str, Any]:
    chosen = changed(given, choose_open_settings(given, 5_000), "corpus").recipe
    return choose_smaller(given, chosen, 5_000, epochs)[0]


def test_a_budget_that_leaves_a_64th_of_the_epochs_changes_the_model_and_nothing_else() -> None:
    assert smaller(recipe(), 100 / 64) == {
        **{"model.model_dim": 128, "model.num_heads": 2, "model.ff_dim": 512, "model.dropout": 0.11},
        **{"model.encoder_layers": 2, "model.decoder_layers": 2, "training.learning_rate": 0.0042},
    }


def test_a_model_is_called_smaller_only_if_it_is() -> None:
    for model, is_smaller in (({}, True), ({"model_dim": 256, "encoder_layers": 3, "decoder_layers": 3}, False)):
        given = recipe(model=model)
        chosen = changed(given, choose_open_settings(given, 5_000), "corpus").recipe
        settings, message = choose_smaller(given, chosen, 5_000, 1)
        assert "model.dropout" in settings and ("a smaller model" in message) is is_smaller


def test_half_of_the_epochs_are_enough() -> None:
    assert smaller(recipe(), 50) == {} != smaller(recipe(), 49)


def test_a_model_whose_size_is_given_stays_as_it_is_whatever_the_budget() -> None:
    sizes = {"model_dim": 256, "encoder_layers": 3, "decoder_layers": 3, "ff_dim": 1024, "dropout": 0.3}
    assert smaller(recipe(model=sizes, training={"learning_rate": 1e-3}), 1) == {}
    assert smaller(recipe(training={"init": "zh-en"}), 1) == {}
    assert smaller(recipe(model={"kind": "recurrent"}), 1) == {}  # whose sizes are not chosen


@pytest.mark.parametrize(("optimizer", "factor"), [("adam", 1), ("adamw", 1), ("muon", 2)])
def test_an_optimizer_that_is_given_gets_its_own_rate(optimizer: str, factor: int) -> None:
    chosen = choose_open_settings(recipe(training={"optimizer": optimizer}), 50_000)
    assert chosen["training.learning_rate"] == factor * size_for(50_000).learning_rate


@pytest.mark.parametrize("optimizer", ["sgd", "adafactor"])
def test_an_optimizer_whose_rates_are_of_another_kind_gets_its_own(optimizer: str) -> None:
    chosen = choose_open_settings(recipe(training={"optimizer": optimizer}), 50_000)
    assert chosen["training.learning_rate"] == OWN_RATES[optimizer]


def test_noam_is_the_papers_where_no_factor_is_given() -> None:
    chosen = choose_open_settings(recipe(training={"schedule": "noam"}), 50_000)
    assert chosen["training.learning_rate"] == 1.0 and "training.optimizer" not in chosen
    chosen = choose_open_settings(recipe(training={"schedule": "noam", "learning_rate": 0.4}), 50_000)
    assert "training.learning_rate" not in chosen


def test_another_models_weights_leave_nothing_open_but_a_rate_of_another_kind() -> None:
    init = {"init": "runs/other"}
    assert choose_open_settings(recipe(training=init), 50_000) == {}
    assert choose_open_settings(recipe(training={**init, "optimizer": "adamw"}), 50_000) == {}
    assert choose_open_settings(recipe(training={**init, "optimizer": "sgd"}), 50_000) == {
        "training.learning_rate": 0.3
    }
    assert choose_open_settings(recipe(training={**init, "schedule": "noam"}), 50_000) == {
        "training.learning_rate": 1.0
    }


def test_a_rate_that_is_given_keeps_the_optimizer_that_it_was_meant_for() -> None:
    chosen = choose_open_settings(recipe(training={"learning_rate": 5e-4}), 50_000)
    assert not chosen.keys() & {"training.optimizer", "training.learning_rate"}


@pytest.mark.parametrize("positions", [{}, {"positions": "sinusoidal"}, {"positions": "rotary"}], ids=str)
@pytest.mark.parametrize("pairs", [1_000, 50_000, 10_000_000])
@pytest.mark.parametrize(
    "model",
    [*({"model_dim": width} for width in (16, 48, 80, 272, 384, 1024)), *({"num_heads": h} for h in (1, 2, 16, 32))],
    ids=str,
)
def test_width_and_heads_fit_whichever_of_them_is_given(
    model: dict[str, Any], pairs: int, positions: dict[str, str]
) -> None:
    given = recipe(model={**model, **positions})
    found = changed(given, choose_open_settings(given, pairs), "corpus").recipe.model  # is checked like any recipe
    assert isinstance(found, TransformerConfig)
    assert found.model_dim % found.num_heads == 0 and found.ff_dim == 4 * found.model_dim
    if "num_heads" not in model:
        assert 16 <= found.model_dim / found.num_heads <= 96


@pytest.mark.parametrize(
    ("given", "positions"),
    [
        ({}, "rotary"),
        ({"positions": "learned"}, None),
        ({"model_dim": 45}, "sinusoidal"),  # odd, and so is every part of it
        ({"model_dim": 45, "num_heads": 5}, "sinusoidal"),
        ({"model_dim": 90, "num_heads": 10}, "sinusoidal"),  # heads of 9
        ({"model_dim": 90}, "rotary"),  # one head
        ({"model_dim": 134}, "sinusoidal"),  # two of 67 rather than one of 134
        ({"model_dim": 16}, "rotary"),
        ({"num_heads": 6}, "rotary"),
    ],
    ids=str,
)
def test_positions_are_rotary_where_heads_have_pairs_of_dimensions(
    given: dict[str, Any], positions: str | None
) -> None:
    resolved = recipe(model=given)
    chosen = choose_open_settings(resolved, 20_000)
    assert chosen.get("model.positions") == positions
    changed(resolved, chosen, "corpus")  # is checked like any recipe


@pytest.mark.parametrize(
    ("tables", "keys"),
    [
        ({"training": {"batch_sentences": 48}}, ["training.batch_tokens"]),
        ({"training": {"steps": 5}}, ["training.epochs"]),
        ({"training": {"optimizer": "sgd"}}, ["training.optimizer"]),
        ({"training": {"schedule": "noam"}}, ["training.optimizer"]),
        ({"tokenizer": {"shared": True}}, ["tokenizer.target_size"]),
    ],
    ids=str,
)
def test_nothing_is_chosen_that_has_another_meaning_or_none(tables: dict[str, Any], keys: list[str]) -> None:
    everything = choose_open_settings(recipe(), 5_000).keys()
    assert everything >= set(keys)
    assert choose_open_settings(recipe(**tables), 5_000).keys() == everything - set(keys)


@pytest.mark.parametrize("name", RECIPES)
def test_the_recipes_that_come_with_weft_leave_nothing_open_or_all_of_it(name: str) -> None:
    resolved = read_recipe(ROOT / "recipes" / name, TranslationRecipe)
    found = choose_open_settings(resolved, 10_000)
    assert found == (choose_open_settings(recipe(), 10_000) if name == "multi30k-en-de.toml" else {})


# In a run


OPEN = tiny_recipe(training={"validate_every": "1000 steps"})


def test_a_run_goes_on_with_the_epochs_that_it_chose(tiny_run: Path, tmp_path: Path) -> None:
    run, watcher = tmp_path / "run", Watcher(signal_at=2)
    with pytest.raises(Stopped):
        train(OPEN, run=run, data=tiny_run, listener=watcher)
    said = [message for message in watcher.messages if "chosen for 42 training pairs" in message]
    assert len(said) == 1
    epochs = TABLE[0].epochs
    assert (
        f"[model] dropout = {TABLE[0].dropout}, positions = rotary; [training] optimizer = muon, learning_rate = 0.0"
        in said[0]
    )
    assert f", epochs = {epochs} (a corpus of fewer pairs supports fewer pieces" in said[0]
    chosen = read_config(run / "checkpoints" / "step-2")
    assert {key for key, origin in chosen.origins.items() if origin == "corpus"} >= {"model.dropout", "training.epochs"}

    again = Watcher(signal_at=3)
    with pytest.raises(Stopped):
        train(OPEN, run=run, data=tiny_run, listener=again)
    assert f"continuing from step 2 of {2 * epochs}" in again.messages and not any(
        "chosen for" in m for m in again.messages
    )
    assert read_config(run / "checkpoints" / "step-3").recipe == chosen.recipe

    with pytest.raises(RunError, match=rf"training\.epochs: was {epochs}, is {epochs - 1}"):
        train(OPEN, run=run, data=tiny_run, overrides=[f"training.epochs={epochs - 1}"])
    longer = Watcher(signal_at=4)
    with pytest.raises(Stopped):
        train(OPEN, run=run, data=tiny_run, overrides=["training.epochs=1000"], listener=longer)
    assert "continuing from step 3 of 2000" in longer.messages


@pytest.mark.parametrize(("steps", "signal_at"), [(3, None), (5, 3)], ids=["finished", "stopped"])
def test_a_run_that_was_given_few_steps_goes_on_without_them_for_the_epochs_that_suit_its_pairs(
    tiny_run: Path, tmp_path: Path, steps: int, signal_at: int | None
) -> None:
    run, few = tmp_path / "run", [f"training.steps={steps}"]
    with pytest.raises(Stopped) if signal_at else nullcontext():
        train(OPEN, run=run, data=tiny_run, overrides=few, listener=Watcher(signal_at))
    for step in (3, 4):
        again = Watcher(signal_at=step + 1)
        with pytest.raises(Stopped):
            train(OPEN, run=run, data=tiny_run, listener=again)
        assert f"continuing from step {step} of {2 * TABLE[0].epochs}" in again.messages
    with pytest.raises(RunError, match=rf"training\.steps: was not set, is {steps}"):
        train(OPEN, run=run, data=tiny_run, overrides=few)


def test_who_settles_later_what_a_recipe_left_open_must_settle_it_as_weft_did(tiny_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(Stopped):
        train(OPEN, run=run, data=tiny_run, listener=Watcher(signal_at=2))
    chosen = [f"model.dropout={TABLE[0].dropout}", "model.positions=rotary"]
    with pytest.raises(Stopped):
        train(OPEN, run=run, data=tiny_run, overrides=chosen, listener=Watcher(signal_at=3))
    with pytest.raises(RunError, match=r"model\.positions: was 'rotary', is 'sinusoidal'"):
        train(OPEN, run=run, data=tiny_run, overrides=["model.positions=sinusoidal"])  # what a table says is no choice


@pytest.mark.parametrize(
    ("given", "width", "heads"),
    [
        ({"model_dim": 100}, 100, 2),  # of 50
        ({"num_heads": 6}, 240, 6),
        ({"model_dim": 90, "positions": "rotary"}, 90, 1),
    ],
)
def test_a_width_or_heads_that_do_not_go_with_the_defaults_decide_the_other(
    given: dict[str, Any], width: int, heads: int
) -> None:
    chosen = choose_open_settings(recipe(model=given), 20_000)
    found = {"model.model_dim": width, "model.num_heads": heads}
    assert {key: value for key, value in chosen.items() if key in found} == {
        key: value for key, value in found.items() if key.split(".")[1] not in given
    }


def test_a_width_and_heads_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(RecipeError, match=r"model\.num_heads = 8  must divide model_dim = 100; try 5 or 10"):
        recipe(model={"model_dim": 100, "num_heads": 8})
