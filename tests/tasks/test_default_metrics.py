"""Which scores a run is given unless somebody chooses."""

import re
from pathlib import Path

import pytest

from regard.recipes.recipe import read_recipe
from regard.runs.evaluation import METRICS
from regard.tasks.default_metrics import (
    LABELS,
    MEANINGLESS,
    USUAL,
    USUAL_BY_DATA,
    USUAL_OF,
    check_metrics,
    usual_of,
)

ROOT = Path(__file__).parents[2]
TEXTS = ["bleu", "chrf", "ter", "exact", "ratio", "loss"]
WANTED = {
    "multi30k-en-de": TEXTS,
    "hansards-luong": TEXTS,
    "demo-dates": TEXTS,
    "wikitext2-lm": ["words", "loss"],
    "wikitext2-mlm": ["loss"],
    "tagging-luong": ["accuracy", "exact", "loss"],
    "treebank-structural": ["accuracy", "exact", "loss"],
    "arxiv-tdmca": ["rouge", "ratio", "loss"],
    "scitldr": ["rouge", "ratio", "loss"],
    "scenes-soft": ["captions", "loss", "pointing"],
}


@pytest.mark.parametrize("name", WANTED)
def test_a_run_is_scored_by_what_its_field_scores(name):
    assert usual_of(read_recipe(ROOT / "recipes" / f"{name}.toml")) == WANTED[name]


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda p: p.stem)
def test_what_is_usual_says_something_of_every_recipe(path):
    recipe = read_recipe(path)
    check_metrics(recipe, usual_of(recipe), METRICS)


def test_every_name_in_the_tables_is_that_of_a_score():
    named = [*USUAL_BY_DATA.values(), *USUAL_OF.values(), *MEANINGLESS.values()]
    assert {name for names in named for name in names} <= METRICS.keys()


def test_the_page_tells_what_is_usual():
    page = " ".join((ROOT / "docs" / "evaluating.md").read_text().split())
    rows = re.findall(r"^\|[^|]*\| `(\w+)` \|", (ROOT / "docs/evaluating.md").read_text(), re.M)
    assert rows[:6] == list(USUAL)
    for start, names in {
        "of running text": USUAL_BY_DATA["running_text"],
        "of tags and labels": LABELS,
        "of documents": USUAL_BY_DATA["documents"],
        "; of pictures": USUAL_OF["pictures"],
        "of a run that guesses hidden words": USUAL_OF["hidden_words"],
    }.items():
        told = re.search(rf"{start} ([^;.]*?)(?:, of|;|, per|\.)", page)
        assert told is not None, start
        assert re.findall(r"`(\w+)`", told[1]) == list(names)
