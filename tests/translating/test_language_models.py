"""A language model helps a translator: shallow fusion by the settings, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.command_line import Weft
from tests.tasks.language_models import ngram_recipe

from weft import load
from weft.config import resolve
from weft.decoding.search import DecodingConfig
from weft.errors import RecipeError, UsageError
from weft.folders.finding import find_model
from weft.folders.model_folder import load_model
from weft.folders.recipes import LanguageModelRecipe
from weft.preparing.texts import with_vocabulary_of
from weft.runs.train import train
from weft.tasks.generating import open_model
from weft.text.copying import NUMBERS, copies_of
from weft.text.vocabulary import BEGIN_ID
from weft.translating.batches import encode_sources
from weft.translating.loading import load_translator
from weft.translating.translator import Translator

TEXTS = ["我有一个苹果。", "我有两个朋友。"]


@pytest.fixture(scope="module")
def helper(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two n-gram models of one text: `lm`, over the translator's vocabulary, and `other`."""
    folder = tmp_path_factory.mktemp("helper")
    (folder / "train.txt").write_text("They sing a song.\n" * 20, encoding="utf-8")
    (folder / "valid.txt").write_text("They sing.\n", encoding="utf-8")
    train(ngram_recipe(vocabulary_of=str(tiny_run / "run")), run=folder / "lm", data=folder)
    train(ngram_recipe(kind="characters"), run=folder / "other", data=folder)
    return folder


def test_a_vocabulary_of_a_translator_reads_text_as_its_target_before_and_after_it_is_saved(
    tiny_run: Path, helper: Path, tmp_path: Path
) -> None:
    forms = ["target_punctuation=chinese", "target_script=simplified", "copying=true"]
    parent = train(
        tiny_run / "tiny.toml",
        run=tmp_path / "parent",
        data=tiny_run,
        overrides=[*(f"tokenizer.{form}" for form in forms), "data.source=en", "data.target=zh"],
    )
    given = ngram_recipe(vocabulary_of=str(parent))
    run = train(given, run=tmp_path / "lm", data=helper)
    recipe = resolve(given, LanguageModelRecipe, "a test")
    _, begun = with_vocabulary_of(recipe, str(parent))
    saved, text = load_model(find_model(run)).vocabularies["text"], '他說:"我們有2019個。"'
    target = load_model(find_model(parent)).vocabularies["target"]
    assert saved.normalize(text) == copies_of(target.normalize(text)).text != target.normalize(text) != text
    written, symbol = open_model(run), [number for number in saved.ids_of([NUMBERS[0]]) if number is not None]
    assert written.continuation("他有2019个", symbol) == "2019" and written.continuation("", symbol) == "#"
    assert saved.encode([text]) == begun.vocabularies["text"].encode([text]) == target.encode([saved.normalize(text)])


@pytest.fixture
def translator(tiny_run: Path) -> Translator:
    return load_translator(tiny_run / "run")


def test_the_language_model_decides_as_much_as_its_weight_says(translator: Translator, helper: Path) -> None:
    alone, lm = translator.translate(TEXTS), str(helper / "lm")
    for best in (1, 2):
        assert translator.translate_n_best(TEXTS, best, language_model=lm, lm_weight=0.0) == (
            translator.translate_n_best(TEXTS, best)
        )
    fused = translator.translate(TEXTS, language_model=lm, lm_weight=9.0, method="greedy")
    assert all(one.text.startswith("They") for one in fused) and fused != alone
    assert translator.translate(TEXTS[:1], language_model=lm, lm_weight=9.0, method="greedy") == fused[:1]


def test_every_step_adds_the_language_model_and_subtracts_what_the_translator_says_without_a_source(
    translator: Translator, helper: Path
) -> None:
    lm = str(helper / "lm")
    config = DecodingConfig(language_model=lm, lm_weight=0.3, ilm_weight=0.2, stopping="first-k")
    read, empty = ([encode_sources(translator.model, texts)] for texts in (TEXTS, ["", ""]))
    states = [
        translator._begin(read, np.arange(2), 1, config)[0],
        translator._start(read, np.arange(2), 1)[0],
        load(lm).network.start(2),
        translator._start(empty, np.arange(2), 1)[0],
    ]
    with torch.inference_mode():
        for tokens in ([BEGIN_ID, BEGIN_ID], [7, 9], [8, 30]):
            fused, own, language, internal = (state.step(torch.tensor(tokens)) for state in states)
            torch.testing.assert_close(fused, own + 0.3 * language - 0.2 * internal)


def test_other_searches_hear_the_language_model_too(translator: Translator, helper: Path) -> None:
    settings = {"language_model": str(helper / "lm"), "lm_weight": 9.0}
    whole = translator.translate(TEXTS[:1], method="greedy", **settings)[0].text
    assert "".join(translator.stream(TEXTS[0], method="greedy", **settings)) == whole
    found = translator.alternatives(TEXTS[0], "", 3, **settings)
    assert found[0].word in ("They", "a", "sing", "song")


def test_models_of_other_tasks_and_vocabularies_and_what_does_not_go_together_are_refused(
    translator: Translator, helper: Path, tiny_run: Path, weft: Weft
) -> None:
    with pytest.raises(UsageError, match=r"has another vocabulary .* set to the translator"):
        translator.translate(TEXTS, language_model=str(helper / "other"))
    with pytest.raises(UsageError, match="is a model for translation"):
        translator.translate(TEXTS, language_model=str(tiny_run / "run"))
    with pytest.raises(UsageError, match='ilm_weight: needs stopping = "first-k"'):
        translator.translate(TEXTS, language_model=str(helper / "lm"), ilm_weight=0.1)
    subtracting = {"language_model": str(helper / "lm"), "ilm_weight": 0.1, "stopping": "first-k"}
    with pytest.raises(UsageError, match="repetition_penalty: does not work with ilm_weight"):
        translator.translate(TEXTS, **subtracting, repetition_penalty=1.2)
    with pytest.raises(UsageError, match=r"alternatives need decoding\.ilm_weight = 0"):
        translator.alternatives(TEXTS[0], "", **subtracting)
    with pytest.raises(RecipeError, match='is of the task "language-model"'):
        train(
            ngram_recipe(kind="characters"),
            run=helper / "none",
            data=helper,
            overrides=[f"tokenizer.vocabulary_of={helper / 'lm'}"],
        )
    run = ["--model", str(tiny_run / "run")]
    code, _, error = weft("translate", *run, "--lm-weight", "0.1", TEXTS[0])
    assert code == 2 and "--lm-weight needs --lm" in error
    code, _, error = weft("translate", *run, "--lm", "20261128", TEXTS[0])
    assert code == 2 and "there is no model 20261128" in error
    code, out, _ = weft(
        "translate", *run, "--lm", str(helper / "lm"), "--lm-weight", "9", "--set", "decoding.method=greedy", TEXTS[0]
    )
    assert code == 0 and out.startswith("They")
