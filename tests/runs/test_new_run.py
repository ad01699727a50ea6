"""regard.train makes and loads a run, and a notebook sees its curve while it is made."""

import json
import sys
import tomllib
from types import SimpleNamespace

import pytest

import regard
from regard.cli import main
from regard.errors import DataError, RecipeError, RunError, SettingError, UnknownChoice
from regard.recipes import read_recipe
from regard.training.checkpoints import Progress
from regard.training.display import live_curve
from regard.training.events import Finished, Notice, Step, Validated


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    from tests.small_recipe import RECIPE

    folder = tmp_path_factory.mktemp("new")
    (folder / "recipe.toml").write_text(RECIPE)
    return regard.train(folder / "recipe.toml", folder / "run", changes=["training.steps=2"])


def test_it_makes_a_run_and_loads_it(trained):
    assert (trained.path / "card.md").exists()
    assert trained.loaded.recipe.training.steps == 2
    assert len(trained.predict(["a b"])) == 1


def test_a_recipe_may_be_an_object_or_dictionaries(trained, tmp_path):
    recipe = read_recipe(trained.path / "recipe.toml")
    table = tomllib.loads((trained.path / "recipe.toml").read_text())
    first, second = (
        regard.train(given, tmp_path / name) for given, name in ((recipe, "a"), (table, "b"))
    )
    same = (first.path / "recipe.toml").read_text() == (second.path / "recipe.toml").read_text()
    assert same


def test_a_run_is_never_overwritten(trained):
    with pytest.raises(RunError, match="holds a finished run"):
        regard.train(trained.path / "recipe.toml", trained.path)


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        (("[data]\ntrain = 3", {}), RecipeError, "expected the file of a recipe, got its text"),
        (({}, {}), RecipeError, "the recipe"),
        (({}, {"changes": ["training.steps=2"]}), SettingError, "changes are for a recipe file"),
        (("recipe.toml", {"changes": "training.steps=2"}), SettingError, "must be a list of texts"),
    ],
)
def test_what_is_no_recipe_is_told(given, kind, said, tmp_path):
    recipe, options = given
    with pytest.raises(kind, match=said):
        regard.train(recipe, tmp_path / "run", **options)


def test_its_evaluation_is_that_of_the_verb(trained, capsys):
    report = trained.evaluate(split="valid", beam=2, metrics=["exact", "loss"])
    words = ["evaluate", str(trained.path), "--split", "valid", "--beam", "2"]
    assert main([*words, "--metrics", "exact,loss", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    ours = report.as_json()
    assert {**ours, "speed": None} == {**printed, "speed": None}
    assert repr(report).startswith("EvaluationReport(split valid, 20 sentences: exact match ")
    assert len(report.answers) == report.sentences


def test_files_lists_and_splits_are_evaluated_alike(trained, tmp_path):
    texts, wanted = ["a b", "c d e"], ["a b", "c d e"]
    (tmp_path / "x").write_text("a b\nc d e\n")
    by_list = trained.evaluate(texts, wanted, metrics=["bleu", "loss"])
    by_file = trained.evaluate(tmp_path / "x", tmp_path / "x", metrics=["bleu", "loss"])
    assert by_list.scores == by_file.scores
    assert by_file.texts == f"{tmp_path / 'x'} {tmp_path / 'x'}"
    assert trained.evaluate(metrics=["loss"]).texts == "split valid"


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        (
            {"sources": ["a"], "references": ["a", "b"]},
            DataError,
            "a reference for each of 1 texts",
        ),
        ({"metrics": "bleu"}, SettingError, r"must be a list of names\. Write \['bleu'\]"),
        ({"metrics": ["blue"]}, UnknownChoice, "evaluate: metrics: There is no 'blue' here"),
        ({"split": "train"}, UnknownChoice, "There is no 'train' here"),
        ({"references": "x"}, SettingError, "expected --source with --reference"),
    ],
)
def test_what_cannot_be_evaluated_is_told(trained, given, kind, said):
    with pytest.raises(kind, match=said):
        trained.evaluate(**given)


class Cell:
    """What a notebook shows: every picture of one cell, in order."""

    def __init__(self):
        self.pictures = []

    def update(self, picture):
        self.pictures.append(picture)


def _notebook(monkeypatch, *, has_kernel=True):
    cell = Cell()

    def display(picture, *, display_id):
        cell.update(picture)
        return cell

    shell = SimpleNamespace(kernel=1) if has_kernel else SimpleNamespace()
    shown = SimpleNamespace(display=display, HTML=lambda text: text)
    ipython = SimpleNamespace(get_ipython=lambda: shell, display=shown)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return cell


def test_a_notebook_draws_the_losses_as_they_come(monkeypatch, tmp_path):
    cell = _notebook(monkeypatch)
    curve = live_curve()
    for event in (
        Notice("x"),
        Step(Progress(step=1), 2.5, 1e-3, 1.0, 9, 9, 0.1),
        Validated(1, 2.25, 0.5, True),
        Step(Progress(step=2), 2.0, 1e-3, 1.0, 9, 9, 0.1),
        Validated(2, 2.0, 0.5, True),
        Finished(tmp_path, Progress(step=2), is_complete=True),
    ):
        curve.show(event)
    assert "nothing was measured" in cell.pictures[0]
    assert cell.pictures[-1].count("<polyline") == 2
    assert curve.validation == [(1, 2.25), (2, 2.0)]
    # an update that follows another within a second is not read off the device
    assert curve.training == [(1, 2.5)]


def test_a_terminal_has_no_curve(monkeypatch):
    _notebook(monkeypatch, has_kernel=False)
    assert live_curve() is None
    monkeypatch.delitem(sys.modules, "IPython")
    assert live_curve() is None


def test_a_training_in_a_notebook_is_seen(trained, monkeypatch, tmp_path):
    cell = _notebook(monkeypatch)
    regard.train(read_recipe(trained.path / "recipe.toml"), tmp_path / "run")
    assert "Loss, nats per target token" in cell.pictures[-1]
    assert len(cell.pictures) > 2
