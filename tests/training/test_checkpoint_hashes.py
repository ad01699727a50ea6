"""A damaged checkpoint is set aside and the one before it taken; a changed corpus is refused."""

import os
import shutil
from dataclasses import replace

import pytest

from regard.cli import main
from regard.errors import CheckpointError, RunError
from regard.recipes import read_recipe
from regard.training import run
from regard.training.checkpoint_hashes import HASHES, RunHashes, damage_to, set_damaged_aside
from regard.training.checkpoints import checkpoints, read_tensors
from regard.training.events import Notice, Step
from tests.assertions import assert_close
from tests.small_recipe import RECIPE

STEPS = 12
FILES = ["model.safetensors", "optimiser.safetensors", "average.safetensors", "state.json", HASHES]


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipe") / "recipe.toml"
    path.write_text(RECIPE)
    return read_recipe(path, [f"training.steps={STEPS}", "training.ema_decay=0.5"])


@pytest.fixture(scope="module")
def whole(plan, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    list(run(plan, out))
    return out


@pytest.fixture
def begun(whole, tmp_path):
    """The same run, killed before its final weights were there."""
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    (out / "model.safetensors").unlink()
    return out


def flip(path):
    """Flip one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def names(out):
    return sorted(path.name for path in (out / "checkpoints").iterdir())


@pytest.mark.parametrize("file", FILES)
def test_a_flipped_bit_sets_the_checkpoint_aside_and_the_weights_are_the_same(
    plan, whole, begun, file
):
    flip(begun / "checkpoints/step-000012" / file)
    events = list(run(plan, begun, resume=True))
    notes = [one.text for one in events if isinstance(one, Notice)]
    assert notes[0].startswith(
        "checkpoint 'step-000012' is set aside as 'step-000012.damaged': " + file
    )
    assert "going on from step 8" in notes
    assert [one.progress.step for one in events if isinstance(one, Step)] == [9, 10, 11, 12]
    for name, weight in read_tensors(whole / "model.safetensors").items():
        assert_close(name, read_tensors(begun / "model.safetensors")[name], weight, atol=0.0)
    assert names(begun) == ["step-000008", "step-000012", "step-000012.damaged"]


def test_a_second_damage_of_the_same_update_has_a_name_of_its_own(begun):
    folder = begun / "checkpoints"
    for _ in range(3):
        shutil.rmtree(folder / "step-000012", ignore_errors=True)
        shutil.copytree(folder / "step-000008", folder / "step-000012")
        flip(folder / "step-000012/model.safetensors")
        (note,) = set_damaged_aside(checkpoints(folder))
    assert "is set aside as 'step-000012.damaged-3'" in note
    assert len(names(begun)) == 4


def test_without_a_whole_checkpoint_nothing_is_renamed(plan, begun):
    for each in checkpoints(begun / "checkpoints"):
        flip(each / "state.json")
    with pytest.raises(CheckpointError) as error:
        list(run(plan, begun, resume=True))
    assert str(error.value) == (
        f"train: checkpoint '{begun}/checkpoints/step-000012': state.json changed since it was "
        "written, and no other one is whole. Put back a whole copy of it, or delete "
        f"'{begun}/checkpoints': the training then begins again."
    )
    assert names(begun) == ["step-000008", "step-000012"]


@pytest.mark.parametrize(
    "file", ["tokenizer.json", "corpus/train/source.bin", "corpus/valid/target.npy"]
)
def test_what_the_training_reads_is_compared_with_the_newest_checkpoint(plan, whole, begun, file):
    flip(begun / file)
    made_anew = begun / ("tokenizer.json" if file == "tokenizer.json" else file.rpartition("/")[0])
    with pytest.raises(RunError) as error:
        list(run(plan, begun, resume=True))
    assert str(error.value) == (
        f"train: '{begun / file}' changed since 'step-000012' was written, so that the training "
        f"would go on with other data. Put back a whole copy, or delete '{made_anew}': it is made "
        "anew from the recipe's data."
    )
    shutil.rmtree(made_anew) if made_anew.is_dir() else made_anew.unlink()
    list(run(plan, begun, resume=True))
    assert (begun / file).read_bytes() == (whole / file).read_bytes()


def test_a_checkpoint_of_an_older_version_is_taken_as_it_is(plan, begun):
    for each in checkpoints(begun / "checkpoints"):
        (each / HASHES).unlink()
    flip(begun / "corpus/train/source.bin")
    assert Notice("going on from step 12") in list(run(plan, begun, resume=True))


def test_a_finished_run_trains_longer_from_the_checkpoint_before_a_damaged_one(
    plan, whole, tmp_path
):
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    (out / "checkpoints/step-000012/state.json").write_bytes(b"")
    longer = replace(plan, training=replace(plan.training, steps=STEPS + 4))
    steps = [one.progress.step for one in run(longer, out, resume=True) if isinstance(one, Step)]
    assert steps[0] == 9
    assert steps[-1] == STEPS + 4


@pytest.mark.parametrize("words", [["{run}", "--last", "2"], ["{old}", "{new}"]])
def test_no_mean_is_taken_of_a_damaged_checkpoint(begun, tmp_path, capsys, words):
    new = begun / "checkpoints/step-000012"
    flip(new / "model.safetensors")
    named = {"run": begun, "old": begun / "checkpoints/step-000008", "new": new}
    asked = [word.format(**named) for word in words]
    assert main(["average", *asked, "--out", str(tmp_path / "mean")]) == 2
    assert (
        f"checkpoint '{new}': model.safetensors changed since it was written. Put back a whole "
        "copy of it, or take another one."
    ) in capsys.readouterr().err
    assert not (tmp_path / "mean").exists()


def test_files_that_did_not_change_are_read_once(begun, monkeypatch):
    hashes, read = RunHashes(begun), []
    before = hashes.current()
    monkeypatch.setattr(
        "regard.training.checkpoint_hashes.file_hash", lambda path: read.append(path.name) or "new"
    )
    os.utime(begun / "tokenizer.json", (1, 1))
    assert hashes.current() == {**before, "tokenizer.json": "new"}
    assert read == ["tokenizer.json"]


def test_a_whole_checkpoint_has_no_damage(whole):
    assert [damage_to(each) for each in checkpoints(whole / "checkpoints")] == ["", ""]
