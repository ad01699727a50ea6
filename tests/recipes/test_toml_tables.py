"""A recipe's table before it is read: what a size, a kind or a shell made of it is told."""

import pytest

from regard.errors import RecipeError
from regard.recipes import read_recipe
from tests.small_recipe import RECIPE


def test_a_size_is_not_blamed_for_a_mistyped_kind(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.replace('size = "tiny"', 'size = "tiny"\nkind = "tranformer"'))
    with pytest.raises(RecipeError, match="Did you mean 'transformer'") as said:
        read_recipe(path)
    assert "model.size" not in str(said.value)


def test_a_table_whose_quotes_a_shell_took_is_told(recipe):
    change = "data.train={name=copy, count=3}"
    with pytest.raises(RecipeError) as said:
        read_recipe(recipe, [change])
    assert str(said.value) == (
        "--set data.train: '{name=copy, count=3}' begins like a table but is no TOML. Write "
        '{ name = "tsv", path = "a.tsv" }, and in a shell all of it in single quotes, since a '
        "shell takes double ones away."
    )


def test_data_given_as_a_recipe_are_sent_to_regard_new(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("one\tzwei\n")
    with pytest.raises(RecipeError, match="this is not TOML") as said:
        read_recipe(path)
    assert str(said.value).endswith(f" For a recipe of data: regard new {path}.")
