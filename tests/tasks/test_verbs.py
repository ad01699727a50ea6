"""What a run does, in a word: each task says its own, and a view of the studio is called so."""

import pytest

from regard.recipes import read_recipe
from regard.tasks import task_of
from tests.captioning import RECIPE as CAPTIONING
from tests.factories import ENCODER, make_run

RUNNING = """
kind = "language_model"
rows = "running"
d_model = 16
n_heads = 2
d_hidden = 16
n_layers = 1
"""


def _verb(run):
    recipe = read_recipe(run / "recipe.toml")
    return task_of(recipe).verb(recipe)


@pytest.mark.parametrize(
    ("task", "verb"),
    [("words", "Fill in"), ("tags", "Tag"), ("label", "Classify"), ("vectors", "Embed")],
)
def test_a_run_that_only_reads_is_named_by_what_it_gives(tmp_path, task, verb):
    assert _verb(make_run(tmp_path / task, "a dog", model=ENCODER.format(task=task))) == verb


def test_a_model_of_two_texts_translates_and_one_of_running_text_continues(tmp_path):
    assert _verb(make_run(tmp_path / "both", "a dog")) == "Translate"
    assert _verb(make_run(tmp_path / "row", "a dog", model=RUNNING)) == "Continue"


def test_a_captioner_captions(tmp_path):
    (tmp_path / "recipe.toml").write_text(CAPTIONING)
    assert _verb(tmp_path) == "Caption"


def test_a_text_to_go_on_with_is_the_end_of_a_long_one(tmp_path):
    recipe = read_recipe(make_run(tmp_path / "row", "a dog", model=RUNNING) / "recipe.toml")
    task = task_of(recipe)
    words = [f"w{number}" for number in range(40)]
    assert task.as_example(recipe, " ".join(words)) == " ".join(words[-16:])
    assert task.as_example(recipe, "a dog") == "a dog"
