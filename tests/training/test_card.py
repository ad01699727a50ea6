"""The card: hashes and counts of the files, true scores, a command that repeats the run."""

import gzip
import hashlib
import re
import shlex

import pytest

from regard.cli import main
from regard.training.card import _cell

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
    assert re.search(r"\| threads \| \d+ \|", card)
    assert re.search(r"SHA-256 of its code [0-9a-f]{64}", card)

    threads, *command = shlex.split(re.search(r"```sh\n(.*)\n```", card)[1])
    assert threads.startswith("OMP_NUM_THREADS=")
    assert command[0] == "regard"
    assert main(command[1:]) == 0
    again = finished.with_name("run-again")
    weights = [(each / "model.safetensors").read_bytes() for each in (finished, again)]
    assert weights[0] == weights[1]


def test_a_name_with_a_bar_in_it_stays_one_cell():
    assert _cell("a|b\nc\\d") == "a\\|b c\\\\d"
