"""`weft import`: what it makes is the model that it was made of, and an ordinary model folder."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.command_line import Weft
from tests.importing.conftest import Imported, change_json, change_yaml
from tests.importing.corpus import PAIRS

from weft.config import resolve
from weft.decoding.search import DecodingConfig, search
from weft.errors import ModelError, UsageError
from weft.evaluating.forced import force
from weft.export.folder import export_model
from weft.folders.manifest import CARD, check_manifest, model_files
from weft.folders.model_folder import load_model
from weft.folders.recipes import TranslationRecipe
from weft.importing.folder import import_model
from weft.text.vocabulary import BEGIN_ID, END_ID
from weft.translating.exported import load_for
from weft.translating.translator import Translator

MOST_PIECES = {"marian": 24, "joeynmt": 24}
"""Of the oracle's greedy translations, without </s>."""


def weft_sentence(imported: Imported, side: str, ids: list[int]) -> list[int]:
    found = imported.ids_of(side)
    return [BEGIN_ID if side == "target" and i == imported.begin else found[i] for i in ids]


def test_logits_are_those_of_the_system_that_it_comes_from(imported: Imported) -> None:
    ids = torch.tensor(imported.ids_of("target"))
    ordinary = torch.tensor([i for i in range(len(ids)) if i != imported.begin])
    model = imported.model.network
    assert len(imported.logits) == 3  # of the first sentences
    for each, theirs in zip(imported.oracle["greedy"], imported.logits, strict=False):
        target = each["target"]
        given = target if target[0] == imported.begin else [imported.begin, *target]
        source = torch.tensor([weft_sentence(imported, "source", each["source"])])
        ours = model(source, torch.tensor([weft_sentence(imported, "target", given)]))[0]
        torch.testing.assert_close(ours[:, ids[ordinary]], torch.from_numpy(theirs)[:, ordinary], rtol=1e-4, atol=1e-4)


def test_greedy_translations_are_those_of_the_system_that_it_comes_from(imported: Imported) -> None:
    """Through the session that searches; some of them end before they reach the maximum."""
    system = imported.original.name.partition("-")[0]
    config = imported.model.recipe.decoding.model_copy(
        update={"method": "greedy", "max_length_ratio": 0.0, "max_length_extra": MOST_PIECES[system]}
    )
    lengths = set()
    for each in imported.oracle["greedy"]:
        source = torch.tensor([weft_sentence(imported, "source", each["source"])])
        state = imported.model.network.start(source)
        [[found]] = search(state, torch.tensor([source.size(1) - 1]), config, begin_id=BEGIN_ID, end_id=END_ID)
        theirs = weft_sentence(imported, "target", each["target"])
        theirs = theirs[1:] if theirs[0] == BEGIN_ID else theirs
        theirs = theirs[: theirs.index(END_ID)] if END_ID in theirs else theirs[: MOST_PIECES[system]]
        assert list(found.tokens) == theirs
        lengths.add(len(theirs))
    assert min(lengths) < MOST_PIECES[system]


@pytest.mark.parametrize("side", ["source", "target"])
def test_ids_of_texts_are_those_of_the_system_that_it_comes_from(imported: Imported, side: str) -> None:
    """A piece that the original's list lacks is <unk> there; in weft it has an id whose numbers are <unk>'s."""
    tokenizer = imported.model.vocabularies["source"] if side == "source" else imported.model.vocabularies["target"]
    texts, expected = imported.oracle["texts"][side], imported.oracle["ids"][side]
    own = {ours: theirs for theirs, ours in enumerate(imported.ids_of(side))}
    tokens = imported.tokens(side)
    unknown, end = tokens.index("<unk>"), tokens.index("</s>")
    seen_unknown = False
    for text, theirs in zip(texts, expected, strict=True):
        (ours,) = tokenizer.encode([text])
        theirs = [i for i in theirs if i != end]
        assert [own.get(i, unknown) for i in ours] == theirs
        seen_unknown |= unknown in theirs
    assert seen_unknown


def test_a_piece_that_the_list_lacks_reads_as_an_unknown_one_and_is_never_written(import_once) -> None:
    imported = import_once("marian-shared")
    model, known = imported.model.network, set(imported.ids_of("target"))
    extras = [i for i in range(imported.model.vocabularies["target"].vocab_size) if i not in known and i != BEGIN_ID]
    assert extras
    assert (model.source_embedding.weight[extras] == model.source_embedding.weight[1]).all()
    source = torch.tensor([[5, 6, END_ID]])
    with torch.inference_mode():
        log_probs = model.start(source).step(torch.tensor([BEGIN_ID]))
    assert log_probs[0, [*extras, 0, BEGIN_ID]].exp().max() == 0
    assert float(log_probs.exp().sum()) == pytest.approx(1, abs=1e-5)


def test_what_is_one_matrix_there_is_one_matrix_here(import_once) -> None:
    tied = {name: import_once(name).model.recipe.model.tie for name in ("marian-shared", "marian-apart", "joeynmt-pre")}
    assert tied == {"marian-shared": "all", "marian-apart": "decoder", "joeynmt-pre": "decoder"}
    model = import_once("joeynmt-post").model.network
    assert model.output.weight is model.source_embedding.weight


