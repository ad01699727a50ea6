"""Recipes that bear a paper's name are the systems that were measured, and promise no more."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from regard.models import RecurrentSpec
from regard.models.recurrent.spec import PAPERS
from regard.recipes.recipe import parse_recipe, read_recipe
from studies.luong.study import SYSTEMS

ROOT = Path(__file__).parents[2]
STUDY = json.loads((ROOT / "studies" / "luong" / "results.json").read_text())["studies"]["multi30k"]
MODELS_PAGE = (ROOT / "docs" / "models.md").read_text()
MEASURED = {
    "luong": "general, soft, both ways, fed",
    "rnnsearch": "Bahdanau",
    "convs2s": "convolution",
}
"""Recipes, and what docs/luong.md calls their systems."""


def _path(name):
    return ROOT / "recipes" / f"multi30k-{name}.toml"


def _head(name):
    return " ".join(_path(name).read_text().split("[data]")[0].replace("#", "").split())


@pytest.mark.parametrize(("name", "system"), MEASURED.items())
def test_a_recipe_is_the_system_that_was_measured(name, system):
    table, model = tomllib.loads(_path("luong").read_text()), SYSTEMS["multi30k"][system]
    table["model"] = {**({} if "kind" in model else table["model"]), **model}
    assert read_recipe(_path(name)) == parse_recipe(table, system, {})


@pytest.mark.parametrize(("name", "system"), MEASURED.items())
def test_a_recipe_promises_what_was_measured(name, system):
    run = STUDY["systems"][system]["runs"]["1"]
    assert f"BLEU of {run['BLEU']:.1f} on test_2016_flickr" in _head(name)
    assert f"loss of {dict(run['losses'])[1400]:.2f} nats" in _head(name)
    (row,) = (line for line in MODELS_PAGE.splitlines() if line.startswith(f"| [multi30k-{name}]"))
    assert row.endswith(f"| {run['BLEU']:.1f} |")


@pytest.mark.parametrize("name", ["rnnsearch", "convs2s"])
def test_a_recipe_takes_as_long_as_its_updates_at_the_speed_that_was_measured(name):
    costs = STUDY["systems"][MEASURED[name]]
    seconds = 1400 * costs["runs"]["1"]["tokens_per_update"] / costs["words_per_second"]
    assert f"Takes: {seconds:.0f} seconds of updates on one H200" in _head(name)


def test_the_model_of_cs224n_is_the_course_s_with_the_data_and_training_of_the_others():
    assert read_recipe(_path("cs224n")).model == RecurrentSpec(**PAPERS["cs224n"])
    promised = re.search(r"BLEU of ([\d.]+) on test_2016_flickr", _head("cs224n"))
    assert f"of width 256 | {promised[1]} |" in MODELS_PAGE
    others = (read_recipe(_path(name)) for name in ("luong", "cs224n"))
    luong, course = ((one.data, one.tokens, one.training) for one in others)
    assert course == luong


@pytest.mark.parametrize(("name", "size"), [("rnnsearch", "bahdanau"), ("cs224n", "cs224n")])
def test_a_paper_s_recipe_names_its_size(name, size):
    assert tomllib.loads(_path(name).read_text())["model"]["size"] == size
