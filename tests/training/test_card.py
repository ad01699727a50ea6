"""The card: hashes and counts of the files, true scores, a command that repeats the run."""

import gzip
import hashlib
import json
import re
import shlex

import pytest

from regard.cli import main
from regard.hardware.hardware import Hardware
from regard.recipes.recipe import read_recipe
from regard.training.card import _cell, write_card
from regard.training.card_json import QuotedScores, read_quoted
from regard.training.checkpoints import checkpoints, read_progress
from regard.training.events import Validated
from regard.training.workers import SINGLE_PROCESS

RECIPE = """\
[data]
train = {{ name = "parallel", source = "{folder}/a.en.gz", target = ["{folder}/a.de"] }}
valid = {{ name = "tsv", path = "{folder}/v.tsv" }}
test = {{ name = "copy", count = 3 }}

[tokens]
kind = "characters"
size = 40

[model]
d_model = 8
n_heads = 2
d_hidden = 8
n_encoder_layers = 1
n_decoder_layers = 1

[training]
steps = 3
target_tokens_per_update = 60
validate_examples = 2
validate_bleu = true
"""


@pytest.fixture
def finished(tmp_path):
    (tmp_path / "a.en.gz").write_bytes(gzip.compress(b"one two\nthree\nfour\n" * 4))
    (tmp_path / "a.de").write_bytes(b"eins zwei\ndrei\nvier\n" * 4)
    (tmp_path / "v.tsv").write_bytes(b"one\teins\nthree\tdrei\n")
    (tmp_path / "recipe.toml").write_text(RECIPE.format(folder=tmp_path))
    words = ["train", str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "run")]
    assert main([*words, "--device", "cpu"]) == 0
    return tmp_path / "run"


def test_it_says_what_the_run_was_made_of_and_the_command_repeats_it(finished):
    card = (finished / "card.md").read_text()
    for name, count in (("a.en.gz", 12), ("a.de", 12), ("v.tsv", 2)):
        mark = hashlib.sha256((finished.parent / name).read_bytes()).hexdigest()
        assert f"{name} | {count} lines, SHA-256 {mark} |" in card
    assert "| test: generator copy | count = 3 |" in card
    assert re.search(r"\| parameters \| [\d,]+ \|", card)
    assert "| updates | 3 |" in card
    last = re.search(r"\| last \| (.*) \|", card)[1]
    form = r"loss \d\.\d{4} \(\d\.\d{4} per character\), exact match 0\.0000, BLEU \d+\.\d\d"
    assert re.fullmatch(form + ", at update 3", last)
    assert re.search(r"\| BLEU's signature \| nrefs:1\\\|case:mixed", card)
    assert "| device | cpu (" in card
    assert "| precision | float32 |" in card
    assert re.search(r"\| threads \| 1: \w+", card)
    assert re.search(r"SHA-256 of its code [0-9a-f]{64}", card)

    command = shlex.split(re.search(r"```sh\n(.*)\n```", card)[1])
    assert command[0] == "regard" and command[-2:] == ["--threads", "1"]
    assert main(command[1:]) == 0
    again = finished.with_name("run-again")
    weights = [(each / "model.safetensors").read_bytes() for each in (finished, again)]
    assert weights[0] == weights[1]


def test_programs_read_the_same_numbers_in_full(finished):
    quoted = read_quoted(finished)
    rows = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    last = [row for row in rows if "valid_loss" in row][-1]
    assert quoted.scores == QuotedScores.of(last, "model.safetensors")
    assert f"| last | loss {quoted.scores.loss:.4f}" in (finished / "card.md").read_text()
    files = {file.path: (file.split, file.sha256) for file in quoted.data}
    for name, split in (("a.en.gz", "train"), ("a.de", "train"), ("v.tsv", "valid")):
        path = finished.parent / name
        assert files[str(path)] == (split, hashlib.sha256(path.read_bytes()).hexdigest())
    for name in ("recipe.toml", "tokenizer.json"):
        mark = hashlib.sha256((finished / name).read_bytes()).hexdigest()
        assert quoted.files[name] == mark
    assert quoted.made_with["device"] == "cpu"


@pytest.mark.parametrize("final", [None, Validated(3, 1.25, 0.5, is_best=False)])
def test_a_mean_of_checkpoints_is_quoted_only_if_it_was_validated(finished, final):
    recipe = read_recipe(finished / "recipe.toml", ["training.average_last=2"])
    progress = read_progress(checkpoints(finished / "checkpoints")[-1])
    given = {"parameters": 1, "hardware": Hardware(), "workers": SINGLE_PROCESS, "final": final}
    card = write_card(finished, recipe, progress, **given).read_text()
    scores = read_quoted(finished).scores
    if final is None:
        assert scores.weights == "checkpoints/step-000003/model.safetensors"
        assert "a mean of the last checkpoints', which was not validated" in card
    else:
        assert (scores.weights, scores.loss) == ("model.safetensors", 1.25)
        assert "| final weights | loss 1.2500, exact match 0.5000, at update 3 |" in card


def test_a_name_with_a_bar_in_it_stays_one_cell():
    assert _cell("a|b\nc\\d") == "a\\|b c\\\\d"
