import pytest

from weft.config import resolve
from weft.config.keys import all_keys
from weft.config.other_names import NAMES_HERE
from weft.errors import RecipeError
from weft.folders.recipes import TranslationRecipe


def test_what_other_toolkits_call_the_keys_of_a_recipe_are_names_that_it_has_and_no_keys_themselves() -> None:
    names = {key.rpartition(".")[2] for key in all_keys(TranslationRecipe)}
    assert {name for here in NAMES_HERE.values() for name in here} <= names
    assert not {key.rpartition(".")[2] for key in all_keys(TranslationRecipe, {})} & NAMES_HERE.keys()


def test_a_key_of_another_kind_that_other_toolkits_use_for_keys_of_this_kind_gets_those() -> None:
    data = {"source": "zh", "target": "en", "train": ["train.tsv"], "valid": ["valid.tsv"]}
    with pytest.raises(RecipeError, match=r"model\.layers = 3 +unknown key; did you mean `encoder_layers` or `dec"):
        resolve({"data": data, "model": {"layers": 3}}, TranslationRecipe, "x")
