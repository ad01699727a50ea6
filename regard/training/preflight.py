"""Preflight: the first example of every split is read before anything is made of one.

So a file that is not there, of the test split too, is told at once and not after hours.
"""

from collections.abc import Iterator
from pathlib import Path

from regard.errors import DataError, SettingError
from regard.recipes.data_paths import examples_of
from regard.recipes.recipe import Recipe
from regard.tasks.trees import check_brings_tree

SPLITS = ("train", "valid", "test")


def check_beginnings(recipe: Recipe, folder: Path | None = None) -> None:
    """Read the first example of each split, or raise one error with all that was in the way.

    Args:
        recipe: what is trained by.
        folder: the run's directory, from which data are found; without, paths start from here.
    """
    said = list(_in_the_way(recipe, folder))
    if said:
        raise DataError("\n".join(said))


def _in_the_way(recipe: Recipe, folder: Path | None) -> Iterator[str]:
    for split in SPLITS:
        choice = getattr(recipe.data, split)
        if choice is None:
            continue
        try:
            first = next(examples_of(choice, split, folder)(), None)
            if first is not None:
                check_brings_tree(recipe, first)
        except (DataError, SettingError) as error:
            yield f"data.{split}: {error}"
            continue
        if first is None:
            yield f"data.{split}: '{choice.name}' gives no example. Give at least one."
