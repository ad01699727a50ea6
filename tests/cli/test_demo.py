"""regard demo, with few updates on few dates: what it says, writes, keeps and refuses."""

import importlib
import io
import re
from contextlib import redirect_stderr, redirect_stdout

import pytest

from regard.cli import main
from regard.data.dates import language_name
from regard.runs.demo import demo_recipe, unseen
from regard.training.checkpoints import Progress, checkpoints
from regard.training.events import Finished
from regard.training.run import run

SMALL = [
    "data.train.count=300", "data.valid.count=8", "data.test.count=40", "training.steps=3",
    "training.validate_every=3", "training.validate_examples=10", "training.checkpoint_every=1",
    "model.d_model=16", "model.d_hidden=16",
]  # fmt: skip


def _demo(out, *words):
    """Exit code, standard output and standard error."""
    said, told = io.StringIO(), io.StringIO()
    changes = [word for change in SMALL for word in ("--set", change)]
    with redirect_stdout(said), redirect_stderr(told):
        code = main(["demo", "--out", str(out), *changes, *words])
    return code, said.getvalue(), told.getvalue()


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "demo-run"
    return out, *_demo(out)


@pytest.fixture(scope="module")
def drawn():
    """The languages among so few dates."""
    return {one.group for one in unseen(demo_recipe(SMALL))}


def test_the_last_line_is_the_accuracy_and_the_path_of_the_report(first):
    out, code, said, _ = first
    assert code == 0
    last = said.splitlines()[-1]
    assert re.match(r"accuracy \d+\.\d % \(\d+ of 40 unseen dates, no language below", last)
    assert last.endswith(f"report: {out / 'report.html'}")
    assert (out / "report.html").is_file()


def test_every_language_has_its_line_and_six_dates_are_shown(first, drawn):
    _, _, said, told = first
    assert len(drawn) > 12
    for code in drawn:
        assert re.search(rf"^  {language_name(code)} +\d+\.\d %", said, re.MULTILINE)
    assert said.count("cross attention, layer 1, head") == 6
    assert "predicting row" in said
    assert "next row" in said
    assert "validation loss" in told


def test_the_report_holds_curves_languages_examples_and_maps(first, drawn):
    page = (first[0] / "report.html").read_text()
    assert page.count("<polyline") == 4
    assert page.count('class="shaded"') == 6
    assert page.count('<figure class="map">') > 6
    assert all(f">{language_name(code)}</th>" in page for code in drawn)
    assert "(chosen)" in page
    assert not re.search(r"https?://|<script|<link|url\(", page)


def test_a_finished_run_is_shown_again_and_not_trained_again(first):
    out, _, before, _ = first
    weights = (out / "model.safetensors").stat().st_mtime_ns
    code, said, told = _demo(out)
    assert code == 0
    assert "is a finished run: nothing is trained again" in told
    assert said == before
    assert (out / "model.safetensors").stat().st_mtime_ns == weights


def test_the_run_answers_at_once(first, capsys):
    assert main(["predict", str(first[0]), "--text", "Mittwoch, 9. Mai 2029"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_another_seed_or_another_directory_s_things_are_never_overwritten(first, tmp_path):
    code, said, told = _demo(first[0], "--seed", "7")
    assert (code, said) == (2, "")
    assert "holds a run of another recipe or seed, which is never overwritten. Choose" in told
    (tmp_path / "mine.txt").write_text("mine")
    assert _demo(tmp_path)[0] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_an_interrupted_demo_goes_on(tmp_path):
    out = tmp_path / "run"
    begun = run(demo_recipe([*SMALL, "data.test.count=6"]), out)
    while not checkpoints(out / "checkpoints"):
        next(begun)
    begun.close()
    code, _, told = _demo(out, "--set", "data.test.count=6")
    assert code == 0
    assert "going on from step 1" in told


def test_a_stop_says_how_to_go_on(tmp_path, monkeypatch):
    stopped = Finished(tmp_path / "run", Progress(step=2), is_complete=False)
    # the package has a function of this name
    verb = importlib.import_module("regard.cli.demo")
    monkeypatch.setattr(verb, "run", lambda *_, **__: iter([stopped]))
    code, said, _ = _demo(tmp_path / "run")
    assert code == 130
    assert "stopped at step 2; the same command goes on" in said
