"""Marian's own format: probabilities are those of CTranslate2's converter for it, with Marian's own positions."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
import yaml
from tests.importing.corpus import PAIRS, trained_pieces

from weft.errors import ModelError
from weft.evaluating.forced import force
from weft.folders.model_folder import load_model
from weft.importing.folder import import_model
from weft.importing.marian_npz import longest_wave
from weft.layers.positions import sinusoids
from weft.text.vocabulary import MOST_TOKENS
from weft.translating.translator import Translator

WIDTH, HEADS, INNER, LAYERS = 16, 2, 24, 2
Make = Callable[..., Path]

SETTINGS = {
    "type": "transformer",
    "dim-emb": WIDTH,
    "enc-depth": LAYERS,
    "dec-depth": LAYERS,
    "transformer-heads": HEADS,
    "transformer-dim-ffn": INNER,
    "transformer-ffn-activation": "swish",
    "transformer-decoder-autoreg": "self-attention",
    "transformer-no-projection": False,
    "transformer-train-positions": False,
    "transformer-postprocess-emb": "d",
    "transformer-guided-alignment-layer": "last",
}
ORDERS = {
    "post": {"transformer-preprocess": "", "transformer-postprocess": "dan", "transformer-postprocess-top": ""},
    "pre": {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"},
}


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A folder as OPUS-MT packs them: one list of tokens for both languages, the settings changed by keywords."""

    def make(norm: str = "post", tie: bool = True, decoder: dict[str, Any] | None = None, **settings: Any) -> Path:
        folder = tmp_path / "marian"
        folder.mkdir()
        pieces: dict[str, None] = {}
        for name, column in (("source", 0), ("target", 1)):
            model = trained_pieces(pair[column] for pair in PAIRS)
            (folder / f"{name}.spm").write_bytes(model)
            cut = sentencepiece.SentencePieceProcessor(model_proto=model)
            pieces |= dict.fromkeys(p for pair in PAIRS for p in cut.encode(pair[column], out_type=str))
        tokens = ["</s>", "<unk>", *pieces]
        lines = [f"{json.dumps(token, ensure_ascii=False)}: {number}\n" for number, token in enumerate(tokens)]
        (folder / "vocab.yml").write_text("".join(lines), encoding="utf-8")
        said = {**SETTINGS, **ORDERS[norm], "tied-embeddings-all": tie, **settings}
        arrays = random_weights(norm, len(tokens), tie=tie)
        arrays["special:model.yml"] = np.frombuffer(yaml.safe_dump(said).encode() + b"\0", dtype=np.int8)
        np.savez(folder / "model.npz", **arrays)  # type: ignore[arg-type]
        about = {"models": ["./model.npz"], "vocabs": ["vocab.yml"] * 2, "beam-size": 6, "normalize": 1.0}
        (folder / "decoder.yml").write_text(yaml.safe_dump({**about, **(decoder or {})}), encoding="utf-8")
        return folder

    return make


def random_weights(norm: str, vocab_size: int, *, tie: bool) -> dict[str, np.ndarray]:
    """Every array that Marian writes for such a model, under its names."""
    dice = np.random.default_rng(1)
    pre = "_pre" if norm == "pre" else ""
    arrays: dict[str, np.ndarray] = {}

    def matrix(name: str, rows: int, columns: int) -> None:
        arrays[name] = dice.normal(size=(rows, columns), scale=0.4).astype(np.float32)

    def layer_norm(name: str, suffix: str = pre) -> None:
        arrays[f"{name}_ln_scale{suffix}"] = dice.normal(1, 0.3, (1, WIDTH)).astype(np.float32)
        matrix(f"{name}_ln_bias{suffix}", 1, WIDTH)

    for side, attentions in (("encoder", ("self",)), ("decoder", ("self", "context"))):
        for number in range(1, LAYERS + 1):
            for attention in attentions:
                prefix = f"{side}_l{number}_{attention}"
                for part in "qkvo":
                    matrix(f"{prefix}_W{part}", WIDTH, WIDTH)
                    matrix(f"{prefix}_b{part}", 1, WIDTH)
                layer_norm(f"{prefix}_Wo")
            prefix = f"{side}_l{number}_ffn"
            matrix(f"{prefix}_W1", WIDTH, INNER)
            matrix(f"{prefix}_b1", 1, INNER)
            matrix(f"{prefix}_W2", INNER, WIDTH)
            matrix(f"{prefix}_b2", 1, WIDTH)
            layer_norm(f"{prefix}_ffn")
        if norm == "pre":
            layer_norm(f"{side}_top", "")
    if tie:
        matrix("Wemb", vocab_size, WIDTH)
    else:
        matrix("encoder_Wemb", vocab_size, WIDTH)
        matrix("decoder_Wemb", vocab_size, WIDTH)
        matrix("decoder_ff_logit_out_W", WIDTH, vocab_size)
    matrix("decoder_ff_logit_out_b", 1, vocab_size)
    return arrays


