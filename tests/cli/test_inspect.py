"""`weft inspect`: what the commands print, write and refuse."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from safetensors import safe_open
from tests.command_line import Weft

from weft.errors import UsageError
from weft.evaluating.heads import transformer_of
from weft.folders.manifest import WEIGHTS
from weft.folders.model_folder import load_model

FIGURES = ("layers-loss", "layers-bleu", "embeddings-source", "errors")


def bytes_of_weights(folder: Path) -> int:
    """The file without its header."""
    data = (folder / WEIGHTS).read_bytes()
    return len(data) - 8 - int.from_bytes(data[:8], "little")


def test_heads_are_measured_and_half_of_them_cut_out_of_the_file(
    weft: Weft, distinct_model: Path, tiny_run: Path, tmp_path: Path
) -> None:
    valid, output = str(tiny_run / "valid.tsv"), tmp_path / "pruned"
    code, out, error = weft(
        *("inspect", "heads", str(distinct_model), "--data", valid, "--prune", "0.5", "--output", str(output)),
        *("--json", str(tmp_path / "heads.json"), "--figures", str(tmp_path)),
    )
    assert code == 0 and "2+2 layers, 64 wide, 12 of 24 heads" in error
    assert all(title in out for title in ("Importance by gradient", "Importance by ablation", "What heads read"))
    assert max(map(len, out.splitlines())) <= 80
    assert (tmp_path / "heads-gradient.svg").is_file() and (tmp_path / "heads-ablation.svg").is_file()
    told = json.loads((tmp_path / "heads.json").read_text(encoding="utf-8"))
    whole, smaller = load_model(distinct_model), load_model(output)
    assert told["pruned"]["parameters"] == [whole.count_parameters(), smaller.count_parameters()]
    saved = 12 * 16 * (4 * 64 + 3)  # heads, width of a head, its columns in four matrices and three biases
    assert whole.count_parameters() - smaller.count_parameters() == saved
    assert bytes_of_weights(distinct_model) - bytes_of_weights(output) == 4 * saved
    with safe_open(output / WEIGHTS, framework="pt") as file:
        widths = [file.get_slice(f"encoder.{layer}.attention.query.weight").get_shape()[0] for layer in range(2)]
    assert widths == [16 * heads for heads in smaller.recipe.model.encoder_heads or (4, 4)]
    code, _, error = weft("translate", "--model", str(output), "我有一个苹果。")
    assert code == 0, error
    code, _, error = weft("analyze", "--model", str(output), "我有一个苹果。", "--figures", str(tmp_path / "figures"))
    assert code == 0, error
    code, _, error = weft("inspect", "heads", str(output), "--data", valid, "--figures", str(tmp_path))
    assert (tmp_path / "heads-ablation.svg").read_text(encoding="utf-8").count('class="cell') == 12, error


def test_a_model_with_fewer_heads_is_trained_further_by_the_recipe_of_the_whole_one(
    weft: Weft, tiny_run: Path, tmp_path: Path
) -> None:
    pruned, valid = tmp_path / "pruned", str(tiny_run / "valid.tsv")
    code, _, error = weft(
        "inspect", "heads", str(tiny_run / "run"), "--data", valid, "--prune", "0.4", "--output", str(pruned)
    )
    assert code == 0, error
    card = (pruned / "README.md").read_text(encoding="utf-8")
    assert "cut out of the trained model: 2." in card and "| train | `train.tsv` |" in card and "4 of 6 heads" in card
    run = ("train", str(tiny_run / "tiny.toml"), "--run", str(tmp_path / "run"), "--set", f"training.init={pruned}")
    code, _, error = weft(*run, "--set", "training.epochs=2", "--data", str(tiny_run))
    assert code == 0, error
    assert load_model(tmp_path / "run").recipe.model.heads == load_model(pruned).recipe.model.heads
    code, _, error = weft(*run[:3], str(tmp_path / "other"), *run[4:], "--set", "model.encoder_heads=[2]")
    assert code == 2 and "model.encoder_heads = (2,)" in error and "leave the key out" in error


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--prune", "0.5"), "--prune needs --output"),
        (("--output", "x"), "--output needs --prune"),
        (("--prune", "0.9", "--output", "x"), "each of the 3 attentions keeps one"),
    ],
)
def test_pruning_that_cannot_be_is_refused(
    options: tuple[str, ...], expected: str, weft: Weft, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, error = weft("inspect", "heads", str(tiny_run / "run"), "--data", str(tiny_run / "valid.tsv"), *options)
    assert code == 2 and expected in error
    assert list(tmp_path.iterdir()) == []


def test_positions_are_compared_at_the_width_of_the_model(weft: Weft, tiny_run: Path, tmp_path: Path) -> None:
    code, out, _ = weft("inspect", "positions", str(tiny_run / "run"), "--figures", str(tmp_path))
    own = load_model(tiny_run / "run").recipe.model.positions
    assert code == 0 and f"128 positions, 16 dimensions; the model's own positions are {own}" in out
    assert max(map(len, out.splitlines())) <= 80
    assert (tmp_path / "positions.svg").read_text(encoding="utf-8").count("data:image/png") == 2
    code, out, _ = weft("inspect", "positions", str(tiny_run / "run"), "--json", "-")
    similarity = json.loads(out)["positions"]["sinusoidal"]["similarity"]
    assert similarity["1"] > similarity["8"]


def test_layers_embeddings_and_errors_print_tables_and_write_figures(
    weft: Weft, distinct_model: Path, tiny_run: Path, tmp_path: Path
) -> None:
    model, valid, figures = str(distinct_model), str(tiny_run / "valid.tsv"), ("--figures", str(tmp_path))
    code, out, error = weft("inspect", "layers", model, "--data", valid, *figures)
    assert code == 0, error
    assert [line.split()[0] for line in out.splitlines()[1:6]] == ["encoder+decoder", "2+2", "1+2", "0+2", "2+1"]
    code, embeddings, error = weft("inspect", "embeddings", model, "苹果", *figures, "--input", valid)
    assert code == 0 and embeddings.splitlines()[2].startswith("苹果"), error
    code, errors, error = weft(
        "inspect", "errors", model, "--data", valid, "--train", str(tiny_run / "train.tsv"), *figures
    )
    assert code == 0, error
    assert all(title in errors for title in ("omission", "Words by frequency", "Faults", "the targets of --train"))
    assert max(map(len, (*out.splitlines(), *errors.splitlines()))) <= 80
    names = {path.name for path in tmp_path.glob("*.svg")}
    assert names == {f"{one}.svg" for one in FIGURES}
    code, out, _ = weft("inspect", "errors", model, "--data", valid, "--json", "-")
    told = json.loads(out)
    assert told["reference_words"] == sum(one["length"] for one in told["sentences"])
    assert told["classes"]["omission"] == sum(len(one["words"]["omission"]) for one in told["sentences"])


def test_a_model_that_is_not_a_transformer_is_refused_by_name() -> None:
    recurrent = SimpleNamespace(config=SimpleNamespace(kind="recurrent"))
    translator: Any = SimpleNamespace(model=SimpleNamespace(network=recurrent))
    with pytest.raises(
        UsageError, match='weft inspect heads needs a Transformer; this model is of the kind "recurrent"'
    ):
        transformer_of(translator, "weft inspect heads")
