"""A recipe's task is checked with the recipe, at its line and where it was typed."""

import re
from pathlib import Path

import pytest

from regard.errors import RecipeError
from regard.recipes.recipe import read_recipe
from regard.tasks import check_task

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.mark.parametrize(
    ("recipe", "task", "said"),
    [
        ("copy", "tags", "model.task = 'tags' needs model.kind = 'encoder', got 'transformer'"),
        (
            "scenes-soft",
            "translation",
            "model.task = 'translation' reads texts, but a model of kind 'captioner' reads "
            "pictures. Leave model.task out.",
        ),
        ("copy", "translating", "There is no 'translating' here. Did you mean 'translation'?"),
    ],
)
def test_a_task_that_the_model_cannot_have_is_told_where_it_was_typed(recipe, task, said):
    change = f"model.task={task}"
    with pytest.raises(RecipeError, match=re.escape(f"--set {change}: ")) as caught:
        read_recipe(RECIPES / f"{recipe}.toml", [change], check=check_task)
    assert said in str(caught.value)


def test_a_task_in_a_file_is_told_with_its_line(tmp_path):
    path = tmp_path / "recipe.toml"
    text = (RECIPES / "copy.toml").read_text().replace("[model]\n", '[model]\ntask = "tags"\n')
    path.write_text(text)
    line = text.splitlines().index('task = "tags"') + 1
    with pytest.raises(RecipeError, match=rf"recipe.toml:{line}: model.task = 'tags' needs"):
        read_recipe(path, check=check_task)
