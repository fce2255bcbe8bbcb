"""A copied model is the model, whole and alone; in fp16 or int8 it is smaller and translates the same."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.command_line import Weft
from torch import Tensor

from weft.errors import ModelError, UsageError
from weft.folders import finding
from weft.folders.archive import pack
from weft.folders.copy import copy_model
from weft.folders.manifest import CARD, WEIGHTS, model_files, read_manifest, write_manifest
from weft.folders.model_folder import load_model
from weft.folders.summary import summarize
from weft.folders.weight_storage import Storage, restored, stored
from weft.translating.translator import Translator

TEXTS = ["我有一个苹果。", "两个朋友"]


def test_a_copy_has_the_files_of_the_model_and_nothing_of_the_run(tiny_run: Path, tmp_path: Path) -> None:
    assert copy_model(tiny_run / "run", tmp_path / "copy") == tiny_run / "run"
    files = {file.name: file.read_bytes() for file in (tmp_path / "copy").iterdir()}
    assert files == {name: (tiny_run / "run" / name).read_bytes() for name in model_files(tiny_run / "run")}


@pytest.mark.parametrize(
    "read",
    [
        lambda run, new: copy_model(run, new / "copy"),
        lambda run, new: pack(run, new / "model.zip"),
        lambda run, new: summarize(run).folder,
    ],
)
def test_best_weights_that_are_replaced_meanwhile_are_looked_for_again(
    read: Callable[[Path, Path], Path], tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([tmp_path / "gone", tiny_run / "run"])
    monkeypatch.setattr(finding, "model_of_run", lambda run: next(found))
    assert read(tiny_run / "run", tmp_path) == tiny_run / "run"


def test_fp16_is_each_weight_rounded_to_11_bits_and_half_the_bytes(tiny_run: Path, tmp_path: Path) -> None:
    copy_model(tiny_run / "run", tmp_path / "copy", storage="fp16")
    card, of_copy = ((folder / "README.md").read_text("utf-8") for folder in (tiny_run / "run", tmp_path / "copy"))
    rounded = "## Scores\n\nMeasured before the weights were rounded to fp16.\n"
    assert of_copy == card.replace("## Scores\n", rounded) != card
    whole, half = (load_file(folder / WEIGHTS) for folder in (tiny_run / "run", tmp_path / "copy"))
    assert whole.keys() == half.keys()
    for name, tensor in whole.items():
        assert half[name].dtype == torch.float16
        # Numbers under 2^-14 lie 2^-24 apart in fp16, so they are off by half of that at most.
        torch.testing.assert_close(half[name].float(), tensor, rtol=2**-11, atol=2**-25)
    # Both files begin with a table of names, which does not shrink.
    saved = (tiny_run / "run" / WEIGHTS).stat().st_size - (tmp_path / "copy" / WEIGHTS).stat().st_size
    assert saved == pytest.approx(2 * sum(tensor.numel() for tensor in whole.values()), abs=64)


def test_int8_is_each_row_in_255_steps_and_a_byte_a_number(tiny_run: Path, tmp_path: Path) -> None:
    copy_model(tiny_run / "run", tmp_path / "copy", storage="int8")
    whole, small = (load_file(folder / WEIGHTS) for folder in (tiny_run / "run", tmp_path / "copy"))
    back = restored(small)
    assert back.keys() == whole.keys() == {name for name in small if not name.endswith(".scale")}
    for name, tensor in whole.items():
        if tensor.dim() == 2:
            assert small[name].dtype == torch.int8 and small[name].abs().max() == 127
            half_a_step = tensor.abs().amax(dim=1, keepdim=True) / 254
            assert ((back[name] - tensor).abs() <= half_a_step * (1 + 1e-5)).all()
        else:
            assert small[name].dtype == torch.float16
    matrices = [tensor for tensor in whole.values() if tensor.dim() == 2]
    others = [tensor for tensor in whole.values() if tensor.dim() != 2]
    in_bytes = sum(m.numel() + 4 * len(m) for m in matrices) + sum(2 * tensor.numel() for tensor in others)
    assert sum(tensor.nbytes for tensor in small.values()) == in_bytes


def test_int8_by_hand() -> None:
    weights = {"matrix": torch.tensor([[0.5, -1.0, 0.004], [0.0, 0.0, 0.0]]), "bias": torch.tensor([0.25])}
    small = stored(weights, "int8")
    assert small["matrix"].tolist() == [[64, -127, 1], [0, 0, 0]]  # 0.5 * 127 = 63.5 and 0.004 * 127 = 0.508
    assert small["matrix.scale"].tolist() == pytest.approx([1 / 127, 0])
    assert restored(small)["matrix"][0].tolist() == pytest.approx([64 / 127, -1.0, 1 / 127])
    assert restored(small)["bias"].tolist() == [0.25]


@pytest.mark.parametrize("storage", ["fp16", "int8"])
def test_a_smaller_model_is_loaded_in_fp32_and_translates_like_the_whole_one(
    tiny_run: Path, tmp_path: Path, storage: Storage
) -> None:
    copy_model(tiny_run / "run", tmp_path / "copy", storage=storage)
    whole, small = (load_model(folder) for folder in (tiny_run / "run", tmp_path / "copy"))
    assert {parameter.dtype for parameter in small.network.parameters()} == {torch.float32}
    assert summarize(tmp_path / "copy").parameters == small.count_parameters() == whole.count_parameters()
    for mine, its in zip(Translator(whole).translate(TEXTS), Translator(small).translate(TEXTS), strict=True):
        assert its.text == mine.text and its.score == pytest.approx(mine.score, abs=0.05)


def test_a_copy_of_a_copy_in_int8_is_the_copy(tiny_run: Path, tmp_path: Path) -> None:
    copy_model(tiny_run / "run", tmp_path / "once", storage="int8")
    copy_model(tmp_path / "once", tmp_path / "twice", storage="int8")
    once, twice = (load_file(tmp_path / name / WEIGHTS) for name in ("once", "twice"))
    for name, tensor in once.items():
        torch.testing.assert_close(twice[name], tensor, rtol=1e-6, atol=0)


@pytest.mark.parametrize("storage", ["fp16", "int8"])
def test_weights_that_cannot_be_held_are_named_and_nothing_is_written(
    tiny_run: Path, tmp_path: Path, storage: Storage
) -> None:
    large = altered(tiny_run, tmp_path / "large", lambda weights: weights["encoder_norm.weight"].__setitem__(0, 1e5))
    with pytest.raises(ModelError, match=rf"encoder_norm\.weight +has numbers that {storage} cannot hold"):
        copy_model(large, tmp_path / "copy", storage=storage)
    assert [path.name for path in tmp_path.iterdir()] == ["large"]


def test_what_is_there_is_not_replaced(tiny_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exists already; name a new folder"):
        copy_model(tiny_run / "run", tmp_path)


MATRIX = "encoder.0.feed_forward.widen.weight"


def as_bfloat16(weights: dict[str, Tensor]) -> None:
    weights["encoder_norm.weight"] = weights["encoder_norm.weight"].bfloat16()


def without_scale(weights: dict[str, Tensor]) -> None:
    weights[MATRIX] = weights[MATRIX].to(torch.int8)


def with_short_scale(weights: dict[str, Tensor]) -> None:
    weights.update(stored({MATRIX: weights[MATRIX]}, "int8"))
    weights[MATRIX + ".scale"] = weights[MATRIX + ".scale"][1:].clone()


def with_needless_scale(weights: dict[str, Tensor]) -> None:
    weights[MATRIX + ".scale"] = torch.ones(len(weights[MATRIX]))


def with_vector_in_int8(weights: dict[str, Tensor]) -> None:
    weights["encoder_norm.weight"] = weights["encoder_norm.weight"].to(torch.int8)


@pytest.mark.parametrize(
    ("alter", "says"),
    [
        (as_bfloat16, r"encoder_norm\.weight +is stored as BF16; weft reads fp32 \(F32\), fp16 \(F16\), int8 \(I8\)"),
        (without_scale, r"widen\.weight\.scale +is nothing of shape \[\]; an int8 matrix needs one F32 scale"),
        (with_short_scale, r"widen\.weight\.scale +is F32 of shape \[\d+\]; an int8 matrix needs one F32 scale"),
        (with_needless_scale, r"widen\.weight\.scale +is not a weight of this recipe"),
        (with_vector_in_int8, r"encoder_norm\.weight +has shape \[\d+\]; only matrices may be stored in int8"),
    ],
)
def test_what_is_stored_in_another_way_is_refused_by_name(
    tiny_run: Path, tmp_path: Path, alter: Callable[[dict[str, Tensor]], None], says: str
) -> None:
    other = altered(tiny_run, tmp_path / "other", alter)
    with pytest.raises(ModelError, match=r"has 1 problem\n +" + r"\S*" + says):
        load_model(other)


def altered(tiny_run: Path, folder: Path, alter: Callable[[dict[str, Tensor]], object]) -> Path:
    """A copy of the model with other weights, and a manifest that fits."""
    shutil.copytree(tiny_run / "run", folder)
    weights = load_file(folder / WEIGHTS)
    alter(weights)
    save_file(weights, folder / WEIGHTS)
    write_manifest(folder, read_manifest(folder)[0])
    return folder


def test_a_card_that_is_too_large_to_be_read_is_kept(tiny_run: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_run / "run", tmp_path / "large")
    with open(tmp_path / "large" / CARD, "a", encoding="utf-8") as card:
        card.write("x" * (5 << 20))
    copy_model(tmp_path / "large", tmp_path / "copy", storage="fp16")
    assert (tmp_path / "copy" / CARD).stat().st_size == (tmp_path / "large" / CARD).stat().st_size


def test_the_command_says_what_it_made(weft: Weft, tiny_run: Path, tmp_path: Path) -> None:
    run, copy = str(tiny_run / "run"), str(tmp_path / "copy")
    assert weft("models", "copy", run, copy, "--weights", "int8") == (
        0,
        "",
        f"{copy} holds the model {run}, its weights in int8\n",
    )
    assert weft("models", "verify", copy)[0] == 0
