from pathlib import Path

import pytest

import regard
from regard.errors import RecipeError
from regard.recipes.recipe import read_recipe
from regard.recipes.shipped import recipe_file, shipped_recipes, summary_of

RECIPES = Path(__file__).parents[2] / "recipes"


def test_every_recipe_of_the_project_is_shipped_and_says_what_it_is():
    assert set(shipped_recipes().values()) == set(RECIPES.glob("*.toml"))
    for path in shipped_recipes().values():
        assert summary_of(path).endswith("."), path


@pytest.mark.parametrize("typed", ["copy", "copy.toml"])
def test_a_name_alone_is_a_shipped_recipe(typed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_recipe(Path(typed)) == read_recipe(RECIPES / "copy.toml")


def test_a_file_of_that_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("copy").write_text("")
    assert recipe_file(Path("copy")) == Path("copy")


def test_the_recipe_of_a_run_is_not_looked_for_among_the_shipped(tmp_path):
    with pytest.raises(RecipeError, match="there is no file"):
        read_recipe(tmp_path / "copy")


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("recipes/copy.toml", "'copy' is shipped: give its name alone."),
        ("cpy", "Shipped recipes: copy. 'regard recipe' lists the shipped ones."),
        ("zzz.toml", "is empty. 'regard recipe' lists the shipped ones."),
    ],
)
def test_a_missing_recipe_is_answered_with_a_shipped_one(typed, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError, match="there is no file") as raised:
        regard.train(typed, tmp_path / "run")
    assert told in str(raised.value)
