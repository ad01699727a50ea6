"""Beginnings: every split is begun to be read before anything is made of one.

So a file that is not there, of the test split too, is told at once and not after hours.
"""

from collections.abc import Iterator

from regard.errors import DataError, SettingError
from regard.training.recipes import Recipe, examples
from regard.training.trees import check_brings_tree

SPLITS = ("train", "valid", "test")


def check_beginnings(recipe: Recipe) -> None:
    """Read the first example of each split, or raise one error with all that was in the way."""
    said = list(_in_the_way(recipe))
    if said:
        raise DataError("\n".join(said))


def _in_the_way(recipe: Recipe) -> Iterator[str]:
    for split in SPLITS:
        choice = getattr(recipe.data, split)
        if choice is None:
            continue
        try:
            first = next(examples(choice, split)(), None)
            if first is not None:
                check_brings_tree(recipe, first)
        except (DataError, SettingError) as error:
            yield f"data.{split}: {error}"
            continue
        if first is None:
            yield f"data.{split}: '{choice.name}' gives no example. Give at least one."
