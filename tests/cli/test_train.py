"""regard train: JSON for programs, calm numbers for people."""

import json
import sys

import pytest
from rich.console import Console

from regard.cli import main
from regard.cli.train import STOPPED
from regard.training.checkpoints import Progress
from regard.training.display import Speed, TrainingDisplay
from regard.training.events import Finished, Step, Validated

RECIPE = """\
[data]
train = { name = "copy", count = 30 }
valid = { name = "copy", count = 4 }

[tokens]
kind = "words"
size = 20

[model]
size = "tiny"
d_model = 8
n_heads = 2
d_hidden = 8

[training]
steps = 3
target_tokens_per_update = 100
validate_every = 2
validate_examples = 2
"""


def _step(number, seconds, tokens=100):
    return Step(Progress(step=number), 2.5, 1e-3, 1.0, 2 * tokens, tokens, seconds, of=10)


SAMPLES = ("sample",) * 3


def test_json_is_all_there_is_on_standard_output(tmp_path, capsys):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    out = tmp_path / "run"
    assert main(["train", str(recipe), "--out", str(out), "--json"]) == 0
    said = capsys.readouterr()
    rows = [json.loads(line) for line in said.out.splitlines()]
    assert [row["event"] for row in rows] == [
        "threads", *("step", "step", "validation", *SAMPLES),
        *("step", "validation", *SAMPLES), "end",
    ]  # fmt: skip
    assert rows[-1] == {"event": "end", "step": 3, "run": str(out), "is_complete": True}
    kept = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    told = [row for row in rows[1:-1] if row["event"] != "sample"]
    assert [{k: v for k, v in row.items() if k != "event"} for row in told] == kept
    assert "% padding" in said.err
    assert "parameters" in said.err


@pytest.mark.parametrize(("is_complete", "code"), [(True, 0), (False, STOPPED)])
def test_a_training_that_was_stopped_says_so_by_its_exit_code(
    is_complete, code, tmp_path, capsys, monkeypatch
):
    def ends(plan, out, **how):
        yield Finished(out, Progress(step=2), is_complete=is_complete)

    monkeypatch.setattr(sys.modules["regard.cli.train"], "run", ends)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    assert main(["train", str(recipe), "--out", str(tmp_path / "run")]) == code
    assert ("go on with --resume" in capsys.readouterr().out) != is_complete


def test_the_speed_is_a_mean_over_a_few_seconds():
    speed = Speed()
    assert speed.with_step(_step(1, seconds=1.0)) == (200.0, 100.0)
    assert speed.with_step(_step(2, seconds=3.0)) == (100.0, 50.0)
    # the first update is more than five seconds of updates ago
    assert speed.with_step(_step(3, seconds=2.0)) == pytest.approx((400 / 5, 200 / 5))
    assert speed.with_step(_step(4, seconds=50.0, tokens=500)) == pytest.approx((20.0, 10.0))


def test_the_bar_shows_loss_rate_and_both_speeds(capsys):
    display = TrainingDisplay(
        Console(force_terminal=True, width=120, color_system=None, stderr=True)
    )
    display.show(_step(1, seconds=0.5))
    display.show(Validated(1, 2.0, 0.5, True, bleu=33.333, signature="x"))
    display.close()
    shown = capsys.readouterr().err
    assert "step 1/10" in shown
    assert "loss 2.500  rate 1.0e-03  400 + 200 tokens/s" in shown
    assert "validation loss 2.0000, exact match 0.5000, BLEU 33.33, the best so far" in shown
