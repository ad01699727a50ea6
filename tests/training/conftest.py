"""What many tests of training begin with."""

import pytest

from tests.training.small_recipe import RECIPE


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path