def positions_of_marian(length: int) -> np.ndarray:
    """Wave i of n = WIDTH / 2 turns by exp(-i log(10,000) / (n - 1)) a step; sines first."""
    waves = np.arange(WIDTH // 2)
    angle = np.arange(length)[:, None] * np.exp(-waves * math.log(10_000) / (len(waves) - 1))
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1).astype(np.float32)


@pytest.mark.parametrize(("norm", "tie"), [("post", True), ("pre", True), ("post", False)])
def test_probabilities_are_those_of_ctranslate2s_own_converter(
    norm: str, tie: bool, make: Make, tmp_path: Path
) -> None:
    import ctranslate2

    folder = make(norm, tie, decoder={"allow-unk": True})  # else Marian's decoder takes it out of the probabilities

    class Converter(ctranslate2.converters.MarianConverter):
        def _load(self) -> Any:
            spec = super()._load()
            for side in (spec.encoder, spec.decoder):
                side.position_encodings.encodings = positions_of_marian(200)
            spec.config.layer_norm_epsilon = 1e-6
            return spec

    Converter(str(folder / "model.npz"), [str(folder / "vocab.yml")] * 2).convert(str(tmp_path / "theirs"))
    theirs = ctranslate2.Translator(str(tmp_path / "theirs"), device="cpu", intra_threads=1)
    import_model(folder, tmp_path / "ours", source="zh", target="en")
    model = load_model(tmp_path / "ours")
    assert model.recipe.model.tie == ("all" if tie else "none")
    pairs = [PAIRS[0], PAIRS[20], ("我有 three 个问题龘", "They sees Q cups")]
    cut = [
        sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm")) for side in ("source", "target")
    ]
    sources, targets = ([cut[side].encode(pair[side], out_type=str) for pair in pairs] for side in (0, 1))
    scored = theirs.score_batch(sources, targets, max_input_length=0)
    forced = force(Translator(model, torch.device("cpu")), *(list(texts) for texts in zip(*pairs, strict=True)))
    for mine, its in zip(forced, scored, strict=True):
        np.testing.assert_allclose(mine.log_probs, its.log_probs, atol=2e-4)
    found = theirs.translate_batch(sources, beam_size=1, max_decoding_length=12, max_input_length=0)
    ours = Translator(model, torch.device("cpu")).translate([pair[0] for pair in pairs], method="greedy", max_length=12)
    written = [
        model.vocabularies["target"].decode([[i for i in model.vocabularies["target"].ids_of(f.hypotheses[0]) if i]])
        for f in found
    ]
    assert [t.text for t in ours] == [text.strip() for (text,) in written]


@pytest.mark.parametrize("allowed", [False, True])
def test_unknown_pieces_are_written_only_where_marian_would(allowed: bool, make: Make, tmp_path: Path) -> None:
    folder = make("post", True, decoder={"allow-unk": True} if allowed else {})
    bias = arrays_of(folder)["decoder_ff_logit_out_b"]
    bias[0, 1] = 50  # of <unk>
    change_arrays(folder, decoder_ff_logit_out_b=bias)
    import_model(folder, tmp_path / "ours", source="zh", target="en")
    (found,) = Translator(load_model(tmp_path / "ours"), torch.device("cpu")).translate(["我有"], max_length=5)
    assert ("⁇" in found.text) == allowed


