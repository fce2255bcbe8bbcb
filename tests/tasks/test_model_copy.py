"""A copied model is the model, whole and alone; in fp16 it is half as large and translates the same."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from weft.errors import ModelError, UsageError
from weft.tasks.model_copy import copy_model
from weft.tasks.model_folder import WEIGHTS, load_model, model_files, read_manifest, write_manifest
from weft.tasks.translation import Translator

Weft = Callable[..., tuple[int, str, str]]
TEXTS = ["我有一个苹果。", "两个朋友"]


def test_a_copy_has_the_files_of_the_model_and_nothing_of_the_run(tiny_run: Path, tmp_path: Path) -> None:
    assert copy_model(tiny_run / "run", tmp_path / "copy") == tiny_run / "run"
    files = {file.name: file.read_bytes() for file in (tmp_path / "copy").iterdir()}
    assert files == {name: (tiny_run / "run" / name).read_bytes() for name in model_files(tiny_run / "run")}


def test_half_is_each_weight_rounded_to_11_bits_and_half_the_bytes(tiny_run: Path, tmp_path: Path) -> None:
    copy_model(tiny_run / "run", tmp_path / "copy", half=True)
    whole, half = (load_file(folder / WEIGHTS) for folder in (tiny_run / "run", tmp_path / "copy"))
    assert whole.keys() == half.keys()
    for name, tensor in whole.items():
        assert half[name].dtype == torch.float16
        # Numbers under 2^-14 lie 2^-24 apart in fp16, so they are off by half of that at most.
        torch.testing.assert_close(half[name].float(), tensor, rtol=2**-11, atol=2**-25)
    # Both files begin with a table of names, which does not shrink.
    saved = (tiny_run / "run" / WEIGHTS).stat().st_size - (tmp_path / "copy" / WEIGHTS).stat().st_size
    assert saved == pytest.approx(2 * sum(tensor.numel() for tensor in whole.values()), abs=64)


def test_a_model_in_half_is_loaded_in_fp32_and_translates_like_the_whole_one(tiny_run: Path, tmp_path: Path) -> None:
    copy_model(tiny_run / "run", tmp_path / "copy", half=True)
    whole, half = (load_model(folder) for folder in (tiny_run / "run", tmp_path / "copy"))
    assert {parameter.dtype for parameter in half.model.parameters()} == {torch.float32}
    for mine, its in zip(Translator(whole).translate(TEXTS), Translator(half).translate(TEXTS), strict=True):
        assert its.text == mine.text and its.score == pytest.approx(mine.score, abs=0.01)


def test_weights_that_fp16_cannot_hold_are_named_and_nothing_is_written(tiny_run: Path, tmp_path: Path) -> None:
    large = shutil.copytree(tiny_run / "run", tmp_path / "large")
    weights = load_file(large / WEIGHTS)
    weights["encoder_norm.weight"][0] = 1e5
    save_file(weights, large / WEIGHTS)
    write_manifest(large, read_manifest(large)[0])
    with pytest.raises(ModelError, match=r"encoder_norm\.weight +has numbers that fp16 cannot hold"):
        copy_model(large, tmp_path / "copy", half=True)
    assert [path.name for path in tmp_path.iterdir()] == ["large"]


def test_what_is_there_is_not_replaced(tiny_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is there already; name a new folder"):
        copy_model(tiny_run / "run", tmp_path)


def test_weights_of_another_type_are_refused_by_name(tiny_run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(tiny_run / "run", tmp_path / "other")
    weights = load_file(other / WEIGHTS)
    weights["encoder_norm.weight"] = weights["encoder_norm.weight"].bfloat16()
    save_file(weights, other / WEIGHTS)
    write_manifest(other, read_manifest(other)[0])
    says = r"has 1 problem\n +encoder_norm\.weight +is stored as BF16; weft reads F32 and F16"
    with pytest.raises(ModelError, match=says):
        load_model(other)


def test_the_command_says_what_it_made(weft: Weft, tiny_run: Path, tmp_path: Path) -> None:
    run, copy = str(tiny_run / "run"), str(tmp_path / "copy")
    assert weft("models", "copy", run, copy, "--half") == (
        0,
        "",
        f"{copy} holds the model {run}, its weights in fp16\n",
    )
    assert weft("models", "verify", copy)[0] == 0
