"""The models that come with weft: whole, small, licensed, made by the recipes beside them, and able to translate."""

import tomllib
from pathlib import Path

import pytest
from bench.everyday import FOLDER, everyday_rows, number_rows, passed
from bench.shipped import LARGEST

import weft
from weft.folders.finding import PRETRAINED, shipped_models
from weft.folders.manifest import model_files
from weft.folders.model_folder import check_model, read_config
from weft.folders.summary import summarize

ROOT = Path(__file__).parents[2]
SENTENCES = {
    "en-zh": {"He is my friend.": "他是我的朋友。", "I don't know.": "我不知道。", "I have a dog.": "我有一只狗。"},
    "zh-en": {"谢谢。": "Thank you.", "我不知道。": "I don't know.", "他是我的朋友。": "He's my friend."},
}


def test_these_are_all() -> None:
    assert shipped_models() == sorted(SENTENCES)


@pytest.mark.parametrize("name", SENTENCES)
def test_it_is_whole_small_and_nothing_else_lies_in_its_folder(name: str) -> None:
    folder = PRETRAINED / name
    check_model(folder)
    files = {file.name: file.stat().st_size for file in folder.iterdir()}
    assert files.keys() == set(model_files(folder)) and sum(files.values()) <= LARGEST


@pytest.mark.parametrize("name", SENTENCES)
def test_its_card_says_license_sources_and_scores(name: str) -> None:
    summary = summarize(name)
    assert summary.license == "cc-by-2.0-fr" and "tatoeba.org" in summary.card
    assert summary.card.count("https://creativecommons.org/licenses/by/2.0/fr/") == 2
    assert {row["part"] for row in summary.data} == {"train", "valid"}
    for source in ("XPersona", "TICO-19", "CLDR", "GeoNames", "Wordnet", "OpenStreetMap", "Android", "Home Assistant"):
        assert source in summary.card
    assert {"sacrebleu", "chrf"} <= {score["score"] for score in summary.scores}
    assert all(score["signature"] for score in summary.scores)


@pytest.mark.parametrize("name", SENTENCES)
def test_the_recipe_beside_the_project_is_the_one_that_made_it(name: str) -> None:
    made_by = read_config(PRETRAINED / name).recipe.model_dump()
    recipe = tomllib.loads((ROOT / f"recipes/tatoeba-{name}.toml").read_text(encoding="utf-8"))
    for table, values in recipe.items():
        if isinstance(values, dict):
            assert {key: made_by[table][key] for key in values.keys() - {"train", "valid"}} == {
                key: value for key, value in values.items() if key not in ("train", "valid")
            }
        else:
            assert made_by[table] == values


@pytest.mark.parametrize("name", SENTENCES)
def test_it_translates_plain_sentences_by_its_name(name: str) -> None:
    translator = weft.load(name)
    found = [translation.text for translation in translator.translate(list(SENTENCES[name]))]
    assert found == list(SENTENCES[name].values())


@pytest.mark.parametrize("name", SENTENCES)
def test_numbers_and_lines_without_a_word_stay_and_everyday_sentences_hold_what_they_must(name: str) -> None:
    translator = weft.load(name)
    everyday, _ = passed(translator, everyday_rows(name)[::5])
    assert len(everyday) >= 25  # of 30
    assert len(passed(translator, number_rows(name)[::5])[0]) == 48
    lines = (FOLDER / "wordless.txt").read_text(encoding="utf-8").splitlines()
    assert [one.text for one in translator.translate(lines)] == lines
    amounts = {"zh-en": ("3万", "30,000"), "en-zh": ("5 million", "500萬")}
    assert translator.translate([amounts[name][0]], script="traditional")[0].text == amounts[name][1]


def test_what_is_written_in_another_way_is_read_alike() -> None:
    loud, quiet, curly, straight = weft.load("en-zh").translate(
        ["I LOVE YOU.", "I love you.", "I don’t know.", "I don't know."]
    )
    assert loud.text == quiet.text and curly.text == straight.text
    title, sentence = weft.load("zh-en").translate(["我的朋友", "他是我的朋友。"])
    assert title.text[-1] != "." and sentence.text[-1] == "."


def test_traditional_script_is_understood_like_simplified() -> None:
    translator = weft.load("zh-en")
    traditional, simplified = translator.translate(["我們學習漢語。", "我们学习汉语。"])
    assert traditional.text == simplified.text
