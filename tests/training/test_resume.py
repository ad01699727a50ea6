"""--resume goes on with a folder that is there; a name that is not there is a mistake."""

import pytest

from regard.cli import main
from regard.errors import DataError, RunError
from regard.recipes import read_recipe
from regard.training import run
from regard.training.events import Finished, Notice


def _train(recipe, out, *words):
    return main(["train", str(recipe), "--out", str(out), "--device", "cpu", *words])


def test_a_run_that_is_not_there_is_not_gone_on_with_and_the_nearest_one_is_named(
    recipe, tmp_path, capsys
):
    runs = tmp_path / "runs"
    (runs / "en-de-notes").mkdir(parents=True)
    assert _train(recipe, runs / "en-de", "--set", "training.steps=2") == 0
    capsys.readouterr()
    assert _train(recipe, runs / "ende", "--resume") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"train: there is no run '{runs / 'ende'}' to go on with." in said
    assert f"Did you mean '{runs / 'en-de'}'?" in said
    assert "leave --resume out to begin a new run" in said
    assert "mkdir -p" in said
    assert "Traceback" not in said
    assert sorted(path.name for path in runs.iterdir()) == ["en-de", "en-de-notes"]


def test_where_no_run_has_a_name_like_it_none_is_named(recipe, tmp_path, capsys):
    (tmp_path / "recipes").mkdir()
    for out in (tmp_path / "recipe", tmp_path / "nowhere" / "deep" / "run"):
        assert _train(recipe, out, "--resume") == 2
        said = capsys.readouterr().err
        assert "Did you mean" not in said
        assert not out.exists()
    assert not (tmp_path / "nowhere").exists()


def test_python_refuses_it_alike(recipe, tmp_path):
    with pytest.raises(RunError, match="to go on with"):
        next(run(read_recipe(recipe), tmp_path / "run", resume=True))


def test_a_folder_without_a_checkpoint_is_begun_in(recipe, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    events = list(run(read_recipe(recipe, ["training.steps=2"]), out, resume=True))
    assert events[0] == Notice(f"there is no run '{out}' to go on with; a new one begins")
    assert isinstance(events[-1], Finished)


def test_a_folder_that_was_there_stays_when_a_training_cannot_begin(recipe, tmp_path):
    """A script that makes the folder once can call the same command again."""
    out, new = tmp_path / "run", tmp_path / "new" / "run"
    out.mkdir()
    text = recipe.read_text().replace(
        'valid = { name = "reverse", count = 20 }', 'valid = { name = "tsv", path = "nothing.tsv" }'
    )
    recipe.write_text(text)
    for folder, resume in ((out, True), (new, False)):
        with pytest.raises(DataError, match=r"nothing\.tsv"):
            list(run(read_recipe(recipe), folder, resume=resume))
    assert out.is_dir()
    assert not any(out.iterdir())
    assert not new.parent.exists()
