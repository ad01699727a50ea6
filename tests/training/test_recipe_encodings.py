"""Recipes as other programs write them: marks of the byte order, line ends, encodings."""

from pathlib import Path

import pytest

from regard.errors import RecipeError
from regard.recipes.recipe import read_recipe

COPY = Path(__file__).parents[2] / "recipes" / "copy.toml"


def test_a_mark_of_the_byte_order_and_line_ends_of_windows_are_no_part_of_a_recipe(tmp_path):
    path = tmp_path / "run.toml"
    path.write_bytes(COPY.read_text().replace("\n", "\r\n").encode("utf-8-sig"))
    assert read_recipe(path) == read_recipe(COPY)


def test_a_recipe_in_utf_16_is_told_how_it_becomes_utf_8(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(COPY.read_text(), encoding="utf-16")
    with pytest.raises(
        RecipeError, match=r"run.toml: this is UTF-16\. .* iconv -f utf-16 -t utf-8"
    ):
        read_recipe(path)
