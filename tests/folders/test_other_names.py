from weft.config.keys import all_keys
from weft.config.other_names import NAMES_HERE
from weft.folders.recipes import TranslationRecipe


def test_what_other_toolkits_call_the_keys_of_a_recipe_are_names_that_it_has_and_no_keys_themselves() -> None:
    names = {key.rpartition(".")[2] for key in all_keys(TranslationRecipe)}
    assert {name for here in NAMES_HERE.values() for name in here} <= names
    assert not names & NAMES_HERE.keys()
