"""Patience: a training gives up once, and a kill at that instant changes nothing."""

import json
import sys
from dataclasses import replace

import pytest

from regard.recipes import read_recipe
from regard.training import run
from regard.training.events import Notice, Step, Validated


def test_patience_stops_a_training_that_no_longer_improves(recipe, tmp_path):
    changes = ["training.learning_rate=0.0", "training.validate_every=2", "training.patience=2"]
    events = list(run(read_recipe(recipe, changes), tmp_path / "run"))
    assert events[-1].progress.step == 6
    assert any(
        isinstance(e, Notice) and "no better loss in 2 validations" in e.text for e in events
    )


def _weights(run_dir):
    return (run_dir / "model.safetensors").read_bytes()


def _stops(event):
    return isinstance(event, Notice) and event.text.endswith("validations: stopping")


@pytest.fixture
def never_better(monkeypatch, recipe):
    """A recipe that gives up after six updates, since every validation finds the same."""
    found = Validated(0, loss=1.0, exact_match=0.0, is_best=False)
    monkeypatch.setattr(
        sys.modules["regard.training.trainer"],
        "validate",
        lambda *args, **_: replace(found, step=args[3]),
    )
    keys = ("validate_every=2", "patience=2", "steps=8")
    return lambda *changes: read_recipe(recipe, [f"training.{each}" for each in (*keys, *changes)])


@pytest.mark.parametrize("kept", ["ema_decay=0.9", "average_last=2"])
def test_a_run_killed_between_its_last_patience_and_its_weights_learns_no_more(
    never_better, tmp_path, monkeypatch, kept
):
    plan = never_better(kept)
    whole, early, late = (tmp_path / name for name in ("whole", "early", "late"))
    straight = list(run(plan, whole))
    assert sum(isinstance(event, Step) for event in straight) == 6

    begun = run(plan, early)
    assert any(_stops(event) for event in begun)
    begun.close()

    def killed(path, tensors):
        raise KeyboardInterrupt(path.name)

    with monkeypatch.context() as at_the_end:
        at_the_end.setattr(sys.modules["regard.training.trainer"], "write_tensors", killed)
        with pytest.raises(KeyboardInterrupt, match=r"^model\.safetensors$"):
            list(run(plan, late))

    for out in (early, late):
        assert not (out / "model.safetensors").exists()
        events = list(run(plan, out, resume=True))
        assert not any(isinstance(event, Step) for event in events)
        assert sum(map(_stops, events)) == 1
        assert events[-1].is_complete
        assert events[-1].progress.step == 6
        assert _weights(out) == _weights(whole)
        numbers = [
            [json.loads(line)["step"] for line in (each / "metrics.jsonl").read_text().splitlines()]
            for each in (whole, out)
        ]
        assert numbers[0] == numbers[1]


def test_a_run_that_had_given_up_goes_on_with_more_patience(never_better, tmp_path):
    begun = run(never_better(), tmp_path / "run")
    assert any(_stops(event) for event in begun)
    begun.close()
    events = list(run(never_better("patience=9"), tmp_path / "run", resume=True))
    assert [event.progress.step for event in events if isinstance(event, Step)] == [7, 8]
