"""A task that is defined outside the package is trained, asked, scored and looked at."""

import json
from dataclasses import replace
from typing import ClassVar

import pytest

import regard
from regard import tasks
from regard.cli import main
from regard.inspecting.panels import View
from regard.inspecting.record import rounded
from regard.tasks.task import Task

RECIPE = """
[data]
train = { name = "copy", count = 40, max_letters = 5 }
valid = { name = "copy", count = 8, max_letters = 5 }
[tokens]
kind = "characters"
[model]
task = "shouting"
d_model = 16
n_heads = 2
d_hidden = 16
n_encoder_layers = 1
n_decoder_layers = 1
[training]
steps = 2
validate_every = 2
checkpoint_every = 2
"""


class Shouting(Task):
    """Answers are given in capitals, and only the share of exact ones is scored."""

    does = "shouts"
    meaningless: ClassVar = {"ter": "capitals are no edits", "pointing": "there are no pictures"}

    def answer_each(self, run, requests, wishes):
        for place, answer in super().answer_each(run, requests, wishes):
            yield place, replace(answer, text=answer.text.upper(), note="shouted")

    def default_metrics(self, recipe):
        return ("exact", "loss")

    def as_example(self, text):
        return text.upper()


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    # the one line of a table
    monkeypatch.setitem(tasks.TASKS, "shouting", Shouting())
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    assert main(["train", str(recipe), "--out", str(tmp_path / "run"), "--device", "cpu"]) == 0
    capsys.readouterr()
    return tmp_path / "run"


def test_predict_answers_as_the_task_says(run, capsys):
    assert main(["predict", str(run), "--text", "abc", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["note"] == "shouted"
    assert answer["text"] == answer["text"].upper()
    assert regard.load(run).predict(["abc"])[0].text == answer["text"]


def test_evaluate_scores_what_is_usual_for_the_task_and_refuses_what_means_nothing(run, capsys):
    assert main(["evaluate", str(run), "--split", "valid", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert [one["name"] for one in scores][:2] == ["exact match", "loss"]
    assert main(["evaluate", str(run), "--split", "valid", "--metrics", "ter"]) == 2
    assert "ter has no meaning for a run that shouts: capitals are no edits" in (
        capsys.readouterr().err
    )


def test_look_shows_the_weights_of_its_answer(run, capsys):
    assert main(["look", str(run), "abc", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["shown"]
    record = regard.load(run).look("abc")
    assert shown["keys"] == list(record.panel(View()).keys)
    assert shown["weights"] == rounded(record.panel(View()).weights)


def test_a_task_that_no_table_names_is_refused_with_the_nearest(tmp_path, capsys):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.replace("shouting", "translatoin"))
    assert main(["train", str(recipe), "--out", str(tmp_path / "run"), "--device", "cpu"]) == 2
    assert "did you mean 'translation'?" in capsys.readouterr().err.lower()
