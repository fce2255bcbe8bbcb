"""`weft export`: a folder that is whole, translates as the model does, and is refused where it could not."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Weft

from weft.decoding.search import DecodingConfig
from weft.engines.ctranslate2 import Answer, CTranslate2Engine
from weft.errors import CorpusError, ModelError, RecipeError, UsageError, WeftError
from weft.export import folder as exporting
from weft.export import onnx
from weft.export.folder import export_model
from weft.export.parity import METHODS, Agreement
from weft.files import sha256
from weft.folders import finding
from weft.folders.export import ENGINE_FILES, engine_of
from weft.folders.manifest import CARD, EXPORT, MANIFEST
from weft.folders.model_folder import load_model, save_model
from weft.translating import exported
from weft.translating.exported import has_ended, load_exported, load_for, unsupported_settings
from weft.translating.loading import load_translator
from weft.translating.translation import Translation

TEXTS = ["我有一个苹果。", "两个朋友", "", "她的书包里有三个问题。", "十"]
FIRST_K = "decoding.stopping=first-k"


@pytest.fixture(scope="session")
def exports(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The run of tiny_run exported for an engine, once; a test that changes something copies it first."""
    home = tmp_path_factory.mktemp("exports")

    def exports(engine: str) -> Path:
        if not (home / engine).exists():
            export_model(
                tiny_run / "run",
                home / engine,
                engine=engine,  # type: ignore[arg-type]
                overrides=[FIRST_K],
                data=[tiny_run / "valid.tsv"],
            )
        return home / engine

    return exports


@pytest.mark.parametrize("engine", ENGINE_FILES)
@pytest.mark.parametrize(
    "decoding",
    [
        {"method": "greedy"},
        {"method": "beam", "beam_size": 3, "length_penalty": "fixed", "length_power": 0.6},
        {"method": "beam", "beam_size": 4, "length_penalty": "adaptive"},
    ],
    ids=lambda decoding: decoding.get("length_penalty", "greedy"),
)
def test_an_exported_folder_translates_as_the_model_does(
    engine: str, decoding: dict[str, Any], exports: Callable[[str], Path], tiny_run: Path
) -> None:
    native = load_translator(tiny_run / "run", [FIRST_K])
    ours, theirs = (translator.translate(TEXTS, **decoding) for translator in (native, load_for(exports(engine))))
    for mine, its in zip(ours, theirs, strict=True):
        assert (its.source, its.text) == (mine.source, mine.text)
        assert its.score == pytest.approx(mine.score, abs=1e-3)
        assert its.log_prob == pytest.approx(mine.log_prob, abs=1e-3)


