"""A run that is being trained: its curves, how far it is, its samples, and when it can be used."""

import json
import os
import re
import shutil
import time

import pytest
from starlette.testclient import TestClient

from regard.errors import RunError
from regard.serving import build_app
from regard.serving.registry import open_runs
from regard.serving.training_view import samples, training_view
from tests.factories import make_run
from tests.serving.serving import TEXTS

ROWS = (
    '{"step": 1, "train_loss": 4.0, "learning_rate": 0.001, "seconds": 0.5}\n'
    '{"step": 2, "train_loss": 3.5, "learning_rate": 0.002, "seconds": 0.5}\n'
    '{"step": 2, "valid_loss": 3.75, "exact_match": 0.25, "seconds": 9.0}\n'
)


@pytest.fixture
def begun(tmp_path):
    """A run of which only the beginning is written."""
    run = make_run(tmp_path / "begun", *TEXTS, max_len=48)
    (run / "model.safetensors").rename(tmp_path / "weights")
    recipe = run / "recipe.toml"
    recipe.write_text(re.sub(r"\nsteps = \d+", "\nsteps = 100", recipe.read_text()))
    (run / "metrics.jsonl").write_text(ROWS + '{"step": 3, "train_lo')
    return run


def test_a_half_written_line_is_left_out_and_the_rest_is_shown(begun):
    seen = training_view(begun)
    assert (seen["updates"], seen["step"], seen["state"]) == (2, 2, "running")
    assert seen["scores"] == {"training loss": 3.5, "validation loss": 3.75, "exact match": 0.25}
    assert seen["charts"][0]["series"]["training"] == [[1.0, 4.0], [2.0, 3.5]]


def test_the_time_left_is_the_updates_left_at_the_speed_of_the_last_ones(begun):
    seen = training_view(begun)
    assert seen["steps"] == 100
    assert seen["seconds_left"] == pytest.approx(98 * 0.5)


def test_lines_that_come_later_are_seen(begun):
    training_view(begun)
    (begun / "metrics.jsonl").write_text(ROWS + '{"step": 3, "train_loss": 3.0}\n')
    assert training_view(begun)["scores"]["training loss"] == 3.0


def test_a_training_that_writes_nothing_any_more_is_quiet(begun):
    old = time.time() - 3600
    os.utime(begun / "metrics.jsonl", (old, old))
    seen = training_view(begun)
    assert (seen["state"], seen["seconds_left"]) == ("quiet", None)
    assert seen["quiet_seconds"] == pytest.approx(3600, abs=60)


def test_samples_are_read_up_to_a_line_that_is_half_written(begun):
    one = {"step": 2, "source": "a", "reference": "b", "answer": "c", "links": [[0, 0]]}
    lines = [json.dumps(one), "[]", '{"step": "2"}', '{"step": 4, "source": "a", "ans']
    (begun / "samples.jsonl").write_text("\n".join(lines))
    assert samples(begun) == [one]
    assert training_view(begun)["samples"] == [one]


def test_a_run_without_weights_is_served_and_says_so_when_it_is_asked(begun):
    registry = open_runs([begun], device="cpu")
    with TestClient(build_app(registry), base_url="http://127.0.0.1") as client:
        (listed,) = client.get("/api/runs").json()["runs"]
        assert (listed["reads"], listed["is_finished"]) == (None, False)
        assert client.get("/api/runs/begun/info").json()["is_ready"] is False
        assert client.get("/api/runs/begun/curves").json()["step"] == 2
        answer = client.post("/api/runs/begun/predict", json={"text": "a dog"})
    assert answer.status_code == 400
    assert "has no checkpoint yet" in answer.json()["error"]["message"]


def test_a_run_is_used_at_its_newest_checkpoint_and_then_with_its_final_weights(begun, tmp_path):
    registry = open_runs([begun], device="cpu")
    with pytest.raises(RunError, match="is being trained and has no checkpoint yet"):
        registry.run("begun")
    for step in (2, 4):
        place = begun / "checkpoints" / f"step-{step:06d}"
        place.mkdir(parents=True)
        shutil.copy(tmp_path / "weights", place / "model.safetensors")
        registry.refresh()
        assert registry.run("begun").step == step
    (tmp_path / "weights").rename(begun / "model.safetensors")
    registry.refresh()
    assert registry.run("begun").step is None
    assert registry.is_finished("begun")


def test_answers_of_two_checkpoints_have_two_records(begun, tmp_path):
    names = []
    for step in (2, 4):
        place = begun / "checkpoints" / f"step-{step:06d}"
        place.mkdir(parents=True)
        shutil.copy(tmp_path / "weights", place / "model.safetensors")
    registry = open_runs([begun], device="cpu")
    names.append(registry.run("begun").key)
    (tmp_path / "weights").rename(begun / "model.safetensors")
    registry.refresh()
    assert [*names, registry.run("begun").key] == ["begun step-4", "begun"]


def test_weights_that_cannot_be_loaded_say_why_and_are_tried_again(begun, tmp_path):
    place = begun / "checkpoints" / "step-000002"
    place.mkdir(parents=True)
    (place / "model.safetensors").write_bytes(b"half")
    registry = open_runs([begun], device="cpu")
    with pytest.raises(RunError, match=r"model\.safetensors"):
        registry.run("begun")
    shutil.copy(tmp_path / "weights", place / "model.safetensors")
    registry.refresh()
    assert registry.run("begun").step == 2
    assert not registry.problems


def test_a_folder_that_is_no_run_is_still_refused(tmp_path):
    with pytest.raises(RunError, match="no run"):
        open_runs([tmp_path])