def test_the_folder_is_whole_and_says_where_it_comes_from(imported: Imported) -> None:
    check_manifest(imported.folder)
    card = (imported.folder / CARD).read_text(encoding="utf-8")
    files = {
        path.name for path in imported.original.iterdir() if path.suffix not in (".md",) and path.name != "300.ckpt"
    }
    assert all(f"`{name}`" in card for name in files)
    assert "license: unknown" in card and "language: [zh, en]" in card
    assert {path.name for path in imported.folder.iterdir()} == set(model_files(imported.folder))


def test_the_license_is_the_one_that_the_folder_states(folder_of: Callable[[str], Path], tmp_path: Path) -> None:
    folder = folder_of("marian-shared")
    (folder / "README.md").write_text("---\nlanguage: zh\nlicense: cc-by-4.0\n---\n# A model\n", encoding="utf-8")
    import_model(folder, tmp_path / "model")
    assert "license: cc-by-4.0\n" in (tmp_path / "model" / CARD).read_text(encoding="utf-8")


def test_every_verb_takes_it(weft: Weft, import_once, tmp_path: Path) -> None:
    imported = import_once("marian-shared")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("zh\ten\n我有三个苹果。\tI have three apples.\n十个朋友\tten friends\n", encoding="utf-8")
    exit_code, out, error = weft("translate", "--model", str(imported.folder), "我有三个苹果。")
    assert (exit_code, out.count("\n")) == (0, 1), error
    exit_code, _, error = weft("evaluate", "--model", str(imported.folder), "--data", str(pairs))
    assert exit_code == 0, error
    translator = Translator(load_model(imported.folder))
    (forced,) = force(translator, ["我有三个苹果。"], ["I have three apples."])
    assert all(log_prob <= 0 for log_prob in forced.log_probs)


@pytest.mark.parametrize("engine", ["ctranslate2", "onnx"])
def test_exported_it_still_translates_the_same(imported: Imported, engine: str, tmp_path: Path) -> None:
    greedy = ["decoding.method=greedy", "decoding.min_length=0", "decoding.length_penalty=none"]
    export_model(imported.folder, tmp_path / "out", engine=engine, overrides=greedy, sentences=0)  # type: ignore[arg-type]
    texts = [text for text in imported.oracle["texts"]["source"] if text]
    settings = {"method": "greedy", "min_length": 0, "max_length": 12}
    ours = Translator(load_model(imported.folder)).translate(texts, **settings)
    theirs = load_for(tmp_path / "out").translate(texts, **settings)
    assert [t.text for t in theirs] == [t.text for t in ours]
    for mine, its in zip(ours, theirs, strict=True):
        assert its.log_prob == pytest.approx(mine.log_prob, abs=1e-3)