@pytest.mark.parametrize("method", [{"method": "greedy"}, {"method": "beam", "beam_size": 1}], ids=["greedy", "beam"])
def test_each_sentence_keeps_its_own_maximum_though_ctranslate2_is_called_for_all_at_once(
    method: dict[str, Any], exports: Callable[[str], Path], tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = {**method, "length_penalty": "fixed"}
    tight = {**method, "max_length_ratio": 0.5, "max_length_extra": 2}
    native, theirs = load_translator(tiny_run / "run", [FIRST_K]), load_for(exports("ctranslate2"))
    calls: list[int] = []
    translate = CTranslate2Engine.translate
    monkeypatch.setattr(
        CTranslate2Engine,
        "translate",
        lambda engine, sources, *rest, **named: (
            calls.append(len(sources)) or translate(engine, sources, *rest, **named)
        ),
    )
    for settings in ({**method, "max_length_ratio": 3.0}, tight):
        calls.clear()
        expected = [found.text for found in native.translate(TEXTS, **settings)]
        assert [found.text for found in theirs.translate(TEXTS, **settings)] == expected
        assert calls[0] == len(TEXTS) - 1  # all but the empty one; after them those that it let grow too long


@pytest.mark.parametrize(("longest", "ended"), [(4, True), (3, False), (2, False)])
def test_a_search_has_ended_where_every_answer_is_shorter_than_the_sentence_may_be(longest: int, ended: bool) -> None:
    answers = [Answer((7, 8), -1.0, -0.3), Answer((7, 8, 9), -2.0, -0.5)]
    assert has_ended(answers, longest) is ended
    assert not has_ended([], longest)


@pytest.mark.parametrize("engine", ENGINE_FILES)
def test_the_folder_carries_everything_and_lists_it(engine: str, exports: Callable[[str], Path]) -> None:
    folder = exports(engine)
    listed = json.loads((folder / MANIFEST).read_text())["files"]
    tokenizers = {"tokenizer.source.model", "tokenizer.target.model"}
    assert listed.keys() == {"config.toml", "export.json", *ENGINE_FILES[engine], *tokenizers}
    assert listed == {name: sha256(folder / name) for name in listed}
    assert {file.name for file in folder.iterdir()} == {*listed, MANIFEST, CARD}
    assert load_exported(folder).decoding.stopping == "first-k"  # what --set said
    card = (folder / CARD).read_text(encoding="utf-8")
    assert f"Exported for {engine} in fp32" in card and "greedy: 5 of 5 texts are the same (100.0 %)" in card


@pytest.mark.parametrize("engine", ENGINE_FILES)
def test_a_file_that_is_damaged_missing_or_a_link_is_refused(
    engine: str, exports: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(exports(engine), tmp_path / "damaged")
    largest = max(ENGINE_FILES[engine], key=lambda name: (folder / name).stat().st_size)
    with open(folder / largest, "r+b") as file:
        file.seek(500)
        file.write(b"\0\1\2\3")
    (folder / "tokenizer.source.model").unlink()
    with pytest.raises(ModelError, match=r"(?s)has 2 problems.*was changed or damaged") as error:
        load_for(folder)
    assert {problem.where for problem in error.value.problems} == {largest, "tokenizer.source.model"}
    (folder / "tokenizer.source.model").symlink_to(exports(engine) / "tokenizer.source.model")
    with pytest.raises(ModelError, match=r"tokenizer\.source\.model +is a link or not a regular file"):
        load_for(folder)


def test_an_ensemble_with_an_exported_model_is_refused_whichever_it_is(
    exports: Callable[[str], Path], tiny_run: Path
) -> None:
    for names in ((exports("onnx"), tiny_run / "run"), (tiny_run / "run", exports("onnx"))):
        with pytest.raises(UsageError, match=r"an ensemble is searched by weft's own engine; .* was exported for onnx"):
            load_for(names[0], others=names[1:])


@pytest.mark.parametrize(
    "text", ["", "[]", '{"engine": "tensorrt", "precision": "fp32", "longest": 9}', '{"engine": "onnx"}', "[" * 9999]
)
def test_a_folder_that_does_not_say_what_it_is_is_refused(
    text: str, exports: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(exports("onnx"), tmp_path / "strange")
    (folder / "export.json").write_text(text)
    with pytest.raises(ModelError, match=r"has 1 problem\n +export\.json +cannot be read"):
        load_for(folder)


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_says_what_a_folder_is_must_be_a_plain_file(
    kind: str, exports: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(exports("ctranslate2"), tmp_path / "export"))
    (folder / EXPORT).unlink()
    if kind == "link":
        (folder / EXPORT).symlink_to("/dev/zero")
    else:
        os.mkfifo(folder / EXPORT)
    with pytest.raises(ModelError, match="is a link or not a regular file"):
        engine_of(folder)


def test_an_export_that_claims_another_engine_is_refused(exports: Callable[[str], Path], tmp_path: Path) -> None:
    folder = shutil.copytree(exports("onnx"), tmp_path / "claims")
    text = (folder / "export.json").read_text().replace("onnx", "ctranslate2")
    (folder / "export.json").write_text(text)
    with pytest.raises(ModelError, match=r"model\.bin +is not in the manifest"):
        load_for(folder)


def test_what_ctranslate2_has_no_form_for_is_named_all_at_once_and_nothing_written(
    tiny_run: Path, tmp_path: Path
) -> None:
    model = load_model(tiny_run / "run")
    recipe = model.recipe.model_copy(
        update={
            "model": model.recipe.model.model_copy(update={"activation": "elu"}),
            "decoding": DecodingConfig(length_penalty="gnmt", word_reward=0.5, no_repeat_ngram=3),
        }
    )
    model.resolved = type(model.resolved)(recipe, model.resolved.origins)
    (tmp_path / "elu").mkdir()
    save_model(tmp_path / "elu", model, "")
    with pytest.raises(RecipeError) as error:
        export_model(tmp_path / "elu", tmp_path / "out", engine="ctranslate2")
    assert [problem.where for problem in error.value.problems] == [
        'model.activation = "elu"',
        'decoding.length_penalty = "gnmt"',
        "decoding.word_reward = 0.5",
        "decoding.no_repeat_ngram = 3",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["elu"]


@pytest.mark.parametrize(
    ("engine", "setting", "where"),
    [
        ("ctranslate2", {"method": "sample"}, 'decoding.method = "sample"'),
        ("ctranslate2", {"stopping": "exact"}, 'decoding.stopping = "exact"'),
        ("ctranslate2", {"repetition_penalty": 1.2}, "decoding.repetition_penalty = 1.2"),
        ("ctranslate2", {"min_length": 2}, "decoding.min_length = 2"),
        ("ctranslate2", {"diverse_groups": 3}, "decoding.diverse_groups = 3"),
        ("ctranslate2", {"beam_size": 1, "patience": 2.0}, "decoding.patience = 2.0"),
        ("onnx", {"coverage_penalty": 0.2}, "decoding.coverage_penalty = 0.2"),
    ],
)
def test_a_setting_that_an_engine_cannot_follow_is_refused_when_translating(
    engine: str, setting: dict[str, Any], where: str, exports: Callable[[str], Path]
) -> None:
    with pytest.raises(RecipeError) as error:
        load_for(exports(engine)).translate(["两个朋友"], **setting)
    assert [problem.where for problem in error.value.problems] == [where]


def test_every_decoding_key_is_followed_or_refused_by_ctranslate2() -> None:
    assert DecodingConfig.model_fields.keys() - exported.CTRANSLATE2_FOLLOWS == {
        *("word_reward", "coverage_penalty", "diverse_groups", "min_length_ratio", "min_length", "no_repeat_ngram"),
        *("repetition_penalty", "language_model", "lm_weight", "ilm_weight"),
    }
    assert list(unsupported_settings("ctranslate2", DecodingConfig(method="greedy"))) == []
    assert list(unsupported_settings("ctranslate2", DecodingConfig(stopping="exact", length_penalty="none"))) == []


@pytest.mark.parametrize("engine", ENGINE_FILES)
def test_several_translations_are_those_of_the_model(
    engine: str, exports: Callable[[str], Path], tiny_run: Path
) -> None:
    native = load_translator(tiny_run / "run", [FIRST_K])
    settings = {"beam_size": 4, "length_penalty": "fixed"}
    both = [each.translate_n_best(TEXTS[:2], 3, **settings) for each in (native, load_for(exports(engine)))]
    ours, theirs = ([[t.text for t in answers] for answers in found] for found in both)
    assert theirs == ours and len(ours[0]) == 3


def test_several_translations_by_ctranslate2_want_first_k(exports: Callable[[str], Path]) -> None:
    with pytest.raises(RecipeError, match=r'"exact" +gives one translation per sentence'):
        load_for(exports("ctranslate2")).translate_n_best(TEXTS, 2, stopping="exact", length_penalty="none")


def test_onnx_runs_every_search_of_weft(exports: Callable[[str], Path], tiny_run: Path) -> None:
    native, translator = load_translator(tiny_run / "run"), load_for(exports("onnx"))
    searches: list[dict[str, Any]] = [
        {"stopping": "exact"},
        {"method": "sample", "temperature": 0.5},
        {"method": "mbr", "mbr_candidates": 9},
        {"beam_size": 4, "diverse_groups": 2, "no_repeat_ngram": 2, "stopping": "exact"},
    ]
    for decoding in searches:
        ours, theirs = (each.translate(TEXTS, **decoding) for each in (native, translator))
        assert [t.text for t in theirs] == [t.text for t in ours]


def test_an_export_that_says_something_else_is_not_written_unless_that_is_accepted(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = [Translation("一", "one", -1.0, -1.0)] * 98
    theirs = [*ours[:96], *[Translation("一", "an | apple", -0.75, -1.0)] * 2]
    monkeypatch.setattr(exporting, "compare", lambda *_: [Agreement("greedy", ours, theirs, (50.0, 49.5))])
    said: list[str] = []
    run, data = tiny_run / "run", [tiny_run / "valid.tsv"]
    with pytest.raises(WeftError, match=r"onnx gives the same text as weft for only 98\.0 % .*Nothing was written"):
        export_model(run, tmp_path / "out", engine="onnx", data=data, say=said.append)
    assert list(tmp_path.iterdir()) == []
    assert "greedy: 96 of 98 texts are the same (98.0 %); sacreBLEU 50.00 and 49.50" in said[0]
    assert "    一  (score +0.2500)\n" in said[0] and "onnx           -0.7500  an | apple" in said[0]
    export_model(run, tmp_path / "out", engine="onnx", data=data, accepts_differences=True)
    row = r"| greedy | 一 | one | an \| apple | +0.2500 |"
    assert row in (tmp_path / "out" / CARD).read_text(encoding="utf-8")


def test_the_comparison_is_greedy_and_beam_search_that_every_engine_can_do() -> None:
    for engine in ENGINE_FILES:
        assert [problem for method in METHODS.values() for problem in unsupported_settings(engine, method)] == []


def test_int8_is_smaller_and_its_card_says_how_near(
    exports: Callable[[str], Path], tiny_run: Path, tmp_path: Path
) -> None:
    for engine in ENGINE_FILES:
        whole = exports(engine)
        agreements = export_model(
            tiny_run / "run",
            tmp_path / engine,
            engine=engine,  # type: ignore[arg-type]
            precision="int8",
            overrides=[FIRST_K],
            data=[tiny_run / "valid.tsv"],
            sentences=3,
        )
        assert [len(agreement.native) for agreement in agreements] == [3, 3]
        assert all(agreement.bleu is not None for agreement in agreements)
        files = ENGINE_FILES[engine]
        sizes = [sum((folder / name).stat().st_size for name in files) for folder in (tmp_path / engine, whole)]
        assert sizes[0] < sizes[1]
        assert "3 sentences of valid.tsv" in (tmp_path / engine / CARD).read_text(encoding="utf-8")


def test_a_run_whose_best_weights_are_replaced_meanwhile_is_exported_with_its_card(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find, found = finding.find_model, []

    def find_late(name: str | Path) -> Path:
        found.append(find(name))
        return tmp_path / "gone" if len(found) == 1 else found[-1]

    monkeypatch.setattr(finding, "find_model", find_late)
    export_model(tiny_run / "run", tmp_path / "exported", engine="onnx", sentences=0)
    card = (tmp_path / "exported" / CARD).read_text(encoding="utf-8")
    assert len(found) == 2 and card.startswith((found[1] / CARD).read_text(encoding="utf-8"))


def test_onnx_refuses_weights_that_one_file_cannot_hold(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx, "LARGEST_FILE", 100_000)
    with pytest.raises(UsageError, match=r"weights of encoder\.onnx take .* bytes; an ONNX file holds at most 100,000"):
        export_model(tiny_run / "run", tmp_path / "out", engine="onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_sentence_beyond_the_positions_is_refused(
    exports: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = load_exported(exports("onnx"))
    monkeypatch.setattr(translator, "export", translator.export.model_copy(update={"longest": 6}))
    assert translator.translate(["十"]) == load_exported(exports("onnx")).translate(["十"])
    with pytest.raises(UsageError, match=r"longer than the 6 that this export has positions for"):
        translator.translate(["她的书包里有三个问题。" * 3])
    with pytest.raises(UsageError, match=r"longer than the 6 that this export has positions for"):
        translator.alternatives("她的书包里有三个问题。" * 3, "")


def test_an_engine_that_the_folder_was_not_made_for_is_refused_with_what_to_do(
    weft: Weft, exports: Callable[[str], Path], tiny_run: Path
) -> None:
    run, folder = str(tiny_run / "run"), str(exports("onnx"))
    code, _, error = weft("translate", "--model", run, "--engine", "onnx", "十")
    assert code == 2 and f"weft export --model {run} --to onnx --output FOLDER" in error
    code, _, error = weft("translate", "--model", folder, "--engine", "native", "十")
    assert code == 2 and "was exported for onnx; for native start from the model it was exported from" in error
    code, _, error = weft("translate", "--model", folder, "--engine", "tensorrt", "十")
    assert code == 2 and "'native', 'ctranslate2', 'onnx'" in error


def test_the_command_exports_and_the_folder_translates(weft: Weft, tiny_run: Path, tmp_path: Path) -> None:
    run, folder = str(tiny_run / "run"), str(tmp_path / "out")
    arguments = ("--model", run, "--to", "ctranslate2", "--output", folder)
    code, out, error = weft("export", *arguments, "--set", "decoding.stopping=exact")
    assert (code, out) == (2, "") and 'decoding.stopping = "exact"' in error and FIRST_K in error
    code, out, error = weft("export", *arguments)
    assert (code, out) == (0, "") and "beam of 3: 5 of 5 texts are the same (100.0 %)" in error
    assert "5 sentences of valid.tsv" in error and 'the export has "first-k"' in error
    assert error.endswith(f"{folder} holds the model for ctranslate2: weft translate --model {folder} TEXT\n")
    assert weft("export", *arguments)[0] == 2  # it is there already
    translated = [
        weft("translate", "--model", model, "--set", FIRST_K, *engine, "我有两个苹果。")
        for model, engine in ((run, []), (folder, []), (folder, ["--engine", "ctranslate2"]))
    ]
    assert translated[0][0] == 0 and translated[0] == translated[1] == translated[2]


@pytest.mark.parametrize(("target", "references"), [("zh", 1), ("zh-TW", 0), ("yue", 0), ("en", 0), ("de", 0)])
def test_the_starter_corpus_is_a_reference_for_its_own_languages(
    target: str, references: int, tiny_run: Path, tmp_path: Path
) -> None:
    model = load_model(tiny_run / "run")
    data = model.recipe.data.model_copy(update={"source": "en", "target": target})
    model.resolved = type(model.resolved)(model.recipe.model_copy(update={"data": data}), model.resolved.origins)
    assert len(exporting.choose_sample(model, tmp_path, (), 10).references) == references


def test_a_pair_without_sentences_at_hand_asks_for_some(tiny_run: Path, tmp_path: Path) -> None:
    model = load_model(tiny_run / "run")
    data = model.recipe.data.model_copy(update={"source": "de"})
    model.resolved = type(model.resolved)(model.recipe.model_copy(update={"data": data}), model.resolved.origins)
    with pytest.raises(UsageError, match=r"no sentences in de at hand .*--data FILE\.tsv.*--sentences 0"):
        exporting.choose_sample(model, tmp_path, (), 10)
    assert exporting.choose_sample(model, tmp_path, (), 0).sources == []


def test_a_file_without_pairs_is_nothing_to_compare_on(tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.tsv").write_text("zh\ten\n")
    with pytest.raises((UsageError, CorpusError), match=r"empty\.tsv"):
        exporting.choose_sample(load_model(tiny_run / "run"), tmp_path, [tmp_path / "empty.tsv"], 10)


def test_other_verbs_say_that_an_export_is_no_model_of_weft_s(weft: Weft, exports: Callable[[str], Path]) -> None:
    code, _, error = weft("models", "copy", str(exports("onnx")), "copied")
    assert code == 1 and "the model was exported for another engine: weft translate runs it" in error


@pytest.mark.parametrize("engine", ENGINE_FILES)
def test_an_export_is_listed_shown_and_verified(
    weft: Weft, engine: str, exports: Callable[[str], Path], tiny_run: Path, tmp_path: Path
) -> None:
    folder = exports(engine)
    _, original, _ = weft("models", "show", str(tiny_run / "run"), "--json")
    for command in (("models", "list", str(folder.parent), "--json"), ("models", "show", str(folder), "--json")):
        code, out, error = weft(*command)
        assert (code, error) == (0, "")
        found = json.loads(out)
        found = found if isinstance(found, dict) else next(one for one in found if one["folder"] == str(folder))
        assert found["state"] == f"exported for {engine}, fp32" and found["scores"]
        for key in ("parameters", "source", "target", "recipe", "data"):
            assert found[key] == json.loads(original)[key]
        assert found["bytes"] > sum((folder / name).stat().st_size for name in ENGINE_FILES[engine])
    code, out, _ = weft("models", "verify", str(folder))
    assert code == 0 and {*ENGINE_FILES[engine]} <= {line.split("  ")[1] for line in out.splitlines()}
    shutil.copytree(folder, tmp_path / "altered")
    (tmp_path / "altered" / ENGINE_FILES[engine][0]).write_bytes(b"other")
    code, _, error = weft("models", "verify", str(tmp_path / "altered"))
    assert code == 1 and "its sha256 is not the manifest's" in error


@pytest.mark.parametrize("engine", ENGINE_FILES)
def test_an_export_is_evaluated_as_its_model_is(
    weft: Weft, engine: str, exports: Callable[[str], Path], tiny_run: Path
) -> None:
    def scores(model: Path, *options: str) -> Any:
        data = str(tiny_run / "valid.tsv")
        code, out, error = weft("evaluate", "--model", str(model), "--data", data, "--json", "-", *options)
        assert (code, error) == (0, "")
        return json.loads(out)

    ours = scores(tiny_run / "run", "--set", FIRST_K)
    theirs = scores(exports(engine), "--engine", engine)
    assert theirs["scores"] == ours["scores"] and theirs["parameters"] == ours["parameters"]
    both = scores(exports(engine), "--methods", "greedy,beam:2")["methods"]
    assert both.keys() == {"greedy", "beam:2"}


def test_what_an_engine_cannot_do_is_refused_by_name_before_anything_is_evaluated(
    weft: Weft, exports: Callable[[str], Path], tiny_run: Path
) -> None:
    command = ["evaluate", "--model", str(exports("ctranslate2")), "--data", str(tiny_run / "valid.tsv")]
    code, out, error = weft(*command, "--methods", "greedy,mbr:4,beam:2+min_length=3")
    assert (code, out) == (2, "")
    assert 'mbr:4: decoding.method = "mbr"' in error and "beam:2+min_length=3: decoding.min_length = 3" in error
    assert weft(*command, "--engine", "native")[0] == 2
    code, out, error = weft("score", *command[1:])
    assert (code, out) == (2, "") and "name the model it was exported from" in error


@pytest.mark.parametrize("engine", ENGINE_FILES)
@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_the_parts_of_a_stream_of_an_export_are_its_translation(
    engine: str, method: str, exports: Callable[[str], Path]
) -> None:
    translator = load_for(exports(engine))
    parts = list(translator.stream(TEXTS[3], method=method))
    assert "".join(parts) == translator.translate([TEXTS[3]], method=method)[0].text
    assert engine == "onnx" or len(parts) == 1


def test_alternatives_are_found_by_onnx_and_refused_by_ctranslate2(
    exports: Callable[[str], Path], tiny_run: Path
) -> None:
    native = load_translator(tiny_run / "run", [FIRST_K]).alternatives(TEXTS[0], "I", 4)
    found = load_for(exports("onnx")).alternatives(TEXTS[0], "I", 4)
    assert [(one.word, one.text) for one in found] == [(one.word, one.text) for one in native]
    with pytest.raises(UsageError, match="CTranslate2 searches on its own and does not return single steps"):
        load_for(exports("ctranslate2")).alternatives(TEXTS[0], "I", 4)


@pytest.mark.parametrize("engine", ENGINE_FILES)
@pytest.mark.parametrize(("key", "value"), [("attention_steps", 2), ("attention_beta", "learned")])
def test_attention_that_settles_or_learns_its_beta_is_refused_by_name(
    tiny_run: Path, tmp_path: Path, engine: Any, key: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_translator(tiny_run / "run", [FIRST_K])
    object.__setattr__(loaded.model.recipe.model, key, value)
    monkeypatch.setattr(exporting, "load_translator", lambda name, overrides: loaded)
    with pytest.raises(RecipeError, match=rf"model\.{key} = .*exports only know"):
        export_model(tiny_run / "run", tmp_path / "out", engine=engine)


@pytest.mark.parametrize("engine", ENGINE_FILES)
def test_a_model_of_another_kind_is_refused_by_name(
    tiny_run: Path, tmp_path: Path, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_translator(tiny_run / "run")
    object.__setattr__(loaded.model.recipe.model, "kind", "convolutional")
    monkeypatch.setattr(exporting, "load_translator", lambda name, overrides: loaded)
    with pytest.raises(UsageError, match=f'--to {engine} writes models of kind "transformer".*; this one is "convolut'):
        export_model(tiny_run / "run", tmp_path / "out", engine=engine)
    assert not (tmp_path / "out").exists()
