"""A run finds its data again from any folder, and wherever run and data were moved together."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import regard
from regard.cli import main
from regard.data import Example
from regard.errors import DataError, RunError
from regard.recipes.data_paths import FILE, Start, find_path, read_start, write_start
from regard.runs.dictionaries import dictionary_of
from regard.runs.evaluation_texts import texts_of_split
from regard.runs.example_inputs import own_examples
from regard.serving import build_app
from regard.serving.registry import open_runs
from regard.training.card_json import read_quoted
from tests.captioning import RECIPE as CAPTIONER
from tests.captioning import draw

RECIPE = """\
[data]
train = {{ name = "{reader}", {train} }}
valid = {{ name = "{reader}", {valid} }}
test = {{ name = "{reader}", {valid} }}

[tokens]
kind = "words"
size = 40
{tokens}

[model]
d_model = 8
n_heads = 2
d_hidden = 8
n_encoder_layers = 1
n_decoder_layers = 1

[training]
steps = 4
checkpoint_every = 2
validate_every = 2
target_tokens_per_update = 60
validate_examples = 3
"""

PLAIN = {
    "tsv": ('path = "data/train.tsv"', 'path = "data/valid.tsv"'),
    "parallel": (
        'source = "data/train.en", target = ["data/train.de"]',
        'source = "data/valid.en", target = ["data/valid.de"]',
    ),
    "shards": ('folder = "data/shards"', 'folder = "data/shards"'),
}
"""Relative settings of readers: a path, several paths, a folder."""
VALID = [Example("one two", ("eins zwei",)), Example("three", ("drei",))]


def make_project(folder, reader="tsv", tokens=""):
    """A folder with data and a recipe whose paths start there."""
    data = folder / "data"
    (data / "shards").mkdir(parents=True)
    lines = [(one.source, one.targets[0]) for one in VALID]
    for split, count in (("train", 6), ("valid", 1)):
        (data / f"{split}.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in lines) * count)
        (data / f"{split}.en").write_text("".join(f"{s}\n" for s, _ in lines) * count)
        (data / f"{split}.de").write_text("".join(f"{t}\n" for _, t in lines) * count)
    (data / "shards" / "a.tsv").write_text((data / "valid.tsv").read_text())
    train, valid = PLAIN[reader]
    recipe = RECIPE.format(reader=reader, train=train, valid=valid, tokens=tokens)
    (folder / "recipe.toml").write_text(recipe)
    return folder


def train(folder, monkeypatch, *words):
    monkeypatch.chdir(folder)
    assert main(["train", "recipe.toml", "--out", "runs/a", "--device", "cpu", *words]) == 0
    return folder / "runs" / "a"


@pytest.fixture
def elsewhere(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("reader", PLAIN)
def test_evaluate_verify_compare_and_examples_work_from_any_folder(
    reader, tmp_path, elsewhere, monkeypatch, capsys
):
    run = train(make_project(tmp_path / "project", reader), monkeypatch)
    monkeypatch.chdir(elsewhere)
    for split in ("valid", "test"):
        assert main(["evaluate", str(run), "--split", split, "--metrics", "loss"]) == 0
    assert main(["verify", str(run)]) == 0
    capsys.readouterr()
    (elsewhere / "said").write_text("eins zwei\ndrei\n")
    said = ["--hypotheses", "other=said", "--split", "valid", "--samples", "5", "--trials", "5"]
    assert main(["compare", str(run), *said]) == 0
    assert "rare words are not told apart" not in capsys.readouterr().err
    trained = regard.load(run, device="cpu")
    assert own_examples(trained).inputs[:2] == tuple(one.source for one in VALID)


def test_a_run_finds_its_data_by_a_relative_path_of_its_own_too(tmp_path, elsewhere, monkeypatch):
    train(make_project(tmp_path / "project"), monkeypatch)
    monkeypatch.chdir(elsewhere)
    assert main(["verify", "../project/runs/a"]) == 0


def test_a_dictionary_is_learned_from_any_folder(tmp_path, elsewhere, monkeypatch):
    run = train(make_project(tmp_path / "project"), monkeypatch)
    monkeypatch.chdir(elsewhere)
    assert set(dictionary_of(regard.load(run, device="cpu"))) <= {"one", "two", "three"}


def test_run_and_data_that_were_moved_together_find_each_other(tmp_path, elsewhere, monkeypatch):
    train(make_project(tmp_path / "project"), monkeypatch)
    monkeypatch.chdir(elsewhere)
    (tmp_path / "project").rename(tmp_path / "moved")
    assert main(["verify", str(tmp_path / "moved" / "runs" / "a")]) == 0


def test_absolute_paths_of_a_recipe_move_with_the_run_too(tmp_path, elsewhere, monkeypatch):
    project = make_project(tmp_path / "project")
    text = (project / "recipe.toml").read_text().replace('"data/', f'"{project}/data/')
    (project / "recipe.toml").write_text(text)
    train(project, monkeypatch)
    monkeypatch.chdir(elsewhere)
    project.rename(tmp_path / "moved")
    assert main(["verify", str(tmp_path / "moved" / "runs" / "a")]) == 0


def test_a_run_that_was_moved_alone_finds_its_data_where_they_were(
    tmp_path, elsewhere, monkeypatch
):
    run = train(make_project(tmp_path / "project"), monkeypatch)
    shutil.move(run, elsewhere / "b")
    monkeypatch.chdir(elsewhere)
    assert main(["verify", "b"]) == 0


def test_files_of_the_same_name_in_the_folder_one_stands_in_are_not_taken(
    tmp_path, elsewhere, monkeypatch
):
    run = train(make_project(tmp_path / "project"), monkeypatch)
    (elsewhere / "data").mkdir()
    (elsewhere / "data" / "valid.tsv").write_text("another\tanderes\n")
    monkeypatch.chdir(elsewhere)
    recipe = regard.load(run, device="cpu").loaded.recipe
    assert texts_of_split(recipe, "valid", run) == VALID


def test_a_run_of_an_older_version_is_looked_for_from_here_and_from_its_own_place(
    tmp_path, elsewhere, monkeypatch
):
    run = train(make_project(tmp_path / "project"), monkeypatch)
    (run / FILE).unlink()
    monkeypatch.chdir(elsewhere)
    assert main(["verify", str(run)]) == 0, "project/data lies beside project/runs/a"
    shutil.move(run, elsewhere / "b")
    assert main(["evaluate", "b", "--split", "valid"]) == 2
    monkeypatch.chdir(tmp_path / "project")
    assert main(["verify", str(elsewhere / "b")]) == 0, "as before"


def test_a_run_of_an_older_version_finds_its_data_after_it_went_on_from_another_folder(
    tmp_path, elsewhere, monkeypatch
):
    project = make_project(tmp_path / "project")
    run = train(project, monkeypatch, "--set", "training.steps=2")
    (run / FILE).unlink()
    (run / "model.safetensors").unlink()
    monkeypatch.chdir(elsewhere)
    recipe = str(project / "recipe.toml")
    assert main(["train", recipe, "--out", str(run), "--resume", "--device", "cpu"]) == 0
    assert find_path(Path("data/valid.tsv"), run) == project / "data" / "valid.tsv"
    assert main(["verify", str(run)]) == 0


def test_data_that_are_nowhere_are_an_error_with_every_place_and_a_remedy(
    tmp_path, elsewhere, monkeypatch, capsys
):
    project = make_project(tmp_path / "project")
    run = train(project, monkeypatch)
    (project / "data").rename(tmp_path / "gone")
    monkeypatch.chdir(elsewhere)
    assert main(["evaluate", str(run), "--split", "valid"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "there is no 'data/valid.tsv'" in said
    for place in (project / "data" / "valid.tsv", elsewhere / "data" / "valid.tsv"):
        assert f"'{place}'" in said
    assert "Bring it to one of these places" in said
    assert "Traceback" not in said
    assert main(["verify", str(run)]) == 0
    assert "valid: data/valid.tsv is not on this machine" in capsys.readouterr().out


def test_the_recipe_and_the_card_of_a_run_keep_its_paths_as_they_were_given(
    tmp_path, elsewhere, monkeypatch
):
    run = train(make_project(tmp_path / "project"), monkeypatch)
    assert str(tmp_path) not in (run / "recipe.toml").read_text()
    assert {file.path for file in read_quoted(run).data} == {"data/train.tsv", "data/valid.tsv"}
    assert str(tmp_path) not in (run / "card.md").read_text()
    assert str(tmp_path) not in (run / "report.html").read_text()


def test_a_training_goes_on_from_another_folder_to_the_same_bits(tmp_path, elsewhere, monkeypatch):
    """BPE-dropout reads the texts anew in every epoch."""
    bpe = 'size = 300\nkind = "bpe"\ndropout = 0.3'
    whole = make_project(tmp_path / "whole", tokens="")
    text = (whole / "recipe.toml").read_text().replace('kind = "words"\nsize = 40', bpe)
    (whole / "recipe.toml").write_text(text)
    wanted = (train(whole, monkeypatch) / "model.safetensors").read_bytes()
    project = make_project(tmp_path / "project")
    (project / "recipe.toml").write_text(text)
    run = train(project, monkeypatch, "--set", "training.steps=2")
    (run / "model.safetensors").unlink()
    monkeypatch.chdir(elsewhere)
    recipe = str(project / "recipe.toml")
    assert main(["train", recipe, "--out", str(run), "--resume", "--device", "cpu"]) == 0
    assert (run / "model.safetensors").read_bytes() == wanted
    assert {file.path for file in read_quoted(run).data} == {"data/train.tsv", "data/valid.tsv"}
    assert main(["verify", str(run)]) == 0


def test_a_captioner_trained_on_relative_pictures_offers_them_by_name_alone(
    tmp_path, elsewhere, monkeypatch
):
    project = tmp_path / "project"
    (project / "photos").mkdir(parents=True)
    captions = {f"{n}.png": draw(project / "photos" / f"{n}.png", n) for n in range(6)}
    rows = [json.dumps({"image": name, "caption": said}) for name, said in captions.items()]
    (project / "all.jsonl").write_text("\n".join(rows) + "\n")
    reader = '{ name = "caption_lines", path = "all.jsonl", pictures = "photos" }'
    recipe = re.sub(r'\{ name = "scenes", count = \d+ \}', reader, CAPTIONER)
    (project / "recipe.toml").write_text(recipe)
    run = train(project, monkeypatch)
    monkeypatch.chdir(elsewhere)
    registry = open_runs([run], device="cpu")
    with TestClient(build_app(registry), base_url="http://127.0.0.1:8000") as client:
        told = client.get("/api/runs/a/info").json()
        assert told["examples"] == ["0.png", "1.png", "2.png", "3.png"]
        shown = client.get("/api/runs/a/caption/1")
        assert shown.status_code == 200
        assert shown.json()["picture"]["name"] == "1.png"
        assert str(tmp_path) not in shown.text
        for path in (run / "examples/2/1.png", project / "photos/1.png"):
            path.write_bytes(b"no picture")
        refused = client.get("/api/runs/a/caption/1")
        assert refused.status_code == 400
        assert "'1.png'" in refused.text
        assert str(tmp_path) not in refused.text
    assert main(["verify", str(run)]) == 1, "one picture was changed"


def test_the_mean_of_checkpoints_is_verified_from_any_folder(tmp_path, elsewhere, monkeypatch):
    train(make_project(tmp_path / "project"), monkeypatch)
    monkeypatch.chdir(tmp_path / "project" / "data")
    assert main(["average", "../runs/a", "--last", "2", "--out", "../runs/mean"]) == 0
    monkeypatch.chdir(elsewhere)
    mean = tmp_path / "project" / "runs" / "mean"
    assert main(["verify", str(mean)]) == 0
    assert main(["evaluate", str(mean), "--split", "valid", "--metrics", "loss"]) == 0


@pytest.mark.parametrize(
    "content", ["", "[]", '{"version": 1}', '{"version": 1, "folder": "a", "run": 3}', "\x00"]
)
def test_a_record_that_cannot_be_read_is_told_with_a_remedy(content, tmp_path):
    (tmp_path / FILE).write_text(content)
    with pytest.raises(RunError, match=r"data_paths.json' cannot be read.* Delete it"):
        read_start(tmp_path)


def test_a_path_is_given_back_as_it_was_where_it_starts_from_here(tmp_path, monkeypatch):
    project = make_project(tmp_path / "project")
    run = train(project, monkeypatch)
    assert find_path(Path("data/valid.tsv"), run) == Path("data/valid.tsv")
    monkeypatch.chdir(project / "data")
    assert find_path(Path("data/valid.tsv"), run) == project / "data" / "valid.tsv"
    assert find_path(project / "data" / "valid.tsv", run) == project / "data" / "valid.tsv"
    with pytest.raises(DataError, match=r"there is no 'data/nothing\.tsv'"):
        find_path(Path("data/nothing.tsv"), run)


def test_data_on_another_drive_than_the_run_are_where_they_were_or_nowhere(tmp_path, monkeypatch):
    def on_two_drives(*_):
        raise ValueError("path is on mount 'D:', start on mount 'C:'")

    run, here = tmp_path / "run", tmp_path / "here"
    for folder in (run, here, tmp_path / "elsewhere"):
        folder.mkdir()
    write_start(run, Start(here.resolve(), run.resolve()))
    (here / "a.tsv").write_text("a\tb\n")
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr(os.path, "relpath", on_two_drives)
    assert find_path(Path("a.tsv"), run) == here / "a.tsv"
    with pytest.raises(DataError, match=r"there is no 'b\.tsv', which the recipe of"):
        find_path(Path("b.tsv"), run)
    given = Start(here, run).path_from(Path("mean.safetensors"))
    assert given == tmp_path / "elsewhere" / "mean.safetensors"
