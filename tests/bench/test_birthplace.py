"""The variants of the birth places are recipes, and the table tells their mean and spread."""

import pytest
from bench.birthplace import FINETUNE, PRETRAIN, VARIANTS, fresh, table

from weft.config import read_recipe
from weft.folders.recipes import KnowledgeRecipe


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_changes_the_recipes_into_recipes(name: str) -> None:
    variant = VARIANTS[name]
    changes = variant.pretrain if variant.pretrain is not None else (*fresh(), *variant.finetune)
    recipe = read_recipe(PRETRAIN, KnowledgeRecipe, changes).recipe
    assert recipe.training.init is None
    tuned = read_recipe(FINETUNE, KnowledgeRecipe, variant.finetune).recipe
    held_out = "cs224n-birthplace/birth_dev.tsv"
    assert held_out not in (*recipe.data.train, *tuned.data.train)
    assert recipe.data.valid == tuned.data.valid == (held_out,)


def test_the_table_has_mean_spread_and_vote() -> None:
    line = {"variant": "rotary", "losses": {"pretrain": 0.5}, "seconds": {"all": 10}}
    lines = [{**line, "seed": seed, "exact_match": found} for seed, found in ((1, 0.25), (2, 0.35))]
    lines[0]["pretrained"] = 0.31
    lines.append({"variant": "rotary", "seed": None, "votes": 2, "exact_match": 0.4})
    assert table(lines).splitlines()[-1] == "| rotary | 31.0 | 30.0 [25.0, 35.0] | 40.0 | 2 | 0.500 | 10 |"