def test_training_goes_on_from_it(import_once, weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its vocabulary and its shape, with the bias of the output among what is learned."""
    imported = import_once("marian-shared")
    for name, pairs in (("train.tsv", PAIRS[:8]), ("valid.tsv", PAIRS[8:10])):
        lines = ["zh\ten", *map("\t".join, pairs)]
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    recipe = {
        "data": {"source": "zh", "target": "en", "train": ["train.tsv"], "valid": ["valid.tsv"]},
        "training": {"init": str(imported.folder), "epochs": 1, "batch_sentences": 4, "precision": "fp32"},
    }
    resolve(recipe, TranslationRecipe, "the recipe")
    lines = [
        f"[{table}]\n" + "\n".join(f"{k} = {json.dumps(v)}" for k, v in of.items()) for table, of in recipe.items()
    ]
    (tmp_path / "tuned.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exit_code, _, error = weft("train", "tuned.toml", "--run", "run")
    assert exit_code == 0, error
    tuned = load_model(tmp_path / "run")
    assert tuned.recipe.tokenizer.cut_apart and tuned.recipe.model.output_bias
    before, after = imported.model.network.output.bias, tuned.network.output.bias
    assert before.shape == after.shape and not torch.equal(before, after)


def test_a_vocabulary_that_is_cut_apart_is_not_learned(weft: Weft, tiny_run: Path, tmp_path: Path) -> None:
    given = ("tokenizer.shared=true", "tokenizer.cut_apart=true")
    sets = [word for each in given for word in ("--set", each)]
    shutil.copytree(tiny_run, tmp_path / "place", ignore=shutil.ignore_patterns("run"))
    exit_code, _, error = weft("train", str(tmp_path / "place/tiny.toml"), "--run", str(tmp_path / "run"), *sets)
    assert exit_code == 2 and "tokenizer.cut_apart = true" in error and "training.init" in error


def test_decoding_settings_come_over_and_can_be_changed(import_once, folder_of, tmp_path: Path) -> None:
    decoding = import_once("joeynmt-pre").model.recipe.decoding
    assert (decoding.beam_size, decoding.length_penalty, decoding.length_power) == (3, "gnmt", 1.0)
    assert decoding.min_length == 1
    model = import_model(folder_of("joeynmt-pre"), tmp_path / "model", overrides=["decoding.beam_size=5"])
    assert model.recipe.decoding == DecodingConfig(**{**dict(decoding), "beam_size": 5})
    assert model.resolved.origins["decoding.beam_size"] == "command line"
    assert model.resolved.origins["model.ff_dim"] == "import"


@pytest.mark.parametrize(("beam_size", "ngram", "expected"), [(1, 1, 0), (1, 2, 2), (4, 1, 1), (4, -1, 0)])
def test_repetitions_and_lengths_come_over_as_joeynmt_counts_them(
    folder_of, tmp_path: Path, beam_size: int, ngram: int, expected: int
) -> None:
    folder = folder_of("joeynmt-pre")
    said = {"beam_size": beam_size, "no_repeat_ngram_size": ngram, "alpha": 0.5, "beam_alpha": 2.0}
    for key, value in {**said, "repetition_penalty": -1}.items():
        change_yaml(folder / "config.yaml", f"testing.{key}", value)
    decoding = import_model(folder, tmp_path / "model").recipe.decoding
    assert (decoding.no_repeat_ngram, decoding.length_penalty, decoding.length_power) == (expected, "gnmt", 0.5)


def test_the_end_of_a_translation_is_no_word_that_is_forbidden(folder_of, tmp_path: Path) -> None:
    folder = folder_of("marian-shared")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    change_json(folder / "generation_config.json", bad_words_ids=[[config["eos_token_id"]], [9]])
    model = import_model(folder, tmp_path / "model", source="zh", target="en").network
    assert model.output.bias is not None and float(model.output.bias[END_ID].detach()) > -100


def test_lengths_and_repetitions_come_over_as_transformers_counts_them(folder_of, tmp_path: Path) -> None:
    folder = folder_of("marian-shared")
    said = {"min_length": 9, "no_repeat_ngram_size": 2, "repetition_penalty": 1.5}
    change_json(folder / "generation_config.json", **said)
    import_model(folder, tmp_path / "model", source="zh", target="en")
    decoding = load_model(tmp_path / "model").recipe.decoding
    assert decoding.min_length == 8  # transformers counts the token that a translation begins with
    assert (decoding.no_repeat_ngram, decoding.repetition_penalty) == (2, 1.5)


def test_a_language_tag_is_a_tag_of_weft(import_once) -> None:
    """What OPUS-MT writes >>cmn_Hans<< before a text is <cmn_Hans> as data.tag, and no text becomes it."""
    imported = import_once("marian-shared")
    tokenizer, recipe = imported.model.vocabularies["source"], imported.model.recipe
    assert recipe.data.tags == ("<cmn_Hans>", "<eng>")
    tag = tokenizer.tag_id("<cmn_Hans>")
    assert tag is not None and tag not in tokenizer.encode([">>cmn_Hans<< <cmn_Hans>"])[0]
    with_tag = imported.oracle["greedy"][-1]["source"]
    assert weft_sentence(imported, "source", with_tag)[0] == tag


def test_languages_are_those_that_are_given_before_those_that_the_folder_tells(folder_of, tmp_path: Path) -> None:
    folder = folder_of("marian-shared")
    import_model(folder, tmp_path / "given", source="yue", target="en")
    assert load_model(tmp_path / "given").recipe.data.source == "yue"
    with pytest.raises(UsageError, match="did you mean zh"):
        import_model(folder, tmp_path / "mistyped", source="cn")
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(UsageError, match="give --source and --target"):
        import_model(folder, tmp_path / "unknown")
    assert not (tmp_path / "unknown").exists()


def test_what_a_folder_calls_its_language_has_to_be_a_code(folder_of, tmp_path: Path) -> None:
    folder = folder_of("marian-shared")
    for code in ("zh\\u001b[31m", "zh]\\nlicense: mit", ""):
        said = f'{{"source_lang": "{code}", "target_lang": "en"}}'
        (folder / "tokenizer_config.json").write_text(said, encoding="utf-8")
        with pytest.raises(UsageError, match="give --source"):
            import_model(folder, tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("key", ["encoder_layers", "d_model"])
@pytest.mark.parametrize("value", [-8, 10**13])
def test_sizes_that_no_model_has_are_refused_before_anything_is_made_of_them(
    folder_of, tmp_path: Path, key: str, value: int
) -> None:
    folder = folder_of("marian-shared")
    change_json(folder / "config.json", **{key: value})
    with pytest.raises(ModelError, match=key):
        import_model(folder, tmp_path / "model")


def test_the_command_says_what_it_made(weft: Weft, folder_of, tmp_path: Path) -> None:
    folder = folder_of("marian-shared")
    exit_code, out, error = weft("import", str(folder), "--output", str(tmp_path / "model"))
    assert (exit_code, out) == (0, "")
    assert "zh to en" in error and "<cmn_Hans>" in error and f"weft translate --model {tmp_path / 'model'}" in error
    exit_code, _, error = weft("import", str(folder), "--output", str(tmp_path / "model"))
    assert exit_code == 2 and "exists already" in error
    exit_code, _, error = weft("import", str(tmp_path), "--output", str(tmp_path / "other"))
    assert exit_code == 2 and "config.yaml or config.json or decoder.yml" in error
