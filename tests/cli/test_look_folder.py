"""`regard look --model FOLDER`: a model of transformers in place of a run."""

import json
import re

import numpy as np
import pytest
from PIL import Image

from regard.cli import main
from regard.inspecting import load_record
from tests.bridge.folders import folder_of

TEXT = "the quick brown fox"


@pytest.fixture(scope="module")
def bart(tmp_path_factory):
    return str(folder_of("bart", tmp_path_factory.mktemp("models")))


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    return str(folder_of("vit", tmp_path_factory.mktemp("models")))


def test_words_are_shown_in_the_terminal(bart, capsys):
    assert main(["look", "--model", bart, TEXT, "--target", "a lazy dog", "--layer", "2"]) == 0
    said = capsys.readouterr()
    assert "cross attention, layer 2, mean of 4 heads" in said.out
    assert " lazy ← " in said.out
    assert "Loading" not in said.err


def test_an_answer_ends_at_the_places_that_the_model_has(bart, capsys):
    assert main(["look", "--model", bart, TEXT, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["attention"]) == ["encoder", "decoder", "cross"]


@pytest.mark.parametrize("name", ["page.html", "map.png", "words.txt", "numbers.json"])
def test_every_form_of_a_look_is_written(name, bart, tmp_path):
    out = tmp_path / name
    assert main(["look", "--model", bart, TEXT, "--target", "a dog", "--out", str(out)]) == 0
    assert out.stat().st_size > 100


def test_a_record_is_kept_and_read_again(bart, tmp_path):
    out = tmp_path / "look.safetensors"
    assert main(["look", "--model", bart, TEXT, "--target", "a dog", "--out", str(out)]) == 0
    assert load_record(out).source == TEXT


def test_a_picture_is_looked_at(vit, tmp_path, capsys):
    picture = tmp_path / "picture.png"
    Image.fromarray(np.zeros((20, 20, 3), dtype=np.uint8)).save(picture)
    assert main(["look", "--model", vit, str(picture)]) == 0
    assert "class token  row " in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert main(["look", "--model", vit, str(picture), "--out", str(page)]) == 0
    assert "class token" in page.read_text()


REFUSED = {
    "no run and no model": ([], "look: expected a run, got none.*regard look --model FOLDER"),
    "a kind that it lacks": (["--kind", "both", TEXT], "There is no 'both' here.*Known: encoder"),
    "a layer that it lacks": (["--layer", "3", TEXT], "layer 3"),
    "two texts": ([TEXT, "a dog"], "look: expected one text, got 2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_looked_at_is_told_in_one_line(name, bart, capsys):
    given, said = REFUSED[name]
    model = [] if name.startswith("no run") else ["--model", bart]
    assert main(["look", *model, *given]) == 2
    error = capsys.readouterr().err
    assert re.search(said, error), error
    assert "Traceback" not in error


def test_a_target_is_refused_where_no_caption_is_written(vit, capsys):
    assert main(["look", "--model", vit, "picture.png", "--target", "a dog"]) == 2
    assert "writes no caption, so --target would change nothing" in capsys.readouterr().err
