"""The script that leaves out one part at a time, and the page that says what came of it."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from regard.choices import Choice
from regard.models import TransformerSpec
from studies.ablations import study as ablations
from studies.ablations.study import (
    VARIANTS,
    WHOLE,
    Found,
    at_start,
    measured,
    reason,
    shown,
    trained,
)

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "ablations.md").read_text()
RESULTS = ROOT / "studies" / "ablations" / "results.json"
KEPT = {name: Found(**one) for name, one in json.loads(RESULTS.read_text()).items()}
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
PARTS = [name for name in VARIANTS if name != WHOLE]
OVERFLOWING = """\
[data]
train = { name = "copy", count = 20 }
valid = { name = "copy", count = 5 }
[tokens]
kind = "words"
[model]
size = "tiny"
n_encoder_layers = 6
n_decoder_layers = 6
feed_forward = "gated"
norm = "pre_norm"
[training]
steps = 1
"""


def test_a_variant_that_cannot_be_built_is_kept_with_its_reason(tmp_path):
    (tmp_path / "recipe.toml").write_text(OVERFLOWING)
    run = tmp_path / "no-norm"
    stopped = trained(tmp_path / "recipe.toml", run, VARIANTS["no norm"])
    assert stopped.startswith("model: with its first weights it should give finite numbers, got")
    assert not (run / "metrics.jsonl").exists()
    found = measured(run, stopped, {})
    assert found == Found([], stopped)
    assert math.isnan(found.best_loss)
    page = shown({"no norm": found})
    assert "<td>none</td>" in page
    assert "it should give finite numbers" in page


def test_a_variant_that_runs_away_keeps_the_losses_it_had(tmp_path):
    rows = [{"step": 1, "train_loss": 9.0}, {"step": 1, "valid_loss": 8.5}, {"step": 2}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = measured(tmp_path, "it ran away", {"largest logit": 7.0})
    assert found == Found([(1, 8.5)], "it ran away", start={"largest logit": 7.0})


def test_a_reason_is_what_regard_said_last():
    assert reason("20 examples\nregard: training: it ran\naway.\n") == "training: it ran away."
    assert reason("Traceback:\n  line\nMemoryError: too much\n") == "MemoryError: too much"
    assert reason("") == "it stopped without a word"


def test_a_whole_that_stops_leaves_nothing_to_compare_with(tmp_path, monkeypatch):
    (tmp_path / "recipe.toml").write_text(OVERFLOWING)
    asked = ["ablations.py", str(tmp_path / "recipe.toml"), "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", asked)
    monkeypatch.setattr(ablations, "trained", lambda recipe, out, changes: f"{out.name} is ill")
    with pytest.raises(SystemExit, match="nothing to compare with: whole is ill"):
        ablations.main()


def test_an_untrained_model_shows_what_the_page_says_of_it():
    whole = TransformerSpec(
        d_model=64, n_heads=1, d_hidden=128, n_encoder_layers=4, n_decoder_layers=4, norm="pre_norm"
    )
    plain = at_start(whole)
    assert at_start(replace(whole, score=Choice("dot")))["largest weight"] > 0.6
    assert plain["largest weight"] < 0.4
    cut = at_start(replace(whole, norm="no_residual"))
    assert cut["gradient of the first layer"] < 1e-9 * cut["gradient of the last layer"]
    assert cut["last word"] < 1e-4 < 0.1 < plain["last word"]
    assert plain["gradient of the first layer"] > 0.1 * plain["gradient of the last layer"]
    assert at_start(replace(whole, positions=Choice("none")))["reversed"] < 1e-5
    assert plain["reversed"] > 0.01
    growing = replace(whole, norm="no_norm", feed_forward="gated", n_decoder_layers=2)
    assert at_start(growing)["largest logit"] > 1e6 * plain["largest logit"]
    assert at_start(replace(growing, n_encoder_layers=8)) == {}


def test_every_table_names_every_variant():
    assert list(KEPT) == list(VARIANTS)
    assert re.findall(r"^\| ([a-z -]+) \|", PAGE, re.MULTILINE) == [*["variant", *VARIANTS] * 2]
    page = shown(KEPT)
    assert re.findall(r'<th scope="row">(.+?)</th>', page) == list(VARIANTS)


@pytest.mark.parametrize("name", PARTS)
def test_the_page_tells_of_every_part_what_was_set_and_what_was_found(name):
    section, found = SECTIONS[name.capitalize()], KEPT[name]
    assert section.lstrip().startswith(f"`{VARIANTS[name][0]}`:")
    if found.stopped:
        assert found.stopped in PAGE
    else:
        assert f"{found.best_loss:.2f}" in section
        assert f" {found.scores['BLEU']:.1f}" in section


def test_the_page_gives_the_signatures_of_its_scores():
    for name in ("BLEU", "chrF2"):
        assert {one.signatures[name] for one in KEPT.values() if one.scores} == {
            re.search(rf"{name}\s`(.+?)`", SECTIONS["How it was measured"])[1]
        }
