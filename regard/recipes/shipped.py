"""Shipped recipes: those of the folder `recipes/`, found by name wherever regard is installed."""

from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

from regard.choices import find

FOLDERS = (Path(__file__).parent / "shipped", Path(__file__).parents[2] / "recipes")
"""Where a wheel puts them, and where they are in a checkout."""
KNOWN = "demo-dates.toml"
"""A recipe by which the folder is recognised: another package may have a folder of this name."""


def shipped_recipes() -> Mapping[str, Path]:
    """The files of all shipped recipes by name, in alphabetical order."""
    folder = next(each for each in FOLDERS if (each / KNOWN).exists())
    return {path.stem: path for path in sorted(folder.glob("*.toml"), key=lambda path: path.stem)}


def shipped_recipe(name: str) -> Path:
    """The file of the shipped recipe of this name."""
    return find(name, shipped_recipes(), key="recipe")


def recipe_file(typed: Path) -> Path:
    """The file that is meant: one that exists, or the shipped recipe of this name."""
    is_name = typed.name == str(typed) and typed.suffix in ("", ".toml")
    return shipped_recipes().get(typed.stem, typed) if is_name and not typed.exists() else typed


def summary_of(path: Path) -> str:
    """The first paragraph of the comment at the head of a recipe."""
    lines = takewhile(lambda line: line.startswith("# "), path.read_text("utf-8").splitlines())
    return " ".join(line.removeprefix("# ").strip() for line in lines)
