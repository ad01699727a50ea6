"""A run that was zipped and unzipped elsewhere, without its data, is asked, shown and checked."""

import json
import shutil

import pytest

import regard
from regard.cli import main
from regard.errors import RunError
from regard.runs.example_inputs import own_examples
from regard.training.kept_examples import kept_examples
from tests.small_recipe import RECIPE

LINES = [f"{a} {b} c\tc {b} {a}\n" for a in "abde" for b in "abde"]


@pytest.fixture(scope="module")
def carried(tmp_path_factory):
    """A run of files, and its copy that went through a zip file, while all else is gone."""
    project, elsewhere = (tmp_path_factory.mktemp(name) for name in ("project", "elsewhere"))
    (project / "train.tsv").write_text("".join(LINES))
    (project / "valid.tsv").write_text("".join(LINES[:6]))
    recipe = RECIPE
    for made_up, name in (("300", "train"), ("20", "valid")):
        file = f'{{ name = "tsv", path = "{name}.tsv" }}'
        recipe = recipe.replace(f'{{ name = "reverse", count = {made_up} }}', file)
    (project / "recipe.toml").write_text(recipe)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        made = regard.train("recipe.toml", "runs/a", changes=["training.steps=8"])
        before = made.predict(["a b c"])
        archive = shutil.make_archive(str(elsewhere / "run"), "zip", "runs/a")
    shutil.rmtree(project)
    shutil.unpack_archive(archive, elsewhere / "run")
    return elsewhere / "run", before


def test_it_answers_as_before(carried):
    run, before = carried
    assert regard.load(run).predict(["a b c"]) == before


def test_it_is_shown_with_its_own_examples(carried):
    run, _ = carried
    found = own_examples(regard.load(run))
    assert found.why_none is None
    assert found.inputs == ("a a c", "a b c", "a d c", "a e c")
    assert len(kept_examples(run)) == 6


def test_it_is_verified_by_what_it_carries(carried, capsys):
    run, _ = carried
    assert main(["verify", str(run)]) == 0
    said = capsys.readouterr().out
    assert "note     train: train.tsv is not on this machine, and is not checked" in said
    assert "same     loss: card " in said


def test_it_is_looked_into(carried, capsys):
    run, _ = carried
    assert main(["look", str(run), "a b c", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_examples_of_another_form_are_told_and_none_is_shown(carried, tmp_path):
    run, _ = carried
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run/examples.json").write_text('{"version": 1, "inputs": [3]}')
    found = own_examples(regard.load(tmp_path / "run"))
    assert "does not have version 1 and a list of texts as inputs" in found.why_none


def test_a_checkpoint_is_a_run_to_ask_and_to_score(carried, tmp_path, capsys):
    run, before = carried
    first, last = sorted((run / "checkpoints").iterdir())
    assert regard.load(last).predict(["a b c"]) == before
    texts = tmp_path / "x"
    texts.write_text("a b c\n")
    words = ["--source", str(texts), "--reference", str(texts), "--json"]
    assert main(["evaluate", str(first), *words]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["run"] == str(first)
    assert main(["predict", str(first), "--text", "a b c"]) == 0
    assert main(["look", str(first), "a b c"]) == 0
    assert own_examples(regard.load(first)).inputs == own_examples(regard.load(run)).inputs


def test_a_checkpoint_is_found_from_its_own_folder(carried, monkeypatch):
    run, before = carried
    monkeypatch.chdir(run / "checkpoints")
    assert regard.load("step-000008").predict(["a b c"]) == before
    monkeypatch.chdir(run / "checkpoints/step-000008")
    assert regard.load(".").predict(["a b c"]) == before


def test_an_unfinished_run_names_its_newest_checkpoint(carried, tmp_path):
    run, _ = carried
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run/model.safetensors").unlink()
    newest = tmp_path / "run/checkpoints/step-000008"
    with pytest.raises(RunError, match=rf"or take its newest checkpoint: {newest}\."):
        regard.load(tmp_path / "run")
