"""Which scores a run is given unless the caller chooses."""

import re
from pathlib import Path

import pytest

from regard.recipes.recipe import read_recipe
from regard.runs.evaluation import EVALUATE_METRICS
from regard.tasks import TASKS, task_of
from regard.tasks.task import METRICS_BY_READER

ROOT = Path(__file__).parents[2]
TEXTS = ["bleu", "chrf", "ter", "exact", "ratio", "loss"]
WANTED = {
    "multi30k-en-de": TEXTS,
    "hansards-luong": TEXTS,
    "demo-dates": TEXTS,
    "wikitext2-lm": ["words", "loss"],
    "wikitext2-mlm": ["loss"],
    "tagging-luong": ["accuracy", "labels", "exact", "loss"],
    "treebank-structural": ["accuracy", "labels", "exact", "loss"],
    "arxiv-tdmca": ["rouge", "ratio", "loss"],
    "scitldr": ["rouge", "ratio", "loss"],
    "scenes-soft": ["captions", "loss", "pointing"],
}


@pytest.mark.parametrize("name", WANTED)
def test_a_run_is_scored_by_what_its_field_scores(name):
    recipe = read_recipe(ROOT / "recipes" / f"{name}.toml")
    assert list(task_of(recipe).default_metrics(recipe)) == WANTED[name]


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda p: p.stem)
def test_what_is_usual_says_something_of_every_recipe(path):
    recipe = read_recipe(path)
    task = task_of(recipe)
    task.check_metrics(recipe, task.default_metrics(recipe), EVALUATE_METRICS)


def test_every_name_in_the_tables_is_that_of_a_score():
    named = [*METRICS_BY_READER.values(), *(task.meaningless for task in TASKS.values())]
    assert {name for names in named for name in names} <= EVALUATE_METRICS.keys()


def test_the_page_tells_what_is_usual():
    page = " ".join((ROOT / "docs" / "evaluating.md").read_text().split())
    rows = re.findall(r"^\|[^|]*\| `(\w+)` \|", (ROOT / "docs/evaluating.md").read_text(), re.M)
    assert rows[:6] == TEXTS
    for start, names in {
        "of running text": WANTED["wikitext2-lm"],
        "of tags and labels": WANTED["tagging-luong"],
        "of documents": WANTED["scitldr"],
        "; of pictures": WANTED["scenes-soft"],
        "of a run that guesses hidden words": WANTED["wikitext2-mlm"],
    }.items():
        told = re.search(rf"{start} ([^;.]*?)(?:, of|;|, per|\.)", page)
        assert told is not None, start
        assert re.findall(r"`(\w+)`", told[1]) == list(names)
