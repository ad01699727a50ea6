"""regard runs lists runs, and regard show tells the story of one."""

import json
import re
import shutil

import pytest

import regard
from regard.cli import main
from tests.factories import ENCODER, make_run
from tests.small_recipe import RECIPE


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run, one that was stopped, one that cannot be read, and one inside another."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "small.toml").write_text(RECIPE)
    regard.train(folder / "small.toml", folder / "group/done", changes=["training.steps=8"])
    shutil.copytree(folder / "group/done", folder / "stopped")
    (folder / "stopped/model.safetensors").unlink()
    make_run(folder / "broken")
    (folder / "broken/recipe.toml").write_text("[data]\n")
    make_run(folder / "group/done/inside")
    (folder / ".hidden").mkdir()
    shutil.copytree(folder / "group/done", folder / ".hidden/done")
    return folder


def test_every_run_is_listed_with_its_task_scores_size_and_date(folder, capsys):
    assert main(["runs", str(folder)]) == 0
    said = capsys.readouterr().out
    (done,) = (line for line in said.splitlines() if line.startswith(f"{folder}/group/done "))
    form = r"translation +finished +loss \d\.\d{4}, exact match \d\.\d{3} +[\d.]+ [KM]iB +"
    assert re.search(form + r"\d{4}-\d\d-\d\d \d\d:\d\d$", done)
    assert "hidden" not in said
    assert "inside" not in said
    assert f"{folder}/broken: " in said
    assert "data.train" in said.rpartition(f"{folder}/broken: ")[2]


def test_programs_read_the_same(folder, capsys):
    assert main(["runs", str(folder), "--json"]) == 0
    rows = {row["path"]: row for row in json.loads(capsys.readouterr().out)}
    done, stopped = rows[str(folder / "group/done")], rows[str(folder / "stopped")]
    assert (done["is_finished"], stopped["is_finished"]) == (True, False)
    assert done["step"] == done["steps"] == 8
    assert set(done["scores"]) == {"loss", "exact_match"}
    count = sum(weight.numel() for weight in regard.load(done["path"]).model.parameters())
    assert done["parameters"] == count
    assert rows[str(folder / "broken")]["problem"]
    assert len(rows) == 3


def test_a_run_alone_and_a_folder_without_runs(folder, capsys, tmp_path, monkeypatch):
    assert main(["runs", str(folder / "group/done")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    monkeypatch.chdir(tmp_path)
    assert main(["runs"]) == 0
    assert "there is no run in '.' (regard train RECIPE --out RUN makes one)" in (
        capsys.readouterr().out
    )
    assert main(["runs", "nowhere"]) == 2
    assert "runs: there is no folder 'nowhere'. Give one that holds runs." in (
        capsys.readouterr().err
    )


def test_a_run_s_story_fits_on_a_screen_and_says_how_to_use_it(folder, capsys):
    run = folder / "group/done"
    assert main(["show", str(run)]) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) < 24
    assert "what for   answers texts (translation); finished, " in said
    assert "data       train: made by reverse (count = 300)" in said
    assert re.search(r"model +transformer, [\d,]+ parameters", said)
    assert "score scaled_dot" in said
    assert "training   8 of 8 updates, " in said
    assert f"regard evaluate {run} --split valid" in said
    words = next(line for line in said.splitlines() if "regard predict" in line)
    assert main([*re.sub(r"^use +regard ", "", words).replace("'", "").split(" --text ")[0].split(),
                 "--text", words.partition("--text ")[2].strip("'")]) == 0  # fmt: skip


def test_a_stopped_run_says_how_it_goes_on(folder, capsys):
    assert main(["show", str(folder / "stopped")]) == 0
    said = capsys.readouterr().out
    place = folder / "stopped"
    assert f"use        regard train {place}/recipe.toml --out {place} --resume" in said
    assert "8 of 8" in said


def test_a_checkpoint_tells_the_story_of_its_run(folder, capsys):
    run = folder / "group/done"
    assert main(["show", str(run / "checkpoints/step-000008"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["path"] == str(run)
    assert told["story"]["scores"].startswith("loss ")


def test_a_run_of_vectors_is_asked_for_vectors(tmp_path, capsys):
    run = make_run(tmp_path / "run", model=ENCODER.format(task="vectors"))
    assert main(["show", str(run)]) == 0
    said = capsys.readouterr().out
    assert "--vectors vectors.npy --text" in said
    assert "none: no validation was made" in said
    assert "no update is kept" in said


def test_what_is_no_run_is_told(folder, capsys, tmp_path):
    assert main(["show", str(tmp_path / "gone")]) == 2
    assert "is no run: there is no such folder" in capsys.readouterr().err
    assert main(["show", str(folder / "broken")]) == 2
    assert "cannot be read: " in capsys.readouterr().err
    for verb in ("runs", "show"):
        assert main([verb, "--help"]) == 0
        assert f"Example: regard {verb} runs" in capsys.readouterr().out
