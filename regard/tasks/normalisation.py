"""The form that a run's texts have: normalised as the texts that it learned from.

A run reads other texts as it read those, so that the user need not remember how.
"""

from itertools import count

from regard.data.kinds import MASK_PIECE
from regard.data.normalisation import NORMALISERS, Normalised
from regard.recipes.recipe import Recipe


def form_name(recipe: Recipe) -> str | None:
    """The name of the normaliser of the training data, if it has one."""
    return recipe.data.train.settings.get("normalise")


def normalised_text(recipe: Recipe, text: str) -> str:
    """A text normalised as the training data are."""
    form = as_read(recipe, text)
    return text if form is None else form.text


def normalised_around_masks(recipe: Recipe, text: str) -> str:
    """The same, with a word of small letters in the place of each mask meanwhile.

    What stands beside a mask goes by the same rules as beside a word: [MASK]. is [MASK] and a dot.
    """
    others = normalised_text(recipe, text.replace(MASK_PIECE, " "))
    # no end of such a word begins another, and no accent behind it makes one letter with it
    word = next(word for n in count(1) if (word := "x" * n + "q") not in others)
    return normalised_text(recipe, text.replace(MASK_PIECE, word)).replace(word, MASK_PIECE)


def as_read(recipe: Recipe, text: str) -> Normalised | None:
    """A normalised text and where its words came from; None where texts stay as they are."""
    name = form_name(recipe)
    return None if name is None else NORMALISERS[name](text)
