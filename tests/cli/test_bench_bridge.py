"""`regard bench bridge`: outputs are compared first, then time and memory are measured."""

import json
import sys

import pytest
import torch

from regard.bench import bridge, measure
from regard.cli import main


def test_every_contestant_is_compared_and_measured(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(measure, "BUDGET_S", 0.01)
    out = tmp_path / "bridge.json"
    assert main(["bench", "bridge", "--lengths", "24", "--model", "gpt2", "--out", str(out)]) == 0
    report = json.loads(out.read_text())
    assert [row["name"] for row in report["rows"]] == ["eager", "sdpa", "bridge", "capture"]
    for row in report["rows"]:
        assert row["problem"] is None
        assert 0 <= row["difference"] < 1e-5
        assert row["seconds"] > 0
        assert row["time_of_eager"] > 0
    said = capsys.readouterr().out
    assert "gpt2 of 2 layers" in said
    assert "  capture " in said


def test_a_contestant_that_says_something_else_is_wrong(monkeypatch, capsys):
    monkeypatch.setattr(bridge, "_run", lambda model, name, ids: torch.zeros(1, ids.shape[1], 512))
    assert main(["bench", "bridge", "--lengths", "8"]) == 1
    assert "wrong: differs from eager by" in capsys.readouterr().out


def test_what_does_not_fit_is_said_and_not_measured():
    measured = bridge.measure_pass("llama", "eager", 9000, memory_bytes=1 << 28, threads=1)
    assert measured.problem.startswith("too large")
    assert measured.seconds is None


def test_a_model_that_is_not_raced_is_told_the_others(capsys):
    assert main(["bench", "bridge", "--model", "lama"]) == 2
    assert "Did you mean 'llama'?" in capsys.readouterr().err


def test_the_missing_package_is_named_before_anything_is_measured(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert main(["bench", "bridge", "--lengths", "8"]) == 2
    assert "pip install 'regard[transformers]'" in capsys.readouterr().err


@pytest.mark.parametrize("name", bridge.CONTESTANTS)
def test_each_contestant_gives_eager_s_outputs(name):
    model = bridge.model_named("bert", 16)
    assert bridge._difference(model, name, 16) < 1e-5
