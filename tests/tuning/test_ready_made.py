"""The studies that come with weft: their bases are recipes, and each claim names two cells of its grid."""

from pathlib import Path

import pytest

from weft.config import changed
from weft.preparing.corpora import find_recipe
from weft.tuning.cells import grid
from weft.tuning.judging import cell_named
from weft.tuning.settings import check_against, read_study

FOLDER = Path(__file__).parents[2] / "recipes" / "studies"
STUDIES = [path for path in sorted(FOLDER.glob("*.toml")) if "base =" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_that_comes_with_weft_fits_its_base_and_its_claims_fit_its_grid(path: Path) -> None:
    config = read_study(path).recipe
    recipe = find_recipe(path.parent / config.base, run=None, data=None, overrides=())[0]
    check_against(config, recipe.recipe, path)
    names = {str(cell.names): cell for cell in grid(config)}
    for values in (cell.settings for cell in names.values()):
        changed(recipe, {**config.fixed, **values}, "study")
    for claim in config.claims:
        assert all(cell_named([*names.values()], ends) is not None for ends in claim.cells), claim.says
    assert config.claims and all(claim.source for claim in config.claims)
