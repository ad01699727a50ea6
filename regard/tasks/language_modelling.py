"""Language modelling: a model goes on with a text, or writes one after reading another."""

from collections.abc import Iterator
from typing import final

from regard.models import LanguageModel, LanguageSpec
from regard.models.language.cache_sizes import cache_size_note
from regard.recipes.recipe import Recipe
from regard.tasks.loaded_run import LoadedRun
from regard.tasks.task import Task


@final
class LanguageModelling(Task):
    """A model reads and writes one row of tokens."""

    def is_blank(self, run: LoadedRun, text: str) -> bool:
        """A model that goes on with texts begins one where a text is blank."""
        model = run.loaded.model
        goes_on = isinstance(model, LanguageModel) and model.continues_source
        return super().is_blank(run, text) and not goes_on

    def plan_notes(self, recipe: Recipe) -> Iterator[str]:
        """How much the model remembers while it writes."""
        if isinstance(recipe.model, LanguageSpec):
            yield cache_size_note(recipe.model)
