"""The form that a run's texts have: what it learned from was normalised, or stood as it was.

A run reads other texts as it read those it learned from, so that nobody has to remember how.
"""

from collections.abc import Iterable
from dataclasses import replace

from regard.data.examples import Example
from regard.data.kinds import MASK_PIECE
from regard.data.normalising import NORMALISERS, Normalised
from regard.training.filling import fills_words
from regard.training.recipes import Recipe
from regard.training.source_kinds import source_kind


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
    parts = text.split(MASK_PIECE) if fills_words(recipe) else [text]
    return MASK_PIECE.join(_spaced(part, NORMALISERS[name](part).text) for part in parts).strip()


def _spaced(part: str, formed: str) -> str:
    """What became of a part of a text, with a space where the part had one at an end."""
    return f"{' ' * part[:1].isspace()}{formed}{' ' * (part[-1:].isspace() and bool(formed))}"


def as_read(recipe: Recipe, text: str) -> Normalised | None:
    """A text in the form of the training data, and where its words came from; None as it is."""
    name = form_name(recipe)
    return None if name is None else NORMALISERS[name](text)
