"""regard verify: a run repeats its card; spoilt weights, data and cards are found."""

import json
import shutil

import pytest

from regard.cli import main
from regard.hardware.hardware import Hardware
from regard.recipes.recipe import read_recipe
from regard.training.card import write_card
from regard.training.card_json import file_hash, read_quoted, weights_hash
from regard.training.checkpoints import (
    checkpoints,
    read_progress,
    read_tensors,
    write_tensors,
)
from regard.training.workers import SINGLE_PROCESS
from tests.factories import make_run

RECIPE = """\
[data]
train = {{ name = "tsv", path = "{folder}/train.tsv" }}
valid = {{ name = "tsv", path = "{folder}/valid.tsv" }}
max_tokens = 20
on_long = "skip"

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
steps = 4
checkpoint_every = 2
target_tokens_per_update = 60
validate_examples = 3
validate_bleu = true
average_last = {average}
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verify")
    (folder / "train.tsv").write_text("one two\teins zwei\nthree\tdrei\n" * 6)
    (folder / "valid.tsv").write_text(f"one\teins\nthree\tdrei\n{'two ' * 9}\tzwei\ntwo\tzwei\n")
    for name, average in (("run", 0), ("mean", 2)):
        recipe = folder / f"{name}.toml"
        recipe.write_text(RECIPE.format(folder=folder, average=average))
        assert main(["train", str(recipe), "--out", str(folder / name), "--device", "cpu"]) == 0
    return folder


@pytest.fixture
def run(trained, tmp_path):
    """A copy that may be spoilt, whose card has the hash of its weights."""
    copy = tmp_path / "run"
    shutil.copytree(trained / "run", copy)
    _write_card(copy)
    return copy


def _write_card(run):
    write_card(
        run,
        read_recipe(run / "recipe.toml"),
        read_progress(checkpoints(run / "checkpoints")[-1]),
        parameters=1,
        hardware=Hardware(),
        workers=SINGLE_PROCESS,
        weights=read_tensors(run / "model.safetensors"),
    )


def _says(capsys, *words, code=0):
    assert main(["verify", *map(str, words)]) == code
    return capsys.readouterr()


def test_a_run_repeats_its_card(trained, capsys):
    said = _says(capsys, trained / "run").out
    assert "DIFFERS" not in said
    assert "same     loss: card " in said
    assert "same     exact match: card " in said
    assert "same     BLEU: card " in said
    assert f"same     valid: {trained / 'valid.tsv'}: card SHA-256 " in said
    assert "same     tokenizer.json: card SHA-256 " in said
    assert said.endswith(f"{trained / 'run'}: repeated\n")


def test_nothing_is_written_into_the_run(trained, capsys):
    before = {path: path.stat().st_mtime_ns for path in (trained / "run").rglob("*")}
    _says(capsys, trained / "run")
    assert {path: path.stat().st_mtime_ns for path in (trained / "run").rglob("*")} == before


def test_a_run_whose_weights_are_a_mean_repeats_its_card(trained, capsys):
    found = json.loads(_says(capsys, trained / "mean", "--json").out)
    assert found["is_repeated"]
    assert [check["what"] for check in found["checks"]][-3:] == ["loss", "exact match", "BLEU"]


def test_the_hash_of_weights_is_that_of_their_file(run):
    weights = read_tensors(run / "model.safetensors")
    assert weights_hash(weights) == file_hash(run / "model.safetensors")
    assert read_quoted(run).files["model.safetensors"] == file_hash(run / "model.safetensors")


def test_other_weights_are_found_by_their_hash_and_by_their_loss(run, capsys):
    weights = read_tensors(run / "model.safetensors")
    write_tensors(run / "model.safetensors", {name: w * 1.5 for name, w in weights.items()})
    said = _says(capsys, run, code=1).out
    assert "DIFFERS  model.safetensors: card SHA-256 " in said
    assert "DIFFERS  loss: card " in said
    assert "NOT repeated (" in said


def test_other_data_is_found(run, trained, capsys, tmp_path):
    recipe = (run / "recipe.toml").read_text()
    data = tmp_path / "valid.tsv"
    shutil.copyfile(trained / "valid.tsv", data)
    (run / "recipe.toml").write_text(recipe.replace(str(trained / "valid.tsv"), str(data)))
    _write_card(run)
    assert "NOT" not in _says(capsys, run).out
    data.write_text("one\teins\n")
    said = _says(capsys, run, code=1).out
    assert f"DIFFERS  valid: {data}: card SHA-256 " in said
    data.unlink()
    shutil.rmtree(run / "corpus")
    said = _says(capsys, run, code=1).out
    assert f"DIFFERS  valid: {data}: card SHA-256 " in said
    assert "here missing" in said
    assert "cannot be computed: files: there is no file" in said


def test_without_the_data_the_run_s_own_copy_of_them_is_scored(run, trained, capsys, tmp_path):
    recipe = (run / "recipe.toml").read_text()
    data = tmp_path / "valid.tsv"
    shutil.copyfile(trained / "valid.tsv", data)
    (run / "recipe.toml").write_text(recipe.replace(str(trained / "valid.tsv"), str(data)))
    _write_card(run)
    data.unlink()
    said = _says(capsys, run).out
    assert f"note     valid: {data} is not on this machine, and is not checked" in said
    assert "the run's own copy of the validation data, corpus/valid" in said
    assert "same     loss: card " in said


def test_a_score_that_was_prettied_is_found(run, capsys):
    card = run / "card.md"
    quoted = read_quoted(run).scores
    card.write_text(card.read_text().replace(f'"loss": {quoted.loss}', '"loss": 0.5'))
    said = _says(capsys, run, code=1).out
    assert "DIFFERS  loss: card 0.5000, here" in said
    assert "(1 of " in said


def test_a_spoilt_file_of_the_run_is_a_difference_and_no_crash(run, capsys):
    (run / "model.safetensors").write_bytes(b"no")
    said = _says(capsys, run, code=1)
    assert "cannot be read as safetensors" in said.out
    assert "Traceback" not in said.err


def test_mistakes_are_told_in_a_line_or_two(run, capsys, tmp_path):
    assert "is not a finished run" in _says(capsys, tmp_path / "gone", code=2).err
    bare = make_run(tmp_path / "bare")
    assert "has no card.md" in _says(capsys, bare, code=2).err
    (bare / "card.md").write_text("# bare\n")
    assert "has no block of JSON to check" in _says(capsys, bare, code=2).err
    for text in ("{", "{}", '{"version": 9}', '{"version": 1, "data": 3}', "[]"):
        (bare / "card.md").write_text(f"```json\n{text}\n```\n")
        err = _says(capsys, bare, code=2).err
        assert "Put back the card that regard train wrote" in err
        assert "Traceback" not in err
    assert "'cuba' is not on this machine" in _says(capsys, run, "--device", "cuba", code=2).err
    assert "Example: regard verify" in _says(capsys, "--help").out


WRONG_FACTS = {
    "scores.loss": '"x"',
    "scores.weights": "3",
    "data": '[{"split": "train", "path": "\\ud800", "sha256": null}]',
    "files": "[]",
    "made_with": "null",
}


@pytest.mark.parametrize(("name", "value"), WRONG_FACTS.items(), ids=WRONG_FACTS)
def test_a_card_whose_facts_are_of_another_type_names_the_fact(run, tmp_path, capsys, name, value):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    text, _, block = (copy / "card.md").read_text().rpartition("```json\n")
    facts = json.loads(block.removesuffix("\n```\n"))
    section, _, key = name.rpartition(".")
    (facts[section] if section else facts)[key] = json.loads(value)
    (copy / "card.md").write_text(f"{text}```json\n{json.dumps(facts)}\n```\n")
    told = _says(capsys, copy, code=2).err
    assert "card.md' must hold " in told
    assert f" as '{name}" in told
