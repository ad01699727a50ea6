"""Epochs: the length of a training by how often it sees every example, counted in updates."""

import json
import re

import pytest

from regard.cli import main
from regard.errors import RecipeError, RunError
from regard.recipes import read_recipe
from regard.training import run
from regard.training.events import Finished, Notice, Step

EPOCHS = ["training.steps=0", "training.schedule=cosine", "training.target_tokens_per_update=64",
          "training.target_tokens_per_batch=64", "data.train.count=60"]  # fmt: skip


def _steps(recipe, out, *changes, resume=False):
    return list(run(read_recipe(recipe, [*EPOCHS, *changes]), out, resume=resume))


def test_so_many_epochs_see_every_example_so_often(recipe, tmp_path):
    events = _steps(recipe, tmp_path / "run", "training.epochs=3")
    steps = [event for event in events if isinstance(event, Step)]
    per_epoch = sum(step.progress.epoch == 0 for step in steps)
    assert per_epoch > 1
    seen = [sum(s.target_tokens for s in steps if s.progress.epoch == n) for n in range(3)]
    assert seen[0] == seen[1] == seen[2]
    assert {step.of for step in steps} == {len(steps)}
    assert Notice(f"3 epochs are {len(steps)} updates") in events
    # the schedule ends where the training ends
    assert steps[-1].learning_rate < 1e-3 * max(step.learning_rate for step in steps)
    kept = read_recipe(tmp_path / "run" / "recipe.toml").training
    assert (kept.steps, kept.epochs) == (len(steps), 0)


def test_a_part_of_an_epoch_is_a_part_of_its_updates(recipe, tmp_path):
    whole = sum(isinstance(e, Step) for e in _steps(recipe, tmp_path / "1", "training.epochs=1"))
    half = sum(isinstance(e, Step) for e in _steps(recipe, tmp_path / "2", "training.epochs=0.5"))
    assert half == round(whole / 2)


def test_a_training_by_epochs_goes_on_where_it_stopped(recipe, tmp_path):
    changes = ["training.epochs=2", "training.checkpoint_every=2"]
    whole = _steps(recipe, tmp_path / "whole", *changes)
    started = run(read_recipe(recipe, [*EPOCHS, *changes]), tmp_path / "run")
    for event in started:
        if isinstance(event, Step) and event.progress.step == 3:
            started.close()
    after = _steps(recipe, tmp_path / "run", *changes, resume=True)
    assert after[-1].progress.step == whole[-1].progress.step
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "run")]
    assert weights[0] == weights[1]
    # a finished one says so, and more epochs make it longer
    assert isinstance(_steps(recipe, tmp_path / "run", *changes, resume=True)[-1], Finished)
    longer = _steps(recipe, tmp_path / "run", "training.epochs=3", changes[1], resume=True)
    assert longer[-1].progress.step > after[-1].progress.step


def test_fewer_epochs_of_a_finished_run_are_refused(recipe, tmp_path):
    _steps(recipe, tmp_path / "run", "training.epochs=2")
    with pytest.raises(RunError, match=r"is finished with another training\.steps"):
        _steps(recipe, tmp_path / "run", "training.epochs=1", resume=True)


def test_a_plan_tells_the_updates_of_the_epochs(recipe, tmp_path, capsys):
    changes = [word for one in (*EPOCHS, "training.epochs=2") for word in ("--set", one)]
    asked = ["plan", str(recipe), *changes, "--device", "cpu", "--json"]
    assert main(asked) in (0, 1)
    updates = json.loads(capsys.readouterr().out)["updates"]
    assert updates["steps"] == 2 * updates["per_epoch"]
    assert updates["epochs"] == 2


@pytest.mark.parametrize(
    ("length", "said"),
    [
        ("", "training.steps must be at least 1, got 0: it is the number of updates. Give it, or "
         "give training.epochs"),
        ("steps = 7\nepochs = 2.5", "training.epochs = 2.5 and training.steps = 7 are two lengths "
         "of one training. Take one of them out of the recipe; behind --set, training.steps=0"),
        ("epochs = -1", "training.epochs must be at least 0, got -1"),
    ],
)  # fmt: skip
def test_a_training_has_one_length(recipe, length, said):
    recipe.write_text(recipe.read_text().replace("steps = 24\n", f"{length}\n"))
    with pytest.raises(RecipeError, match=re.escape(said)):
        read_recipe(recipe)
