"""regard plan: what it prints, what it refuses, and that it leaves nothing behind."""

import json
import tempfile
from pathlib import Path

import pytest

from regard.cli import main
from regard.cli.plan import plan_text, size_text, time_text
from regard.runs import plan as planning
from regard.runs import plan_trial

RECIPE = str(Path(__file__).parents[2] / "recipes" / "copy.toml")
SMALL = [
    "--set",
    "data.train.count=300",
    "--set",
    "model.d_model=16",
    "--set",
    "data.valid.count=20",
]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(plan_trial, "MAX_TIMED_UPDATES", 2)


def test_a_plan_is_printed_for_people(capsys):
    assert main(["plan", RECIPE, *SMALL]) == 0
    rows = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    lines = dict(rows[::-1])
    assert [name for name, _ in rows if name != "note"] == [
        "parameters", "vocabulary", "examples", "update", "training", "memory", "time",
        "validation", "beside", "disk",
    ]  # fmt: skip
    assert lines["note"].startswith("measured on 1 thread: ")
    assert lines["examples"] == "300 for training (0 of 300 left out), 20 for validation"
    assert lines["training"].startswith("700 updates, ")
    assert "% padding" in lines["update"]
    assert "at the peak" in lines["memory"]
    assert " in all " in lines["time"] and "s an update" in lines["time"]
    assert " of it, " in lines["validation"] and ": 2 validations of " in lines["validation"]


def test_a_plan_is_printed_for_programs(capsys):
    assert main(["plan", RECIPE, *SMALL, "--json", "--set", "training.steps=30"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["updates"]["steps"] == 30
    assert found["examples"]["training"] == 300
    assert found["memory"]["optimiser"] == 2 * found["memory"]["weights"]
    took = found["time"]
    assert took["validations"] == 1
    parts = (took["start"], took["preparing"], 30 * took["per_update"], took["per_validation"],
             took["checkpoints"] * took["per_checkpoint"], took["finishing"])  # fmt: skip
    assert took["total"] == pytest.approx(sum(parts))
    assert found["problems"] == []


def test_nothing_is_left_behind(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["plan", RECIPE, *SMALL, "--out", "run"]) == 0
    assert list(tmp_path.iterdir()) == []


def test_what_will_not_fit_exits_with_1_and_says_so(monkeypatch, capsys):
    monkeypatch.setattr(planning, "available_memory", lambda: 1 << 20)
    assert main(["plan", RECIPE, *SMALL]) == 1
    assert "too large    memory: 0." in capsys.readouterr().out


def test_an_update_that_does_not_fit_is_told_without_numbers(monkeypatch, capsys):
    monkeypatch.setattr(plan_trial, "available_memory", lambda: 1 << 25)
    assert main(["plan", RECIPE, *SMALL, "--set", "model.d_hidden=262144"]) == 1
    shown = capsys.readouterr().out
    assert "memory       does not fit" in shown
    assert "time         unknown" in shown
    assert "validation   2 of unknown length" in shown


MISTAKES = {
    "nowhere.toml": "there is no file 'nowhere.toml'",
    f"{RECIPE} --set training.stepz=3": "Did you mean 'steps'",
    f"{RECIPE} --set training.warmup_steps=-1": "training.warmup_steps must be at least 0, got -1",
    f"{RECIPE} --set data.train.count=9 --set data.max_tokens=2": "have more than 2 tokens",
    f"{RECIPE} --device tpuu": "--device: 'tpuu' is not on this machine",
    f"{RECIPE} --precision float64": "--precision: There is no 'float64' here.",
    f"{RECIPE} --out {RECIPE}/run": "is a file, so that",
}


@pytest.mark.parametrize(("words", "text"), MISTAKES.items())
def test_a_mistake_exits_with_2_and_says_what_to_do(words, text, capsys):
    assert main(["plan", *words.split()]) == 2
    said = capsys.readouterr()
    assert text in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


def test_help_has_an_example(capsys):
    assert main(["plan", "--help"]) == 0
    assert "Example: regard plan" in capsys.readouterr().out


def test_notes_and_separate_vocabularies_are_shown():
    found = planning.TrainingPlan(
        parameters=planning.Parameters(10, 4, {"source": 4, "encoder": 6, "empty": 0}),
        examples=planning.Examples(9, 3, 2, 1, 100, 2000),
        updates=planning.Updates(5, 10.0, 1.0, 2.0, 2.5, 0.25),
        memory=planning.MemoryEstimate(40, 40, 80, 40, 3 << 30, 4 << 30),
        time=planning.Duration(2, 0.5, 7200.0, validations=12, per_validation=60.0),
        disk=planning.Disk(160, 3, 40, 1000, 1520, 1 << 40),
        problems=(),
        notes=("three of nine",),
    )
    shown = plan_text(found)
    assert "vocabulary   100 and 2,000" in shown
    assert "10 (source 4, encoder 6); 4 in embeddings" in shown
    assert "3.0 GiB at the peak" in shown and "average" in shown
    assert "time         2 h 0 min in all (0.5 s an update, over 2)" in shown
    assert "validation   12 min of it, 10 %: 12 validations of 60 s" in shown
    assert "note         three of nine" in shown


def test_sizes_and_times_are_readable():
    assert [size_text(n) for n in (512, 5 << 10, 7 << 40)] == ["0.5 KiB", "5.0 KiB", "7168.0 GiB"]
    assert [time_text(s) for s in (0.4, 3599, 86400)] == ["0 s", "1 h 0 min", "24 h 0 min"]
