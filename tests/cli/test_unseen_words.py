"""Words that a run has never seen are told once a call, by predict, look and evaluate."""

import json
import shutil

import pytest

import regard
from regard.cli import main
from tests.factories import make_run

RECIPE = """\
[data]
train = {{ name = "tsv", path = "{folder}/train.tsv" }}
valid = {{ name = "tsv", path = "{folder}/train.tsv" }}

[tokens]
kind = "{kind}"
size = 300

[model]
d_model = 8
n_heads = 2
d_hidden = 8
n_encoder_layers = 1
n_decoder_layers = 1

[training]
steps = 1
warmup_steps = 1
"""
ROWS = "a dog runs\tein hund\nthe cat sleeps\tzwei katzen\n" * 20


@pytest.fixture(scope="module", params=["words", "bpe"])
def trained(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "train.tsv").write_text(ROWS)
    (folder / "recipe.toml").write_text(RECIPE.format(folder=folder, kind=request.param))
    assert main(["train", str(folder / "recipe.toml"), "--out", str(folder / "run")]) == 0
    return folder / "run"


def _predicted(run, capsys, *words):
    capsys.readouterr()
    assert main(["predict", str(run), "--max-tokens", "4", *words]) == 0
    said = capsys.readouterr()
    return said.out.splitlines(), [line for line in said.err.splitlines() if "training" in line]


def test_predict_tells_them_once_for_all_texts(trained, capsys):
    texts = ["the dog runs", "a пёс runs", "走る cat", "zwei dog"]
    out, told = _predicted(trained, capsys, *(w for text in texts for w in ("--text", text)))
    assert len(out) == 4
    # a word of targets alone is no word of the sources
    assert told == [
        "3 of 4 texts have words that no training text of the run had (input 2: 'пёс'; input 3: "
        "'走る'; input 4: 'zwei'): of these the model knows nothing"
    ]


def test_of_known_words_nothing_is_told(trained, capsys):
    _, told = _predicted(trained, capsys, "--text", "the dog sleeps")
    assert told == []


def test_json_has_them_in_a_field_where_there_are_some(trained, capsys):
    rows, told = _predicted(trained, capsys, "--text", "a пёс", "--text", "a dog", "--json")
    assert json.loads(rows[0])["unseen"] == ["пёс"]
    assert "unseen" not in json.loads(rows[1])
    assert len(told) == 1


def test_look_tells_them_and_so_does_its_json(trained, capsys):
    note = "no training text of the run had these words: 'пёс'; of them the model knows nothing"
    assert main(["look", str(trained), "a пёс", "--target", "ein", "--json"]) == 0
    said = capsys.readouterr()
    assert f"look: {note}\n" in said.err
    assert json.loads(said.out)["note"] == note


def test_evaluate_notes_how_many_texts_hold_some(trained, tmp_path, capsys):
    (tmp_path / "test.tsv").write_text("a пёс\tein hund\na dog\tein hund\n")
    words = ["evaluate", str(trained), "--source", str(tmp_path / "test.tsv"), "--json"]
    assert main([*words, "--metrics", "exact"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert (
        "1 of 2 texts has words that no training text of the run had (text 1: 'пёс'): of these the "
        "model knows nothing"
    ) in notes


def test_python_has_them_in_the_prediction(trained):
    assert regard.load(trained).predict(["a пёс a пёс 走る"])[0].unseen == ("пёс", "走る")


def test_without_its_training_texts_a_run_knows_its_vocabulary(trained, tmp_path, capsys):
    shutil.copytree(trained, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "corpus")
    _, told = _predicted(tmp_path / "run", capsys, "--text", "a пёс")
    is_of_words = 'kind = "words"' in (trained / "recipe.toml").read_text()
    assert len(told) == is_of_words


def test_a_run_of_characters_tells_characters_it_never_saw(tmp_path, capsys):
    run = make_run(tmp_path / "run", "ab ba")
    _, told = _predicted(run, capsys, "--text", "ab cab")
    assert told == [
        "1 of 1 text has words that no training text of the run had (input 1: 'cab'): of these the "
        "model knows nothing"
    ]
