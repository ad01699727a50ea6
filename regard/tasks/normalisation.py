"""The form that a run's texts have: what it learned from was normalised, or stood as it was.

A run reads other texts as it read those it learned from, so that nobody has to remember how.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import count

from regard.data.examples import Example
from regard.data.kinds import MASK_PIECE
from regard.data.normalisation import NORMALISERS, Normalised, Normaliser
from regard.recipes.recipe import Recipe
from regard.tasks.masked_words import fills_words
from regard.tasks.source_kinds import source_kind


def form_name(recipe: Recipe) -> str | None:
    """The name of the normaliser of the training data, if it has one."""
    return recipe.data.train.settings.get("normalise")


def as_trained(recipe: Recipe | None, examples: Iterable[Example]) -> list[Example]:
    """Examples in the form of the training data; as they are where there is no recipe."""
    given = list(examples)
    if recipe is None:
        return given
    formed = source_kind(recipe).formed(form_name(recipe), given)
    if not fills_words(recipe):
        return list(formed)
    return [
        replace(one, source=read_text(recipe, asked.source))
        for one, asked in zip(formed, given, strict=True)
    ]


def read_text(recipe: Recipe, text: str) -> str:
    """A text in the form of the training data; words that are hidden from a model stay hidden."""
    name = form_name(recipe)
    if name is None:
        return text
    form = NORMALISERS[name]
    return _around_masks(form, text) if fills_words(recipe) else form(text).text


def _around_masks(form: Normaliser, text: str) -> str:
    """A text in a form, with a word of small letters in the place of each mask until it is there.

    What stands beside a mask goes by the same rules as beside a word: [MASK]. is [MASK] and a dot.
    """
    others = form(text.replace(MASK_PIECE, " ")).text
    # no end of such a word begins another, and no accent behind it makes one letter with it
    word = next(word for n in count(1) if (word := "x" * n + "q") not in others)
    return form(text.replace(MASK_PIECE, word)).text.replace(word, MASK_PIECE)


def as_read(recipe: Recipe, text: str) -> Normalised | None:
    """A text in the form of the training data, and where its words came from; None as it is."""
    name = form_name(recipe)
    return None if name is None else NORMALISERS[name](text)
