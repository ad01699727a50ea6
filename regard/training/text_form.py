"""The form that a run's texts have: what it learned from was normalised, or stood as it was.

A run reads other texts as it read those it learned from, so that nobody has to remember how.
"""

from collections.abc import Iterable

from regard.data.examples import Example
from regard.data.normalising import NORMALISERS, Normalised, in_form
from regard.training.recipes import Recipe


def form_name(recipe: Recipe) -> str | None:
    """The name of the normaliser of the training data, if it has one."""
    return recipe.data.train.settings.get("normalise")


def as_trained(recipe: Recipe | None, examples: Iterable[Example]) -> list[Example]:
    """Examples in the form of the training data; as they are where there is no recipe."""
    return list(in_form(None if recipe is None else form_name(recipe), examples))


def as_read(recipe: Recipe, text: str) -> Normalised | None:
    """A text in the form of the training data, and where its words came from; None as it is."""
    name = form_name(recipe)
    return None if name is None else NORMALISERS[name](text)
