"""Thread choice: the fastest number is taken, told and recorded, and nothing else is changed."""

import json
from dataclasses import replace

import pytest
import torch

from regard.cli import main
from regard.hardware.hardware import Hardware
from regard.hardware.threads import Threads, given_threads
from regard.recipes import read_recipe
from regard.training import run, thread_choice
from regard.training.checkpoints import checkpoints, read_progress
from regard.training.events import ChosenThreads, Notice, Step
from regard.training.loop import make_optimiser
from regard.training.preparation import prepare
from regard.training.thread_choice import fastest_threads
from regard.training.workers import SINGLE_PROCESS

MAY_TRY = Hardware(threads=Threads(1, "one core is free", candidates=(1, 2)))
SAID = "an update takes 30 ms with 2, 50 ms with 1"


@pytest.fixture(autouse=True)
def _pretended(monkeypatch):
    """Numbers that torch only remembers: real threads wait for each other on a busy core."""
    held = [1]
    monkeypatch.setattr(torch, "set_num_threads", lambda count: held.__setitem__(0, count))
    monkeypatch.setattr(torch, "get_num_threads", lambda: held[0])


@pytest.fixture
def trials(monkeypatch):
    """Trials in which two threads win; what they were given."""
    seen = []

    def found(model, prepared, hardware, counts):
        torch.rand(3)
        seen.append(counts)
        return {1: 0.05, 2: 0.03}

    monkeypatch.setattr(thread_choice, "_update_seconds", found)
    return seen


def _told(events):
    return [event for event in events if isinstance(event, ChosenThreads)]


def test_the_fastest_number_is_taken_told_and_recorded(trials, recipe, tmp_path):
    out, seen = tmp_path / "run", set()
    for event in run(read_recipe(recipe), out, hardware=MAY_TRY):
        if isinstance(event, Step):
            seen.add(torch.get_num_threads())
        if isinstance(event, ChosenThreads):
            assert event.text == f"on 2 threads: {SAID}"
            assert event.record() == {
                "threads": 2, "reason": SAID, "seconds_with_1": 0.05, "seconds_with_2": 0.03,
            }  # fmt: skip
    assert seen == {2}
    assert trials == [(1, 2)]
    held = json.loads((out / "environment.json").read_text())
    assert (held["threads"], held["threads_reason"]) == ("2", SAID)
    newest = checkpoints(out / "checkpoints")[-1]
    assert read_progress(newest).environment["threads"] == "2"
    assert f"| threads | 2: {SAID} |" in (out / "card.md").read_text()
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize("is_saved", [True, False])
def test_a_resumed_run_keeps_the_choice_without_a_trial(is_saved, trials, recipe, tmp_path):
    wanted, out = read_recipe(recipe), tmp_path / "run"
    begun = run(wanted, out, hardware=MAY_TRY)
    while not (checkpoints(out / "checkpoints") if is_saved else isinstance(next(begun), Step)):
        next(begun)
    begun.close()
    (told,) = _told(run(wanted, out, resume=True, hardware=MAY_TRY))
    assert told.text == "on 2 threads: the run was begun so"
    assert len(trials) == 1


def test_a_number_that_is_given_wins_without_a_trial_and_over_the_run_s_own(
    trials, recipe, tmp_path
):
    wanted, out = read_recipe(recipe), tmp_path / "run"
    three = Hardware(threads=given_threads(3))
    begun = run(wanted, out, hardware=MAY_TRY)
    while not checkpoints(out / "checkpoints"):
        next(begun)
    begun.close()
    events = list(run(wanted, out, resume=True, hardware=three))
    notes = [event.text for event in events if isinstance(event, Notice)]
    assert "threads changed since the run was begun; it goes on, but not to the bit" in notes
    assert [one.text for one in _told(events)] == ["on 3 threads: --threads says so"]
    newest = checkpoints(out / "checkpoints")[-1]
    assert read_progress(newest).environment["threads"] == "3"
    fresh = _told(run(wanted, tmp_path / "other", hardware=three))
    assert [one.text for one in fresh] == ["on 3 threads: --threads says so"]
    assert len(trials) == 1


def _prepared(recipe, tmp_path, *changes):
    prepared = prepare(read_recipe(recipe, changes), tmp_path, SINGLE_PROCESS)
    torch.manual_seed(1)
    return prepared, prepared.build()


def test_a_trial_changes_neither_weights_nor_gradients_nor_random_states(recipe, tmp_path):
    prepared, model = _prepared(recipe, tmp_path, "training.steps=100000")
    make_optimiser(model, prepared.recipe.training)
    before, state = {n: w.clone() for n, w in model.state_dict().items()}, torch.get_rng_state()
    is_training = model.training
    found = fastest_threads(model, prepared, MAY_TRY)
    assert found.seconds.keys() == {1, 2} and found.count == min(
        found.seconds, key=lambda count: found.seconds[count]
    )
    assert found.reason.startswith("an update takes ")
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())
    assert model.training == is_training