@pytest.mark.parametrize("width", [8, 16, 512])
def test_its_waves_are_those_of_marian(width: int) -> None:
    """The period is a whole number of tokens over 2 pi, so the waves are off by their 10^-5th part at most."""
    ours = sinusoids(300, width, period=longest_wave(width) / (2 * math.pi)).numpy()
    angle = np.arange(300)[:, None] * np.exp(-np.arange(width // 2) * math.log(10_000) / (width // 2 - 1))
    np.testing.assert_allclose(ours[:, 0::2], np.sin(angle), atol=1e-3)
    np.testing.assert_allclose(ours[:, 1::2], np.cos(angle), atol=1e-3)


def test_the_pieces_of_a_sentencepiece_model_may_be_the_list(make: Make, tmp_path: Path) -> None:
    folder = make(decoder={"vocabs": ["source.spm", "source.spm"]})
    cut = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    size = cut.get_piece_size()
    arrays = arrays_of(folder)
    embeddings = arrays["Wemb"][:size]
    change_arrays(folder, Wemb=embeddings, decoder_ff_logit_out_b=arrays["decoder_ff_logit_out_b"][:, :size])
    model = import_model(folder, tmp_path / "ours", source="zh", target="en")
    ids = cut.encode(PAIRS[3][0])
    rows = model.network.source_embedding.weight[model.vocabularies["source"].encode([PAIRS[3][0]])[0]]
    order = [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15]
    torch.testing.assert_close(rows, torch.from_numpy(embeddings)[ids][:, order])
    assert not model.recipe.tokenizer.cut_apart


@pytest.mark.parametrize(
    ("gone", "settings"),
    [
        ("decoder_ff_logit_out_W", {"tie": False}),
        ("decoder_ff_logit_out_b", {}),
        ("decoder_ff_logit_out_b", {"output-omit-bias": False}),
    ],
)
def test_an_output_that_the_settings_promise_is_missed_and_not_taken_for_tied(
    gone: str, settings: dict[str, Any], make: Make, tmp_path: Path
) -> None:
    folder = make(**settings)
    change_arrays(folder, **{gone: None})
    with pytest.raises(ModelError, match=rf"{gone} +is missing from the weights"):
        import_model(folder, tmp_path / "ours", source="zh", target="en")


def test_a_model_without_the_bias_of_its_output_says_so(make: Make, tmp_path: Path) -> None:
    folder = make(**{"output-omit-bias": True})
    change_arrays(folder, decoder_ff_logit_out_b=None)
    model = import_model(folder, tmp_path / "ours", source="zh", target="en").network
    assert model.output.bias is not None and set(model.output.bias.tolist()) == {0.0, -1000.0}


def arrays_of(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / "model.npz") as archive:
        return dict(archive)


def change_arrays(folder: Path, **changes: np.ndarray | None) -> None:
    """Replace arrays of the weights, or remove those that are None."""
    arrays = {name: array for name, array in {**arrays_of(folder), **changes}.items() if array is not None}
    np.savez(folder / "model.npz", **arrays)  # type: ignore[arg-type]


REFUSED = {
    "right-left": True,
    "input-reorder": [1, 0],
    "transformer-disable-position-embeddings": True,
    "transformer-pool": True,
    "transformer-decoder-autoreg": "rnn",
    "transformer-ffn-activation": "gelu",
    "transformer-postprocess": "dhn",
    "transformer-postprocess-emb": "nd",
    "transformer-train-positions": True,
    "transformer-tied-layers": [1, 1],
    "type": "s2s",
}


def test_what_weft_has_no_form_for_is_refused_by_name_and_at_once(make: Make, tmp_path: Path) -> None:
    decoder = {"word-penalty": 0.1, "force-decode": True, "no-spm-encode": True, "output-sampling": ["full"]}
    folder = make(decoder={"models": ["model.npz", "model.npz"], **decoder}, **REFUSED)
    with pytest.raises(ModelError) as raised:
        import_model(folder, tmp_path / "ours", source="zh", target="en")
    named = {problem.where.rpartition(": ")[2] for problem in raised.value.problems}
    renamed = {"transformer-postprocess": "transformer-preprocess"}
    assert named == {"models", *decoder, *(renamed.get(key, key) for key in REFUSED)}
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize(
    ("name", "shape"), [("encoder_l1_self_Wq", (WIDTH,)), ("decoder_ff_logit_out_W", (2, WIDTH, 3)), ("Wemb", (5,))]
)
def test_an_array_of_another_number_of_dimensions_is_refused_by_name(
    name: str, shape: tuple[int, ...], make: Make, tmp_path: Path
) -> None:
    folder = make(tie=name == "Wemb")
    change_arrays(folder, **{name: np.zeros(shape, dtype=np.float32)})
    with pytest.raises(ModelError) as raised:
        import_model(folder, tmp_path / "ours", source="zh", target="en")
    written = name.replace("_Wq", ".q.weight")
    assert any(written in f"{problem.where} {problem.what}" for problem in raised.value.problems), str(raised.value)


def test_a_list_of_more_tokens_than_a_vocabulary_has_is_refused_before_it_is_parsed(make: Make, tmp_path: Path) -> None:
    folder = make()
    (folder / "vocab.yml").write_text(":" * (2 * MOST_TOKENS + 1), encoding="utf-8")
    with pytest.raises(ModelError, match=r"vocab\.yml.*524,289 colons"):
        import_model(folder, tmp_path / "ours", source="zh", target="en")


@pytest.mark.parametrize(
    "spoiled", ["objects", "text", "other bytes first", "no settings", "a hole", "a list", "no archive"]
)
def test_a_spoiled_folder_is_refused(spoiled: str, make: Make, tmp_path: Path) -> None:
    folder = make()
    if spoiled == "objects":
        np.savez(folder / "model.npz", x=np.array([{}], dtype=object))  # type: ignore[arg-type]
    elif spoiled == "text":
        np.savez(folder / "model.npz", x=np.array(["a"]))
    elif spoiled == "other bytes first":
        np.savez(folder / "model.npz", x=np.zeros(3, dtype=">f4"))
    elif spoiled == "no settings":
        np.savez(folder / "model.npz", x=np.zeros(3))
    elif spoiled == "no archive":
        (folder / "model.npz").write_bytes(b"\x93NUMPY")
    else:
        number = "2" if spoiled == "a hole" else "[1]"
        (folder / "vocab.yml").write_text(f'"</s>": 0\n"<unk>": {number}\n', encoding="utf-8")
    with pytest.raises(ModelError, match=r"vocab\.yml" if spoiled.startswith("a ") else r"model\.npz"):
        import_model(folder, tmp_path / "ours", source="zh", target="en")
    assert not (tmp_path / "ours").exists()
