"""What a run is for: how its data are prepared, its requests answered and its inputs shown.

A model's spec names its task; every package above calls the task and never checks the kind of
model or source of a run.
"""

from collections.abc import Mapping

from regard.choices import find
from regard.recipes.recipe import Recipe
from regard.tasks.captioning import Captioning
from regard.tasks.embedding import SentenceEmbedding
from regard.tasks.labelling import Labelling
from regard.tasks.language_modelling import LanguageModelling
from regard.tasks.masked_words import MaskedWords
from regard.tasks.task import Task
from regard.tasks.translation import Translation

__all__ = ["TASKS", "Task", "check_task", "task_of"]

TASKS: Mapping[str, Task] = {
    "translation": Translation(),
    "language_modelling": LanguageModelling(),
    "captioning": Captioning(),
    "words": MaskedWords(),
    "tags": Labelling(is_per_token=True),
    "label": Labelling(is_per_token=False),
    "vectors": SentenceEmbedding(),
}
"""By the name under which the spec of a model names its task (`model.task`)."""


def task_of(recipe: Recipe) -> Task:
    """What a run of this recipe is for."""
    return find(recipe.model.task, TASKS, key="model.task")


def check_task(recipe: Recipe) -> None:
    """Refuse a recipe by which its task cannot be learned."""
    task_of(recipe).check_recipe(recipe)
