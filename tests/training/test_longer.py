"""A finished run trains longer, by --resume and more updates, to the weights of one training."""

import shutil

import pytest

import regard
from regard.data.atomic_writes import write_text
from regard.errors import RunError
from regard.recipes import read_recipe
from regard.training import run
from regard.training.checkpoints import read_tensors
from regard.training.events import Finished, Notice, Step
from tests.assertions import assert_close


def _plan(recipe, steps, *changes):
    return read_recipe(recipe, [f"training.steps={steps}", *changes])


def _weights(out):
    return read_tensors(out / "model.safetensors")


@pytest.fixture
def finished(recipe, tmp_path):
    out = tmp_path / "run"
    list(run(_plan(recipe, 5), out))
    return out


def test_the_weights_are_those_of_one_long_training(recipe, tmp_path, finished):
    events = list(run(_plan(recipe, 10), finished, resume=True))
    assert events[0] == Notice("training.steps is 10 from here on; the run was begun with 5")
    assert [one.progress.step for one in events if isinstance(one, Step)] == [6, 7, 8, 9, 10]
    list(run(_plan(recipe, 10), tmp_path / "long"))
    for name, weight in _weights(tmp_path / "long").items():
        assert_close(name, _weights(finished)[name], weight, atol=0.0)
    assert "| updates | 10 |" in (finished / "card.md").read_text()


def test_it_answers_by_its_old_weights_until_it_is_finished_again(recipe, finished):
    before = regard.load(finished).predict(["a b"])[0]
    longer = run(_plan(recipe, 10), finished, resume=True)
    while not isinstance(next(longer), Step):
        pass
    longer.close()
    assert regard.load(finished).predict(["a b"])[0] == before
    # the same command goes on after a kill
    events = list(run(_plan(recipe, 10), finished, resume=True))
    assert isinstance(events[-1], Finished)
    assert events[-1].progress.step == 10
    assert isinstance(list(run(_plan(recipe, 10), finished, resume=True))[-1], Finished)


def test_a_finished_run_that_is_asked_for_no_more_says_so(recipe, finished):
    told, end = run(_plan(recipe, 5), finished, resume=True)
    said = f"'{finished}' is finished, and nothing was trained; a larger training.steps trains it"
    assert told == Notice(f"{said} longer")
    assert (end.progress.step, end.is_complete) == (5, True)


def test_a_finished_run_whose_last_checkpoint_was_deleted_is_still_finished(recipe, finished):
    shutil.rmtree(finished / "checkpoints/step-000005")
    told, end = run(_plan(recipe, 5), finished, resume=True)
    assert "nothing was trained" in told.text
    assert isinstance(end, Finished)


def test_without_a_checkpoint_there_is_nothing_to_go_on_from(recipe, finished):
    shutil.rmtree(finished / "checkpoints")
    said = rf"is finished and has no checkpoint to go on from\. .* training\.start_from={finished}"
    with pytest.raises(RunError, match=said):
        list(run(_plan(recipe, 10), finished, resume=True))


def test_a_run_that_gave_up_needs_more_patience_too(recipe, tmp_path):
    out, gives_up = tmp_path / "run", ["training.patience=1", "training.validate_every=1"]
    never = [*gives_up, "training.learning_rate=1e-12", "training.warmup_steps=1"]
    events = list(run(_plan(recipe, 8, *never), out))
    assert events[-1].progress.step < 8
    with pytest.raises(RunError, match=r"stopped early, by training\.patience = 1, so"):
        list(run(_plan(recipe, 16, *never), out, resume=True))
    patient = [*never[1:], "training.patience=0"]
    assert list(run(_plan(recipe, 16, *patient), out, resume=True))[-1].progress.step == 16


def test_a_recipe_that_was_edited_by_hand_does_not_begin_again(recipe, finished):
    text = (finished / "recipe.toml").read_text()
    write_text(finished / "recipe.toml", f"# mine\n{text}")
    told, end = run(_plan(recipe, 5), finished, resume=True)
    assert "nothing was trained" in told.text
    assert isinstance(end, Finished)
