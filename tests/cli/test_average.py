"""regard average: the mean, a run that works, nothing overwritten, nothing mixed up."""

import json

import pytest
import torch

import regard
from regard.cli import main
from regard.training.card_json import Quoted, QuotedFile, file_hash, quoted_text, read_quoted
from regard.training.checkpoints import read_tensors, write_tensors
from tests.factories import make_run


def _says(capsys, *words, code=0):
    assert main(["average", *map(str, words)]) == code
    return capsys.readouterr()


def _own(run):
    return read_tensors(run / "model.safetensors")


@pytest.fixture
def run(tmp_path):
    """A run whose three checkpoints are three other runs' weights."""
    made = make_run(tmp_path / "run")
    for step in (1, 2, 3):
        folder = made / "checkpoints" / f"step-{step:06d}"
        folder.mkdir(parents=True)
        other = make_run(tmp_path / f"other-{step}") / "model.safetensors"
        # any weights will do that differ by more than a factor
        write_tensors(other, {name: (step * each).sin() for name, each in _own(made).items()})
        (folder / "model.safetensors").write_bytes(other.read_bytes())
    return made


def _mean(*files):
    read = [read_tensors(file) for file in files]
    return {name: sum(each[name].double() for each in read) / len(read) for name in read[0]}


def _assert_same(file, mean):
    found = read_tensors(file)
    assert found.keys() == mean.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(tensor.double(), mean[name], rtol=1e-6, atol=1e-7)


def test_the_last_checkpoints_of_a_run_become_a_run_that_answers(run, tmp_path, capsys):
    out = tmp_path / "new" / "mean"
    said = _says(capsys, run, "--last", 2, "--out", out).out
    last = [run / "checkpoints" / f"step-00000{n}" / "model.safetensors" for n in (2, 3)]
    assert said.splitlines() == [f"wrote {out}, the mean of", *(f"  {file}" for file in last)]
    _assert_same(out / "model.safetensors", _mean(*last))
    assert (out / "recipe.toml").read_bytes() == (run / "recipe.toml").read_bytes()
    assert regard.load(out).predict(["a b"])[0].source == "a b"
    assert "# mean\n\n## The mean of" in (out / "card.md").read_text()
    assert main(["verify", str(out)]) == 0
    assert not out.with_name("mean.partial").exists()


def test_a_mean_records_the_data_that_its_run_records(run, tmp_path, capsys):
    (tmp_path / "valid.tsv").write_text("a b\tb a\n")
    data = (QuotedFile("valid", str(tmp_path / "valid.tsv"), file_hash(tmp_path / "valid.tsv")),)
    (run / "card.md").write_text(quoted_text(Quoted(data, {}, None, {})))
    _says(capsys, run, "--last", 2, "--out", tmp_path / "mean")
    assert read_quoted(tmp_path / "mean").data == data
    assert main(["verify", str(tmp_path / "mean")]) == 0


def test_whoever_may_read_the_recipe_of_a_run_may_read_its_weights(run):
    weights = [run / "model.safetensors", *run.glob("checkpoints/*/*.safetensors")]
    assert len(weights) > 2
    assert {each.stat().st_mode for each in weights} == {(run / "recipe.toml").stat().st_mode}


def test_checkpoints_files_and_runs_are_averaged_into_a_file(run, tmp_path, capsys):
    out = tmp_path / "mean.safetensors"
    one = run / "checkpoints" / "step-000001"
    two = tmp_path / "other-2" / "model.safetensors"
    words = (one, two, tmp_path / "other-3", "--out", out, "--json")
    said = json.loads(_says(capsys, *words).out)
    wanted = [one / "model.safetensors", two, tmp_path / "other-3" / "model.safetensors"]
    assert said == {"out": str(out), "mean_of": [str(file) for file in wanted]}
    _assert_same(out, _mean(*wanted))


def test_nothing_is_overwritten(run, tmp_path, capsys):
    before = (run / "model.safetensors").read_bytes()
    for out in (run, run / "model.safetensors"):
        err = _says(capsys, run, "--last", 2, "--out", out, code=2).err
        assert "is there already, and is never overwritten" in err
    assert (run / "model.safetensors").read_bytes() == before


def test_weights_that_do_not_fit_together_are_refused(run, tmp_path, capsys):
    larger = make_run(tmp_path / "larger", "a b c d e f g h")
    err = _says(capsys, run, larger, "--out", tmp_path / "mean", code=2).err
    assert (
        f"'{run / 'model.safetensors'}' and '{larger / 'model.safetensors'}' are weights of" in err
    )
    assert "Only weights of one recipe have a mean: leave one of the two out." in err
    shorter = tmp_path / "shorter.safetensors"
    write_tensors(shorter, dict([*_own(run).items()][1:]))
    err = _says(capsys, run, shorter, "--out", tmp_path / "mean", code=2).err
    assert " in the first and missing in the second. " in err
    other = make_run(tmp_path / "other", "f g h i j")
    err = _says(capsys, run, other, "--out", tmp_path / "mean", code=2).err
    assert "has other sub-words than" in err
    assert not (tmp_path / "mean").exists()


def test_mistakes_are_told_in_a_line_or_two(run, tmp_path, capsys):
    out = ("--out", tmp_path / "mean")
    assert "expected at least two weights, got 1" in _says(capsys, run, *out, code=2).err
    err = _says(capsys, run, "--last", 5, *out, code=2).err
    assert "has 3 checkpoints, but --last asks for 5" in err
    err = _says(capsys, tmp_path / "gone", run, *out, code=2).err
    assert f"average: there is no '{tmp_path / 'gone'}'. '{tmp_path}' holds" in err
    err = _says(capsys, tmp_path, run, *out, code=2).err
    assert "is neither a checkpoint nor a finished run nor a .safetensors file. Give one" in err
    err = _says(capsys, tmp_path / "gone", "--last", 2, *out, code=2).err
    assert f"average: '{tmp_path / 'gone'}' is no run: there is no such folder. " in err
    err = _says(capsys, run / "recipe.toml", "--last", 2, *out, code=2).err
    assert "is no run but a file. Give the folder that regard train made." in err
    err = _says(capsys, tmp_path, "--last", 2, *out, code=2).err
    assert "is no run: there is no recipe.toml in it. Give a run that it holds: other-1, ot" in err
    err = _says(capsys, tmp_path / "other-1", "--last", 2, *out, code=2).err
    assert "has 0 checkpoints, but --last asks for 2. Train with a larger training.keep_" in err
    spoilt = tmp_path / "spoilt.safetensors"
    spoilt.write_bytes(b"no")
    assert "cannot be read as safetensors" in _says(capsys, run, spoilt, *out, code=2).err
    lonely = tmp_path / "far" / "away" / "from" / "all"
    lonely.mkdir(parents=True)
    for name in ("a", "b"):
        weights = (run / "model.safetensors").read_bytes()
        (lonely / f"{name}.safetensors").write_bytes(weights)
    words = (lonely / "a.safetensors", lonely / "b.safetensors", *out)
    assert "belongs to no run" in _says(capsys, *words, code=2).err
    assert "Traceback" not in err
    assert "Example: regard average" in _says(capsys, "--help").out
