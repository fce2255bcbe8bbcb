"""Folders that are wrong, or mean harm: one error that names everything, nothing run, nothing written."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from tests.importing.conftest import change_json, change_yaml
from tests.pickles import PICKLES

from weft.errors import ModelError, UsageError
from weft.importing.folder import import_model
from weft.importing.opening import parse_yaml

FolderOf = Callable[[str], Path]


def refused(folder: Path, tmp_path: Path) -> list[tuple[str, str]]:
    """(where, what) of each problem, after nothing was written."""
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(ModelError) as raised:
        import_model(folder, tmp_path / "out", source="zh", target="en")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    return [(problem.where, problem.what) for problem in raised.value.problems]


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")


# What is missing, or does not fit


def test_every_missing_file_is_named_at_once(folder_of: FolderOf, tmp_path: Path) -> None:
    folder = folder_of("marian-shared")
    for name in ("vocab.json", "target.spm", "model.safetensors"):
        (folder / name).unlink()
    missing = dict(refused(folder, tmp_path))
    assert missing == dict.fromkeys(("vocab.json", "target.spm", "pytorch_model.bin"), "is missing")


TOO_LARGE = ", or too large for fp32"


def test_every_wrong_weight_is_named_at_once(folder_of: FolderOf, tmp_path: Path) -> None:
    folder = folder_of("marian-shared")

    def change(weights: dict[str, torch.Tensor]) -> None:
        del weights["model.encoder.layers.0.fc1.weight"]
        weights["model.encoder.layers.0.fc2.weight"] = torch.zeros(16, 23)
        weights["model.decoder.layers.0.self_attn.k_proj.bias"][3] = torch.nan
        weights["model.decoder.layers.0.self_attn.q_proj.bias"] = torch.full([16], 1e300, dtype=torch.float64)
        weights["model.decoder.layers.0.fc1.bias"] = torch.zeros(24, dtype=torch.int32)
        weights["model.encoder.layernorm_embedding.weight"] = torch.ones(16)

    change_weights(folder, change)
    found = dict(refused(folder, tmp_path))
    assert found == {
        "model.encoder.layers.0.fc1.weight": "is missing from the weights",
        "model.encoder.layers.0.fc2.weight": "has shape [16, 23], its settings require [16, 24]",
        "model.decoder.layers.0.self_attn.k_proj.bias": f"has numbers that are NaN or infinite{TOO_LARGE}",
        "model.decoder.layers.0.self_attn.q_proj.bias": f"has numbers that are NaN or infinite{TOO_LARGE}",
        "model.decoder.layers.0.fc1.bias": "is of type torch.int32; weights must be floating point",
        "model.encoder.layernorm_embedding.weight": "is a weight that weft does not have",
    }


def test_a_second_copy_must_be_the_same_matrix(folder_of: FolderOf, tmp_path: Path) -> None:
    folder = folder_of("marian-shared")
    change_weights(folder, lambda weights: weights.update({"lm_head.weight": weights["model.shared.weight"] + 1}))
    ((where, what),) = refused(folder, tmp_path)
    assert where == "lm_head.weight" and "differs from model.shared.weight" in what


def test_positions_that_are_no_sinusoids_are_refused(folder_of: FolderOf, tmp_path: Path) -> None:
    folder = folder_of("marian-shared")
    name = "model.encoder.embed_positions.weight"
    change_weights(folder, lambda weights: weights.update({name: torch.randn(64, 16)}))
    ((where, what),) = refused(folder, tmp_path)
    assert where == name and "is not a table of sinusoids" in what


VOCABULARIES = {
    "a hole": lambda ids: ids.update({"<pad>": len(ids)}),
    "a number twice": lambda ids: ids.update({"<unk>": 0}),
    "no number": lambda ids: ids.update({"<unk>": "1"}),
    "a truth": lambda ids: ids.update({"<unk>": True}),
    "a piece too many": lambda ids: ids.update({"new": len(ids)}),
    "no unknown token": lambda ids: ids.update({"other": ids.pop("<unk>")}),
}


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_vocabulary_with_holes_is_refused(name: str, folder_of: FolderOf, tmp_path: Path) -> None:
    folder = folder_of("marian-shared")
    ids = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    VOCABULARIES[name](ids)
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    assert {where for where, _ in refused(folder, tmp_path)} == {"vocab.json"}


MARIAN_SETTINGS = {
    "activation_function": ("gelu_new", "weft has relu, gelu, swish, silu"),
    "decoder_ffn_dim": (32, "is 32, the encoder's is 24"),
    "decoder_attention_heads": (4, "is 4, the encoder's is 2"),
    "normalize_before": (True, "is true"),
    "static_position_embeddings": (False, "only sinusoidal"),
    "pad_token_id": (10_000, "is 10,000, which is not a token"),
    "d_model": ("16", "should be a valid integer"),
    "model_type": ("bart", "weft imports marian"),
    "bad_words_ids": ([[1, 2]], "several pieces"),
    "bad_words_ids ": ([[10_000]], "forbids 10,000, which is not a token"),
    "min_length": (10**30, "less than or equal to 1000000"),
    "do_sample": (True, "weft imports models that search"),
    "num_beam_groups": (2, "decoding.diverse_groups"),
    "min_new_tokens": (5, "weft cannot represent"),
    "suppress_tokens": ([5, 6], "weft cannot represent"),
    "forced_bos_token_id": (6, "weft cannot represent"),
    "encoder_repetition_penalty": (1.5, "weft cannot represent"),
}
OF_GENERATION = {
    *("bad_words_ids", "do_sample", "num_beam_groups", "min_new_tokens", "suppress_tokens", "forced_bos_token_id"),
    *("bad_words_ids ", "min_length"),
    "encoder_repetition_penalty",
}


@pytest.mark.parametrize("key", MARIAN_SETTINGS)
def test_what_weft_has_no_form_for_is_refused_by_name(key: str, folder_of: FolderOf, tmp_path: Path) -> None:
    folder, (value, reason) = folder_of("marian-shared"), MARIAN_SETTINGS[key]
    name = key.strip()
    change_json(folder / ("generation_config.json" if key in OF_GENERATION else "config.json"), **{name: value})
    ((where, what),) = set(refused(folder, tmp_path))
    assert name in where and reason in what


def test_a_setting_that_is_none_is_named_with_its_file_and_beside_all_others(
    folder_of: FolderOf, tmp_path: Path
) -> None:
    folder = folder_of("marian-shared")
    change_json(folder / "config.json", d_model="y")
    change_json(folder / "generation_config.json", num_beams="x")
    assert [where for where, _ in refused(folder, tmp_path)] == [
        "config.json: d_model",
        "generation_config.json: num_beams",
    ]


def test_all_that_weft_has_no_form_for_is_refused_at_once(folder_of: FolderOf, tmp_path: Path) -> None:
    folder = folder_of("marian-shared")
    change_json(folder / "config.json", normalize_embedding=True, decoder_ffn_dim=1, activation_function="tanh")
    assert len(refused(folder, tmp_path)) == 3


JOEYNMT_SETTINGS = {
    "data.src.lowercase": (True, "is true"),
    "testing.repetition_penalty": (2.0, "also penalizes pieces of the source"),
    "data.src.normalize": (True, "is true"),
    "data.trg.level": ("word", "is cut by word"),
    "data.src.tokenizer_type": ("subword-nmt", "is cut by bpe, subword-nmt"),
    "model.encoder.type": ("recurrent", "is recurrent"),
    "model.decoder.alpha": (1.2, "is 1.2"),
    "model.decoder.layer_norm": ("post", "is post, the encoder's is pre"),
    "model.encoder.num_layers": ("two", "should be a valid integer"),
    "model.encoder.hidden_size": (32, "hidden_size 32"),
}


@pytest.mark.parametrize("key", JOEYNMT_SETTINGS)
def test_what_weft_has_no_form_for_in_joeynmt_is_refused_by_name(key: str, folder_of: FolderOf, tmp_path: Path) -> None:
    folder, (value, reason) = folder_of("joeynmt-pre"), JOEYNMT_SETTINGS[key]
    change_yaml(folder / "config.yaml", key, value)
    found = refused(folder, tmp_path)
    assert any(key.rpartition(".")[0] in where and reason in what for where, what in found)


def test_the_checkpoint_is_the_best_one_else_the_last(folder_of: FolderOf, tmp_path: Path) -> None:
    folder = folder_of("joeynmt-pre")
    (folder / "best.ckpt").unlink()
    import_model(folder, tmp_path / "last")
    (folder / "300.ckpt").unlink()
    assert refused(folder, tmp_path) == [("best.ckpt", "is missing")]


# What means harm


WEIGHTS: dict[str, Callable[[Path], object]] = {
    **PICKLES,
    "nothing": lambda path: path.write_bytes(b""),
    "noise": lambda path: path.write_bytes(bytes(range(256)) * 40),
    "a list": lambda path: torch.save([torch.zeros(1)], path),
}


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize(("format", "file"), [("marian-apart", "pytorch_model.bin"), ("joeynmt-pre", "300.ckpt")])
def test_no_pickle_runs(
    name: str, format: str, file: str, folder_of: FolderOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = folder_of(format)
    WEIGHTS[name](folder / file)
    ((where, what),) = refused(folder, tmp_path)
    assert where in (file, "best.ckpt") and not Path("owned").exists() and len(what) < 1000
    if name == "a pickle":
        assert "weft does not open pickles that could run code" in what


def test_a_link_out_of_the_folder_is_refused_with_what_to_do(folder_of: FolderOf, tmp_path: Path) -> None:
    folder = folder_of("marian-shared")
    (folder / "vocab.json").rename(tmp_path / "blob")
    (folder / "vocab.json").symlink_to("../blob")
    ((where, what),) = refused(folder, tmp_path)
    assert where == "vocab.json" and "cp -rL" in what


def test_a_link_to_itself_and_a_folder_for_a_file_are_refused(folder_of: FolderOf, tmp_path: Path) -> None:
    folder = folder_of("marian-shared")
    for name in ("vocab.json", "source.spm"):
        (folder / name).unlink()
    (folder / "vocab.json").symlink_to("vocab.json")
    (folder / "source.spm").mkdir()
    assert {where for where, _ in refused(folder, tmp_path)} == {"vocab.json", "source.spm"}


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", "model.safetensors"])
def test_a_file_far_too_large_for_what_it_is_is_not_read(name: str, folder_of: FolderOf, tmp_path: Path) -> None:
    folder = folder_of("marian-shared")
    with open(folder / name, "ab") as file:
        file.truncate(1 << 40)
    ((where, what),) = refused(folder, tmp_path)
    assert where == name and "bytes, more than" in what


def test_an_archive_that_would_grow_without_end_is_not_unpacked(folder_of: FolderOf, tmp_path: Path) -> None:
    folder = folder_of("marian-apart")
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(1 << 25))
    ((where, what),) = refused(folder, tmp_path)
    assert where == "pytorch_model.bin" and "would unpack to" in what


def test_a_tensor_that_only_claims_its_size_takes_no_memory(folder_of: FolderOf, tmp_path: Path) -> None:
    folder = folder_of("marian-apart")
    state = torch.load(folder / "pytorch_model.bin", weights_only=True)
    names = ["model.encoder.layers.0.fc1.weight", "final_logits_bias", "lm_head.weight"]
    for name in names:
        state[name] = torch.zeros(1, 1).expand(1 << 20, 1 << 20)  # that nobody compares or copies
    torch.save(state, folder / "pytorch_model.bin")
    what = "repeats a few numbers to its size; save it as a contiguous tensor"
    assert sorted(refused(folder, tmp_path)) == sorted((name, what) for name in names)


ODD = {
    "sparse": (lambda tensor: tensor.to_sparse(), "is a sparse, nested, quantized or empty tensor"),
    "without numbers": (lambda tensor: tensor.to("meta"), "is a sparse, nested, quantized or empty tensor"),
    "of 8 bits": (lambda tensor: tensor.to(torch.float8_e4m3fn), "is of type torch.float8_e4m3fn"),
    "complex": (lambda tensor: tensor.to(torch.complex64), "is of type torch.complex64"),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize(
    "name", ["model.encoder.layers.0.fc1.weight", "model.encoder.embed_positions.weight", "final_logits_bias"]
)
def test_a_tensor_of_an_odd_kind_earns_one_error(name: str, kind: str, folder_of: FolderOf, tmp_path: Path) -> None:
    folder = folder_of("marian-apart")
    make_odd, what = ODD[kind]
    state = torch.load(folder / "pytorch_model.bin", weights_only=True)
    state[name] = make_odd(state[name])
    torch.save(state, folder / "pytorch_model.bin")
    ((where, found),) = refused(folder, tmp_path)
    assert where in (name, "pytorch_model.bin") and (what in found or "refused by PyTorch's reader" in found)


YAMLS = {
    "code": ("!!python/object/apply:os.system ['touch owned']", "could not determine a constructor"),
    "an alias": ("a: &x [1, 2]\nb: *x", "has an alias"),
    "aliases of aliases": ("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]", "has an alias"),
    "a list": ("- 1\n- 2", "not a YAML mapping"),
    "brackets": ("x: " + "[" * 5000, "cannot be read"),
    "a number in sixties": ("a: 1" + ":1" * 100_000, "a number of more than 100 characters"),
    "a fraction in sixties": ("a: 1" + ":1" * 100_000 + ".5", "a number of more than 100 characters"),
    "no text": ("a: \x00", "cannot be read"),
    "nothing": ("", "not a YAML mapping"),
}


def test_the_code_in_yaml_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    yaml.unsafe_load(YAMLS["code"][0])
    assert Path("owned").exists()


@pytest.mark.parametrize("name", YAMLS)
def test_yaml_makes_plain_values_or_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text, reason = YAMLS[name]
    with pytest.raises(ModelError, match=reason):
        parse_yaml(tmp_path, "config.yaml", text)
    assert not Path("owned").exists()


@pytest.mark.parametrize(
    "name", ["config.json", "vocab.json", "source.spm", "model.safetensors", "generation_config.json"]
)
def test_a_spoiled_file_earns_an_error_or_does_no_harm(name: str, folder_of: FolderOf, tmp_path: Path) -> None:
    """Bytes cut off, turned over, and doubled, at places spread over the file."""
    folder = folder_of("marian-shared")
    content = (folder / name).read_bytes()
    outcomes = set()
    for number in range(12):
        place = number * len(content) // 12
        spoiled = (content[:place], content[:place] + b"\xff" + content[place + 1 :], content[:place] * 2)[number % 3]
        (folder / name).write_bytes(spoiled)
        try:
            import_model(folder, tmp_path / f"out{number}", source="zh", target="en")
            outcomes.add("imported")
        except (ModelError, UsageError):
            assert not (tmp_path / f"out{number}").exists()
            outcomes.add("refused")
    assert "refused" in outcomes


def test_without_the_extra_the_message_names_it(
    folder_of: FolderOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(Exception, match=r"pip install '\.\[import\]'"):
        import_model(folder_of("joeynmt-pre"), tmp_path / "out")
