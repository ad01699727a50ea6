"""The form that a run's texts have: what it learned from was normalised, or stood as it was.

A run reads other texts as it read those it learned from, so that nobody has to remember how.
"""

from collections.abc import Iterable

from regard.data.examples import Example
from regard.data.normalising import NORMALISERS, Normalised
from regard.training.recipes import Recipe
from regard.training.source_kinds import source_kind


def form_name(recipe: Recipe) -> str | None:
    """The name of the normaliser of the training data, if it has one."""
    return recipe.data.train.settings.get("normalise")


def as_trained(recipe: Recipe | None, examples: Iterable[Example]) -> list[Example]:
    """Examples in the form of the training data; as they are where there is no recipe."""
    if recipe is None:
        return list(examples)
    return list(source_kind(recipe).formed(form_name(recipe), examples))


def as_read(recipe: Recipe, text: str) -> Normalised | None:
    """A text in the form of the training data, and where its words came from; None as it is."""
    name = form_name(recipe)
    return None if name is None else NORMALISERS[name](text)
