"""Translation, and every other task that turns one text into another."""

from collections.abc import Mapping, Sequence
from typing import final

from regard.recipes.recipe import Recipe
from regard.tasks.task import Task

METRICS_BY_READER: Mapping[str, Sequence[str]] = {
    "conllu": ("accuracy", "exact", "loss"),
    "documents": ("rouge", "ratio", "loss"),
    "running_text": ("words", "loss"),
}
"""What is scored by default of texts that are no translations, by the reader of the data."""


class TextToText(Task):
    """A text is read, and another is searched for."""

    def default_metrics(self, recipe: Recipe) -> Sequence[str]:
        """By the reader that the run learned from; those of translations for all others."""
        usual = super().default_metrics(recipe)
        return METRICS_BY_READER.get(recipe.data.train.name, usual)


@final
class Translation(TextToText):
    """A model reads a text and writes another."""
