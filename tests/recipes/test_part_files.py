"""A run with a link of the user's own records it, and says what is missing without it."""

import json

import pytest

import regard
from regard.cli import main
from regard.errors import CheckpointError, RunError
from tests.own_parts import SOURCE, forgetting
from tests.small_recipe import RECIPE


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "my_parts.py").write_text(SOURCE)
    (folder / "recipe.toml").write_text(RECIPE.replace("[model]", '[model]\nscore = "distance"'))
    words = ["train", folder / "recipe.toml", "--out", folder / "run", "--set", "training.steps=1"]
    with forgetting():
        assert main([*map(str, words), "--import", str(folder / "my_parts.py")]) == 0
    return folder


def test_a_recipe_that_names_it_says_how_it_comes(made, tmp_path, capsys):
    with forgetting():
        assert main(["train", str(made / "recipe.toml"), "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "model.score: There is no 'distance' here. Known: dot, scaled_dot," in said
    assert "One of your own comes with --import FILE (in Python regard.import_parts)." in said


def test_the_run_records_the_name_and_the_hash(made):
    (row,) = json.loads((made / "run/parts.json").read_text())
    assert (row["name"], row["class"]) == ("distance", "DistanceScore")
    assert row["source"] == str(made / "my_parts.py")
    assert len(row["sha256"]) == 64


def test_with_the_file_it_answers_and_without_it_says_what_is_missing(made, capsys, caplog):
    words = ["predict", str(made / "run"), "--text", "a b"]
    with forgetting():
        assert main(words) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert "was trained with the part 'distance', which is DistanceScore of " in said.err
        assert (
            f"and is not loaded. Add --import {made / 'my_parts.py'}; in Python, call" in said.err
        )
    with forgetting():
        assert main([*words, "--import", str(made / "my_parts.py")]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 1
        assert "parts: 'distance' is DistanceScore of" in caplog.messages[-1]


def test_its_story_is_told_with_the_file_and_without_it_says_what_is_missing(made, capsys):
    words = ["show", str(made / "run")]
    with forgetting():
        assert main(words) == 2
        assert f"is not loaded. Add --import {made / 'my_parts.py'}" in capsys.readouterr().err
    with forgetting():
        assert main([*words, "--import", str(made / "my_parts.py")]) == 0
        assert "score distance" in capsys.readouterr().out


def test_loading_never_runs_the_file_that_a_run_names(made):
    with forgetting(), pytest.raises(RunError, match=r"call regard\.import_parts\(file\) first"):
        regard.load(made / "run")


def test_another_version_of_the_file_is_told(made, tmp_path, caplog):
    changed = tmp_path / "my_parts.py"
    changed.write_text(SOURCE + "# changed\n")
    with forgetting():
        regard.import_parts(changed)
        regard.load(made / "run")
    assert "is not what" in caplog.messages[-1]
    assert "was trained with: SHA-256" in caplog.messages[-1]


def test_a_recipe_without_own_parts_has_no_such_file(tmp_path):
    (tmp_path / "recipe.toml").write_text(RECIPE)
    run = regard.train(tmp_path / "recipe.toml", tmp_path / "run", changes=["training.steps=1"])
    assert not (run.path / "parts.json").exists()
    (run.path / "parts.json").write_text('[{"name": 3}]')
    with pytest.raises(CheckpointError, match="must hold a list of parts, each with name, class"):
        regard.load(run.path)