def test_a_run_is_the_same_whether_it_was_tried_or_not(monkeypatch, recipe, tmp_path):
    plain = Hardware(threads=Threads(1, "one core is free"))
    tries = Hardware(threads=Threads(1, "one core is free", candidates=(1, 1)))
    monkeypatch.setattr(thread_choice, "TRIAL_SHARE", 1e9)
    monkeypatch.setattr(thread_choice, "MAX_TRIAL_S", 1e9)
    monkeypatch.setattr(thread_choice, "trial_seconds", lambda work, *_: work() or {1: 0.1})
    (told,) = _told(run(read_recipe(recipe), tmp_path / "tried", hardware=tries))
    assert told.threads.seconds
    list(run(read_recipe(recipe), tmp_path / "plain", hardware=plain))
    tried, straight = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("tried", "plain")
    )
    assert tried == straight


def test_a_training_that_cannot_repay_a_trial_takes_the_free_cores(recipe, tmp_path):
    prepared, model = _prepared(recipe, tmp_path)
    assert fastest_threads(model, prepared, MAY_TRY) is MAY_TRY.threads


def test_nothing_is_tried_where_there_is_nothing_to_choose(trials, recipe, tmp_path):
    prepared, model = _prepared(recipe, tmp_path)
    for hardware in (
        Hardware(),
        Hardware(threads=Threads(1, "a quota gives this process 0.5 of 2 cores")),
        Hardware(threads=given_threads(2)),
        replace(MAY_TRY, compiles=True),
    ):
        assert fastest_threads(model, prepared, hardware) is hardware.threads
    assert trials == []


def test_a_batch_that_takes_long_is_timed_in_part(recipe, tmp_path, monkeypatch):
    prepared, model = _prepared(recipe, tmp_path, "training.steps=1000")
    sizes, now = [], [0.0]
    monkeypatch.setattr(thread_choice.time, "perf_counter", lambda: now[0])

    def gather(self, batches, tokens):
        sizes.append(len(batches[0].rows))
        now[0] += 10.0 * sizes[-1]

    monkeypatch.setattr(thread_choice.Accumulator, "gather", gather)
    # even one example takes too long
    assert fastest_threads(model, prepared, MAY_TRY) is MAY_TRY.threads
    assert sizes == [1, 1]

    def quicker(self, batches, tokens):
        sizes.append(len(batches[0].rows))
        now[0] += 0.1 * sizes[-1]

    sizes.clear()
    monkeypatch.setattr(thread_choice.Accumulator, "gather", quicker)
    monkeypatch.setattr(
        thread_choice, "trial_seconds", lambda work, counts, seconds: {1: 0.3, 2: 0.2}
    )
    found = fastest_threads(model, prepared, MAY_TRY)
    # 3 s pay for two rounds of two turns of twice the work: 0.375 s
    assert sizes == [1, 3]
    assert found.count == 2 and found.seconds[2] > 2.0


def test_the_option_is_on_every_verb_that_computes_and_refuses_what_is_no_number(
    recipe, tmp_path, capsys
):
    out = str(tmp_path / "run")
    assert main(["train", str(recipe), "--out", out, "--threads", "0"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("regard: --threads must be between 1 and 1,024, got 0. This machine has")
    assert "leave --threads out to take those that are free" in said
    assert not (tmp_path / "run").exists()
    assert main(["train", str(recipe), "--out", out, "--threads", "2", "--device", "cpu"]) == 0
    assert "on 2 threads: --threads says so" in capsys.readouterr().err
    for words in (
        ["predict", out, "--text", "a b"],
        ["evaluate", out, "--split", "valid"],
        ["compare", out, "--split", "valid"],
        ["look", out, "a b"],
        ["verify", out],
        ["plan", str(recipe)],
        ["serve", out],
        ["demo", "--out", str(tmp_path / "demo")],
        ["bench", "attention"],
    ):
        assert main([*words, "--threads", "-1"]) == 2, words
        assert "--threads must be between 1 and 1,024, got -1" in capsys.readouterr().err
    assert main(["verify", out, "--threads", "2", "--device", "cpu"]) == 0


def test_json_tells_the_choice(trials, recipe, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Hardware, "chosen", lambda *_, **__: MAY_TRY)
    assert main(["train", str(recipe), "--out", str(tmp_path / "run"), "--json"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first == {
        "event": "threads", "threads": 2, "reason": SAID,
        "seconds_with_1": 0.05, "seconds_with_2": 0.03,
    }  # fmt: skip
