"""A model folder is the model: what is loaded from it scores as what was saved, to the last bit."""

import hashlib
import json
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from weft.config import changed
from weft.errors import UsageError
from weft.folders.finding import find_model
from weft.folders.kinds import build_seq2seq
from weft.folders.manifest import check_manifest
from weft.folders.model_folder import Learned, TranslationModel, load_model, save_model
from weft.training.run_folder import RunStatus
from weft.translating.translator import Translator

TEXTS = ["我有一个苹果。", "两个朋友", "</s> 龘 ü"]


def with_settings(model: TranslationModel, **values: object) -> TranslationModel:
    """The model with other values of dotted keys (. written as __) and fresh weights to match."""
    resolved = changed(model.resolved, {key.replace("__", "."): value for key, value in values.items()}, "a test")
    source, target = model.vocabularies["source"], model.vocabularies["target"]
    if resolved.recipe.tokenizer.shared:
        source = target
    weights = build_seq2seq(resolved.recipe, source.vocab_size, target.vocab_size).eval()
    return Learned(resolved, weights, {"source": source, "target": target})


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"model__tie": "decoder"},
        {"model__tie": "all", "tokenizer__shared": True},
        {"model__norm": "post", "model__activation": "gelu"},
        {"model__positions": "learned", "data__max_length": 100, "model__output_bias": True},
        {"model__positions": "rotary", "model__norm_layer": "rms"},
        {"model__positions": "scaled-sinusoidal", "model__activation": "swiglu"},
    ],
    ids=["untied", "decoder tied", "all tied", "post-norm", "learned", "rotary", "scaled"],
)
def test_what_is_loaded_scores_as_what_was_saved_and_draws_nothing(
    random_model: TranslationModel, tmp_path: Path, settings: dict[str, object]
) -> None:
    saved = with_settings(random_model, **settings)
    save_model(tmp_path, saved, "# A card\n")
    before = torch.get_rng_state()
    loaded = load_model(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)
    source, target = torch.randint(4, 200, (3, 7)), torch.randint(4, 200, (3, 5))
    with torch.inference_mode():
        assert torch.equal(saved.network(source, target), loaded.network(source, target))
    assert Translator(saved).translate(TEXTS) == Translator(loaded).translate(TEXTS)
    assert loaded.recipe == saved.recipe and loaded.resolved.origins == saved.resolved.origins
    assert loaded.count_parameters() == saved.count_parameters()
    assert not loaded.network.training and all(parameter.requires_grad for parameter in loaded.network.parameters())


def test_a_tied_matrix_is_stored_once(random_model: TranslationModel, tmp_path: Path) -> None:
    stored = {}
    for tie in ("none", "decoder", "all"):
        folder = tmp_path / tie
        folder.mkdir()
        model = with_settings(random_model, model__tie=tie, tokenizer__shared=True)
        save_model(folder, model, "")
        stored[tie] = load_file(folder / "model.safetensors")
        assert sum(tensor.numel() for tensor in stored[tie].values()) == model.count_parameters()
    assert stored["none"].keys() - stored["decoder"].keys() == {"output.weight"}
    assert stored["decoder"].keys() - stored["all"].keys() == {"target_embedding.weight"}
    assert all(tensor.dtype == torch.float32 for tensor in stored["all"].values())


def test_one_vocabulary_is_one_file(random_model: TranslationModel, tmp_path: Path) -> None:
    names = {}
    for shared in (False, True):
        folder = tmp_path / str(shared)
        folder.mkdir()
        save_model(folder, with_settings(random_model, tokenizer__shared=shared), "")
        names[shared] = {path.name for path in folder.glob("tokenizer*")}
    assert names == {False: {"tokenizer.source.model", "tokenizer.target.model"}, True: {"tokenizer.model"}}


def test_a_model_brings_the_punctuation_of_each_side_along(random_model: TranslationModel, tmp_path: Path) -> None:
    settings = {"tokenizer__source_punctuation": "chinese", "tokenizer__target_punctuation": "ascii"}
    save_model(tmp_path, with_settings(random_model, **settings), "")
    loaded = load_model(tmp_path)
    assert loaded.vocabularies["source"].normalize("「你好」,") == "“你好”，"
    assert loaded.vocabularies["target"].normalize("“Well”…") == '"Well"...'


def test_the_configuration_says_where_every_value_comes_from(tiny_run: Path) -> None:
    lines = (tiny_run / "run/config.toml").read_text(encoding="utf-8").splitlines()
    values = [line for line in lines if " = " in line]
    origins = {line.partition(" = ")[0]: line.rpartition("  # ")[2] for line in values}
    assert all("  # " in line for line in values)
    assert origins["model_dim"] == "recipe"
    assert origins["norm"] == "default"
    assert origins["dropout"] == "corpus"
    assert origins["source_script"] == "language"
    assert origins["source_size"] in ("recipe", "corpus instead of 300")


def test_the_manifest_holds_the_digest_of_every_file_but_the_card(tiny_run: Path) -> None:
    folder = find_model(tiny_run / "run")
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    expected = {"config.toml", "model.safetensors", "tokenizer.source.model", "tokenizer.target.model"}
    assert manifest["format"] == 1 and manifest["files"].keys() == expected
    for name, digest in manifest["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest


def test_the_card_may_be_edited_and_even_taken_away(random_model: TranslationModel, tmp_path: Path) -> None:
    save_model(tmp_path, random_model, "license: unknown\n")
    (tmp_path / "README.md").write_text("license: cc-by-4.0\n", encoding="utf-8")
    load_model(tmp_path)
    (tmp_path / "README.md").unlink()
    load_model(tmp_path)


def test_every_file_may_be_read_by_whom_the_others_may(tiny_run: Path) -> None:
    for folder in (tiny_run / "run", find_model(tiny_run / "run")):
        check_manifest(folder)
        names = ["README.md", "manifest.json", *json.loads((folder / "manifest.json").read_text())["files"]]
        assert len({stat.S_IMODE((folder / name).stat().st_mode) for name in names}) == 1


def test_a_run_means_its_best_weights_while_it_trains_and_the_model_in_it_when_it_is_finished(
    tiny_run: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(tiny_run / "run", tmp_path / "run")
    assert find_model(run) == run
    (run / "run.json").write_text(RunStatus(last=2, best=2).to_json())
    assert find_model(run) == run / "checkpoints/step-2"
    shutil.rmtree(run / "checkpoints")
    assert find_model(run) == run
    assert Translator(load_model(run)).translate(TEXTS)


def test_a_recipe_that_could_not_be_read_again_is_not_written(random_model: TranslationModel, tmp_path: Path) -> None:
    files = tuple(f"{number}/a-file-with-a-long-name.tsv" for number in range(10_000))
    endless = replace(random_model, resolved=changed(random_model.resolved, {"data.train": files}, "recipe"))
    with pytest.raises(UsageError, match="more than 128 KiB; put the training pairs in fewer files"):
        save_model(tmp_path, endless, "")


def test_a_model_that_somebody_else_trained_needs_nothing_but_its_folder(
    random_model: TranslationModel, tmp_path: Path
) -> None:
    elsewhere = replace(random_model, resolved=changed(random_model.resolved, {"data.train": ("/gone.tsv",)}, "recipe"))
    save_model(tmp_path, elsewhere, "")
    assert load_model(tmp_path).recipe.data.train == ("/gone.tsv",)
