"""TOML → a checked recipe."""

from regard.recipes.recipe import Recipe, read_recipe

__all__ = ["Recipe", "read_recipe"]
